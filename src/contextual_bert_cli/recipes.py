"""From options to a Recipe: names and numbers are translated, nothing is decided."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contextual_bert.nouns import agreeing
from contextual_bert.options import declared_options
from contextual_bert.training.setting_checks import SettingsWithOptions
from contextual_bert.training.tasks import TEXT_TASKS
from contextual_bert_cli.inputs import check_recipe_columns
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.recipe_options import TYPED, data_options, is_given, recipe_options, typed, values_of

if TYPE_CHECKING:
    from contextual_bert.data import ReadSettings, SetPolicy
    from contextual_bert.inference.saved_files import TrainedSets, TrainedTexts
    from contextual_bert.training import AnyTextTask, Recipe, TaskSettings

CHECKPOINT = "bert-base-uncased"  # what the command to run next names where none was given
_HIDING_OPTIONS = ("masking", "phrases", "mask_rate", "max_mask_rate", "scored_tokens")
_NUM_EXAMPLES = 2  # features in the command to run next
# Options of inspect that the schema holds which it writes.
_OF_SCHEMA = ("min_customers", "max_categories", "hash_buckets", "leaks", "sensitive")


def lacks_checkpoint(options: Mapping[str, Any]) -> bool:
    """Return whether the options describe a task on texts that cannot do without a checkpoint, and name none."""
    if options.get("objective") in ("causal", "bidirectional", "contrastive") or options.get("target") is not None:
        return False
    return options.get("text") is not None and options.get("checkpoint") is None


def policy_of(options: Mapping[str, Any]) -> "SetPolicy":
    """The policy of the item filters among the options of a command."""
    from contextual_bert.data import SetPolicy

    values = values_of(SetPolicy, options)
    values["separator"] = separator_of(options)
    return SetPolicy(**values)


def separator_of(options: Mapping[str, Any]) -> str:
    """Return the separator of items in a cell, from the options of a command.

    Raises:
        ConfigurationError: a comma is given for rows that are grouped, where a cell without a mark is one item.
    """
    from contextual_bert.errors import ConfigurationError

    given = options.get("separator")
    if given == "," and split_commas(options.get("group_by")):
        raise ConfigurationError(
            "',' is not acted on with --group-by, where a cell is one item, commas and all",
            fix="Leave it out; or put another mark, such as ';', between the items of a cell and give that; or "
            "give lists, in Parquet or JSON Lines.",
            setting="--separator",
        )
    return "," if given is None else given


def reading_of(options: Mapping[str, Any]) -> "ReadSettings":
    """Return the reading settings of a file, from the options of a command."""
    from contextual_bert.data import ReadSettings

    return ReadSettings(**values_of(ReadSettings, options))


def check_reads(options: Mapping[str, Any], files: Sequence[str]) -> None:
    """Raise ConfigurationError where an option says how a file is written, and none is named.

    Args:
        options: of the command.
        files: options that name such a file.
    """
    from contextual_bert.data import ReadSettings
    from contextual_bert.errors import ConfigurationError

    declared = declared_options(ReadSettings).values()
    given = next((each.flag for each in declared if is_given(each, options.get(each.key))), None)
    if given is not None and all(options.get(name) is None for name in files):
        named = " or ".join(f"--{name}" for name in files)
        raise ConfigurationError(
            f"says how the file of {named} is written",
            setting=given,
            fix="Name the file, or leave it out.",
        )


def reading_over(own: "ReadSettings", options: Mapping[str, Any]) -> "ReadSettings":
    """Return the reading settings of a run with those that the options of a command name in their place."""
    from contextual_bert.data import ReadSettings

    return replace(own, **values_of(ReadSettings, options))


def evaluation_overrides(
    asked: Mapping[str, object], options: Mapping[str, Any], *, reading: "ReadSettings", group_by: Sequence[str] | None
) -> dict[str, Any]:
    """Return the fields of a run's recipe that a command which evaluates it says otherwise.

    Args:
        asked: name of a file or column -> value, None where it is not given.
        options: those that say how the file of --data is written; without --data they say nothing.
        reading: the settings of the run.
        group_by: the option, None where it is not given.
    """
    found: dict[str, Any] = {name: str(value) for name, value in asked.items() if value is not None}
    if "data" in found:
        found["reading"] = reading_over(reading, options)
    if group_by is not None:
        found["group_by"] = split_commas(group_by)
    return found


def reading_of_trained(trained: "TrainedSets | TrainedTexts", directory: Path) -> "ReadSettings":
    """Return the reading settings of the table that a run, or the run of an export, was trained on.

    Raises:
        RunDirectoryError: the folder names settings that this version does not have.
    """
    from contextual_bert.data import ReadSettings
    from contextual_bert.errors import RunDirectoryError
    from contextual_bert.places import PathPlace

    try:
        return ReadSettings(**trained.reading)
    except TypeError as error:
        problem = "says how its table was read in another version's words"
        fix = "Train again, or export the run again."
        raise RunDirectoryError(problem, place=PathPlace(directory), fix=fix) from error


def task_of(options: Mapping[str, Any]) -> "TaskSettings":
    """Return the task that the options of a command describe.

    Raises:
        ConfigurationError: an option for texts without --text, one for sets with it.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import SettingsPlace
    from contextual_bert.training import SetCompletion

    if (options.get("items") is None) == (options.get("text") is None):
        problem = "Name either the column of items with --items, or one of texts with --text."
        raise ConfigurationError(problem, place=SettingsPlace(("--items", "--text")))
    on_texts = text_task_of(options)
    if on_texts is not None:
        return on_texts
    return SetCompletion(**values_of(SetCompletion, options), policy=policy_of(options))


