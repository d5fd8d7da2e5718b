"""One column of a table, checked: the items column as flat arrays, and columns in which no cell may be missing.

Every fault is named with file, row, column and value. It decides nothing about which items are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text, value_type, without_value
from contextual_bert.context.columns import num_with, separator_of_most
from contextual_bert.context.hints import written_missing
from contextual_bert.context.printed_lists import (
    as_lists,
    first_printed,
    holds_objects,
    num_printed,
    num_wrapped,
    object_error,
    printed_error,
)
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.column_codes import codes_of
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.errors import DataError, Message, UnknownNameError, did_you_mean
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import TablePlace

__all__ = [
    "Flat",
    "check_free",
    "check_separator",
    "checked_column",
    "flatten_items",
    "guessed_group",
    "missed_separators",
    "odd_keys",
    "odd_names",
    "quantities_in",
    "text_column",
    "totals_in",
]

_ALLOWED = "Items are a list of strings or whole numbers a row, or one string a row with a separator between the items."
_FLOATS = (
    "Numbers with decimals are no names, for 10.10 would be 10.1. Write the column as text; in pandas "
    "frame[column].astype('string')."
)
_SEPARATORS = (",", ";", "|", "\t", " ")
# What hardly ever stands in the name of an item, and so is a separator wherever some cells have it.
_MISSED_SEPARATORS = (";", "|", "\t")
_SOME_CELLS = 0.05
_QUANTITY = r"^(.*\S)\s*(?:[:=*×]\s*[0-9]{1,3}|\([0-9]{1,3}x?\))$|^[0-9]{1,3}\s?[x×*]\s?(.+)$"
# Items that are called so are mostly the last line of a receipt, or of an export.
_TOTALS = frozenset(
    {
        *("total", "totals", "grand total", "subtotal", "sub-total", "sub total", "total amount", "sum", "sum total"),
        *("summe", "gesamt", "gesamtsumme", "zwischensumme", "total général", "sous-total", "totale", "totaal", "suma"),
    }
)
_FEWEST_NAMES = 6
_WHOLE_WITH_DECIMALS = r"^-?[0-9]+\.0+$"
_NUM_PAIRS = 3
_NEARLY_ALL, _FEW_STEMS = 0.9, 0.7  # of the names
_MOST_GROUPS = 0.9  # of the rows: above that, a column hardly groups anything


@dataclass(frozen=True, eq=False)
class Flat:
    """The items of all rows: `names[codes[i]]` is an item, `rows[i]` its row, `places[i]` its place in that list.

    ``bad_rows`` are those that were left out because an item of theirs is none.
    """

    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    names: pa.Array
    bad_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def select(self, keep: NDArray[np.bool_]) -> "Flat":
        """The items under a mask."""
        return Flat(self.codes[keep], self.rows[keep], self.places[keep], self.names, self.bad_rows)

    def lists(self, num_rows: int) -> pa.LargeListArray:
        """The items of each row as a list of their names."""
        offsets = offsets_of(np.bincount(self.rows, minlength=num_rows))
        return pa.LargeListArray.from_arrays(pa.array(offsets), self.names.take(pa.array(self.codes)))


def checked_column(table: pa.Table, name: str, *, file: str | None = None, complete: bool = False) -> pa.ChunkedArray:
    """A column by its name; with `complete`, no cell of it may be missing."""
    if name not in table.column_names:
        where = f" in {file}" if file else ""
        raise UnknownNameError(
            f"There is no column {name!r}{where}",
            place=TablePlace(lacking=(name,)),
            allowed=did_you_mean(name, table.column_names),
        )
    column = table.column(name)
    if complete:
        missing = pc.is_null(column, nan_is_null=True)
        row = pc.index(missing, True).as_py()
        if row >= 0:
            raise DataError(
                f"the cell is missing ({counted(pc.sum(missing).as_py(), 'such row')})",
                file=file,
                row=row,
                column=name,
                fix="Each row needs a value here: fill it in, or leave the row out of the table.",
            )
    return column


def text_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column as plain text; of categories their names.

    Raises:
        DataError: it is of another type.
    """
    column = decoded(column)
    if not is_text(column.type):
        raise DataError(f"the column is of type {column.type}", column=name, fix="Give a column of text.")
    return column


