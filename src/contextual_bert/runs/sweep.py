"""The runs of a study: which are missing, and training them one after the other or beside each other.

A run that is complete is not run again, an interrupted one goes on at its last checkpoint. What a run is, ``runner``
knows. docs/protocol.md.
"""

import copyreg
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from contextual_bert.baselines.names import BASELINES
from contextual_bert.errors import ConfigurationError, joined
from contextual_bert.evaluation import Role, Run
from contextual_bert.folder_lock import locked_folder
from contextual_bert.inference.tables.ray_cluster import RayCluster
from contextual_bert.runs.model_factory import training_lines
from contextual_bert.runs.processes import process_context, take_environment
from contextual_bert.runs.ray_sweep import train_on_ray
from contextual_bert.runs.registry import check_jobs
from contextual_bert.runs.run_directory import check_same_recipe, is_complete, load_run
from contextual_bert.runs.runner import run
from contextual_bert.runs.sigterm import EXIT_CODE
from contextual_bert.runs.tasks import Task
from contextual_bert.training import Bars, emulation_lines, progress_bars
from contextual_bert.training.progress import RelayedBars
from contextual_bert.training.recipe import Recipe

Say = Callable[[str], None]
Planned = tuple[Recipe, Task]


def train_missing(
    planned: Sequence[Planned], output: Path, *, num_jobs: int | RayCluster = 1, say: Say = print
) -> list[Run]:
    """The runs of these recipes in ``<output>/<label>/seed-<n>``: trained where they are missing, then read.

    Args:
        planned: recipes, each with its data.
        output: folder of the runs.
        num_jobs: how many are trained beside each other, each in a process of its own with its share of the processor's
            threads, and all on the same accelerator. A script that asks for more than 1 needs ``if __name__ ==
            "__main__":``, as these processes import it. Or the cluster of Ray that trains them: ``output`` is then on
            a file system that its machines share.
        say: where sentences about the progress go.

    Raises:
        ConfigurationError: a run in the folder has other settings; several jobs in a process of torchrun.
        RunDirectoryError: another process trains or reports in the folder.
    """
    if isinstance(num_jobs, int):
        check_jobs(num_jobs)
    with locked_folder(output):
        return _train_missing(planned, output, num_jobs=num_jobs, say=say)


def _train_missing(planned: Sequence[Planned], output: Path, *, num_jobs: int | RayCluster, say: Say) -> list[Run]:
    missing: list[Planned] = []
    for recipe, ready in planned:
        folder = run_directory(output, recipe)
        if is_complete(folder):
            check_same_recipe(ready.resolve(recipe), folder, digests=ready.digests, model_fields=ready.model_fields)
            say(f"{folder}: complete, not run again")
        else:
            # A mistake in the last row is found before hours are spent on the first.
            ready.check(ready.resolve(recipe))
            missing.append((recipe, ready))
    told = [line for each, _ in missing for line in emulation_lines(each.device, each.dtype)]
    for each, ready in missing:
        own = ready.resolve(each)
        lines = training_lines(own, ready, defaults=ready.default_training(own))
        told += [joined(f"{each.label}: ", line) for line in lines]
    for line in dict.fromkeys(told):
        say(line)
    if isinstance(num_jobs, RayCluster):
        if missing:
            folders = [(each, ready, run_directory(output, each)) for each, ready in missing]
            train_on_ray(folders, cluster=num_jobs, say=say)
    elif min(num_jobs, len(missing)) > 1:
        _train_beside_each_other(missing, output, num_jobs=min(num_jobs, len(missing)), say=say)
    else:
        for recipe, ready in missing:
            run(recipe, run_directory(output, recipe), prepared=ready, is_resumed=True)
    return [load_run(run_directory(output, each), name=each.label, role=role_of(each)) for each, _ in planned]


def run_directory(output: Path, recipe: Recipe) -> Path:
    """Return the folder of a run of a study."""
    return output / recipe.label / f"seed-{recipe.seed}"


def role_of(recipe: Recipe) -> Role:
    """Return the role of a row in a comparison."""
    if recipe.is_control or recipe.is_context_shuffled:
        return "control"
    return "baseline" if recipe.conditioning in BASELINES else "method"


