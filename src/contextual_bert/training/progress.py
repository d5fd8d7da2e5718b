"""Progress bars on standard error: for training, with loss and validation figures, and for anything that counts.

Knows the trainer's events, nothing of the model.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class TrainingProgress(TrainerCallback):
    """Shows steps, loss and the latest validation cross-entropy on the console; only the first process writes.

    Args:
        label: what stands before the bar.
        console: where to draw; standard error by default.
    """

    def __init__(self, label: str = "training", console: Console | None = None) -> None:
        self.label = label
        self.console = console or Console(stderr=True)
        self.progress: Progress | None = None
        self.loss = self.validation = ""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[loss]}{task.fields[validation]}"),
                console=self.console,
            )
            self.task = self.progress.add_task(
                self.label, total=state.max_steps, completed=state.global_step, loss="", validation=""
            )
            self.progress.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=state.global_step, loss=self.loss, validation=self.validation)

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
            self.on_step_end(args, state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an interruption."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


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
