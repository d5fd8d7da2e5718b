"""Lists in JSON Lines that begin with a null, which arrow reads wrong where it has to find their type."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.data import read_table


def read_rows(folder: Path, rows: list[dict[str, Any]]) -> pa.Table:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_table(path)


@pytest.mark.parametrize(
    "cells",
    [
        [[None, "a"], ["b", "c"]],
        [[], [None], None, [None, None, "a"], ["b"]],
        [[None, 1], [2, 3]],
        [[None, 1.5], [2, 3]],
        [[None, True], [False]],
        [[None, None]],
        [[None, ["a"]], [["b", None]]],
        [[{"k": "a"}, {}], [{"k": None, "m": 2}, {"m": 3}]],
        [{"k": [None, 4]}, {"k": [5]}],
        [[None, "2019-01-07"], ["2019-01-08", None]],
    ],
    ids=str,
)
def test_a_null_at_the_start_of_a_list_moves_no_element(tmp_path: Path, cells: list[Any]) -> None:
    table = read_rows(tmp_path, [{"cell": cell, "n": n} for n, cell in enumerate(cells)])
    table.validate(full=True)
    assert without_nulls(table["cell"].to_pylist()) == without_nulls(cells)


def test_lists_with_nulls_anywhere_are_read_as_python_reads_them(tmp_path: Path) -> None:
    draw = random.Random(7)
    for kind in ("a", 1, 0.5, True):
        for _ in range(40):
            cells = [
                None
                if draw.random() < 0.3
                else [None if draw.random() < 0.5 else kind for _ in range(draw.randrange(4))]
                for _ in range(5)
            ]
            assert read_rows(tmp_path, [{"cell": cell, "n": 0} for cell in cells])["cell"].to_pylist() == cells


def test_nulls_in_all_of_a_first_block_leave_a_column_of_lists(tmp_path: Path) -> None:
    filler = "x" * 1000  # 17 MB: more than a block
    for first in (None, [None], []):
        rows = [{"cell": first, "filler": filler}] * 17_000 + [{"cell": [None, "a", "b"], "filler": ""}]
        found = read_rows(tmp_path, rows)["cell"]
        assert found.type == pa.list_(pa.string())
        assert (found[0].as_py(), found[-1].as_py()) == (first, [None, "a", "b"])


def without_nulls(value: Any) -> Any:
    """Objects without the names that say nothing: arrow adds those of the other objects."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