def text_task_of(options: Mapping[str, Any]) -> "AnyTextTask | None":
    """Return the task on texts that the options describe, or None if they name no column of texts.

    Raises:
        ConfigurationError: as ``task_of``.
    """
    from contextual_bert.data import SetPolicy
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.training import SetCompletion, task_on_texts

    of_texts = {name: each for kind in TEXT_TASKS for name, each in declared_options(kind).items()}
    values = {name: value for kind in TEXT_TASKS for name, value in values_of(kind, options).items()}
    of_sets = {**declared_options(SetPolicy), **declared_options(SetCompletion)}
    if "text" not in values:
        if others := [name for name in values if name not in of_sets]:
            raise ConfigurationError(
                "is for texts",
                setting=of_texts[others[0]].flag,
                fix="Name their column with --text, or leave it out.",
            )
        return None
    for name, each in of_sets.items():
        if name not in of_texts and is_given(each, options.get(each.key)):
            advice = "Name a run to go on from as the checkpoint" if name == "init_from" else "Leave it out"
            raise ConfigurationError(
                "is for sets of items, and --text names a column of texts", setting=each.flag, fix=f"{advice}."
            )
    learned = next((name for name in ("label", "answer") if name in values), None)
    hiding = [of_texts[name].flag for name in _HIDING_OPTIONS if name in values]
    if learned is not None and hiding:
        verb = agreeing("are", len(hiding))
        raise ConfigurationError(
            f"{verb} for hidden words, which are learned where nothing else is, and --{learned} names something",
            setting=", ".join(hiding),
            fix="Leave one of the two out.",
        )
    return task_on_texts(**values)


def preset_lines(recipe: "Recipe") -> list[str]:
    """Return a sentence on what the preset of a recipe gave; none without a preset."""
    from contextual_bert.training.presets import in_flags

    if recipe.preset is None:
        return []
    return [f"--preset {recipe.preset} gives {in_flags(recipe.preset_settings or {})}"]


def same_options(choices: Mapping[str, Any]) -> list[str]:
    """Return the options of a command that ``train`` must be given too, so that it reads the same sets or texts."""
    return typed([name for name in data_options() if name not in _OF_SCHEMA], choices)


def free_folder(wanted: str) -> str:
    """Return the name of a folder that is not there yet: the wanted one, or it with a number.

    Example:
        >>> free_folder("runs/no-such-run")
        'runs/no-such-run'
    """
    number, found = 1, wanted
    while Path(found).exists():
        number += 1
        found = f"{wanted}-{number}"
    return found


def hidden_words_lines(choices: Mapping[str, Any], *, command: str) -> list[str]:
    """Return the remark that a command on texts without a label leads to training on hidden words."""
    named = ("label", "answer", "objective", "target")
    if choices.get("text") is None or any(choices.get(name) is not None for name in named):
        return []
    return [
        "",
        "No label and no answer is named. So the command below learns hidden words, and each other column is context, "
        f"a label too. To learn a label, give {command} --label COLUMN; for answers, --question and --answer.",
    ]


