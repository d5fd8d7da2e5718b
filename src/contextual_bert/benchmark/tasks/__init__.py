"""The benchmark tasks: one file a task."""

from contextual_bert.benchmark.tasks import outfit_completion

__all__ = ["outfit_completion"]
