"""A tiny stylist world, prepared once: data for everything that trains; and an empty folder that each test runs in."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contextual_bert.data import StylistWorld
from contextual_bert.evaluation import EvaluationSettings
from contextual_bert.evaluation.segments import CellLimit
from contextual_bert.runs import SetCompletionTask, prepare
from contextual_bert.training import Recipe, SetCompletion

TINY_MODEL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TINY_TRAINING = {"num_train_epochs": 2, "per_device_train_batch_size": 32, "per_device_eval_batch_size": 64}


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run all tests in an empty folder. Files of the checkout, such as a user's schema.json, must not answer them."""
    before = Path.cwd()
    folder = tmp_path_factory.mktemp("working")
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is computed once out of the user's cache, also in commands that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTEXTUAL_BERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def empty_working_folder(working_folder: Path) -> Iterator[None]:
    """Start each test in the working folder, and remove what the test leaves there."""
    os.chdir(working_folder)
    yield
    os.chdir(working_folder)
    for path in working_folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.fixture(scope="module", autouse=True)
def frozen_imports() -> None:
    """Take what is there out of the garbage collector's sight: each training collects, and the imports are a million
    objects, which take it longer than a small model takes to train.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def outfits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "outfits.parquet"
    pq.write_table(StylistWorld.generate(60).sample(240, seed=1), path)
    return path


@pytest.fixture(scope="session")
def tiny_recipe(outfits: Path) -> Recipe:
    return Recipe(
        data=str(outfits),
        task=SetCompletion(items="items"),
        customer="customer_id",
        validation=0.15,
        test=0.15,
        model=TINY_MODEL,
        training=TINY_TRAINING,
        device="cpu",
    )


@pytest.fixture(scope="session")
def tiny_data(tiny_recipe: Recipe) -> SetCompletionTask:
    return prepare(tiny_recipe)


@pytest.fixture
def cells_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of a handful of customers show each value, which they else do of ten customers or more."""
    monkeypatch.setattr(EvaluationSettings, "cells", property(lambda _: CellLimit(1, "customers")))
