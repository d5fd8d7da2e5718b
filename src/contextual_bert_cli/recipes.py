"""From options to a Recipe: names and numbers are translated, nothing is decided."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contextual_bert_cli.choices import number_or_all

if TYPE_CHECKING:
    from contextual_bert.data import ReadSettings, SetPolicy
    from contextual_bert.training import Recipe, TextTask

CHECKPOINT = "bert-base-uncased"  # what the command to run next names where none was given
_TRAINING_OPTIONS = {
    "epochs": "num_train_epochs",
    "batch_size": "per_device_train_batch_size",
    "learning_rate": "learning_rate",
    "masks_per_set": "masks_per_set",
}
# Option -> field of TextTask.
_TEXT_OPTIONS = {
    "label": "label",
    "pair": "pair",
    "question": "question",
    "answer": "answer",
    "answer_start": "answer_start",
    "max_length": "max_length",
    "truncation": "truncation",
    "ordinal": "is_ordinal",
    "order": "order",
    "masking": "masking",
    "mask_rate": "mask_rate",
    "max_mask_rate": "max_mask_rate",
    "scored_tokens": "scored_tokens",
    "from_scratch": "is_from_scratch",
}
_HIDING_OPTIONS = ("masking", "mask_rate", "max_mask_rate", "scored_tokens")
# Option that takes NAME=VALUE -> an example.
_ASSIGNMENTS = {"--set": "weight_decay=0.1", "--model": "hidden_size=256", "--lora": "rank=4"}
# Option for sets alone -> what it is where nobody gave it.
SET_OPTIONS: Mapping[str, Any] = {
    "drop_items": None,
    "drop_prefixes": None,
    "min_count": 1,
    "min_size": 1,
    "max_size": None,
    "longer": "drop",
    "duplicates": "error",
    "separator": None,
}
# Option that says how a file is read -> what it is where nobody gave it.
READ_OPTIONS: Mapping[str, Any] = {
    "delimiter": None,
    "on_bad_row": "error",
    "date_format": None,
    "decimal": None,
    "missing_value": None,
    "encoding": None,
}
# Option -> field of ReadSettings.
_READ_FIELDS = {
    **{option: option for option in READ_OPTIONS},
    "date_format": "date_formats",
    "missing_value": "missing_values",
}
_NUM_EXAMPLES = 2  # features in the command to run next
_PLAIN_OPTIONS = (
    *("items", "customer", "time", "split_column", "split_by", "validation", "test", "split_seed"),
    *(
        "conditioning",
        "min_customers",
        "max_categories",
        "hash_buckets",
        "field_selection",
        "leaks",
        "item_vectors",
        "patience",
        "device",
        "dtype",
        "seed",
    ),
)


def listed(values: Sequence[str] | None) -> tuple[str, ...]:
    """The parts of repeatable options whose values may hold commas.

    Example:
        >>> listed(["a,b", "c"])
        ('a', 'b', 'c')
    """
    return tuple(part for value in values or () for part in (piece.strip() for piece in value.split(",")) if part)


def assigned(settings: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is read as JSON (3, 0.1, true, null, [1]) and otherwise as text.

    Raises:
        ConfigurationError: no "=", or a name twice.

    Example:
        >>> assigned(["hidden_size=256", "lr_scheduler_type=linear"], option="--set")
        {'hidden_size': 256, 'lr_scheduler_type': 'linear'}
    """
    from contextual_bert.errors import ConfigurationError

    found: dict[str, Any] = {}
    for setting in settings or ():
        name, sign, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not sign or not name:
            example = _ASSIGNMENTS[option]
            fix = f"Give NAME=VALUE, for instance {option} {example}."
            raise ConfigurationError("is not allowed", setting=option, value=setting, fix=fix)
        if name in found:
            raise ConfigurationError(f"{option} names {name!r} twice", fix="Give it once.")
        try:
            found[name] = json.loads(text)
        except RecursionError:
            raise ConfigurationError(f"{option} {setting!r:.60}: the value is nested too deep.") from None
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return found


