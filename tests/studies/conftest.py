"""A size of the outfit study that trains in seconds."""

from collections.abc import Generator

import pytest

from studies import outfits
from studies.outfits import Size


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
        patch.setitem(outfits.SIZES, "tiny", tiny_size)  # pyright: ignore[reportArgumentType]
        yield
