"""The benchmark tasks: one file a task."""
