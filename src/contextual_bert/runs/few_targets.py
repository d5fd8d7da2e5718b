"""Check if a few items carry a metric: the commonest of training beside all others.

The items are chosen by how often they are in the training part, not by what a model finds: a choice by the result would
make every difference rest on a few. It reads scores and writes sentences.
docs/protocol.md, "Whether a few items decide".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation import PairedRuns, Scores, metric_of
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, exact_mean, recall_key
from contextual_bert.evaluation.rank_metrics import expected_recall
from contextual_bert.inference import set_index
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.rival_findings import signed_words

NUM_FEW = 3
LEAST_SHARE = 0.5  # of the hits, from which on a few items carry a metric
LEAST_LIFT = 2.0  # times their share of the positions


@dataclass(frozen=True, eq=False)
class FewTargets:
    """The commonest items of the training part, and where they are asked for.

    Args:
        names: of the items, the commonest first.
        is_few: whether the item of each position is one of them, (positions,), in the order of (example_id, position).
    """

    names: tuple[str, ...]
    is_few: NDArray[np.bool_]


def commonest_targets(ready: PreparedData, part: str, scores: Scores) -> FewTargets | None:
    """Return where the commonest items of the training part are asked for; None for anything but sets of items.

    Args:
        ready: the data.
        part: that was scored.
        scores: of any run on it.
    """
    training, dataset = ready.datasets["train"], ready.datasets[part]
    if not ready.recipe.task.has_items:
        return None
    values = ready.processor.items.values
    first = len(ready.processor.items) - len(values)  # ids below are reserved
    counts = np.bincount(training.input_ids.numpy(), minlength=len(ready.processor.items))[first:]
    few = np.argsort(-counts, kind="stable")[:NUM_FEW]
    ordered = scores.sorted()
    places = dataset.offsets.numpy()[set_index(dataset, ordered.example_id)] + ordered.position
    return FewTargets(tuple(values[number] for number in few), np.isin(dataset.input_ids.numpy()[places] - first, few))


def about_few(name: str, other: str | None, paired: PairedRuns, few: FewTargets) -> list[str]:
    """Return sentences where a few items carry recall@1 of a row, or its difference to another row.

    Args:
        name: the row.
        other: the row that it is compared with, None without one.
        paired: runs of the study.
        few: the items.
    """
    if not few.is_few.any() or few.is_few.all() or (paired.num_items or 0) <= 2 * NUM_FEW:
        return []
    listed = ", ".join(map(repr, few.names))
    share = float(few.is_few.mean())
    hits = np.mean([100.0 * expected_recall(paired.scores[number], 1) for number in paired.groups[name]], axis=0)
    found: list[str] = []
    total = float(hits.sum())
    own = float(hits[few.is_few].sum()) / total if total else 0.0
    if own >= LEAST_SHARE and own >= LEAST_LIFT * share:
        of_others = exact_mean(hits[~few.is_few])
        found.append(
            f"{NUM_FEW} items carry recall@1 of `{name}`: {listed}, the most frequent in training, are {share:.1%} of "
            f"the positions and {own:.1%} of the hits. Recall@1 is {of_others:.2f}% without them and "
            f"{exact_mean(hits):.2f}% over all."
        )
    if other is None:
        return found
    rest = paired.on_rows(~few.is_few, names=(name, other))
    for key in (CROSS_ENTROPY, recall_key(1)):
        whole = paired.difference(name, other, key).interval
        without = rest.difference(name, other, key).interval
        if whole.excludes(0) and not without.excludes(0):
            metric = metric_of(key)
            found.append(
                f"{NUM_FEW} items carry the difference in {metric.label} of `{name}` to `{other}` "
                f"({signed_words(whole, metric)}): without {listed} it is {signed_words(without, metric)}."
            )
    return found
