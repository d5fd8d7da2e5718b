"""Peak memory of ranking the true item among 30,000 at every position of 17,000 outfits, and of 4 times as many.

    python benchmarks/evaluation_memory.py --output evaluation_memory.json

Each measurement runs in a process of its own. Memory is resident memory: what scoring adds is the peak while it runs
less what is held before it starts (the libraries, the data set and the untrained model of the paper's sizes). For
comparison transformers' Trainer.evaluate, as it is without further thought: `compute_metrics` on logits of every
position, gathered over the data set; at few sets with one mask each, for more do not fit.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from results import write_result
from transformers import Trainer, TrainingArguments
from workload import PEER, OneMaskCollator, PlainSets, Workload

from contextual_bert.data import SequenceDataset
from contextual_bert.inference import score

NUM_ITEMS = 30_000
DRAWN_SETS = 4096
MEBIBYTE = 2**20


def repeated(dataset: SequenceDataset, num_sets: int) -> SequenceDataset:
    """So many sets: those of ``dataset`` over and over; what they hold does not matter to memory."""
    index = np.arange(num_sets) % len(dataset)
    offsets = dataset.offsets.numpy()
    items = [dataset.input_ids[offsets[row] : offsets[row + 1]].numpy() for row in index]
    context = {name: values[index] for name, values in dataset.context.items()}
    sizes = dataset.sizes[index]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return SequenceDataset(np.concatenate(items), starts, context=context, example_ids=np.arange(num_sets))


def score_ours(num_sets: int) -> dict[str, float]:
    """Every position of every set, by ``contextual_bert.inference.score``."""
    workload = Workload.draw(num_items=NUM_ITEMS, num_sets=DRAWN_SETS)
    dataset = repeated(workload.dataset, num_sets)
    model: Any = workload.model("global_state_update")
    num_rows = int(dataset.sizes.sum())
    return watched(lambda: score(model.eval(), dataset), num_sets=num_sets, num_rows=num_rows)


def score_naively(num_sets: int) -> dict[str, float]:
    """One position of each set, by Trainer.evaluate with metrics on all logits."""
    workload = Workload.draw(num_items=NUM_ITEMS, num_sets=num_sets)
    arguments = TrainingArguments(
        output_dir=tempfile.gettempdir(), use_cpu=True, per_device_eval_batch_size=64, disable_tqdm=True, report_to=[]
    )
    trainer = Trainer(
        workload.model(PEER),
        arguments,
        data_collator=OneMaskCollator(workload.processor.tokenizer),
        eval_dataset=PlainSets(workload.dataset),
        compute_metrics=lambda prediction: {"rows": float(len(prediction.predictions))},
    )
    return watched(trainer.evaluate, num_sets=num_sets, num_rows=num_sets)


def watched(function: Callable[[], Any], *, num_sets: int, num_rows: int) -> dict[str, float]:
    """Seconds, and the memory before and at the peak of a call."""
    before = forget_peak()
    start = time.perf_counter()
    function()
    seconds = time.perf_counter() - start
    peak = peak_bytes()
    return {
        "num_sets": num_sets,
        "num_masked_positions": num_rows,
        "before_mib": before / MEBIBYTE,
        "peak_mib": peak / MEBIBYTE,
        "added_mib": (peak - before) / MEBIBYTE,
        "seconds": seconds,
        "positions_per_second": num_rows / seconds,
    }


def forget_peak() -> int:
    """Start the peak anew and give the resident memory; where the system cannot, the peak so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_bytes()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Highest resident memory since the start, or since ``forget_peak``."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def in_own_process(way: str, num_sets: int) -> dict[str, float]:
    """The measurement by a fresh interpreter."""
    command = [sys.executable, __file__, "--only", way, "--sets", str(num_sets)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    sets, naive_sets = ((500, 2000), (64, 128)) if quick else ((17_000, 68_000), (256, 512))
    ours = [in_own_process("ours", count) for count in sets]
    naive = [in_own_process("naive", count) for count in naive_sets]
    growth = (naive[1]["added_mib"] - naive[0]["added_mib"]) / (naive_sets[1] - naive_sets[0])
    return {
        "num_items": NUM_ITEMS,
        "ours": ours,
        "trainer_evaluate_with_all_logits": naive,
        "added_at_4_times_over_once": ours[1]["added_mib"] / ours[0]["added_mib"],
        "trainer_evaluate_mib_per_masked_position": growth,
        # What it would need for the positions of ours: an extrapolation, nothing that was run.
        "trainer_evaluate_extrapolated_mib": growth * ours[0]["num_masked_positions"],
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few outfits")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    parser.add_argument("--only", choices=("ours", "naive"), help="one measurement, in this process")
    parser.add_argument("--sets", type=int, default=1000, help="with --only: number of sets (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.only is not None:
        print(json.dumps((score_ours if arguments.only == "ours" else score_naively)(arguments.sets)))
    else:
        write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
