"""Several labels a text: every way in which a table may have them is one list of names, and what is none is named."""

from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.data.label_lists import with_label_lists, with_label_marks
from contextual_bert.errors import DataError


def read(column: Any, separator: str = ",") -> list[list[str]]:
    found = with_label_lists(pa.table({"text": ["x"] * len(column), "tags": column}), label="tags", separator=separator)
    return found.column("tags").to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        [["new", "red"], [], ["red"]],
        pa.array([["new", "red"], [], ["red"]], pa.large_list(pa.large_string())),
        pa.array([["new", "red", "new"], [], [" red "]]),
        ["new,red", "", "red"],
        [" new , red,new", None, "red,"],
        ["['new', 'red']", "[]", "['red']"],
        ['["new", "red"]', None, '["red"]'],
        pa.array(["new,red", None, "red"]).dictionary_encode(),
    ],
)
def test_all_spellings_are_the_same_labels(column: Any) -> None:
    assert read(column) == [["new", "red"], [], ["red"]]


def test_numbers_and_truth_values_are_names() -> None:
    assert read([[1, 3], [3]]) == [["1", "3"], ["3"]]
    assert read(pa.array([1, None, 3])) == [["1"], [], ["3"]]
    assert read([[True], [False]]) == [["true"], ["false"]]


def test_another_separator_is_asked_for() -> None:
    assert read(["a;b", "c"], ";") == [["a", "b"], ["c"]]
    with pytest.raises(DataError, match=r"no cell has ',' between its labels, and 2 of 3 have ';'"):
        read(["a;b", "c", "b;c"])


@pytest.mark.parametrize(
    ("column", "words", "row"),
    [
        ([["a"], None, ["b"]], r"the list is missing \(1 such row\)", 1),
        ([["a"], ["b", None]], "a label of the list is missing", 1),
        ([[0.5], [1.5]], "lists of double, which say no labels", None),
        ([[["a"]], [["b"]]], "which say no labels", None),
        ([0.5, 1.5], "the column is of type double, which says no labels", None),
        ([[], []], "no text has a label", None),
        (["", None], "no text has a label", None),
        (["['a']", "['b']", "so"], "'so' is no list", 2),
    ],
)
def test_what_says_no_labels_is_named(column: Any, words: str, row: int | None) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(column)
    assert caught.value.row == row


def test_an_unknown_label_is_named_by_its_row() -> None:
    table = pa.table({"tags": [["a"], [], ["b", "c"]]})
    marked = with_label_marks(table, label="tags", names=("c", "a", "b"))
    assert marked.column("tags").to_pylist() == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]
    with pytest.raises(DataError, match=r"the label 'c' is not among 'a', 'b'") as caught:
        with_label_marks(table, label="tags", names=("a", "b"))
    assert caught.value.row == 2
