"""Shifts between the parts of a split: constant, rare or new field values, and items whose share drifts.

It judges encoded values alone, so that a value of few customers is a number here and never a name. Sentences are for
reports and cards: a value of a sensitive feature, or of a part of few customers, is not named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema, Feature, encode_table
from contextual_bert.context.limits import MIN_CUSTOMERS
from contextual_bert.context.withheld import WITHHELD
from contextual_bert.nouns import plural

if TYPE_CHECKING:
    from torch import Tensor

LEARNED = "train"
_NEW = 0.05  # of a part's rows: below it, values that are rare or new move no figure by much
_MORE_OFTEN = 1.5  # times as often as in training
_MOVED = 0.4  # of a part's rows have other values than rows of training, beyond chance
_DRIFTED = 0.005  # of the items: a change that moves recall
_BEYOND_CHANCE = 6.0  # standard errors
_NUM_NAMED = 3


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of one part, encoded.

    Args:
        context: feature -> ids or vectors of its rows, as data sets hold them.
        num_owners: whose rows they are: customers, or rows where nobody is named.
    """

    context: "Mapping[str, Tensor | NDArray[Any]]"
    num_owners: int


def field_lines(schema: ContextSchema | None, parts: Mapping[str, PartRows]) -> list[str]:
    """Return a sentence on each feature that says something else in a part than in training.

    Args:
        schema: what the context consists of.
        parts: name -> rows; those of ``train`` are what the others are compared with, where they are there.
    """
    lines: list[str] = []
    training = parts.get(LEARNED)
    for feature in schema.features if schema is not None else ():
        if feature.silenced or feature.shares_items:  # missing in every row, by choice; items of which others tell
            continue
        learned = _ids(training.context[feature.name]) if training is not None else None
        for part, rows in parts.items():
            ids = _ids(rows.context[feature.name])
            if len(ids) == 0:
                continue
            others = learned if part != LEARNED else None
            if others is not None and _is_constant(ids) and _is_constant(others):
                continue  # that it says nothing in training is said
            said = _constant(feature, rows, ids, others, part)
            if said is None and others is not None and feature.layout.num_embeddings:
                said = _new(feature, ids, others, part) or _moved(feature, ids, others, part)
            if said is not None:
                lines.append(f"context {feature.name!r}: {said}")
    return lines


def encoded_rows(table: pa.Table, schema: ContextSchema, *, customer: str | None = None) -> PartRows:
    """Return the rows of a table, encoded.

    Args:
        table: the rows of a part.
        schema: what the context consists of.
        customer: column that says whose row each is.
    """
    owners = table[customer] if customer is not None and customer in table.column_names else None
    num_owners = len(owners.unique()) if owners is not None else table.num_rows
    return PartRows(encode_table(schema.without_histories(), table).arrays, num_owners)


def name_drift(learned: pa.Array, asked: pa.Array, *, part: str, what: str) -> list[str]:
    """Return the sentence of ``drift_line`` on two columns of names.

    Example:
        >>> name_drift(pa.array(["a"] * 800 + ["b"] * 200), pa.array(["a", "b"] * 100), part="test", what="items")
        ["items whose share changed most from training to test: 'a' 80.0% to 50.0%, 'b' 20.0% to 50.0%"]
    """
    names = pc.drop_null(learned).unique()
    counts = (
        counts_of(pc.fill_null(pc.index_in(each, value_set=names), -1).to_numpy(zero_copy_only=False), len(names))
        for each in (learned, asked)
    )
    return drift_line(lambda place: str(names[place].as_py()), *counts, part=part, what=what)


def constant_features(context: "Mapping[str, Tensor | NDArray[Any]]") -> tuple[str, ...]:
    """Return the features that say the same in every row.

    Example:
        >>> from torch import tensor
        >>> constant_features({"month": tensor([3, 3]), "age": tensor([1, 2])})
        ('month',)
    """
    return tuple(name for name, ids in context.items() if _is_constant(_ids(ids)))


def drift_line(
    names: Callable[[int], str], learned: NDArray[np.int64], asked: NDArray[np.int64], *, part: str, what: str
) -> list[str]:
    """Return a sentence on the items, or labels, whose share changes most from training to a part; none beyond chance.

    Args:
        names: the name of an id.
        learned, asked: how often each id occurs in training and in the part.
        part: name of the part.
        what: "items" or "labels".

    Example:
        >>> drift_line("ab".__getitem__, np.array([800, 200]), np.array([300, 700]), part="test", what="labels")
        ["labels whose share changed most from training to test: 'a' 80.0% to 30.0%, 'b' 20.0% to 70.0%"]
    """
    if learned.sum() == 0 or asked.sum() == 0:
        return []
    before, after = learned / learned.sum(), asked / asked.sum()
    pooled = (learned + asked) / (learned.sum() + asked.sum())
    error = np.sqrt(pooled * (1 - pooled) * (1 / learned.sum() + 1 / asked.sum()))
    change = np.abs(after - before)
    is_drifted = (change >= _DRIFTED) & (change > _BEYOND_CHANCE * error) & (learned + asked >= MIN_CUSTOMERS)
    order = [int(place) for place in np.argsort(-change, kind="stable")[:_NUM_NAMED] if is_drifted[place]]
    listed = ", ".join(f"{names(place)!r} {before[place]:.1%} to {after[place]:.1%}" for place in order)
    return [f"{what} whose share changed most from training to {part}: {listed}"] if order else []