def flatten_items(
    column: pa.ChunkedArray, *, items: str, separator: str | None, file: str | None, is_dropping: bool = False
) -> Flat:
    """The items of a column of lists, or of strings with a separator between the items.

    Whole numbers and dates are such strings too: a CSV file whose sets all have one item comes with them.

    Args:
        column: the cells.
        items: its name, for messages.
        separator: what stands between the items of a string; None: a string is one item.
        file: where it comes from, for messages.
        is_dropping: a row with a missing or empty item is left out, and is no error.
    """
    column = decoded(column)
    if pa.types.is_floating(column.type):  # NaN is an empty cell, as in other columns
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    kind = column.type
    if _is_one_item_a_row(column):
        column = pa.chunked_array([canonical_array(column, file=file, column=items)])
        kind = column.type
    if holds_objects(column):
        raise object_error(column, file=file, column=items)
    lists = as_lists(column.combine_chunks(), file=file, name=items, has_bands=False) if is_text(kind) else None
    if lists is not None:
        column = pa.chunked_array([lists])
        kind = column.type
    has_text = is_text(kind)
    if pa.types.is_null(kind):
        column = column.cast(pa.list_(pa.string()))
    elif has_text:
        column = _split(column, items=items, separator=separator, file=file)
    elif not is_list(kind) or not _is_item(kind.value_type):
        fix = _FLOATS if pa.types.is_floating(kind) else _ALLOWED
        raise DataError(f"the column is of type {kind}", file=file, column=items, fix=fix)
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    places = places_of(sizes)
    values = pc.list_flatten(column)
    if has_text:
        values = pc.utf8_trim_whitespace(values)

    bad_rows = _rows_without_name(values, rows) if is_dropping else np.zeros(0, np.int64)
    if len(bad_rows):
        keep = ~np.isin(rows, bad_rows)
        values, rows, places = values.filter(pa.array(keep)), rows[keep], places[keep]

    def check(faulty: pa.ChunkedArray, what: str, fix: str) -> None:
        first = pc.index(faulty, True).as_py()
        if first >= 0:
            place = f"item {int(places[first]) + 1} of {int(sizes[rows[first]])}"
            raise DataError(f"{place} is {what}", file=file, row=int(rows[first]), column=items, fix=fix)

    check(pc.is_null(values), "missing (null)", "Leave it out of the list, or give it a name.")
    if pa.types.is_floating(values.type):
        check(
            pc.invert(pc.is_finite(values)),
            "not a finite number (NaN or infinity)",
            "Leave it out of the list, or give it a name.",
        )
    try:
        codes, names = _encode(values)
    except DataError as error:  # a number that cannot name an item
        place = _place_of(values, error)
        row = int(rows[place]) if place is not None else None
        raise error.moved(file=file, row=row, column=items) from error
    between = f" between two separators {separator!r}" if has_text and separator is not None else ""
    empty = pc.index(pc.equal(pc.utf8_trim_whitespace(names), ""), True).as_py()
    if empty >= 0:
        check(
            pa.chunked_array([pa.array(codes == empty)]),
            f"an empty string{between}",
            "Leave it out, or give it a name.",
        )
    return Flat(codes, rows, places, names, bad_rows)


