"""Numbers in other spellings than 1234.5: read with a decimal mark that is named, and told of where none is."""

from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    Numerical,
    encode_records,
    encode_table,
    infer_schema,
    table_sentences,
)
from contextual_bert.context.infer import InferredSchema, SchemaSettings, infer_features
from contextual_bert.context.spelling import DecimalMark, plain_number
from contextual_bert.data import ReadSettings, read_table, reading_lines
from contextual_bert.data.hashing import table_digest
from contextual_bert.errors import ConfigurationError, DataError


def table_of(tmp_path: Path, cells: list[str], *, decimal: DecimalMark | None = None) -> pa.Table:
    path = tmp_path / "orders.csv"
    rows = "".join(f"{cells[number % len(cells)]}|\n" for number in range(12 * len(cells)))
    path.write_text(f"price|left\n{rows}", encoding="utf-8")
    return read_table(path, settings=ReadSettings(delimiter="|", decimal=decimal)).select(["price"])


def inferred(table: pa.Table, decimal: DecimalMark | None = None) -> InferredSchema:
    return infer_features(table, SchemaSettings(decimal=decimal))


@pytest.mark.parametrize(
    ("text", "decimal", "plain"),
    [
        ("1.234,50", ",", "1234.50"),
        ("1 234,50", ",", "1234.50"),
        ("1\u202f234,50", ",", "1234.50"),
        ("1'234,5", ",", "1234.5"),
        ("1.234.567", ",", "1234567"),
        ("950", ",", "950"),
        (",5", ",", ".5"),
        ("-3,45", ",", "-3.45"),
        ("3,45-", ",", "-3.45"),
        ("−3,45", ",", "-3.45"),
        ("1.5", ",", None),
        ("0.200", ",", None),
        ("1.23,4", ",", None),
        ("-3,45-", ",", None),
        ("007", ",", None),
        ("1,234.50", ".", "1234.50"),
        ("12,34,567.8", ".", "1234567.8"),
        ("1’234.5", ".", "1234.5"),
        ("1,23", ".", None),
        ("1,200", None, None),
        ("1.200", None, "1.200"),
    ],
)
def test_numbers_of_other_countries(text: str, decimal: DecimalMark | None, plain: str | None) -> None:
    assert plain_number(text, decimal) == plain


def test_points_between_thousands_are_told_of_and_read_where_the_mark_is_named(tmp_path: Path) -> None:
    cells = ["1.200", "950", "70", "2.100"]
    guessed = table_of(tmp_path, cells)
    assert guessed["price"][0].as_py() == 1.2
    assert "1.200 is read as 1.2. Give --decimal ',' where 1200 is meant" in reading_lines(guessed)[0]
    told = table_of(tmp_path, cells, decimal=",")
    assert told["price"].to_pylist()[:4] == [1200, 950, 70, 2100]
    assert reading_lines(told) == reading_lines(table_of(tmp_path, cells, decimal=".")) == []
    assert reading_lines(table_of(tmp_path, ["0.250", "1.250"])) == []
    assert reading_lines(table_of(tmp_path, ["1.250", "1500"])) == []


@pytest.mark.parametrize("cells", [["70,46", "1.200,50", "950"], ["70,46", "1.200,50", "950", "k.A."]], ids=len)
def test_a_decimal_mark_counts_at_asking_as_at_training(tmp_path: Path, cells: list[str]) -> None:
    table = table_of(tmp_path, cells, decimal=",")
    schema = ContextSchema.from_json(inferred(table, ",").schema.to_json())
    (feature,) = schema.features
    assert isinstance(feature, Numerical)
    assert feature.decimal == ","
    texts = ["1.200,50", "70,46", "950", "1.199"]
    numbers = [1200.5, 70.46, 950.0, 1199.0]
    asked = encode_records(schema, [{"price": text} for text in texts]).tensors["price"].tolist()
    assert asked == encode_records(schema, [{"price": number} for number in numbers]).tensors["price"].tolist()
    assert asked == encode_table(schema, pa.table({"price": texts})).tensors["price"].tolist()
    assert asked == encode_table(schema, pa.table({"price": numbers})).tensors["price"].tolist()
    assert len(set(asked)) == 3
    assert table_sentences(schema, pa.table({"price": texts}))["price"][0].as_py() == "price: 1200.5."


