"""Comparison of a new table with the warm-started run: items, values of the context, columns.

Next month's table differs. Whatever of it the old run does not know is said before training, with examples.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema, Feature
from contextual_bert.context.binning import customers_of_values
from contextual_bert.context.encoding import encode_table
from contextual_bert.context.infer import Customers, numbers_of_customers
from contextual_bert.context.interactions import ITEM, UNKNOWN_ITEM
from contextual_bert.context.limits import MIN_CUSTOMERS
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.context.withheld import WITHHELD
from contextual_bert.errors import Message, joined
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.nouns import agreeing, counted

NUM_EXAMPLES = 5
# From this share of the rows on, values that the run does not know are a warning. Rare values are unknown to it, too.
WARNING_SHARE = 0.2


def missing_items(known: ContextualBertProcessor, every: pa.Array) -> list[str]:
    """Return the items of a run that no set and no history holds, in the order of its vocabulary.

    Args:
        known: the processor of the run.
        every: the items of all sets and histories.
    """
    names = pa.array(known.items.values, pa.string())
    return names.filter(pc.invert(pc.is_in(names, value_set=pc.unique(every)))).to_pylist()


def item_lines(
    known: ContextualBertProcessor,
    training: pa.Array,
    gone: Sequence[str],
    *,
    run: str,
    file: str,
    are_retired: bool = False,
    are_withheld: bool = False,
) -> list[str]:
    """Return sentences on items of the sets that are new, and on items of the run that the table lacks.

    Args:
        known: the processor of the run.
        training: the items of all sets of the training part.
        gone: of ``missing_items``.
        run: that is gone on from.
        file: path of the table.
        are_retired: the missing items leave the vocabulary.
        are_withheld: the missing items are not named: they may be of a sensitive history.
    """
    names = pa.array(known.items.values, pa.string())
    numbers = pc.value_counts(training)
    values, counts = numbers.field("values"), numbers.field("counts")
    is_new = pc.invert(pc.is_in(values, value_set=names))
    new = dict(zip(values.filter(is_new).to_pylist(), counts.filter(is_new).to_pylist(), strict=True))
    lines: list[str] = []
    if new:
        added = f"{counted(len(new), 'item')} of the sets {agreeing('are', len(new))} new to {run}"
        lines.append(f"{added}, appended to its vocabulary: {counted_examples(new)}")
    if gone:
        lost = f"{len(gone):,} of {counted(len(names), 'item')} of {run} {agreeing('are', len(gone))} not in {file}: "
        shown = WITHHELD if are_withheld else examples(gone)
        if are_retired:
            lines.append(f"{lost}{shown}. Retired: no longer candidates, and unknown where a query names one.")
        else:
            advice = Message("To retire what is missing, give {retire_missing_items}.", retire_missing_items=True)
            lines.append(joined(f"{lost}{shown}. Each stays a candidate. ", advice))
    return lines


def history_item_lines(
    known: ContextualBertProcessor, before: Sequence[str], training: pa.Array, *, run: str, are_withheld: bool = False
) -> list[str]:
    """Return a sentence on new items that histories alone hold, beside those of the sets that `item_lines` counts.

    Args:
        known: the processor of the run.
        before: the items that the histories of the training part tell of, each once.
        training: the items of all sets of the training part.
        run: that is gone on from.
        are_withheld: the items are not named: they may be of a sensitive history.
    """
    told_already = {*known.items.values, *pc.unique(training).to_pylist()}
    new = [item for item in before if item not in told_already]
    if not new:
        return []
    shown = WITHHELD if are_withheld else examples(new)
    counted_new = f"{counted(len(new), 'item')} of histories alone {agreeing('are', len(new))} new to {run}"
    return [f"{counted_new}, too, appended to its vocabulary: {shown}"]


def context_lines(
    schema: ContextSchema | None,
    table: pa.Table,
    *,
    run: str,
    file: str,
    beside: Collection[str],
    customers: Customers = None,
    min_customers: int = MIN_CUSTOMERS,
) -> list[str]:
    """Return sentences on values of the context that the run does not know, and on columns that it does not read.

    Args:
        schema: of the run.
        table: the rows of the training part.
        run: that is gone on from.
        file: path of the table.
        beside: columns that are no context.
        customers: whose row each is, as `infer_schema` takes them. None: each row counts for itself.
        min_customers: values of fewer are counted and not named.
    """
    read = {*(schema.columns if schema is not None else ()), *beside}
    more = [name for name in table.column_names if name not in read]
    lines = [f"columns of {file} that {run} does not read, and which are ignored: {examples(more)}"] if more else []
    if schema is None or not table.num_rows:
        return lines
    encoded = encode_table(schema, table, file=file)
    owners = numbers_of_customers(customers, table)
    for name in dict.fromkeys((*encoded.unknown, *encoded.shared)):
        feature = schema.feature(name)
        ids = encoded.tensors[name]
        if feature.shares_items:
            share = float((ids[..., ITEM] == UNKNOWN_ITEM).any(dim=1).float().mean())
            lines.append(
                f"context {name!r}: {share:.1%} of the training rows have items before that are none of its items"
            )
            continue
        ids = ids.view(table.num_rows, -1)
        is_new = (ids == feature.layout.unknown_id) | (ids >= feature.first_shared_id)
        share = float(is_new.any(dim=1).float().mean())
        absent = [] if feature.sensitive else _absent(feature, ids)
        unfamiliar = {**encoded.unknown.get(name, {}), **encoded.shared.get(name, {})}
        if not feature.sensitive:
            unfamiliar = _public(unfamiliar, feature, table, owners, min_customers=min_customers)
        known = (
            f"does not list, and which share {feature.num_shared:,} vectors" if feature.num_shared else "does not know"
        )
        lines.append(
            f"{'warning: ' if share >= WARNING_SHARE else ''}context {name!r}: {share:.1%} of the training rows have "
            f"values that {run} {known}: {_with_matches(unfamiliar, absent)}"
        )
    return lines


def _public(
    counts: Mapping[str, int],
    feature: Feature,
    table: pa.Table,
    owners: NDArray[np.int64] | None,
    *,
    min_customers: int,
) -> dict[str, int]:
    """The counts of values, those of few customers summed up under ``WITHHELD``."""
    array, lengths = feature.elements(table[feature.column].combine_chunks())
    owners = np.repeat(np.arange(table.num_rows) if owners is None else owners, lengths)
    encoded = canonical_array(array, column=feature.column).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = pc.fill_null(encoded.indices, len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = customers_of_values(codes, owners, num_values=len(names) + 1).tolist()
    size_of = dict(zip(names, sizes, strict=False))
    public = {name: count for name, count in counts.items() if size_of.get(name, 0) >= min_customers}
    rest = sum(counts.values()) - sum(public.values())
    return {**public, **({WITHHELD: rest} if rest else {})}


def _absent(feature: Feature, ids: Any) -> list[str]:
    """The values of a feature that no row has."""
    there = {int(number) for number in ids.unique()}
    first = feature.layout.num_reserved
    return [value for number, value in enumerate(feature.listed, first) if number not in there]


def _with_matches(unknown: Mapping[str, int], absent: Sequence[str]) -> str:
    """The commonest values, each with the known one that it may be, and known ones that no row has."""
    folded = {value.casefold(): value for value in absent}
    shown: list[str] = []
    for value, count in _most(unknown):
        if value == WITHHELD:
            shown.append(f"{WITHHELD} ({counted(count, 'row')})")
            continue
        close = difflib.get_close_matches(value.casefold(), folded, n=1)
        meant = f", did you mean {folded[close[0]]!r}?" if close else ""
        shown.append(f"{value!r} ({counted(count, 'row')}{meant})")
    more = ["..."] if len(unknown) > NUM_EXAMPLES else []
    lost = f". Known to it, and in no row now: {', '.join(map(repr, absent[:NUM_EXAMPLES]))}" if absent else ""
    return ", ".join([*shown, *more]) + lost + (", ..." if len(absent) > NUM_EXAMPLES else "")


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:NUM_EXAMPLES]


def examples(names: Sequence[str]) -> str:
    """Return the first few names.

    Example:
        >>> examples(["a", "b"])
        'a, b'
    """
    return ", ".join(names[:NUM_EXAMPLES]) + (", ..." if len(names) > NUM_EXAMPLES else "")


def counted_examples(counts: Mapping[str, int]) -> str:
    """Return the commonest few names, with how often they occur.

    Example:
        >>> counted_examples({"hat": 2, "coat": 3})
        'coat (3 times), hat (2 times)'
    """
    named = [f"{name} ({counted(count, 'time')})" for name, count in _most(counts)]
    return ", ".join(named) + (", ..." if len(counts) > NUM_EXAMPLES else "")
