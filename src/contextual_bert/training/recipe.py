"""A run, fully described: what is trained, on which data, how. A function that returns a Recipe is our config file.

Paths and plain values only, so that ``recipe.json`` says all of it. This module reads no data and builds no model. Its
fields declare their options, so it imports nothing heavy: what checks them imports when a recipe is made.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from contextual_bert import context, training
from contextual_bert.context.limits import MAX_BUCKETS, MAX_CATEGORIES, MIN_CUSTOMERS
from contextual_bert.data.policies import SetPolicy
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.errors import ConfigurationError, RunDirectoryError, UnknownNameError, shown
from contextual_bert.json_text import read_json_object
from contextual_bert.manifest import RECIPE_FILE, RECIPE_FORMAT, check_has_recipe, check_recipe_format
from contextual_bert.options import CONTEXT, MAIN, SETS, SPLIT, TEXTS, TRAINING, Option
from contextual_bert.places import JsonPlace, PathPlace
from contextual_bert.training.presets import (
    PRESETS,
    PresetName,
    changed_fields,
    check_task_of_preset,
    preset_help,
    with_preset,
)
from contextual_bert.training.task_choice import settings_of_kind
from contextual_bert.training.tasks import (
    AnyTextTask,
    SetCompletion,
    TaskSettings,
)

SplitBy = Literal["customer", "time", "row"]
ItemVectors = Literal["cooccurrence", "random"]
TrainedWeights = Literal["all", "new", "lora"]
FieldSelection = Literal["auto", "off"]
Leaks = Literal["drop", "keep"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["auto", "float32", "bfloat16"]
# How a split is made where no file has it -> what it is where nobody said so.
SPLIT_FIELDS: Mapping[str, Any] = {"time": None, "split_by": None, "validation": 0.1, "test": 0.1, "split_seed": 0}
BEST_METRIC = "metric_for_best_model"
# Settings by which the table comes with its parts.
READY_PARTS = ("split_column", "validation_data", "test_data")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of ``contextual_bert.runs.run`` for training and evaluating one model.

    Args:
        data: path of the table, or a name for one in memory, which ``run`` and ``prepare`` take beside the recipe.
        task: what is learned from which columns: ``SetCompletion``, ``Classification``, ``Tagging``,
            ``QuestionAnswering`` or ``MaskedText``.
        customer: column that says whose set or text it is: the unit of splits and intervals; None: each is its own.
        time: column that says when; with ``split_by='time'`` the latest sets are the test.
        split: path of a split file; None makes a split from the next settings.
        split_column: column that says the part of each row: "train", "validation" or "test", see ``split_by_column``.
        validation_data: path of a table that is the validation part; ``data`` is then the rest.
        test_data: path of a table that is the test part.
        split_by: "customer", "time" or "row"; None takes the customer if one is named, else the row.
        validation: share of the data to choose checkpoints by.
        test: share of the data for the final numbers.
        split_seed: seed of the split.
        reading: how the file is read: delimiter, broken rows, spelling of dates.
        schema: ``ContextSchema.to_dict()``; None infers one from the training part.
        exclude: columns that are no context when the schema is inferred.
        sensitive: columns of the context whose values stand in no card, report, log or OpenAPI document.
        min_customers: the fewest customers of a value, or a bin, of a schema that is inferred; without a customer
            column the fewest rows. Below 10 a value may be about single people.
        max_categories: the most values of a feature with a vector of their own, of a schema that is inferred.
        hash_buckets: how many vectors the other values of a feature share; 0: none, they are unknown. None: as many as
            customers allow, see ``infer_schema``.
        field_selection: "auto" silences the features that the training part shows to say nothing
            (docs/decisions/036); "off" keeps all. ``prepare`` alone silences none.
        leaks: columns that give the set, or the label, away, such as a sum over its items: "drop" leaves them out of a
            schema that is inferred, "keep" is for what is known before the set is.
        conditioning: name of the method, or of a baseline.
        name: the row's name in tables and folders, where it is not the method's: for a control, or another setting.
        is_control: a row that no one would deploy; it shows what the methods' gains are due to.
        is_context_shuffled: every set gets the context of another, a new one each epoch; implies a control.
        item_vectors: what a new model starts with: "cooccurrence" takes the first vectors of the items from which items
            are together in the training sets (docs/decisions/010), "random" draws them like all other weights; None is
            "cooccurrence", or with ``init_from`` the vectors of that run.
        trained_weights: for texts: "all"; "new", which leaves the checkpoint's as they are; or "lora", which adds
            low-rank changes of its queries and values to what is new.
        lora: ``rank``, ``alpha`` and ``dropout`` of ``add_lora`` that differ from its defaults.
        model: fields of ContextualBertConfig that differ from ``DEFAULT_MODEL``.
        training: fields of ContextualTrainingArguments that differ from its defaults.
        patience: stop after so many epochs without a better value of ``metric_for_best_model``, which is the validation
            cross-entropy unless ``training`` names another; None never stops early.
        device: "auto", "cpu", "cuda" or "mps".
        dtype: "float32", "bfloat16" (autocast), or "auto": the faster of the two on this device. Becomes the one that
            is taken, so that a run states what it was trained in.
        seed: of initialisation, masks, dropout and order.
        preset: name of the settings of a paper, see ``training.presets``: a field that has its default takes the
            preset's value. To have a default in its place, change the recipe afterwards: ``recipe.changed(...)``.
        preset_settings: what the preset gave, field -> value. It is filled in, and a recipe that has it is not filled
            again.
        forgotten: customers whose rows are in no part, as salted hashes of ``data.forgotten``: ``forget`` writes them.

    Raises:
        ConfigurationError: a setting that cannot work.

    Example:
        >>> recipe = Recipe(data="days.parquet", task=SetCompletion(items="items"), conditioning="concat")
        >>> recipe.with_seed(3).seed
        3
    """

    data: str
    task: TaskSettings
    customer: Annotated[
        str | None,
        Option(
            "Column that says whose set or text it is: the unit of splits and intervals.",
            MAIN,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "Column that says when: a date, a timestamp, or text as 2016-03-05.",
            SPLIT,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    split: Annotated[
        str | None,
        Option(
            "Split file of the command split, made for this table.",
            MAIN,
            metavar="FILE",
            form="path",
            names="file",
            is_of_data=True,
        ),
    ] = None
    split_column: Annotated[
        str | None,
        Option(
            "Column that says the part of each row: train, validation or test.",
            SPLIT,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    validation_data: Annotated[
        str | None,
        Option(
            "Table that is the validation part; DATA is the rest.",
            SPLIT,
            metavar="FILE",
            form="path",
            names="table",
            is_of_data=True,
        ),
    ] = None
    test_data: Annotated[
        str | None,
        Option(
            "Table that is the test part; DATA is the rest.",
            SPLIT,
            metavar="FILE",
            form="path",
            names="table",
            is_of_data=True,
        ),
    ] = None
    split_by: Annotated[
        SplitBy | None,
        Option("How to split without a split file; default: customer if named.", SPLIT, is_of_data=True),
    ] = None
    validation: Annotated[
        float,
        Option(
            "Share, 0 to below 1, that chooses the best epoch (0: the last is kept).",
            SPLIT,
            minimum=0.0,
            is_of_data=True,
        ),
    ] = 0.1
    test: Annotated[
        float,
        Option("Share, 0 to below 1, that the final numbers come from.", SPLIT, minimum=0.0, is_of_data=True),
    ] = 0.1
    split_seed: Annotated[
        int,
        Option("Seed of the split, beside which nothing random decides it.", SPLIT, minimum=0, is_of_data=True),
    ] = 0
    reading: ReadSettings = field(default_factory=ReadSettings)
    schema: Annotated[
        Mapping[str, Any] | None,
        Option(
            "schema.json of inspect; left out, it is inferred from the table.",
            MAIN,
            metavar="FILE",
            form="path",
            names="file",
            is_of_data=True,
        ),
    ] = None
    exclude: Annotated[
        tuple[str, ...],
        Option("Columns that are no context; repeatable or with commas.", CONTEXT, metavar="A,B", is_of_data=True),
    ] = ()
    sensitive: Annotated[
        tuple[str, ...],
        Option(
            "Columns of the context whose values stand in no card, report, log or OpenAPI document; as --exclude.",
            CONTEXT,
            metavar="A,B",
            is_of_data=True,
        ),
    ] = ()
    min_customers: Annotated[
        int,
        Option(
            "Fewest customers of a value, or a bin of numbers, in an inferred schema; without --customer fewest rows. "
            "Below 10 the run may hold values of single people.",
            CONTEXT,
            minimum=1,
            is_of_data=True,
        ),
    ] = MIN_CUSTOMERS
    max_categories: Annotated[
        int,
        Option(
            "Most values of a column with a vector of their own in an inferred schema, the most frequent ones.",
            CONTEXT,
            minimum=1,
            is_of_data=True,
        ),
    ] = MAX_CATEGORIES
    hash_buckets: Annotated[
        int | None,
        Option(
            "How many vectors the rarer values of a column share, by a hash; 0: none, they count as unknown. Left "
            "out: one for each --min-customers of them.",
            CONTEXT,
            minimum=0,
            maximum=MAX_BUCKETS,
            is_of_data=True,
        ),
    ] = None
    field_selection: Annotated[
        FieldSelection,
        Option(
            "auto: fields of the context that the training part shows to say nothing are not read; off: all are read. "
            "Answers to questions keep all fields.",
            CONTEXT,
        ),
    ] = "auto"
    leaks: Annotated[
        Leaks,
        Option(
            "Columns that give the set or label away, as a sum over its items does: left out of an inferred schema, or "
            "kept.",
            CONTEXT,
            is_of_data=True,
        ),
    ] = "drop"
    conditioning: Annotated[
        str,
        Option(
            "none, concat, new_position, global_state, global_state_update, state_flow, film, or a baseline: "
            "popularity, context_popularity, of sets item_knn, bag, bag_context, of histories g_top_freq, p_top_freq, "
            "gp_top_freq, tifu_knn, up_cf; for texts also multi_attribute, bert_concat_word, bert_concat_text, "
            "bert_context_as_text, nsc_upa, huapa, chim_embedding, chim_encoder, chim_attention, chim_classifier, and, "
            "each with _context too, ngrams, fasttext, cnn, rnn, bigru, bilstm, nsc, nsc_la, upnn, for tags "
            "bilstm_crf; for tags also hmm; default: that of the run gone on from, else global_state_update.",
            MAIN,
            metavar="METHOD",
            has_default=False,
        ),
    ] = "global_state_update"
    name: str | None = None
    is_control: bool = False
    is_context_shuffled: bool = False
    item_vectors: Annotated[
        ItemVectors | None,
        Option(
            "What the item vectors of a new model say: what each comes with in training sets, or nothing "
            "(default cooccurrence).",
            SETS,
        ),
    ] = None
    trained_weights: Annotated[
        TrainedWeights,
        Option(
            "With --text: train all weights, only those the checkpoint lacks, or beside those low-rank changes of its "
            "queries and values. Of methods: a baseline trains all that is its own.",
            TEXTS,
        ),
    ] = "all"
    lora: Annotated[
        Mapping[str, Any],
        Option(
            "With --trained-weights lora: rank, alpha or dropout; repeatable.",
            TEXTS,
            metavar="NAME=VALUE",
        ),
    ] = field(default_factory=dict[str, Any])
    model: Annotated[
        Mapping[str, Any],
        Option(
            "Any field of the model's config, e.g. hidden_size=256; repeatable.",
            TRAINING,
            metavar="NAME=VALUE",
        ),
    ] = field(default_factory=dict[str, Any])
    training: Annotated[
        Mapping[str, Any],
        Option(
            "Any other training argument, e.g. weight_decay=0.1; repeatable.",
            TRAINING,
            name="set",
            metavar="NAME=VALUE",
        ),
    ] = field(default_factory=dict[str, Any])
    patience: Annotated[
        int | None,
        Option(
            "Stop after so many epochs without a better validation cross-entropy, of tags accuracy, or whatever "
            "--set metric_for_best_model=NAME says: accuracy, macro_f1, rmse, entity_f1, mrr, recall@5, of whole sets "
            "ndcg@10 ...",
            TRAINING,
            minimum=1,
        ),
    ] = None
    device: Annotated[Device, Option("Where to run; auto takes an accelerator.", TRAINING)] = "auto"
    dtype: Annotated[
        Dtype,
        Option(
            "bfloat16 runs under autocast, weights and loss stay float32. Fast on accelerators and on many processors "
            "with AMX or AVX512-BF16, slower than float32 on others; auto takes the faster one.",
            TRAINING,
        ),
    ] = "float32"
    seed: Annotated[int, Option("Seed of initialisation, masks, dropout and order.", TRAINING, minimum=0)] = 0
    preset: Annotated[
        PresetName | None,
        Option(
            f"Settings of a paper, where nothing else is given. {'. '.join(map(preset_help, PRESETS))}.",
            TRAINING,
        ),
    ] = None
    preset_settings: Mapping[str, Any] | None = None
    forgotten: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.data), str | PathLike):
            raise ConfigurationError(
                f"is a {type(self.data).__name__}, and a recipe holds plain values",
                setting="data",
                fix="Give a path, or a name for a table in memory and the table itself to run: "
                "run(Recipe(data='orders', ...), output, table=frame).",
            )
        object.__setattr__(self, "data", str(self.data))
        if self.preset is not None and self.preset_settings is None:
            self._fill()
        training.check_recipe_settings(self)
        if self.dtype == "auto":
            object.__setattr__(self, "dtype", training.fast_dtype(self.device))

    def _fill(self) -> None:
        """Take what the preset says in place of each field, and of the task, that has its default."""
        task: Any = self.task
        own = {"kind": task.kind, **changed_fields(task)} if hasattr(task, "kind") else {}
        whole = with_preset({**changed_fields(self), "task": own}, name=str(self.preset))
        given = {name: value for name, value in whole["task"].items() if name not in own}
        whole["task"] = replace(task, **given) if given else task
        for name, value in whole.items():
            object.__setattr__(self, name, value)

    def on_data(self, *, schema: Mapping[str, Any] | None, task: TaskSettings | None = None) -> Self:
        """Return the recipe with what its data tell. It was checked when it was made, and is not checked again.

        Args:
            schema: of the data; None where they have no context.
            task: as the data show it; None leaves it as it is.
        """
        if self.preset is not None and task is not None:
            check_task_of_preset(self.preset, kind=task.kind, noun=task.noun)
        told = copy(self)
        object.__setattr__(told, "schema", schema)
        object.__setattr__(told, "task", task if task is not None else self.task)
        return told

    @property
    def has_validation(self) -> bool:
        """False where no row is to choose the best epoch, so that the last one is kept."""
        comes_with = (self.split, self.split_column, self.validation_data)
        return self.validation > 0 or any(each is not None for each in comes_with)

    @property
    def is_held_out(self) -> bool:
        """False where all rows are trained on, so that no figure says how good the model is."""
        return self.has_validation or self.test > 0 or self.test_data is not None

    @property
    def label(self) -> str:
        """Return the name of the row: the given name, else the method's. A shuffled context is named."""
        return self.name or (f"{self.conditioning}_shuffled" if self.is_context_shuffled else self.conditioning)

    @property
    def columns_beside_context(self) -> tuple[str, ...]:
        """Columns that are no feature of the context: what is learned from or learned, whose it is, and ``exclude``."""
        # One column that names each set is its id; of several, such as customer and day, each may say something.
        names = self.task.grouping if len(self.task.grouping) == 1 else ()
        columns = (*self.task.columns, self.customer, self.split_column, *names)
        return tuple(dict.fromkeys((*(name for name in columns if name is not None), *self.exclude)))

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Columns that name things: items, customers, labels, and the categories of the schema."""
        named = (*self.task.code_columns, *((self.customer,) if self.customer is not None else ()))
        if self.schema is None:
            return named
        return (*named, *context.ContextSchema.from_dict(dict(self.schema)).code_columns)

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Columns of which no cell may be missing: what names a set or a customer, when it was, texts and labels."""
        whose = tuple(name for name in (self.customer, self.time) if name is not None)
        return tuple(dict.fromkeys((*self.task.grouping, *whose, *self.task.complete_columns)))

    @property
    def set_task(self) -> SetCompletion:
        """Return the task of a recipe on sets.

        Raises:
            ConfigurationError: the recipe is for texts.
        """
        if not self.task.has_items:
            raise ConfigurationError("is a table of texts, and this is for sets of items", place=PathPlace(self.data))
        return cast(SetCompletion, self.task)

    @property
    def text_task(self) -> AnyTextTask:
        """Return the task of a recipe on texts.

        Raises:
            ConfigurationError: the recipe is for sets.
        """
        if self.task.has_items:
            raise ConfigurationError("is a table of sets of items, and this is for texts", place=PathPlace(self.data))
        return cast(AnyTextTask, self.task)

    def changed(self, **values: Any) -> Self:
        """Return the recipe with other values of its fields, or of those of its task.

        Raises:
            ConfigurationError: a field of another task.

        Example:
            >>> recipe = Recipe(data="days.parquet", task=SetCompletion(items="items"))
            >>> recipe.changed(seed=3, group_by=("order",)).task.grouping
            ('order',)
        """
        own = {each.name for each in fields(self)}
        task: Any = values.get("task", self.task)
        of_task = {each.name for each in fields(task) if each.init}
        for name, value in values.items():
            if name not in own and name not in of_task:
                theirs = [
                    kind.noun
                    for kind in training.TASK_SETTINGS.values()
                    if name in {each.name for each in fields(kind)}
                ]
                advice = "Name a run to go on from as the checkpoint" if name == "init_from" else "Leave it out"
                raise ConfigurationError(
                    f"is for {' and '.join(theirs) or 'no task'}, and this is for {task.noun}",
                    setting=name,
                    value=value,
                    fix=f"{advice}.",
                )
        chosen = {name: value for name, value in values.items() if name in of_task}
        others = {name: value for name, value in values.items() if name in own}
        return replace(self, **{**others, "task": replace(task, **chosen) if chosen else task})

    def with_seed(self, seed: int) -> Self:
        """The same run with another seed; the split stays."""
        return replace(self, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": RECIPE_FORMAT, **asdict(self), "task": self.task.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The recipe that ``to_dict`` wrote.

        Raises:
            RunDirectoryError: another format, a key that no recipe has, or a value of another type.
        """
        values = dict(content)
        check_recipe_format(values.pop("format", None))
        lacking = [name for name in ("data", "task") if name not in values]
        if lacking:
            raise training.recipe_fault("it is missing, and the recipe is incomplete", (lacking[0],))
        if values.get("preset") in PRESETS and values.get("preset_settings") is None:  # written by hand
            values = with_preset(values, name=values["preset"])
        values["task"] = _stored_task(values["task"])
        if values.get("reading") is not None:
            values["reading"] = ReadSettings(
                **training.checked_values(ReadSettings, values["reading"], keys=("reading",))
            )
        return cls(**training.checked_values(cls, values))

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The recipe of a run directory.

        Raises:
            RunDirectoryError: it has none, or an unreadable one.
        """
        check_has_recipe(directory)
        path = directory / RECIPE_FILE
        content = read_json_object(path, what="recipe")
        found = content.get("recipe", content)
        if not isinstance(found, dict):
            raise RunDirectoryError("holds no recipe", fix="Train again.", place=PathPlace(path))
        try:
            return cls.from_dict(cast("dict[str, Any]", found))
        except RunDirectoryError as error:
            if not isinstance(error.place, JsonPlace):
                raise
            outer = ("recipe",) if found is not content else ()
            raise error.at(JsonPlace((*outer, *error.place.inner), str(path))) from error


def _stored_task(content: Any) -> TaskSettings:
    """Return the task that ``TaskSettings.to_dict`` wrote.

    Raises:
        RunDirectoryError: no task, an unknown kind or key, or a value of another type.
    """
    if not isinstance(content, Mapping):
        raise training.recipe_fault(f"{shown(content)} is no record", ("task",), value=content)
    values = dict(cast("Mapping[str, Any]", content))
    name = values.pop("kind", None)
    try:
        kind = settings_of_kind(name)
    except UnknownNameError as error:
        raise training.recipe_fault(error.problem, ("task", "kind"), value=name, fix=error.advice) from error
    if isinstance(values.get("policy"), Mapping):
        values["policy"] = SetPolicy(**training.checked_values(SetPolicy, values["policy"], keys=("task", "policy")))
    checked = training.checked_values(kind, values, keys=("task",))
    needed = [each.name for each in fields(kind) if each.init and each.default is each.default_factory is MISSING]
    if lacking := [name for name in needed if name not in checked]:
        raise training.recipe_fault("it is missing, and the recipe is incomplete", ("task", lacking[0]))
    return kind(**checked)
