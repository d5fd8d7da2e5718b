"""The report on the way from a log to sets with histories: counts, what was left out, what should be looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from contextual_bert.nouns import agreeing, counted

__all__ = ["HistoryReport"]


@dataclass(frozen=True)
class HistoryReport:
    """What became of a log.

    Args:
        counts: by name: rows, users, baskets; sets that were written, those without a history and those whose history
            was cut; and what else was counted.
        parts: part -> its sets.
        columns: of the table that was written.
        times: the first and the last time, and how times were read.
        by_user, by_basket: columns that were carried along, with one value for each user, or each basket.
        left_out: column -> why it was not.
        remarks: of reading the files, and warnings.
        max_history: that was asked for.
        is_sequence: whether all that a user has is one sequence.

    Example:
        >>> HistoryReport({"rows": 9, "users": 2, "baskets": 4, "sets": 4, "without": 2}).lines()[0]
        '9 rows of 2 users are 4 baskets'
    """

    counts: Mapping[str, int]
    parts: Mapping[str, int] = field(default_factory=dict[str, int])
    columns: tuple[str, ...] = ()
    times: str = ""
    by_user: tuple[str, ...] = ()
    by_basket: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: tuple[str, ...] = ()
    max_history: int = 0
    is_sequence: bool = False

    def lines(self) -> list[str]:
        """Return all of it as sentences, a line each."""
        count = self.counts
        lines = [self._whole()]
        if self.times:
            lines.append(self.times)
        if self.is_sequence:
            lines.append(
                f"{counted(count['sets'], 'sequence')} written, {count.get('without', 0):,} of them of one item; "
                f"{count.get('cut', 0):,} cut to the newest {self.max_history:,} items"
            )
            if repeating := count.get("repeating", 0):
                stand = f"{counted(repeating, 'sequence')} {agreeing('hold', repeating)}"
                lines.append(f"{stand} an item more than once: to learn them, give --duplicates keep")
            return [*lines, *self._rest()]
        lines.append(
            f"{counted(count['sets'], 'set')} written, {count.get('without', 0):,} of them without a history; "
            f"{count.get('cut', 0):,} histories cut to the newest {self.max_history:,} baskets"
        )
        if short := count.get("short", 0):
            lines.append(f"baskets that are no set of their own, for they are too small: {short:,}")
        if early := count.get("early", 0):
            lines.append(f"baskets that are no set of their own, for too few came before: {early:,}")
        if single := count.get("single_users", 0):
            lines.append(f"users with a single basket, and so without a history: {single:,} of {count['users']:,}")
        return [*lines, *self._rest()]

    def _whole(self) -> str:
        count = self.counts
        rows = f"{counted(count['rows'], 'row')} of {counted(count['users'], 'user')}"
        if self.is_sequence:
            return rows
        return f"{rows} {agreeing('are', count['rows'])} {counted(count['baskets'], 'basket')}"

    def _rest(self) -> list[str]:
        lines, what = list[str](), "sequence" if self.is_sequence else "set"
        if self.parts:
            lines.append(", ".join(f"{part}: {counted(number, what)}" for part, number in self.parts.items()))
        for kept, of in ((self.by_user, "user"), (self.by_basket, "basket")):
            if kept:
                lines.append(f"carried along, one value for each {of}: {', '.join(kept)}")
        lines += [f"column {name!r} left out: {reason}" for name, reason in self.left_out.items()]
        lines += self._seen()
        return [*lines, *self.remarks]

    def _seen(self) -> list[str]:
        count, lines = self.counts, list[str]()
        if repeated := count.get("repeated", 0):
            stand = f"{counted(repeated, 'row')} {agreeing('repeat', repeated)}"
            lines.append(f"{stand} an item of the same basket, in which it stands once")
        if unordered := count.get("unordered", 0):
            stand = f"{counted(unordered, 'row')} {agreeing('are', unordered)}"
            what = "items" if self.is_sequence else "baskets"
            lines.append(f"{stand} earlier than the row of the same user before: {what} are sorted by time")
        at_one_time = count.get("at_one_time", 0)
        if at_one_time and self.is_sequence:
            stand = f"{counted(at_one_time, 'item')} {agreeing('have', at_one_time)}"
            lines.append(f"{stand} the time of the item before of the same user: they stand as in the log")
        elif at_one_time:
            stand = f"{counted(at_one_time, 'basket')} {agreeing('have', at_one_time)}"
            lines.append(f"{stand} the time of another one of the same user: neither is in the other's history")
        return lines
