"""Words among numbers and dates: found, named, remembered by the schema, and the same at asking."""

from typing import Any

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
from contextual_bert.context.marks import date_words, number_words
from contextual_bert.errors import DataError


def features_of(table: pa.Table, *, everywhere: pa.Table, **asked: Any) -> InferredSchema:
    return infer_features(table, SchemaSettings(**asked), everywhere=everywhere)


def ages(*words: str) -> list[str]:
    return [words[row // 10 % len(words)] if row % 10 == 0 else str(20 + row % 59) for row in range(600)]


@pytest.mark.parametrize("words", [("unknown",), ("n/a", "?"), ("Keine Angabe", "weiss nicht"), ("-",)], ids=str)
def test_words_among_numbers_are_missing_and_named(words: tuple[str, ...]) -> None:
    found = infer_schema(pa.table({"age": ages(*words)}))
    feature = found.schema.features[0]
    assert isinstance(feature, Numerical)
    assert set(feature.missing or ()) == set(words)
    assert all(repr(word) in found.notes[0].reason for word in words)
    assert "in 60 rows" in found.notes[0].reason
    assert found.notes[0].missing == 60
    schema = ContextSchema.from_json(found.schema.to_json())
    assert schema == found.schema
    cells = [words[0], f" {words[0].upper()} ", "34", None]
    rows = encode_table(schema, pa.table({"age": cells})).tensors["age"].tolist()
    assert rows == encode_records(schema, [{"age": cell} for cell in cells]).tensors["age"].tolist()
    assert rows[:2] == [0, 0]
    assert rows[2] > 0
    said = table_sentences(schema, pa.table({"age": cells}))["age"].to_pylist()
    assert said == [None, None, "age: 34.", None]


def test_a_word_that_the_schema_does_not_list_is_an_error_with_its_row() -> None:
    schema = infer_schema(pa.table({"age": ages("unknown")})).schema
    with pytest.raises(DataError, match=r"row 2, column 'age': 'secret' is not a number. .*'missing' of the feature"):
        encode_table(schema, pa.table({"age": ["34", "secret"]}))


def test_numbers_of_which_most_are_missing_are_numbers() -> None:
    ages = [*(str(18 + row % 60) for row in range(120)), *["k.A."] * 200, *["999"] * 40]
    asked = SchemaSettings(missing_values=("age=999",))
    (note,) = infer_features(pa.table({"age": ages}), asked).notes
    assert (note.kind, note.missing, note.warning) == ("numerical", 240, "")
    few = infer_schema(pa.table({"floor": [*(str(row % 9) for row in range(90)), *["unknown"] * 200]}))
    assert few.notes[0].kind == "categorical"


def test_floors_and_codes_stay_categories_and_that_is_said() -> None:
    found = infer_schema(pa.table({"floor": ["1", "2", "3", "ground"] * 20}))
    assert isinstance(found.schema.features[0], Categorical)
    assert "'ground' is none: with the override numerical" in found.notes[0].reason
    assert found.notes[0].warning == "", "few values lose nothing as categories"
    sizes = infer_schema(pa.table({"size": ["36", "38", "40", "42", "44", "M", "2XL", "38/40"] * 20}))
    assert (sizes.notes[0].kind, sizes.notes[0].warning) == ("categorical", "")
    forced = infer_schema(pa.table({"floor": ["1", "2", "3", "ground"] * 20}), overrides={"floor": "numerical"})
    assert forced.schema.features[0].missing == ("ground",)  # pyright: ignore[reportAttributeAccessIssue]
    codes = infer_schema(pa.table({"code": ["007", "010", "x"] * 20})).schema.features[0]
    assert isinstance(codes, Categorical)


def test_numbers_in_another_spelling_are_no_words() -> None:
    cells = [str(age) for age in range(20, 84)] + ["85+", "unknown"] * 8
    found = infer_schema(pa.table({"age": cells}), min_count=1)
    assert "'85+'" in found.notes[0].reason
    assert "correct these cells" in found.notes[0].reason
    with pytest.raises(DataError, match=r"'85\+' is not a number"):
        infer_schema(pa.table({"age": cells}), overrides={"age": "numerical"})
    assert number_words(pa.array(["red", "blue", "3"]), max_distinct=16) == (None, "")


@pytest.mark.parametrize("word", ["unknown", "0000-00-00", "0000-00-00 00:00:00", "never"])
def test_words_among_dates_are_missing_and_named(word: str) -> None:
    days = [word if row % 10 == 0 else f"20{10 + row % 7}-0{1 + row % 9}-1{row % 9}" for row in range(200)]
    found = infer_schema(pa.table({"since": days}))
    assert [feature.name for feature in found.schema.features] == ["since_year", "since_month", "since_weekday"]
    assert f"{word!r} in 20 rows counts as missing" in found.notes[0].reason
    table = encode_table(found.schema, pa.table({"since": [word, "2013-02-11"]}))
    asked = encode_records(found.schema, [{"since": word}, {"since": "2013-02-11"}])
    for name, values in table.tensors.items():
        assert values.tolist() == asked.tensors[name].tolist()
        assert values[0] == 0


def test_a_schema_without_words_is_written_as_before() -> None:
    schema = infer_schema(pa.table({"age": list(range(100)), "sex": ["f", "m"] * 50}), overrides={"age": "numerical"})
    assert "missing" not in schema.schema.to_json()


def test_a_word_in_rows_to_validate_on_is_missing_there() -> None:
    learned = pa.table({"age": ages("34")})
    found = features_of(learned, everywhere=pa.table({"age": [*ages("34"), "unknown"]}))
    feature = found.schema.features[0]
    assert isinstance(feature, Numerical)
    assert feature.missing == ("unknown",)
    assert feature.edges == infer_schema(pa.table({"age": [int(age) for age in ages("34")]})).schema.features[0].edges  # pyright: ignore[reportAttributeAccessIssue]
    assert "'unknown', in no row to learn from, counts as missing" in found.notes[0].reason
    assert found.notes[0].missing == 0
    assert found.warnings() == []


def test_numbers_beside_another_spelling_elsewhere_are_warned_of() -> None:
    learned = pa.table({"age": ages("34")})
    found = features_of(learned, everywhere=pa.table({"age": [*ages("34"), "12 kg"]}))
    assert found.warnings() == [
        "warning: column 'age': most cells are numbers, and '12 kg' is none: correct these cells"
    ]
    assert isinstance(found.schema.features[0], Categorical)


@pytest.mark.parametrize("format_given", [True, False])
def test_dates_of_another_file_may_be_written_in_a_format_that_was_given(*, format_given: bool) -> None:
    days = [f"2016-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 28)]
    asked: dict[str, str] = {"day": "month,weekday"}
    everywhere = pa.table({"day": [*days, "25/03/2016"]})
    formats = ("%d/%m/%Y",) if format_given else ()
    schema = features_of(pa.table({"day": days}), everywhere=everywhere, date_formats=formats, overrides=asked).schema
    assert schema.names == ("day_month", "day_weekday")
    if format_given:
        encoded = encode_table(schema, everywhere).tensors["day_month"].tolist()
        assert encoded[-1] == encode_table(schema, pa.table({"day": ["2016-03-01"]})).tensors["day_month"].tolist()[0]
    else:
        with pytest.raises(DataError, match=r"row 325, column 'day': '25/03/2016' is not a date.*date format"):
            encode_table(schema, everywhere)


def test_a_day_that_is_told_by_another_file_is_a_date() -> None:
    learned = [f"0{day}/0{month}/2016" for day in range(1, 9) for month in range(1, 9)] * 10
    assert isinstance(infer_schema(pa.table({"day": learned})).schema.features[0], Categorical)
    found = features_of(pa.table({"day": learned}), everywhere=pa.table({"day": [*learned, "25/03/2016"]}))
    assert {getattr(feature, "date_format", None) for feature in found.schema.features} == {"%d/%m/%Y"}
    mixed = features_of(
        pa.table({"day": [*learned, "25/03/2016"]}),
        everywhere=pa.table({"day": [*learned, "25/03/2016", "2016-01-02"]}),
    )
    assert mixed.schema == found.schema


def rare_ages() -> list[str]:
    """Ages with a word of many customers, one of a single one in many rows, and texts of single rows."""
    cells = ages("unknown", "private", "ask Jane Doe", "see letter of Mr Roe")
    return [f"{cell} " if cell == "private" else cell for cell in cells]


def test_words_of_few_customers_are_missing_and_not_stored() -> None:
    # 15 rows each; of "private" one customer has all.
    customers = [f"c{row}" for row in range(600)]
    cells = rare_ages()
    customers = ["one" if cell.strip() == "private" else name for cell, name in zip(cells, customers, strict=True)]
    cells[20] = "phone her mother"
    table = pa.table({"age": cells, "who": customers})
    found = infer_schema(table, customers="who", min_count=12)
    feature = found.schema.features[0]
    assert isinstance(feature, Numerical)
    assert set(feature.missing or ()) == {"unknown", "ask Jane Doe", "see letter of Mr Roe", "[any word]"}
    assert "private" not in found.schema.to_json()
    assert "mother" not in found.schema.to_json()
    said = "words of fewer than 12 customers are not stored: any text without a digit is missing"
    assert said in found.notes[0].reason
    assert found.notes[0].missing == 60
    encoded = encode_table(found.schema, table).tensors["age"].tolist()
    assert [row for row, each in enumerate(encoded) if each == 0] == list(range(0, 600, 10))


@pytest.mark.parametrize("cell", ["my own words", "PRIVATE", "é", "-", "34", "", None, " 51 "])
def test_any_word_is_missing_at_asking_where_training_had_words_that_are_not_stored(cell: str | None) -> None:
    schema = infer_schema(pa.table({"age": rare_ages()}), min_count=20).schema
    assert schema.features[0].missing == ("unknown", "[any word]")  # pyright: ignore[reportAttributeAccessIssue]
    asked = encode_records(schema, [{"age": cell}]).tensors["age"].tolist()
    assert asked == encode_table(schema, pa.table({"age": pa.array([cell], pa.string())})).tensors["age"].tolist()
    assert (asked[0] > 0) == (cell is not None and cell.strip().isdigit())
    said = table_sentences(schema, pa.table({"age": pa.array([cell], pa.string())}))["age"].to_pylist()
    assert (said[0] is None) == (asked[0] == 0)


@pytest.mark.parametrize("cell", ["85+", "１２ kg", "inf", "-Infinity"])
def test_what_may_be_a_number_is_no_word(cell: str) -> None:
    schema = infer_schema(pa.table({"age": rare_ages()}), min_count=20).schema
    for encode in (
        lambda: encode_records(schema, [{"age": cell}]),
        lambda: encode_table(schema, pa.table({"age": [cell, "30"]})),
    ):
        with pytest.raises(DataError, match=r"row 1, column 'age'"):
            encode()


def test_a_free_text_among_dates_is_missing_and_not_stored() -> None:
    days = [f"20{10 + row % 7}-0{1 + row % 9}-1{row % 9}" for row in range(200)]
    days[3], days[4], days[5] = "when her son was born", "0000-00-00", "unknown"
    found = infer_schema(pa.table({"since": days}))
    assert {getattr(each, "missing", None) for each in found.schema.features} == {
        ("0000-00-00", "unknown", "[any word]")
    }
    assert "son" not in found.schema.to_json()
    encoded = encode_records(found.schema, [{"since": "another text"}, {"since_weekday": "Monday"}])
    assert encoded.tensors["since_weekday"].tolist()[0] == 0
    assert encoded.tensors["since_weekday"].tolist()[1] > 0
    table = encode_table(found.schema, pa.table({"since": ["another text", "2013-02-11"]}))
    assert table.tensors["since_month"].tolist() == [0, 3]


def test_a_word_of_rows_to_validate_on_alone_is_not_stored() -> None:
    found = features_of(pa.table({"age": ages("34")}), everywhere=pa.table({"age": [*ages("34"), "Jane said"] * 20}))
    assert "Jane" not in found.schema.to_json()
    assert encode_table(found.schema, pa.table({"age": ["Jane said"]})).tensors["age"].tolist() == [0]


@pytest.mark.parametrize(
    ("words", "num_words", "is_told"),
    [(["unknown"], 49, True), (["unknown"], 51, False), ([f"word {chr(97 + n)}" for n in range(11)], 11, False)],
    ids=["half are days", "most are words", "many words"],
)
def test_words_among_dates_are_few(words: list[str], num_words: int, is_told: bool) -> None:
    cells = [*(words[n % len(words)] for n in range(num_words)), *(f"2016-03-{n % 28 + 1:02}" for n in range(49))]
    cells += ["2016-04-01"] * (100 - len(cells))
    found = date_words(pa.array([*cells, None, ""]))
    assert (found is not None and found.words == ("unknown",)) == is_told
