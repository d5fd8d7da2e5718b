"""Ranks and probabilities -> numbers: against brute force, torchmetrics, and numbers done by hand."""

import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error
from torchmetrics.functional.retrieval import retrieval_reciprocal_rank

from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.evaluation import Scores, metric_of, summarise
from contextual_bert.evaluation.metrics import usable_ks
from contextual_bert.evaluation.scores import expected_recall, expected_reciprocal_rank, recall_curve


def scores_of(logits: np.ndarray, target: np.ndarray) -> Scores:
    """What the streaming scorer must hand over, computed the plain way."""
    log_probability = torch.log_softmax(torch.tensor(logits), dim=1).numpy()
    own = logits[np.arange(len(target)), target][:, None]
    return Scores(
        np.arange(len(target)),
        np.zeros(len(target), dtype=int),
        log_probability[np.arange(len(target)), target],
        (logits > own).sum(axis=1),
        (logits == own).sum(axis=1),
        np.exp(log_probability).max(axis=1),
    )


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray, Scores]:
    generator = np.random.default_rng(0)
    logits, target = 2 * generator.normal(size=(400, 30)), generator.integers(0, 30, 400)
    return logits, target, scores_of(logits, target)


def test_agrees_with_torchmetrics(drawn):
    logits, target, scores = drawn
    numbers = summarise(scores, ks=(1, 5, 20))
    probability, label = torch.softmax(torch.tensor(logits), dim=1), torch.tensor(target)
    assert numbers["cross_entropy_nats"] == pytest.approx(
        torch.nn.functional.cross_entropy(torch.tensor(logits), label).item(), rel=1e-12
    )
    for k in (1, 5, 20):
        expected = multiclass_accuracy(probability, label, num_classes=30, top_k=k, average="micro").item()
        assert numbers[f"recall_at_{k}_percent"] == pytest.approx(100 * expected, rel=1e-6)
    reciprocal = [
        retrieval_reciprocal_rank(row, torch.arange(30) == each).item()
        for row, each in zip(probability, label, strict=True)
    ]
    assert numbers["mean_reciprocal_rank"] == pytest.approx(np.mean(reciprocal), rel=1e-6)
    expected = multiclass_calibration_error(probability, label, num_classes=30, n_bins=15, norm="l1").item()
    assert numbers["expected_calibration_error"] == pytest.approx(expected, rel=1e-5)


def test_ties_get_the_mean_over_all_orders_of_the_tied_items():
    generator = np.random.default_rng(1)
    logits = generator.integers(0, 4, size=(50, 9)).astype(float)
    target = generator.integers(0, 9, 50)
    scores = scores_of(logits, target)
    for row in range(50):
        own = logits[row, target[row]]
        better, tied = int((logits[row] > own).sum()), int((logits[row] == own).sum())
        ranks = [better + each for each in range(1, tied + 1)]
        for k in (1, 2, 5, 9):
            assert expected_recall(scores, k)[row] == pytest.approx(np.mean([rank <= k for rank in ranks]))
        assert expected_reciprocal_rank(scores)[row] == pytest.approx(np.mean([1 / rank for rank in ranks]))


@pytest.mark.parametrize("num_items", [10, 300, 30_000])
def test_a_constant_scorer_gets_exactly_its_share(num_items):
    rows = 1000
    scores = Scores(
        np.arange(rows),
        [0] * rows,
        [-math.log(num_items)] * rows,
        [0] * rows,
        [num_items] * rows,
        [1 / num_items] * rows,
    )
    numbers = summarise(scores, ks=(1, 5, 20, 250), num_items=num_items)
    for k in usable_ks((1, 5, 20, 250), num_items)[0]:
        assert numbers[f"recall_at_{k}_percent"] == pytest.approx(100 * k / num_items, rel=1e-15)
    assert numbers["expected_calibration_error"] == pytest.approx(0, abs=1e-15)


def test_the_rank_of_an_untied_target_is_exact_however_deep():
    scores = Scores([0, 1], [0, 0], [-1.0, -1.0], [29_999, 0], [1, 1], [0.5, 0.5])
    assert expected_reciprocal_rank(scores).tolist() == [1 / 30_000, 1.0]


