"""The pages that register a constraint or a method leave none behind, or other tests would meet it."""

from contextual_bert.conditioning import METHODS
from contextual_bert.inference import CONSTRAINTS


def test_first_something_is_registered() -> None:
    CONSTRAINTS["of a page"] = CONSTRAINTS["allow"]
    METHODS["of a page"] = METHODS["none"]


def test_then_it_is_gone() -> None:
    assert "of a page" not in CONSTRAINTS
    assert "of a page" not in METHODS
    assert next(iter(METHODS)) == "none"
