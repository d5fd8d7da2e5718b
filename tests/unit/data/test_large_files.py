"""The first rows of a large file are those that reading all of it gives; of other files there are none."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.data import ReadSettings, large_files, read_table

SETTINGS = ReadSettings()


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_files, "_NUM_ROWS", 10)
    monkeypatch.setattr(large_files, "_NUM_BYTES", 100)


def written(path: Path, *, num_rows: int, note: str = "plain") -> Path:
    rows = [f'{number},item-{number},"{note}"' for number in range(num_rows)]
    content = "\n".join(["number,item,note", *rows, ""]).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize("note", ["plain", "two\nlines", "a, comma"])
def test_the_first_rows_of_a_file_of_text(tmp_path: Path, name: str, note: str) -> None:
    path = written(tmp_path / name, num_rows=300, note=note)
    found = large_files.read_first_rows(path, settings=SETTINGS)
    assert found is not None and 0 < found.table.num_rows < 10
    assert found.share == f"the first {found.table.num_rows} rows"
    assert found.table.equals(read_table(path).slice(0, found.table.num_rows))


def test_the_first_rows_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"number": {number}, "items": ["a"]}}\n' for number in range(50)), encoding="utf-8")
    found = large_files.read_first_rows(path, settings=SETTINGS)
    assert found is not None and found.table.equals(read_table(path).slice(0, found.table.num_rows))


def test_the_first_rows_of_parquet(tmp_path: Path) -> None:
    table = pa.table({"number": range(21), "items": [["a"]] * 21})
    parquet.write_table(table, tmp_path / "rows.parquet")
    found = large_files.read_first_rows(tmp_path / "rows.parquet", settings=SETTINGS)
    assert found is not None and found.share == "the first 10 of 21 rows"
    assert found.table.equals(table.slice(0, 10))


def test_other_files_have_none(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"number": range(20)}), tmp_path / "rows.parquet")
    one_cell = tmp_path / "cell.csv"
    one_cell.write_text('number,note\n1,"' + "x\n" * 500 + '"\n', encoding="utf-8")
    wide = tmp_path / "wide.csv"
    wide.write_bytes("\n".join(["number", *map(str, range(500))]).encode("utf-16"))
    lines = tmp_path / "array.json"
    lines.write_text("[" + ",".join(['{"number": 1}'] * 99) + "]", encoding="utf-8")
    small = written(tmp_path / "small.csv", num_rows=5)
    for path in (tmp_path / "rows.parquet", small, wide, lines, tmp_path, tmp_path / "absent.csv"):
        assert large_files.read_first_rows(path, settings=SETTINGS) is None, path
    found = large_files.read_first_rows(one_cell, settings=SETTINGS)
    assert found is None or found.table.num_rows == 0
