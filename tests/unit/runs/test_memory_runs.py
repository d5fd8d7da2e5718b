"""Training from memory: one call, a run that knows what its data were, and an evaluation that asks for them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contextual_bert.data import table_digest
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.runs import SetCompletionTask, evaluate_run, inspect_table, make_split, prepare, run
from contextual_bert.training import Recipe, SetCompletion

pd: Any = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame(outfits: Path) -> Any:
    return pq.read_table(outfits).to_pandas()


@pytest.fixture(scope="module")
def recipe(tiny_recipe: Recipe) -> Recipe:
    training = {**tiny_recipe.training, "num_train_epochs": 1}
    return replace(tiny_recipe, data="outfits of May", training=training, conditioning="concat")


@pytest.fixture(scope="module")
def finished(recipe: Recipe, frame: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "memory"
    run(recipe, output, table=frame, is_quiet=True)
    return output


@pytest.fixture(scope="module")
def saved(frame: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that pandas makes of the frame."""
    path = tmp_path_factory.mktemp("saved") / "outfits.parquet"
    frame.to_parquet(path)
    return path


def test_a_frame_is_prepared_as_its_file_is(recipe: Recipe, frame: Any, saved: Path) -> None:
    found, read = prepare(recipe, source=frame), prepare(replace(recipe, data=str(saved)))
    assert found.split.digest == read.split.digest == make_split(recipe, frame).digest
    assert found.processor.items.values == read.processor.items.values
    assert found.processor.schema == read.processor.schema
    assert inspect_table(recipe, source=frame).schema == found.processor.schema


def test_a_run_says_that_its_data_were_in_memory(finished: Path, frame: Any) -> None:
    content = json.loads((finished / "recipe.json").read_text())
    assert content["recipe"]["data"] == "outfits of May"
    assert content["resolved"]["is_data_in_memory"]
    assert content["resolved"]["data_digest"] == table_digest(frame)


def test_evaluation_asks_for_data_that_were_in_memory(finished: Path, frame: Any, saved: Path) -> None:
    with pytest.raises(DataError, match=r"on a table in memory, which it calls 'outfits of May'.*--data FILE.*source="):
        evaluate_run(finished)
    metrics = json.loads((finished / "metrics.json").read_text())["test"]
    for found in (evaluate_run(finished, source=frame), evaluate_run(finished, overrides={"data": str(saved)})):
        assert json.loads(found.report.to_json())["metrics"] == metrics["metrics"]
        assert any("the split that the run was trained with" in line for line in found.lines)


def test_a_recipe_holds_no_table(frame: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"data is a DataFrame.*run\(Recipe\(data='orders', .*table=frame\)"):
        Recipe(data=frame, task=SetCompletion(items="items"))
    assert Recipe(data=Path("days.parquet"), task=SetCompletion(items="items")).data == "days.parquet"  # pyright: ignore[reportArgumentType]


def test_data_come_from_one_place(recipe: Recipe, frame: Any, tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="table and prepared both say what the data are"):
        run(recipe, tmp_path / "run", table=frame, prepared=tiny_data)
    assert not (tmp_path / "run").exists()