def test_rows_in_any_order_and_any_number_of_parts_give_the_same_digits(drawn):
    _, _, scores = drawn
    shuffled = scores.select(np.random.default_rng(3).permutation(len(scores)))
    halves = Scores.concatenate([shuffled.select(np.arange(0, 400, 2)), shuffled.select(np.arange(1, 400, 2))])
    assert summarise(scores) == summarise(shuffled) == summarise(halves)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(halves.sorted().as_arrays().values(), scores.as_arrays().values(), strict=True)
    )


def test_k_from_the_number_of_items_on_is_left_out():
    assert usable_ks((250, 1, 20), 20) == ((1,), (20, 250))
    assert usable_ks((250, 1, 20), None) == ((1, 20, 250), ())
    scores = Scores([0], [0], [-1.0], [3], [1], [0.5])
    assert "recall_at_20_percent" not in summarise(scores, num_items=20)


def test_recall_curve_rises_to_the_largest_k(drawn):
    curve = recall_curve(drawn[2], largest_k=20)
    assert curve[0][0] == 1
    assert curve[-1] == (20, summarise(drawn[2], ks=(20,))["recall_at_20_percent"])
    assert [percent for _, percent in curve] == sorted(percent for _, percent in curve)


def test_repeats_are_an_error_until_dropped(drawn):
    _, _, scores = drawn
    padded = Scores.concatenate([scores, scores.select(np.array([7, 8]))])
    with pytest.raises(DataError, match=r"example 7, position 0 was scored more than once \(2 rows.*Scores.unique"):
        summarise(padded)
    assert summarise(padded.unique()) == summarise(scores)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_probability": [-1.0, -np.inf]}, "row 2, column 'log_probability': -inf.*smooth the scorer"),
        ({"log_probability": [np.nan, -1.0]}, "row 1.*must be a number. Weights that are NaN give such scores"),
        ({"log_probability": [-1.0, 0.5]}, "at most 0"),
        ({"confidence": [0.5, 1.5]}, "row 2, column 'confidence': 1.5.*between 0 and 1"),
        ({"confidence": [0.5, np.nan]}, "between 0 and 1"),
        ({"num_tied": [0, 1]}, "row 1, column 'num_tied'.*count it"),
        ({"num_better": [0, -1]}, "num_better.*at least 0"),
        ({"num_better": [0.5, 1]}, "num_better.*whole number"),
    ],
)
def test_faulty_columns_are_named(change, message):
    columns = {
        "example_id": [0, 1],
        "position": [0, 0],
        "log_probability": [-1.0, -2.0],
        "num_better": [0, 1],
        "num_tied": [1, 1],
        "confidence": [0.5, 0.5],
    }
    Scores(**columns)
    with pytest.raises(DataError, match=message):
        Scores(**(columns | change))


def test_unequal_lengths_wrong_shapes_and_texts_are_refused():
    with pytest.raises(ConfigurationError, match=r"different lengths.*'position': 2"):
        Scores([0], [0, 1], [-1.0], [0], [1], [0.5])
    with pytest.raises(ConfigurationError, match="one axis"):
        Scores([[0]], [0], [-1.0], [0], [1], [0.5])
    with pytest.raises(ConfigurationError, match="must hold numbers"):
        Scores(["a"], [0], [-1.0], [0], [1], [0.5])


def test_nothing_to_evaluate_and_ranks_beyond_the_items_are_errors():
    with pytest.raises(DataError, match="no scored row"):
        summarise(Scores([], [], [], [], [], []))
    with pytest.raises(ConfigurationError, match="at least one batch"):
        Scores.concatenate([])
    with pytest.raises(DataError, match="at most num_items = 3"):
        summarise(Scores([0], [0], [-1.0], [3], [1], [0.5]), num_items=3)


@pytest.mark.parametrize("ks", [(0,), (1, 1), (2.5,), (True,)])
def test_ks_must_be_whole_numbers_named_once(ks):
    with pytest.raises(ConfigurationError, match="whole number >= 1"):
        usable_ks(ks, None)


def test_metrics_describe_themselves():
    assert metric_of("cross_entropy_nats").heading == "CE (nats)"
    assert metric_of("mean_reciprocal_rank").is_higher_better
    assert metric_of("mean_reciprocal_rank").range() == (0, 1)
    assert metric_of("mean_reciprocal_rank").range(num_items=4) == (0.25, 1)
    with pytest.raises(UnknownNameError, match="recall_at_<k>_percent"):
        metric_of("recall_at_05_percent")
