"""What is written is what `read_table` reads, whole or not at all."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.data import check_writable, read_table, write_table
from contextual_bert.errors import DataError

PLAIN = pa.table(
    {
        "text": ['a "b", c', "zwei\nZeilen", "ü"],
        "code": ["010", "0", None],
        "share": [0.25, None, 1e-9],
        "count": [1, 2, None],
        "day": [datetime.date(2016, 3, 5), None, datetime.date(1999, 1, 1)],
    }
)
LISTS = PLAIN.append_column("tags", pa.array([["O", None], [], ["B-x"]]))


@pytest.mark.parametrize(
    ("name", "table"), [("a.parquet", LISTS), ("a.jsonl", LISTS), ("a.NDJSON", LISTS), ("a.csv", PLAIN)]
)
def test_what_is_written_is_read(name: str, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "new" / name
    write_table(table, path)
    assert read_table(path).to_pylist() == table.to_pylist()
    write_table(table.slice(0, 1), path)
    assert read_table(path).num_rows == 1
    assert [each.name for each in path.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv"])
def test_a_number_that_is_none_is_missing_in_every_file(name: str, tmp_path: Path) -> None:
    table = pa.table({"share": [float("nan"), 0.5, None], "name": ["a", "b", "c"]})
    lists = pa.array([[0.5, float("nan")], None, []], pa.list_(pa.float32()))
    table = table if name == "a.csv" else table.append_column("shares", lists)
    write_table(table, tmp_path / name)
    found = read_table(tmp_path / name)
    assert found.column("share").to_pylist() == [None, 0.5, None]
    if name != "a.csv":
        assert found.column("shares").to_pylist() == [[0.5, None], None, []]
    assert name == "a.parquet" or b"nan" not in (tmp_path / name).read_bytes().lower()


def test_no_number_is_missing(tmp_path: Path) -> None:
    write_table(pa.table({"share": [float("nan"), 0.5]}), tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text("utf-8").splitlines() == ['{"share": null}', '{"share": 0.5}']


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("a.csv", LISTS, "column 'tags': a cell of CSV holds no list.*ends in .parquet"),
        ("a.xlsx", PLAIN, r"'.xlsx' are not written. Give a file that ends in one of: .csv, .jsonl"),
        ("folder.csv", PLAIN, "this is a folder"),
        ("a.jsonl", pa.table({"share": [float("inf")]}), "cannot be written"),
    ],
)
def test_what_a_file_cannot_hold(name: str, table: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=message):
        write_table(table, tmp_path / name)
    assert [each.name for each in tmp_path.iterdir()] == ["folder.csv"]
    if "cannot" not in message:
        with pytest.raises(DataError, match=message):
            check_writable(tmp_path / name, table.schema)
