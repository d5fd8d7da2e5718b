"""Runs of a study beside each other: the same digits, and nothing goes on or is lost where one fails."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.utils import logging

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.runs import SetCompletionTask, as_row, is_complete, sweep
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.training import Recipe


def recipes_of(tiny_data: SetCompletionTask, *, num_epochs: int = 1) -> list[Recipe]:
    base = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": num_epochs})
    return [as_row(base, name) for name in ("none", "global_state_update", "popularity")]


@pytest.fixture
def one_thread() -> Generator[None]:
    """Sums are split by threads, so digits are those of as many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_beside_each_other_gives_the_digits_of_one_after_the_other(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    planned = [(recipe, tiny_data) for recipe in recipes_of(tiny_data)]
    said: list[str] = []
    beside = train_missing(planned, tmp_path / "beside", num_jobs=2, say=said.append)
    done = [sentence for sentence in said if ": training: " not in sentence]
    assert sorted(done) == sorted(f"{run_directory(tmp_path / 'beside', recipe)}: trained" for recipe, _ in planned)
    alone = train_missing(planned, tmp_path / "alone", say=said.append)
    for one, other in zip(beside, alone, strict=True):
        assert (one.name, one.role) == (other.name, other.role)
        assert one.scores.log_probability.tolist() == other.scores.log_probability.tolist()
    assert not multiprocessing.active_children()
    said.clear()
    train_missing(planned, tmp_path / "beside", num_jobs=2, say=said.append)
    assert all("complete, not run again" in sentence for sentence in said)


@pytest.mark.slow
def test_the_first_failure_ends_the_others(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    first, second, _ = recipes_of(tiny_data, num_epochs=10_000)
    diverging = replace(first, training={**first.training, "num_train_epochs": 1, "learning_rate": 1e30})
    said: list[str] = []
    with pytest.raises(DataError, match="training that diverged") as caught:
        train_missing([(diverging, tiny_data), (second, tiny_data)], tmp_path, num_jobs=2, say=said.append)
    assert said[-1] == "none, seed 0 failed; what runs beside it stops and goes on at its last checkpoint"
    assert "in train_as_told" in caught.value.__notes__[0]  # where it happened, for whoever looks for a bug
    assert not multiprocessing.active_children()
    assert not is_complete(run_directory(tmp_path, second))


@pytest.mark.slow
def test_a_process_that_is_killed_is_spoken_of(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    planned = [(recipe, tiny_data) for recipe in recipes_of(tiny_data, num_epochs=10_000)[:2]]
    address = tiny_data.datasets["train"].input_ids.data_ptr()

    def kill() -> None:
        while not (started := multiprocessing.active_children()):
            time.sleep(0.05)
        os.kill(next(each.pid for each in started if each.pid), signal.SIGKILL)  # either of the two

    killer = threading.Thread(target=kill)
    killer.start()
    killed = r"of (none|global_state_update), seed 0 ended with code -9 and wrote no run\. Mostly .* memory"
    with pytest.raises(ConfigurationError, match=killed):
        train_missing(planned, tmp_path, num_jobs=2, say=lambda _: None)
    killer.join()
    assert not multiprocessing.active_children()
    # What was sent stays where it is: NumPy arrays that look at it would else read memory that was freed.
    assert tiny_data.datasets["train"].input_ids.data_ptr() == address


@pytest.mark.slow
def test_a_script_that_is_imported_again_is_told_so(tmp_path: Path, outfits: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from contextual_bert.runs import prepare, study\n"
        "from contextual_bert.training import Recipe, SetCompletion\n"
        "task = SetCompletion(items='items')\n"
        f"recipe = Recipe(data={str(outfits)!r}, task=task, customer='customer_id', conditioning='popularity')\n"
        "rows = [recipe, recipe.with_seed(1)]\n"
        "study('Two', rows, Path('runs'), prepared=prepare(recipe), num_jobs=2)\n"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "ended with code 1 and wrote no run. What it said stands above; a script that asks" in done.stderr


def test_what_cannot_be_is_found_before_anything_is_trained(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = recipes_of(tiny_data)
    train_missing([(recipes[2], tiny_data)], tmp_path, say=lambda _: None)
    monkeypatch.setattr(sweep, "run", lambda *_, **__: pytest.fail("trained"))
    other = replace(recipes[2], training={"num_train_epochs": 2})
    with pytest.raises(ConfigurationError, match=r"other settings .*training"):
        train_missing([(recipes[0], tiny_data), (other, tiny_data)], tmp_path)
    with pytest.raises(ConfigurationError, match=r"num_jobs=0 is not allowed. Give 1 or more"):
        train_missing([(recipes[0], tiny_data)], tmp_path, num_jobs=0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigurationError, match="torchrun trains each run in several processes"):
        train_missing([(recipes[0], tiny_data)], tmp_path, num_jobs=2)


class UnpicklableError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def test_a_process_takes_its_share_of_the_threads_and_tells_what_went_wrong(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, handler, threads = torch.get_num_threads(), signal.getsignal(signal.SIGINT), list[int]()

    def failing(*_: object, **__: object) -> None:
        threads.append(torch.get_num_threads())
        raise UnpicklableError(1, 2)

    monkeypatch.setattr(sweep, "run", failing)
    ours, theirs = multiprocessing.Pipe()
    ours.send((recipes_of(tiny_data)[0], tmp_path, None, 1, logging.get_verbosity(), dict(os.environ)))
    try:
        torch.set_num_threads(2)
        sweep.train_as_told(theirs)
    finally:
        torch.set_num_threads(before)
        signal.signal(signal.SIGINT, handler)
    assert threads == [1]
    told = ours.recv()
    assert isinstance(told, RuntimeError)
    assert "UnpicklableError: 1 and 2" in str(told)
