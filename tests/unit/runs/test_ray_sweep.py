"""Runs of a study on Ray: the same digits as here, errors as they are, and a lost worker's run taken up again."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.inference import RayCluster
from contextual_bert.runs import SetCompletionTask, as_row, ray_sweep
from contextual_bert.runs.run_directory import load_history
from contextual_bert.runs.runner import run
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.training import Recipe
from tests.local_ray import local_ray

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with local_ray(2):
        yield RayCluster(num_workers=2, device="cpu")


def planned_of(tiny_data: SetCompletionTask, *names: str, **training: Any) -> list[tuple[Recipe, SetCompletionTask]]:
    base = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 1, **training})
    return [(as_row(base, name), tiny_data) for name in names]


@pytest.mark.slow
def test_on_ray_a_study_has_the_digits_that_it_has_here(
    cluster: RayCluster, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    planned, said = planned_of(tiny_data, "none", "global_state_update", "popularity"), list[str]()
    there = train_missing(planned, tmp_path / "there", num_jobs=cluster, say=said.append)
    assert {f"{run_directory(tmp_path / 'there', recipe)}: trained" for recipe, _ in planned} <= {*said}
    here = train_missing(planned, tmp_path / "here", say=said.append)
    for one, other in zip(there, here, strict=True):
        assert (one.name, one.role) == (other.name, other.role)
        assert one.scores.log_probability.tolist() == pytest.approx(other.scores.log_probability.tolist(), abs=1e-5)
    said.clear()
    train_missing(planned, tmp_path / "there", num_jobs=cluster, say=said.append)
    assert said and all("complete, not run again" in sentence for sentence in said)


@pytest.mark.slow
def test_an_error_of_a_run_comes_back_as_it_is(
    cluster: RayCluster, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="training that diverged"):
        train_missing(planned_of(tiny_data, "none", learning_rate=1e30), tmp_path, num_jobs=cluster, say=print)


@pytest.mark.slow
def test_the_run_of_a_worker_that_dies_goes_on_at_its_checkpoint(
    cluster: RayCluster, tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_of(tiny_data, "none", num_train_epochs=3)
    [expected] = train_missing(planned, tmp_path / "here", say=print)
    monkeypatch.setattr(ray_sweep, "train_task", dies_once)
    said: list[str] = []
    [found] = train_missing(planned, tmp_path / "there", num_jobs=cluster, say=said.append)
    folder = run_directory(tmp_path / "there", planned[0][0])
    assert (folder.parents[1] / "died").exists()
    assert found.scores.log_probability.tolist() == pytest.approx(expected.scores.log_probability.tolist(), abs=1e-5)
    curve = load_history(folder)
    assert curve is not None and curve.points[-1].epoch == 3
    assert "none, seed 0: its worker died, and another one goes on at the last checkpoint" in said


def dies_once(recipe: Recipe, folder: Path, verbosity: int, ready: Any, notes: Any, label: str) -> Exception | None:
    """The task, in a worker that is killed behind the second epoch where none was before."""
    del verbosity
    notes.put((label,))
    mark = folder.parents[1] / "died"

    class Bars:
        def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None:
            del label, note, is_milestone
            if 3 * done > 2 * total and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        def remove(self, label: str) -> None: ...

        def close(self) -> None: ...

    run(recipe, folder, prepared=ready, is_resumed=True, is_quiet=True, bars=Bars())
    return None


def test_a_folder_that_a_worker_does_not_see_is_named(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    folder = tmp_path / "gone" / "none" / "seed-0"
    error = ray_sweep.train_task(tiny_data.recipe, folder, 30, tiny_data, None, "none, seed 0")
    assert isinstance(error, ConfigurationError) and "is not seen by a worker" in str(error)
