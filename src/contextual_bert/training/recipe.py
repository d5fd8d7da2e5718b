"""A run, fully described: what is trained, on which data, how. A function that returns a Recipe is our config file.

Paths and plain values only, so that ``recipe.json`` says all of it. This module reads no data and builds no model.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from contextual_bert import training
from contextual_bert.context import ContextSchema
from contextual_bert.context.buckets import MAX_BUCKETS
from contextual_bert.context.infer import MAX_CATEGORIES, MIN_CUSTOMERS
from contextual_bert.data import ReadSettings, SetPolicy
from contextual_bert.data.splits import check_fractions
from contextual_bert.errors import (
    NAME,
    ConfigurationError,
    Message,
    RunDirectoryError,
    SettingPlace,
    UnknownNameError,
    did_you_mean,
)
from contextual_bert.evaluation.metrics import LABEL_METRICS, RANK_METRICS, metric_key
from contextual_bert.json_files import read_json_object
from contextual_bert.training.model_fields import check_fields
from contextual_bert.training.settings import check_lora, check_settings
from contextual_bert.training.text_task import TextTask

FORMAT = "contextual-bert recipe 1"
RECIPE_FILE = "recipe.json"
SplitBy = Literal["customer", "time", "row"]
ItemVectors = Literal["cooccurrence", "random"]
TrainedWeights = Literal["all", "new", "lora"]
FieldSelection = Literal["auto", "off"]
Leaks = Literal["drop", "keep"]
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
        items: name of its items column; None where it is a table of texts.
        texts: what is learned from a table of texts; None where it is one of sets.
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
        policy: which items and sets are kept.
        reading: how the file is read: delimiter, broken rows, spelling of dates.
        schema: ``ContextSchema.to_dict()``; None infers one from the training part.
        group_by: columns that name a set, where the table has one item a row: the rows of an order become its set. A
            column that varies within a set is no context. Several columns name a set together, such as the customer
            and the day. A cell is then one item, unless the policy's separator is another one than ``","``.
        exclude: columns that are no context when the schema is inferred.
        sensitive: columns of the context whose values stand in no card, report, log or OpenAPI document.
        min_customers: the fewest customers of a value, or a bin, of a schema that is inferred; without a customer
            column the fewest rows. Below 10 a value may be about single people.
        max_categories: the most values of a feature with a vector of their own, of a schema that is inferred.
        hash_buckets: how many vectors the other values of a feature share; 0: none, they are unknown. None: as many as
            customers allow, see ``infer_schema``.
        field_selection: "auto" silences the features of sets that the training part shows to say nothing
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
        init_from: run directory to start from; its vocabulary is kept and new items are appended.
        device: "auto", "cpu", "cuda" or "mps".
        dtype: "float32", "bfloat16" (autocast), or "auto": the faster of the two on this device. Becomes the one that
            is taken, so that a run states what it was trained in.
        seed: of initialisation, masks, dropout and order.

    Raises:
        ConfigurationError: a setting that cannot work.

    Example:
        >>> Recipe(data="days.parquet", items="items", conditioning="concat").with_seed(3).seed
        3
    """

    data: str
    items: str | None = None
    texts: TextTask | None = None
    customer: str | None = None
    time: str | None = None
    split: str | None = None
    split_column: str | None = None
    validation_data: str | None = None
    test_data: str | None = None
    split_by: SplitBy | None = None
    validation: float = 0.1
    test: float = 0.1
    split_seed: int = 0
    policy: SetPolicy = field(default_factory=SetPolicy)
    reading: ReadSettings = field(default_factory=ReadSettings)
    schema: Mapping[str, Any] | None = None
    group_by: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    min_customers: int = MIN_CUSTOMERS
    max_categories: int = MAX_CATEGORIES
    hash_buckets: int | None = None
    field_selection: FieldSelection = "auto"
    leaks: Leaks = "drop"
    conditioning: str = "global_state_update"
    name: str | None = None
    is_control: bool = False
    is_context_shuffled: bool = False
    item_vectors: ItemVectors | None = None
    trained_weights: TrainedWeights = "all"
    lora: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model: Mapping[str, Any] = field(default_factory=dict[str, Any])
    training: Mapping[str, Any] = field(default_factory=dict[str, Any])
    patience: int | None = None
    init_from: str | None = None
    device: str = "auto"
    dtype: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.data), str | PathLike):
            raise ConfigurationError(
                f"data is a {type(self.data).__name__}, and a recipe holds plain values",
                fix="Give a path, or a name for a table in memory and the table itself to run: "
                "run(Recipe(data='orders', ...), output, table=frame).",
            )
        object.__setattr__(self, "data", str(self.data))
        if self.dtype == "auto":
            object.__setattr__(self, "dtype", training.fast_dtype(self.device))
        check_settings(self.training)
        check_fields(self.model, texts=self.texts)
        if (self.items is None) == (self.texts is None):
            raise ConfigurationError(
                Message("Name either the column of items, {items}, or a column of texts, texts=TextTask().", items=...)
            )
        self._check_group_by()
        if self.texts is not None:
            self._check_texts()
        lost = [name for name, default in SPLIT_FIELDS.items() if getattr(self, name) != default]
        self._check_parts(lost)
        check_fractions(self.validation, self.test)
        self._check_best_epoch()
        if self.split is not None and lost:
            raise ConfigurationError(
                Message("says how a split is made, and {split} names one that is", split=self.split),
                setting=lost[0],
                value=getattr(self, lost[0]),
                fix="Give one of them.",
            )
        if self.customer is not None and self.customer == self.items:
            raise ConfigurationError(
                Message("and {items} are one column", items=self.items),
                setting="customer",
                value=self.customer,
                fix="Give each a column of its own.",
            )
        if self.split_by is not None and self.split_by not in get_args(SplitBy):
            raise ConfigurationError(
                "is unknown",
                setting="split_by",
                value=self.split_by,
                allowed=did_you_mean(self.split_by, get_args(SplitBy)),
            )
        if self.split_by == "customer" and self.customer is None:
            raise ConfigurationError(
                "needs the customer column",
                setting="split_by",
                value="customer",
                fix=Message("Name it with {customer}.", customer=...),
            )
        if self.split_by == "time" and self.time is None:
            raise ConfigurationError(
                "needs the time column", setting="split_by", value="time", fix=Message("Name it with {time}.", time=...)
            )
        if self.time is not None and self.split_by != "time":
            raise ConfigurationError(
                "is for a split by time",
                setting="time",
                value=self.time,
                fix=Message("Give {split_by}, too, or leave it out.", split_by="time"),
            )
        if self.item_vectors is not None:
            if self.item_vectors not in get_args(ItemVectors):
                raise ConfigurationError(
                    "is unknown",
                    setting="item_vectors",
                    value=self.item_vectors,
                    allowed=did_you_mean(self.item_vectors, get_args(ItemVectors)),
                )
            if self.init_from is not None:
                raise ConfigurationError(
                    f"is for a new model, and this one starts from {self.init_from}, whose vectors are kept",
                    setting="item_vectors",
                    value=self.item_vectors,
                    fix="Leave one of the two out.",
                )
        both = [name for name in self.sensitive if name in self.exclude]
        if both:
            raise ConfigurationError(
                f"the column {both[0]!r} is excluded, so no feature of it can be sensitive",
                fix="Leave one of the two out.",
            )
        if self.min_customers < 1:
            raise ConfigurationError(
                "is not allowed", setting="min_customers", value=self.min_customers, fix="Give 1 or more."
            )
        if self.max_categories < 1:
            raise ConfigurationError(
                "is not allowed", setting="max_categories", value=self.max_categories, fix="Give 1 or more."
            )
        if self.hash_buckets is not None and not 0 <= self.hash_buckets <= MAX_BUCKETS:
            raise ConfigurationError(
                "is not allowed",
                setting="hash_buckets",
                value=self.hash_buckets,
                fix=f"Give 0 to {MAX_BUCKETS:,}. 0 makes rare values unknown.",
            )
        if self.field_selection not in get_args(FieldSelection):
            raise ConfigurationError(
                f"field_selection={self.field_selection!r}. "
                f"{did_you_mean(self.field_selection, get_args(FieldSelection))}"
            )
        if self.leaks not in get_args(Leaks):
            raise ConfigurationError(
                "is unknown", setting="leaks", value=self.leaks, allowed=did_you_mean(self.leaks, get_args(Leaks))
            )
        self._check_trained_weights()
        if self.name is not None and not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ConfigurationError(
                "names a folder", setting="name", value=self.name, fix="Give letters, digits, '_', '-' and '.'."
            )
        if self.patience is not None and self.patience < 1:
            raise ConfigurationError(
                "is not allowed", setting="patience", value=self.patience, fix="Give 1 or more, or leave it out."
            )

    def _check_texts(self) -> None:
        default = Recipe(data=self.data, items="items")
        for name in ("policy", "item_vectors", "init_from"):
            if getattr(self, name) != getattr(default, name):
                advice = "Name a run to go on from as the checkpoint" if name == "init_from" else "Leave it out"
                raise ConfigurationError(
                    "is for sets of items, and this is a table of texts",
                    setting=name,
                    value=getattr(self, name),
                    fix=f"{advice}.",
                )
        if "masks_per_set" in self.training:
            raise ConfigurationError(
                Message("{masks_per_set} is for sets of items", masks_per_set=NAME),
                fix=Message("For texts, {mask_rate} says what share of the tokens is hidden.", mask_rate=NAME),
            )

    def _check_group_by(self) -> None:
        # A single name is as good as a tuple of it.
        names = (self.group_by,) if isinstance(cast(object, self.group_by), str) else tuple(self.group_by)
        object.__setattr__(self, "group_by", names)
        if names and self.texts is not None:
            raise ConfigurationError(
                "is for sets of items, and this is a table of texts",
                setting="group_by",
                value=names,
                fix="Leave it out.",
            )
        if self.items in names:
            raise ConfigurationError(
                "names the column of items",
                setting="group_by",
                value=names,
                fix="Name the column that says which set a row belongs to.",
            )
        if len({*names}) < len(names):
            raise ConfigurationError("names a column twice", setting="group_by", value=names, fix="Name it once.")

    @property
    def has_validation(self) -> bool:
        """False where no row is to choose the best epoch, so that the last one is kept."""
        comes_with = (self.split, self.split_column, self.validation_data)
        return self.validation > 0 or any(each is not None for each in comes_with)

    @property
    def is_held_out(self) -> bool:
        """False where all rows are trained on, so that no figure says how good the model is."""
        return self.has_validation or self.test > 0 or self.test_data is not None

    def _check_best_epoch(self) -> None:
        """Raise where the best epoch is to be chosen by what is not there, or by a metric of something else."""
        asked = {"patience": self.patience, BEST_METRIC: self.training.get(BEST_METRIC)}
        for name, value in asked.items():
            if value is not None and not self.has_validation:
                raise ConfigurationError(
                    Message("chooses an epoch by the validation part, and {validation} leaves none", validation=0),
                    setting=name,
                    value=value,
                    fix=Message(
                        "Give {validation} a share above 0, or leave {name} out.".replace("name", name),
                        **{"validation": NAME, name: NAME},
                    ),
                )
        metric = asked[BEST_METRIC]
        if not isinstance(metric, str) or metric.removeprefix("eval_") == "loss":
            return
        key = metric_key(metric).removeprefix("eval_")
        learns_labels = self.texts is not None and self.texts.label is not None
        known = [*RANK_METRICS, *(LABEL_METRICS if learns_labels else ())]
        if key not in known and not re.fullmatch(r"recall_at_\d+_percent", key):
            raise UnknownNameError(
                "is unknown", place=SettingPlace(BEST_METRIC), value=metric, allowed=did_you_mean(metric, known)
            )

    def _check_parts(self, lost: list[str]) -> None:
        """Raise ConfigurationError where two settings say which rows are which part."""
        ready = {name: getattr(self, name) for name in READY_PARTS if getattr(self, name) is not None}
        if self.split is not None and ready:
            name, value = next(iter(ready.items()))
            raise ConfigurationError(
                Message(f"and {{{name}}} both say which rows are which part", **{name: value}),
                setting="split",
                value=self.split,
                fix="Give one of them.",
            )
        if self.split_column is not None:
            others = [name for name in (*ready, *lost) if name != "split_column"]
            if others:
                raise ConfigurationError(
                    Message(
                        f"says the part of each row, and {{{others[0]}}} says how parts are made",
                        **{others[0]: getattr(self, others[0])},
                    ),
                    setting="split_column",
                    value=self.split_column,
                    fix="Give one of them.",
                )
            learned = (self.items,) if self.texts is None else self.texts.columns
            if self.split_column in (*learned, self.customer):
                raise ConfigurationError(
                    "is a column of something else, too",
                    setting="split_column",
                    value=self.split_column,
                    fix="Give each its own.",
                )
        for part, name in (("validation", "validation_data"), ("test", "test_data")):
            if name in ready and part in lost:
                raise ConfigurationError(
                    Message(f"is the {part} part, and {{{part}}} would draw another", **{part: getattr(self, part)}),
                    setting=name,
                    value=ready[name],
                    fix="Give one of them.",
                )
        paths = [self.data, *(ready[name] for name in ("validation_data", "test_data") if name in ready)]
        if len(set(paths)) < len(paths):
            raise ConfigurationError(
                f"One file is named for two parts: {', '.join(paths)}", fix="Give each part its own."
            )

    def _check_trained_weights(self) -> None:
        allowed = get_args(TrainedWeights)
        if self.trained_weights not in allowed:
            raise ConfigurationError(
                "is unknown",
                setting="trained_weights",
                value=self.trained_weights,
                allowed=did_you_mean(self.trained_weights, allowed),
            )
        if self.trained_weights != "all" and self.texts is not None and self.texts.is_from_scratch:
            raise ConfigurationError(
                Message(
                    "leaves a checkpoint's weights as they are, and with {is_from_scratch} there are none",
                    is_from_scratch=NAME,
                ),
                setting="trained_weights",
                value=self.trained_weights,
                fix="Leave one of them out.",
            )
        if self.trained_weights != "all" and self.texts is None:
            raise ConfigurationError(
                "is for texts, where a checkpoint's weights are started from",
                setting="trained_weights",
                value=self.trained_weights,
                fix="Give 'all', or leave it out.",
            )
        if self.lora and self.trained_weights != "lora":
            raise ConfigurationError(
                Message(f"needs {{trained_weights}}, and it is {self.trained_weights!r}", trained_weights="lora"),
                setting="lora",
                value=dict(self.lora),
                fix="Leave one of the two out.",
            )
        check_lora(self.lora)

    @property
    def label(self) -> str:
        """Return the name of the row: the given name, else the method's. A shuffled context is named."""
        return self.name or (f"{self.conditioning}_shuffled" if self.is_context_shuffled else self.conditioning)

    @property
    def columns_beside_context(self) -> tuple[str, ...]:
        """Columns that are no feature of the context: what is learned from or learned, whose it is, and ``exclude``."""
        task = self.texts
        learned = (self.items,) if task is None else task.columns
        # One column that names each set is its id; of several, such as customer and day, each may say something.
        names = self.group_by if len(self.group_by) == 1 else ()
        columns = (*learned, self.customer, self.split_column, *names)
        return tuple(dict.fromkeys((*(name for name in columns if name is not None), *self.exclude)))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns of texts, which are read as they are spelt.

        Answers are read whatever they look like, and keep the type that they always had.
        """
        task = self.texts
        return () if task is None else tuple(name for name in (task.text, task.second) if name is not None)

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Columns that name things: items, customers, labels, and the categories of the schema."""
        label = self.texts.label if self.texts is not None else None
        named = tuple(name for name in (self.items, self.customer, label) if name is not None)
        return named if self.schema is None else (*named, *ContextSchema.from_dict(dict(self.schema)).code_columns)

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Columns of which no cell may be missing: what names a set or a customer, when it was, texts and labels."""
        task = self.texts
        learned = () if task is None else (task.text, task.second, task.label)
        return tuple(name for name in (*self.group_by, self.customer, self.time, *learned) if name is not None)

    @property
    def item_column(self) -> str:
        """The column of items.

        Raises:
            ConfigurationError: the recipe is for texts.
        """
        if self.items is None:
            raise ConfigurationError(f"{self.data} is a table of texts, and this is for sets of items.")
        return self.items

    def with_seed(self, seed: int) -> Self:
        """The same run with another seed; the split stays."""
        return replace(self, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The recipe that ``to_dict`` wrote.

        Raises:
            RunDirectoryError: another format, a key that no recipe has, or a value of another type.
        """
        values = dict(content)
        if values.pop("format", None) != FORMAT:
            raise RunDirectoryError(
                f"This is no {FORMAT!r} (format: {content.get('format')!r})",
                fix="It is from another version: train again.",
            )
        lacking = [
            *(["data"] if "data" not in values else []),
            *(["items or texts"] if values.get("texts") is None and values.get("items") is None else []),
        ]
        if lacking:
            raise RunDirectoryError(f"The recipe lacks {' and '.join(lacking)}: it is incomplete", fix="Train again.")
        task: Any = values.get("texts")
        if isinstance(task, dict) and "scored_tokens" not in task and not (task.get("label") or task.get("answer")):
            values["texts"] = {**task, "scored_tokens": "all"}  # as it was before there was a choice
        for name, kind in (("policy", SetPolicy), ("reading", ReadSettings), ("texts", TextTask)):
            if values.get(name) is not None:
                values[name] = kind(**_checked(kind, values[name], place=f"{name}."))
        if values.get("split") is not None:  # what an older version let stand beside it was never read
            values = {name: value for name, value in values.items() if name not in SPLIT_FIELDS}
        if values.get("split_by") != "time":  # nor a column of times
            values.pop("time", None)
        return cls(**_checked(cls, values))

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The recipe of a run directory.

        Raises:
            RunDirectoryError: it has none, or an unreadable one.
        """
        path = directory / RECIPE_FILE
        if not path.exists():
            raise RunDirectoryError(
                f"{path} does not exist: {directory} is no run directory", fix="Name the folder given as --output."
            )
        content = read_json_object(path, what="recipe")
        found = content.get("recipe", content)
        if not isinstance(found, dict):
            raise RunDirectoryError(f"{path} holds no recipe", fix="Train again.")
        return cls.from_dict(cast("dict[str, Any]", found))


def _checked(kind: type, values: Any, *, place: str = "") -> dict[str, Any]:
    """The values, of the types that the fields of a dataclass have."""
    if not isinstance(values, Mapping):
        raise RunDirectoryError(f"The recipe has {place[:-1]}={values!r:.80}, which is no record", fix="Train again.")
    hints, read = get_type_hints(kind), dict[str, Any]()
    for name, value in cast("Mapping[str, Any]", values).items():
        if name not in hints:
            raise RunDirectoryError(
                f"The recipe has an unknown key {place + name!r}", allowed=did_you_mean(name, hints)
            )
        try:
            read[name] = TypeAdapter[Any](hints[name]).validate_python(value)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise RunDirectoryError(
                f"The recipe has {place}{name}={value!r:.80}: {problem[0].lower()}{problem[1:]}",
                fix="Correct it, or train again.",
            ) from error
    return read
