"""What a training step costs with 30,000 and with a million items, by the exact loss and by drawn items.

    python benchmarks/many_items.py --output many_items.json

The same sets, `global_state_update` of the paper's sizes, batch 256, one item of a set masked. The sets are outfits of
30,000 articles; for a larger vocabulary their articles are spread over it. Each contender has a process of its own, so
that its peak of memory is its own, and they take turns; a ratio is the median over the rounds. Seconds are those of the
processor, so that other work on the machine counts for little.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import torch
from results import write_result
from training_step import StepClock
from workload import COMMON, Workload

from contextual_bert.data import SequenceDataset
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments

METHOD, BATCH_SIZE, FEW, MANY = "global_state_update", 256, 30_000, 1_000_000
# Items and loss; the exact loss over a million items takes minutes, and is measured in one round.
CONTENDERS = ((FEW, "cross_entropy"), (FEW, "sampled_softmax"), (MANY, "sampled_softmax"), (MANY, "gbce"))
SLOW = ((MANY, "cross_entropy"),)


def spread(dataset: SequenceDataset, *, first: int, vocab_size: int) -> SequenceDataset:
    """The same sets of items that are spread over a larger vocabulary."""
    generator = torch.Generator().manual_seed(0)
    largest = int(dataset.input_ids.max()) + 1
    places = torch.randperm(vocab_size - first, generator=generator)[:largest] + first
    return SequenceDataset(
        places[dataset.input_ids], dataset.offsets, context=dataset.context, example_ids=dataset.example_ids
    )


def one(num_items: int, loss: str, steps: int) -> dict[str, float]:
    """Seconds of a step, and bytes of weights, of the optimiser's state, and at the peak."""
    workload = Workload.draw(num_items=FEW, num_sets=BATCH_SIZE * (steps + 2))
    reserved = len(workload.processor.items) - len(workload.processor.items.values)
    vocab_size, dataset = reserved + num_items, workload.dataset
    if num_items > FEW:
        dataset = spread(dataset, first=reserved, vocab_size=vocab_size)
    torch.manual_seed(0)
    config = ContextualBertConfig.paper(METHOD, schema=cast(Any, workload.processor.schema), vocab_size=vocab_size)
    config.softmax_over = "items"
    settings: dict[str, Any] = COMMON | {"per_device_train_batch_size": BATCH_SIZE, "max_steps": steps + 1}
    clock = StepClock(time.process_time)
    trainer = ContextualBertTrainer(
        ContextualBertForMaskedLM(config),
        ContextualTrainingArguments(**settings, loss=loss, load_best_model_at_end=False),
        train_dataset=dataset,
        callbacks=[clock],
    )
    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trainer.train()
    kept = [each for state in cast(Any, trainer.optimizer).state.values() for each in state.values()]
    return {
        "seconds": statistics.median(clock.take()),
        "bytes_of_weights": sum(each.numel() * each.element_size() for each in cast(Any, trainer.model).parameters()),
        "bytes_of_optimiser": sum(
            each.numel() * each.element_size() for each in kept if isinstance(each, torch.Tensor)
        ),
        "bytes_before": before,
        "bytes_at_peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def in_a_process(num_items: int, loss: str, steps: int) -> dict[str, float]:
    """What ``one`` returns, of a process of its own."""
    command = [sys.executable, __file__, "--one", str(num_items), loss, str(steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    rounds, steps = (1, 2) if quick else (3, 6)
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    for turn in range(rounds):
        for contender in CONTENDERS if turn % 2 == 0 else CONTENDERS[::-1]:
            found.setdefault(contender, []).append(in_a_process(*contender, steps))
    for contender in () if quick else SLOW:
        found[contender] = [in_a_process(*contender, 2)]
    exact = found[CONTENDERS[0]]
    rows: list[dict[str, Any]] = []
    for (num_items, loss), results in found.items():
        ratios = [each["seconds"] / other["seconds"] for each, other in zip(results, exact, strict=False)]
        medians = {name: statistics.median(each[name] for each in results) for name in results[0]}
        rows.append({"num_items": num_items, "loss": loss, **medians, "ratio": statistics.median(ratios)})
    return {"batch_size": BATCH_SIZE, "rounds": rounds, "steps_per_round": steps, "contenders": rows}


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--one", nargs=3, metavar=("ITEMS", "LOSS", "STEPS"), help="one contender, in this process")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    if arguments.one is not None:
        num_items, loss, steps = arguments.one
        print(json.dumps(one(int(num_items), loss, int(steps))))
        return
    write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
