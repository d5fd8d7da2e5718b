"""Several methods on the same labels: seeds averaged, differences paired, groups, runs that do not fit."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from seqeval.metrics import f1_score

from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.evaluation import (
    Comparison,
    Cost,
    EvaluationSettings,
    LabelPredictions,
    Provenance,
    Role,
    Run,
    compare_runs,
    evaluate_scores,
    holm,
    paired_bootstrap,
)
from tests.unit.evaluation.flat import flat_scores

NAMES = {"row_name": "label", "set_name": "text", "choice_name": "label"}
FAST = EvaluationSettings(ks=(1,), num_resamples=300, min_cell_clusters=1, **NAMES)
TEXTS, LENGTH = 90, 4
TAGS = ("O", "B-PER", "I-PER")
EXAMPLE, POSITION = np.repeat(np.arange(TEXTS), LENGTH), np.tile(np.arange(LENGTH), TEXTS)
TRUE = np.random.default_rng(0).integers(0, 3, TEXTS * LENGTH)
CUSTOMERS = EXAMPLE // 2
DOMAINS = np.where(EXAMPLE < 30, "news", "tweets").tolist()


def predict(share_right: float, seed: int, *, names: tuple[str, ...] = TAGS) -> LabelPredictions:
    generator = np.random.default_rng(seed)
    other = generator.integers(0, 3, len(TRUE))
    return LabelPredictions(
        EXAMPLE, POSITION, np.where(generator.random(len(TRUE)) < share_right, TRUE, other), TRUE, names
    )


def made_run(name: str, seed: int, predictions: LabelPredictions, *, role: Role = "method") -> Run:
    cost = Cost(1_000, 60.0) if name == "concat" else Cost()
    customers = CUSTOMERS if len(predictions) == len(TRUE) else None
    return Run(name, seed, flat_scores(predictions), customers, cost, role)


def runs() -> list[Run]:
    made = [made_run("none", seed, predict(0.6, seed)) for seed in range(3)]
    made += [made_run("film", seed, predict(0.62, 10 + seed)) for seed in range(3)]
    made += [made_run("concat", seed, predict(0.9, 20 + seed)) for seed in range(3)]
    return [*made, made_run("tf-idf", 0, predict(0.4, 30), role="baseline")]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_runs(runs(), reference="none", groups={"domain": DOMAINS}, settings=FAST)


def test_one_row_a_method_with_mean_and_error_over_seeds(comparison):
    assert [row.label for row in comparison.rows] == ["none", "film", "concat", "tf-idf (baseline)"]
    for row, share, first in zip(comparison.rows[:3], (0.6, 0.62, 0.9), (0, 10, 20), strict=True):
        reports = [evaluate_scores(flat_scores(predict(share, first + seed)), settings=FAST) for seed in range(3)]
        assert row.seeds == (0, 1, 2)
        for key, found in row.metrics.items():
            numbers = [report.metrics[key].value for report in reports]
            assert found.mean == pytest.approx(np.mean(numbers))
            assert found.standard_error == pytest.approx(np.std(numbers, ddof=1) / 3**0.5)
    assert comparison.rows[0].differences == {}
    assert comparison.rows[2].cost == Cost(1_000, 60.0)
    # A baseline has one seed by nature.
    assert comparison.warnings == ()


def test_differences_of_accuracy_are_those_of_the_paired_bootstrap(comparison):
    def average(share: float, first: int) -> np.ndarray:
        return np.mean([100.0 * (predict(share, first + seed).predicted == TRUE) for seed in range(3)], axis=0)

    expected = paired_bootstrap(average(0.9, 20), average(0.6, 0), CUSTOMERS, num_resamples=300)
    found = comparison.rows[2].differences["accuracy_percent"]
    assert found.interval.value == pytest.approx(expected.interval.value, rel=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.interval.low, expected.interval.high))
    assert found.p_value == expected.p_value
    means = [row.metrics["accuracy_percent"].mean for row in comparison.rows]
    assert found.interval.value == pytest.approx(means[2] - means[0])


def test_differences_of_f1_are_those_of_the_same_resamples():
    def sentences(tags: np.ndarray) -> list[list[str]]:
        return [[TAGS[tag] for tag in text] for text in tags.reshape(-1, LENGTH).tolist()]

    made = [made_run("none", seed, predict(0.6, seed)) for seed in range(2)]
    made += [made_run("film", seed, predict(0.8 + seed / 10, 2 + seed)) for seed in range(2)]
    predicted = [predict(0.6, 0), predict(0.6, 1), predict(0.8, 2), predict(0.9, 3)]
    settings = EvaluationSettings(ks=(1,), num_resamples=100, min_cell_clusters=1)
    found = compare_runs(made, reference="none", settings=settings)
    gaps = []
    for drawn in np.random.default_rng(settings.seed).integers(0, TEXTS // 2, size=(100, TEXTS // 2)):
        words = np.concatenate([np.flatnonzero(customer == CUSTOMERS) for customer in drawn])
        scores = [f1_score(sentences(TRUE[words]), sentences(rows.predicted[words])) for rows in predicted]
        gaps.append(100 * (np.mean(scores[2:]) - np.mean(scores[:2])))
    difference = found.rows[1].differences["entity_f1_percent"].interval
    assert (difference.low, difference.high) == pytest.approx(np.quantile(gaps, [0.025, 0.975]), rel=1e-9)
    means = [row.metrics["entity_f1_percent"].mean for row in found.rows]
    assert difference.value == means[1] - means[0] == pytest.approx(np.mean(gaps), abs=2)


def test_p_values_are_corrected_over_the_methods_of_a_metric(comparison):
    for key in comparison.rows[1].differences:
        found = [row.differences[key] for row in comparison.rows[1:]]
        assert [each.adjusted_p_value for each in found] == list(holm([each.p_value for each in found]))


def test_the_same_model_twice_differs_by_exactly_nothing():
    twins = [made_run("none", seed, predict(0.7, seed)) for seed in (0, 1, 2)]
    twins += [made_run("twin", seed, predict(0.7, seed)) for seed in (2, 0, 1)]
    found = compare_runs(twins, reference="none", settings=FAST)
    for difference in found.rows[1].differences.values():
        assert (difference.interval.low, difference.interval.value, difference.interval.high) == (0.0, 0.0, 0.0)
        assert difference.adjusted_p_value == 1.0


def test_groups_show_the_main_metric(comparison):
    assert comparison.main == "entity_f1_percent"
    assert [(group.value, group.num_rows) for group in comparison.groups] == [("news", 120), ("tweets", 240)]
    rows = [predict(0.9, 20 + seed).select(EXAMPLE < 30) for seed in range(3)]
    numbers = [evaluate_scores(flat_scores(each), settings=FAST).metrics["entity_f1_percent"].value for each in rows]
    found = comparison.groups[0].methods["concat"]
    assert found.mean == pytest.approx(np.mean(numbers))
    assert found.standard_error == pytest.approx(np.std(numbers, ddof=1) / 3**0.5)
    stars = [made_run("none", 0, predict(0.6, 0, names=("1", "2", "3")))]
    assert compare_runs(stars, reference="none", groups={"domain": DOMAINS}, settings=FAST).main == "accuracy_percent"


def test_each_type_has_the_f1_of_every_method():
    def rows(predicted: list[int]) -> LabelPredictions:
        return LabelPredictions(
            [0] * 4, range(4), predicted, [1, 2, 1, 3], names=("O", "B-PER", "I-PER", "B-LOC", "B-ORG")
        )

    made = [made_run("none", 0, rows([1, 2, 1, 3])), made_run("none", 1, rows([1, 0, 1, 0]))]
    made += [made_run("film", 0, rows([4, 0, 1, 3]))]  # finds an ORG that is none: it is no row of the table
    found = compare_runs(made, reference="none", settings=FAST).classes
    assert [(each.name, each.num_true) for each in found] == [("PER", 2), ("LOC", 1)]
    assert [each.methods["none"].mean for each in found] == pytest.approx([(100 + 50) / 2, (100 + 0) / 2])
    assert [each.methods["film"].mean for each in found] == pytest.approx([200 / 3, 100])
    assert np.isnan(found[0].methods["film"].standard_error)


def test_rows_in_any_order_give_the_same_comparison(comparison):
    shuffled = []
    for number, run in enumerate(runs()):
        order = np.random.default_rng(number).permutation(len(TRUE))
        shuffled.append(replace(run, scores=run.scores.select(order), clusters=CUSTOMERS[order]))
    first = np.random.default_rng(0).permutation(len(TRUE))
    again = compare_runs(
        shuffled,
        reference="none",
        groups={"domain": [DOMAINS[row] for row in first]},
        settings=FAST,
    )
    assert again.to_json() == comparison.to_json()


def test_tables_for_people_and_machines(comparison, tmp_path):
    again = Comparison.from_json(comparison.to_json())
    assert again.to_markdown() == comparison.to_markdown()
    text = again.to_markdown()
    titles = [table.title for table in again.tables()]
    assert titles == [
        "Methods",
        "Methods: loss and ranks",
        "Difference to none",
        "Difference to none: loss and ranks",
        "Entity F1 (%) by domain",
        "F1 (%) by type of entities",
        "Cost of one run",
    ]
    assert "## Comparison on 360 labels of 90 texts, 45 customers" in text
    assert "| method | news (n = 120) | tweets (n = 240) |" in text
    assert "| type of entities | n | none | film | concat | tf-idf (baseline) |" in text
    assert "by type" not in " ".join(table.title for table in again.tables(has_groups=False))
    with (tmp_path / "out.txt").open("w") as sink:
        console = Console(width=100, record=True, file=sink)
        console.print(comparison.to_rich())
    assert f"{comparison.rows[2].metrics['entity_f1_percent'].mean:.2f}" in console.export_text()


def test_a_seed_that_the_other_lacks_decides_nothing():
    made = runs()
    made = [run for run in made if run.name != "film" or run.seed == 1]
    found = compare_runs(made, reference="none", settings=FAST)
    alone = compare_runs([made[1], made[3]], reference="none", settings=FAST)
    assert [run.seed for run in (made[1], made[3])] == [1, 1]
    assert len(found.rows[0].seeds) == 3
    for key, difference in alone.rows[1].differences.items():
        assert found.rows[1].differences[key].interval == difference.interval
    # One fit has no seed: it is set against the mean of all.
    key = "accuracy_percent"
    gap = found.rows[3].metrics[key].mean - found.rows[0].metrics[key].mean
    assert found.rows[3].differences[key].interval.value == pytest.approx(gap)


def test_markdown_golden():
    truth = {"example_id": [0, 1], "position": [0, 0], "true": [0, 1], "names": ("1", "2")}
    made = [
        made_run("none", 0, LabelPredictions(predicted=[0, 0], **truth)),
        made_run("none", 1, LabelPredictions(predicted=[1, 0], **truth)),
        made_run("film", 0, LabelPredictions(predicted=[0, 1], **truth)),
    ]
    found = compare_runs(
        made,
        reference="none",
        groups={"domain": ["news", "tweets"]},
        settings=EvaluationSettings(ks=(1,), num_resamples=100, min_cell_clusters=1, **NAMES),
        provenance=Provenance("1f3a"),
    )
    assert found.to_markdown() == GOLDEN


# Seeds of none: accuracy 50 and 0; macro F1 (2 / 3 + 0) / 2 and 0; errors sqrt(1 / 2) and 1. film has the first alone.
GOLDEN = """## Comparison on 2 labels of 2 texts