def policy_of(options: Mapping[str, Any]) -> "SetPolicy":
    """The policy of the item filters among the options of a command."""
    from contextual_bert.data import SetPolicy

    lists = {name: listed(options.get(name)) for name in ("drop_items", "drop_prefixes")}
    names = {field.name for field in fields(SetPolicy)} - {"seed", "separator", *lists}
    given = {name: options[name] for name in names if name in options}
    return SetPolicy(**lists, **given, separator=separator_of(options))


def separator_of(options: Mapping[str, Any]) -> str:
    """Return the separator of items in a cell, from the options of a command.

    Raises:
        ConfigurationError: a comma is given for rows that are grouped, where a cell without a mark is one item.
    """
    from contextual_bert.errors import ConfigurationError

    given = options.get("separator")
    if given == "," and listed(options.get("group_by")):
        raise ConfigurationError(
            "--separator ',' is not acted on with --group-by, where a cell is one item, commas and all",
            fix="Leave it out; or put another mark, such as ';', between the items of a cell and give that; or "
            "give lists, in Parquet or JSON Lines.",
        )
    return "," if given is None else given


def reading_of(options: Mapping[str, Any]) -> "ReadSettings":
    """Return the reading settings of a file, from the options of a command."""
    from contextual_bert.data import ReadSettings

    return ReadSettings(
        delimiter=options.get("delimiter"),
        on_bad_row=options.get("on_bad_row") or "error",
        date_formats=tuple(options.get("date_format") or ()),
        decimal=options.get("decimal"),
        missing_values=tuple(options.get("missing_value") or ()),
        encoding=options.get("encoding"),
    )


def check_reads(options: Mapping[str, Any], files: Sequence[str]) -> None:
    """Raise ConfigurationError where an option says how a file is written, and none is named.

    Args:
        options: of the command.
        files: options that name such a file.
    """
    from contextual_bert.errors import ConfigurationError

    given = next((name for name, default in READ_OPTIONS.items() if options.get(name) not in (None, default)), None)
    if given is not None and all(options.get(name) is None for name in files):
        named = " or ".join(f"--{name}" for name in files)
        raise ConfigurationError(
            f"--{given.replace('_', '-')} says how the file of {named} is written",
            fix="Name the file, or leave it out.",
        )


def reading_over(own: "ReadSettings", options: Mapping[str, Any]) -> "ReadSettings":
    """Return the reading settings of a run with those that the options of a command name in their place."""
    given = reading_of(options)
    named = {field for option, field in _READ_FIELDS.items() if options.get(option) not in (None, READ_OPTIONS[option])}
    return replace(own, **{field: getattr(given, field) for field in named})


