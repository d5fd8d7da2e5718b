"""History: the items that somebody had before, as the items of the model itself, basket by basket.

The values are those of the model's vocabulary, which the processor brings along (``ContextSchema.for_items``), so a
history has no list of its own and reads the same item vectors as the sets. Not in the paper, which cites POG for it.
"""

import json
from ast import literal_eval
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from contextual_bert.arrow_types import is_list, is_text, value_type
from contextual_bert.context.columns import MISSING_MARKS, list_lengths, to_numbers
from contextual_bert.context.interactions import (
    BASKETS_AGO,
    DAYS_AGO,
    ITEM,
    MISSING_ITEM,
    NO_ITEM,
    TIMES,
    UNKNOWN_DAYS,
    UNKNOWN_ITEM,
    Interactions,
    arranged,
)
from contextual_bert.context.kinds.feature import (
    LARGEST_DEFAULT_SIZE,
    MISSING_NAME,
    PADDING_NAME,
    SINGLE_VALUE,
    EncodedColumn,
    Feature,
    FeatureLayout,
    Finding,
    Form,
    InferenceSettings,
    count_missing,
    feature_name,
    feature_source,
    sensitive_schema,
)
from contextual_bert.context.raw_values import SINGLE_TYPES, none_if_missing, number_of
from contextual_bert.context.vocabulary import Vocabulary, canonical, canonical_array
from contextual_bert.errors import DataError, SchemaError, type_in_words
from contextual_bert.nouns import agreeing, counted

ITEMS, DAYS = "items", "days_ago"
BASKET = pa.struct([(ITEMS, pa.list_(pa.string())), (DAYS, pa.float64())])
MOST_BASKETS, MOST_INTERACTIONS = 50, 500
MOST_DAYS = 36_500
_BASKETS = r"^\s*\[\s*[\[{]"  # no single items, which any list has
_FIX = (
    'Give the baskets, oldest first: [["a", "b"], ["c"]], with days before the set as [{"items": ["a"], "days_ago": '
    '12}], or items alone as ["a", "b"]; [] says that there is none, and null that nothing is known.'
)
_BASKET_FIX = "Leave it out, or give its items."
_MOST = 0.5  # of the cells: above that, a cell that is no history is a fault of the table


