"""What pandas and `datasets` leave in files: indexes, names of classes, time zones, long cells."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.context import encode_table, infer_schema
from contextual_bert.data import read_table, reading_lines
from contextual_bert.errors import DataError

pandas = pytest.importorskip("pandas")
FRAME = pandas.DataFrame({"sex": ["f", "m"] * 60, "age": range(20, 140)})


def features_of(table: pa.Table) -> tuple[str, ...]:
    return infer_schema(table).schema.names


def test_the_nameless_index_of_a_parquet_file_is_no_feature(tmp_path: Path) -> None:
    FRAME[FRAME.age % 7 != 0].to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert "__index_level_0__" in table.column_names
    assert "__index_level_0__" not in features_of(table)
    repeated = table.set_column(
        table.column_names.index("__index_level_0__"),
        "__index_level_0__",
        pa.array([1, 2] * (table.num_rows // 2) + [1] * (table.num_rows % 2)),
    )
    assert "__index_level_0__" not in features_of(repeated.replace_schema_metadata(None))
    assert "__index_level_0__" in infer_schema(repeated, overrides={"__index_level_0__": "categorical"}).schema.names


def test_an_index_with_a_name_is_no_feature_and_still_a_column(tmp_path: Path) -> None:
    FRAME.assign(visit=[1, 2, 3] * 40).set_index("visit").to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table["visit"].to_pylist()[:3] == [1, 2, 3]
    found = infer_schema(table)
    assert found.schema.names == ("sex",)
    assert next(note.reason for note in found.notes if note.column == "visit").startswith("the index of a pandas table")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_index_in_csv_is_no_feature_however_often_it_was_written(tmp_path: Path, times: int) -> None:
    frame, path = pandas.concat([FRAME[:40], FRAME[:40]]), tmp_path / "a.csv"
    for _ in range(times):
        frame.to_csv(path)
        frame = pandas.read_csv(path)
    assert features_of(read_table(path)) == ("sex", "age")
    named = pa.table({"Unnamed: 0": [0, 1] * 40, "sex": ["f", "m", "m", "f"] * 20})
    assert features_of(named) == ("sex",)


def test_a_column_without_a_name_that_holds_words_is_kept() -> None:
    assert features_of(pa.table({"Unnamed: 3": ["a", "b"] * 60})) == ("Unnamed: 3",)


# --- datasets


@pytest.fixture(params=["file", "memory"])
def labelled(request: Any, tmp_path: Path) -> pa.Table:
    datasets = pytest.importorskip("datasets")
    tags = datasets.ClassLabel(names=["O", "B-LOC", "I-LOC"])
    features = {
        "tags": datasets.Sequence(tags),
        "label": tags,
        "deep": datasets.Sequence(datasets.Sequence(tags)),
        "n": datasets.Value("int64"),
    }
    rows = {
        "tags": [[0, 1], [2], [], None],
        "label": [1, -1, None, 0],
        "deep": [[[0], [1]], [], None, [[2]]],
        "n": [0, 1, 2, 0],
    }
    source = datasets.Dataset.from_dict(rows, features=datasets.Features(features)).select([1, 0, 2, 3])
    if request.param == "memory":
        return read_table(source)
    source.to_parquet(tmp_path / "a.parquet")
    return read_table(tmp_path / "a.parquet")


def test_class_labels_have_their_names(labelled: pa.Table) -> None:
    assert labelled["tags"].to_pylist() == [["I-LOC"], ["O", "B-LOC"], [], None]
    assert labelled["label"].to_pylist() == [None, "B-LOC", None, "O"]
    assert labelled["deep"].to_pylist() == [[], [["O"], ["B-LOC"]], None, [["I-LOC"]]]
    assert labelled["n"].to_pylist() == [1, 0, 2, 0]


NAMES = '{"names": ["O", "LOC"], "_type": "ClassLabel"}'


@pytest.mark.parametrize(
    ("column", "feature", "expected"),
    [
        (pa.array([1.0, None, float("nan"), -1.0, 0.0]), NAMES, ["LOC", None, None, None, "O"]),
        (pa.array([1, 0, None], pa.float32()), NAMES, ["LOC", "O", None]),
        (pa.array([1, 0, 1]).dictionary_encode(), NAMES, ["LOC", "O", "LOC"]),
        (pa.array([1, 0], pa.decimal128(3, 0)), NAMES, ["LOC", "O"]),
        (pa.array(["O", "LOC"]), NAMES, ["O", "LOC"]),
        (pa.array([[1.0, 0.0], None, []]), f'{{"feature": {NAMES}, "_type": "Sequence"}}', [["LOC", "O"], None, []]),
        (
            pa.array([{"tag": 1, "n": 5}, None, {"tag": None, "n": 0}]),
            f'{{"tag": {NAMES}, "n": {{"dtype": "int64", "_type": "Value"}}}}',
            [{"tag": "LOC", "n": 5}, None, {"tag": None, "n": 0}],
        ),
        (
            pa.array([[{"tag": 1}, {"tag": 0}], []]),
            f'{{"feature": {{"tag": {NAMES}}}, "_type": "List"}}',
            [[{"tag": "LOC"}, {"tag": "O"}], []],
        ),
        (
            pa.array([{"tag": [1, 0]}, {"tag": []}]),
            f'{{"feature": {{"tag": {NAMES}}}, "_type": "Sequence"}}',
            [{"tag": ["LOC", "O"]}, {"tag": []}],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_names_of_classes_are_read_whatever_holds_their_numbers(column: pa.Array, feature: str, expected: list) -> None:
    told = {"huggingface": f'{{"info": {{"features": {{"label": {feature}}}}}}}'}
    table = pa.table({"label": column, "row": range(len(column))}).replace_schema_metadata(told)
    assert read_table(table)["label"].to_pylist() == expected


def test_half_a_class_is_an_error() -> None:
    told = {"huggingface": f'{{"info": {{"features": {{"label": {NAMES}}}}}}}'}
    with pytest.raises(DataError, match="column 'label': a number is no whole one"):
        read_table(pa.table({"label": [0.5, 1.0]}).replace_schema_metadata(told))


def test_a_class_without_a_name_is_an_error() -> None:
    told = {"huggingface": '{"info": {"features": {"label": {"names": ["O"], "_type": "ClassLabel"}}}}'}
    with pytest.raises(DataError, match="column 'label': the number 3 has no name"):
        read_table(pa.table({"label": [0, 3]}).replace_schema_metadata(told))


@pytest.mark.parametrize(
    "told", ["", "[]", '{"info": 3}', '{"info": {"features": {"label": {"_type": "ClassLabel", "names": 3}}}}']
)
def test_metadata_of_another_version_change_nothing(told: str) -> None:
    assert read_table(pa.table({"label": [0, 3]}).replace_schema_metadata({"huggingface": told}))[
        "label"
    ].to_pylist() == [0, 3]


# --- time zones and long cells


@pytest.mark.parametrize(
    ("zone", "hour"), [("UTC+09:00", 7), ("GMT+9", 7), ("+09:00", 7), ("Asia/Tokyo", 7), ("UTC-0530", 16), ("UTC", 22)]
)
def test_times_of_each_spelling_of_a_zone_are_read(tmp_path: Path, zone: str, hour: int) -> None:
    late = [datetime.datetime(2016, 3, 5 + day, 22, tzinfo=datetime.UTC) for day in range(20)]
    naive = pa.array([time.replace(tzinfo=None) for time in late], pa.timestamp("us"))
    parquet.write_table(pa.table({"when": naive.cast(pa.timestamp("us", tz=zone))}), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table["when"].to_pylist()[0].hour == hour
    schema = infer_schema(table).schema
    assert schema.names == ("when_weekday",)
    weekday = "Sunday" if hour == 7 else "Saturday"
    values = ["", "", *schema.feature("when_weekday").vocabulary.values]
    assert values[int(encode_table(schema, table).tensors["when_weekday"][0])] == weekday


def test_a_zone_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(DataError, match="column 'when': the times are of the zone 'Mars/Olympus', which is not known"):
        read_table(pa.table({"when": pa.array([0], pa.timestamp("us", tz="Mars/Olympus"))}))


FAR = 10**14  # seconds: three million years


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (pa.array([0, None, FAR], pa.timestamp("s")), 2),
        (pa.array([0, -FAR], pa.timestamp("s", tz="UTC")), 1),
        (pa.array([2_932_897], pa.date32()), 0),
        (pa.array([253_402_300_799], pa.timestamp("s", tz="Asia/Tokyo")), 0),
        (pa.array([[0], [FAR]], pa.list_(pa.timestamp("s"))), None),
    ],
    ids=["far", "past", "date", "local", "list"],
)
def test_a_time_beyond_the_calendar_is_an_error_with_its_row(tmp_path: Path, values: pa.Array, row: int | None) -> None:
    table = pa.table({"n": [0] * len(values), "when": values})
    parquet.write_table(table, tmp_path / "a.parquet")
    for read in (lambda: read_table(tmp_path / "a.parquet"), lambda: infer_schema(table)):
        with pytest.raises(DataError, match="beyond the years 1 to 9999") as caught:
            read()
        assert (caught.value.row, caught.value.column) == (row, "when")


def test_the_first_and_the_last_day_of_the_calendar_are_read() -> None:
    days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
    assert read_table(pa.table({"until": days}))["until"].to_pylist() == days


@pytest.mark.parametrize("megabytes", [3.5, 40])
def test_a_long_cell_is_a_cell(tmp_path: Path, megabytes: float) -> None:
    long = "x" * int(megabytes * 1e6)
    (tmp_path / "a.csv").write_text(f'a,b\n1,{long}\n2,"{long[:5]}\n"\n')
    (tmp_path / "a.jsonl").write_text(f'{{"b": "{long}"}}\n{{"b": "y"}}\n')
    assert read_table(tmp_path / "a.csv")["b"].to_pylist() == [long, f"{long[:5]}\n"]
    assert read_table(tmp_path / "a.jsonl")["b"].to_pylist() == [long, "y"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"PK\x03\x04\x14\x00", "this is a spreadsheet or a zip archive, .* save it as CSV in UTF-8"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "this is packed, whatever its name says. Give it a name that ends in .gz"),
        ("a.csv", b"PAR1\x15\x04PAR1", "this is a Parquet file, .* ends in .parquet"),
        ("a.csv", b"\n<!DOCTYPE html><html>404</html>", "this is an HTML or XML document"),
        ("a.csv.gz", b"items,age\na,3\n", "not packed as its name says, or damaged: .*Leave .gz out"),
        ("a.xlsx", b"PK", "'.xlsx' are not read. In the spreadsheet save it as CSV"),
        ("a.csv", b"Report 2024,,\n,,\nitems,x,y\na,1,2\n", "several columns have no name.*remove a title above it"),
        (
            "a.json",
            b'{"count": 2, "data": [{"items": ["a"]}, {"items": ["b"]}]}',
            "its rows stand in 'data' of an object",
        ),
        ("a.json", b'{"data": [{"items": ["a"]},\n{"items": ["b"]}]}\n', "its rows stand in 'data' of an object"),
    ],
)
def test_a_file_of_another_kind_is_told_as_such(name: str, content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_table(tmp_path / name)


def test_an_infinity_in_json_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"v": {v}}}\n' for v in ("1", "Infinity", "2")), encoding="utf-8")
    with pytest.raises(DataError, match="'v': inf is not a finite number"):
        infer_schema(read_table(path))
    path.write_text("".join(f'{{"v": {v}}}\n' for v in ("18446744073709551617", "Infinity")), encoding="utf-8")
    with pytest.raises(DataError, match=r"a.jsonl, line 2, column 'v': inf is not a value"):
        read_table(path)


def test_letters_that_were_read_wrongly_before_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for city in ("Köln", "Gießen", "Orléans"):
        broken = city.encode().decode("cp1252")
        path.write_text(f"items,city\na,{broken}\n", encoding="utf-8")
        (told,) = reading_lines(read_table(path))
        assert f"{broken}' were written as UTF-8 and read as something else" in told
        path.write_text(f"items,city\na,{city}\nb,SÃO PAULO\n", encoding="utf-8")
        assert reading_lines(read_table(path)) == []
