"""Other layouts, delimiters and compressions; broken rows that are left out and counted; rows as an editor counts."""

import bz2
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.data import (
    ReadSettings,
    SetPolicy,
    read_sets,
    read_table,
    reading_lines,
    table_digest,
    write_table,
)
from contextual_bert.errors import ConfigurationError, DataError

ROWS = [{"items": "a;b", "age": 34}, {"items": "c", "age": 51}]
DROP = ReadSettings(on_bad_row="drop")


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
COLUMNS = json.dumps({"items": {"0": "a;b", "1": "c"}, "age": {"0": 34, "1": 51}})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "items,age\na;b,34\nc,51\n"),
        ("a.tsv", "items\tage\na;b\t34\nc\t51\n"),
        ("a.tsv", "items,age\na;b,34\nc,51\n"),
        ("b.csv", "items\tage\na;b\t34\nc\t51\n"),
        ("c.csv", "items|age\r\na;b|34\r\nc|51\r\n"),
        ("d.csv", 'items;age\n"a;b";34\nc;51\n'),
        ("a.json", json.dumps(ROWS)),
        ("b.json", json.dumps(ROWS, indent=2)),
        ("c.json", f"\ufeff{json.dumps(ROWS)}\n\n"),
        ("d.json", LINES),
        ("e.json", COLUMNS),
        ("f.json", json.dumps({"0": ROWS[0], "1": ROWS[1]})),
        ("g.json", json.dumps({"items": ["a;b", "c"], "age": [34, 51]})),
        ("a.csv.gz", gzip.compress(b"items,age\na;b,34\nc,51\n", mtime=0)),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("a.json.bz2", bz2.compress(json.dumps(ROWS).encode())),
        ("a.tsv.zst", pa.compress(b"items\tage\na;b\t34\nc\t51\n", codec="zstd", asbytes=True)),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[:7] and len(value) < 12 else "",
)
def test_the_same_table_of_each_layout(tmp_path: Path, name: str, content: str | bytes) -> None:
    table = read_table(write(tmp_path / name, content))
    assert table.to_pylist() == ROWS
    assert table.schema.field("age").type == pa.int64()


def test_a_delimiter_is_said_where_it_was_found_and_asked_for_where_it_was_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "items;age\nc;51\n")
    assert reading_lines(read_table(path)) == [f"{path}: the cells are separated by ';'"]
    several = write(tmp_path / "b.csv", "items;age|size\na;3|4\n")
    with pytest.raises(DataError, match=r"the header has ';' and '\|', and no ','.*--delimiter"):
        read_table(several)
    assert read_table(several, settings=ReadSettings(delimiter=";")).column_names == ["items", "age|size"]
    assert read_table(several, settings=ReadSettings(delimiter="|")).column_names == ["items;age", "size"]
    with pytest.raises(DataError, match=r"the header has no '\|' between its columns, and it has ';'"):
        read_table(path, settings=ReadSettings(delimiter="|"))
    report = read_sets(read_table(path), items="items", policy=SetPolicy()).report
    assert report.lines()[0].endswith("the cells are separated by ';'")


@pytest.mark.parametrize("delimiter", ["", ";;", "a", '"', "\n", 3])
def test_a_delimiter_is_one_character(delimiter: object) -> None:
    with pytest.raises(ConfigurationError, match="delimiter="):
        ReadSettings(delimiter=delimiter)  # pyright: ignore


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", "[]", "the array is empty"),
        ("a.json", "[1, 2]", "element 1 of the array is a number and no object"),
        ("a.json", '[{"a": 1},\n {"a": 2,,}]', "not valid JSON at line 2"),
        ("a.json", '[{"a": 1}', "a comma or ']' is missing"),
        ("a.json", '[{"a": 1}] [', "something follows the array"),
        ("a.json", '{"a": 1}', "it is one object, and no array"),
        ("a.json", '{"columns": ["a"], "index": [0], "data": [[1]]}', "orient='split'"),
        ("a.json", '{"schema": {}, "data": []}', "orient='table'"),
        ("a.json", '{"1": {"0": 3}}', "do not say which"),
        ("a.json", '{"a": {"x": 3}, "b": {"y": 3}}', "do not have the same keys"),
        ("a.json", '{"a": [{"b": 1, "b": 2}]}', "an object names 'b' twice"),
        ("a.json", "true", "it begins with 'true'"),
        ("a.csv.gz", b"a,b\n1,2\n", "not packed as its name says, or damaged"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], "not packed as its name says, or damaged"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
        ("a.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "this is packed, .* a name that ends in .gz"),
        ("a.csv.zip", b"PK", "files that end in '.zip' are not read.*.gz, .bz2, .zst"),
        ("a.parquet.gz", b"x", "packed Parquet files are not read"),
        ("a.jsonl", b'{"a": "caf\xe9"}', "line 1 is not in UTF-8"),
        ("a.jsonl", '{"a": 1e400}\n', "1e400 is no finite number"),
        ("a.jsonl", '{"a": 1, "a": 2}\n', "an object names 'a' twice"),
    ],
)
def test_what_is_not_read_is_said(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_table(write(tmp_path / name, content))
    assert caught.value.fix.endswith(".")


# --- broken rows


def test_broken_rows_of_csv_are_counted_and_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'a,b\n1,x\n1,2,3\n2,"y\nz"\n3\n4,w\n')
    with pytest.raises(DataError, match=r"a\.csv, line 3: 3 cells where the header has 2.*--on-bad-row drop"):
        read_table(path)
    table = read_table(path, settings=DROP)
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y\nz"}, {"a": 4, "b": "w"}]
    assert reading_lines(table) == ["rows left out as broken: 2 with more or fewer cells than the header"]
    assert str(DataError("x", file=str(path), row=2)) == f"{path}, line 7: x"


