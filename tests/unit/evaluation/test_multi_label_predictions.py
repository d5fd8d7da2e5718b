"""Several labels at once: the metrics are those of scikit-learn, and what cannot be is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, label_ranking_average_precision_score

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import MultiLabelPredictions, Run, Scores, class_scores, compare_runs, evaluate_scores

NAMES = ("a", "b", "c", "d")


def drawn(num_rows: int = 80, *, seed: int = 0) -> MultiLabelPredictions:
    """The likelier a label, the truer; some probabilities are the same, and some texts have no label."""
    numbers = np.random.default_rng(seed)
    probability = numbers.random((num_rows, len(NAMES))).round(1)
    return MultiLabelPredictions(
        np.arange(num_rows), probability, numbers.random(probability.shape) < probability / 2, names=NAMES
    )


def scores_of(rows: MultiLabelPredictions) -> Scores:
    right = np.where(rows.true == 1, rows.probability, 1 - rows.probability).clip(0.01).ravel()
    labels = np.tile(np.arange(len(rows.names)), len(rows))
    better, tied = (right < 0.5).astype(int), 1 + (right == 0.5)
    example_id = np.repeat(rows.example_id, len(rows.names))
    return Scores(example_id, labels, np.log(right), better, tied, np.maximum(right, 1 - right), predictions=rows)


def test_the_metrics_are_those_of_scikit_learn() -> None:
    rows = drawn()
    found = {key: float(value) for key, value in rows.metrics(rows.columns().mean(axis=0)).items()}
    has_label = rows.true.any(axis=1)
    assert 0 < has_label.sum() < len(rows)
    expected = {
        "micro_f1_percent": f1_score(rows.true, rows.predicted, average="micro"),
        "macro_f1_percent": f1_score(rows.true, rows.predicted, average="macro"),
        "exact_labels_percent": (rows.true == rows.predicted).all(axis=1).mean(),
        "label_ranking_precision_percent": label_ranking_average_precision_score(
            rows.true[has_label], rows.probability[has_label]
        ),
    }
    assert found == pytest.approx({key: 100 * value for key, value in expected.items()})
    of_labels = 100 * np.array(average_precision_score(rows.true, rows.probability, average=None))
    assert rows.average_precision() == pytest.approx(of_labels)


def test_the_report_has_intervals_and_each_label() -> None:
    rows = drawn()
    report = evaluate_scores(scores_of(rows), segments={"half": np.repeat(rows.example_id % 2, len(NAMES)).astype(str)})
    assert report.main == "micro_f1_percent"
    assert report.num_sets == len(rows)
    for key in ("micro_f1_percent", "macro_f1_percent", "exact_labels_percent", "label_ranking_precision_percent"):
        assert report.metrics[key].low < report.metrics[key].value < report.metrics[key].high
        assert all(key in segment.metrics for segment in report.segments)
    assert [each.name for each in report.classes] == list(NAMES)
    assert "average precision (%)" in report.to_markdown()
    assert type(report).from_json(report.to_json()).classes == report.classes


def test_a_label_that_no_text_has_is_no_class_unless_it_is_predicted() -> None:
    rows = MultiLabelPredictions([0, 1], [[0.9, 0.2, 0.8], [0.7, 0.1, 0.3]], [[1, 0, 0], [1, 0, 0]], names=NAMES[:3])
    found = {each.name: each for each in class_scores(rows)}
    assert list(found) == ["a", "c"]
    assert found["a"].average_precision_percent == 100
    assert found["c"].average_precision_percent is None
    nobody = replace(rows, true=np.zeros((2, 3), dtype=int), probability=np.zeros((2, 3)))
    assert set(nobody.metrics(nobody.columns().mean(axis=0)).values()) == {0.0, 100.0}


def test_runs_are_compared_on_the_same_truth_alone() -> None:
    rows = drawn()
    worse = replace(rows, probability=np.full(rows.probability.shape, 0.4))
    runs = [Run("good", 0, scores_of(rows)), Run("flat", 0, scores_of(worse), role="baseline")]
    assert "micro F1" in compare_runs(runs, reference="good").to_markdown()
    other = Run("other", 0, scores_of(replace(rows, true=1 - rows.true)))
    with pytest.raises(DataError, match="have other true labels for text 0"):
        compare_runs([runs[0], other], reference="good")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"probability": [[0.5, 2.0, 0.0, 0.0]] * 80}, r"2.0 for the label 'b'"),
        ({"probability": [[0.5, np.nan, 0.0, 0.0]] * 80}, r"nan for the label 'b'"),
        ({"true": [[0, 0, 7, 0]] * 80}, r"7 for the label 'c'"),
        ({"example_id": [3] * 80}, "text 3 occurs more than once"),
        ({"names": ("a", "a", "b", "c")}, "Give each label a name of its own"),
        ({"probability": [[0.5]] * 80}, "a row a text and a column a label"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises((DataError, ConfigurationError), match=words):
        replace(drawn(), **change)


def test_parts_are_put_together_where_they_share_the_names() -> None:
    rows = drawn()
    halves = [rows.select(np.arange(40, 80)), rows.select(np.arange(40))]
    assert MultiLabelPredictions.concatenate(halves).sorted().true.tolist() == rows.true.tolist()
    with pytest.raises(ConfigurationError, match="all with the same names"):
        MultiLabelPredictions.concatenate([halves[0], replace(halves[1], names=("e", "b", "c", "d"))])