**Methods**

| method | seeds | accuracy (%) | macro F1 (%) | MAE | RMSE |
| :-- | --: | --: | --: | --: | --: |
| none | 2 | 25.00 (25.00) | 16.67 (16.67) | 0.7500 (0.2500) | 0.8536 (0.1464) |
| film | 1 | 100.00 (-) | 100.00 (-) | 0.0000 (-) | 0.0000 (-) |

**Methods: loss and ranks**

| method | seeds | CE (nats) | recall@1 (%) | MRR | ECE |
| :-- | --: | --: | --: | --: | --: |
| none | 2 | 0.6931 (0.0000) | 50.00 (0.00) | 0.7500 (0.0000) | 0.0000 (0.0000) |
| film | 1 | 0.6931 (-) | 50.00 (-) | 0.7500 (-) | 0.0000 (-) |

**Difference to none**

| method | accuracy (points) | macro F1 (points) | MAE | RMSE |
| :-- | --: | --: | --: | --: |
| film | +50.00 [+0.00, +100.00] p = 0.500 | +66.67 [+0.00, +100.00] p = 0.500 | \
-0.5000 [-1.0000, +0.0000] p = 0.500 | -0.7071 [-1.0000, +0.0000] p = 0.500 |

**Difference to none: loss and ranks**