class History(Feature, frozen=True):
    """The items that somebody had before, oldest basket first; they share the item vectors of the model.

    A cell is a list of items, each a basket of its own; a list of baskets, which are lists of items; or a list of
    objects ``{"items": [...], "days_ago": number}``. Text of JSON or of Python's lists says the same, and text such as
    "null" that the history is missing (`MISSING_MARKS`).

    Args:
        name: name of the feature.
        max_baskets: the newest baskets that are read of a history.
        max_interactions: the newest pairs of an item and a basket that are read.
        embedding_size: width of the embedding; None for 64.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.

    Relation to its siblings: `MultiCategorical` has a vector of its own for each value, and knows no order.

    Example:
        >>> items = Vocabulary(["coat", "hat"], reserved=["[PAD]", "[MASK]", "[UNK]"])
        >>> history = History(name="before").for_items(items)
        >>> history.encode(pa.array([[["hat"], ["coat", "hat"]]])).values.tolist()
        [[[3, 0, 1, -1], [4, 0, 2, -1], [4, 1, 0, -1]]]
    """

    form: ClassVar[Form] = "history"
    reserved: ClassVar[tuple[str, ...]] = (PADDING_NAME, MISSING_NAME)
    has_lists: ClassVar[bool] = True
    has_codes: ClassVar[bool] = True
    shares_items: ClassVar[bool] = True

    kind: Literal["history"] = "history"
    max_baskets: int = Field(default=MOST_BASKETS, ge=1, strict=True)
    max_interactions: int = Field(default=MOST_INTERACTIONS, ge=1, strict=True)
    _items: Vocabulary | None = PrivateAttr(default=None)

    @property
    def layout(self) -> FeatureLayout:
        return FeatureLayout(self.name, self.kind, 0, 0, self.embedding_size or LARGEST_DEFAULT_SIZE)

    @property
    def record_type(self) -> pa.DataType:
        return pa.list_(BASKET)

    def for_items(self, items: Vocabulary) -> Self:
        found = self.model_copy()
        found._items = items  # pyright: ignore[reportAttributeAccessIssue]  (private, and of a copy)
        return found

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Lists of lists or of baskets, or JSON of such; lists of text whose values are the items of the sets."""
        kind = value_type(array.type)
        if is_text(kind):
            return settings.items is not None and holds_baskets(array)
        if not is_list(kind):
            return False
        inner = kind.value_type
        if is_list(inner) and not pa.types.is_floating(inner.value_type):
            return True
        if pa.types.is_struct(inner):
            return inner.get_field_index(ITEMS) >= 0
        return settings.items is not None and holds_items(array, settings.items)

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        if settings.items is None:
            return Finding(None, "a history is of items, and there are no sets of items here", 0)
        feature = cls(name=feature_name(column), source=feature_source(column))
        bound = feature.for_items(Vocabulary(settings.items.to_pylist(), reserved=["[PAD]", "[MASK]", "[UNK]"]))
        try:
            baskets = read_histories(array, column=column)
        except DataError as error:
            if _share_of_items(array, settings.items) > _MOST:
                raise
            return Finding(None, str(error), 0)
        except SchemaError as error:
            return Finding(None, str(error), 0)
        distinct = len(pc.drop_null(baskets.items.unique()))
        ids = bound._ids(baskets.items)
        num_known = int((ids > UNKNOWN_ITEM).sum())
        if not num_known:
            return Finding(None, "none of its values is an item of the sets", distinct)
        share = num_known / max(1, len(ids))
        sizes = np.bincount(baskets.basket_rows, minlength=len(array))
        days = "" if baskets.days is None or np.isnan(baskets.days).all() else ", with days"
        reason = (
            f"{counted(len(baskets.basket_rows), 'basket')} of items that somebody had before{days}, "
            f"{sizes.mean():.1f} a row; {share:.0%} of their items are among those of the sets"
        )
        cut = int((sizes > MOST_BASKETS).sum())
        num_said = int(baskets.is_blank.sum()) - count_missing(array)
        if num_said:
            reason += f"; {counted(num_said, 'cell')} {agreeing('say', num_said)} null, which is missing"
        if cut:
            reason += f"; {counted(cut, 'row')} with more than the newest {MOST_BASKETS} baskets, which alone count"
        return Finding("history", reason, distinct, (feature,), num_marked=num_said)

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        if self._items is None:
            raise SchemaError(
                f"the feature {self.name!r} is a history of items, and no vocabulary says which there are",
                fix="Encode with a processor of sets of items, or leave the column out.",
            )
        baskets = read_histories(array, column=self.column, file=file)
        ids = self._ids(baskets.items)
        is_named = ids != MISSING_ITEM  # a null among the items says nothing
        basket_of = baskets.basket_of[is_named]
        ids, strings = ids[is_named], baskets.items.filter(pa.array(is_named))
        rows = baskets.basket_rows[basket_of]
        ago = baskets.num_newer()[basket_of]
        days = np.full(len(ids), UNKNOWN_DAYS) if baskets.days is None else _whole_days(baskets.days)[basket_of]
        is_kept = ago < self.max_baskets
        found = Interactions(rows[is_kept], ids[is_kept], ago[is_kept], days[is_kept])
        found = _newest(found, self.max_interactions, num_rows=len(array))
        table = arranged(found, num_rows=len(array))
        is_missing = array.is_null().to_numpy(zero_copy_only=False) | baskets.is_blank
        table[is_missing, 0, ITEM] = MISSING_ITEM
        unknown = strings.filter(pa.array(ids == UNKNOWN_ITEM)).value_counts()
        names, counts = (unknown.field(number).to_pylist() for number in range(2))
        return EncodedColumn(table, dict(zip(names, counts, strict=True)))

    def read_value(self, value: object) -> list[dict[str, Any]] | None:
        if isinstance(value, str):
            value = _parsed(value)
            if value is None:
                return None
        if isinstance(value, np.ndarray) and value.ndim:
            value = list(value)
        if not isinstance(value, (list, tuple)):
            raise DataError(f"{value!r:.80} is {type_in_words(value)}, not a history", fix=_FIX)
        return [self._read_basket(each, number) for number, each in enumerate(map(none_if_missing, value), start=1)]

    def _read_basket(self, value: object, number: int) -> dict[str, Any]:
        """Return one basket of a record, as ``BASKET`` holds it; ``number`` counts the baskets from 1."""
        days = None
        if isinstance(value, Mapping):
            given = cast("Mapping[str, object]", value)
            if ITEMS not in given or given.keys() - {ITEMS, DAYS}:
                raise DataError(f"{value!r:.80} is no basket", fix=_FIX)
            days = none_if_missing(given.get(DAYS))
            days = None if days is None else number_of(days)
            if days is not None and days < 0:
                raise DataError(f"days_ago is {days:g}: the basket lies in the future", fix="Give days before the set.")
            value = none_if_missing(given[ITEMS])
        if value is None:
            raise _null_basket(number)
        if isinstance(value, SINGLE_TYPES):
            value = [value]
        if isinstance(value, np.ndarray) and value.ndim:
            value = list(value)
        if not isinstance(value, (list, tuple)):
            raise DataError(f"{value!r:.80} is {type_in_words(value)}, not a basket", fix=_FIX)
        names = [None if none_if_missing(each) is None else canonical(each) for each in value]
        return {ITEMS: names, DAYS: days}

    def said_of(self, values: NDArray[Any], item: str) -> str:
        """Return what one encoded history says of an item of the vocabulary.

        Shapes: values (width, 4).
        """
        assert self._items is not None
        baskets = values[values[:, ITEM] > MISSING_ITEM]
        own = baskets[(baskets[:, ITEM] == self._items.id_of(item)) & (baskets[:, TIMES] > 0)]
        if not len(own):
            num_items = int((values[:, TIMES] > 0).sum())
            return f"{item} is not among {counted(num_items, 'item')} before" if num_items else "nothing before"
        times, ago, days = (int(own[0, place]) for place in (TIMES, BASKETS_AGO, DAYS_AGO))
        since = f", {counted(days, 'day')} ago" if days != UNKNOWN_DAYS else ""
        newest = "the last one" if ago == 0 else f"the last {counted(ago, 'basket')} before the newest"
        number = int(baskets[:, BASKETS_AGO].max()) + 1
        return f"{item} in {times:,} of {counted(number, 'basket')}, {newest}{since}"

    @property
    def choices(self) -> tuple[str, ...]:
        return ()

    def names(self, values: NDArray[Any]) -> NDArray[np.str_]:
        """Return how many items each history has."""
        num_items = (values[..., TIMES] > 0).sum(axis=1)
        edges = (0, 5, 20, 100)
        names = np.array(["none", "1 to 5 items", "6 to 20 items", "21 to 100 items", "more than 100 items"])
        found = names[np.searchsorted(edges, num_items, side="left")]
        return np.where(values[:, 0, ITEM] == MISSING_ITEM, "(missing)", found)

    def elements(self, array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
        baskets = read_histories(array, column=self.column)
        rows = baskets.basket_rows[baskets.basket_of]
        return baskets.items, np.bincount(rows, minlength=len(array)).astype(np.int64)

    def say(self, array: pa.Array) -> pa.Array:
        raise SchemaError(
            f"{self.column!r} is a history, which cannot be said in words", fix="Leave the column out with exclude."
        )

    def json_schema(self) -> dict[str, Any]:
        item = {"anyOf": [SINGLE_VALUE, {"type": "null"}]}
        items = {"type": "array", "items": item}
        basket = {
            "type": "object",
            "properties": {ITEMS: items, DAYS: {"type": ["number", "null"], "minimum": 0}},
            "required": [ITEMS],
            "additionalProperties": False,
        }
        history = {"type": "array", "items": {"anyOf": [SINGLE_VALUE, items, basket]}}
        if self.sensitive:
            return sensitive_schema(history)
        return {
            "anyOf": [history, {"type": "null"}],
            "description": "What she had before, oldest first: items, baskets of items, or baskets with days_ago. "
            f"The newest {self.max_baskets} baskets are read. [] is known to have none. null: missing.",
        }

    def _ids(self, strings: pa.Array) -> NDArray[np.int64]:
        """Return the ids of items: [UNK] where the vocabulary lacks one, [MASK] where a value is null."""
        assert self._items is not None
        ids = self._items.lookup(strings)
        return np.where(ids == -2, MISSING_ITEM, np.where(ids == -1, UNKNOWN_ITEM, ids))


class ReadHistories:
    """The baskets of a column.

    Shapes: items (items,), basket_of (items,), basket_rows (baskets,) ascending, days (baskets,) or None.
    """

    def __init__(
        self,
        items: pa.Array,
        basket_of: NDArray[np.int64],
        basket_rows: NDArray[np.int64],
        days: NDArray[np.float64] | None,
        is_blank: NDArray[np.bool_],
    ) -> None:
        is_full = np.bincount(basket_of, minlength=len(basket_rows)) > 0  # an empty basket is none
        self.items, self.basket_of = items, (np.cumsum(is_full) - 1)[basket_of]
        self.basket_rows = basket_rows[is_full]
        self.days = days[is_full] if days is not None else None
        self.is_blank = is_blank

    def num_newer(self) -> NDArray[np.int64]:
        """Return how many newer baskets the row of each basket has."""
        counts = np.bincount(self.basket_rows) if len(self.basket_rows) else np.zeros(1, np.int64)
        return np.cumsum(counts)[self.basket_rows] - 1 - np.arange(len(self.basket_rows))


def read_histories(array: pa.Array, *, column: str, file: str | None = None) -> ReadHistories:
    """Return the baskets of a column of histories.

    Raises:
        DataError: a cell that is none, with its row; a basket that lies in the future.
        SchemaError: a column of another type.
    """
    is_blank = np.zeros(len(array), np.bool_)
    if is_text(value_type(array.type)):
        array, is_blank = _from_text(array, column=column, file=file)
    if pa.types.is_null(array.type):
        nothing = np.zeros(0, np.int64)
        return ReadHistories(pa.nulls(0, pa.string()), nothing, nothing, None, is_blank)
    if not is_list(array.type):
        raise SchemaError(f"column {column!r} has the type {array.type}, and its feature is a history", fix=_FIX)
    basket_rows = np.repeat(np.arange(len(array)), list_lengths(array))
    baskets, days = array.flatten(), None
    if pa.types.is_struct(baskets.type):
        fields = {field.name for field in baskets.type}
        if ITEMS not in fields or fields - {ITEMS, DAYS}:
            raise SchemaError(
                f"the baskets of column {column!r} have the fields {', '.join(sorted(fields))}",
                allowed=f"Allowed: {ITEMS}, {DAYS}.",
            )
        if DAYS in fields:
            try:
                days = to_numbers(pc.struct_field(baskets, DAYS), column=column)
            except DataError as error:  # its row counts baskets
                raise error.moved(file=file, row=int(basket_rows[error.row or 0])) from None
            future = np.flatnonzero(days < 0)
            if len(future):
                raise DataError(
                    f"days_ago is {days[future[0]]:g}: the basket lies in the future",
                    file=file,
                    row=int(basket_rows[future[0]]),
                    column=column,
                    fix="A history holds what was before the set. Give days before it.",
                )
        baskets = pc.struct_field(baskets, ITEMS)
    are_lists = is_list(baskets.type)
    if are_lists:
        _check_baskets(baskets, basket_rows, column=column, file=file)
        items, sizes = baskets.flatten(), list_lengths(baskets)
    else:
        items, sizes = baskets, np.ones(len(baskets), np.int64)
    basket_of = np.repeat(np.arange(len(basket_rows)), sizes)
    try:
        strings = canonical_array(items, column=column)
    except DataError as error:  # its row counts items
        raise error.moved(file=file, row=int(basket_rows[basket_of[error.row or 0]])) from None
    is_named = pc.not_equal(pc.utf8_trim_whitespace(strings), "")  # a blank names nothing, as in a query
    strings = pc.if_else(is_named, strings, None)
    if not are_lists:
        _check_baskets(strings, basket_rows, column=column, file=file)
    return ReadHistories(strings, basket_of, basket_rows, days, is_blank)


def _check_baskets(baskets: pa.Array, rows: NDArray[np.int64], *, column: str, file: str | None) -> None:
    """Raise DataError where null stands in place of a basket, which is neither an empty basket nor a known one."""
    if not baskets.null_count:
        return
    first = int(np.flatnonzero(baskets.is_null().to_numpy(zero_copy_only=False))[0])
    row = int(rows[first])
    number = first - int(np.searchsorted(rows, row)) + 1
    raise _null_basket(number).moved(file=file, row=row, column=column)


def _null_basket(number: int) -> DataError:
    return DataError(f"basket {number:,} of the history is null", fix=_BASKET_FIX)


def _from_text(array: pa.Array, *, column: str, file: str | None) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return a column of text as one of baskets, and which cells were blank; each distinct cell is read once."""
    encoded = array.cast(pa.string()).dictionary_encode()
    reader = History(name="history")
    cells: list[list[dict[str, Any]] | None] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            cells.append(reader.read_value(text) if text.strip() else None)
        except DataError as error:
            row = int(pc.index(encoded.indices, number).as_py())
            raise error.moved(file=file, row=row, column=column) from None
    lists = pc.take(pa.array(cells, pa.list_(BASKET)), encoded.indices)
    return lists, lists.is_null().to_numpy(zero_copy_only=False)


