"""The benchmark tasks: one file a task."""

from collections.abc import Mapping

from contextual_bert.runs.tasks import addresses, entities, offensiveness, outfit_completion
from contextual_bert.runs.tasks.text_benchmark import TextBenchmark

# The tasks of the contextual NLP benchmark, one line each.
TEXT_TASKS: Mapping[str, TextBenchmark] = {
    task.card.name: task for task in (offensiveness.BY_TEXT, offensiveness.BY_READER, entities.TASK, addresses.TASK)
}

__all__ = ["TEXT_TASKS", "outfit_completion"]
