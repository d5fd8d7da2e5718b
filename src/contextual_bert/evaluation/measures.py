"""Measures: each metric is a function of the means over rows of a few columns.

So a bootstrap resamples the columns once for all metrics, and no metric is ever averaged over batches. Reports and
comparisons read measures alone: they do not know what was scored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.intervals import ClusterBootstrap
from contextual_bert.evaluation.label_predictions import LabelPredictions, can_measure
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.number_predictions import NumberPredictions
from contextual_bert.evaluation.scores import Scores, row_values
from contextual_bert.evaluation.set_predictions import SetPredictions

NEEDS_SEQEVAL = (
    "Predicted tags are not measured: entity F1 needs seqeval. Install it: pip install 'contextual-bert[text]'."
)


class Measures(NamedTuple):
    """Some rows of scores, and the metrics that are functions of the means of their columns.

    Shapes: rows (n,); columns (n, columns).

    Args:
        rows: number of the scored row that each stands for; of an answer, or a whole set, its first row.
        columns: one value a row.
        metrics: means of the columns -> key -> metric, for each of the leading axes.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.float64]
    metrics: Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]

    def exact(self, chosen: NDArray[np.int64] | None = None) -> dict[str, float]:
        """Return key -> metric over all rows or some of them, from sums that are rounded once."""
        columns = self.columns if chosen is None else self.columns[chosen]
        means = np.array([exact_mean(column) for column in columns.T])
        return {key: float(value) for key, value in self.metrics(means).items()}

    def places(self, num_rows: int) -> NDArray[np.int64]:
        """Return for each of the scored rows the number of its row here, and -1 for those without one."""
        places = np.full(num_rows, -1, dtype=np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places


def measures_of(scores: Scores, ks: Sequence[int], *, set_ks: Sequence[int] = ()) -> list[Measures]:
    """Return the measures of the predictions, where there are some, and those of the ranks.

    Args:
        scores: in any order.
        ks: of recall.
        set_ks: of the metrics of whole sets.

    Example:
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> [{key: round(value, 3) for key, value in each.exact().items()} for each in measures_of(scores, (1,))]
        [{'cross_entropy_nats': 1.04, 'recall_at_1_percent': 50.0, 'mean_reciprocal_rank': 0.625}]
    """
    every = np.arange(len(scores))
    values = row_values(scores, ks)
    keys = tuple(values)
    ranks = Measures(
        every,
        np.stack([*values.values()], axis=1),
        lambda means: {key: means[..., number] for number, key in enumerate(keys)},
    )
    predictions = scores.predictions
    if predictions is None or not can_measure_predictions(scores):
        return [ranks]
    if isinstance(predictions, LabelPredictions):
        return [prediction_measures(predictions), ranks]
    if isinstance(predictions, SetPredictions):
        if not set_ks:
            return [ranks]
        found = predictions.measure(scores.num_better, scores.num_tied, set_ks)
        return [Measures(predictions.firsts(), found.columns, found.metrics), ranks]
    ids, firsts = np.unique(scores.example_id, return_index=True)
    rows = firsts[np.searchsorted(ids, predictions.example_id)]
    return [Measures(rows, predictions.columns(), predictions.metrics), ranks]


def prediction_measures(predictions: LabelPredictions | MultiLabelPredictions | NumberPredictions) -> Measures:
    """Return the measures of predictions, a row each."""
    return Measures(np.arange(len(predictions)), predictions.columns(), predictions.metrics)


def resampled(measures: Sequence[Measures], draws: ClusterBootstrap) -> list[dict[str, NDArray[np.float64]]]:
    """Return key -> metric in each resample, of several measures of the same rows.

    Args:
        measures: of one run each.
        draws: of the clusters of all scored rows.
    """
    own = ClusterBootstrap(draws.codes[measures[0].rows], num_resamples=draws.num_resamples, seed=draws.seed)
    means = own.means_of(np.concatenate([own.sums(each.columns) for each in measures], axis=1))
    parts = np.split(means, np.cumsum([each.columns.shape[1] for each in measures])[:-1], axis=1)
    return [each.metrics(part) for each, part in zip(measures, parts, strict=True)]


def can_measure_predictions(scores: Scores) -> bool:
    """Return False for tags where seqeval, which counts their entities, is not installed."""
    predictions = scores.predictions
    return not isinstance(predictions, LabelPredictions) or can_measure(predictions.names)


def splits_examples(scores: Scores, codes: NDArray[np.int64]) -> int | None:
    """Return an example that is counted as a whole and whose rows have different codes; None where there is none.

    Args:
        scores: with predictions or without.
        codes: one a row.
    """
    if scores.predictions is None or not scores.predictions.counts_whole_examples:
        return None
    order = np.argsort(scores.example_id, kind="stable")
    is_split = (np.diff(scores.example_id[order]) == 0) & (np.diff(codes[order]) != 0)
    return int(scores.example_id[order[1:][is_split.argmax()]]) if is_split.any() else None


def check_clusters(scores: Scores, codes: NDArray[np.int64]) -> None:
    """Raise unless each row has a cluster, and all rows of an example that is counted as a whole the same one."""
    if len(codes) != len(scores):
        raise ConfigurationError(
            f"clusters has {len(codes)} labels for {len(scores)} rows", fix="Give one a scored row."
        )
    if (example := splits_examples(scores, codes)) is not None:
        raise DataError(
            f"the rows of example {example} do not have the same value",
            column="clusters",
            fix="Give all rows of a text the same: they are counted together.",
        )


def check_columns(columns: Mapping[str, Sequence[object] | NDArray[np.generic]], num_rows: int, *, name: str) -> None:
    """Raise ConfigurationError unless each column has a value a row.

    Args:
        columns: feature -> values.
        num_rows: how many there must be.
        name: of the argument.
    """
    for feature, column in columns.items():
        if len(column) != num_rows:
            raise ConfigurationError(
                f"{name}[{feature!r}] has {len(column)} labels for {num_rows} rows", fix="Give one a scored row."
            )
