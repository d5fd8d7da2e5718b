"""The mean of one metric of each row of a study, and paired differences between rows with their intervals.

It reads scores of runs. It writes no sentence. PROTOCOL, points 5 and 10.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation import Interval, Run, paired_bootstrap
from contextual_bert.evaluation.alignment import align_runs, group_runs, paired_runs
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, exact_mean, row_values


class PairedMeans:
    """One metric of each row of a study: its mean, and its difference to another row with the interval.

    Args:
        runs: on the same masked positions.
        num_items: how many items were ranked, if known.
        key: of the metric, a mean over positions: the cross-entropy or a recall.
        chosen: which positions count, in the order of (example_id, position); None: all.

    Raises:
        DataError, ConfigurationError: the runs do not fit each other.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        num_items: int | None = None,
        key: str = CROSS_ENTROPY,
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        scores, clusters = align_runs(runs, num_items=num_items)
        rows = slice(None) if chosen is None else chosen
        recall = key.removeprefix("recall_at_").removesuffix("_percent")
        ks = (int(recall),) if recall.isdigit() else ()
        self.key = key
        self._clusters = clusters[rows]
        self._runs, self._groups = runs, group_runs(runs)
        self._values = [row_values(each, ks)[key][rows] for each in scores]

    def mean(self, name: str) -> float:
        """Return the mean over all seeds of the row."""
        return exact_mean(np.array([exact_mean(self._values[number]) for number in self._groups[name]]))

    def values(self, name: str) -> NDArray[np.float64]:
        """Return the value of each position, (positions,), a mean over all seeds of the row."""
        return self._mean_of(self._groups[name])

    def difference(self, name: str, other: str) -> Interval:
        """Return the first minus the second, paired, on the seeds that both have."""
        own, others = paired_runs(name, other, self._groups, self._runs)
        return paired_bootstrap(self._mean_of(own), self._mean_of(others), self._clusters).interval

    def _mean_of(self, numbers: Sequence[int]) -> NDArray[np.float64]:
        return np.mean([self._values[number] for number in numbers], axis=0)
