"""Features of a trained run, permuted one by one: what decides the items is found, and nothing else is touched.

In the planted table the colour decides one of the three items of a set, all other columns are noise.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.evaluation import FeatureImportances
from contextual_bert.runs import as_row, evaluate_run, permutation_importance, permute_features, run, write_importance
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.permutation_importance import donor_of, with_permuted
from contextual_bert.training import Recipe, SetCompletion

COLOURS = ("red", "green", "blue", "white")
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROWS = 400


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    generator = np.random.default_rng(0)
    colours = generator.choice(COLOURS, ROWS)
    columns = {
        "items": [
            [f"coat-{colour}", f"hat-{generator.integers(4)}", f"bag-{generator.integers(4)}"] for colour in colours
        ],
        "customer": [f"c-{number}" for number in generator.integers(0, 120, ROWS)],
        "colour": colours,
        "coin": generator.choice(["heads", "tails"], ROWS),
        "age": generator.integers(18, 80, ROWS),
    }
    path = tmp_path_factory.mktemp("planted") / "sets.parquet"
    pq.write_table(pa.table(columns), path)
    training = {"num_train_epochs": 20, "learning_rate": 0.01, "per_device_train_batch_size": 32}
    return Recipe(
        data=str(path),
        task=SetCompletion(items="items"),
        customer="customer",
        test=0.4,
        leaks="keep",  # the colour decides an item
        field_selection="off",
        model=TINY,
        training={**training, "per_device_eval_batch_size": 64},
        device="cpu",
    )


@pytest.fixture(scope="module")
def finished(planted: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("attributed") / "run"
    run(planted, output, is_quiet=True)
    return output


@pytest.fixture(scope="module")
def found(finished: Path) -> FeatureImportances:
    return permute_features(finished, num_permutations=2).importances


def test_the_feature_that_decides_the_item_comes_first_and_noise_is_nothing(found: FeatureImportances) -> None:
    together, first, *noise = found.rows
    assert (together.feature, first.feature) == ("all features", "colour")
    assert {row.feature for row in noise} == {"coin", "age"}
    # A third of the items follow from the colour, and three quarters of the sets are given a wrong one.
    assert first.rise_nats.interval.low > 0.2
    assert first.rise_nats.adjusted_p_value is not None
    assert first.rise_nats.adjusted_p_value < 0.01
    assert -30 < first.recall_at_1_change_percent.interval.value < -15
    for row in noise:
        assert abs(row.rise_nats.interval.value) < 0.05 * first.rise_nats.interval.value


def test_the_true_context_gives_the_numbers_of_the_run(found: FeatureImportances, finished: Path) -> None:
    metrics = json.loads((finished / "metrics.json").read_text("utf-8"))["test"]
    for key in ("cross_entropy_nats", "recall_at_1_percent"):
        assert found.unpermuted[key].value == metrics["metrics"][key]["value"]
        assert found.unpermuted[key].low == metrics["metrics"][key]["low"]
    assert (found.num_rows, found.num_clusters) == (metrics["num_rows"], metrics["num_clusters"])


@pytest.mark.parametrize("feature", ["colour", "age"])
def test_a_rise_is_that_of_a_table_with_the_column_permuted(finished: Path, planted: Recipe, feature: str) -> None:
    """Another route: permute the raw values in the table, and evaluate that."""
    found = permute_features(finished, seed=3).importances
    rows = load_evaluation(finished).dataset.example_ids.numpy()
    table = pq.read_table(planted.data)
    values = table.column(feature).to_pylist()
    donors = rows[donor_of(rows, feature=feature, number=0, seed=3)]
    for row, donor in zip(rows.tolist(), donors.tolist(), strict=True):
        values[row] = table.column(feature)[donor].as_py()
    changed = table.set_column(table.column_names.index(feature), feature, pa.array(values)).take(pa.array(rows))
    report = evaluate_run(finished, source=changed, part="all").report
    expected = report.metrics["cross_entropy_nats"].value - found.unpermuted["cross_entropy_nats"].value
    row = next(row for row in found.rows if row.feature == feature)
    assert row.rise_nats.interval.value == pytest.approx(expected, abs=1e-6)


def test_a_feature_with_one_value_has_no_figure(finished: Path, planted: Recipe) -> None:
    table = pq.read_table(planted.data)
    constant = table.set_column(table.column_names.index("coin"), "coin", pa.array(["heads"] * ROWS))
    importances = permute_features(finished, source=constant).importances
    assert importances.constant == ("coin",)
    assert {row.feature for row in importances.rows} == {"all features", "colour", "age"}


def context_rows(dataset: SequenceDataset, names: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(dataset.context[name].tolist() for name in names), strict=True))


def test_each_pass_permutes_its_features_and_leaves_the_rest(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[SequenceDataset] = []
    scored = permutation_importance.load_evaluation(finished)
    before = {name: values.clone() for name, values in scored.dataset.context.items()}
    score = type(scored).score

    def recorded(self: Any, dataset: SequenceDataset, **options: Any) -> Any:
        passes.append(dataset)
        return score(self, dataset, **options)

    monkeypatch.setattr(type(scored), "score", recorded)
    monkeypatch.setattr(permutation_importance, "load_evaluation", lambda *_, **__: scored)
    steps: list[tuple[int, int]] = []
    permute_features(finished, num_permutations=2, progress=lambda done, total: steps.append((done, total)))
    features = tuple(before)
    assert len(passes) == 1 + 2 * (1 + len(features))
    assert passes[0] is scored.dataset
    assert all(torch.equal(scored.dataset.context[name], values) for name, values in before.items())
    original = context_rows(scored.dataset, features)
    for number, dataset in enumerate(passes[1:]):
        assert torch.equal(dataset.input_ids, scored.dataset.input_ids)
        assert torch.equal(dataset.example_ids, scored.dataset.example_ids)
        changed = {name for name in features if not torch.equal(dataset.context[name], before[name])}
        if number < 2:
            assert changed == set(features)
            assert context_rows(dataset, features) != original
            assert sorted(context_rows(dataset, features)) == sorted(original)
        else:
            name = features[number // 2 - 1]
            assert changed == {name}
            donors = donor_of(dataset.example_ids.numpy(), feature=name, number=number % 2, seed=0)
            assert torch.equal(dataset.context[name], before[name][torch.from_numpy(donors)])
    dones, totals = zip(*steps, strict=True)
    assert set(totals) == {int(dones[-1])}
    assert list(dones) == sorted(set(dones))


def test_a_permutation_depends_on_seed_feature_and_number_alone() -> None:
    ids = np.array([4, 9, 2, 30, 7, 11, 5, 8])
    donors = donor_of(ids, feature="age", number=0, seed=0)
    assert sorted(donors.tolist()) == list(range(8))
    assert (donor_of(ids, feature="age", number=0, seed=0) == donors).all()
    for other in ({"feature": "sex"}, {"number": 1}, {"seed": 1}):
        assert (donor_of(ids, **{"feature": "age", "number": 0, "seed": 0, **other}) != donors).any()
    order = np.array([3, 1, 7, 0, 2, 6, 5, 4])
    shuffled = donor_of(ids[order], feature="age", number=0, seed=0)
    pairs = dict(zip(ids.tolist(), ids[donors].tolist(), strict=True))
    assert dict(zip(ids[order].tolist(), ids[order][shuffled].tolist(), strict=True)) == pairs


def test_every_donor_is_as_likely_as_another() -> None:
    counts = np.zeros((4, 4))
    for seed in range(2000):
        counts[np.arange(4), donor_of(np.arange(4), feature="age", number=0, seed=seed)] += 1
    # 500 expected; five standard deviations of a binomial are 97.
    assert np.abs(counts - 500).max() < 97


def test_permuting_leaves_the_data_set_as_it_was() -> None:
    dataset = SequenceDataset(
        [5, 6, 7], [0, 2, 3], context={"a": torch.tensor([1, 2]), "b": torch.tensor([[3], [4]])}, example_ids=[0, 4]
    )
    other = with_permuted(dataset, ["b"], np.array([1, 0]))
    assert other.context["b"].tolist() == [[4], [3]]
    assert other.context["a"].tolist() == dataset.context["a"].tolist() == [1, 2]
    assert dataset.context["b"].tolist() == [[3], [4]]


def test_the_files_are_written_whole_or_not_at_all(
    found: FeatureImportances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_importance(found, tmp_path / "out")
    assert [path.name for path in written] == ["importance.json", "importance.md", "importance.png"]
    assert FeatureImportances.from_json((tmp_path / "out" / "importance.json").read_text("utf-8")) == found
    assert (tmp_path / "out" / "importance.md").read_text("utf-8") == found.to_markdown()

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("contextual_bert.runs.report_files.plot_importance", full)
    with pytest.raises(OSError, match="disk full"):
        write_importance(found, tmp_path / "half")
    assert list((tmp_path / "half").iterdir()) == []


def test_a_run_without_a_context_has_nothing_to_attribute(planted: Recipe, tmp_path: Path) -> None:
    recipe = replace(planted, training={"num_train_epochs": 1})
    run(replace(recipe, conditioning="none"), tmp_path / "none", is_quiet=True)
    with pytest.raises(ConfigurationError, match=r"conditioning='none', which reads no context.*another method"):
        permute_features(tmp_path / "none")
    run(as_row(recipe, "bag_context"), tmp_path / "bag", is_quiet=True)
    with pytest.raises(RunDirectoryError, match="baseline 'bag_context'"):
        permute_features(tmp_path / "bag")


def test_faulty_arguments(finished: Path, planted: Recipe) -> None:
    with pytest.raises(ConfigurationError, match=r"num_permutations=0 is not allowed. Give 1 or more"):
        permute_features(finished, num_permutations=0)
    with pytest.raises(DataError, match="only one set"):
        permute_features(finished, source=pq.read_table(planted.data).slice(0, 1))
