"""The processes of runs that train beside each other: forks of one that has imported everything and computed nothing.

Torch takes seconds to import. Its threads and CUDA do not survive a fork, so the forked process may not have used
either. Where forks are unsafe (macOS) or missing (Windows) each process imports for itself. This module imports nothing
heavy, so that a script may start the imports of these processes before its own. docs/decisions/046.

The fork server listens on a socket in the folder for temporary files. Linux takes names of 107 bytes, so below a folder
with a longer name than `LONGEST_FOLDER` each process imports for itself.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running

PRELOADED = "contextual_bert.runs.sweep"
LONGEST_FOLDER = 107 - len("/pymp-12345678/listener-12345678")


def process_context() -> ForkServerContext | SpawnContext:
    """Return the context that starts the processes of runs."""
    if not _can_fork():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def start_imports() -> None:
    """Start to import, in the background, what the processes of runs need. A second call does nothing.

    Optional: without it the first process of a study waits for these imports.
    """
    if _can_fork():
        process_context()
        ensure_running()


def _can_fork() -> bool:
    return sys.platform == "linux" and len(os.fsencode(tempfile.gettempdir())) <= LONGEST_FOLDER


def take_environment(variables: Mapping[str, str]) -> None:
    """Take over the environment of the process that asks: a fork has the one of when the imports began."""
    os.environ.clear()
    os.environ.update(variables)