def use_of(recipe: "Recipe", directory: Path) -> list[str]:
    """Return the command that uses a finished run, with an item of its vocabulary and its own separator."""
    task = recipe.task
    if task.has_items:
        separator = recipe.set_task.policy.separator
        item, given = known_item(directory, separator), ["--separator", separator] if separator != "," else []
        # An item may be one that only a sensitive history holds.
        is_alone = recipe.set_task.hide == "set" or has_sensitive_history(recipe)
        query = "[MASK]" if is_alone else f"{item}{separator}[MASK]"
        context = example_context(recipe, item=item)
        return [task.command, str(directory), "--set", query, *given, *context, "--top", "5"]
    if not task.reads_context:  # what reads it is trained
        columns = ["TABLE", "--text", "...", "--label", "...", "--conditioning", "bilstm"]
        return ["train", *columns, "--elmo", str(directory), "--output", "..."]
    context = example_context(recipe)
    asked = (*task.asked, *(("--pair",) if recipe.text_task.pair is not None and recipe.text_task.reads_pairs else ()))
    return [task.command, str(directory), *(word for name in asked for word in (name, "...")), *context]


def example_context(recipe: "Recipe", *, item: str | None = None) -> list[str]:
    """Return an example of --context for a finished run, of values that it reads; empty where it reads no context.

    Args:
        recipe: of the run.
        item: that it knows, for histories.
    """
    from contextual_bert.context import ContextSchema
    from contextual_bert.json_text import json_text
    from contextual_bert.runs.model_factory import has_context

    if recipe.schema is None or not has_context(recipe):
        return []
    values: dict[str, Any] = {}
    for feature in ContextSchema.from_dict(dict(recipe.schema)).features:
        is_told = feature.shares_items and item is not None and not feature.sensitive
        value = [[item]] if is_told else feature.example
        if value is not None and not feature.silenced and len(values) < _NUM_EXAMPLES:
            values[feature.name] = value
    return ["--context", json_text(values, ensure_ascii=False)]


def has_sensitive_history(recipe: "Recipe") -> bool:
    """Return whether a feature of a recipe's schema is a history whose values are withheld."""
    from contextual_bert.context import ContextSchema

    schema = ContextSchema.from_dict(dict(recipe.schema)) if recipe.schema is not None else None
    return schema is not None and any(each.shares_items and each.sensitive for each in schema.features)


def known_item(directory: Path, separator: str) -> str:
    """Return an item of a run on sets that can be written between separators."""
    from contextual_bert.models import ContextualBertProcessor

    items = ContextualBertProcessor.from_pretrained(directory).items.values
    return next((item for item in items if separator not in item and item == item.strip()), items[0])


def recipe_of_run(directory: Path) -> "Recipe | None":
    """Return the recipe of a run; None of a model without one."""
    from contextual_bert.training.recipe import RECIPE_FILE, Recipe

    return Recipe.load(directory) if (directory / RECIPE_FILE).is_file() else None


def check_apart(starts: Iterable[str | Path | None], cleared: Iterable[Path]) -> None:
    """Raise ConfigurationError where --overwrite would remove what a run starts from.

    Args:
        starts: folders, or names on the Hub.
        cleared: folders of the runs that are replaced.
    """
    from contextual_bert.errors import ConfigurationError

    folders = [folder.resolve() for folder in cleared]
    for start in starts:
        if start is not None and any(Path(start).resolve().is_relative_to(folder) for folder in folders):
            raise ConfigurationError(
                f"would remove {start}, which the run starts from", fix="Give another --output.", setting="--overwrite"
            )


def method_of_start(checkpoint: str | None) -> str | None:
    """Return the method of the run on texts that is gone on from; None where there is none, or where it is a BERT."""
    if checkpoint is None or _is_of_another_kind(Path(checkpoint)):
        return None
    from contextual_bert.runs import text_starts  # reads its config with transformers

    return text_starts.checkpoint_method(checkpoint)


def _is_of_another_kind(folder: Path) -> bool:
    """Return True if a folder's config says that its model is none of this package, without transformers."""
    from contextual_bert.errors import RunDirectoryError
    from contextual_bert.json_text import read_json_object

    if not folder.is_dir():  # a name on the Hub
        return False
    try:
        return read_json_object(folder / "config.json").get("model_type") != "contextual_bert"
    except RunDirectoryError:
        return True  # who starts from it says what is amiss


def _check_not_inferred(values: Mapping[str, Any], brings: str, *, has_words: bool) -> None:
    """Raise ConfigurationError for a setting of an inferred schema where none is inferred.

    Args:
        values: of the recipe, those that are given.
        brings: the option that brings the features.
        has_words: the tokens are words of the table, which ``min_customers`` chooses.
    """
    from contextual_bert.errors import ConfigurationError

    # Of a run that is gone on from, min_customers says which new values are named.
    is_read = has_words or brings != "--schema"
    for name in ("min_customers", "max_categories", "hash_buckets", "leaks"):
        if name in values and not (name == "min_customers" and is_read):
            raise ConfigurationError(
                f"is about features that are inferred, and {brings} brings them",
                setting=name,
                value=values[name],
                fix="Leave it out. Where the schema is to follow it, give it to contextual-bert inspect.",
            )


