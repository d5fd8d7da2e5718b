"""Files of spreadsheets and shop systems: other encodings, rows that end without a name, a first line of their own."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import ReadSettings, SetPolicy, group_rows, read_sets, read_table, reading_lines
from contextual_bert.data.readers import without_gaps
from contextual_bert.data.reading_notes import rows_of_file
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.places import place_of_row


def written(tmp_path: Path, content: bytes | str, name: str = "shop.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", ["shop.csv", "shop.jsonl"])
def test_a_named_encoding_is_read(tmp_path: Path, name: str) -> None:
    text = "city,n\nKöln,1\n" if name.endswith(".csv") else '{"city": "Köln", "n": 1}\n'
    path = written(tmp_path, text.encode("cp1252"), name)
    with pytest.raises(DataError, match="not in UTF-8"):
        read_table(path)
    assert read_table(path, settings=ReadSettings(encoding="cp1252")).to_pylist() == [{"city": "Köln", "n": 1}]
    with pytest.raises(DataError, match=r"line \d is not in ascii"):
        read_table(path, settings=ReadSettings(encoding="ascii"))
    for unknown in ("latin-17", "base64", "", "undefined"):
        with pytest.raises(ConfigurationError, match="encoding="):
            ReadSettings(encoding=unknown)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_mark_of_byte_order_names_the_encoding(tmp_path: Path, encoding: str) -> None:
    table = read_table(written(tmp_path, "city,n\nKöln,1\n".encode(encoding)))
    assert table.to_pylist() == [{"city": "Köln", "n": 1}]
    assert any(f"read as {encoding.upper()}" in line for line in reading_lines(table)) == (encoding != "utf-8-sig")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["shop.csv", "shop.jsonl"])
def test_wide_characters_without_a_mark_are_named(tmp_path: Path, encoding: str, name: str) -> None:
    text = "city,n\nKöln,1\n" if name.endswith(".csv") else '{"city": "Köln", "n": 1}\n'
    path = written(tmp_path, text.encode(encoding), name)
    with pytest.raises(DataError, match=f"Give --encoding {encoding}"):
        read_table(path)
    assert read_table(path, settings=ReadSettings(encoding=encoding)).to_pylist() == [{"city": "Köln", "n": 1}]


def test_an_encoding_that_cannot_read_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not in idna"):
        read_table(written(tmp_path, "city,n\nKöln,1\n"), settings=ReadSettings(encoding="idna"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ends_of_rows_without_a_name_are_left_out(tmp_path: Path, end: str) -> None:
    table = read_table(written(tmp_path, end.join(["a,b", "1,x,", '2,"y,z",', ""])))
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y,z"}]
    assert "each row ends with a ',' that the header lacks" in reading_lines(table)[0]
    table = read_table(written(tmp_path, end.join(["a,b,,", "1,x,,", "2,y,,", ""])))
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    with pytest.raises(DataError, match="line 3: 3 cells where the header has 2"):
        read_table(written(tmp_path, end.join(["a,b", "1,x", "2,y,", ""])))
    with pytest.raises(DataError, match="line 2: 3 cells where the header has 2"):
        read_table(written(tmp_path, end.join(["a,b", "1,x,", "2,y,3,", ""])))
    with pytest.raises(DataError, match=r"several columns have no name.*remove a title"):
        read_table(written(tmp_path, end.join(["a,,", "1,x,y", ""])))


def test_a_first_line_for_the_spreadsheet_is_no_header(tmp_path: Path) -> None:
    path = written(tmp_path, "sep=;\r\na;b\r\n1;2\r\nx;y;z\r\n")
    with pytest.raises(DataError, match="line 4: 3 cells where the header has 2"):
        read_table(path)
    assert read_table(path, settings=ReadSettings(on_bad_row="drop")).to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("name", ["shop.csv", "shop.jsonl"])
def test_rows_keep_their_numbers_where_others_were_left_out(tmp_path: Path, name: str) -> None:
    cells = ["a,ann", "b", "c,", "d,bob", "e,f,g", "h,eve"]
    text = "item,who\n" + "\n".join(cells)
    if name.endswith(".jsonl"):
        lines = [
            '"item": "a", "who": "ann"',
            "",
            '"item": "c"',
            '"item": "d", "who": "bob"',
            "",
            '"item": "h", "who": "eve"',
        ]
        text = "\n\n".join(f"{{{line}}}" if line else "[1" for line in lines)
    path, settings = written(tmp_path, text, name), ReadSettings(on_bad_row="drop")
    table = read_table(path, settings=settings)
    assert rows_of_file(table).tolist() == [0, 2, 3, 5]
    kept = without_gaps(table, ["who"], settings, file=str(path))
    assert kept["item"].to_pylist() == ["a", "d", "h"]
    assert rows_of_file(kept).tolist() == [0, 3, 5]
    assert place_of_row(1, str(path)) == ("line 5" if name == "shop.csv" else "line 7")
    assert rows_of_file(pa.table({"a": [1, 2]})).tolist() == [0, 1]


def test_floats_as_items_say_what_to_do() -> None:
    policy = SetPolicy()
    with pytest.raises(DataError, match=r"10\.10 would be 10\.1\. Write the column as text"):
        read_sets(pa.table({"items": [10.1, 10.25]}), items="items", policy=policy)
    whole = pa.table({"items": [[101.0, 102.0], [103.0]]})
    assert read_sets(whole, items="items", policy=policy).values.to_pylist() == ["101", "102", "103"]


def test_slips_are_no_error_of_a_column_of_the_context() -> None:
    orders = np.repeat(np.arange(300), 2)
    city = np.array(["rome"] * 600, object)
    city[1] = "rmoe"
    long = pa.table({"order": orders, "item": [f"i{row}" for row in range(600)], "city": pa.array(city)})
    assert group_rows(long, ["order"], items="item", context=["city"]).table["city"].null_count == 1
    with pytest.raises(DataError, match="has several values"):
        group_rows(long.slice(0, 20), ["order"], items="item", context=["city"])
