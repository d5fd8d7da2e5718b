"""Columns that are read as they look, and may be ids or lists: what is said of them."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import infer_schema
from contextual_bert.context import Categorical, Numerical, encode_records, encode_table
from contextual_bert.context.hints import is_named_id
from contextual_bert.context.infer import SchemaSettings, infer_features


@pytest.mark.parametrize("name", ["user_id", "userId", "kundennr", "Kunden-Nr", "store code", "plz", "zip", "ID"])
def test_whole_numbers_named_as_ids_are_categories(name: str) -> None:
    numbers = np.repeat(np.random.default_rng(0).permutation(np.arange(10_000, 11_000)), 30)
    with_gap = [None, *map(float, numbers[1:])]
    for cells in (numbers, with_gap):
        found = infer_schema(pa.table({name: cells}))
        (feature,) = found.schema.features
        assert isinstance(feature, Categorical)
        assert len(feature.values) == 1000
        assert f"override {name}=numerical to make bins" in found.notes[0].reason
        asked = [{name: int(numbers[60])}, {name: str(numbers[60])}, {name: float(numbers[60])}]
        assert len({*encode_records(found.schema, asked).tensors[feature.name].tolist()}) == 1
        assert encode_records(found.schema, asked).unknown == {}
    assert isinstance(
        infer_schema(pa.table({name: numbers}), overrides={name: "numerical"}).schema.features[0], Numerical
    )


def test_numbers_of_one_length_that_repeat_are_remarked_on() -> None:
    draws = np.random.default_rng(0)
    cells = {
        "group": draws.choice(np.arange(1_013, 9_999, 97), 900),
        "year": draws.integers(1900, 2020, 900),
        "price": draws.integers(150, 9_000, 900),
        "pay": draws.integers(40_000, 90_000, 900),
    }
    warnings = infer_schema(pa.table(cells)).warnings()
    assert len(warnings) == 1
    assert "all numbers have 4 digits, as codes have: override group=categorical" in warnings[0]


@pytest.mark.parametrize("name", ["age", "paid", "number_of_rooms", "nor", "width", "idle_minutes", "valid"])
def test_other_numbers_are_not(name: str) -> None:
    assert not is_named_id(name, distinct=1_000)


def test_a_list_in_a_category_is_remarked_on() -> None:
    generator = np.random.default_rng(0)
    cells = [";".join(generator.choice(list("abcdefgh"), generator.integers(2, 5), replace=False)) for _ in range(900)]
    (note,) = infer_schema(pa.table({"brands": cells})).notes
    assert "most cells hold ';' between 8 values: override brands=multi_categorical" in note.warning


@pytest.mark.parametrize("cells", [["Doe, Jane", "Roe, Ann", "Poe, Eve"], ["1,5", "2,5", "1,2", "5,2"], ["a", "b"]])
def test_other_texts_are_no_lists(cells: list[str]) -> None:
    (note,) = infer_schema(pa.table({"text": cells * 50})).notes
    assert "multi_categorical" not in note.reason


def test_whole_numbers_named_as_groups_are_warned_of_and_others_named_in_the_table() -> None:
    draws = np.random.default_rng(0)
    cells = {"warengruppe": draws.integers(1, 40, 900)}
    found = infer_schema(pa.table({**cells, "age": draws.integers(18, 90, 900), "rooms": draws.integers(1, 9, 900)}))
    (warning,) = found.warnings()
    assert "'warengruppe'" in warning
    assert "whose numbers have no order: override warengruppe=categorical" in warning
    reasons = {note.column: note.reason for note in found.notes}
    assert reasons["age"].endswith("if they name something, override age=categorical")
    assert reasons["rooms"] == "8 bins from 1 to 8", "a number with a bin of its own loses nothing"


@pytest.mark.parametrize(
    ("texts", "is_said"),
    [
        ([f"{age}" for age in range(8, 90)], True),
        ([f"{price / 2}" for price in range(2, 90)], True),
        ([f"{stars}" for stars in range(1, 6)], False),
        ([f"{code}" for code in range(80_331, 80_399)], False),
        (["10.1", "10.10", *(f"{version}.{version}" for version in range(30))], False),
        ([f"{age:03}" for age in range(8, 90)], False),
    ],
)
def test_texts_of_numbers_in_a_file_with_types_are_remarked_on(texts: list[str], is_said: bool) -> None:
    (note,) = infer_schema(pa.table({"value": texts * 20})).notes
    assert note.kind == "categorical"
    assert ("its texts are numbers" in note.warning) == is_said
    if is_said:
        assert "override value=numerical, or give --decimal '.'" in note.warning
        settings = SchemaSettings(decimal=".")
        assert infer_features(pa.table({"value": texts * 20}), settings).notes[0].kind == "numerical"


def test_a_written_nan_among_categories_is_remarked_on() -> None:
    cells = {"sex": ["f", "m", "nan", "NaN"] * 50, "land": ["NA", "DE", "none", "unknown"] * 50}
    found = infer_schema(pa.table(cells))
    (warning,) = found.warnings()
    assert "'sex': 'NaN' may stand for a missing value: give --missing-value sex=NaN" in warning
    asked = SchemaSettings(missing_values=("sex=NaN",))
    (sex, _) = infer_features(pa.table(cells), asked).schema.features
    assert isinstance(sex, Categorical)
    assert sex.values == ("f", "m")


def test_whole_numbers_that_one_float_would_merge_are_categories() -> None:
    first = 1_398_717_875_470_837_200
    for kind in (pa.int64(), pa.uint64()):
        table = pa.table({"big": pa.array([first + row % 3 for row in range(300)], kind)})
        (note,) = infer_schema(table).notes
        assert (note.kind, note.distinct) == ("categorical", 3)
        assert "of more digits than bins of numbers tell apart" in note.reason
        schema = infer_schema(table).schema
        assert len({*encode_table(schema, table).arrays["big"].tolist()}) == 3
        assert encode_records(schema, [{"big": first + 1}]).unknown == {}
    cents = pa.array([Decimal(first + row % 3) + Decimal("0.10") for row in range(300)], pa.decimal128(38, 2))
    (note,) = infer_schema(pa.table({"big": cents})).notes
    assert (note.kind, note.distinct) == ("categorical", 3), "as a database exports its numbers"
    small = pa.table({"big": [10**17 + 10**15 * (row % 40) for row in range(400)]})
    assert infer_schema(small).notes[0].kind == "numerical", "floats tell these apart"


def test_dates_in_words_are_said() -> None:
    for cells, fix in (
        ([f"{day}. März 20{year}" for day in range(1, 29) for year in range(10, 19)], "write 2016-03-05"),
        (
            [f"Sat, {day} Mar 20{year} 10:00:00 GMT" for day in range(1, 29) for year in range(10, 19)],
            "write 2016-03-05",
        ),
        ([f"20{year}年3月{day}日" for day in range(1, 29) for year in range(10, 19)], "--date-format '%Y年%m月%d日'"),
    ):
        (note,) = infer_schema(pa.table({"day": cells})).notes
        assert "looks like dates" in note.warning
        assert fix in note.warning
    given = SchemaSettings(date_formats=("%Y年%m月%d日",))
    cells = [f"20{year}年{month}月{day}日" for day in range(1, 29) for month in range(1, 13) for year in range(10, 13)]
    assert infer_features(pa.table({"day": cells}), given).notes[0].kind == "date"


def test_numbers_that_a_type_calls_categories_are_categories() -> None:
    table = pa.table({"store": pa.array([row % 40 for row in range(900)]).dictionary_encode()})
    found = infer_schema(table)
    assert (found.notes[0].kind, found.notes[0].warning) == ("categorical", "")
    assert "of categories, as its type says, so each number is a category" in found.notes[0].reason
    assert encode_records(found.schema, [{"store": 7}, {"store": "7"}]).unknown == {}
    forced = infer_schema(table, overrides={"store": "numerical"}).schema.features[0]
    assert isinstance(forced, Numerical)
