"""A run is trained again without a customer: nothing that only she had is in it, and the old one is not touched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.errors import ConfigurationError
from contextual_bert.manifest import digest_of
from contextual_bert.runs import prepare, run
from contextual_bert.runs.forgetting import CustomerTables, forget, plan_of
from contextual_bert.runs.retraining import retrain_without, retrained_folder
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PEOPLE, EACH, WHO = 6, 60, "custo005x"
HERS = ("custo005x", "attic", "heirloom")  # her id, and a place and an item that nobody else has


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw, folder = np.random.default_rng(0), tmp_path_factory.mktemp("retrain")
    people = np.repeat(np.arange(PEOPLE), EACH).tolist()
    columns = {
        "items": [
            [f"item {each}" for each in draw.permutation(8)[:3]] + ["heirloom"] * (who == PEOPLE - 1) for who in people
        ],
        "person": [f"custo{each:03}x" for each in people],
        "place": ["attic" if who == PEOPLE - 1 else f"town {who % 2}" for who in people],
        "silent": ["attic" if who == PEOPLE - 1 else f"town {who % 2}" for who in people],
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    recipe = Recipe(
        data=str(folder / "rows.parquet"),
        task=SetCompletion(items="items"),
        model=SIZES,
        training={"num_train_epochs": 1},
        device="cpu",
        field_selection="off",
        leaks="keep",
    )
    schema = prepare(recipe).processor.schema
    assert schema is not None
    run(recipe.on_data(schema=schema.with_silenced(["silent"]).to_dict()), folder / "run", is_quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def retrained(trained: Path) -> Path:
    forget(plan_of(trained, CustomerTables(WHO), column="person"))
    before = {path: digest_of(path) for path in trained.rglob("*") if path.is_file()}
    report = retrain_without(trained, retrained_folder(trained), is_quiet=True)
    assert report is not None
    assert {path: digest_of(path) for path in trained.rglob("*") if path.is_file()} == before
    return trained.with_name("run-retrained")


def test_nothing_that_only_she_had_is_in_the_new_run(retrained: Path, trained: Path) -> None:
    files = [path for path in retrained.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert not any(word.encode() in path.read_bytes() for word in HERS), path
    assert b"heirloom" in (trained / "tokenizer.json").read_bytes()  # which only a new training changes
    schema = ContextSchema.load(retrained / "schema.json")
    assert schema.feature("person").values == tuple(f"custo{each:03}x" for each in range(PEOPLE - 1))  # pyright: ignore[reportAttributeAccessIssue]
    assert schema.silenced_names == ("silent",)


def test_the_others_are_in_the_parts_that_they_were_in(retrained: Path, trained: Path) -> None:
    new, old = (Split.load(folder / "split.json") for folder in (retrained, trained))
    assert new.digest == old.digest
    assert int((~new.is_in_part).sum()) == EACH
    recipe = Recipe.load(retrained)
    assert len(recipe.forgotten) == 1 and recipe.forgotten[0].endswith(":person")
    assert prepare(recipe).split.digest == new.digest


def test_a_finished_folder_is_not_taken_twice(retrained: Path, trained: Path) -> None:
    assert retrained_folder(trained) == retrained.with_name("run-retrained-2")


def test_who_forgot_nobody_is_not_trained_again(retrained: Path, tmp_path: Path) -> None:
    content: Any = json.loads((retrained / "recipe.json").read_text())
    content["recipe"]["forgotten"] = []
    (tmp_path / "recipe.json").write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match="has forgotten nobody"):
        retrain_without(tmp_path, tmp_path / "new")


def test_a_start_that_learned_from_her_is_refused(retrained: Path, trained: Path, tmp_path: Path) -> None:
    content: Any = json.loads((retrained / "recipe.json").read_text())
    knows = tmp_path / "knows"
    knows.mkdir()
    (knows / "recipe.json").write_text((retrained / "recipe.json").read_text())
    split = Split.load(trained / "split.json")
    whole = np.where(split.is_in_part, split.assignment, 0)
    Split(whole, by="row", column=None, fractions=(0.1, 0.1), seed=0, data_digest=split.data_digest).save(
        knows / "split.json"
    )
    content["recipe"]["task"]["init_from"] = str(knows)
    content["recipe"]["schema"] = None
    (tmp_path / "recipe.json").write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match="learned from the rows of the customer"):
        retrain_without(tmp_path, tmp_path / "new")


def test_the_command_trains_again_and_says_where(retrained: Path, trained: Path) -> None:
    done = CliRunner().invoke(
        app, ["forget", str(trained), "--customer", WHO, "--customer-column", "person", "--retrain", "--json"]
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["runs"]
    assert found["is_forgotten"] and found["retrained"] == str(retrained.with_name("run-retrained-2"))
    assert (retrained.with_name("run-retrained-2") / "metrics.json").is_file()
