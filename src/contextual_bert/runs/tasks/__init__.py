"""Tasks: what a run learns. One class a kind, found by what the prepared data ask for."""

from typing import Any

from contextual_bert.errors import ConfigurationError
from contextual_bert.frames import Frame
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.prepared_sets import prepare
from contextual_bert.runs.prepared_texts import prepare_texts
from contextual_bert.runs.tasks.base import Task
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.runs.tasks.masked_text import MaskedTextTask
from contextual_bert.runs.tasks.question_answering import QuestionAnsweringTask
from contextual_bert.runs.tasks.set_completion import SetCompletionTask
from contextual_bert.runs.tasks.tagging import TaggingTask
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import TASK_SETTINGS, TaskSettings, TextTask

__all__ = ["TASKS", "Task", "prepare_for", "register_task", "task_of"]

# Kind of task -> its class, as ``TASK_SETTINGS`` has the settings.
TASKS: dict[str, type[Task[Any]]] = {
    "set_completion": SetCompletionTask,
    "classification": ClassificationTask,
    "tagging": TaggingTask,
    "question_answering": QuestionAnsweringTask,
    "masked_text": MaskedTextTask,
}


def register_task(kind: str, settings: type[TaskSettings], task: type[Task[Any]]) -> None:
    """Make a kind of task known, so that recipes name it and runs train it.

    Args:
        kind: name in recipe.json, that of the settings.
        settings: class of ``Recipe.task``.
        task: class that builds, trains and scores its models.

    Raises:
        ConfigurationError: the name is taken.
    """
    if TASKS.get(kind, task) is not task:
        raise ConfigurationError(f"A task is called {kind!r} already", fix="Give it another name.")
    TASK_SETTINGS[kind], TASKS[kind] = settings, task


def task_of(ready: PreparedData) -> Task[Any]:
    """Return the task on prepared data."""
    return TASKS[ready.head](ready)


def prepare_for(recipe: Recipe, *, source: Frame | None = None) -> PreparedData:
    """Read the data of a recipe, sets or texts; ``source`` is its table, where that is in memory."""
    if isinstance(recipe.task, TextTask):
        return prepare_texts(recipe, source=source)
    return prepare(recipe, source=source)
