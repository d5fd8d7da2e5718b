"""Progress bars on standard error: for training, with loss and validation figures, and for anything that counts.

Knows the trainer's events, nothing of the model.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class Bars(Protocol):
    """Where the progress of trainings is shown, or told to who shows it."""

    def show(self, label: str, done: int, total: int, note: str = "") -> None:
        """So many of so many steps are done; a label that is new gets a bar of its own."""
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

    def show(self, label: str, done: int, total: int, note: str = "") -> None:
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


class TrainingProgress(TrainerCallback):
    """Shows steps, loss and the latest validation cross-entropy; only the first process shows anything.

    Args:
        label: what stands before the bar.
        bars: where it is shown; a bar of its own on the console by default.
    """

    def __init__(self, label: str = "training", bars: Bars | None = None) -> None:
        self.label = label
        self.bars = bars or TrainingBars()
        self.loss = self.validation = ""
        self.is_training = False

    def _show(self, state: TrainerState) -> None:
        if self.is_training and state.is_world_process_zero:
            self.bars.show(self.label, state.global_step, state.max_steps, self.loss + self.validation)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.is_training = True
        self._show(state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._show(state)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if logs and "loss" in logs:
            self.loss = f"loss {float(logs['loss']):.3f}"

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if metrics and "eval_cross_entropy_nats" in metrics:
            self.validation = (
                f"  validation {metrics['eval_cross_entropy_nats']:.3f} nats (epoch {state.epoch or 0:.0f})"
            )
            self._show(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an interruption; an evaluation that follows draws nothing."""
        self.is_training = False
        self.bars.close()


@contextmanager
def counting(
    label: str, *, is_quiet: bool = False, console: Console | None = None
) -> Generator[Callable[[int, int], None] | None]:
    """A bar for work that reports (done, in all); None where nothing shall be drawn.

    Example:
        >>> with counting("scoring", is_quiet=True) as progress: progress is None
        True
    """
    if is_quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    drawn = console or Console(stderr=True)
    with Progress(*columns, console=drawn, transient=True, disable=not drawn.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
