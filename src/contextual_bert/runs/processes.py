"""The processes of runs that train beside each other: forks of one that has imported everything and computed nothing.

Torch takes seconds to import. Its threads and CUDA do not survive a fork, so the forked process may not have used
either. Where forks are unsafe (macOS) or missing (Windows) each process imports for itself. This module imports nothing
heavy, so that a script may start the imports of these processes before its own. docs/decisions/046.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running

PRELOADED = "contextual_bert.runs.sweep"


def process_context() -> ForkServerContext | SpawnContext:
    """Return the context that starts the processes of runs."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def start_imports() -> None:
    """Start to import, in the background, what the processes of runs need. A second call does nothing.

    Optional: without it the first process of a study waits for these imports.
    """
    if sys.platform == "linux":
        process_context()
        ensure_running()


def take_environment(variables: Mapping[str, str]) -> None:
    """Take over the environment of the process that asks: a fork has the one of when the imports began."""
    os.environ.clear()
    os.environ.update(variables)
