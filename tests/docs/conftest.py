"""What a page registers to show how it is done is gone when the page is done."""

from collections.abc import Iterator
from typing import Any

import pytest

from contextual_bert.conditioning import METHODS
from contextual_bert.inference import CONSTRAINTS

REGISTRIES: tuple[dict[str, Any], ...] = (METHODS, CONSTRAINTS)


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """The registries as they were."""
    before = [dict(each) for each in REGISTRIES]
    yield
    for registry, kept in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(kept)
