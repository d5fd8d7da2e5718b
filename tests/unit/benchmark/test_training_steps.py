"""Epochs of a table where nobody names a number: small tables get more, and what is given is obeyed."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.benchmark.building import arguments_of, training_lines
from contextual_bert.benchmark.preparation import Preparation, prepare
from contextual_bert.benchmark.runner import run
from contextual_bert.benchmark.study_runs import train_missing
from contextual_bert.training import Recipe
from contextual_bert.training.steps import LEAST_STEPS, MOST_EPOCHS, default_epochs, steps_of_epoch

ROWS = 200
SMALL = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}


@pytest.fixture(scope="module")
def ready() -> Preparation:
    table = pa.table({"items": [[f"a-{row % 7}", f"b-{row % 5}"] for row in range(ROWS)]})
    recipe = Recipe(data="memory", items="items", conditioning="none", model=SMALL, validation=0.2, test=0.2)
    return prepare(recipe, source=table)


@pytest.mark.parametrize(("num_rows", "batch_size"), [(192, 32), (1_000, 256), (5_000, 256), (12_000, 64), (999, 7)])
def test_a_table_gets_the_steps_that_teach(num_rows: int, batch_size: int) -> None:
    epochs = default_epochs(num_rows, batch_size, usual=4)
    steps = epochs * steps_of_epoch(num_rows, batch_size)
    assert steps >= LEAST_STEPS
    assert epochs == 4 or (epochs - 1) * steps_of_epoch(num_rows, batch_size) < LEAST_STEPS


def test_a_handful_of_rows_is_not_read_for_ever() -> None:
    assert default_epochs(10, 256, usual=4) == MOST_EPOCHS


def test_what_is_given_is_obeyed(ready: Preparation) -> None:
    num_rows = len(ready.datasets["train"])
    for training, epochs in (({"num_train_epochs": 2}, 2), ({}, 100), ({"per_device_train_batch_size": 8}, 14)):
        recipe = replace(ready.recipe, training=training)
        arguments = arguments_of(recipe, Path(), has_validation=True, num_rows=num_rows)
        assert arguments.num_train_epochs == epochs, training
    capped = replace(ready.recipe, training={"max_steps": 3})
    assert arguments_of(capped, Path(), has_validation=True, num_rows=num_rows).num_train_epochs == 10


def test_the_log_says_what_was_chosen_and_few_steps(ready: Preparation) -> None:
    def said(**training: float) -> str:
        (line,) = training_lines(replace(ready.recipe, training=training), ready, defaults={"num_train_epochs": 4})
        return line

    assert said(per_device_train_batch_size=8) == (
        "training: 14 epochs of 15 steps, 210 steps in all, for the usual 4 epochs would be 60: by default at least "
        "200 steps are taken, in at most 100 epochs"
    )
    assert said(num_train_epochs=3, per_device_train_batch_size=8).startswith(
        "training: 3 epochs of 15 steps, 45 steps in all, as num_train_epochs says. Few steps teach little: "
    )
    assert said(num_train_epochs=20, per_device_train_batch_size=8) == (
        "training: 20 epochs of 15 steps, 300 steps in all"
    )
    popular = replace(ready.recipe, conditioning="popularity", model={})
    assert training_lines(popular, ready, defaults={}) == []


def test_a_run_takes_these_steps_and_writes_them_down(ready: Preparation, tmp_path: Path) -> None:
    recipe = replace(ready.recipe, training={"per_device_train_batch_size": 8})
    run(recipe, tmp_path / "run", preparation=ready, is_quiet=True)
    resolved = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]
    assert resolved["training"]["num_train_epochs"] == 14
    assert any(line.startswith("training: 14 epochs of 15 steps") for line in resolved["lines"])
    points = json.loads((tmp_path / "run" / "history.json").read_text())["points"]
    assert (points[-1]["epoch"], points[-1]["step"]) == (14, 210)
    said: list[str] = []
    train_missing([(replace(recipe, seed=1), ready)], tmp_path, say=said.append)
    assert said[0].startswith("none: training: 14 epochs of 15 steps")