def test_what_the_mark_does_not_allow_is_an_error_with_its_place(tmp_path: Path) -> None:
    schema = inferred(table_of(tmp_path, ["70,46", "950"], decimal=","), ",").schema
    with pytest.raises(DataError, match=r"'1\.5' is not a number with the decimal mark ','") as caught:
        encode_table(schema, pa.table({"price": ["3,5", "1.5"]}))
    assert (caught.value.row, caught.value.column) == (1, "price")
    with pytest.raises(DataError, match=r"'1\.5' is a string, not a number with the decimal mark ','"):
        encode_records(schema, [{"price": "1.5"}])
    with pytest.raises(ConfigurationError, match=r"decimal=';' is not allowed. Allowed: '\.' and ','"):
        ReadSettings(decimal=";")  # pyright: ignore[reportArgumentType]


def test_a_schema_without_a_mark_is_saved_as_before() -> None:
    schema = infer_schema(pa.table({"age": [1.5, 2.5] * 20})).schema
    assert "decimal" not in schema.to_json()


def test_a_table_has_one_digest_whichever_columns_are_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("price;n\n1.200;1\n0,5;2\n", encoding="utf-8")
    settings = ReadSettings(decimal=",")
    digests = {table_digest(read_table(path, text_columns=names, settings=settings)) for names in ([], ["price"])}
    assert len(digests) == 1
    assert digests != {table_digest(read_table(path, text_columns=["price"]))}


@pytest.mark.parametrize(
    ("cells", "remark"),
    [
        (["70,46", "1.200,50", "950"], "give --decimal ','"),
        (["1,200.50", "1,100"], "give --decimal '.'"),
        (["1'200", "950"], "give --decimal '.'"),
        (["3,45-", "7,50"], "give --decimal ','"),
        ([*map(str, range(30)), "70,46"], "'70,46' is none: give --decimal ','"),
        (["€ 1.200", "CHF 950"], "looks like numbers: write 1234.5"),
        (["12 kg", "13 kg"], "with the unit 'kg'"),
    ],
)
def test_numbers_that_became_categories_are_told_of(tmp_path: Path, cells: list[str], remark: str) -> None:
    (note,) = inferred(table_of(tmp_path, cells)).notes
    assert note.kind == "categorical"
    assert remark in note.warning
    assert note.reason.count("number") <= 2


def test_postcodes_are_categories_and_no_fault(tmp_path: Path) -> None:
    found = inferred(table_of(tmp_path, ["01067", *map(str, range(10115, 10150))]))
    assert isinstance(found.schema.features[0], Categorical)
    assert found.warnings() == []


@pytest.mark.parametrize(
    ("cells", "pair"), [(["10.1", "10.10", "9.2"], "10.1 and 10.10"), (["10.10", "10.2"], "10.2 and 10.10")]
)
def test_codes_that_are_read_as_numbers_are_told_of(tmp_path: Path, cells: list[str], pair: str) -> None:
    assert f"{pair} are read as numbers with decimals" in reading_lines(table_of(tmp_path, cells))[0]
    assert reading_lines(table_of(tmp_path, ["10.10", "9.20"])) == []
    assert reading_lines(table_of(tmp_path, ["10.1", "9.25", "3"])) == []


@pytest.mark.parametrize("codes", [[], ["price"]])
def test_digits_that_a_spreadsheet_cut_are_told_of(tmp_path: Path, codes: list[str]) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("price\n4.00639E+12\n17\n1e5\n", encoding="utf-8")
    lines = reading_lines(read_table(path, code_columns=codes))
    assert "cut the digits of long numbers in 1 row, as '4.00639E+12'" in lines[0]
    path.write_text("price\n4.5e-3\n1e+5\n", encoding="utf-8")
    assert reading_lines(read_table(path, code_columns=codes)) == []
