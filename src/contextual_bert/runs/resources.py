"""Resources of a run: training seconds and peak memory.

A study trains all its rows in one process, and a run may be interrupted and go on: neither may blur what one run cost.
"""

import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_SECONDS = "training_seconds"


class TrainingClock(TrainerCallback, ExportableState):
    """Seconds of training, which checkpoints keep: what came before an interruption counts, what it lost does not.

    Args:
        state: trainer_state.json of the checkpoint that training goes on from; empty at the start of a run.

    Example:
        >>> saved = {"stateful_callbacks": {"TrainingClock": {"attributes": {"training_seconds": 60.0}}}}
        >>> 60 <= TrainingClock(saved).seconds < 61
        True
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        kept = (state or {}).get("stateful_callbacks", {}).get(type(self).__name__, {})
        # Before this process. A trainer that resumes makes a clock of its own and sets what a checkpoint has by name.
        self.training_seconds: float = kept.get("attributes", {}).get(_SECONDS, 0.0)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of all processes that had a part in the training, this one until now."""
        return self.training_seconds + time.perf_counter() - self._started

    def state(self) -> dict[str, Any]:
        """Return the state that the trainer writes into each checkpoint."""
        return {"args": {}, "attributes": {_SECONDS: self.seconds}}


class PeakMemory:
    """The most memory that the accelerator, or else this process, held since this was made.

    Example:
        >>> memory = PeakMemory()
        >>> held = bytearray(2**28)
        >>> held_bytes = memory.bytes()
        >>> held_bytes is None or held_bytes > 2**28
        True
    """

    def __init__(self) -> None:
        self._before = 0
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            return
        try:
            _CLEAR.write_text("5", encoding="ascii")  # proc(5): the high-water mark falls to what is held now
        except OSError:  # not every system lets it
            self._before = _high_water_mark()

    def bytes(self) -> int | None:
        """None where the mark could not be set back and has not risen: it may be that of what ran before."""
        peak = _high_water_mark()
        return peak if peak > self._before else None


def _high_water_mark() -> int:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"))
    except OSError:
        found = None
    if found:
        return 1024 * int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