def _rows_without_name(values: pa.ChunkedArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of items that are missing, empty, or no finite number."""
    faulty = without_value(values)
    if pa.types.is_floating(values.type):
        faulty = pc.or_(faulty, pc.fill_null(pc.invert(pc.is_finite(values)), False))
    return np.unique(rows[np.asarray(faulty, np.bool_)])


def _encode(values: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Codes and names: distinct raw values are turned to strings once, and equal strings share a code."""
    if len(values) == 0:
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    raw = decoded(values).dictionary_encode().combine_chunks()
    raw = raw.chunk(0) if isinstance(raw, pa.ChunkedArray) else raw
    names = canonical_array(raw.dictionary).dictionary_encode()
    again = names.indices.to_numpy().astype(np.int64)
    return again[raw.indices.to_numpy()], names.dictionary.cast(pa.string())


def _place_of(values: pa.ChunkedArray, error: DataError) -> int | None:
    """Return the place of the value that an error names by its row among the distinct ones, or None."""
    if error.row is None:
        return None
    found = pc.index(values, pc.unique(values)[error.row]).as_py()
    return found if found >= 0 else None


def _split(column: pa.ChunkedArray, *, items: str, separator: str | None, file: str | None) -> pa.ChunkedArray:
    column = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    printed = first_printed(column, separator=separator)
    if printed is not None:
        fix = (
            f"Write the items with {separator or ','!r} between them and nothing around them, or save the table as "
            "Parquet or JSON Lines."
        )
        raise printed_error(column, printed, file=file, column=items, fix=fix)
    empty = pc.equal(column, "")
    column = pc.if_else(empty, pa.scalar(None, pa.large_string()), column)
    if separator is None:
        whole = column.combine_chunks()
        sizes = pc.fill_null(pc.is_valid(whole).cast(pa.int64()), 0).to_numpy()
        return pa.chunked_array([pa.LargeListArray.from_arrays(pa.array(offsets_of(sizes)), whole.drop_null())])
    return pc.utf8_split_whitespace(column) if separator == " " else pc.split_pattern(column, separator)


def check_free(table: pa.Table, names: Sequence[str]) -> None:
    """Raise DataError where the table has a column that is called as one that is to be added."""
    taken = [name for name in names if name in table.column_names]
    if taken:
        what = "the table has this column, and what is predicted would be called so too"
        raise DataError(what, column=taken[0], fix="Rename it, or leave it out.")


def check_separator(
    column: pa.ChunkedArray, *, items: str, separator: str, file: str | None, table: pa.Table | None = None
) -> None:
    """Raise where no cell has the separator and another one was missed: a set would be one item with a long name.

    That is another one of most cells, or of some cells if it hardly ever stands in a name. It is to be asked of a whole
    column: a few of its rows may be sets of one item. The table tells which column may name the sets.
    """
    column = decoded(column)
    if not is_text(column.type) or num_with(column, separator):
        return
    cells = _filled(column)
    if num_printed(cells) > len(cells) / 2 or holds_objects(cells):
        return  # which reading the items says
    missed = {other: found for other in _MISSED_SEPARATORS if (found := _num_of_some(cells, other))}
    other, found = separator_of_most(cells, _SEPARATORS) or next(iter(missed.items()), (None, 0))
    if other is not None:
        group = guessed_group(table, items=items) if table is not None else None
        named = (
            f"give --group-by {group}" if group is not None else "give --group-by with the column that names the set"
        )
        raise DataError(
            f"no cell has {separator!r} between its items, and {found:,} of {len(cells):,} {agreeing('have', found)} "
            f"{other!r}",
            file=file,
            column=items,
            fix=f"Give --separator {other!r} (in Python SetPolicy(separator={other!r})). Where each row has one item, "
            f"{named}. Where names have such characters, give the sets as "
            "lists, in Parquet or JSON Lines.",
        )


def guessed_group(table: pa.Table, *, items: str) -> str | None:
    """The column that names sets in a table of one item a row, as far as its values show; None where none does.

    Such a column holds text or whole numbers without a gap, each of them in a few rows. Rows of one value mostly
    stand together; of several such columns that with the most values is taken.

    Example:
        >>> guessed_group(pa.table({"order": [1, 1, 2, 2, 2, 3], "item": list("abcabd")}), items="item")
        'order'
    """
    found: list[tuple[int, str]] = []
    for name in table.column_names:
        column = decoded(table.column(name))
        if name == items or not (is_text(column.type) or pa.types.is_integer(column.type)) or column.null_count:
            continue
        codes = codes_of(column)
        num_values, num_runs = len(np.unique(codes)), 1 + int((np.diff(codes) != 0).sum())
        if 1 < num_values <= _MOST_GROUPS * len(codes) and num_runs < 2 * num_values:
            found.append((num_values, name))
    return max(found)[1] if found else None


def missed_separators(column: pa.ChunkedArray, *, separator: str | None = None) -> list[str]:
    """Warnings about another separator in some cells of a column of text, which there is taken for a part of a name.

    Example:
        >>> missed_separators(pa.chunked_array([["a,b", "c;d"]]), separator=",")
        ["warning: 1 of 2 cells has ';', which is read as a part of an item's name: a second separator?"]
    """
    column = decoded(column)
    if not is_text(column.type):
        return []
    cells = _filled(column)
    if num_printed(cells) > len(cells) / 2:
        return []
    wrapped = (("are", "in brackets"), ("have", "a piece in quotes"))
    remarks = [
        f"warning: {found:,} of {counted(len(cells), 'cell')} {agreeing(verb, found)} {what}, read as a part of an "
        "item's name: a printed list?"
        for (verb, what), found in zip(wrapped, num_wrapped(cells, separator), strict=True)
        if found >= _SOME_CELLS * len(cells) and found
    ]
    return remarks + [
        f"warning: {found:,} of {counted(len(cells), 'cell')} {agreeing('have', found)} {other!r}, which is read as a "
        "part of an item's name: a second separator?"
        for other in _MISSED_SEPARATORS
        if other != separator and (found := num_with(cells, other))
    ]


def odd_names(names: pa.Array, *, what: str, each: str) -> list[str]:
    """Return warnings about names that say "missing", and about whole numbers that are there with decimals, too.

    Args:
        names: the distinct names of items or labels.
        what: what they are, such as "the items".
        each: what each of them is taken for, such as "an item".

    Example:
        >>> odd_names(pa.array(["5", "5.0", "nan"]), what="the labels", each="a class")
        ["warning: the labels 'nan' may stand for a missing one, and each is a class", \
"warning: the labels '5' and '5.0' are one number, and each is a class of its own"]
    """
    found = list[str]()
    if absent := written_missing(names):
        found.append(f"warning: {what} {', '.join(map(repr, absent))} may stand for a missing one, and each is {each}")
    if pairs := _with_and_without_decimals(names):
        shown = "; ".join(f"{one!r} and {other!r}" for one, other in pairs[:_NUM_PAIRS])
        more = f"; and {len(pairs) - _NUM_PAIRS:,} more such" if len(pairs) > _NUM_PAIRS else ""
        found.append(f"warning: {what} {shown}{more} are one number, and each is {each} of its own")
    return found


def _with_and_without_decimals(names: pa.Array) -> list[tuple[str, str]]:
    decimal = names.filter(pc.match_substring_regex(names, _WHOLE_WITH_DECIMALS))
    whole = pc.replace_substring_regex(decimal, r"\.0+$", "")
    is_twice = pc.is_in(whole, value_set=names)
    return [*zip(whole.filter(is_twice).to_pylist(), decimal.filter(is_twice).to_pylist(), strict=True)]


def odd_keys(names: pa.Array, *, column: str, each: str) -> list[str]:
    """Return warnings about what names a customer or a group, as ``odd_names``, without naming one.

    Args:
        names: the distinct keys.
        column: of the keys.
        each: what each of them is taken for, such as "a customer".

    Example:
        >>> odd_keys(pa.array(["5", "5.0", "nan"]), column="who", each="a customer")
        ["column 'who': 'nan' may stand for a missing one, and is a customer", \
"column 'who': 1 whole number is spelt with and without decimals, and each spelling is a customer: write it in one way"]
    """
    found = list[str]()
    if absent := written_missing(names):
        verb = "is" if len(absent) == 1 else "each is"
        found.append(
            f"column {column!r}: {', '.join(map(repr, absent))} may stand for a missing one, and {verb} {each}"
        )
    if num_pairs := len(_with_and_without_decimals(names)):
        it = "it" if num_pairs == 1 else "them"
        found.append(
            f"column {column!r}: {counted(num_pairs, 'whole number')} {agreeing('are', num_pairs)} spelt with and "
            f"without decimals, and each spelling is {each}: write {it} in one way"
        )
    return found


def totals_in(flat: Flat) -> list[str]:
    """Return a remark on items that are called as a line of totals is, which exports put below the rows.

    Example:
        >>> flat = Flat(np.array([0, 1, 1]), np.array([0, 0, 1]), np.zeros(3), pa.array(["hat", "Total"]))
        >>> totals_in(flat)[0].partition(".")[0]
        "warning: the item 'Total' is in 2 sets, and is called like a line of totals"
    """
    found: list[str] = []
    for code, name in enumerate(flat.names.to_pylist()):
        if " ".join(name.lower().rstrip(":").split()) not in _TOTALS:
            continue
        if num_sets := len(np.unique(flat.rows[flat.codes == code])):
            found.append(
                Message(
                    f"warning: the item {name!r} is in {counted(num_sets, 'set')}, and is called like a line of "
                    "totals. If it is one, leave it out: {drop_items}",
                    drop_items=[name],
                )
            )
    return found


def quantities_in(names: pa.Array) -> list[str]:
    """Return a warning where the names of most items end, or begin, with a quantity, so that each is another item.

    Example:
        >>> quantities_in(pa.array(["a:1", "a:2", "b:1", "b:3", "c:2", "c:1"]))[0].partition(" is ")[0]
        "warning: most names hold a number, as 'a:1': a name with another number"
        >>> quantities_in(pa.array(["coat-1", "coat-2", "hat-1"]))
        []
    """
    if len(names) < _FEWEST_NAMES:
        return []
    stems = pc.replace_substring_regex(names, _QUANTITY, r"\1\2")
    has_number = pc.not_equal(stems, names)
    if pc.sum(has_number).as_py() < _NEARLY_ALL * len(names) or len(stems.unique()) > _FEW_STEMS * len(names):
        return []
    first = names.filter(has_number)[0].as_py()
    return [
        f"warning: most names hold a number, as {first!r}: a name with another number is another item. Where it is a "
        "quantity, write the names alone"
    ]


def _filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(column)
    return trimmed.filter(pc.not_equal(trimmed, ""))


def _num_of_some(cells: pa.ChunkedArray, separator: str) -> int:
    """Return the number of cells with this separator, or 0 if only a few have it."""
    found = num_with(cells, separator)
    return found if found >= _SOME_CELLS * len(cells) else 0


def _is_one_item_a_row(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type):  # whole numbers, some of them missing, in pandas
        numbers = column.cast(pa.float64())
        return pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()
    if pa.types.is_decimal(column.type):
        return pc.all(pc.equal(column, pc.floor(column))).as_py()
    return pa.types.is_integer(column.type) or pa.types.is_date(column.type)


def _is_item(kind: pa.DataType) -> bool:
    kind = value_type(kind)
    plain = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_null,
    )
    return is_text(kind) or any(test(kind) for test in plain)
