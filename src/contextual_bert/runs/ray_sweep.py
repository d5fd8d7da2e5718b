"""The runs of a study as tasks of a Ray cluster. What is missing, and what a run is, ``sweep`` and ``runner`` know.

A worker that dies is followed by another one, which goes on at the last checkpoint of the run.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers.utils import logging

from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.inference.tables.ray_cluster import (
    RayCluster,
    connected,
    lost_workers,
    ray_data,
    shared_queue,
    workers_of,
)
from contextual_bert.places import PathPlace
from contextual_bert.runs.run_directory import is_complete
from contextual_bert.runs.runner import run
from contextual_bert.runs.tasks import Task
from contextual_bert.training import Bars, progress_bars
from contextual_bert.training.progress import RelayedBars
from contextual_bert.training.recipe import Recipe

RETRIES = 2  # of a run whose worker died
SECONDS_BETWEEN_LOOKS = 0.2
_SHARE = "Give a folder on a file system that all machines of the cluster share."
Missing = Sequence[tuple[Recipe, Task, Path]]


def train_on_ray(missing: Missing, *, cluster: RayCluster, say: Callable[[str], None]) -> None:
    """Train runs on a Ray cluster, at most as many at a time as it has workers.

    Args:
        missing: recipes, each with its data and its folder, on a file system that all machines share.
        cluster: where; its device takes the place of the recipes'.
        say: where sentences about the progress go.

    Raises:
        ConfigurationError: no such cluster, or a worker does not see the folder.
        ContextualBertError: what a run raises; Ray lost its workers.
    """
    ray = ray_data()
    with connected(cluster), lost_workers(missing[0][2].parents[1]):
        device, num_workers = workers_of(cluster)
        notes, bars = shared_queue(), progress_bars()
        task = ray.remote(num_cpus=1, num_gpus=1 if device == "cuda" else 0, max_retries=RETRIES)(train_task)
        sent: dict[int, Any] = {}  # the data of a study are one object mostly, and sent once
        waiting, running, started = list(missing), dict[Any, tuple[str, Path]](), set[str]()
        try:
            while waiting or running:
                while waiting and len(running) < num_workers:
                    recipe, ready, folder = waiting.pop(0)
                    if id(ready) not in sent:
                        sent[id(ready)] = ray.put(ready)
                    told = (recipe.changed(device=device), folder.absolute(), logging.get_verbosity())
                    label = f"{recipe.label}, seed {recipe.seed}"
                    running[task.remote(*told, sent[id(ready)], notes, label)] = label, folder
                done, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_LOOKS)
                _show(notes, bars, started, say)
                for each in done:
                    label, folder = running.pop(each)
                    bars.remove(label)
                    _end(ray.get(each), label, folder, has_others=bool(running), say=say)
        finally:
            for each in running:
                with suppress(Exception):
                    ray.cancel(each)
            bars.close()


def _end(error: Exception | None, label: str, folder: Path, *, has_others: bool, say: Callable[[str], None]) -> None:
    """Say that a run is trained, or raise what it raised."""
    if error is not None:
        if has_others:
            say(f"{label} failed; what runs beside it stops and goes on at its last checkpoint")
        raise error
    if not is_complete(folder):
        raise ConfigurationError("is not there after its training", fix=_SHARE, place=PathPlace(folder))
    say(f"{folder}: trained")


def _show(notes: Any, bars: Bars, started: set[str], say: Callable[[str], None]) -> None:
    """Show what was told since, and say which runs were started a second time."""
    told: list[tuple[Any, ...]] = []
    with suppress(Exception):  # on a machine that was lost: the runs themselves tell what became of them
        told = notes.get_nowait_batch(notes.qsize())
    for label, *counted in told:
        if counted:
            *numbers, is_milestone = counted
            bars.show(label, *numbers, is_milestone=is_milestone)
        elif label in started:
            say(f"{label}: its worker died, and another one goes on at the last checkpoint")
        started.add(label)


def _bars_over(notes: Any, label: str) -> Bars:
    """Return bars of a worker that tell the process that draws."""

    def send(told: tuple[int, int, str, bool]) -> bool:
        with suppress(Exception):  # nobody looks any more
            notes.put_nowait((label, *told))
        return True

    return RelayedBars(send)


def train_task(recipe: Recipe, folder: Path, verbosity: int, ready: Task, notes: Any, label: str) -> Exception | None:
    """Train one run in a worker of Ray, and return what it raised.

    An error of ours comes back as it is: a cluster would wrap it, and its fields were lost.
    """
    with suppress(Exception):
        notes.put_nowait((label,))  # it has started
    logging.set_verbosity(verbosity)
    logging.disable_progress_bar()
    if not folder.parents[1].is_dir():
        return ConfigurationError("is not seen by a worker", fix=_SHARE, place=PathPlace(folder.parents[1]))
    try:
        run(recipe, folder, prepared=ready, is_resumed=True, is_quiet=True, bars=_bars_over(notes, label))
    except ContextualBertError as error:
        return error
    return None
