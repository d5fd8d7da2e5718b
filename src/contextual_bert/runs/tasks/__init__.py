"""Tasks: what a run learns. One class a kind, found by what the prepared data ask for."""

from collections.abc import Mapping
from typing import Any

from contextual_bert.frames import Frame
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.prepared_sets import prepare
from contextual_bert.runs.prepared_texts import prepare_texts
from contextual_bert.runs.tasks.base import Task
from contextual_bert.runs.tasks.classification import Classification
from contextual_bert.runs.tasks.masked_text import MaskedText
from contextual_bert.runs.tasks.question_answering import QuestionAnswering
from contextual_bert.runs.tasks.set_completion import SetCompletion
from contextual_bert.runs.tasks.tagging import Tagging
from contextual_bert.training.recipe import Recipe

__all__ = ["TASKS", "Task", "prepare_for", "task_of"]

TASKS: Mapping[str, type[Task[Any]]] = {
    "sets": SetCompletion,
    "classification": Classification,
    "tags": Tagging,
    "answers": QuestionAnswering,
    "masked_lm": MaskedText,
}


def task_of(ready: PreparedData) -> Task[Any]:
    """Return the task on prepared data."""
    return TASKS[ready.head](ready)


def prepare_for(recipe: Recipe, *, source: Frame | None = None) -> PreparedData:
    """Read the data of a recipe, sets or texts; ``source`` is its table, where that is in memory."""
    return prepare(recipe, source=source) if recipe.texts is None else prepare_texts(recipe, source=source)
