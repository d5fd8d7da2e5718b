"""What a run is reported with: metrics with intervals and segments, the customer of each row, where numbers come from.

It trains nothing and writes no file. PROTOCOL, points 10, 11 and 13.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contextual_bert.benchmark.preparation import Preparation
from contextual_bert.benchmark.run_files import commit, hardware
from contextual_bert.evaluation import Provenance, Report, evaluate_scores
from contextual_bert.inference import ScoredSet, bin_names, segment_labels, set_index

FREQUENCY_FEATURE = "masked item, times in training"
FREQUENCY_EDGES = (10.0, 100.0, 1_000.0)


def report_on(part: str, scored: ScoredSet, ready: Preparation, *, seed: int) -> Report:
    """Metrics with intervals and segments of one part."""
    dataset, customers = ready.datasets[part], ready.customers(part)
    index = set_index(dataset, scored.scores.example_id)
    known = ready.customers("train")
    no_one = np.zeros(0, dtype=np.bool_)
    is_cold = no_one if customers is None or known is None else ~np.isin(customers, known)
    return evaluate_scores(
        scored.scores,
        clusters=customers[index] if customers is not None else None,
        # A split by customer makes every customer cold: a segment of all says nothing.
        cold_customers=is_cold[index] if is_cold.any() and not is_cold.all() else None,
        segments={
            **{name: take(labels, index) for name, labels in segment_labels(dataset, ready.processor).items()},
            FREQUENCY_FEATURE: item_frequencies(ready, part, index, scored.scores.position),
        },
        num_items=len(ready.processor.items.values),
        provenance=provenance(ready, seeds=(seed,)),
    )


def item_frequencies(
    ready: Preparation, part: str, index: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.str_]:
    """How often the item at each of these places is in training, as bins: whether rare items are predicted at all."""
    counts = np.bincount(ready.datasets["train"].item_ids.numpy(), minlength=len(ready.processor.items))
    dataset = ready.datasets[part]
    targets = dataset.item_ids.numpy()[dataset.offsets.numpy()[index] + positions]
    return np.array(bin_names(FREQUENCY_EDGES))[np.digitize(counts[targets], FREQUENCY_EDGES)]


def take(labels: NDArray[np.str_] | list[list[str]], index: NDArray[np.int64]) -> NDArray[np.str_] | list[list[str]]:
    """The labels of these sets, in that order."""
    return [labels[place] for place in index.tolist()] if isinstance(labels, list) else labels[index]


def cluster_numbers(ready: Preparation, part: str, example_ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """A number for the customer of each scored row, the same in every run on these data."""
    customers = ready.customers(part)
    if customers is None:
        return None
    numbers = np.unique(customers, return_inverse=True)[1]
    return numbers[set_index(ready.datasets[part], example_ids)].astype(np.int64)


def provenance(ready: Preparation, *, seeds: Sequence[int]) -> Provenance:
    """Where the numbers of a report come from."""
    return Provenance(
        data_digest=ready.split.data_digest[:16],
        commit=commit(),
        seeds=tuple(seeds),
        hardware=hardware(),
        recipe="recipe.json",
    )
