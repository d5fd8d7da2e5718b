"""Blanks after the commas of a CSV file, and quotes after them: names and types are those of the file without."""

from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.context import infer_schema
from contextual_bert.data import read_table
from contextual_bert.data.column_types import as_typed
from contextual_bert.errors import DataError, UnknownNameError

PLAIN = "items,age,day,ok,price\na,34,2016-03-05,true,1.5\nb,,2016-03-06,false,NA\nc,51,2016-03-07,true,2\n"


def read(folder: Path, text: str, **settings: list[str]) -> pa.Table:
    path = folder / "days.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path, **settings)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("comma", [", ", " , ", ",\t", ",\u00a0"], ids=repr)
def test_blanks_round_cells_change_no_type_and_no_name(tmp_path: Path, comma: str) -> None:
    plain, spaced = read(tmp_path, PLAIN), read(tmp_path, PLAIN.replace(",", comma))
    assert spaced.schema.names == plain.schema.names
    assert spaced.drop_columns("items").equals(plain.drop_columns("items"))
    assert plain.schema.field("age").type == pa.int64()


def test_quotes_after_a_blank_are_quotes(tmp_path: Path) -> None:
    found = read(tmp_path, 'items, "age", note\na, "34", "so it goes"\nb, "51", ""\n')
    assert found.schema.names == ["items", "age", "note"]
    assert found["age"].to_pylist() == [34, 51]
    assert found["note"].to_pylist() == ["so it goes", ""]


def test_a_column_kept_as_text_says_its_type_all_the_same(tmp_path: Path) -> None:
    found = read(tmp_path, "items, age\na, 34\nb, \n", text_columns=["age"])
    column, field = found.column("age"), found.schema.field("age")
    assert pa.types.is_string(column.type)
    assert as_typed(column, field).to_pylist() == [34, None]


def test_names_that_differ_in_blanks_alone_are_one_name_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'age': the column occurs more than once"):
        read(tmp_path, "items,age, age\na,1,2\n")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_two_columns_that_look_the_same_are_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"days.{suffix}"
    composed, taken_apart = "caf\u00e9", "cafe\u0301"
    text = f"{composed},{taken_apart}\n1,2\n" if suffix == "csv" else f'{{"{composed}": 1, "{taken_apart}": 2}}\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"looks like that of another column: 'cafe\\u0301' and 'caf\\xe9'"):
        read_table(path)


def test_a_name_of_other_characters_is_told_from_the_one_that_was_meant(tmp_path: Path) -> None:
    table = pa.table({"cafe\u0301": ["a", "b"] * 20})
    with pytest.raises(UnknownNameError, match=r"of the characters 'cafe\\u0301' and not 'caf\\xe9'"):
        infer_schema(table, exclude=["caf\u00e9"])
