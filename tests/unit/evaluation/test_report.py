"""One evaluation: intervals, segments, calibration, and how they are written."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import (
    EvaluationSettings,
    Provenance,
    Report,
    Scores,
    bootstrap,
    cluster_interval,
    evaluate_scores,
)
from contextual_bert.evaluation.intervals import bounded
from contextual_bert.evaluation.tables import Table

FAST = EvaluationSettings(ks=(1, 5), num_resamples=200, min_cell_clusters=1)


def draw(num_sets: int, *, seed: int = 0, size: int = 3) -> Scores:
    generator = np.random.default_rng(seed)
    rows = num_sets * size
    return Scores(
        np.repeat(np.arange(num_sets), size),
        np.tile(np.arange(size), num_sets),
        -generator.exponential(2, rows),
        generator.integers(0, 10, rows),
        np.ones(rows, dtype=int),
        generator.uniform(0.01, 0.6, rows),
    )


@pytest.fixture(scope="module")
def report() -> Report:
    scores = draw(120)
    ages = np.where(scores.example_id < 60, 9, 30)
    brands = [("x", "y") if each % 2 else ["x"] for each in scores.example_id.tolist()]
    country = np.array([None if each > 117 else "de" for each in scores.example_id.tolist()], dtype=object)
    return evaluate_scores(
        scores,
        clusters=scores.example_id // 2,
        segments={"age": ages, "brands": brands, "country": country},
        cold_customers=scores.example_id >= 80,
        num_items=10,
        settings=EvaluationSettings(ks=(1, 5, 20), num_resamples=200, min_cell_clusters=1),
        provenance=Provenance("1f3a", "c0ffee", (0,), "2 cores", "studies/table1.py:none()"),
    )


def test_metrics_are_the_bootstrap_of_the_rows(report):
    scores = draw(120)
    assert report.metrics["cross_entropy_nats"] == bootstrap(
        -scores.log_probability, scores.example_id // 2, num_resamples=200
    )
    assert list(report.metrics) == [
        "cross_entropy_nats",
        "recall_at_1_percent",
        "recall_at_5_percent",
        "mean_reciprocal_rank",
        "expected_calibration_error",
    ]
    assert (report.num_rows, report.num_sets, report.num_clusters) == (360, 120, 60)
    error = report.metrics["expected_calibration_error"]
    assert 0 <= error.low <= error.value <= error.high


def test_bins_stand_in_the_order_of_their_numbers():
    bins = np.array(["100 and above", "(missing)", "20 to below 100", "below 3", "3 to below 20", "red"])
    found = evaluate_scores(draw(6, size=1), segments={"age": bins}, settings=FAST).segments
    assert [segment.value for segment in found] == [
        "below 3",
        "3 to below 20",
        "20 to below 100",
        "100 and above",
        "red",
        "(missing)",
    ]


def test_segments_count_every_row_under_each_of_its_values(report):
    found = {segment.name: segment for segment in report.segments}
    assert list(found) == [
        "age = 9",
        "age = 30",
        "brands = x",
        "brands = y",
        "country = de",
        "country = (missing)",
        "customer in training = no (cold)",
        "customer in training = yes",
    ]
    assert (found["brands = x"].num_rows, found["brands = y"].num_rows) == (360, 180)
    assert found["customer in training = no (cold)"].num_clusters == 20
    loss = -draw(120).log_probability
    assert found["age = 9"].metrics["cross_entropy_nats"].value == pytest.approx(loss[:180].mean())
    assert [name for name, segment in found.items() if segment.is_small] == [
        "country = (missing)",
        "customer in training = no (cold)",
    ]
    assert not report.worst.is_small
    eligible = [segment for segment in report.segments if not segment.is_small]
    assert report.worst.metrics["cross_entropy_nats"].value == max(
        each.metrics["cross_entropy_nats"].value for each in eligible
    )


def test_bins_partition_the_rows_and_give_the_error(report):
    bins = report.calibration.bins
    assert sum(each.num_rows for each in bins) == 360
    gaps = sum(each.num_rows * abs(each.accuracy.value - each.confidence) for each in bins) / 360
    assert gaps == pytest.approx(report.metrics["expected_calibration_error"].value)


def test_the_error_of_calibrated_probabilities_is_what_chance_shows():
    generator, errors, chances = np.random.default_rng(0), [], []
    for _ in range(40):
        confidence = generator.uniform(0, 1, 1000)
        is_right = generator.uniform(size=1000) < confidence
        scores = Scores(np.arange(1000), [0] * 1000, [-1.0] * 1000, (~is_right).astype(int), [1] * 1000, confidence)
        report = evaluate_scores(scores, settings=FAST)
        errors.append(report.calibration.error.value)
        chances.append(report.calibration.chance_error)
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.08)


@pytest.mark.parametrize(("confidence", "share"), [(0.95, 0.5), (0.1, 0.5), (0.04, 0.0), (0.9, 1.0)])
def test_what_chance_shows_is_that_of_calibrated_answers_whatever_comes_true(confidence, share):
    """Against 400 simulated draws that come true as often as said."""
    size, generator = 1000, np.random.default_rng(0)
    is_right = np.arange(size) < share * size
    scores = Scores(
        np.arange(size), [0] * size, [-1.0] * size, (~is_right).astype(int), [1] * size, [confidence] * size
    )
    simulated = np.abs(generator.binomial(size, confidence, 400) / size - confidence).mean()
    assert evaluate_scores(scores, settings=FAST).calibration.chance_error == pytest.approx(simulated, rel=0.08)


def test_none_and_all_of_few_customers_are_no_certainty():
    scores = Scores(np.arange(30), [0] * 30, [-1.0] * 30, [3] * 30, [1] * 30, [0.5] * 30)
    found = evaluate_scores(scores, segments={"country": ["de"] * 30}, num_items=9, settings=FAST)
    recalls = [found.metrics["recall_at_1_percent"], found.metrics["recall_at_5_percent"]]
    assert [(each.low, each.high) for each in recalls] == [
        (0.0, pytest.approx(11.57, abs=0.01)),
        (pytest.approx(88.43, abs=0.01), 100.0),
    ]
    assert found.metrics["recall_at_1_percent"] == found.segments[0].metrics["recall_at_1_percent"]
    loss = evaluate_scores(scores.select(np.arange(2)), segments={"a": ["x", "x"]}, settings=FAST).segments[0]
    assert loss.metrics["cross_entropy_nats"].low >= 0


def test_a_value_called_nan_is_no_number_among_numbers():
    values = ["10", "nan", "1", "2", "3"]
    scores = draw(5, size=1)
    found = evaluate_scores(scores, segments={"a": values}, settings=FAST).segments
    assert [each.value for each in found] == ["1", "2", "3", "10", "nan"]


def test_rows_in_any_order_give_the_same_report():
    scores = draw(60)
    order = np.random.default_rng(9).permutation(len(scores))
    labels = scores.example_id % 3
    one = evaluate_scores(scores, clusters=scores.example_id // 2, segments={"a": labels}, settings=FAST)
    two = evaluate_scores(
        scores.select(order), clusters=(scores.example_id // 2)[order], segments={"a": labels[order]}, settings=FAST
    )
    assert one.to_json() == two.to_json()


def test_json_has_units_in_its_keys_and_comes_back(report):
    raw = json.loads(report.to_json())
    assert set(raw["metrics"]["recall_at_1_percent"]) == {
        "value",
        "low",
        "high",
        "standard_error",
        "num_rows",
        "num_clusters",
    }
    assert Report.from_json(report.to_json()) == report
    lonely = evaluate_scores(draw(3), clusters=["ann"] * 9, settings=FAST)
    assert json.loads(lonely.to_json())["metrics"]["cross_entropy_nats"]["low"] is None
    assert math.isnan(Report.from_json(lonely.to_json()).metrics["cross_entropy_nats"].low)
    assert Report.from_json(lonely.to_json()).to_markdown() == lonely.to_markdown()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"metrics": 3}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(DataError, match=r"not the JSON of a Report.*to_json"):
        Report.from_json(text)


def test_markdown_golden():
    scores = Scores([0, 0, 1, 1], [0, 1, 0, 1], np.log([0.5, 0.25, 0.5, 0.25]), [0, 3, 0, 3], [1] * 4, [0.5] * 4)
    report = evaluate_scores(
        scores,
        clusters=["ann", "ann", "bob", "bob"],
        segments={"a|b": ["u", "v", "u", "v"]},
        num_items=20,
        settings=EvaluationSettings(ks=(1, 5, 250), num_resamples=100, min_segment_clusters=2, min_cell_clusters=1),
        provenance=Provenance(data_digest="1f3a", seeds=(0,)),
    )
    assert report.to_markdown() == GOLDEN


GOLDEN = """## Evaluation: 4 masked positions of 2 sets, 2 customers

