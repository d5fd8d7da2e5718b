"""Leaks of a split and its columns: what makes a test score too good, looked for before anything is trained.

Five questions. Does a set of one part occur in another? Is a customer in two parts? Does a column name items of its
row? Does a value of a column say which items are in the set? Does a number follow from the items, such as their sum?
Columns are judged against the same column shuffled, so that chance is not taken for a leak. It changes nothing, and
knows no model. docs/protocol.md, "Splits".
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.kinds.history import read_histories
from contextual_bert.data.checked_columns import checked_column, flatten_items
from contextual_bert.data.column_codes import codes_of, elements_as_text, is_identifier, shuffled
from contextual_bert.data.hashing import hash_counters, hash_strings
from contextual_bert.data.parts_in_time import column_of_parts_in_time
from contextual_bert.data.ragged import offsets_of
from contextual_bert.data.set_columns import SetItems, what_it_follows
from contextual_bert.data.sets import SetTable
from contextual_bert.data.splits import PARTS, Split
from contextual_bert.nouns import agreeing, counted, plural

__all__ = ["Audit", "Fault", "audit"]

_SHARE = 0.02  # of the rows, in excess of the shuffled column: below it a column cannot move a score by much
_GROUP = 20  # rows a value needs before "always with this item" is more than a coincidence
_ALWAYS = 0.99
_DEVIATIONS = 3  # standard errors by which a share exceeds that of the shuffled column before it is no chance
_OFTEN_HELD = 0.3  # of the rows: people seldom take all of a basket again
_TAKEN = 0.9  # of the cells that name an item: as many name one of their own set where they were taken from it


@dataclass(frozen=True)
class Fault:
    """One thing that was found.

    Args:
        kind: what it is.
        severity: "leak" makes scores too good; "warning" may be in the nature of the data and needs a look.
        message: the fault, how often, and what to do.
        count: rows, sets, texts or customers concerned.
        rows: up to ten of them, as rows of the table.
        column: that it is about; None where it is about whole sets, texts or customers.
    """

    kind: Literal[
        "duplicate_set",
        "duplicate_text",
        "same_customer",
        "column_names_items",
        "column_determines_items",
        "column_follows_from_set",
        "column_determines_label",
        "history_holds_set",
    ]
    severity: Literal["leak", "warning"]
    message: str
    count: int
    rows: tuple[int, ...]
    column: str | None = None


@dataclass(frozen=True)
class Audit:
    """Findings of an audit, and what was audited."""

    faults: tuple[Fault, ...]
    checked: tuple[str, ...]

    @property
    def leaks(self) -> tuple[Fault, ...]:
        """The faults that make scores too good."""
        return tuple(fault for fault in self.faults if fault.severity == "leak")

    @property
    def leaking_columns(self) -> tuple[str, ...]:
        """The columns that tell what is asked for, each once."""
        return tuple(dict.fromkeys(fault.column for fault in self.leaks if fault.column is not None))

    def lines(self) -> list[str]:
        """The audit for people: a line for each check, then one for each fault."""
        found = [
            f"{fault.severity}: {fault.message} ({'row' if len(fault.rows) == 1 else 'rows'} "
            f"{', '.join(str(row + 1) for row in fault.rows)}, counted from 1)"
            for fault in self.faults
        ]
        return [f"checked: {'; '.join(self.checked)}", *(found or ["no leak found"])]


def audit(
    split: Split,
    sets: SetTable,
    *,
    customer: str | None = None,
    context: Collection[str] | None = None,
    histories: Collection[str] = (),
) -> Audit:
    """Look for leaks between the parts of a split, and from the columns to the items.

    Args:
        split: of the table that the sets were read from.
        sets: from `read_sets`.
        customer: column that says whose set it is; default: that of the sets. Without one that check is left out,
            and said.
        context: columns that a model reads; the others give nothing away. None: all that name no item or customer.
        histories: those of them that hold what somebody had before, in which items of the set may occur again.

    Example:
        >>> from contextual_bert.data import SetPolicy, read_sets, split_by_row
        >>> table = pa.table({"items": [["a", "b"]] * 50, "age": list(range(50))})
        >>> sets = read_sets(table, items="items", policy=SetPolicy())
        >>> [fault.kind for fault in audit(split_by_row(table, validation=0.2, test=0.2), sets).faults]
        ['duplicate_set', 'duplicate_set']
    """
    split.check_rows(sets)
    customer = customer or sets.customer
    parts = split.assignment[sets.rows].astype(np.int64)
    names = sets.values.dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64)
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    fingerprints = _sum_by(hash_counters(1, hash_strings(names.dictionary).view(np.int64))[codes], sets.offsets)
    columns = [
        name
        for name in sets.table.column_names
        if name not in (sets.items, customer, split.column if split.by in ("customer", "column") else None)
    ]
    faults = [
        *_duplicate_sets(sets, parts, fingerprints, columns),
        *(same_customer(sets.table, parts, customer, by=split.by, rows=sets.rows) if customer else []),
    ]
    read = [name for name in columns if context is None or name in context]
    raw = _raw_items(sets) if read else None
    for column in read:
        if column in histories:
            faults.extend(_holds_set(sets, column, names.dictionary, codes, owner))
            continue
        faults.extend(
            _names_items(sets, column, names.dictionary, codes, owner)
            or _determines_items(sets, column, codes, owner)
            or _follows_from_set(sets, column, raw)
        )
    checked = (
        f"equal {plural(sets.report.noun)} in two parts ({counted(len(sets), sets.report.noun)})",
        f"customers in two parts ({customer})"
        if customer
        else "customers in two parts: NOT checked, no customer column was named",
        f"columns that give items away ({len(read)})",
    )
    return Audit(tuple(faults), checked)


def _sum_by(values: NDArray[np.uint64], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    # A sum does not depend on the order of the items. Every set has at least one, as reduceat needs.
    return np.add.reduceat(values, offsets[:-1])


def _duplicate_sets(
    sets: SetTable, parts: NDArray[np.int64], fingerprints: NDArray[np.uint64], columns: list[str]
) -> list[Fault]:
    compared = [column for column in columns if not is_identifier(sets.table.column(column))]
    values = np.zeros(len(sets), dtype=np.uint64)
    for column in compared:
        values = hash_counters(values.view(np.int64), codes_of(sets.table.column(column)))
    alike, by_chance = (
        hash_counters(fingerprints.view(np.int64), each.view(np.int64))
        for each in (values, values[shuffled(len(sets))])
    )
    faults: list[Fault] = []
    for later, earlier in ((1, (0,)), (2, (0, 1))):
        own = parts == later
        before = np.isin(parts, earlier)
        seen = own & np.isin(fingerprints, fingerprints[before])
        copied = own & np.isin(alike, alike[before]) & bool(compared)
        expected = int((own & np.isin(by_chance, by_chance[before])).sum())
        if not seen.any():
            continue
        where = " or ".join(PARTS[part] for part in earlier)
        # Of people who choose alike some are alike in a few columns, too: as many as with the columns of others.
        is_copied = bool(copied.sum() > expected + 3 * np.sqrt(expected))
        same = f", {int(copied.sum()):,} of them with the same value in {counted(len(compared), 'other column')}"
        message = (
            f"{int(seen.sum()):,} of {counted(int(own.sum()), f'{PARTS[later]} set')} ({seen.sum() / own.sum():.1%}) "
            f"{agreeing('occur', int(seen.sum()))} in {where} too{same if compared else ''}. Where these "
            "are copies, remove them; where people choose alike, say so beside the score"
        )
        faults.append(
            Fault(
                "duplicate_set",
                "leak" if is_copied else "warning",
                message,
                int(seen.sum()),
                first_rows(sets.rows, copied if is_copied else seen),
            )
        )
    return faults


def same_customer(
    table: pa.Table, parts: NDArray[np.int64], customer: str, *, by: str, rows: NDArray[np.int64]
) -> list[Fault]:
    """Is a customer in more than one part?

    Args:
        table: what was split.
        parts: the part of each of its rows, counted as in PARTS; a row in no part counts for none.
        customer: name of the column.
        by: what the split was made by.
        rows: the number that each row has in the file.
    """
    codes = codes_of(checked_column(table, customer, complete=True))
    present = np.zeros((int(codes.max()) + 1, len(PARTS) + 1), dtype=np.bool_)
    present[codes, parts] = True
    shared = present[:, : len(PARTS)].sum(axis=1) > 1
    if not shared.any():
        return []
    advice = {
        "time": "expected of a split by time: the score is for known customers",
        "column": "if the parts were to be by customer, mend them; else the score is for known customers",
        "file": "if the parts were to be by customer, mend them; else the score is for known customers",
    }.get(by, "split by customer instead")
    in_time = by == "time"
    if by in ("column", "file"):
        is_shared = shared[codes] & (parts < len(PARTS))
        column = column_of_parts_in_time(table.filter(pa.array(is_shared)), codes[is_shared], parts[is_shared])
        if column is not None:
            in_time = True
            advice = f"expected where the parts of each follow each other in time, as by {column!r} here: the score is "
            advice += "for known customers"
    number = int(shared.sum())
    message = (
        f"{number:,} of {counted(len(present), 'customer')} (column {customer!r}) {agreeing('are', number)} in more "
        f"than one part: {advice}"
    )
    return [
        Fault(
            "same_customer",
            "warning" if in_time else "leak",
            message,
            int(shared.sum()),
            first_rows(rows, shared[codes]),
        )
    ]


def _names_items(
    sets: SetTable, column: str, names: pa.Array, codes: NDArray[np.int64], owner: NDArray[np.int64]
) -> list[Fault]:
    """Does a cell, an element of its list or a word of its text equal an item of the row?"""
    rows, words = elements_as_text(sets.table.column(column))
    found = pc.fill_null(pc.index_in(words, value_set=names), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows, found = rows[found >= 0], found[found >= 0]
    pairs = np.sort(owner * len(names) + codes)

    def naming(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        key = rows * len(names) + found
        place = np.searchsorted(pairs, key)
        mask = np.zeros(len(sets), dtype=np.bool_)
        mask[rows[pairs[np.minimum(place, len(pairs) - 1)] == key]] = True
        return mask

    naming_rows = naming(rows)
    share = float(naming_rows.mean())
    by_chance = max(_SHARE, _DEVIATIONS * math.sqrt(2 * share * (1 - share) / len(sets)))
    if share <= _SHARE or share - naming(shuffled(len(sets))[rows]).mean() <= by_chance:
        return []
    named = np.bincount(rows, minlength=len(sets))
    # A cell that was taken from the set is right wherever it names an item. Values that are called like items, "f" and
    # "m" among letters, are often in no item of their set, even where they say who likes which.
    if named.max() == 1 and naming_rows.sum() < _TAKEN * named.sum():
        return []
    message = (
        f"the column {column!r} names an item of its own set in {share:.1%} of the rows: leave it out of the context"
    )
    return [
        Fault("column_names_items", "leak", message, int(naming_rows.sum()), first_rows(sets.rows, naming_rows), column)
    ]


def _holds_set(
    sets: SetTable, column: str, names: pa.Array, codes: NDArray[np.int64], owner: NDArray[np.int64]
) -> list[Fault]:
    """Does the newest basket of a history hold the whole set, as where the set itself was written into it?"""
    baskets = read_histories(sets.table.column(column).combine_chunks(), column=column)
    is_newest = baskets.num_newer()[baskets.basket_of] == 0
    found = pc.fill_null(pc.index_in(baskets.items, value_set=names), -1).to_numpy(zero_copy_only=False)
    rows = baskets.basket_rows[baskets.basket_of]
    is_known = is_newest & (found >= 0)
    pairs = np.unique(rows[is_known] * len(names) + found[is_known])
    own = np.unique(owner * len(names) + codes)
    num_held = np.bincount(own[np.isin(own, pairs)] // len(names), minlength=len(sets))
    has_history = np.zeros(len(sets), np.bool_)
    has_history[rows] = True
    holding = has_history & (num_held == np.bincount(own // len(names), minlength=len(sets)))
    share = float(holding.sum() / max(1, has_history.sum()))
    if share < _OFTEN_HELD:
        return []
    message = (
        f"the newest basket of the history {column!r} holds the whole set in {share:.1%} of the rows that have one: a "
        "history ends before the set"
    )
    severity = "leak" if share >= _TAKEN else "warning"
    return [Fault("history_holds_set", severity, message, int(holding.sum()), first_rows(sets.rows, holding), column)]


def _determines_items(sets: SetTable, column: str, codes: NDArray[np.int64], owner: NDArray[np.int64]) -> list[Fault]:
    """Is there an item in (nearly) every set of the rows that share a value? Or is the value the size of the set?"""
    values = codes_of(sets.table.column(column))

    def always(values: NDArray[np.int64]) -> NDArray[np.bool_]:
        rows_of = np.bincount(values)
        wide = rows_of >= _GROUP
        chosen = wide[values[owner]]
        if not chosen.any():
            return np.zeros(len(values), dtype=np.bool_)
        width = int(codes.max()) + 1
        pair, count = np.unique(values[owner[chosen]] * width + codes[chosen], return_counts=True)
        given = np.zeros(len(rows_of), dtype=np.bool_)
        given[pair[count >= _ALWAYS * rows_of[pair // width]] // width] = True
        return given[values]

    given = always(values)
    what = "says which items are in the set: all sets of one value share an item"
    if given.mean() - (always(values[shuffled(len(values))]).mean() if given.mean() > _SHARE else 1.0) <= _SHARE:
        given = _equals_size(sets, column)
        what = "is the number of items in the set"
    if not given.any():
        return []
    message = f"the column {column!r} {what}, in {given.mean():.1%} of the rows: leave it out of the context"
    return [Fault("column_determines_items", "leak", message, int(given.sum()), first_rows(sets.rows, given), column)]


def _raw_items(sets: SetTable) -> SetItems:
    """The items as the table has them, those that filters drop among them."""
    flat = flatten_items(sets.table.column(sets.items), items=sets.items, separator=sets.separator, file=None)
    counts = np.bincount(flat.rows, minlength=len(sets))
    return SetItems(flat.codes, offsets_of(counts), len(flat.names))


def _follows_from_set(sets: SetTable, column: str, raw: SetItems | None) -> list[Fault]:
    """Is the column a number that the items make, such as how many they are or what they cost together?"""
    found = what_it_follows(sets.table.column(column), raw) if raw is not None else None
    if found is None:
        return []
    what, share = found
    message = (
        f"the column {column!r} follows from the items of its set ({what} explains {share:.1%} of it), so it "
        "tells of the item that is asked for: leave it out of the context, unless it is known before the items are"
    )
    rows = tuple(int(row) for row in sets.rows[:10])
    return [Fault("column_follows_from_set", "leak", message, len(sets), rows, column)]


def _equals_size(sets: SetTable, column: str) -> NDArray[np.bool_]:
    values = sets.table.column(column)
    equal = np.zeros(len(sets), dtype=np.bool_)
    if (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)) and len(np.unique(sets.sizes)) > 1:
        equal = pc.fill_null(values.cast(pa.float64(), safe=False), -1.0).to_numpy() == sets.sizes
    return equal if equal.mean() >= _ALWAYS else np.zeros(len(sets), dtype=np.bool_)


def first_rows(rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Up to ten of the rows under the mask."""
    return tuple(int(row) for row in rows[np.flatnonzero(mask)[:10]])
