"""A size of the outfit study that trains in seconds, and the recipes as modules."""

import importlib.util
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType

import pytest

from contextual_bert.runs.tasks import outfit_completion
from contextual_bert.runs.tasks.outfit_completion import Size


@pytest.fixture(scope="session")
def tiny_size() -> Size:
    return Size(
        num_items=60,
        num_training_outfits=150,
        num_validation_outfits=40,
        num_test_outfits=60,
        training={"num_train_epochs": 1, "per_device_train_batch_size": 64},
        baseline_training={"num_train_epochs": 1},
    )


@pytest.fixture(scope="module")
def tiny_study(tiny_size: Size) -> Generator[None]:
    """`size="tiny"` while a module's tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(outfit_completion.SIZES, "tiny", tiny_size)  # pyright: ignore[reportArgumentType]
        yield


@pytest.fixture(scope="session")
def recipe_module() -> Callable[[str], ModuleType]:
    """A file of recipes/, which is no package, by its name."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).parents[3] / "recipes" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
