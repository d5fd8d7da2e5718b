from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import Oracle, StylistWorld
from studies import cold_items
from studies.outfits import SIZES, prepare_study


@pytest.fixture(scope="module")
def world() -> StylistWorld:
    return StylistWorld.generate(120, seed=0)


def test_recall_counts_a_tie_as_its_expected_share() -> None:
    scores = {
        "log_probability": np.log([0.5, 0.5, 0.5]),
        "num_better": np.array([0, 8, 12]),
        "num_tied": np.array([1, 4, 1]),
    }
    found = cold_items.figures(scores)
    assert found[cold_items.RECALL].tolist() == [100, 50, 0]
    assert found[cold_items.CE][0] == pytest.approx(np.log(2))


def test_an_oracle_of_attributes_knows_less(world: StylistWorld) -> None:
    cold = world.items[::10]
    less = cold_items.without_identity(world, cold)
    outfits = world.sample(3000, seed=5)
    is_cold = np.isin(world.items, cold)
    assert np.array_equal(less.articles.popularity[~is_cold], world.articles.popularity[~is_cold])
    assert len(np.unique(less.articles.popularity[is_cold])) == 1
    whole, part = (-Oracle(each).score_table(outfits)["log_probability"].mean() for each in (world, less))
    assert whole + 0.005 < part < whole + 0.1  # over all articles: of the left-out ones alone either may be ahead


def test_the_split_leaves_a_tenth_of_the_articles_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = SIZES["quick"]
    smaller = type(quick)(
        num_items=120,
        num_training_outfits=600,
        num_validation_outfits=60,
        num_test_outfits=60,
        training={"num_train_epochs": 1},
    )
    monkeypatch.setitem(SIZES, "quick", smaller)  # pyright: ignore[reportArgumentType]
    data = prepare_study(tmp_path / "world", size="quick", dtype="float32")
    cold = cold_items.write_splits(data, tmp_path)
    assert 4 <= len(cold.cold_items) <= 20
    rows = cold_items.rows(data, tmp_path, epochs=1)
    assert rows["features"].split != rows["features_cold"].split
    assert rows["features_cold"].set_task.item_exclude == ("price", "popularity")
    assert rows["bag_features_cold"].conditioning == "bag_context"


def test_runs_are_compared_on_what_all_of_them_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"items": [["a", "b"], ["c"]]})
    asked = cold_items.Asked(table, {0: 0, 1: 2}, np.array([False, True, False]), np.array(["x", "x", "y"]))

    def scores(rows: list[int], positions: list[int], losses: list[float]) -> SimpleNamespace:
        return SimpleNamespace(
            example_id=np.array(rows),
            position=np.array(positions),
            log_probability=-np.array(losses),
            num_better=np.zeros(len(rows)),
            num_tied=np.ones(len(rows)),
        )

    made = {"all": scores([1, 0, 0], [0, 1, 0], [3.0, 2.0, 1.0]), "less": scores([0, 0], [0, 1], [5.0, 6.0])}
    other = {"all": scores([0, 0, 1], [0, 1, 0], [2.0, 2.0, 3.0]), "less": made["less"]}
    seeds = {Path("0"): made, Path("1"): other}
    monkeypatch.setattr(cold_items, "load_run", lambda directory, name: SimpleNamespace(scores=seeds[directory][name]))
    found = cold_items.figures_of_runs({name: list(seeds) for name in made}, asked)
    assert found[0]["seeds"][cold_items.CE] == [1.0, 2.0]
    means = {(each["row"], each["articles"]): (each["num_rows"], each[cold_items.CE]["value"]) for each in found}
    assert means == {
        ("all", "known"): (1, 1.5),
        ("all", "new"): (1, 2.0),
        ("less", "known"): (1, 5.0),
        ("less", "new"): (1, 6.0),
    }