def _with_checkpoint_of_preset(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a command with the checkpoint that its preset names, without which some tasks are none."""
    from contextual_bert.training.presets import get_preset

    if options.get("preset") is None or options.get("text") is None or options.get("checkpoint") is not None:
        return options
    return {**options, "checkpoint": get_preset(options["preset"]).task.get("checkpoint")}


def _with_preset(
    task: "TaskSettings", values: dict[str, Any], training: dict[str, Any], options: Mapping[str, Any]
) -> tuple["TaskSettings", dict[str, Any], dict[str, Any]]:
    """Return a task and the values of a recipe with what its preset gives beside what was typed.

    Args:
        task: of the options.
        values: of the recipe; ``preset`` is among them.
        training: its training settings.
        options: of the command.

    Raises:
        ConfigurationError: the preset is for another task.
    """
    from contextual_bert.training.presets import check_task_of_preset, get_preset, settings_of_preset

    name = values["preset"]
    check_task_of_preset(name, kind=task.kind, noun=task.noun)
    declared = recipe_options()
    typed = {declared[key].field for key in options.get(TYPED, ()) if key in declared}
    given = {**dict.fromkeys(typed), **values_of(type(task), options), **values, "training": training}
    gives = settings_of_preset(name, given)
    of_task = {field: gives[field] for field in get_preset(name).task if field in gives}
    whole = {
        **{field: value for field, value in gives.items() if field not in of_task},
        **values,
        "model": {**gives["model"], **values.get("model", {})},
        "preset_settings": gives,
    }
    whole.pop("training")
    return replace(task, **of_task), whole, {**gives["training"], **training}


def recipe_of(options: Mapping[str, Any], *, has_checkpoint: bool = True) -> "Recipe":
    """Return the recipe that the options of a command describe.

    What needs torch, the config of a checkpoint, is read after all else was checked.

    Args:
        options: of the command.
        has_checkpoint: whether that of texts is one, and not a name to be replaced, which is not looked for.

    Raises:
        ConfigurationError, SchemaError: an option that cannot work.
        UnknownNameError: a column that the table lacks.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.training import Recipe

    task = task_of(_with_checkpoint_of_preset(options))
    values = values_of(Recipe, options)
    if TYPED in options and "conditioning" not in options[TYPED] and "preset" in values:
        values.pop("conditioning", None)  # it is what the command takes where no preset says another
    if not task.reads_context:
        values.setdefault("conditioning", "none")
    training = values.pop("training", {})
    for name, value in values_of(SettingsWithOptions, options).items():
        if name in training:
            flag = declared_options(SettingsWithOptions)[name].flag
            raise ConfigurationError(f"and --set {name} say the same", setting=flag, fix="Give one of them.")
        training[name] = value
    explicit = dict(values)
    if "preset" in values:
        task, values, training = _with_preset(task, values, training, options)
    file = values.pop("schema", None)
    features = None
    if file is not None:
        from contextual_bert.context import ContextSchema  # reads with numpy, for which a wrong option does not wait

        features = ContextSchema.load(Path(file))
    recipe = Recipe(
        data=str(options["data"]),
        task=task,
        reading=reading_of(options),
        schema=features.to_dict() if features is not None else None,
        training=training,
        **values,
    )
    check_recipe_columns(recipe)
    if has_checkpoint and task.checkpoint_to_read is not None:
        from contextual_bert.runs.run_directory import check_text_start

        check_text_start(Path(task.checkpoint_to_read))
    goes_on = has_checkpoint and method_of_start(task.checkpoint_to_read) is not None
    starts = task.run_to_start_from is not None
    bringing = {"--schema": file is not None, "--init-from": starts, "--checkpoint": goes_on}
    brings = next((option for option, does in bringing.items() if does), None)
    if brings is not None and "exclude" in values:
        raise ConfigurationError(
            f"says what of the table is no context, and {brings} brings the features",
            fix="Leave one of them out; inspect writes a schema without these columns: contextual-bert inspect "
            "... --exclude COLUMN.",
            setting="--exclude",
        )
    if brings is not None:
        has_words = options.get("text") is not None and task.checkpoint_to_read is None
        _check_not_inferred(explicit, brings, has_words=has_words)
    if features is not None:
        from contextual_bert.runs.run_schema import check_features

        check_features(features, recipe, file=str(file))
    return recipe
