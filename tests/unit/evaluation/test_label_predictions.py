"""Metrics of labelled texts and words: against numbers by hand, scikit-learn and seqeval."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from seqeval.metrics import classification_report, precision_score, recall_score
from seqeval.metrics import f1_score as entity_f1
from sklearn.metrics import f1_score, precision_recall_fscore_support

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import (
    EvaluationSettings,
    LabelPredictions,
    Provenance,
    Report,
    Run,
    Scores,
    class_scores,
    compare_runs,
    evaluate_scores,
    has_grades,
    has_tags,
)
from contextual_bert.evaluation.metrics import PREDICTION_METRICS
from tests.unit.evaluation.flat import flat_scores

FAST = EvaluationSettings(
    ks=(1,), num_resamples=200, min_cell_clusters=1, row_name="label", set_name="text", choice_name="label"
)
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "S-LOC", "E-PER")
STARS = ("1", "2", "3.5", "4", "5")


def random_rows(
    names: tuple[str, ...], *, seed: int, num_texts: int = 60, share_right: float = 0.6
) -> LabelPredictions:
    """Texts of one to nine words in order; one word a text where the labels are no tags."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 10, num_texts) if has_tags(names) else np.ones(num_texts, dtype=int)
    true = np.random.default_rng(0).integers(0, len(names), 9 * num_texts)[: lengths.sum()]
    other = generator.integers(0, len(names), len(true))
    return LabelPredictions(
        np.repeat(np.arange(num_texts), lengths),
        np.concatenate([np.arange(length) for length in lengths]),
        np.where(generator.random(len(true)) < share_right, true, other),
        true,
        names,
    )


def values(rows: LabelPredictions) -> dict[str, float]:
    metrics = evaluate_scores(flat_scores(rows), settings=FAST).metrics
    return {key: metrics[key].value for key in metrics if key in PREDICTION_METRICS}


def sentences(rows: LabelPredictions, column: str) -> list[list[str]]:
    ids = getattr(rows, column)
    return [[rows.names[label] for label in ids[rows.example_id == text]] for text in np.unique(rows.example_id)]


def test_grades_by_hand():
    rows = LabelPredictions([4, 5, 6, 7], [0] * 4, predicted=[0, 1, 2, 4], true=[0, 2, 2, 0], names=STARS)
    found = values(rows)
    assert list(found) == ["accuracy_percent", "macro_f1_percent", "mean_absolute_error", "root_mean_squared_error"]
    assert found["accuracy_percent"] == 50.0
    # Errors of 0, 1.5, 0 and 4 stars.
    assert found["root_mean_squared_error"] == pytest.approx(((1.5**2 + 4**2) / 4) ** 0.5)


def test_the_error_of_grades_is_not_averaged_over_batches():
    rows = random_rows(STARS, seed=3)
    halves = [rows.select(np.arange(0, 20)), rows.select(np.arange(20, 60))]
    averaged = np.mean([values(half)["root_mean_squared_error"] for half in halves])
    exact = values(rows)["root_mean_squared_error"]
    grades = np.array([float(name) for name in STARS])
    assert exact == pytest.approx(np.sqrt(np.mean((grades[rows.predicted] - grades[rows.true]) ** 2)), rel=1e-14)
    assert abs(averaged - exact) > 1e-3


