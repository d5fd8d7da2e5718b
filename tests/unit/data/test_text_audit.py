"""The audit of texts: which planted leaks it finds, and what it does not take for one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import Audit, Split, audit_texts, split_by_customer, split_by_row
from contextual_bert.data.text_audit import joined_words

ROWS = 600
DRAW = np.random.default_rng(0)
TABLE = pa.table(
    {
        "text": [f"text number {row}" for row in range(ROWS)],
        "second": [f"answer {number}" for number in DRAW.integers(0, 9, ROWS)],
        "label": [["bad", "good", "so-so"][number] for number in DRAW.integers(0, 3, ROWS)],
        "age": DRAW.integers(0, 12, ROWS),
        "who": [f"c{number}" for number in DRAW.integers(0, 200, ROWS)],
    }
)
SPLIT = split_by_customer(TABLE, "who", validation=0.2, test=0.2)


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, pa.array(values))
    return table.append_column(name, pa.array(values))


def audited(table: pa.Table, *, split: Split = SPLIT, columns: tuple[str, ...] = ("age",), **names: Any) -> Audit:
    return audit_texts(split, table, text="text", customer="who", columns=columns, **{"label": "label", **names})


def test_clean_texts_have_no_faults() -> None:
    found = audited(TABLE)
    assert found.faults == ()
    assert found.checked == (
        "equal texts in two parts (600 texts)",
        "customers in two parts (who)",
        "columns that tell the label (1)",
    )


def test_rows_in_no_part_are_no_part_of_their_own() -> None:
    """A split may leave rows out, those of a customer in the test among them."""
    keep = (SPLIT.assignment == 0) | (np.arange(ROWS) % 2 == 0)
    assert audited(TABLE, split=SPLIT.restricted(keep)).faults == ()


def copied(*names: str) -> tuple[pa.Table, int]:
    """A test text that is one of training, with these columns alike too and all others different."""
    train, test = int(SPLIT.rows("train")[3]), int(SPLIT.rows("test")[5])
    other = {"label": "unlike", "age": 99, "second": "unlike"}
    table = TABLE
    for name in ("text", *other):
        values = table.column(name).to_pylist()
        values[test] = values[train] if name in ("text", *names) else other[name]
        table = with_column(table, name, values)
    return table, test


def test_a_copied_text_is_a_leak_and_another_view_of_it_a_warning() -> None:
    table, test = copied("label", "age")
    [fault] = audited(table).faults
    assert (fault.kind, fault.severity, fault.count, fault.rows) == ("duplicate_text", "leak", 1, (test,))
    assert "word for word, 1 of them with the same label and the same value in 1 column" in fault.message
    table, test = copied("age")
    [fault] = audited(table).faults
    assert (fault.severity, fault.rows) == ("warning", (test,))
    assert "0 of them with the same label" in fault.message
    [fault] = audited(table, label=None, columns=()).faults
    assert fault.severity == "leak", "nothing tells the two apart"


def test_a_pair_is_equal_if_both_texts_are() -> None:
    assert audited(copied("label", "age")[0], pair="second").faults == ()
    [fault] = audited(copied("label", "age", "second")[0], pair="second").faults
    assert fault.kind == "duplicate_text"


def test_words_are_compared_in_their_order_and_nothing_is_no_text() -> None:
    words = [[f"word{row}", f"word{row + 1}"] for row in range(ROWS)]
    train, test = int(SPLIT.rows("train")[3]), int(SPLIT.rows("test")[5])
    words[test] = words[train][::-1]
    assert audited(with_column(TABLE, "text", words)).faults == ()
    words[test] = words[train]
    assert [fault.kind for fault in audited(with_column(TABLE, "text", words)).faults] == ["duplicate_text"]
    texts: list[Any] = TABLE.column("text").to_pylist()
    texts[train], texts[test] = None, None
    assert audited(with_column(TABLE, "text", texts)).faults == ()
    texts[train], texts[test] = " ", " "
    assert audited(with_column(TABLE, "text", texts)).faults == ()


def test_a_customer_in_two_parts_is_found() -> None:
    found = audited(TABLE, split=split_by_row(TABLE, validation=0.2, test=0.2))
    assert [(fault.kind, fault.severity) for fault in found.faults] == [("same_customer", "leak")]
    unnamed = audit_texts(SPLIT, TABLE, text="text")
    assert "NOT checked" in unnamed.checked[1]
    assert "NOT checked" in unnamed.checked[2]


@pytest.mark.parametrize(
    ("share", "severity"), [(1.0, "leak"), (0.3, "warning"), (0.05, None)], ids=["all", "some", "few"]
)
def test_a_column_that_tells_the_label_is_found(share: float, severity: str | None) -> None:
    generator = np.random.default_rng(1)
    marks = {"bad": "x", "good": "y", "so-so": "z"}
    told = np.arange(ROWS) < share * ROWS
    sign = [
        marks[label] if known else f"rest{number}"
        for label, known, number in zip(
            TABLE.column("label").to_pylist(), told, generator.integers(0, 5, ROWS), strict=True
        )
    ]
    faults = audited(with_column(TABLE, "sign", sign), columns=("age", "sign")).faults
    assert [fault.severity for fault in faults] == ([severity] if severity else [])
    for fault in faults:
        assert fault.kind == "column_determines_label"
        assert fault.count == told.sum()
        assert f"'sign' tells the label: in {share:.1%} of the rows" in fault.message


def test_a_label_that_nearly_all_have_is_told_by_nobody() -> None:
    rare = ["bad" if row % 200 == 0 else "good" for row in range(ROWS)]
    assert audited(with_column(TABLE, "label", rare)).faults == ()
    tags = [["O", "B"]] * ROWS
    assert audited(with_column(TABLE, "label", tags)).faults == ()


def test_lists_of_words_are_joined_and_all_else_stays() -> None:
    large = pa.chunked_array([pa.array([["a", "b"], None, []], type=pa.large_list(pa.large_string()))])
    assert joined_words(large).to_pylist() == ["a b", None, ""]
    numbers = pa.chunked_array([[1, 2]])
    assert joined_words(numbers) is numbers