def text_task_of(options: Mapping[str, Any]) -> "TextTask | None":
    """Return the text task of the options, or None if they name a column of items.

    Raises:
        ConfigurationError: an option for texts without --text, one for sets with it; --text without --checkpoint.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.training import TextTask

    given = {option: options.get(option) for option in ("checkpoint", *_TEXT_OPTIONS)}
    given["order"] = listed(given["order"]) or None
    given = {option: value for option, value in given.items() if value is not None and value is not False}
    if options.get("text") is None:
        if given:
            option = next(iter(given)).replace("_", "-")
            raise ConfigurationError(f"--{option} is for texts", fix="Name their column with --text, or leave it out.")
        return None
    for option, default in SET_OPTIONS.items():
        if options.get(option, default) != default:
            raise ConfigurationError(
                f"--{option.replace('_', '-')} is for sets of items, and --text names a column of texts",
                fix="Leave it out.",
            )
    if "checkpoint" not in given:
        raise ConfigurationError(
            "--text needs --checkpoint: the folder of a BERT, its name on the Hub, or a run on texts to go on from."
        )
    learned = next((option for option in ("label", "answer") if option in given), None)
    hiding = [f"--{option.replace('_', '-')}" for option in _HIDING_OPTIONS if option in given]
    if learned is not None and hiding:
        verb = "are" if hiding[1:] else "is"
        raise ConfigurationError(
            f"{', '.join(hiding)} {verb} for hidden words, which are learned where nothing else is, and --{learned} "
            "names something",
            fix="Leave one of the two out.",
        )
    fields = {_TEXT_OPTIONS.get(option, option): value for option, value in given.items()}
    if "scored_tokens" in fields:
        fields["scored_tokens"] = number_or_all(fields["scored_tokens"], option="--scored-tokens")
    return TextTask(text=options["text"], **fields)


# Options by which commands read the same rows in the same way.
_READING_OPTIONS = (
    *("items", "text", "label", "pair", "question", "answer", "answer_start", "checkpoint", "max_length"),
    *("ordinal", "order"),
    *("group_by", "customer", "time", "schema", "exclude", *SET_OPTIONS),
    *("split", "split_column", "validation_data", "test_data", "split_by", *READ_OPTIONS),
)


def same_options(choices: Mapping[str, Any]) -> list[str]:
    """Return the options of a command that ``train`` must be given too, so that it reads the same sets or texts."""
    chosen: list[str] = []
    for name in _READING_OPTIONS:
        value, flag = choices.get(name), f"--{name.replace('_', '-')}"
        if value is True:
            chosen.append(flag)
        elif name in ("date_format", "missing_value"):  # which may hold commas
            chosen += [part for each in value or () for part in (flag, each)]
        elif value not in (None, False) and value != {**SET_OPTIONS, **READ_OPTIONS}.get(name):
            chosen += [flag, ",".join(listed(value)) if isinstance(value, list) else str(value)]
    return chosen


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
    if choices.get("text") is None or choices.get("label") is not None or choices.get("answer") is not None:
        return []
    return [
        "",
        "No label and no answer is named. So the command below learns hidden words, and each other column is context, "
        f"a label too. To learn a label, give {command} --label COLUMN; for answers, --question and --answer.",
    ]


def use_of(recipe: "Recipe", directory: Path) -> list[str]:
    """Return the command that uses a finished run, with an item of its vocabulary and its own separator."""
    context = context_of(recipe)
    if recipe.texts is None:
        separator = recipe.policy.separator
        given = ["--separator", separator] if separator != "," else []
        query = f"{known_item(directory, separator)}{separator}[MASK]"
        return ["complete", str(directory), "--set", query, *given, *context, "--top", "5"]
    if recipe.texts.answer is not None:
        return ["predict", str(directory), "--question", "...", "--text", "...", *context]
    if recipe.texts.label is None:
        return ["sample", str(directory), *context]
    pair = ["--pair", "..."] if recipe.texts.pair is not None else []
    return ["predict", str(directory), "--text", "...", *pair, *context]


def context_of(recipe: "Recipe") -> list[str]:
    """Return an example of --context for a finished run, of values that it knows; empty where it has no context."""
    from contextual_bert.context import ContextSchema
    from contextual_bert.json_text import json_text

    schema = ContextSchema.from_dict(dict(recipe.schema)) if recipe.schema is not None else None
    values: dict[str, Any] = {}
    for feature in schema.features if schema is not None else ():
        value = feature.example
        if value is not None and len(values) < _NUM_EXAMPLES:
            values[feature.name] = value
    return ["--context", json_text(values, ensure_ascii=False)] if schema is not None else []


def known_item(directory: Path, separator: str) -> str:
    """Return an item of a run on sets that can be written between separators."""
    from contextual_bert.models import ContextualBertProcessor

    items = ContextualBertProcessor.from_pretrained(directory).items.values
    return next((item for item in items if separator not in item and item == item.strip()), items[0])


def text_task_of_run(directory: Path) -> "TextTask | None":
    """Return the text task of a run, or None for a run on sets and for a model without a recipe."""
    from contextual_bert.training.recipe import RECIPE_FILE, Recipe

    return Recipe.load(directory).texts if (directory / RECIPE_FILE).is_file() else None


def reading_of_run(directory: Path) -> "ReadSettings":
    """Return the reading settings of a run's table. A folder without a recipe has the defaults."""
    from contextual_bert.data import ReadSettings
    from contextual_bert.training.recipe import RECIPE_FILE, Recipe

    return Recipe.load(directory).reading if (directory / RECIPE_FILE).is_file() else ReadSettings()


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
                f"--overwrite would remove {start}, which the run starts from", fix="Give another --output."
            )


