"""Which items and which sets are kept, and what was done: the settings of the reader and its report.

Both are plain values. They know nothing of how a table is read; `sets.py` applies the one and fills in the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast, get_args

from contextual_bert.errors import NAME, ConfigurationError, Message, check_choice
from contextual_bert.nouns import counted, plural
from contextual_bert.options import SETS, Option

__all__ = ["ReadReport", "SetPolicy"]

Longer = Literal["drop", "sample", "newest"]
Duplicates = Literal["error", "drop", "keep"]


@dataclass(frozen=True)
class SetPolicy:
    """Which items and which sets are kept.

    The rules are applied in the order of the arguments: items are dropped by name and prefix, repeated items are
    treated, then rare items are dropped, and at last the sizes of what is left decide.

    Args:
        drop_items: items to drop, by name.
        drop_prefixes: drop every item that starts with one of these.
        duplicates: what happens to an item that occurs twice in a set: an error, drop the later ones, or keep all.
        min_count: drop items that occur fewer times than this (in the rows that count, see `read_sets`).
        min_size: drop sets with fewer items than this.
        max_size: the most items of a set; None is no limit.
        longer: what happens to a longer set: drop it, sample `max_size` of its items, a function of (seed, row), or
            keep the newest, which are its last.
        separator: what stands between the items where a column holds them as one string (CSV).
        seed: seed of the sampling.
        keeps_new: whether rows that do not count keep the items that are rare, or not there, in those that do: a
            catalogue may know them.
        cold_items: items that the rows that count do not keep.
        known_items: items that are kept however rare they are in the rows that count: histories tell of them.
        keeps_last: whether the last item of a row that does not count is kept, known or not: it is what is asked for.

    Example:
        >>> SetPolicy(drop_prefixes=("18",), min_count=20, min_size=4, max_size=8).max_size
        8
    """

    drop_items: Annotated[
        tuple[str, ...],
        Option("Items to drop, by name; repeatable or with commas.", SETS, metavar="A,B", is_of_data=True),
    ] = ()
    drop_prefixes: Annotated[
        tuple[str, ...],
        Option("Drop items that start with one of these; as --drop-items.", SETS, metavar="A,B", is_of_data=True),
    ] = ()
    duplicates: Annotated[
        Duplicates, Option("What happens to an item that occurs twice in a set.", SETS, is_of_data=True)
    ] = "error"
    min_count: Annotated[
        int,
        Option(
            "Drop items that occur fewer times than this in the training part (1 keeps all).", SETS, is_of_data=True
        ),
    ] = 1
    min_size: Annotated[int, Option("Drop sets of fewer items.", SETS, is_of_data=True)] = 1
    max_size: Annotated[
        int | None, Option("Most items of a set; left out, there is no limit.", SETS, is_of_data=True)
    ] = None
    longer: Annotated[Longer, Option("What happens to sets of more than --max-size items.", SETS, is_of_data=True)] = (
        "drop"
    )
    separator: Annotated[
        str,
        Option(
            "What stands between the items of one cell of text (CSV), with --multi-label between its labels: a comma "
            "if left out; with --group-by nothing.",
            SETS,
            has_default=False,
            is_of_data=True,
        ),
    ] = ","
    seed: int = 0
    keeps_new: bool = False
    cold_items: tuple[str, ...] = ()
    known_items: tuple[str, ...] = ()
    keeps_last: bool = False

    def __post_init__(self) -> None:
        for name in ("drop_items", "drop_prefixes"):
            _check_strings(name, getattr(self, name))
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, allowed in (("duplicates", get_args(Duplicates)), ("longer", get_args(Longer))):
            check_choice(name, getattr(self, name), allowed)
        for name in ("min_count", "min_size"):
            if not _is_integer(getattr(self, name)) or getattr(self, name) < 1:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=getattr(self, name), fix="Give an integer of at least 1."
                )
        if self.max_size is not None and (not _is_integer(self.max_size) or self.max_size < self.min_size):
            raise ConfigurationError(
                Message("and {min_size}", min_size=self.min_size),
                setting="max_size",
                value=self.max_size,
                fix=Message(
                    "Give {max_size} an integer not below {min_size}, or leave it out for no limit.",
                    max_size=NAME,
                    min_size=NAME,
                ),
            )
        if self.longer != "drop" and self.max_size is None:
            raise ConfigurationError(
                Message("takes some items of longer sets, and no {max_size} says how many", max_size=NAME),
                setting="longer",
                value=self.longer,
                fix=Message("Give {max_size}, too.", max_size=...),
            )
        if not isinstance(cast(object, self.separator), str) or not self.separator:
            raise ConfigurationError(
                "is not allowed", setting="separator", value=self.separator, fix="Give a string such as ',' or ';'."
            )
        if not _is_integer(self.seed):
            raise ConfigurationError("is not allowed", setting="seed", value=self.seed, fix="Give an integer.")


def check_differs(order: str | None, group_by: Sequence[str]) -> None:
    """Raise ConfigurationError where the column of an order names a set, and is one value for all of it.

    Example:
        >>> check_differs("at", ["who"])
    """
    if order is not None and order in group_by:
        raise ConfigurationError(
            "is one value for a whole set", setting="order", value=order, fix="Name a column that differs within a set."
        )


def noun_of_rows(order: str | None) -> str:
    """Return what a row holds: a set, or where items have an order a sequence.

    Example:
        >>> noun_of_rows(None), noun_of_rows("played_at")
        ('set', 'sequence')
    """
    return "set" if order is None else "sequence"


def no_order(order: str) -> ConfigurationError:
    """Return the error for the column of an order that is given to a run without one."""
    return ConfigurationError(
        "puts items in order, and the run was trained on sets without one",
        setting="order",
        value=order,
        fix="Leave it out, or name a run that was trained with an order.",
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_strings(name: str, values: object) -> None:
    if isinstance(values, str):
        raise ConfigurationError(
            f"{name} is the string {values!r}", fix=f"Give a tuple of strings, such as ({values!r},)."
        )
    if not isinstance(values, (tuple, list)):
        raise ConfigurationError("is not allowed", setting=name, value=values, fix="Give a tuple of strings.")
    for value in cast(tuple[object, ...], values):
        if not isinstance(value, str) or not value:
            raise ConfigurationError(
                f"{name} holds {value!r}", fix="Give strings of at least one character, such as '010101'."
            )


@dataclass(frozen=True)
class ReadReport:
    """Counts of the rows and items of a table: read, dropped, changed.

    Args:
        rows_in: rows of the table.
        rows_kept: sets that are left.
        rows_dropped: number of rows by reason; only reasons that occurred.
        items_in: items of all sets of the table.
        items_kept: items of the sets that are left.
        items_dropped: number of items that a rule dropped, over all rows; items that left with their set are not
            among them.
        num_distinct: distinct items that are left.
        smallest: size of the smallest set that is left.
        largest: size of the largest.
        repeated_items: items found again in their own set.
        sets_with_repeats: sets in which that happened.
        sets_sampled: longer sets of which some items were kept.
        unused: what the policy names and the table does not hold.
        reading: what the reader of the file noticed and left out, as sentences.
        remarks: what should be looked at, as sentences.
        noun: what a row holds, a set or a sequence.

    Example:
        >>> ReadReport(rows_in=3, rows_kept=2, rows_dropped={"empty in the table": 1}).lines()[1]
        'rows dropped: 1 empty in the table'
    """

    rows_in: int
    rows_kept: int
    rows_dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    items_in: int = 0
    items_kept: int = 0
    items_dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    num_distinct: int = 0
    smallest: int = 0
    largest: int = 0
    repeated_items: int = 0
    sets_with_repeats: int = 0
    sets_sampled: int = 0
    unused: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    noun: str = "set"

    @property
    def mean_size(self) -> float:
        """Items a set, on average; not a number where no set is left."""
        return self.items_kept / self.rows_kept if self.rows_kept else math.nan

    def lines(self) -> list[str]:
        """The report for people, a sentence a line; what did not happen is left out."""
        text = [
            f"{counted(self.rows_kept, self.noun)} of {counted(self.rows_in, 'row')} kept "
            f"({self.rows_kept / max(1, self.rows_in):.1%}), "
            f"{counted(self.num_distinct, 'distinct item')}, {self.mean_size:.2f} items a {self.noun} "
            f"({self.smallest} to {self.largest})"
            if self.rows_kept
            else f"no {self.noun} of {counted(self.rows_in, 'row')} is left"
        ]
        if self.rows_dropped:
            text.append(f"rows dropped: {_counts(self.rows_dropped)}")
        if self.items_dropped:
            text.append(f"items dropped, of {self.items_in:,}: {_counts(self.items_dropped)}")
        if self.repeated_items:
            text.append(
                f"items repeated within their {self.noun}: {self.repeated_items:,}, in "
                f"{counted(self.sets_with_repeats, self.noun)}"
            )
        if self.sets_sampled:
            text.append(f"longer {plural(self.noun)} of which some items were kept: {self.sets_sampled:,}")
        if self.unused:
            asked = f"to be dropped ({{drop_items}}, {{drop_prefixes}}), but not in the table: {', '.join(self.unused)}"
            text.append(Message(asked, drop_items=NAME, drop_prefixes=NAME))
        return [*self.reading, *text, *self.remarks]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
