"""Phrases in a column: lists and text that spells them, what is no phrase, and where tokens are of one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data.phrases import Phrases, read_phrases
from contextual_bert.errors import DataError, UnknownNameError

TEXTS = ["so", "New York is big", "Łódź", "so"]


def read(cell: Any, kind: pa.DataType | None = None) -> Phrases:
    """Read phrases of the second text, between texts without one."""
    table = pa.table({"text": TEXTS[:3], "names": pa.array([None, cell, None], kind)})
    return read_phrases(table, text="text", name="names")


@pytest.mark.parametrize(
    "cell",
    [
        [[0, 8], [12, 15]],
        [[12, 15], [0, 8]],
        [[0.0, 8.0], [12.0, 15.0]],
        "[[0, 8], [12, 15]]",
        " [[0,8],[12,15]] ",
        "[(0, 8), (12, 15)]",
        [[0, 9], [11, 15]],  # blanks at their ends
    ],
)
def test_lists_and_their_spellings(cell: Any) -> None:
    found = read(cell)
    assert (found.starts.tolist(), found.ends.tolist()) == ([0, 12], [8, 15])
    assert (found.offsets.tolist(), found.rows.tolist()) == ([0, 0, 2, 2], [1, 1])


@pytest.mark.parametrize(
    ("cell", "kind"),
    [(None, None), ("", None), ("  ", None), ("[]", None), ([], None), (None, pa.list_(pa.list_(pa.int64()))),
     ([], pa.list_(pa.list_(pa.int16(), 2)))],
)  # fmt: skip
def test_empty_cells_have_no_phrase(cell: Any, kind: pa.DataType | None) -> None:
    found = read(cell, kind)
    assert len(found) == 0 and found.offsets.tolist() == [0] * 4
    assert found.of_tokens(np.array([[0, 2]]), np.array([0])).tolist() == [-1]


def test_characters_are_counted_and_not_bytes() -> None:
    table = pa.table({"text": TEXTS, "names": [None, None, [[0, 4]], None]})
    assert len(read_phrases(table, text="text", name="names")) == 1
    with pytest.raises(DataError, match=r"\[0, 5\] leaves its text of 4 characters"):
        read_phrases(table.set_column(1, "names", pa.array([None, None, [[0, 5]], None])), text="text", name="names")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ([[0, 8], [7, 9]], r"the phrases \[0, 8\] and \[7, 9\] overlap"),
        ([[4, 8], [4, 8]], r"the phrases \[4, 8\] and \[4, 8\] overlap"),
        ([[3, 4]], r"the phrase \[3, 4\] has blanks alone"),
        ([[0, 16]], r"the phrase \[0, 16\] leaves its text of 15 characters"),
        ([[-1, 4]], r"the phrase \[-1, 4\] leaves its text"),
        ([[8, 0]], r"the phrase \[8, 0\] does not end behind its start"),
        ([[3, 3]], r"the phrase \[3, 3\] does not end behind its start"),
        ([[0, 1.5]], r"\[0.0, 1.5\] is no pair of whole numbers"),
        ([[0, float("nan")]], r"\[0.0, nan\] is no pair of whole numbers"),
        ([[0, 1, 2]], r"\[0, 1, 2\] is no pair"),
        ([[0]], r"\[0\] is no pair"),
        ([[]], r"\[\] is no pair"),
        ([[0, None]], r"\[0, None\] is no pair"),
        ([None], "None is no pair"),
        ("[[0, 8], [7, 9]]", "overlap"),
        ("[[0, 1.5]]", r"\[0, 1.5\] is no pair of whole numbers"),
        ("[[0, true]]", "no pair"),
        ('[["0", "2"]]', "no pair"),
        ("[0, 2]", "0 is no pair"),
        ("[[0, 99999999999999999999]]", "leaves its text"),
        ("New York", "'New York' is no list of phrases"),
        ("{}", "is no list of phrases"),
        ("[[0, 2]", "is no list of phrases"),
        ("[" * 100_000, "is no list of phrases"),
    ],
)
def test_what_is_no_phrase_is_named_with_its_place(cell: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(cell)
    error = caught.value
    assert (error.row, error.column) == (1, "names")
    assert "[[0, 5], [9, 20]]" in error.allowed and error.fix == "Correct the cell, or leave it empty."


@pytest.mark.parametrize("cell", [5, 1.5, True, ["a"], [["a", "b"]], [[True, False]], [[[0, 2]]], [{"a": 1}]])
def test_columns_of_another_type(cell: Any) -> None:
    with pytest.raises(DataError, match="the column is of type") as caught:
        read(cell)
    assert caught.value.column == "names"


def test_columns_that_are_not_there_and_lists_of_words() -> None:
    with pytest.raises(UnknownNameError, match="no column 'name'"):
        read_phrases(pa.table({"text": ["a"], "names": ["[]"]}), text="text", name="name")
    with pytest.raises(DataError, match="column 'text': phrases are places in a text"):
        read_phrases(pa.table({"text": [["a", "b"]], "names": ["[]"]}), text="text", name="names")


def test_a_token_is_of_the_first_phrase_that_has_a_character_of_it() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        bounds = [np.sort(generator.choice(30, 2 * generator.integers(0, 5), replace=False)) for _ in range(6)]
        phrases = Phrases(
            np.concatenate([each[::2] for each in bounds]),
            np.concatenate([each[1::2] for each in bounds]),
            np.concatenate([[0], np.cumsum([len(each) // 2 for each in bounds])]),
        )
        begin = generator.integers(0, 30, 40)
        characters = np.stack([begin, begin + generator.integers(1, 5, 40)], axis=1)
        rows = generator.integers(0, 6, 40)
        wanted = [
            next(
                (
                    int(number)
                    for number in np.flatnonzero(phrases.rows == row)
                    if phrases.starts[number] < end and phrases.ends[number] > start
                ),
                -1,
            )
            for (start, end), row in zip(characters, rows, strict=True)
        ]
        assert phrases.of_tokens(characters, rows).tolist() == wanted