def _train_beside_each_other(missing: Sequence[Planned], output: Path, *, num_jobs: int, say: Say) -> None:
    """Train each run in a process, and let a thread of a pool listen to it.

    A pool of processes tells neither which process died nor with which code, and asks none to write a checkpoint.
    """
    bars, num_threads = progress_bars(), max(1, torch.get_num_threads() // num_jobs)
    jobs = [
        _Job(recipe, ready, run_directory(output, recipe), num_threads=num_threads, bars=bars)
        for recipe, ready in missing
    ]
    pool = ThreadPoolExecutor(num_jobs)
    try:
        job_of = {pool.submit(job.train): job for job in jobs}
        for ended in as_completed(job_of):
            job, error = job_of[ended], ended.exception()
            if error is not None and not isinstance(error, _ProcessEndedError):
                say(f"{job.label} failed; what runs beside it stops and goes on at its last checkpoint")
            ended.result()
            say(f"{job.folder}: trained")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for job in jobs:
            job.stop()
        try:
            pool.shutdown()
        except BaseException:  # asked to end a second time
            for job in jobs:
                job.kill()
            raise
        bars.close()  # last, for where nobody reads what is shown it raises


class _ProcessEndedError(ConfigurationError):
    """A process ended without a run and without a word."""


class _CopyingPickler(ForkingPickler):
    """A pickler that copies tensors.

    torch registers one that moves them to shared memory, which frees what NumPy arrays of theirs still look at.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dispatch_table = copyreg.dispatch_table


class _Job:
    """A run that is trained in a process of its own.

    Args:
        recipe, ready: what to train.
        folder: of the run.
        num_threads: of the process.
        bars: that show how far it is.
    """

    def __init__(self, recipe: Recipe, ready: Task, folder: Path, *, num_threads: int, bars: Bars) -> None:
        self.folder, self.label = folder, f"{recipe.label}, seed {recipe.seed}"
        self._told = (recipe, folder, ready, num_threads, logging.get_verbosity(), dict(os.environ))
        self._bars = bars
        self._process: BaseProcess | None = None
        self._is_stopped = False

    def train(self) -> None:
        """Start the process, and show how far it is until it ends.

        Raises:
            Exception: what the process tells.
            ConfigurationError: it ended without a run.
        """
        context = process_context()
        ours, theirs = context.Pipe()
        # What to train is sent: a process that ends before it has read its arguments is waited for without end.
        process = context.Process(target=train_as_told, args=(theirs,))
        process.start()
        theirs.close()  # so that the end of the process is the end of what it tells
        self._process = process
        try:
            if self._is_stopped:  # before there was a process to ask
                process.terminate()
            with suppress(ConnectionError):  # it has ended: that is heard next
                ours.send_bytes(_CopyingPickler.dumps(self._told))
            while (told := _heard(ours)) is not None:
                if isinstance(told, Exception):
                    raise told
                *counted, is_milestone = told
                self._bars.show(self.label, *counted, is_milestone=is_milestone)
        except BaseException:
            process.terminate()
            raise
        finally:
            process.join()
            self._bars.remove(self.label)
        if not is_complete(self.folder):
            code = process.exitcode or 0
            advice = (
                "It was stopped: the same command goes on at its last checkpoint"
                if code == EXIT_CODE
                else "Mostly that is for want of memory: give fewer jobs"
                if code < 0
                else 'What it said stands above; a script that asks for several jobs needs if __name__ == "__main__":'
            )
            raise _ProcessEndedError(
                f"The process of {self.label} ended with code {code} and wrote no run", fix=f"{advice}."
            )

    def stop(self) -> None:
        """Ask the process to finish its step, write a checkpoint and end."""
        self._is_stopped = True
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()


def _heard(listener: connection.Connection) -> Any:
    """Return what a process tells next, None where it has ended."""
    try:
        return listener.recv()
    except (EOFError, ConnectionError):
        return None


def _bars_of(listener: connection.Connection) -> Bars:
    """Return bars that tell the listener. Where it is no more, nobody waits for this run: it stops, at a checkpoint."""

    def send(told: tuple[int, int, str, bool]) -> bool:
        try:
            listener.send(told)
        except ConnectionError:
            os.kill(os.getpid(), signal.SIGTERM)
            return False
        return True

    return RelayedBars(send)


def train_as_told(listener: connection.Connection) -> None:
    """Train the runs that the listener names, and report progress and errors to it.

    Args:
        listener: first says (recipe, run directory, its data, number of threads, transformers' verbosity, environment).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    try:
        recipe, folder, ready, num_threads, verbosity, variables = listener.recv()
    except (EOFError, ConnectionError):  # it is no more
        return
    take_environment(variables)
    torch.set_num_threads(num_threads)
    logging.set_verbosity(verbosity)
    logging.disable_progress_bar()
    try:
        run(recipe, folder, prepared=ready, is_resumed=True, is_quiet=True, bars=_bars_of(listener))
    except Exception as error:
        error.add_note(traceback.format_exc())
        if isinstance(error, ConnectionError):
            return
        try:
            ForkingPickler.loads(ForkingPickler.dumps(error))  # pyright: ignore[reportAttributeAccessIssue]
            listener.send(error)
        except ConnectionError:
            return
        except Exception:
            with suppress(ConnectionError):
                listener.send(RuntimeError(traceback.format_exc()))