def single_lines(counts: Mapping[str, Mapping[str, int]], *, column: str, what: str) -> list[str]:
    """Return a warning on each part that has a single label, item or answer.

    Args:
        counts: part -> name -> how often it occurs.
        column: that holds them.
        what: "label", "item" or "answer".

    Example:
        >>> single_lines({"train": {"bad": 7}, "test": {"bad": 1, "good": 2}}, column="verdict", what="label")[0][:82]
        "warning: column 'verdict': 'bad' is the one label of the training part, of 7 (100."
    """
    consequences = {
        LEARNED: f"it shows nothing of what tells {plural(what)} apart",
        "validation": f"a choice by it rests on that {what} alone",
        "test": f"its figures are of that {what} alone",
    }
    return [
        f"warning: column {column!r}: {name!r} is the one {what} of the "
        f"{'training' if part == LEARNED else part} part, of {number:,} (100.0%): {consequences[part]}"
        for part, own in counts.items()
        if len(own) == 1
        for name, number in own.items()
    ]


def counts_of(ids: Any, num_names: int) -> NDArray[np.int64]:
    """Return how often each id occurs; ids below 0 are none.

    Example:
        >>> counts_of(np.array([0, 2, 2, -100]), 3).tolist()
        [1, 0, 2]
    """
    found = np.asarray(ids).ravel()
    return np.bincount(found[found >= 0], minlength=num_names)[:num_names].astype(np.int64)


def _constant(
    feature: Feature, rows: PartRows, ids: NDArray[Any], learned: NDArray[Any] | None, part: str
) -> str | None:
    """The sentence on a feature that says the same in every row of a part."""
    if not _is_constant(ids):
        return None
    named = "" if part == LEARNED else f" in the {part} part"
    value = _value(feature, rows)
    if part == LEARNED:
        return f"constant in training ({value} in every row), so nothing of it is learned"
    if learned is None:
        return f"constant{named} ({value} in every row), so its worth cannot be told there"
    share = float((_padded(learned, ids.shape[1]) == _padded(ids, learned.shape[1])[0]).all(axis=1).mean())
    told = f"constant{named} ({value} in every row, {_shown(share)} of the training rows)"
    return f"{told}, so its worth cannot be told there"


def _new(feature: Feature, ids: NDArray[Any], learned: NDArray[Any], part: str) -> str | None:
    """The sentence on values of a part that are rare or new in training."""
    is_known = np.zeros(int(max(ids.max(), learned.max())) + 1, dtype=np.bool_)
    is_known[learned] = True
    layout = feature.layout
    if layout.padding_id is not None:
        is_known[layout.padding_id] = True
    if layout.unknown_id is not None:
        is_known[layout.unknown_id] = False
    share = float((~is_known[ids]).any(axis=1).mean())
    usual = float((~is_known[learned]).any(axis=1).mean())
    if share < _NEW or share < _MORE_OFTEN * usual:
        return None
    return (
        f"{_shown(share)} of the rows of the {part} part have a value that is rare or new in training, where "
        f"{_shown(usual)} have one"
    )


def _moved(feature: Feature, ids: NDArray[Any], learned: NDArray[Any], part: str) -> str | None:
    """The sentence on a part most of whose rows have values that are few of training's."""
    width = int(max(ids.max(), learned.max())) + 1
    padding = feature.layout.padding_id
    first = 0 if padding is None else padding + 1
    after, before = (np.bincount(each[each >= first], minlength=width) for each in (ids, learned))
    now, usual = after / after.sum(), before / before.sum()
    by_chance = np.sqrt(2 / np.pi * usual * (1 - usual) * (1 / after.sum() + 1 / before.sum())).sum() / 2
    if np.abs(now - usual).sum() / 2 - by_chance < _MOVED:
        return None
    is_more = now > usual
    more, less = (_shown(float(each[is_more].sum())) for each in (now, usual))
    return f"{more} of the {part} part have values that {less} of the training part have"


def _value(feature: Feature, rows: PartRows) -> str:
    """Return the constant value of a part in words, or a placeholder if it would tell of few customers."""
    if feature.sensitive or rows.num_owners < MIN_CUSTOMERS:
        return WITHHELD
    said = feature.names(np.asarray(rows.context[feature.name][:1]))[0]
    if isinstance(said, list):
        return ", ".join(map(repr, said)) or "no value"
    return str(said) if str(said).startswith("(") else repr(str(said))


def _is_constant(ids: NDArray[Any]) -> bool:
    return len(ids) > 0 and bool((ids == ids[0]).all())


def _ids(values: "Tensor | NDArray[Any]") -> NDArray[Any]:
    """(rows, width) of a feature."""
    found = np.asarray(values)
    return found.reshape(len(found), -1)


def _padded(ids: NDArray[Any], width: int) -> NDArray[Any]:
    return np.pad(ids, ((0, 0), (0, max(0, width - ids.shape[1]))))


def _shown(share: float) -> str:
    return f"{share:.1%}"


def part_rows(dataset: Any, owners: Sequence[Any] | NDArray[Any] | None) -> PartRows:
    """Return the rows of a data set.

    Args:
        dataset: sets or texts.
        owners: the customer of each row, None where nobody is named.
    """
    return PartRows(dataset.context, len(np.unique(owners)) if owners is not None else len(dataset))
