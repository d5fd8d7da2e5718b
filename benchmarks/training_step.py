"""Training examples a second with 30,000 items, batch 512 and the paper's sizes: ours against BertForMaskedLM.

    python benchmarks/training_step.py --output training_step.json

Contenders: ContextualBertTrainer with conditioning none and global_state_update; transformers' Trainer with a
BertForMaskedLM of the same sizes, on the same sets, with the same optimiser and precision (see workload.py). They take
turns, a few steps each, many times; a ratio is the median over the rounds of the ratio within a round, so a machine
that others use too slows all of a round alike. A step lasts from the end of one to the end of the next: data loading,
forward, backward, clipping and optimiser.

Where the time goes is measured apart, step by step in alternation: the graph is cut at the encoder's output, so that
encoder, head (transform, output product, loss) and optimiser (clipping included) are timed one after the other.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from results import write_result
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from workload import OURS, PEER, Workload

from contextual_bert.training.devices import fast_dtype

PRECISIONS = ("fp32", "bf16")
CONTENDERS = (*OURS, PEER)
BATCH_SIZE = 512
PARTS = ("data", "encoder_forward", "encoder_backward", "head_forward", "head_backward", "optimiser")


class StepClock(TrainerCallback):
    """Seconds of each step but the first, which warms up; on an accelerator until its work is done.

    Args:
        now: the clock: wall seconds, or ``time.process_time`` for those of the processor.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now, self.ends = now, list[float]()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if args.device.type == "cuda":
            torch.cuda.synchronize()
        self.ends.append(self.now())

    def take(self) -> list[float]:
        """The steps since the last call."""
        seconds = [end - start for start, end in zip(self.ends[:-1], self.ends[1:], strict=True)]
        self.ends.clear()
        return seconds


def trainer_rounds(workload: Workload, precision: str, *, rounds: int, steps: int) -> dict[str, list[float]]:
    """Contender -> the mean step of each round in seconds, contenders in turn within a round."""
    clocks = {name: StepClock() for name in CONTENDERS}
    settings = {"per_device_train_batch_size": BATCH_SIZE, "bf16": precision == "bf16", "max_steps": steps + 1}
    trainers = {name: workload.trainer(name, settings, callbacks=[clocks[name]]) for name in CONTENDERS}
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for turn in range(rounds):
        for name in CONTENDERS if turn % 2 == 0 else CONTENDERS[::-1]:
            trainers[name].args.data_seed = turn
            trainers[name].train()
            found[name].append(statistics.fmean(clocks[name].take()))
    return found


@dataclass
class SplitTimer:
    """Seconds of each part of a training step of one model."""

    trainer: Trainer
    precision: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in (*PARTS, "step")})

    def __post_init__(self) -> None:
        self.model: Any = self.trainer.model
        self.model.train()
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        self.loader = iter(())
        self.model.bert.register_forward_hook(self._cut)

    def _cut(self, module: Any, inputs: Any, outputs: Any) -> Any:
        """Let the head read a copy without history: its backward then ends at the encoder's output."""
        self.hidden: Tensor = outputs.last_hidden_state
        self.encoder_done = time.perf_counter()
        self.head_input = self.hidden.detach().requires_grad_()
        outputs.last_hidden_state = self.head_input
        return outputs

    def step(self) -> None:
        """One training step, part by part."""
        with self.timed("step"):
            with self.timed("data"):
                batch = self.next_batch()
            start = time.perf_counter()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.precision == "bf16"):
                loss = self.model(**batch).loss
            self.seconds["encoder_forward"].append(self.encoder_done - start)
            self.seconds["head_forward"].append(time.perf_counter() - self.encoder_done)
            with self.timed("head_backward"):
                loss.backward()
            with self.timed("encoder_backward"):
                self.hidden.backward(self.head_input.grad)
            with self.timed("optimiser"):
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimiser.step()
                self.model.zero_grad()

    @contextmanager
    def timed(self, part: str) -> Generator[None]:
        """Add the seconds of a block to a part."""
        start = time.perf_counter()
        yield
        self.seconds[part].append(time.perf_counter() - start)

    def next_batch(self) -> dict[str, Any]:
        """The trainer's next full batch, from the start again after the last."""
        batch = next(self.loader, None)
        if batch is None or len(batch["input_ids"]) < BATCH_SIZE:
            self.loader = iter(self.trainer.get_train_dataloader())
            batch = next(self.loader)
        return batch


def split(workload: Workload, precision: str, *, steps: int) -> dict[str, SplitTimer]:
    """Contender -> the seconds of each part of its steps, contenders in turn."""
    settings = {"per_device_train_batch_size": BATCH_SIZE, "bf16": precision == "bf16", "max_steps": steps}
    timers = {name: SplitTimer(workload.trainer(name, settings), precision) for name in CONTENDERS}
    for turn in range(steps + 1):
        for timer in timers.values():
            timer.step()
        if turn == 0:  # warms up
            for timer in timers.values():
                for seconds in timer.seconds.values():
                    seconds.clear()
    return timers


def summarise_rounds(found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Examples a second, and the ratios of the rounds with their spread."""

    def ratio(slower: str, faster: str) -> dict[str, float]:
        ratios = sorted(a / b for a, b in zip(found[slower], found[faster], strict=True))
        quarter = len(ratios) // 4
        return {
            "median": statistics.median(ratios),
            "low_quartile": ratios[quarter],
            "high_quartile": ratios[-1 - quarter],
        }

    return {
        "examples_per_second": {name: BATCH_SIZE / statistics.median(seconds) for name, seconds in found.items()},
        "step_seconds": {name: statistics.median(seconds) for name, seconds in found.items()},
        "times_the_examples_per_second_of_the_peer": {name: ratio(PEER, name) for name in OURS},
        "step_of_global_state_update_over_none": ratio("global_state_update", "none"),
    }


def summarise_split(timers: Mapping[str, SplitTimer]) -> dict[str, Any]:
    """The mean seconds of each part without the slowest tenth of the steps, and the paired step ratio."""

    def typical(seconds: Sequence[float]) -> float:
        return statistics.fmean(sorted(seconds)[: max(1, len(seconds) * 9 // 10)])

    none, updated = (timers[name].seconds["step"] for name in OURS)
    return {
        "part_seconds": {
            name: {part: typical(seconds) for part, seconds in timer.seconds.items()} for name, timer in timers.items()
        },
        "step_of_global_state_update_over_none": statistics.median(b / a for a, b in zip(none, updated, strict=True)),
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    rounds, steps, split_steps = (3, 2, 4) if quick else (7, 4, 12)
    # Without instructions for it a bfloat16 step of the peer takes minutes.
    precisions = PRECISIONS if not quick or fast_dtype("cpu") == "bfloat16" else PRECISIONS[:1]
    workload = Workload.draw(num_items=30_000, num_sets=BATCH_SIZE * 40)
    sizes = workload.dataset.sizes
    result: dict[str, Any] = {
        "num_items": 30_000,
        "batch_size": BATCH_SIZE,
        "set_sizes": {"smallest": int(sizes.min()), "mean": float(sizes.mean()), "largest": int(sizes.max())},
        "num_parameters": {
            name: sum(weight.numel() for weight in workload.model(name).parameters()) for name in CONTENDERS
        },
        "rounds": rounds,
        "steps_per_round": steps,
    }
    for precision in precisions:
        found = trainer_rounds(workload, precision, rounds=rounds, steps=steps)
        parts = split(workload, precision, steps=split_steps)
        result[precision] = {"trainer": summarise_rounds(found), "split": summarise_split(parts)}
    return result


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; bfloat16 only where the processor has it")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
