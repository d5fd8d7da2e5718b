"""Whole sets in reports and comparisons: by hand, with repeated and new items apart, and what was proposed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import (
    EvaluationSettings,
    Report,
    Run,
    Scores,
    SetPredictions,
    compare_runs,
    evaluate_scores,
)
from contextual_bert.runs.run_directory import load_scores, save_scores

FAST = EvaluationSettings(ks=(1, 5), set_ks=(2,), num_resamples=200, min_cell_clusters=1, min_segment_clusters=1)
# Customer 0 has bought item 4 twice; 1 has bought nothing of what comes; the history of 2 is not known.
EXAMPLES, POSITIONS = [5, 5, 6, 7], [0, 2, 0, 0]
BETTER = np.array([1, 7, 0, 3])


def predictions(**changes: object) -> SetPredictions:
    columns = {
        "set_size": [3, 3, 1, 1],  # of set 5 one item is not in the vocabulary
        "times_before": [2, 0, 0, -1],
        "list_id": [7, 5, 6],
        "lists": [[3, 0], [3, 1], [0, -1]],
        "item_counts": [6, 1, 0, 1],
    }
    return SetPredictions(EXAMPLES, POSITIONS, **{**columns, **changes})  # type: ignore[arg-type]


def scores_of(better: np.ndarray = BETTER, **changes: object) -> Scores:
    return Scores(
        EXAMPLES, POSITIONS, -1.0 - better, better, np.ones(4), np.full(4, 0.2), predictions=predictions(**changes)
    )


def test_a_report_by_hand() -> None:
    found = evaluate_scores(scores_of(), num_items=9, settings=FAST)
    values = {key: interval.value for key, interval in found.metrics.items()}
    ideal = 1 + 1 / np.log2(3) + 1 / 2
    # Found within two: of set 5 the first of three items, at the second place; set 6; nothing of set 7.
    assert values["set_recall_at_2_percent"] == pytest.approx(100 * (1 / 3 + 1 + 0) / 3)
    assert values["set_ndcg_at_2_percent"] == pytest.approx(100 * (1 / np.log2(3) / ideal + 1 + 0) / 3)
    assert values["set_hit_rate_at_2_percent"] == pytest.approx(100 * 2 / 3)
    assert values["set_map_at_2_percent"] == pytest.approx(100 * (1 / 2 / 2 + 1 + 0) / 3)
    # Set 5 alone repeats one; its two others, of which one is unknown, and that of set 6 are new.
    assert values["repeated_recall_at_2_percent"] == 100.0
    assert values["new_recall_at_2_percent"] == pytest.approx(100 * (0 + 1) / 2)
    assert values["new_hit_rate_at_2_percent"] == pytest.approx(50.0)
    # Shares of 12 = 8 + 4 counts: 7, 2, 1 and 2.
    bits = -np.log2(np.array([7, 2, 1, 2]) / 12)
    expected = np.mean([(bits[3] + bits[0]) / 2, (bits[3] + bits[1]) / 2, bits[0]])
    assert values["novelty_at_2_bits"] == pytest.approx(expected)
    assert values["coverage_at_2_percent"] == 75.0
    assert values["recall_at_1_percent"] == 25.0
    assert found.main == "set_ndcg_at_2_percent"
    assert found.num_sets == 3


def test_the_words_of_a_report() -> None:
    found = evaluate_scores(scores_of(), num_items=9, settings=FAST, segments={"size": ["a", "a", "b", "b"]})
    told = found.to_markdown()
    for heading in (
        "| set recall@2 (%) |",
        "| NDCG@2 (%) |",
        "| PHR@2 of new items (%) |",
        "| coverage@2 (%) | 75.00 |",
    ):
        assert heading in told
    assert "a whole set or the last item of a sequence, is ranked at once" in told
    assert "Repeated items are those of the customer's history" in told
    segments = {each.value: each.metrics for each in found.segments}
    assert segments["b"]["set_recall_at_2_percent"].value == 50.0
    assert "new_recall_at_2_percent" not in segments["b"]
    assert Report.from_json(found.to_json()).metrics["set_map_at_2_percent"] == found.metrics["set_map_at_2_percent"]


def test_a_segment_that_parts_a_set_has_no_set_metrics() -> None:
    found = evaluate_scores(scores_of(), num_items=9, settings=FAST, segments={"item": ["a", "b", "b", "b"]})
    assert not any("set_recall_at_2_percent" in each.metrics for each in found.segments)


def test_methods_are_compared_with_intervals_over_customers() -> None:
    better = BETTER.copy()
    better[3] = 0
    runs = [Run(name, 0, scores_of(each), [1, 1, 2, 3]) for name, each in (("none", BETTER), ("film", better))]
    found = compare_runs(runs, reference="none", settings=FAST)
    assert found.main == "set_ndcg_at_2_percent"
    difference = found.rows[1].differences["set_recall_at_2_percent"].interval
    assert difference.value == pytest.approx(100 / 3)
    assert difference.num_rows == 4  # the clusters are customers; the rows are those of the scores
    assert found.rows[0].metrics["coverage_at_2_percent"].mean == 75.0
    titles = [table.title for table in found.tables()]
    assert titles[:5] == [
        "Methods: whole sets",
        "Methods: repeated items",
        "Methods: new items",
        "Methods: proposed lists",
        "Methods: loss and ranks",
    ]


def test_runs_on_other_histories_are_not_compared() -> None:
    runs = [Run("none", 0, scores_of()), Run("film", 0, scores_of(times_before=[0, 0, 0, -1]))]
    with pytest.raises(DataError, match="same set or history for example 5"):
        compare_runs(runs, reference="none", settings=FAST)


def test_a_part_without_repeats_has_no_metric_of_them() -> None:
    found = evaluate_scores(scores_of(times_before=[0, 0, 0, -1]), num_items=9, settings=FAST)
    assert "repeated_recall_at_2_percent" not in found.metrics
    assert "new_recall_at_2_percent" in found.metrics


def test_without_lists_there_is_no_novelty() -> None:
    found = evaluate_scores(scores_of(list_id=[], lists=[], item_counts=[]), num_items=9, settings=FAST)
    assert not any(key.startswith(("novelty", "coverage")) for key in found.metrics)


def test_they_are_stored_put_in_order_and_joined(tmp_path: Path) -> None:
    scores = scores_of()
    shuffled = scores.select(np.array([3, 1, 0, 2]))
    save_scores(shuffled, None, tmp_path / "scores.safetensors")
    loaded, _ = load_scores(tmp_path / "scores.safetensors")
    parts = [loaded.select(np.array([2, 3])), loaded.select(np.array([0])), loaded.select(np.array([1]))]
    joined = Scores.concatenate(parts).unique()
    for found in (loaded.sorted(), joined):
        report = evaluate_scores(found, num_items=9, settings=FAST)
        assert report.metrics == evaluate_scores(scores, num_items=9, settings=FAST).metrics


def test_a_sampler_that_repeats_a_set_changes_nothing() -> None:
    scores = scores_of()
    twice = Scores.concatenate([scores, scores.select(np.array([0, 1]))]).unique()
    assert evaluate_scores(twice, settings=FAST).metrics == evaluate_scores(scores, settings=FAST).metrics


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"times_before": [-2, 0, 0, 0]}, "times_before"),
        ({"lists": [[9, 0], [3, 1], [0, -1]]}, "lists hold -1 to 9"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(DataError, match=match):
        predictions(**changes)


def test_a_list_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one list a set"):
        replace(predictions(), list_id=[5, 5, 6])


def test_a_set_has_no_more_rows_than_items() -> None:
    with pytest.raises(DataError, match="set_size"):
        evaluate_scores(scores_of(set_size=[1, 1, 1, 1]), settings=FAST)
