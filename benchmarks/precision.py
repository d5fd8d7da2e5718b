"""Whether bfloat16 autocast trains to the same result as float32: same seed, same sets, same test sets.

    python benchmarks/precision.py --output precision.json

For each seed a model is trained twice on a stylist world, once in each precision, and both are scored in float32 on
the sets of other customers. The difference of the test cross-entropies has a 95% interval, by a bootstrap over
customers that takes the seeds' mean at each masked position.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from results import write_result
from workload import World

from contextual_bert.evaluation import Scores, paired_bootstrap
from contextual_bert.inference import score
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.training import ContextualBertTrainer, training_arguments

CONDITIONING = "global_state_update"
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def train_and_score(world: World, *, dtype: str, seed: int, epochs: int) -> tuple[Scores, float]:
    """The test scores of one training, and how long it took in seconds."""
    torch.manual_seed(seed)
    config = ContextualBertConfig.from_schema(
        world.processor.schema,
        conditioning=CONDITIONING,
        vocab_size=len(world.processor.items),
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=256,
        tie_word_embeddings=False,
        initializer_range=128**-0.5,
    )
    model = ContextualBertForMaskedLM(config)
    settings: dict[str, Any] = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
    arguments = training_arguments(
        world.folder,
        device="cpu",
        dtype=dtype,
        seed=seed,
        num_train_epochs=epochs,
        disable_tqdm=True,
        logging_strategy="no",
        **settings,
    )
    start = time.perf_counter()
    ContextualBertTrainer(model, arguments, train_dataset=world.train).train()
    seconds = time.perf_counter() - start
    return score(model.eval(), world.test), seconds


def compare(world: World, *, seeds: int, epochs: int) -> dict[str, Any]:
    """Train in both precisions with each seed, and the paired difference."""
    losses: dict[str, list[NDArray[np.float64]]] = {name: [] for name in PRECISIONS}
    seconds: dict[str, list[float]] = {name: [] for name in PRECISIONS}
    rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    for seed in range(seeds):
        for name, dtype in PRECISIONS.items():
            scores, elapsed = train_and_score(world, dtype=dtype, seed=seed, epochs=epochs)
            losses[name].append(-scores.log_probability)
            seconds[name].append(elapsed)
            rows = scores.example_id
    mean = {name: np.mean(values, axis=0) for name, values in losses.items()}
    found = paired_bootstrap(mean["bf16"], mean["fp32"], world.test_customers[rows])
    by_seed = {name: [float(values.mean()) for values in runs] for name, runs in losses.items()}
    return {
        "cross_entropy_nats": by_seed,
        "standard_deviation_over_seeds_nats": {
            name: statistics.stdev(values) if seeds > 1 else None for name, values in by_seed.items()
        },
        "difference_nats": found.interval.value,
        "difference_low_nats": found.interval.low,
        "difference_high_nats": found.interval.high,
        "num_positions": found.interval.num_rows,
        "num_customers": found.interval.num_clusters,
        "training_seconds": seconds,
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    settings: Mapping[str, int] = (
        {"num_items": 100, "num_train": 2000, "num_test": 500}
        if quick
        else {"num_items": 300, "num_train": 6000, "num_test": 3000}
    )
    seeds, epochs = (1, 2) if quick else (3, 8)
    world = World.draw(**settings, seed=0)
    result = compare(world, seeds=seeds, epochs=epochs)
    return {"conditioning": CONDITIONING, **settings, "num_seeds": seeds, "num_epochs": epochs, **result}


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small world and one seed: shows that it runs")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
