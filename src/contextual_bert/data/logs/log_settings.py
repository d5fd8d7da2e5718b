"""Settings of the way from a transaction log to sets with histories: its columns, its baskets, what becomes a row."""

from dataclasses import dataclass
from typing import Literal, get_args

from contextual_bert.data.splits import check_fractions
from contextual_bert.errors import ConfigurationError, Message, check_choice

__all__ = [
    "DAYS_AGO",
    "HISTORY",
    "HISTORY_COUNTS",
    "HISTORY_TIMES",
    "ITEMS",
    "ITEM_COUNTS",
    "ITEM_TIMES",
    "PART",
    "HistorySettings",
]

DAYS_AGO = "days_ago"  # beside the items of a basket, where a history has objects
# Columns of the table that is made, beside those of the log.
ITEMS, HISTORY, HISTORY_TIMES, PART = "items", "history", "history_times", "part"
ITEM_COUNTS, HISTORY_COUNTS, ITEM_TIMES = "counts", "history_counts", "times"

HistorySplit = Literal["last", "time", "none"]
Targets = Literal["all", "last"]
MINUTE = 60_000_000  # microseconds
NEWEST_BASKETS, NEWEST_ITEMS = 50, 200  # of a history, and of a sequence


@dataclass(frozen=True)
class HistorySettings:
    """Settings of ``write_histories``.

    Args:
        user: column of those whose history it is.
        item: column of the items, one a row.
        time: column of the times: dates, timestamps, text that is one, or numbers.
        basket: column that names the basket of a row. None: what a user has at one time is a basket.
        session_gap: minutes. A longer gap between two rows of a user begins another basket. None: no gap does.
        is_sequence: make a row of all that a user has, item by item in the order of time, up to an item that is asked
            for: the last one of training, and those of validation and test.
        quantity: column that says how many of the item there are. Rows with 0 or less are left out as returned.
        keep: columns of the log that are carried along as context. None: all that do not vary within a basket, of
            sequences within a user.
        max_history: the newest so many earlier baskets are kept in a history, or items in a sequence. None: 50 baskets,
            200 items.
        min_items: baskets of fewer items become no row. They stay in histories.
        min_history: baskets with fewer earlier ones become no row.
        targets: "all" makes a row of each basket, "last" of the newest one of each user and part.
        split: "last" tests on a user's newest basket and validates on the one before; "time" on the newest baskets of
            all users; "none" makes no column of parts.
        validation, test: shares of the baskets in a split by time.
        has_days: write each basket of a history as an object of ``items`` and ``days_ago``, the days before the set.
        has_counts: write how often each item stands in its basket, too.
        num_buckets: parts that the users are dealt into, one of which is in memory at a time. None: as the size of the
            log asks for. The result does not depend on it.

    Raises:
        ConfigurationError: one column for two things, two ways to say what a basket is, another word, a number that is
            too small.

    Example:
        >>> HistorySettings(user="customer", item="article", time="day").columns
        ('customer', 'article', 'day')
    """

    user: str
    item: str
    time: str
    basket: str | None = None
    session_gap: float | None = None
    is_sequence: bool = False
    quantity: str | None = None
    keep: tuple[str, ...] | None = None
    max_history: int | None = None
    min_items: int = 1
    min_history: int = 0
    targets: Targets = "all"
    split: HistorySplit = "last"
    validation: float = 0.1
    test: float = 0.1
    has_days: bool = False
    has_counts: bool = False
    num_buckets: int | None = None

    def __post_init__(self) -> None:
        roles = {"user": self.user, "item": self.item, "time": self.time, "basket": self.basket}
        roles |= {"quantity": self.quantity}
        seen = dict[str, str]()
        for role, column in roles.items():
            if column is None:
                continue
            if (other := seen.setdefault(column, role)) != role:
                problem = Message(f"is the column of {{{other}}}, too", **{other: ...})
                raise ConfigurationError(problem, setting=role, value=column, fix="Name another column.")
        if self.basket is not None and self.session_gap is not None:
            problem = Message("and {basket} both say where a basket ends", basket=self.basket)
            raise ConfigurationError(problem, setting="session_gap", value=self.session_gap, fix="Give one of them.")
        if self.is_sequence:
            self._check_sequence()
        for name, least in (("max_history", 1), ("min_items", 1), ("min_history", 0), ("num_buckets", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigurationError("is too small", setting=name, value=value, fix=f"Give {least} or more.")
        if self.min_history > self.num_newest:
            problem = Message("is above {max_history}", max_history=self.num_newest)
            raise ConfigurationError(problem, setting="min_history", value=self.min_history, fix="Give fewer.")
        if self.session_gap is not None and not 0 < self.session_gap < float("inf"):
            raise ConfigurationError(
                "is not allowed", setting="session_gap", value=self.session_gap, fix="Give minutes above 0."
            )
        for name, allowed in (("targets", get_args(Targets)), ("split", get_args(HistorySplit))):
            check_choice(name, getattr(self, name), allowed)
        check_fractions(self.validation, self.test)
        if self.split == "time" and self.validation + self.test == 0:
            raise ConfigurationError(
                Message("and {test} hold nothing out", test=self.test),
                setting="validation",
                value=self.validation,
                fix="Give one of them a share above 0, or no split.",
            )
        for column in (self.user, self.time, self.basket):
            if column in self.made_columns:
                raise ConfigurationError(
                    f"names the column {column!r}, and one of the table that is made is called so",
                    setting=next(role for role, name in roles.items() if name == column),
                    value=column,
                    fix="Rename it in the log.",
                )
        taken = [name for name in self.keep or () if name in (*self.made_columns, *self.columns)]
        if taken:
            raise ConfigurationError(
                f"names the column {taken[0]!r}, which the table that is made has already",
                setting="keep",
                value=self.keep,
                fix="Leave it out, or rename it in the log.",
            )

    def _check_sequence(self) -> None:
        """Raise ConfigurationError for what says how baskets are made or written: a sequence has none."""
        told: dict[str, object] = {"basket": self.basket, "session_gap": self.session_gap}
        told |= {"has_days": self.has_days or None, "has_counts": self.has_counts or None}
        for name, value in told.items():
            if value is not None:
                raise ConfigurationError(
                    Message("is about baskets, and {is_sequence} makes one sequence of all", is_sequence=True),
                    setting=name,
                    value=value,
                    fix="Leave one of them out. The items of a session or basket stand in the order of time anyway.",
                )

    @property
    def num_newest(self) -> int:
        """How many baskets a history keeps at most, or items a sequence."""
        return self.max_history or (NEWEST_ITEMS if self.is_sequence else NEWEST_BASKETS)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log that say who had what when."""
        named = (self.user, self.item, self.time, self.basket, self.quantity)
        return tuple(name for name in named if name is not None)

    @property
    def made_columns(self) -> tuple[str, ...]:
        """The columns of the table that the log does not have."""
        parts = (PART,) if self.split != "none" else ()
        if self.is_sequence:
            return (ITEMS, ITEM_TIMES, *parts)
        counts = (ITEM_COUNTS, HISTORY_COUNTS) if self.has_counts else ()
        return (ITEMS, HISTORY, HISTORY_TIMES, *counts, *parts)

    @property
    def gap(self) -> int | None:
        """The gap that begins another basket, in microseconds."""
        return None if self.session_gap is None else round(self.session_gap * MINUTE)
