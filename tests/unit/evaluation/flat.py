"""Scores whose ranks say nothing, for tests of what was predicted."""

import numpy as np

from contextual_bert.evaluation import LabelPredictions, Predictions, Scores


def flat_scores(predictions: Predictions) -> Scores:
    """Return scores of uniform probabilities over the labels, with these predictions."""
    rows, num_names = len(predictions), len(predictions.names)
    places = predictions.position if isinstance(predictions, LabelPredictions) else np.zeros(rows, dtype=np.int64)
    share = np.full(rows, 1 / num_names)
    ranks = (np.log(share), np.zeros(rows, dtype=np.int64), np.full(rows, num_names), share)
    return Scores(predictions.example_id, places, *ranks, predictions=predictions)
