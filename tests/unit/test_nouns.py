"""Nouns beside counts."""

import pytest

from contextual_bert.nouns import counted


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [
        (1, "epoch", "1 epoch"),
        (1.0, "epoch", "1 epoch"),
        (0.5, "epoch", "0.5 epochs"),
        (0, "other column", "0 other columns"),
        (1, "other column", "1 other column"),
        (1200, "company", "1,200 companies"),
    ],
)
def test_a_noun_is_in_the_singular_beside_one_alone(number: float, noun: str, shown: str) -> None:
    assert counted(number, noun) == shown
