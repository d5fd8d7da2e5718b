"""What features of items cost: a training step, and a completion, with 30,000 items of 8 features and without.

    python benchmarks/item_features.py --output item_features.json

The same model (``global_state_update``, the paper's sizes), sets, batch and optimiser, once with the category, brand,
colour, price tier, target group, size run, style and price of a catalogue. The two take turns, a few steps each; a
ratio is the median over the rounds. Seconds are those of the processor, so that other work on the machine counts for
little.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import write_result
from training_step import StepClock
from workload import COMMON, Workload

from contextual_bert.data.world import StylistWorld
from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.inference.item_schema import infer_item_schema
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.item_features import ItemLayout
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.setting_checks import DEFAULT_MODEL

NUM_ITEMS, BATCH_SIZE, METHOD = 30_000, 512, "global_state_update"
SIZES = {**DEFAULT_MODEL, "has_head_layer_norm": False}  # the paper's
WITH, WITHOUT = "with_features", "without"


def models(workload: Workload) -> dict[str, ContextualBertForMaskedLM]:
    """The same model with features and without, untrained."""
    shop = Catalogue(StylistWorld.generate(NUM_ITEMS, seed=0).articles.to_table(), workload.processor.items)
    schema = infer_item_schema(shop, exclude=["popularity"]).schema
    items = encode_catalogue(shop, schema, workload.processor.items)
    layout = ItemLayout(schema.layout, num_places=items.value_ids.shape[1])
    found: dict[str, ContextualBertForMaskedLM] = {}
    for name, features in ((WITH, layout.to_dict()), (WITHOUT, None)):
        torch.manual_seed(0)
        config = ContextualBertConfig.from_schema(
            workload.processor.schema,
            conditioning=METHOD,
            vocab_size=len(workload.processor.items),
            item_features=features,
            **SIZES,
        )
        found[name] = ContextualBertForMaskedLM(config)
    attributes: Any = found[WITH].bert.embeddings.attributes
    attributes.fill(items, is_new=torch.zeros(NUM_ITEMS, dtype=torch.bool))
    return found


def step_rounds(workload: Workload, *, rounds: int, steps: int) -> dict[str, list[float]]:
    """The mean step of each round in seconds."""
    clocks = {name: StepClock(time.process_time) for name in (WITH, WITHOUT)}
    settings: dict[str, Any] = COMMON | {"per_device_train_batch_size": BATCH_SIZE, "max_steps": steps + 1}
    trainers = {
        name: ContextualBertTrainer(
            model,
            ContextualTrainingArguments(**settings, load_best_model_at_end=False),
            train_dataset=workload.dataset,
            callbacks=[clocks[name]],
        )
        for name, model in models(workload).items()
    }
    found: dict[str, list[float]] = {name: [] for name in trainers}
    for turn in range(rounds):
        for name in found if turn % 2 == 0 else reversed(found):
            trainers[name].args.data_seed = turn
            trainers[name].train()
            found[name].append(statistics.fmean(clocks[name].take()))
    return found


def completion_rounds(workload: Workload, *, rounds: int, queries: int) -> dict[str, list[float]]:
    """Seconds of a completion, one query at a time."""
    names = workload.processor.items.values
    generator = np.random.default_rng(0)
    asked = [{"items": [*generator.choice(names, 4, replace=False).tolist(), "[MASK]"]} for _ in range(queries)]
    pipelines = {
        name: CompletionPipeline(model, workload.processor, device="cpu") for name, model in models(workload).items()
    }
    found: dict[str, list[float]] = {name: [] for name in pipelines}
    for turn in range(rounds + 1):
        for name, pipeline in pipelines.items():
            start = time.process_time()
            for query in asked:
                pipeline(query, top_k=10)
            if turn:  # the first round warms up, and makes the matrices
                found[name].append((time.process_time() - start) / queries)
    return found


def summary(found: dict[str, list[float]]) -> dict[str, Any]:
    """Milliseconds, and the ratio of the rounds with its quartiles."""
    ratios = sorted(a / b for a, b in zip(found[WITH], found[WITHOUT], strict=True))
    quarter = len(ratios) // 4
    return {
        "milliseconds": {name: 1000 * statistics.median(seconds) for name, seconds in found.items()},
        "ratio": {
            "median": statistics.median(ratios),
            "low_quartile": ratios[quarter],
            "high_quartile": ratios[-1 - quarter],
        },
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    rounds, steps, queries = (3, 2, 20) if quick else (7, 4, 100)
    workload = Workload.draw(num_items=NUM_ITEMS, num_sets=BATCH_SIZE * 20)
    return {
        "num_items": NUM_ITEMS,
        "num_features": 8,
        "batch_size": BATCH_SIZE,
        "rounds": rounds,
        "training_step": summary(step_rounds(workload, rounds=rounds, steps=steps)),
        "completion": summary(completion_rounds(workload, rounds=rounds, queries=queries)),
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
