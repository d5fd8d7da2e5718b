"""Exact match and F1 of answers: by hand, and against torchmetrics' SQuAD."""

from typing import Any

import numpy as np
import pytest
from torchmetrics.functional.text import squad

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import AnswerPredictions, EvaluationSettings, Run, Scores, compare_runs, evaluate_scores
from tests.unit.evaluation.flat import flat_scores

FAST = EvaluationSettings(ks=(1,), num_resamples=200, row_name="answer end", set_name="question", choice_name="place")
WORDS = ("The", "soup", "a", "soup,", "STEAK", "an", "two", "Bar's", "euro.", "salad", "\u2014", "caf\u00e9")


def random_answers(seed: int, count: int = 80) -> tuple[list[str], list[str]]:
    """Answers that share some words with the true ones."""
    numbers = np.random.default_rng(seed)
    true = [" ".join(numbers.choice(WORDS, size)) for size in numbers.integers(1, 5, count)]
    given = [
        each if numbers.random() < 0.3 else f"{each} {numbers.choice(WORDS)}" if numbers.random() < 0.5 else "two soup"
        for each in true
    ]
    return given, true


def test_the_metrics_are_those_of_squad() -> None:
    given, true = random_answers(0)
    preds = [{"prediction_text": each, "id": str(row)} for row, each in enumerate(given)]
    target: list[dict[str, Any]] = [
        {"answers": {"answer_start": [0], "text": [each]}, "id": str(row)} for row, each in enumerate(true)
    ]
    expected = squad(preds, target)
    found = evaluate_scores(flat_scores(AnswerPredictions.of_answers(range(len(true)), given, true)), settings=FAST)
    assert found.metrics["exact_match_percent"].value == pytest.approx(float(expected["exact_match"]), rel=1e-5)
    assert found.metrics["answer_f1_percent"].value == pytest.approx(float(expected["f1"]), rel=1e-5)
    assert "## Evaluation: 80 answer ends of 80 questions" in found.to_markdown()


def test_no_answer_is_right_or_wrong() -> None:
    rows = AnswerPredictions.of_answers([3, 1, 2, 0], ["", "soup", "", "soup"], ["", "", "soup", "soup"])
    assert rows.exact_match.tolist() == rows.f1.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert rows.true.tolist() == [0, 0, 1, 1]
    assert rows.sorted().f1.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert rows.sorted().example_id.tolist() == [0, 1, 2, 3]


def test_methods_are_compared_on_the_same_questions() -> None:
    given, true = random_answers(1)
    better = [right if row % 2 else own for row, (own, right) in enumerate(zip(given, true, strict=True))]
    predictions = [AnswerPredictions.of_answers(range(80), each, true) for each in (given, better)]
    clusters = np.arange(80) // 4
    runs = [Run(name, 0, flat_scores(each), clusters) for name, each in zip(("none", "film"), predictions, strict=True)]
    found = compare_runs(runs, reference="none", groups={"half": ["a", "b"] * 40}, settings=FAST)
    assert found.main == "answer_f1_percent"
    own, other = (each.f1.mean() * 100 for each in predictions)
    difference = found.rows[1].differences["answer_f1_percent"].interval
    assert difference.value == pytest.approx(other - own)
    assert difference.low > 0
    assert [table.title for table in found.tables()] == [
        "Methods",
        "Methods: loss and ranks",
        "Difference to none",
        "Difference to none: loss and ranks",
        "Answer F1 (%) by half",
    ]
    unlike = AnswerPredictions.of_answers(range(80), given, ["", *true[1:]])
    with pytest.raises(DataError, match=r"'film' .* 'no answer' is true for example 0, .* 'none' .* 'an answer'"):
        compare_runs([runs[0], Run("film", 0, flat_scores(unlike), clusters)], reference="none", settings=FAST)


def test_a_question_counts_once_however_many_windows_it_has() -> None:
    given, true = random_answers(2, count=6)
    questions = AnswerPredictions.of_answers(range(6), given, true)
    windows = np.repeat(np.arange(6), [2, 4, 2, 6, 2, 2])
    places = np.concatenate([np.arange(each) for each in (2, 4, 2, 6, 2, 2)])
    rows = len(windows)
    ranks = (np.full(rows, -1.0), np.zeros(rows), np.ones(rows), np.full(rows, 0.5))
    order = np.random.default_rng(0).permutation(rows)
    scores = Scores(windows, places, *ranks, predictions=questions).select(order)
    report = evaluate_scores(scores, segments={"half": windows[order] % 2}, settings=FAST)
    assert report.metrics["answer_f1_percent"].value == pytest.approx(100 * questions.f1.mean())
    assert report.num_rows == rows and report.num_sets == 6
    odd = compare_runs([Run("none", 0, scores)], reference="none", groups={"half": windows[order] % 2}).groups
    assert all(group.num_rows == 3 for group in odd) or odd == ()


def test_rows_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="different lengths"):
        AnswerPredictions([0, 1], [1.0], [1.0], [1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"column 'f1': 50.0 .* between 0 and 1"):
        AnswerPredictions([0], [1.0], [50.0], [1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="question 4 occurs more than once"):
        AnswerPredictions.of_answers([4, 4], ["a", "b"], ["a", "b"])
    with pytest.raises(DataError, match="there is no scored row"):
        evaluate_scores(flat_scores(AnswerPredictions.of_answers([], [], [])), settings=FAST)