**Metrics**

| metric | value [95% interval] |
| :-- | --: |
| CE (nats) | 1.0397 [1.0397, 1.0397] |
| recall@1 (%) | 50.00 [50.00, 50.00] |
| recall@5 (%) | 100.00 [15.81, 100.00] |
| MRR | 0.6250 [0.6250, 0.6250] |
| ECE | 0.0000 [0.0000, 0.0000] |

**Segments**

| feature | value | n | customers | CE (nats) | recall@1 (%) |
| :-- | :-- | --: | --: | --: | --: |
| a\\|b | u | 2 | 2 | 0.6931 [0.6931, 0.6931] | 100.00 [15.81, 100.00] |
| a\\|b | v | 2 | 2 | 1.3863 [1.3863, 1.3863] | 0.00 [0.00, 84.19] |

- CE: cross-entropy of the masked item in nats, lower is better. Recall@k (hit rate): percent of rows whose \
true item is among the first k of all 20 items, higher is better. Ties get their expected rank.
- Left out: recall@250. With 20 items it is 100% for every model.
- Brackets: 95% interval from a bootstrap over 2 customers (100 resamples, seed 0). Segments have its \
closed form.
- ECE: expected calibration error of the best answer over 15 equal bins, 0 to 1. By chance alone, perfectly calibrated \
probabilities would show about 0.0000.
- Few customers (2): the intervals are too narrow or unknown.
- Segments marked * have fewer than 2 customers (0 of 2) and are never called the worst. Worst segment: a|b = v, \
CE 1.3863 [1.3863, 1.3863] nats, n = 2. The worst of many looks worse than it is.
- Data 1f3a; commit not recorded; seeds 0; hardware not recorded; recipe not recorded.
"""


def test_the_terminal_says_the_same_and_cuts_nothing_off(report):
    for width in (60, 80, 200):
        console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
        console.print(report.to_rich())
        text = console.export_text()
        cross_entropy = report.metrics["cross_entropy_nats"]
        assert f"{cross_entropy.value:.4f} [{cross_entropy.low:.4f}, {cross_entropy.high:.4f}]" in text
        assert "studies/table1.py:none()" in text
        for segment in report.segments:
            assert f"{segment.metrics['recall_at_1_percent'].value:.2f} [" in text
        assert "…" not in text


def test_a_long_list_of_segments_shows_the_worst_first(report):
    text = report.to_markdown(num_segments=2)
    assert "Segments: the worst 2 of 8" in text
    assert (
        text.count("| age |") + text.count("| brands |") + text.count("| country |") + text.count("| customer in") == 2
    )
    assert f"| {report.worst.feature} | {report.worst.value} |" in text
    assert "**Segments" not in report.to_markdown(num_segments=0)


def test_without_customers_each_set_is_a_cluster():
    report = evaluate_scores(draw(40), settings=FAST)
    assert report.num_clusters == 40
    assert "bootstrap over 40 sets" in report.to_markdown()


def test_labels_that_do_not_fit_are_refused():
    scores = draw(4)
    with pytest.raises(ConfigurationError, match="clusters has 2 labels for 12 rows"):
        evaluate_scores(scores, clusters=["a", "b"], settings=FAST)
    with pytest.raises(ConfigurationError, match=r"segments\['age'\] has 2 labels for 12 rows"):
        evaluate_scores(scores, segments={"age": [1, 2]}, settings=FAST)
    with pytest.raises(ConfigurationError, match="cold_customers holds int64 of shape"):
        evaluate_scores(scores, cold_customers=[1] * 12, settings=FAST)
    with pytest.raises(ConfigurationError, match="cold_customers holds bool of shape"):
        evaluate_scores(scores, cold_customers=[True] * 2, settings=FAST)
    with pytest.raises(DataError, match="column 'clusters': no customer"):
        evaluate_scores(scores, clusters=[None] * 12, settings=FAST)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": (0,)}, "whole number"),
        ({"level": 1.0}, "between 0 and 1"),
        ({"num_resamples": 1}, "at least 100"),
        ({"num_bins": 0}, "num_bins=0 is not allowed. Give 1 or more"),
        ({"min_segment_clusters": 0}, "Give 1 or more"),
        ({"min_cell_clusters": 0}, "Give 1 or more"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_made(options, message):
    with pytest.raises(ConfigurationError, match=message):
        EvaluationSettings(**options)


def test_a_table_needs_a_cell_for_each_column():
    with pytest.raises(ConfigurationError, match="2 cells"):
        Table("t", ("a", "b"), (("1",),))


def test_thousands_of_segments_are_those_of_one_by_one() -> None:
    generator = np.random.default_rng(0)
    size = 3000
    nats, clusters = generator.exponential(size=size), generator.integers(0, 400, size)
    better = generator.integers(0, 3, size)
    scores = Scores(np.arange(size), np.zeros(size), -nats, better, np.ones(size), np.exp(-nats))
    codes = generator.integers(0, 900, size)
    tags = [[f"t{number}" for number in generator.integers(0, 5, 2)] for _ in range(size)]
    report = evaluate_scores(
        scores,
        clusters=clusters,
        segments={"postcode": codes, "tag": tags},
        settings=EvaluationSettings(min_cell_clusters=1),
    )
    assert len(report.segments) == len(np.unique(codes)) + 5
    for segment in report.segments:
        rows = (
            codes == int(segment.value)
            if segment.feature == "postcode"
            else np.array([segment.value in each for each in tags])
        )
        for found, values, highest in (
            (segment.metrics["cross_entropy_nats"], nats, math.inf),
            (segment.metrics["recall_at_1_percent"], 100.0 * (better == 0), 100.0),
        ):
            alone = bounded(cluster_interval(values[rows], clusters[rows]), within=(0.0, highest))
            assert (found.num_rows, found.num_clusters) == (alone.num_rows, alone.num_clusters)
            wanted = [alone.value, alone.low, alone.high, alone.standard_error]
            np.testing.assert_allclose(
                [found.value, found.low, found.high, found.standard_error], wanted, rtol=1e-9, atol=1e-9
            )
    assert [row[0] for row in report.segment_table().rows] == ["tag"] * 5, "small segments of a feature of many values"
    assert f"The full table leaves out {len(np.unique(codes)):,} of them" in report.segment_note()


def test_values_of_fewer_than_ten_customers_are_shown_together_or_not_at_all() -> None:
    generator = np.random.default_rng(0)
    size = 600
    nats, clusters = generator.exponential(size=size), np.repeat(np.arange(60), 10)
    scores = Scores(np.arange(size), np.zeros(size), -nats, np.zeros(size), np.ones(size), np.exp(-nats))
    names = {number: f"village {number // 3}" for number in range(15)}  # five villages of three customers
    towns = np.array([names.get(each, f"town {each % 2}") for each in clusters.tolist()])
    lists = [["all", "only me"] if each == 7 else ["all"] for each in clusters.tolist()]
    report = evaluate_scores(scores, clusters=clusters, segments={"town": towns, "tag": lists})
    assert [(each.value, each.num_clusters) for each in report.segments] == [
        ("town 0", 22),
        ("town 1", 23),
        ("(fewer than 10 customers)", 15),
        ("all", 60),
    ]
    assert report.num_suppressed == 6
    note = "6 values of fewer than 10 customers are shown together, or left out where all of them have fewer together."
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(report.to_rich())
    for text in (report.to_json(), report.to_markdown(), console.export_text()):
        assert "village" not in text and "only me" not in text
    assert note in report.to_markdown()
    assert Report.from_json(report.to_json()) == report
    few = {"town": np.where(clusters < 3, "here", "there")}
    assert [each.value for each in evaluate_scores(scores, clusters=clusters, segments=few).segments] == ["there"]
    assert evaluate_scores(scores, clusters=clusters // 10, segments=few).segments == ()
