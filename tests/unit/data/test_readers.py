"""Files to tables: what is read, what is refused, and that each message names its place."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.context import EncodedContext, encode_records, encode_table, infer_schema
from contextual_bert.data import SetPolicy, SetTable, read_sets, read_table
from contextual_bert.errors import DataError

ROWS = [
    {"items": ["coat", "hat"], "age": 34, "date": "2016-03-05"},
    {"items": ["hat"], "age": None, "date": "2016-03-06"},
]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def as_lists(sets: SetTable) -> list[list[str]]:
    values = sets.values.to_pylist()
    return [values[start:stop] for start, stop in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)]


# --- the same table from every kind of source


def test_every_source_gives_the_same_sets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, tmp_path / "days.parquet")
    write(tmp_path / "days.csv", 'items,age,date\n"coat, hat",34,2016-03-05\nhat,,2016-03-06\n')
    line = (
        '{"items": ["coat", "hat"], "age": 34, "date": "2016-03-05"}\n\n'
        '{"items": ["hat"], "age": null, "date": "2016-03-06"}\n'
    )
    write(tmp_path / "days.jsonl", line)
    write(tmp_path / "days.ndjson", line)
    shuffled = datasets.Dataset.from_list([ROWS[1], ROWS[0]]).select([1, 0])
    paths = [tmp_path / name for name in ("days.parquet", "days.csv", "days.jsonl", "days.ndjson")]
    for source in (*paths, str(paths[0]), table, shuffled):
        read = read_table(source)
        sets = read_sets(read, items="items", policy=SetPolicy())
        assert as_lists(sets) == [["coat", "hat"], ["hat"]]
        assert read.column("age").to_pylist() == [34, None]
    assert (
        read_table(paths[1]).schema.field("date").type == read_table(paths[2]).schema.field("date").type == pa.date32()
    )


@pytest.mark.parametrize(
    ("plain", "view"),
    [
        (pa.array(["a", None, "b"]), pa.string_view()),
        (pa.array([["a", "b"], None, ["c", "d"]]), pa.list_(pa.string_view())),
        (pa.array([["a", "b"], None, ["c", "d"]]), pa.list_(pa.string(), 2)),
        (pa.array([["a", "b"], None, ["c", "d"]]), pa.list_(pa.string_view(), 2)),
    ],
    ids=str,
)
def test_text_of_any_layout_becomes_plain(plain: pa.Array, view: pa.DataType) -> None:
    found = read_table(pa.table({"id": [1, 2, 3], "words": pa.array(plain.to_pylist(), view)})).column("words")
    assert found.to_pylist() == plain.to_pylist()
    assert found.type in (pa.large_string(), pa.large_list(pa.large_string()), pa.large_list(pa.string()))


def test_views_behind_codes_become_plain_and_vectors_stay() -> None:
    colours = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1], pa.uint32()), pa.array(["a", "b"], pa.string_view())
    )
    points = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    found = read_table(pa.table({"colours": colours, "points": points}))
    assert found.column("colours").to_pylist() == ["a", None, "b"]
    assert found.column("colours").cast(pa.string()).to_pylist() == ["a", None, "b"]  # arrow cannot, of views
    assert found.column("points").type == points.type


def test_csv_types_lose_nothing(tmp_path: Path) -> None:
    text = (
        "code,whole,price,flag,country,big,when,mixed\n"
        "010101,3,1.5,true,NA,99999999999999999999,2016-03-05T10:00,1\n"
        "020202,-4,NaN,FALSE,,1,2016-03-06 11:30:05,x\n"
    )
    table = read_table(write(tmp_path / "types.csv", text))
    assert table.to_pydict()["code"] == ["010101", "020202"]
    assert table.to_pydict()["whole"] == [3, -4]
    assert table.to_pydict()["price"] == [1.5, None]
    assert table.to_pydict()["flag"] == [True, False]
    assert table.to_pydict()["country"] == ["NA", None]
    assert table.to_pydict()["big"] == ["99999999999999999999", "1"]
    assert table.schema.field("when").type == pa.timestamp("us")
    assert table.to_pydict()["mixed"] == ["1", "x"]


def test_a_csv_cell_may_hold_a_line_break_and_the_file_a_byte_order_mark(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", b'\xef\xbb\xbfname,age\n"two\nlines",5\n'))
    assert table.to_pydict() == {"name": ["two\nlines"], "age": [5]}


def test_json_times_with_a_zone_keep_the_day_as_written(tmp_path: Path) -> None:
    late = [f"2016-03-{5 + day:02}T22:30:00-05:00" for day in range(3)]
    rows = [
        {"when": time, "utc": "2016-03-05T22:30:00Z", "local": "2016-03-05 22:30", "day": "2016-03-05"} for time in late
    ]
    lines = read_table(write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    cells = read_table(write(tmp_path / "a.csv", "when\n" + "\n".join(late)))
    assert lines.column_names == ["when", "utc", "local", "day"]
    assert lines["when"].to_pylist() == cells["when"].to_pylist() == late
    assert lines.schema.types[1:] == [pa.timestamp("s"), pa.timestamp("s"), pa.date32()]
    assert set(lines["utc"].to_pylist()) == set(lines["local"].to_pylist()) == {datetime.datetime(2016, 3, 5, 22, 30)}
    schema = infer_schema(lines.select(["when"]), overrides={"when": "weekday"}).schema
    assert schema.names == ("when_weekday",)
    of_records = encode_records(schema, lines.select(["when"]).to_pylist()).tensors["when_weekday"]
    assert encode_table(schema, lines).tensors["when_weekday"].tolist() == of_records.tolist() == [7, 8, 2]


def test_json_lists_of_dates_are_lists_of_text(tmp_path: Path) -> None:
    lines = '{"items": ["2016-03-05", "2016-03-06"], "age": 3}\n{"items": null, "age": 4}\n{"items": [], "age": 5}\n'
    table = read_table(write(tmp_path / "a.jsonl", lines))
    assert table["items"].to_pylist() == [["2016-03-05", "2016-03-06"], None, []]
    assert table["age"].to_pylist() == [3, 4, 5]


@pytest.mark.parametrize("cells", [("2019", "7"), ("1.50", ".5"), ("TRUE", "NA"), ("2016-03-05", "2016-03-06")])
def test_a_column_wanted_as_text_is_spelt_as_in_a_csv_file(tmp_path: Path, cells: tuple[str, str]) -> None:
    path = write(tmp_path / "a.csv", "text,stars,other\n" + "".join(f"{cell},5,{cell}\n" for cell in cells) + ",4,\n")
    table = read_table(path, text_columns=("text", None, "absent"))
    assert table.to_pydict() == {**read_table(path).to_pydict(), "text": [*cells, None]}
    assert table.schema.types == [pa.string(), pa.int64(), read_table(path).schema.field("other").type]
    assert not pa.types.is_string(table.schema.field("other").type)


def test_a_column_wanted_as_text_is_spelt_as_in_a_file_of_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "2016-03-05", "day": "2016-03-05", "stars": 5}\n')
    table = read_table(path, text_columns=["text", "stars"])
    assert table.to_pydict() == {"text": ["2016-03-05"], "day": [datetime.date(2016, 3, 5)], "stars": [5]}


def test_a_category_of_one_csv_file_is_that_of_another(tmp_path: Path) -> None:
    mixed = "member,size\n" + "TRUE,1.50\nFALSE,beta\nn/a,2.0\n" * 20
    typed = "member,size\n" + "TRUE,1.5\nFALSE,2.00\n" * 30
    tables = {name: read_table(write(tmp_path / f"{name}.csv", text)) for name, text in (("a", mixed), ("b", typed))}
    assert tables["b"].schema.types == [pa.bool_(), pa.float64()]
    for taught, other, member in (("a", "b", "TRUE"), ("b", "a", "true")):
        schema = infer_schema(tables[taught], overrides={"size": "categorical"}).schema
        assert schema.feature("member").vocabulary.id_of(member) is not None
        encoded, records = (encode(schema, rows) for encode, rows in _both(tables[other]))
        for found in (encoded, records):
            assert found.unknown == ({} if taught == "a" else {"member": {"n/a": 20}, "size": {"beta": 20}})
            assert found.tensors["member"][0] == schema.feature("member").vocabulary.id_of(member)


def _both(table: pa.Table) -> tuple[tuple[Callable[..., EncodedContext], Any], ...]:
    return (encode_table, table), (encode_records, table.to_pylist())


# --- broken files


@pytest.mark.parametrize(
    ("name", "content", "row", "column", "says"),
    [
        ("empty.csv", "", None, None, "the file is empty"),
        ("empty.jsonl", "", None, None, "the file is empty"),
        ("header.csv", "a,b\n", None, None, "the table has no rows"),
        ("header.csv", "a,b", None, None, "the table has no rows"),
        ("broken.csv", "a,b\n1,2\n1,2,3\n", 1, None, "3 cells where the header has 2: '1,2,3'"),
        ("quote.csv", 'a,b\n1,2\n"1,2\n3,4\n', 1, None, "a double quote is opened and never closed"),
        ("swallow.csv", 'a,b\n1,2\n3,"4\n5,6\n7,8\n', 1, None, "a double quote is opened and never closed"),
        ("twice.csv", "a,a\n1,2\n", None, "a", "occurs more than once"),
        ("several.csv", "a;b|c\n1;2|3\n", None, None, "the header has ';' and '|'"),
        (
            "latin.csv",
            b"a,b\n1,x\n\n1,caf\xe9\n",
            1,
            "b",
            "the cell is not in UTF-8: 'caf\ufffd'. Save it as",
        ),
        ("wide.csv", b"a,b\n1,x\n1,\xff,3\n", 1, "b", "the cell is not in UTF-8"),
        (
            "name.csv",
            "a,caf\xe9\n1,2\n".encode("latin-1"),
            None,
            None,
            "a column is not in UTF-8: 'caf\ufffd'. Save it as",
        ),
        ("unmarked.csv", "a,b\n1,2\n".encode("utf-16-le"), None, None, "the file is in UTF-16"),
        ("end.csv", b"a,b\n1,\xc3", 0, "b", "the cell is not in UTF-8"),
        ("long.csv", b"a,b\n" + b"x" * 200_000 + b",\xff\n", 0, "b", "line 2, column 'b': the cell is not in UTF-8"),
        ("broken.jsonl", '{"a": 1}\n\n{"a": 2\n', 1, None, "line 3: this is not valid JSON"),
        ("list.jsonl", '{"a": 1}\n[1]\n', 1, None, "line 2: this is a list, not an object"),
        (
            "kinds.jsonl",
            '{"a": 1}\n{"a": "x"}\n',
            1,
            "a",
            "line 2, column 'a': this is a string (\"x\"), the lines before hold a number",
        ),
        (
            "deep.jsonl",
            '{"a": {"b": [1]}}\n{"a": {"b": ["x"]}}\n',
            1,
            "a",
            "line 2, column 'a': a.b: this is a list with a string",
        ),
        ("object.jsonl", '{"a": {"b": 1}}\n{"a": {"b": {"c": 1}}}\n', 1, "a", "a.b: this is an object"),
        ("empty.jsonl", '{"a": []}\n{"a": "x"}\n', 1, "a", 'this is a string ("x"), the lines before hold a list'),
        ("inner.jsonl", '{"a": ["x"]}\n{"a": []}\n{"a": ["y", 3]}\n', 2, "a", "a list with a number"),
        ("broken.parquet", "not parquet at all", None, None, "not a whole Parquet file"),
        ("days.xlsx", "x", None, None, "'.xlsx' are not read"),
    ],
)
def test_a_broken_file_is_named_with_its_place(tmp_path: Path, name: str, content, row, column, says: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read_table(path)
    error = caught.value
    assert (error.file, error.row, error.column) == (str(path), row, column)
    assert says in str(error)
    assert error.fix.endswith(".")


def test_a_parquet_file_with_a_name_twice_says_so(tmp_path: Path) -> None:
    parquet.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "twice.parquet"
    )
    with pytest.raises(DataError, match="occurs more than once") as caught:
        read_table(tmp_path / "twice.parquet")
    assert caught.value.column == "a"


def test_an_odd_number_of_quotes_within_cells_is_no_fault(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "pipe.csv", 'size,age\n5" pipe,3\n')).to_pydict() == {
        "size": ['5" pipe'],
        "age": [3],
    }


def test_a_missing_file_gets_a_suggestion_and_a_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "days.csv", "a\n1\n")
    with pytest.raises(DataError, match=r"no such file.*Did you mean 'days\.csv'"):
        read_table(tmp_path / "day.csv")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(DataError, match="this is a folder"):
        read_table(tmp_path / "folder.parquet")


def test_other_objects_are_refused() -> None:
    with pytest.raises(DataError, match=r"Choose one of them.*dataset\['train'\]"):
        read_table({"train": None, "test": None})  # pyright: ignore
    with pytest.raises(DataError, match=r"a list is not a table\. Give a pyarrow\.Table, a pandas"):
        read_table([1])  # pyright: ignore
    with pytest.raises(DataError, match="no rows"):
        read_table(pa.table({"a": pa.array([], pa.int64())}))