| method | CE (nats) | recall@1 (points) | MRR |
| :-- | --: | --: | --: |
| film | +0.0000 [+0.0000, +0.0000] p = 1.000 | +0.00 [+0.00, +0.00] p = 1.000 | \
+0.0000 [+0.0000, +0.0000] p = 1.000 |

**Accuracy (%) by domain**

| method | news (n = 1) | tweets (n = 1) |
| :-- | --: | --: |
| none | 50.00 (50.00) | 0.00 (0.00) |
| film | 100.00 (-) | 100.00 (-) |

**F1 (%) by label**

| label | n | none | film |
| :-- | --: | --: | --: |
| 1 | 1 | 33.33 (33.33) | 100.00 (-) |
| 2 | 1 | 0.00 (0.00) | 100.00 (-) |

- Macro F1: plain mean over the classes that occur in the truth or the prediction.
- MAE and RMSE: of the numbers, or of the places of labels in their order where these are words. Over all rows at \
once, lower is better.
- CE: cross-entropy of the true label in nats, lower is better. Recall@k (hit rate): percent of rows whose \
true label is among the first k of all labels, higher is better. Ties get their expected rank.
- Methods, groups and labels: mean over seeds, with its standard error in brackets. (-): one seed.
- Differences to none: 95% interval from a paired bootstrap over 2 texts (100 resamples, seed 0). Metrics are averaged \
over seeds first, for two trained methods over the seeds that both have. p is corrected by Holm over the rows \
of a column.
- Warning: one seed for film: how much another seed would change is unknown.
- Warning: methods have different numbers of seeds (none 2, film 1): a lucky seed weighs more where there are fewer.
- Warning: few texts (2): the intervals are too narrow or unknown, p too small.
- Data 1f3a; commit not recorded; seeds not recorded; hardware not recorded; recipe not recorded.
"""


def test_runs_on_other_rows_are_refused():
    first, rows = made_run("none", 0, predict(0.6, 0)), predict(0.9, 1)
    columns = rows.as_arrays()

    def compare(other: LabelPredictions) -> None:
        compare_runs([first, made_run("film", 3, other)], reference="none", settings=FAST)

    with pytest.raises(DataError, match=r"run 'film' \(seed 3\) has 5 scored rows, run 'none' \(seed 0\) 360"):
        compare(rows.select(np.arange(5)))
    moved = np.where(EXAMPLE == 7, 1000, EXAMPLE)
    with pytest.raises(DataError, match=r"scored example 8, position 0, which run 'none' .* did not"):
        compare(LabelPredictions(**{**columns, "example_id": moved}, names=TAGS))
    wrong = TRUE.copy()
    wrong[30] = (TRUE[30] + 1) % 3
    is_now, was = TAGS[wrong[30]], TAGS[TRUE[30]]
    with pytest.raises(DataError, match=rf"'{is_now}' is true for example 7, position 2, in run 'none' .* '{was}'"):
        compare(LabelPredictions(**{**columns, "true": wrong}, names=TAGS))
    with pytest.raises(DataError, match=r"has the labels \('O', 'B-LOC', 'I-LOC'\)"):
        compare(LabelPredictions(**columns, names=("O", "B-LOC", "I-LOC")))


def test_words_are_grades_for_all_runs_or_for_none():
    truth = {"example_id": [0, 1], "position": [0, 0], "true": [0, 1], "names": ("bad", "good")}
    made = [
        made_run(name, 0, LabelPredictions(predicted=[0, 0], **truth, is_ordinal=name == "film"))
        for name in ("none", "film")
    ]
    with pytest.raises(DataError, match=r"run 'film' .* and run 'none' .* grades for one of the two alone"):
        compare_runs(made, reference="none", settings=FAST)


def test_the_reference_and_the_seeds_must_be_clear():
    with pytest.raises(UnknownNameError, match="Did you mean 'none'"):
        compare_runs(runs(), reference="nome", settings=FAST)
    with pytest.raises(ConfigurationError, match="No runs"):
        compare_runs([], reference="none")
    with pytest.raises(ConfigurationError, match=r"seeds \[0, 0\]: one run a seed"):
        compare_runs([made_run("none", 0, predict(0.6, 0))] * 2, reference="none", settings=FAST)


def test_one_customer_has_differences_but_no_p_value():
    made = [made_run("none", 0, predict(0.6, 0)), made_run("film", 0, predict(0.9, 1))]
    made = [replace(run, clusters=["ann"] * len(TRUE)) for run in made]
    found = compare_runs(made, reference="none", settings=FAST)
    assert found.rows[1].differences["accuracy_percent"].adjusted_p_value is None
    assert "[unknown]" in found.to_markdown()
    assert "Warning: few customers (1)" in found.to_markdown()
    assert "one seed for none, film" in found.to_markdown()