def test_broken_lines_of_json_are_counted_by_reason(tmp_path: Path) -> None:
    deep = '{"a": ' + "[" * 200 + "]" * 200 + "}"
    bad = ['{"a": "odd"}', '{"a": 1', "[1]", deep]
    path = write(tmp_path / "a.jsonl", "\n".join([bad[0], '{"a": 1}', bad[1], "", '{"a": 2}', *bad[2:], '{"a": 3}']))
    table = read_table(path, settings=DROP)
    assert table["a"].to_pylist() == [1, 2, 3]
    assert reading_lines(table) == [
        "rows left out as broken: 1 with too many brackets, 2 that are no JSON objects, 1 with another kind of value "
        "than most"
    ]
    assert str(DataError("x", file=str(path), row=2)) == f"{path}, line 8: x"
    with pytest.raises(DataError, match="no line is a JSON object"):
        read_table(write(tmp_path / "b.jsonl", "{\n["), settings=DROP)


def test_sets_with_an_item_that_is_none_are_counted_and_left_out() -> None:
    table = pa.table({"items": [["a", "b"], ["a", None], ["a", " "], None, ["b"]]})
    with pytest.raises(DataError, match="row 2, column 'items': item 2 of 2 is missing"):
        read_sets(table, items="items", policy=SetPolicy())
    report = read_sets(table, items="items", policy=SetPolicy(), on_bad_row="drop").report
    assert report.rows_dropped == {"with a missing or empty item": 2, "empty in the table": 1}
    assert (report.rows_kept, report.rows_in) == (2, 5)
    text = pa.table({"items": ["a,b", "a,,b", "c"]})
    assert read_sets(text, items="items", policy=SetPolicy(), on_bad_row="drop").rows.tolist() == [0, 2]


def test_the_hash_of_a_table_does_not_change_with_how_it_was_told(tmp_path: Path) -> None:
    plain = read_table(write(tmp_path / "a.csv", "a,b\n1,x\n"))
    assert table_digest(plain) == table_digest(read_table(write(tmp_path / "b.csv", "a;b\n1;x\n")))
    assert table_digest(plain) == table_digest(read_table(write(tmp_path / "c.csv", "a,b\n1,x\n1\n"), settings=DROP))


def test_what_was_noted_of_one_file_is_not_written_into_another(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", "a;b\n1.10;x\n1.1;y\n"), code_columns=("a",))
    write_table(table, tmp_path / "b.parquet")
    again = read_table(tmp_path / "b.parquet")
    assert again.to_pylist() == table.to_pylist()
    assert reading_lines(table) != reading_lines(again) == []
    assert (again.schema.metadata, again.schema.field("a").metadata) == (None, None)


# --- rows as an editor counts them


@pytest.mark.parametrize(
    ("name", "content", "row", "place"),
    [
        ("a.csv", "a\n1\n2\n", 1, "line 3"),
        ("a.csv", "a,b\n\n1,x\n\n\n2,y\n", 1, "line 6"),
        ("a.csv", 'a,b\n1,"x\n\ny"\n2,z\n', 1, "line 5"),
        ("a.csv", 'a,b\n\n1,"x\ny"\n2,z\n', 1, "row 2"),
        ("a.csv", "a\r\n1\r\n2\r\n", 1, "line 3"),
        ("a.csv.gz", gzip.compress(b"a\n1\n2\n", mtime=0), 0, "line 2"),
        ("a.jsonl", '{"a": 1}\n\n{"a": 2}\n', 1, "line 3"),
        ("a.json", '[{"a": 1},\n{"a": 2}]', 1, "row 2"),
    ],
)
def test_a_row_is_the_line_of_an_editor_where_that_is_known(
    tmp_path: Path, name: str, content: str | bytes, row: int, place: str
) -> None:
    path = write(tmp_path / name, content)
    read_table(path)
    text = str(DataError("is wrong", file=str(path), row=row, fix="Mend it."))
    assert text.startswith(f"{path}, {place}: is wrong. Mend it.")
    assert ("Rows count from 1" in text) == place.startswith("row")


def test_an_earlier_reading_of_a_file_says_nothing_of_a_later_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '\n\n{"a": 1}\n')
    read_table(path)
    read_table(write(path, '{"a": 1}\n{"a": 2} {"a": 3}\n'))
    assert str(DataError("x", file=str(path), row=0)) == f"{path}, row 1: x. Rows count from 1."