def method_of(checkpoint: str | None) -> str | None:
    """Return the method of the run on texts that is gone on from; None where there is none, or where it is a BERT."""
    if checkpoint is None:
        return None
    from contextual_bert.runs import text_starts  # reads its config with transformers

    return text_starts.method_of(checkpoint)


def check_tables(data: Path | str, *others: Path | str | None) -> None:
    """Raise DataError where a table is not there. Models and training are imported afterwards."""
    from contextual_bert.data.readers import check_exists

    for path in (data, *others):
        if path is not None:
            check_exists(path)


def recipe_of(options: Mapping[str, Any], *, has_checkpoint: bool = True) -> "Recipe":
    """The recipe that the options of a command describe.

    Args:
        options: of the command.
        has_checkpoint: whether that of texts is one, and not a name to be replaced, which is not looked for.

    Raises:
        ConfigurationError, SchemaError: an option that cannot work.
    """
    from contextual_bert.context import ContextSchema
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.runs.prepared_data import check_unlearned
    from contextual_bert.training import Recipe

    if (options.get("items") is None) == (options.get("text") is None):
        raise ConfigurationError("Name either the column of items with --items, or one of texts with --text.")
    training = assigned(options.get("settings"), option="--set")
    for option, name in _TRAINING_OPTIONS.items():
        if options.get(option) is not None:
            if name in training:
                raise ConfigurationError(
                    f"--{option.replace('_', '-')} and --set {name} say the same", fix="Give one of them."
                )
            training[name] = options[option]
    if options.get("compile_model"):
        training["torch_compile"] = True
    schema: Path | None = options.get("schema")
    split: Path | None = options.get("split")
    init_from: Path | None = options.get("init_from")
    texts = text_task_of(options)
    goes_on = texts is not None and has_checkpoint and method_of(texts.checkpoint) is not None
    bringing = {"--schema": schema is not None, "--init-from": init_from is not None, "--checkpoint": goes_on}
    brings = next((option for option, does in bringing.items() if does), None)
    if brings is not None and listed(options.get("exclude")):
        raise ConfigurationError(
            f"--exclude says what of the table is no context, and {brings} brings the features",
            fix="Leave one of them out; inspect writes a schema without these columns: contextual-bert inspect "
            "... --exclude COLUMN.",
        )
    features = ContextSchema.load(schema) if schema is not None else None
    recipe = Recipe(
        data=str(options["data"]),
        texts=texts,
        split=str(split) if split is not None else None,
        policy=policy_of(options),
        reading=reading_of(options),
        schema=features.to_dict() if features is not None else None,
        group_by=listed(options.get("group_by")),
        exclude=listed(options.get("exclude")),
        sensitive=listed(options.get("sensitive")),
        model=assigned(options.get("model"), option="--model"),
        training=training,
        init_from=str(init_from) if init_from is not None else None,
        trained_weights=options.get("trained_weights") or "all",
        lora=assigned(options.get("lora"), option="--lora"),
        **{name: str(options[name]) for name in ("validation_data", "test_data") if options.get(name) is not None},
        **{name: options[name] for name in _PLAIN_OPTIONS if name in options},
    )
    check_unlearned(features, recipe, file=str(schema))
    return recipe