@pytest.mark.parametrize("names", [STARS, ("negative", "neutral", "positive", "never"), TAGS])
def test_macro_f1_is_that_of_scikit_learn(names):
    rows = random_rows(names, seed=1)
    if "never" in names:  # a class without rows is left out of the mean, one that is only predicted is not
        rows = rows.select((rows.true != 3) & (rows.predicted != 3) & (rows.true != 0))
    expected = 100 * f1_score(rows.true, rows.predicted, average="macro")
    assert values(rows)["macro_f1_percent"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("names", [TAGS, ("B", "I", "O"), ("B-PER", "I-PER", "I-LOC")])
def test_entities_are_those_of_seqeval(names, seed):
    rows = random_rows(names, seed=seed)
    true, predicted = sentences(rows, "true"), sentences(rows, "predicted")
    # Words in another order than in the text are put in order first.
    found = values(rows.select(np.random.default_rng(seed).permutation(len(rows))))
    assert found["entity_precision_percent"] == pytest.approx(100 * precision_score(true, predicted), rel=1e-12)
    assert found["entity_recall_percent"] == pytest.approx(100 * recall_score(true, predicted), rel=1e-12)
    assert found["entity_f1_percent"] == pytest.approx(100 * entity_f1(true, predicted), rel=1e-12)
    assert 5 < found["entity_f1_percent"] < 95


@pytest.mark.parametrize("names", [TAGS, ("B", "I", "O"), ("B-PER", "I-PER", "I-LOC")])
def test_each_type_of_entities_is_that_of_seqeval(names):
    rows = random_rows(names, seed=2)
    expected = classification_report(sentences(rows, "true"), sentences(rows, "predicted"), output_dict=True)
    found = class_scores(rows.select(np.random.default_rng(0).permutation(len(rows))))
    types = {name: value for name, value in expected.items() if not name.endswith(" avg")}
    assert {each.name for each in found} == types.keys()
    for each in found:
        of_type = types[each.name]
        assert each.num_true == of_type["support"]
        assert each.precision_percent == pytest.approx(100 * of_type["precision"])
        assert each.recall_percent == pytest.approx(100 * of_type["recall"])
        assert each.f1_percent == pytest.approx(100 * of_type["f1-score"])
    assert [each.num_true for each in found] == sorted((each.num_true for each in found), reverse=True)


def test_each_label_is_that_of_scikit_learn():
    rows = random_rows(("negative", "neutral", "positive", "never"), seed=1)
    rows = rows.select((rows.true != 3) & (rows.true != 0))  # one label is only predicted, and one of those is left out
    rows = rows.select(rows.predicted != 3)
    found = class_scores(rows)
    assert [each.name for each in found] == ["negative", "neutral", "positive"]
    columns = zip(
        *precision_recall_fscore_support(rows.true, rows.predicted, labels=[0, 1, 2], zero_division=0), strict=True
    )
    for each, (precision, recall, f1, support) in zip(found, columns, strict=True):
        assert (each.precision_percent, each.recall_percent) == pytest.approx((100 * precision, 100 * recall))
        assert (each.f1_percent, each.num_true) == (pytest.approx(100 * f1), support)
    assert np.mean([each.f1_percent for each in found]) == pytest.approx(values(rows)["macro_f1_percent"])
    assert "| neutral |" in evaluate_scores(flat_scores(rows), settings=FAST).to_markdown()


def test_an_entity_ends_with_its_text():
    names = ("O", "B-PER", "I-PER")
    rows = LabelPredictions([0, 0, 1], [0, 1, 0], predicted=[0, 1, 2], true=[0, 1, 2], names=names)
    assert values(rows)["entity_f1_percent"] == 100.0
    # One text of three words has one entity of two words, and half of it is none.
    whole = LabelPredictions([0, 0, 0], [0, 1, 2], predicted=[0, 1, 0], true=[0, 1, 2], names=names)
    assert values(whole)["entity_f1_percent"] == 0.0


def test_without_entities_there_is_no_division_by_zero():
    rows = LabelPredictions([0, 1], [0, 0], predicted=[0, 0], true=[0, 0], names=("O", "B-PER"))
    found = values(rows)
    assert found["entity_f1_percent"] == found["entity_precision_percent"] == found["entity_recall_percent"] == 0.0
    assert found["accuracy_percent"] == found["macro_f1_percent"] == 100.0


@pytest.mark.parametrize("names", [TAGS, STARS])
def test_neither_the_order_of_rows_nor_splitting_changes_a_digit(names):
    rows = random_rows(names, seed=2)
    customers = rows.example_id // 3
    domains = np.where(rows.example_id % 2, "news", "tweets").tolist()
    whole = evaluate_scores(flat_scores(rows), clusters=customers, segments={"domain": domains}, settings=FAST)
    order = np.random.default_rng(0).permutation(len(rows))
    parts = [rows.select(part) for part in np.array_split(order, 7)]
    again = evaluate_scores(
        Scores.concatenate([flat_scores(part) for part in parts]),
        clusters=customers[order],
        segments={"domain": [domains[row] for row in order]},
        settings=FAST,
    )
    assert again.to_json() == whole.to_json()
    assert LabelPredictions(**rows.as_arrays(), names=names).as_arrays().keys() == rows.as_arrays().keys()
    assert np.array_equal(LabelPredictions.concatenate(parts).sorted().predicted, rows.predicted)


@pytest.mark.parametrize("names", [TAGS, STARS])
def test_a_group_has_the_metrics_of_its_rows_alone(names):
    rows = random_rows(names, seed=4)
    domains = np.where(rows.example_id % 3 == 0, "news", "tweets").tolist()
    report = evaluate_scores(flat_scores(rows), segments={"domain": domains}, settings=FAST)
    assert [segment.name for segment in report.segments] == ["domain = news", "domain = tweets"]
    for segment, chosen in zip(report.segments, (rows.example_id % 3 == 0, rows.example_id % 3 != 0), strict=True):
        assert segment.num_rows == chosen.sum()
        expected = values(rows.select(chosen))
        assert {key: segment.metrics[key].value for key in expected} == expected


def test_intervals_are_those_of_the_metric_in_each_resample():
    rows = random_rows(STARS, seed=5, num_texts=40)
    customers = rows.example_id // 2
    report = evaluate_scores(flat_scores(rows), clusters=customers, settings=FAST)
    found = {key: interval for key, interval in report.metrics.items() if key in PREDICTION_METRICS}
    generator = np.random.default_rng(FAST.seed)
    resampled: dict[str, list[float]] = {key: [] for key in found}
    for drawn in generator.integers(0, 20, size=(FAST.num_resamples, 20)):
        chosen = np.concatenate([np.flatnonzero(customers == customer) for customer in drawn])
        true, predicted = rows.true[chosen], rows.predicted[chosen]
        grades = np.array([float(name) for name in STARS])
        resampled["accuracy_percent"].append(100 * float(np.mean(true == predicted)))
        resampled["macro_f1_percent"].append(100 * f1_score(true, predicted, average="macro"))
        resampled["mean_absolute_error"].append(float(np.mean(np.abs(grades[true] - grades[predicted]))))
        error = np.sqrt(np.mean((grades[true] - grades[predicted]) ** 2))
        resampled["root_mean_squared_error"].append(float(error))
    for key, interval in found.items():
        expected = np.quantile(resampled[key], [0.025, 0.975])
        assert (interval.low, interval.high) == pytest.approx(expected, rel=1e-9)
        assert interval.num_clusters == 20


@pytest.mark.parametrize(
    "names",
    [("01", "1", "001"), ("1152921504606846976", "1152921504606846977"), ("1", "9" * 400)],
    ids=["codes", "long", "beyond floats"],
)
def test_labels_that_are_one_number_or_none_have_no_distance(names):
    found = values(random_rows(names, seed=3))
    assert not {"mean_absolute_error", "root_mean_squared_error"} & set(found)
    assert found["accuracy_percent"] < 100


def test_the_names_say_what_the_labels_are():
    assert has_grades(STARS) and has_grades(["-1", "+1"])
    assert not any(has_grades(names) for names in (["nan", "1"], ["1", ""], ["1 star", "2 stars"], ["1e5"]))
    assert has_tags(TAGS) and has_tags(["B", "I", "O"]) and has_tags(["S-LOC"])
    assert not any(has_tags(names) for names in (["good", "O"], ["B", "S"], ["NOUN", "VERB"], STARS))


def test_a_report_is_read_back_and_shown(tmp_path):
    rows = random_rows(TAGS, seed=6)
    report = evaluate_scores(
        flat_scores(rows),
        clusters=rows.example_id // 4,
        segments={"domain": [None if text % 2 else "news" for text in rows.example_id.tolist()]},
        settings=FAST,
        provenance=Provenance("1f3a"),
    )
    again = Report.from_json(report.to_json())
    assert again == report
    text = again.to_markdown()
    f1 = report.metrics["entity_f1_percent"]
    assert f"| entity F1 (%) | {f1.value:.2f} [{f1.low:.2f}, {f1.high:.2f}] |" in text
    assert f"## Evaluation: {len(rows)} labels of 60 texts, 15 customers" in text
    assert [table.title for table in again.tables()] == ["Metrics", "By type of entities", "Segments"]
    first = report.classes[0]
    assert f"| {first.name} | {first.num_true} | {first.precision_percent:.2f} |" in text
    assert "| domain | (missing) * |" in text and "read as seqeval does" in text
    assert "Few customers (15)" in text and "Data 1f3a" in text
    with (tmp_path / "out.txt").open("w") as sink:
        console = Console(width=90, record=True, file=sink)
        console.print(report.to_rich())
    assert f"{report.segments[0].metrics['entity_f1_percent'].value:.2f}" in console.export_text()


def test_faulty_rows_are_named():
    good = {"example_id": [3, 3, 4], "position": [0, 1, 0], "predicted": [0, 1, 1], "true": [0, 1, 0], "names": "ab"}
    assert LabelPredictions(**good).names == ("a", "b")
    with pytest.raises(ConfigurationError, match=r"different lengths: .*'true': 2"):
        LabelPredictions(**{**good, "true": [0, 1]})
    with pytest.raises(DataError, match=r"row 2, column 'true': -100 \(1 such row\), but it must be between 0 and 1"):
        LabelPredictions(**{**good, "true": [0, -100, 1]})
    with pytest.raises(DataError, match="row 3, column 'predicted': 2 "):
        LabelPredictions(**{**good, "predicted": [0, 1, 2]})
    with pytest.raises(DataError, match="row 3: example 3, position 1 occurs more than once"):
        LabelPredictions(**{**good, "example_id": [3, 3, 3], "position": [0, 1, 1]})
    with pytest.raises(ConfigurationError, match="a name of its own"):
        LabelPredictions(**{**good, "names": "aa"})
    with pytest.raises(ConfigurationError, match=r"LabelPredictions\.position has shape \(3, 1\)"):
        LabelPredictions(**{**good, "position": [[0], [1], [0]]})
    with pytest.raises(ConfigurationError, match="all with the same names"):
        LabelPredictions.concatenate([LabelPredictions(**good), LabelPredictions(**{**good, "names": "xy"})])
    with pytest.raises(ConfigurationError, match="0 parts"):
        LabelPredictions.concatenate([])


def test_what_cannot_be_evaluated_is_refused():
    scores = flat_scores(random_rows(TAGS, seed=0))
    with pytest.raises(ConfigurationError, match="clusters has 2 labels for"):
        evaluate_scores(scores, clusters=["a", "b"])
    with pytest.raises(ConfigurationError, match=r"segments\['domain'\] has 1 labels"):
        evaluate_scores(scores, segments={"domain": ["news"]})
    split = np.arange(len(scores)).tolist()
    with pytest.raises(DataError, match=r"column 'clusters': the rows of example \d+ do not have the same value"):
        evaluate_scores(scores, clusters=split)
    with pytest.raises(DataError, match="column 'word': the rows of a text"):
        compare_runs([Run("none", 0, scores)], reference="none", groups={"word": split})


def test_entities_have_no_score_where_a_text_is_in_several_segments():
    rows = random_rows(TAGS, seed=0)
    labels = np.array(TAGS)[rows.true].tolist()
    report = evaluate_scores(flat_scores(rows), segments={"true label": labels}, settings=FAST)
    for segment in report.segments:
        assert "entity_f1_percent" not in segment.metrics and "cross_entropy_nats" in segment.metrics
    first = report.segments[0]
    assert f"| true label | {first.value}{' *' if first.is_small else ''} | {first.num_rows} " in report.to_markdown()


def test_rows_are_called_what_they_are_without_settings():
    scores = flat_scores(random_rows(STARS, seed=0))
    report = evaluate_scores(scores)
    assert "## Evaluation: 60 labels of 60 texts\n" in report.to_markdown()
    assert [key for key in report.metrics if key.startswith("recall")] == ["recall_at_1_percent"]
    assert (
        "## Comparison on 60 labels of 60 texts\n"
        in compare_runs([Run("none", 0, scores)], reference="none").to_markdown()
    )
    without = replace(scores, predictions=None)
    assert "## Evaluation: 60 masked positions of 60 sets\n" in evaluate_scores(without).to_markdown()


def test_a_segment_of_one_class_has_no_mean_over_classes():
    rows = random_rows(STARS, seed=0)
    labels = np.array(STARS)[rows.true].tolist()
    report = evaluate_scores(flat_scores(rows), segments={"true label": labels}, settings=FAST)
    assert all("macro_f1_percent" not in segment.metrics for segment in report.segments)
    assert all("accuracy_percent" in segment.metrics for segment in report.segments)


def test_scores_keep_their_predictions():
    rows = random_rows(TAGS, seed=3)
    scores = flat_scores(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    again = Scores.concatenate([scores.select(part) for part in np.array_split(order, 3)]).sorted()
    assert isinstance(again.predictions, LabelPredictions)
    assert np.array_equal(again.predictions.predicted, rows.predicted)
    with pytest.raises(DataError, match="predictions are not of the scored rows"):
        replace(scores, predictions=rows.select(order))
    without = replace(scores, predictions=None)
    with pytest.raises(ConfigurationError, match="different kinds"):
        Scores.concatenate([scores, without])


def test_words_without_tags_may_be_grouped_one_by_one():
    rows = LabelPredictions([0, 0], [0, 1], predicted=[0, 1], true=[0, 0], names=("NOUN", "VERB"))
    report = evaluate_scores(
        flat_scores(rows), clusters=["ann", "ann"], segments={"seen": ["yes", "no"]}, settings=FAST
    )
    found = [segment.metrics["accuracy_percent"].value for segment in report.segments]
    assert sorted(found) == [0.0, 100.0]


def test_entities_say_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics.sequence_labeling", None)
    rows = random_rows(TAGS, seed=0)
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[text\]'"):
        class_scores(rows)
    assert values(random_rows(STARS, seed=0))["accuracy_percent"] > 0


def test_without_seqeval_tags_have_ranks_alone_and_reports_say_so(monkeypatch):
    monkeypatch.setattr("contextual_bert.evaluation.measures.can_measure", lambda _: False)
    scores = flat_scores(random_rows(TAGS, seed=0))
    report = evaluate_scores(scores, settings=FAST)
    compared = compare_runs([Run("none", 0, scores)], reference="none", settings=FAST)
    assert report.main == compared.main == "cross_entropy_nats"
    assert "accuracy_percent" not in report.metrics
    for found in (report, compared):
        assert "entity F1 needs seqeval" in found.to_markdown()


def test_groups_of_fewer_than_ten_customers_are_shown_together() -> None:
    rows = LabelPredictions(range(120), [0] * 120, predicted=[0, 1] * 60, true=[0] * 120, names=("a", "b"))
    towns = ["village"] * 8 + ["hamlet"] * 8 + ["town"] * 104
    scores = flat_scores(rows)
    report = evaluate_scores(scores, clusters=np.arange(120), segments={"town": towns})
    assert [(each.value, each.num_rows) for each in report.segments] == [
        ("town", 104),
        ("(fewer than 10 customers)", 16),
    ]
    assert "2 values of fewer than 10 customers" in report.to_markdown()
    runs = [Run(name, 0, scores, np.arange(120)) for name in ("none", "film")]
    compared = compare_runs(runs, reference="none", groups={"town": towns})
    for text in (report.to_json(), compared.to_json(), compared.to_markdown()):
        assert "village" not in text and "hamlet" not in text
    assert "2 values of fewer than 10 customers" in compared.to_markdown()


def test_words_in_an_order_are_as_far_apart_as_their_places() -> None:
    columns = {"predicted": [0, 2, 1, 0], "true": [0, 0, 2, 1]}
    rows = LabelPredictions([0, 1, 2, 3], [0] * 4, **columns, names=("bad", "fair", "good"), is_ordinal=True)
    found = rows.metrics(rows.columns().mean(axis=0))
    assert float(found["mean_absolute_error"]) == pytest.approx((0 + 2 + 1 + 1) / 4)
    assert float(found["root_mean_squared_error"]) == pytest.approx(((0 + 4 + 1 + 1) / 4) ** 0.5)
    kept = LabelPredictions.concatenate([rows.select(np.array([2, 0])), rows.sorted().select(np.array([1]))])
    assert kept.is_ordinal
    without = LabelPredictions([0, 1, 2, 3], [0] * 4, **columns, names=("bad", "fair", "good"))
    assert "mean_absolute_error" not in without.metrics(without.columns().mean(axis=0))


def test_grades_are_as_far_apart_as_their_numbers() -> None:
    names = ("1", "1.5", "4")
    rows = LabelPredictions([0, 1], [0, 0], predicted=[0, 2], true=[1, 0], names=names, is_ordinal=True)
    found = rows.metrics(rows.columns().mean(axis=0))
    assert float(found["mean_absolute_error"]) == pytest.approx((0.5 + 3) / 2)
