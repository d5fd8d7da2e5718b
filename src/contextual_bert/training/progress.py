"""Progress on standard error: bars on a terminal, lines in a log file, for anything that counts. It needs no torch."""

import math
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_NOTES = 0.5  # of a process to the one that draws


class Bars(Protocol):
    """Target of progress reports: bars on a terminal, or a listener in another process."""

    def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None:
        """So many of so many steps are done; a label that is new gets a bar of its own.

        Args:
            label: of the training.
            done: steps done.
            total: steps in all.
            note: loss and validation figures.
            is_milestone: an epoch has ended: a log file gets a line whatever the time.
        """
        ...

    def remove(self, label: str) -> None:
        """Show a training no more."""
        ...

    def close(self) -> None:
        """Nothing more will be shown."""
        ...


class TrainingBars:
    """Bars of trainings on the console, one below the other.

    Args:
        console: where to draw; standard error by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console or Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None:
        """Draw the bar of a training."""
        self._progress.start()  # unless it draws already
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(label, total=total, completed=done, note=note)
        self._progress.update(self._tasks[label], completed=done, note=note)

    def remove(self, label: str) -> None:
        """Draw the bar of a training no more."""
        if (task := self._tasks.pop(label, None)) is not None:
            self._progress.remove_task(task)

    def close(self) -> None:
        """Stop drawing, also after an interruption."""
        if self._progress.live.is_started:  # rich ends each stop with a line of its own
            self._progress.stop()


class ProgressLines:
    """Progress as lines of a log file: one when something starts, at each milestone, and every so many seconds.

    Args:
        write: takes a line; standard error by default.
        seconds_between: the least time between two lines that are no milestones.
        has_start: False leaves the first line out, for work that mostly ends before anybody looks.
        unit: what is counted.
    """

    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        *,
        seconds_between: float = SECONDS_BETWEEN_LINES,
        has_start: bool = True,
        unit: str = "step",
    ) -> None:
        self._write = write or _to_standard_error
        self._seconds_between, self._has_start, self._unit = seconds_between, has_start, unit
        self._starts: dict[str, tuple[float, int]] = {}  # label -> when it started, and at which step
        self._last: dict[str, float] = {}
        self._written: dict[str, str] = {}

    def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None:
        """Write a line, if it is time for one."""
        now, is_new = time.monotonic(), label not in self._starts
        if is_new:
            self._starts[label], self._last[label] = (now, done), now
        is_due = is_milestone or (is_new and self._has_start) or now - self._last[label] >= self._seconds_between
        if not is_due:
            return
        started, first = self._starts[label]
        parts = [f"{self._unit} {done:,} of {total:,}", *([" ".join(note.split())] if note else [])]
        if first < done < total:
            parts.append(f"{_in_words((now - started) / (done - first) * (total - done))} left")
        line = f"{label}: {', '.join(parts)}"
        self._last[label] = now
        if self._written.get(label) != line:
            self._written[label] = line
            self._write(line)

    def remove(self, label: str) -> None:
        """Forget a training."""
        self._starts.pop(label, None)

    def close(self) -> None:
        """Do nothing: a line is whole when it is written."""


class RelayedBars:
    """Bars of a process that draws none: what they show is sent to the one that does, not more often than it is read.

    Args:
        send: takes (done, total, note, is_milestone); False where nobody listens any more.
    """

    def __init__(self, send: Callable[[tuple[int, int, str, bool]], bool]) -> None:
        self._send, self._last = send, -math.inf

    def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None:
        """Send how far a training is."""
        if is_milestone or time.monotonic() - self._last > SECONDS_BETWEEN_NOTES:
            self._last = time.monotonic()
            if not self._send((done, total, note, is_milestone)):
                self._last = math.inf

    def remove(self, label: str) -> None:
        """Do nothing: who draws knows when a training has ended."""

    def close(self) -> None:
        """Do nothing: nothing was drawn."""


def progress_bars(console: Console | None = None, *, unit: str = "step") -> Bars:
    """Return bars where a person looks on, and lines where standard error is a file or a pipe.

    Args:
        console: where to draw; standard error by default.
        unit: what is counted, in the lines of a log.
    """
    drawn = console or Console(stderr=True)
    return TrainingBars(drawn) if drawn.is_terminal or drawn.is_jupyter else ProgressLines(unit=unit)


def _to_standard_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _in_words(seconds: float) -> str:
    """Return a time for people.

    Example:
        >>> _in_words(42), _in_words(600), _in_words(36_000)
        ('42 s', '10 min', '10.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def counting(
    label: str,
    *,
    is_quiet: bool = False,
    console: Console | None = None,
    seconds_before: float = 0.0,
    unit: str = "row",
) -> Generator[Callable[[int, int], None] | None]:
    """Show work that reports (done, in all), as a bar or as lines of a log; yield None where nothing shall be shown.

    Args:
        label: of the work.
        is_quiet: show nothing.
        console: where to draw; standard error by default.
        seconds_before: work that takes less shows no bar.
        unit: what is counted, in the lines of a log.

    Example:
        >>> with counting("scoring", is_quiet=True) as progress: progress is None
        True
    """
    if is_quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    drawn = console or Console(stderr=True)
    if not drawn.is_terminal:
        lines = ProgressLines(has_start=False, unit=unit)
        yield lambda done, total: lines.show(label, done, total)
        return
    bar = Progress(*columns, console=drawn, transient=True)
    task, first = bar.add_task(label, total=None), time.monotonic()

    def show(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - first >= seconds_before:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        if not seconds_before:
            bar.start()
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
