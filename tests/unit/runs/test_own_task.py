"""A task of one's own is one file and one line: its settings, its class, and ``register_task``."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.runs import evaluate_run, run
from contextual_bert.runs.tasks import TASKS, register_task
from contextual_bert.runs.tasks.set_completion import SetCompletionTask
from contextual_bert.runs.tasks.tagging import TaggingTask
from contextual_bert.training import TASK_SETTINGS, Recipe, SetCompletion

KIND = "sized_completion"
SIZE = "size of the set"


@dataclass(frozen=True, kw_only=True)
class SizedCompletion(SetCompletion):
    """Complete sets, and report small ones apart."""

    kind: str = field(default=KIND, init=False)
    largest_small: int = 3


class SizedCompletionTask(SetCompletionTask):
    """Set completion with a segment a size of sets, and settings of its own."""

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        return {**super().default_training(recipe), "num_train_epochs": 1, "one_mask_epochs": 0, "weight_decay": 0.25}

    def own_segments(self, part: str, scored: Any, index: Any) -> dict[str, Any]:
        settings: Any = self.recipe.task
        sizes = self.datasets[part].sizes[index]
        return {SIZE: np.where(sizes <= settings.largest_small, "small", "large").tolist()}


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    register_task(KIND, SizedCompletion, SizedCompletionTask)
    yield
    del TASKS[KIND], TASK_SETTINGS[KIND]


def test_a_run_learns_it_reports_on_it_and_knows_it_again(tiny_recipe: Recipe, tmp_path: Path) -> None:
    task = SizedCompletion(items="items", largest_small=4)
    training = {name: value for name, value in tiny_recipe.training.items() if name != "num_train_epochs"}
    recipe = replace(tiny_recipe, task=task, training=training, conditioning="none")
    report = run(recipe, tmp_path / "run", is_quiet=True)
    assert report is not None
    assert {each.value for each in report.segments if each.feature == SIZE} == {"small", "large"}
    written = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (written["recipe"]["task"]["kind"], written["recipe"]["task"]["largest_small"]) == (KIND, 4)
    assert written["resolved"]["training"]["weight_decay"] == 0.25
    assert Recipe.load(tmp_path / "run").task == task
    again = evaluate_run(tmp_path / "run", part="test").report
    assert {each.value for each in again.segments if each.feature == SIZE} == {"small", "large"}


def test_a_task_that_nobody_registered_is_named(tiny_recipe: Recipe) -> None:
    content = {**tiny_recipe.to_dict(), "task": {"kind": "sized", "items": "items"}}
    with pytest.raises(RunDirectoryError, match=r"task.kind: No task 'sized'. Known: .*, sized_completion, tagging"):
        Recipe.from_dict(content)


def test_a_name_belongs_to_one_task() -> None:
    with pytest.raises(ConfigurationError, match="A task is called 'sized_completion' already"):
        register_task(KIND, SizedCompletion, TaggingTask)