def _parsed(text: str) -> object:
    """Return the list that a text of JSON, or of Python's lists, holds; None where it says that it is missing."""
    if text.strip() in MISSING_MARKS:
        return None
    ways = [(json.loads, text), (literal_eval, text.strip())]
    if '"' not in text and "\\" not in text:
        ways.append((json.loads, text.replace("'", '"')))  # null and true beside Python's quotes
    for read, written in ways:
        try:
            return read(written)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    raise DataError(f"{text[:80]!r} is no history", fix=_FIX)


def _whole_days(days: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return days as whole numbers, ``UNKNOWN_DAYS`` where they are not known."""
    return np.where(np.isnan(days), UNKNOWN_DAYS, np.clip(np.nan_to_num(days), 0, MOST_DAYS).round()).astype(np.int64)


def _newest(found: Interactions, most: int, *, num_rows: int) -> Interactions:
    """Return the newest interactions of each row, at most so many."""
    counts = np.bincount(found.rows, minlength=num_rows)
    if counts.max(initial=0) <= most:
        return found
    order = np.lexsort((found.baskets_ago, found.rows))
    places = np.arange(len(order)) - (np.cumsum(counts) - counts)[found.rows[order]]
    kept = np.sort(order[places < most])
    return Interactions(*(each[kept] for each in found))


def holds_items(array: pa.Array, items: pa.Array, *, share: float = 0.5) -> bool:
    """Return whether most values of a column of lists are items of the sets, and there are several distinct ones.

    Args:
        array: lists.
        items: the items of the sets, each once.
        share: that must be items.

    Example:
        >>> holds_items(pa.array([["coat", "hat"], ["hat"]]), pa.array(["coat", "hat", "shoe"]))
        True
    """
    values = array.flatten()
    if not (is_text(value_type(values.type)) or pa.types.is_integer(values.type)):
        return False
    counts = canonical_array(values).value_counts()
    names, numbers = counts.field(0), counts.field(1).to_numpy(zero_copy_only=False)
    is_item = pc.is_in(names, value_set=items).to_numpy(zero_copy_only=False)
    return bool(len(names) > 1 and numbers.sum() > NO_ITEM and numbers[is_item].sum() >= share * numbers.sum())


def holds_baskets(array: pa.Array) -> bool:
    """Return whether most cells of a column of text are lists of baskets, in JSON, and one of them has an item.

    Example:
        >>> holds_baskets(pa.array(['[["coat"], ["hat", "coat"]]', "[]"])), holds_baskets(pa.array(['{"a": 1}']))
        (True, False)
    """
    texts = array.cast(pa.string())
    if not pc.any(pc.match_substring_regex(texts, _BASKETS)).as_py():
        return False
    try:
        return len(read_histories(array, column="history").basket_rows) > 0
    except DataError:
        readable = _readable(texts)
    is_most = len(readable) > _MOST * (len(texts) - count_missing(texts))
    return is_most and len(read_histories(readable, column="history").basket_rows) > 0


def _readable(texts: pa.Array) -> pa.Array:
    """Return the cells of a column of text that are histories, or say that the history is missing."""
    reader, distinct = History(name="history"), pc.unique(pc.drop_null(texts))
    kept: list[str] = []
    for text in distinct.to_pylist():
        try:
            if text.strip():
                reader.read_value(text)
                kept.append(text)
        except DataError:
            continue
    return texts.filter(pc.is_in(texts, value_set=pa.array(kept, texts.type)))


def _share_of_items(array: pa.Array, items: pa.Array) -> float:
    """Return how many of the values that stand in a column of histories are items of the sets, as a share."""
    if is_text(value_type(array.type)):
        values = read_histories(_readable(array.cast(pa.string())), column="history").items
    else:
        values = array
        while is_list(values.type) or pa.types.is_struct(values.type):
            if is_list(values.type):
                values = values.flatten()
            elif values.type.get_field_index(ITEMS) >= 0:
                values = pc.struct_field(values, ITEMS)
            else:
                return 0.0
        try:
            values = canonical_array(values)
        except DataError:
            return 0.0
    known = pc.sum(pc.is_in(values, value_set=items)).as_py() or 0
    return known / max(1, len(values) - values.null_count)


def history_items(table: pa.Table, columns: Iterable[str], *, least: int) -> list[str]:
    """Return the items that the histories of at least so many rows of a table hold, sorted.

    Args:
        table: rows with these columns.
        columns: those of histories; one that is silenced may be absent.
        least: number of rows.
    """
    found: set[str] = set()
    for column in (each for each in columns if each in table.column_names):
        baskets = read_histories(table.column(column).combine_chunks(), column=column)
        names = baskets.items.dictionary_encode()
        is_named = names.indices.is_valid().to_numpy(zero_copy_only=False)
        codes = pc.fill_null(names.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)[is_named]
        rows = baskets.basket_rows[baskets.basket_of][is_named]
        pairs = np.unique(rows * max(1, len(names.dictionary)) + codes) % max(1, len(names.dictionary))
        counts = np.bincount(pairs, minlength=len(names.dictionary))
        found |= {name for name in names.dictionary.filter(pa.array(counts >= least)).to_pylist() if name}
    return sorted(found)
