"""Epochs of a table where nobody names a number: small tables get more, and what is given is obeyed."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.runs import SetCompletionTask, prepare
from contextual_bert.runs.model_factory import arguments_of, lines_on_steps, training_lines
from contextual_bert.runs.runner import run
from contextual_bert.runs.sweep import train_missing
from contextual_bert.training import Classification, Recipe, SetCompletion
from contextual_bert.training.defaults import default_epochs, steps_of_epoch
from contextual_bert_cli.wording import in_options

ROWS = 200
SMALL = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}


@pytest.fixture(scope="module")
def ready() -> SetCompletionTask:
    table = pa.table({"items": [[f"a-{row % 7}", f"b-{row % 5}"] for row in range(ROWS)]})
    recipe = Recipe(
        data="memory", task=SetCompletion(items="items"), conditioning="none", model=SMALL, validation=0.2, test=0.2
    )
    return prepare(recipe, source=table)


@pytest.mark.parametrize(("num_rows", "batch_size"), [(192, 32), (1_000, 256), (5_000, 256), (12_000, 64), (999, 7)])
def test_a_table_gets_the_steps_that_teach(num_rows: int, batch_size: int) -> None:
    epochs = default_epochs(num_rows, batch_size, usual=4, fewest_steps=200, most=100)
    steps = epochs * steps_of_epoch(num_rows, batch_size)
    assert steps >= 200
    assert epochs == 4 or (epochs - 1) * steps_of_epoch(num_rows, batch_size) < 200


def test_a_handful_of_rows_is_not_read_for_ever() -> None:
    assert default_epochs(10, 256, usual=4, fewest_steps=200, most=100) == 100


def epochs_of(recipe: Recipe, ready: SetCompletionTask) -> float:
    defaults = ready.default_training(recipe)
    return arguments_of(recipe, Path(), has_validation=True, defaults=defaults).num_train_epochs


def test_what_is_given_is_obeyed(ready: SetCompletionTask) -> None:
    for training, epochs in (({"num_train_epochs": 2}, 2), ({}, 40), ({"per_device_train_batch_size": 1}, 18)):
        assert epochs_of(replace(ready.recipe, training=training), ready) == epochs, training
    assert epochs_of(replace(ready.recipe, training={"max_steps": 3}), ready) == 10


def test_the_log_says_what_was_chosen_and_few_steps(ready: SetCompletionTask) -> None:
    def said(**training: float) -> str:
        recipe = replace(ready.recipe, training=training)
        (line,) = training_lines(recipe, ready, defaults=ready.default_training(recipe))
        return line

    settings = "8 rows a step, learning rate 0.001, weight decay 2"
    assert said(per_device_train_batch_size=8) == f"training: 40 epochs of 15 steps, 600 steps in all; {settings}"
    assert said(num_train_epochs=3, per_device_train_batch_size=8) == (
        f"training: 3 epochs of 15 steps, 45 steps in all; {settings}. Few steps teach little: without "
        "num_train_epochs=3 small tables get more"
    )
    assert said(per_device_train_batch_size=256).endswith(
        ". A step reads all 116 training rows: a smaller batch takes more steps"
    )
    assert said(max_steps=7, per_device_train_batch_size=8) == f"training: 7 steps, as max_steps says; {settings}"
    popular = replace(ready.recipe, conditioning="popularity", model={})
    assert training_lines(popular, ready, defaults={}) == []


def test_fasttext_says_by_which_rule_its_words_move(ready: SetCompletionTask) -> None:
    recipe = Recipe(
        data="memory",
        task=Classification(text="text", label="label", checkpoint=None),
        conditioning="fasttext",
    )
    chosen = arguments_of(recipe, Path(), has_validation=False)
    (line, *_) = lines_on_steps(recipe, chosen, num_rows=5000)
    assert "and for the rows of words AdaGrad without decay, whatever optim says" in line
    (line, *_) = lines_on_steps(replace(recipe, conditioning="cnn"), chosen, num_rows=5000)
    assert "AdaGrad" not in line


def test_hidden_sets_without_a_context_are_said_to_teach_popularity(ready: SetCompletionTask) -> None:
    for hide, conditioning, is_said in (
        ("set", "none", True),
        ("items", "none", False),
        ("set", "global_state_update", False),
    ):
        recipe = replace(ready.recipe, task=replace(ready.recipe.task, hide=hide), conditioning=conditioning)
        for training in ({}, {"max_steps": 3}):
            lines = training_lines(replace(recipe, training=training), ready, defaults={})
            assert any("how popular each item is. Give a history" in line for line in lines) == is_said
    said = training_lines(replace(recipe, conditioning="none"), ready, defaults={})[-1]
    assert in_options(said).startswith("--hide set hides whole sets and --conditioning none reads no context: ")


def test_a_run_takes_these_steps_and_writes_them_down(ready: SetCompletionTask, tmp_path: Path) -> None:
    recipe = replace(ready.recipe, training={"per_device_train_batch_size": 120})
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    resolved = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]
    assert resolved["training"]["num_train_epochs"] == 40
    assert any(line.startswith("training: 40 epochs of 1 step,") for line in resolved["lines"])
    points = json.loads((tmp_path / "run" / "history.json").read_text())["points"]
    assert (points[-1]["epoch"], points[-1]["step"]) == (40, 40)
    said: list[str] = []
    train_missing([(replace(recipe, seed=1), ready)], tmp_path, say=said.append)
    assert said[0].startswith("none: training: 40 epochs of 1 step,")
