"""SIGTERM, with which schedulers stop what they run: training finishes its step and writes a checkpoint first."""

import math
import multiprocessing
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contextual_bert.runs.sigterm import EXIT_CODE, Terminated, at_sigterm

# timeout(1) and some schedulers signal a process and then its group: within so many seconds two signals are one.
SECONDS_OF_ONE_SIGNAL = 1.0


class StopAfterStep(TrainerCallback):
    """Writes a checkpoint after the step in which SIGTERM came, and raises Terminated.

    At the end of an epoch its evaluation comes first, as it would have: a training that goes on there ends with the
    weights of one that was not stopped. Several processes stop after the same step.

    Raises:
        Terminated: the checkpoint is written.

    Example:
        >>> StopAfterStep().is_asked
        False
    """

    def __init__(self) -> None:
        self.is_asked = self._is_saved = False
        self._asked_at = 0.0

    def ask(self) -> None:
        """Stop after this step; asked again, end the process at once."""
        now = time.monotonic()
        if not self.is_asked:
            self.is_asked, self._asked_at = True, now
        elif now - self._asked_at > SECONDS_OF_ONE_SIGNAL and not _has_parent():
            os._exit(EXIT_CODE)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        is_in_epoch = not math.isclose(state.epoch, round(state.epoch), abs_tol=1e-9)
        if _any_process(self.is_asked, args):
            self.is_asked = True
            control.should_save = control.should_save or is_in_epoch

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        control.should_save = control.should_save or self.is_asked

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._is_saved = self.is_asked  # and not the end: other callbacks have work to do with the checkpoint

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._is_saved:
            raise Terminated(f"Stopped by SIGTERM after step {state.global_step}")

    on_epoch_begin = on_train_end = on_step_begin


@contextmanager
def stopping_after_step(stop: StopAfterStep) -> Generator[None]:
    """Ask ``stop`` when SIGTERM comes; outside the main thread, which alone hears signals, change nothing."""
    with at_sigterm(lambda: stop.ask()):
        yield


def _has_parent() -> bool:
    """Return whether another process of ours repeats each signal, and ends this one by other means if it must."""
    return multiprocessing.parent_process() is not None or torch.distributed.is_torchelastic_launched()


def _any_process(is_asked: bool, args: TrainingArguments) -> bool:
    """Return whether any of the processes of a training was asked: their steps are one."""
    if args.world_size == 1 or not torch.distributed.is_initialized():
        return is_asked
    asked = torch.tensor(float(is_asked), device=args.device)
    torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
    return bool(asked.item())
