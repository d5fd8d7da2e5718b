"""The study: every row has the same data and budget, controls have equal size, and it goes on where it stopped."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError, RunDirectoryError, UnknownNameError
from contextual_bert.models import PAPER_PARAMETERS
from contextual_bert.runs import load_run, runner, sweep
from contextual_bert.runs.model_factory import build_model, count_counted
from studies import outfits
from studies.outfits import SIZES, Size, StudyData, prepare_study, run_study

CONTROLS = ["none_wide", "new_position_wide", "global_state_update_shuffled"]
BASELINES = ["popularity", "context_popularity", "item_knn", "bag", "bag_context"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study") / "world"


@pytest.fixture(scope="module")
def data(folder: Path, tiny_study: None) -> StudyData:
    return prepare_study(folder, size="tiny", device="cpu")


def test_the_rows(data: StudyData, tiny_size: Size) -> None:
    rows = data.rows()
    assert list(rows) == [*PAPER_PARAMETERS, "state_flow", "film", *CONTROLS, *BASELINES]
    assert [name for name, recipe in rows.items() if recipe.is_control or recipe.is_context_shuffled] == CONTROLS
    assert {str(recipe.training) for name, recipe in rows.items() if name not in BASELINES} == {str(tiny_size.training)}
    for recipe in rows.values():
        data.prepared.resolve(recipe)  # raises if a row asked for other data


def test_the_sizes_of_the_models(data: StudyData) -> None:
    counted = {
        name: count_counted(build_model(data.prepared.resolve(recipe), data.prepared))
        for name, recipe in data.rows().items()
    }
    assert PAPER_PARAMETERS.items() <= counted.items()
    equal = PAPER_PARAMETERS["global_state_update"]
    assert [counted[name] for name in CONTROLS] == pytest.approx([equal] * 3, rel=0.01)


def test_a_study_goes_on_and_has_the_oracle_last(
    data: StudyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["none", "global_state_update_shuffled", "popularity"]
    rows = [data.row(name) for name in names]
    said: list[str] = []
    first = run_study(data, tmp_path, rows=rows[:2], num_seeds=1, say=said.append)
    trained: list[str] = []
    run = runner.run

    def counted(recipe: Any, *arguments: Any, **settings: Any) -> Any:
        trained.append(recipe.label)
        return run(recipe, *arguments, **settings)

    monkeypatch.setattr(sweep, "run", counted)
    second = run_study(data, tmp_path, rows=rows, num_seeds=1, say=said.append)
    assert trained == ["popularity"]
    assert [(row.name, row.role) for row in second.comparison.rows] == [
        ("none", "method"),
        ("global_state_update_shuffled", "control"),
        ("popularity", "baseline"),
        ("oracle", "oracle"),
    ]
    assert first.comparison.rows[0].metrics == second.comparison.rows[0].metrics
    # Popularity is counted: it has no curve.
    assert [(curve.name, len(curve.points)) for curve in second.curves] == [(name, 1) for name in names[:2]]
    assert list(second.reports) == names
    assert "`popularity` (baseline)" in second.texts[0], "what wins is named"
    assert any("`global_state_update_shuffled`" in text for text in second.texts)
    assert any("above the best possible score" in text for text in second.texts)
    assert second.against_oracle is not None
    gaps = [row.differences["cross_entropy_nats"].interval.value for row in second.against_oracle.rows[:-1]]
    assert min(gaps) > 0
    best = second.comparison.rows[-1].metrics["cross_entropy_nats"].mean
    assert all(row.metrics["cross_entropy_nats"].mean > best for row in second.comparison.rows[:-1])


def test_rows_without_none_are_compared_with_the_first(data: StudyData, tmp_path: Path) -> None:
    found = run_study(data, tmp_path, rows=[data.row("film")], num_seeds=1, say=lambda _: None)
    assert [row.name for row in found.comparison.rows] == ["film", "oracle"]
    assert found.comparison.reference == "film"


def test_a_report_on_what_is_there(data: StudyData, tmp_path: Path) -> None:
    rows = [data.row(name) for name in ("none", "film", "popularity")]
    with pytest.raises(ConfigurationError, match="Train them first"):
        run_study(data, tmp_path, rows=rows, is_report_only=True, say=lambda _: None)
    run_study(data, tmp_path, rows=rows[:1], num_seeds=2, say=lambda _: None)
    run_study(data, tmp_path, rows=rows[:2], num_seeds=1, say=lambda _: None)
    found = run_study(data, tmp_path, rows=rows, is_report_only=True, say=lambda _: None)
    assert [(row.name, row.seeds) for row in found.comparison.rows[:-1]] == [("none", (0, 1)), ("film", (0,))]
    assert any("different numbers of seeds" in warning for warning in found.comparison.warnings)


def test_the_page_says_where_the_masks_change(data: StudyData, tmp_path: Path) -> None:
    training = {"num_train_epochs": 2, "masks_per_set": 2, "one_mask_epochs": 1}
    row = replace(data.row("none"), training=training)
    found = run_study(data, tmp_path, rows=[row], num_seeds=1, say=lambda _: None)
    assert found.one_mask_from == (1,)
    assert "went from several masks a set to one" in found.to_markdown()


def test_a_row_from_its_recipe_gives_the_same_digits(data: StudyData, tmp_path: Path) -> None:
    run_study(data, tmp_path, rows=[data.row("none"), data.row("film")], num_seeds=1, say=lambda _: None)
    recipe = runner.Recipe.load(tmp_path / "film" / "seed-0")
    again = runner.run(recipe, tmp_path / "again", is_quiet=True)
    first = load_run(tmp_path / "film" / "seed-0", name="film").scores
    second = load_run(tmp_path / "again", name="film").scores
    assert again.num_rows == len(first)
    assert (first.log_probability == second.log_probability).all()


def test_the_same_folder_for_another_world(data: StudyData, folder: Path) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"250 outfits of a world of 60 articles, seed 0, interactions True: not the 10,000 of 200",
    ):
        prepare_study(folder, size="quick")


def test_the_same_folder_for_another_number_of_outfits(
    data: StudyData, folder: Path, tiny_size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(outfits.SIZES, "larger", replace(tiny_size, num_training_outfits=600))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match=r"holds 250 outfits .* not the 700 of 60 articles"):
        prepare_study(folder, size="larger")


def test_a_report_names_what_its_runs_were_made_with(data: StudyData, tmp_path: Path) -> None:
    row = data.row("popularity")
    run_study(data, tmp_path, rows=[row], num_seeds=2, say=lambda _: None)
    path = tmp_path / "popularity" / "seed-1" / "recipe.json"
    made = json.loads(path.read_text())
    ours = made["environment"]["commit"]
    made["environment"].update(commit="0123456789ab", hardware="another machine")
    path.write_text(json.dumps(made))
    origin = run_study(data, tmp_path, rows=[row], is_report_only=True, say=lambda _: None).comparison.provenance
    assert origin.commit == f"{ours}, 0123456789ab"
    assert origin.hardware is not None and origin.hardware.endswith(", another machine")
    del made["environment"]
    path.write_text(json.dumps(made))
    with pytest.raises(RunDirectoryError, match="does not say what it was made with"):
        run_study(data, tmp_path, rows=[row], is_report_only=True, say=lambda _: None)


def test_the_softmax_of_the_kept_rows(folder: Path, data: StudyData) -> None:
    over_all = prepare_study(folder, size="tiny", device="cpu", softmax_over="vocabulary")
    for each, expected in ((data, "candidates"), (over_all, "vocabulary")):
        method, bag = (
            build_model(each.prepared.resolve(each.row(name)), each.prepared) for name in ("none", "bag_context")
        )
        assert (method.config.softmax_over, bag.softmax_over) == (expected, expected)


def test_names_that_no_study_has(data: StudyData, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'film'"):
        data.row("flim")
    with pytest.raises(UnknownNameError, match="Did you mean 'small'"):
        prepare_study(tmp_path, size="smal")
    with pytest.raises(UnknownNameError, match="Did you mean 'additive'"):
        prepare_study(tmp_path, world="aditive")
    with pytest.raises(ConfigurationError, match="num_seeds=0"):
        run_study(data, tmp_path, num_seeds=0)


def test_fewer_epochs_keep_the_share_with_one_mask(folder: Path, data: StudyData) -> None:
    small = SIZES["small"].with_epochs(5)
    assert (small.training["num_train_epochs"], small.training["one_mask_epochs"]) == (5, 3)
    assert SIZES["quick"].with_epochs(2).training == {**SIZES["quick"].training, "num_train_epochs": 2}
    shorter = prepare_study(folder, size="tiny", epochs=1, dtype="float32", device="cpu")
    row = shorter.row("none")
    assert (row.training["num_train_epochs"], row.dtype, data.row("none").dtype) == (1, "float32", "bfloat16")
    assert shorter.row("popularity").training == data.row("popularity").training
    with pytest.raises(ConfigurationError, match="epochs=0"):
        prepare_study(folder, size="tiny", epochs=0)
