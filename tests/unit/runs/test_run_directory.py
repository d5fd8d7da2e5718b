"""What a run may start from, and what it may remove."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.runs.run_directory import (
    check_same_devices,
    check_same_recipe,
    checkpoint_to_resume,
    clear_run,
    load_recipe,
    remember_recipe,
)
from contextual_bert.training import Recipe, SetCompletion

DIGESTS = {"split_digest": "80e4"}
RECIPE = Recipe(data="days.parquet", task=SetCompletion(items="items"), training={"learning_rate": 0.1})


def interrupted(directory: Path) -> Path:
    checkpoint = directory / "checkpoints" / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 5}', encoding="utf-8")
    remember_recipe(directory, RECIPE, digests=DIGESTS, num_devices=1)
    return checkpoint


def test_an_interrupted_run_is_resumed_only_when_asked(tmp_path: Path) -> None:
    checkpoint = interrupted(tmp_path)
    with pytest.raises(ConfigurationError, match="--resume"):
        checkpoint_to_resume(tmp_path, is_resumed=False)
    assert checkpoint_to_resume(tmp_path, is_resumed=True) == checkpoint
    with pytest.raises(RunDirectoryError, match="interrupted run"):
        load_recipe(tmp_path)


def test_a_complete_run_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(ConfigurationError, match=r"no run directory and holds README\.md"):
        checkpoint_to_resume(tmp_path, is_resumed=False)
    (tmp_path / "metrics.json").touch()
    with pytest.raises(ConfigurationError, match="complete run"):
        checkpoint_to_resume(tmp_path, is_resumed=True)
    with pytest.raises(ConfigurationError, match=r"README\.md is a file, and a run is a folder"):
        checkpoint_to_resume(tmp_path / "README.md", is_resumed=False)


def test_only_what_a_run_wrote_is_removed(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    clear_run(tmp_path)
    assert (tmp_path / "README.md").exists()
    interrupted(tmp_path)
    for name in ("metrics.json", "model.safetensors", "notes.txt"):
        (tmp_path / name).touch()
    clear_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_another_recipe_is_named(tmp_path: Path) -> None:
    check_same_recipe(RECIPE, tmp_path, digests=DIGESTS)
    interrupted(tmp_path)
    check_same_recipe(replace(RECIPE, data="./days.parquet", device="cpu"), tmp_path, digests=DIGESTS)
    check_same_recipe(replace(RECIPE, split="elsewhere/split.json"), tmp_path, digests=DIGESTS)
    with pytest.raises(ConfigurationError, match=r"training.learning_rate: 0.1 there, 0.2 here"):
        check_same_recipe(replace(RECIPE, training={"learning_rate": 0.2}), tmp_path, digests=DIGESTS)
    with pytest.raises(ConfigurationError, match=r"training.learning_rate: 0.1 there, null here"):
        check_same_recipe(replace(RECIPE, training={}), tmp_path, digests=DIGESTS)
    with pytest.raises(ConfigurationError, match="another table or another split"):
        check_same_recipe(RECIPE, tmp_path, digests={"split_digest": "ffff"})


def test_what_begins_alike_is_said_to_be_another(tmp_path: Path) -> None:
    schemas = [{"features": [{"name": "a" * 60, "kind": kind}], "version": 1} for kind in ("numerical", "categorical")]
    remember_recipe(tmp_path, replace(RECIPE, schema=schemas[0]), digests=DIGESTS, num_devices=1)
    with pytest.raises(ConfigurationError, match="schema: another one there, which begins alike"):
        check_same_recipe(replace(RECIPE, schema=schemas[1]), tmp_path, digests=DIGESTS)


def test_another_start_is_named(tmp_path: Path) -> None:
    started = {**DIGESTS, "checkpoint_digest": "aaaa"}
    remember_recipe(tmp_path, RECIPE, digests=started, num_devices=1)
    check_same_recipe(RECIPE, tmp_path, digests=started)
    with pytest.raises(ConfigurationError, match="checkpoint_digest: it started from other weights"):
        check_same_recipe(RECIPE, tmp_path, digests={**DIGESTS, "checkpoint_digest": "bbbb"})
    remember_recipe(tmp_path, RECIPE, digests=DIGESTS, num_devices=1)
    with pytest.raises(ConfigurationError, match="checkpoint_digest: it started from other weights"):
        check_same_recipe(RECIPE, tmp_path, digests=started)


def test_what_a_checkpoint_brings_is_compared_too(tmp_path: Path) -> None:
    pooled = {"model": {"classifier_pooling": "mean"}, "split_digest": "80e4"}
    (tmp_path / "recipe.json").write_text(json.dumps({"recipe": RECIPE.to_dict(), "resolved": pooled}))
    check_same_recipe(RECIPE, tmp_path, digests=DIGESTS, model_fields={"classifier_pooling": "mean"})
    with pytest.raises(ConfigurationError, match='classifier_pooling: "mean" there, "cls" here'):
        check_same_recipe(RECIPE, tmp_path, digests=DIGESTS, model_fields={"classifier_pooling": "cls"})
    pooled["model"] = "BagOfItems()"  # of a baseline its words
    (tmp_path / "recipe.json").write_text(json.dumps({"recipe": RECIPE.to_dict(), "resolved": pooled}))
    check_same_recipe(RECIPE, tmp_path, digests=DIGESTS, model_fields={"classifier_pooling": "cls"})


def test_a_run_goes_on_with_as_many_devices(tmp_path: Path) -> None:
    interrupted(tmp_path)
    check_same_devices(tmp_path, num_devices=1)
    with pytest.raises(ConfigurationError, match=r"interrupted on 1 devices .* here are 2: .* Start it on as many"):
        check_same_devices(tmp_path, num_devices=2)


def test_an_export_is_told_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "export.json").touch()
    with pytest.raises(RunDirectoryError, match=r"is an export\. Name the run that it was made from"):
        load_recipe(tmp_path)


def test_a_folder_of_checkpoints_makes_no_run(tmp_path: Path) -> None:
    """Anybody may have one: what is in it, and beside it, is not ours."""
    (tmp_path / "checkpoints").mkdir()
    for name in ("README.md", "checkpoints/weights.pt"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigurationError, match=r"no run directory and holds README\.md"):
        checkpoint_to_resume(tmp_path, is_resumed=False)
    clear_run(tmp_path)
    assert {path.name for path in tmp_path.rglob("*")} == {"README.md", "checkpoints", "weights.pt"}
