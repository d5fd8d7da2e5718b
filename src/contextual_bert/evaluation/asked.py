"""Share of the askable items that was scored. Rare and new items count as misses of a recall over all of them.

Metrics are means over the positions that can be ranked. What cannot be ranked is left out of them, so a filter that
drops rare items improves each. This module says what was left out, and what the recall is over all that was bought.

Paper: not there. docs/protocol.md, "What was not asked".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval, cluster_codes
from contextual_bert.evaluation.metrics import exact_mean, metric_of, recall_key
from contextual_bert.evaluation.scores import Scores, expected_recall
from contextual_bert.evaluation.serialization import JsonText

WHOLE_TABLE = "all"


@dataclass(frozen=True, eq=False)
class Unscored:
    """The items of an evaluated part that were not scored.

    Args:
        clusters: the customer of each, or its set where no column names customers: labels like those of the scored.
        reasons: why -> how many; in all as many as ``clusters``.
        part: the evaluated part, "all" for a whole table.
        name: what is counted, such as "item".

    Raises:
        ConfigurationError: other numbers than rows.
    """

    clusters: NDArray[np.generic]
    reasons: Mapping[str, int]
    part: str
    name: str = "item"

    def __post_init__(self) -> None:
        if sum(self.reasons.values()) != len(self.clusters):
            raise ConfigurationError(f"{dict(self.reasons)} are not {len(self.clusters)} items", fix="Count each once.")


@dataclass(frozen=True)
class Asked(JsonText):
    """Counts of scored and of all items of a part, and the recall over all of them.

    Formula: recall over all = sum over scored items of recall / number of all items.

    Args:
        num_scored: items that were ranked.
        num_all: items of the part.
        reasons: why an item was not ranked -> how many.
        part: the evaluated part, "all" for a whole table.
        name: what is counted, such as "item".
        recall: key -> Interval, over all items; what was not ranked is a miss.

    Relation to its siblings: `asked_of` makes it; `Report.asked` and `Comparison.asked` hold it.

    Example:
        >>> print(Asked(6111, 8772, {"seen fewer than 5 times in training": 2661}, "test").note())
        Scored 6,111 of 8,772 items of the test part (69.7%). Not scored: 2,661 seen fewer than 5 times in training.
    """

    num_scored: int
    num_all: int
    reasons: dict[str, int]
    part: str
    name: str = "item"
    recall: dict[str, Interval] = field(default_factory=dict[str, Interval])

    @property
    def share(self) -> float:
        """The share of all items that was scored."""
        return self.num_scored / self.num_all

    @property
    def all_items(self) -> str:
        """All items in words, for headings."""
        return f"all {self.num_all:,} {self.name}s of {_of_part(self.part)}"

    def note(self) -> str:
        """Return what was scored, of how much, and why the rest was not."""
        if not self.reasons:
            return f"Scored {self.all_items}."
        why = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        of = f"{self.num_all:,} {self.name}s of {_of_part(self.part)}"
        return f"Scored {self.num_scored:,} of {of} ({self.share:.1%}). Not scored: {why}."


def asked_of(
    scores: Scores,
    clusters: NDArray[np.generic],
    unscored: Unscored,
    *,
    ks: Sequence[int],
    num_resamples: int,
    seed: int,
    level: float,
) -> Asked:
    """Count what was scored, and compute the recall over all items with its interval.

    Args:
        scores: one row a scored item.
        clusters: its customers, or sets.
        unscored: the others.
        ks: of recall.
        num_resamples, seed, level: of the bootstrap over customers.

    Example:
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> unscored = Unscored(np.array([1, 2]), {"new": 2}, "test")
        >>> found = asked_of(scores, np.array([0, 1]), unscored, ks=(1,), num_resamples=100, seed=0, level=0.95)
        >>> found.num_all, found.recall["recall_at_1_percent"].value
        (4, 25.0)
    """
    rest = np.zeros(len(unscored.clusters))
    columns = {recall_key(k): np.concatenate([100.0 * expected_recall(scores, k), rest]) for k in ks}
    recall: dict[str, Interval] = {}
    if columns:
        codes = cluster_codes(np.concatenate([np.asarray(clusters), unscored.clusters]))
        draws = ClusterBootstrap(codes, num_resamples=num_resamples, seed=seed)
        replicates = draws.resampled_means(np.stack([*columns.values()], axis=1)).T
        recall = {
            key: draws.interval(exact_mean(column), replicate, level=level, within=metric_of(key).range())
            for (key, column), replicate in zip(columns.items(), replicates, strict=True)
        }
    reasons = {reason: count for reason, count in unscored.reasons.items() if count}
    return Asked(len(scores), len(scores) + len(rest), reasons, unscored.part, unscored.name, recall)


def _of_part(part: str) -> str:
    return "the table" if part == WHOLE_TABLE else f"the {part} part"
