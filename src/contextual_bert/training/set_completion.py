"""Set completion as a task of a recipe: the columns of items and sets, and the run that is started from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

from contextual_bert import evaluation
from contextual_bert.baselines.names import SET_BASELINES
from contextual_bert.data.policies import SetPolicy, check_differs, noun_of_rows
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.options import ITEMS, MAIN, SETS, Option, check_declared
from contextual_bert.training.task_settings import ALL_FIELDS, NEW_FIELDS, SET_FIELDS, TaskSettings, pipeline_code

ItemEncoding = Literal["sum", "mlp"]
Hidden = Literal["items", "set", "next"]
LearnedBaskets = Literal["off", "past", "any"]
ITEM_DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True)
class SetCompletion(TaskSettings):
    """Predict the masked items of a set from the others.

    Args:
        items: column of items: a list a row, text with a separator between items, or one item a row with ``group_by``.
        group_by: columns that name a set, where the table has one item a row: the rows of an order become its set. A
            column that varies within a set is no context. Several columns name a set together, such as the customer
            and the day. A cell is then one item, unless the policy's separator is another one than ``","``.
        policy: which items and sets are kept.
        order: column that puts the items of a set in order, for sequences such as playlists and sessions: a time or
            number a row with ``group_by``, else lists of them as long as those of the items; or the column of items
            itself, whose lists stand in their order. None: order means nothing.
        time_gaps: whether the model reads how much time passed before each item, in logarithmic bins of the times that
            ``order`` names.
        hide: "items": some items of a set are masked and predicted from the others; "set": all items at once, from the
            context alone, as the next basket is from what was bought before; "next": each item is predicted from those
            before it, and the last one is asked for in evaluations.
        history_baskets: with ``hide="set"`` and a history: whether in each epoch one basket of each history is learned,
            too, from those before it ("past") or, where baskets have no order, from all others ("any"); None: "past"
            where no customer has two rows in training, else "off".
        init_from: run directory to start from; its vocabulary is kept and new items are appended.
        retire_missing_items: with ``init_from``: items of that run that no set and no history of the table holds leave
            the vocabulary, so they are candidates no more.
        catalogue: path of the shop's items, whose columns become features of the items; items that no training set has
            are known by them.
        item_exclude: columns of the catalogue that are no features.
        item_kinds: column of the catalogue -> a kind of feature, or "ignore", where another than the inferred one is
            meant.
        item_text_encoder: folder of a sentence encoder, which reads the columns of the kind "text" and is not trained;
            with ``init_from`` where that run's lies now.
        item_dropout: how often, in training, an item is left without its own vector, so that features learn to stand
            for it.
        item_encoder: "sum" of linear maps, one a feature; "mlp" adds a network that reads the sum.

    Raises:
        ConfigurationError: a column that is named twice, or settings that do not go together.

    Example:
        >>> SetCompletion(items="item", group_by="order").group_by
        ('order',)
    """

    noun: ClassVar[str] = "sets of items"
    has_items: ClassVar[bool] = True
    baselines: ClassVar[Collection[str]] = SET_BASELINES
    command: ClassVar[str] = "complete"
    imported: ClassVar[str] = "CompletionPipeline"
    kind: str = field(default="set_completion", init=False)
    items: Annotated[
        str,
        Option(
            "Column of items: a list a row, or text with --separator between items.",
            MAIN,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ]
    group_by: Annotated[
        tuple[str, ...],
        Option(
            "Where the table has one item a row: the columns that name a set, such as order; repeatable or with "
            "commas. A cell is then one item, unless --separator names another mark than the comma.",
            SETS,
            metavar="A,B",
            is_of_data=True,
        ),
    ] = ()
    policy: SetPolicy = field(default_factory=SetPolicy)
    order: Annotated[
        str | None,
        Option(
            "With --items: column that puts the items of a set in order, as in playlists and sessions: a time or "
            "number a row with --group-by, else lists of them; or the column of items itself, if they are in order.",
            SETS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    time_gaps: Annotated[
        bool,
        Option(
            "With --order COLUMN: read how much time passed before each item, too, of times in seconds, of numbers in "
            "their units.",
            SETS,
        ),
    ] = False
    hide: Annotated[
        Hidden,
        Option(
            "What is hidden of a set and learned: some items, given the others; the whole set, given the context "
            "alone, as the next basket is from a history; or the next item, given those before it (with --order).",
            SETS,
        ),
    ] = "items"
    history_baskets: Annotated[
        LearnedBaskets | None,
        Option(
            "With --hide set: in each epoch one basket of each history is learned too, from those before it, or from "
            "any others where baskets have no order (default past, off where customers have several rows).",
            SETS,
        ),
    ] = None
    init_from: Annotated[
        str | None,
        Option(
            "Run to start from: its vocabulary and schema are kept, new items appended.",
            SETS,
            metavar="RUN",
            form="path",
            names="run of sets",
        ),
    ] = None
    retire_missing_items: Annotated[
        bool,
        Option(
            "With --init-from: items of that run that the table lacks leave the vocabulary and are proposed no more.",
            SETS,
        ),
    ] = False
    catalogue: Annotated[
        str | None,
        Option(
            "Table of the items: its columns become features of theirs, and items that no training set has are known "
            "by them.",
            ITEMS,
            metavar="FILE",
            form="path",
            names="table",
            is_of_data=True,
        ),
    ] = None
    item_exclude: Annotated[
        tuple[str, ...],
        Option(
            "Columns of the catalogue that are no features; repeatable or with commas.",
            ITEMS,
            metavar="A,B",
            is_of_data=True,
        ),
    ] = ()
    item_kinds: Annotated[
        Mapping[str, str],
        Option(
            "Another kind of feature than the inferred one for a column of the catalogue, as --override of inspect; "
            "repeatable.",
            ITEMS,
            name="item-kind",
            metavar="COLUMN=KIND",
            is_of_data=True,
        ),
    ] = field(default_factory=dict[str, str])
    item_text_encoder: Annotated[
        str | None,
        Option(
            "Folder of a sentence encoder, as --checkpoint takes it: the columns that --item-kind makes text become "
            "vectors of it. It is not trained.",
            ITEMS,
            metavar="FOLDER",
            names="checkpoint",
            is_of_data=True,
        ),
    ] = None
    item_dropout: Annotated[
        float,
        Option(
            "With --catalogue: how often a training step leaves an item without its own vector, 0 to below 1, so that "
            "features learn to stand for it.",
            ITEMS,
            minimum=0.0,
        ),
    ] = ITEM_DROPOUT
    item_encoder: Annotated[
        ItemEncoding,
        Option("With --catalogue: features are added up, or a network reads their sum besides.", ITEMS),
    ] = "sum"

    def __post_init__(self) -> None:
        # A single name is as good as a tuple of it.
        names = (self.group_by,) if isinstance(cast(object, self.group_by), str) else tuple(self.group_by)
        object.__setattr__(self, "group_by", names)
        check_declared(self)
        self._check_order()
        if self.items in names:
            raise ConfigurationError(
                "names the column of items",
                setting="group_by",
                value=names,
                fix="Name the column that says which set a row belongs to.",
            )
        if len({*names}) < len(names):
            raise ConfigurationError("names a column twice", setting="group_by", value=names, fix="Name it once.")
        if self.retire_missing_items and self.init_from is None:
            raise ConfigurationError(
                "is about the items of an earlier run, and none is named",
                setting="retire_missing_items",
                value=True,
                fix=Message("Name the run with {init_from}, or leave it out.", init_from=...),
            )
        if self.history_baskets not in (None, "off") and self.hide != "set":
            raise ConfigurationError(
                Message("goes with {hide}", hide="set"),
                setting="history_baskets",
                value=self.history_baskets,
                fix="Leave it out.",
            )
        object.__setattr__(self, "item_exclude", tuple(self.item_exclude))
        object.__setattr__(self, "item_kinds", dict(self.item_kinds))
        if self.catalogue is None:
            self._check_no_features()
        if self.init_from is None:
            self._check_texts()
        if not 0 <= self.item_dropout < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="item_dropout",
                value=self.item_dropout,
                fix="Give a share, a number from 0 to below 1.",
            )

    def _check_order(self) -> None:
        """Raise ConfigurationError where the order of the items is needed and not said, or said and not read."""
        if self.order is None:
            needing = {"hide": "next"} if self.hide == "next" else {}
            needing |= {"longer": "newest"} if self.policy.longer == "newest" else {}
            for name, value in needing.items():
                raise ConfigurationError(
                    "is for sequences, and no column puts the items in order",
                    setting=name,
                    value=value,
                    fix=Message(
                        "Name it with {order}: the column of items itself, if they stand in order.", order=self.items
                    ),
                )
        elif self.hide == "set":
            raise ConfigurationError(
                Message("says how items stand in a set, and {hide} shows none of them", hide="set"),
                setting="order",
                value=self.order,
                fix="Leave it out, or hide something else.",
            )
        check_differs(self.order, self.group_by)
        if self.time_gaps and self.order in (None, self.items):
            named = "no column has their times" if self.order is None else f"{self.order!r} has the items, and no times"
            raise ConfigurationError(
                f"is how much time passed between items, and {named}",
                setting="time_gaps",
                value=True,
                fix=Message("Name a column of times or numbers with {order}, or leave it out.", order=...),
            )

    def _check_no_features(self) -> None:
        """Raise ConfigurationError for a setting of the items' features where no catalogue has some."""
        plain = {
            "item_exclude": (),
            "item_kinds": {},
            "item_text_encoder": None,
            "item_dropout": ITEM_DROPOUT,
            "item_encoder": "sum",
        }
        for name, value in plain.items():
            if getattr(self, name) != value:
                raise ConfigurationError(
                    "is about the features of items, and no catalogue has some",
                    setting=name,
                    value=getattr(self, name),
                    fix=Message("Name the table of the items with {catalogue}, or leave it out.", catalogue=...),
                )

    def _check_texts(self) -> None:
        """Raise ConfigurationError for texts that nothing reads, or an encoder without texts."""
        texts = {column: kind for column, kind in self.item_kinds.items() if kind == "text"}
        if texts and self.item_text_encoder is None:
            raise ConfigurationError(
                "needs a sentence encoder, which reads the texts",
                setting="item_kinds",
                value=texts,
                fix=Message("Name its folder with {item_text_encoder}.", item_text_encoder=...),
            )
        if self.item_text_encoder is not None and not texts:
            raise ConfigurationError(
                "reads nothing, for no column of the catalogue is a text",
                setting="item_text_encoder",
                value=self.item_text_encoder,
                fix=Message("Name one with {item_kinds}, or leave it out.", item_kinds={"title": "text"}),
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the column of items, and that of their order."""
        return (self.items,) if self.order in (None, self.items) else (self.items, self.order)

    @property
    def grouping(self) -> tuple[str, ...]:
        """Return ``group_by``."""
        return self.group_by

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Return the column of items."""
        return (self.items,)

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Return the columns that name a set, and that of a time a row."""
        return (*self.group_by, *((self.order,) if self.group_by and self.order not in (None, self.items) else ()))

    @property
    def row_noun(self) -> str:
        """Return what a row holds: a set, or where items have an order a sequence."""
        return noun_of_rows(self.order)

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a new model of sets."""
        return (*ALL_FIELDS, *SET_FIELDS, *NEW_FIELDS)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks, and those of sets that are hidden as a whole."""
        return (*super().metrics, *(() if self.hide == "items" else evaluation.SET_METRICS))

    @property
    def run_to_start_from(self) -> str | None:
        """Return ``init_from``."""
        return self.init_from

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that completes a set."""
        return pipeline_code(self, '"items": ["...", "[MASK]"]', ", top_k=5", has_context=has_context)

    def check_recipe(
        self, *, customer: str | None, item_vectors: str | None, training: Mapping[str, Any], trained_weights: str
    ) -> None:
        """Raise ConfigurationError for a setting of a recipe that sets do not read."""
        if customer == self.items:
            raise ConfigurationError(
                Message("and {items} are one column", items=self.items),
                setting="customer",
                value=customer,
                fix="Give each a column of its own.",
            )
        for name in ("masks_per_set", "one_mask_epochs") if self.hide == "set" else ():
            if name in training:
                raise ConfigurationError(
                    Message("says how many items are hidden, and {hide} hides them all", hide="set"),
                    setting=name,
                    value=training[name],
                    fix="Leave it out.",
                )
        if training.get("item_weight_decay") is not None and self.catalogue is None and self.init_from is None:
            raise ConfigurationError(
                "is for the own vectors of items that have features, and no catalogue has some",
                setting="item_weight_decay",
                value=training["item_weight_decay"],
                fix=Message("Name the table of the items with {catalogue}, or leave it out.", catalogue=...),
            )
        if trained_weights != "all":
            raise ConfigurationError(
                "is for texts, where a checkpoint's weights are started from",
                setting="trained_weights",
                value=trained_weights,
                fix="Give 'all', or leave it out.",
            )
