"""Columns that are read as they look, and may be ids or lists: what is said of them."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import Categorical, Numerical, encode_records, encode_table, infer_schema
from contextual_bert.context.hints import is_named_id
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.data import ReadSettings, read_table


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


# Columns that look like numbers or dates in another spelling are remarked on, to who inspects and who trains.


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["1,234.50", "2,000.10", "12.10"], "give --decimal '.'"),
        (["+34", "+2", "7"], "write 1234.5"),
        (['="12"', '="13.5"'], "write 1234.5"),
        (["(12)", "13", "(14.5)"], "write 1234.5"),
        (["1'234", "12", "5"], "give --decimal '.'"),
        (["1.234,50", "2,10"], "give --decimal ','"),
        (["1,200", "2,050", "12,500"], "give --decimal '.' where its marks stand between thousands, --decimal ','"),
        (["1,200", "2,050", "950"], "give --decimal '.' where its marks stand between thousands, --decimal ','"),
        (["1.200", "2.050", "1.234.500"], "give --decimal ','"),
    ],
    ids=str,
)
def test_numbers_in_another_spelling_are_said_to_look_like_numbers(cells: list[str], advice: str) -> None:
    found = infer_schema(pa.table({"pay": cells * 20}))
    assert found.notes[0].kind == "categorical"
    assert advice in found.notes[0].reason
    assert [advice in warning for warning in found.warnings()] == [True]


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["2-Oct-2019", "13-Nov-2018"], "--date-format '%d-%b-%Y'"),
        (["Oct 2, 2019", "Nov 13, 2018"], "--date-format '%b %d, %Y'"),
        (["2 October 2019 10:00", "13 May 2018 9:30"], "--date-format '%d %b %Y %H:%M'"),
        (["01/02/2019", "03/04/2019"], "--date-format '%d/%m/%Y' or '%m/%d/%Y'"),
        (["14:05", "9:30", "23:59:59"], "with --date-format, as '%d/%m/%Y %H:%M'"),
        ([20191001, 20180312, 20170229], "looks like dates, and is read as numbers: give --date-format '%Y%m%d'"),
        (["05032016", "17112015"], "looks like dates, and is read as categories: give --date-format '%d%m%Y'"),
        (["3.2.19", "25.2.19"], "--date-format '%d.%m.%y'"),
        (["3.2.19 9:30", "25.2.19 10:00"], "--date-format '%d.%m.%y %H:%M'"),
    ],
    ids=str,
)
def test_dates_and_times_in_another_spelling_are_said_to_look_so(cells: list[str], advice: str) -> None:
    found = infer_schema(pa.table({"day": cells * 20}))
    assert found.notes[0].kind in ("categorical", "numerical")
    assert advice in found.notes[0].reason
    assert [advice in warning for warning in found.warnings()] == [True]


@pytest.mark.parametrize(
    "cells",
    [["007", "011", "12"], ["10.1", "10.10"], ["may", "june"], ["a,b", "c"], [20191301, 20191001], [10115, 80331]],
    ids=str,
)
def test_codes_and_words_are_not_remarked_on(cells: list[str]) -> None:
    assert infer_schema(pa.table({"code": cells * 20})).warnings() == []


DAYS = [datetime.date(2016, 1, 1) + datetime.timedelta(days=37 * row) for row in range(30)] * 5


@pytest.mark.parametrize(
    ("cells", "date_format"),
    [
        ([int(f"{day:%Y%m%d}") for day in DAYS], "%Y%m%d"),
        ([float(f"{day:%Y%m%d}") for day in DAYS] + [float("nan")], "%Y%m%d"),
        ([f"{day:%d%m%Y}" for day in DAYS], "%d%m%Y"),
        ([1_451_606_400 + 86_400 * 37 * row for row in range(30)] * 5, "%s"),
        ([1000 * (1_451_606_400 + 86_400 * 37 * row) for row in range(30)] * 5, "%s"),
    ],
    ids=["whole", "with a gap", "day first", "seconds", "milliseconds"],
)
def test_dates_that_are_digits_are_read_by_their_format(tmp_path: Path, cells: list[Any], date_format: str) -> None:
    settings = ReadSettings(date_formats=(date_format,))
    path = tmp_path / "days.csv"
    path.write_text("n,day\n" + "".join(f"{row},{'' if cell != cell else cell}\n" for row, cell in enumerate(cells)))
    expected = None
    for source in (path, pa.table({"n": range(len(cells)), "day": cells})):
        table = read_table(source, settings=settings)
        found = infer_features(table, SchemaSettings(date_formats=(date_format,), exclude=("n",)))
        assert set(found.schema.names) >= {"day_year", "day_month"}
        encoded = {name: ids.tolist() for name, ids in encode_table(found.schema, table).tensors.items()}
        assert expected in (None, encoded)
        expected = encoded
        asked = encode_records(found.schema, [{"day": cells[1]}, {"day": "2016-02-07"}, {"day": DAYS[1]}]).tensors
        assert all(len({*ids.tolist(), encoded[name][1]}) == 1 for name, ids in asked.items())


def test_seconds_get_one_remark_and_no_other() -> None:
    seconds = 1_570_000_000 + np.arange(400) * 3601
    for cells in (seconds, np.repeat(seconds[:100], 4), np.random.default_rng(0).permutation(seconds)):
        found = infer_schema(pa.table({"at": cells}))
        (warning,) = found.warnings()
        assert warning.endswith("looks like seconds since 1970, and is read as numbers: give --date-format '%s'") or (
            "left out: looks like seconds since 1970" in warning
        )
        assert found.remarks() == []


def test_days_of_a_spreadsheet_are_told_of() -> None:
    days = pa.table({"order_date": np.repeat(np.arange(43_831, 43_931), 4)})
    assert "43831 is 2020-01-01: export the column as dates" in infer_schema(days).warnings()[0]


def test_whole_numbers_that_all_differ_are_left_out_with_a_warning() -> None:
    pays = np.random.default_rng(0).choice(90_000, 400, replace=False) ** 2 // 100_000 * 7 + np.arange(400)
    found = infer_schema(pa.table({"pay": np.unique(pays)}))
    assert [note.kind for note in found.notes] == [None]
    assert "override to keep it as a number (pay=numerical)" in found.warnings()[0]
    assert infer_schema(pa.table({"pay": np.unique(pays)}), overrides={"pay": "numerical"}).schema.names == ("pay",)


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["1_000", "2_500", "12"], "write 1234.5"),
        (["0x10", "0xFF"], "looks like numbers to the base 16"),
        (["٣", "١٢", "٤"], "write them with 0 to 9"),
        (["true", "1", "false", "0"], "truth values in several spellings (true/false and 1/0)"),
        (["Yes", "no", "0"], "truth values in several spellings (1/0 and yes/no)"),
    ],
    ids=str,
)
def test_numbers_of_programs_and_of_other_scripts_are_said(cells: list[str], advice: str) -> None:
    found = infer_schema(pa.table({"pay": cells * 20}))
    assert advice in found.notes[0].reason
    assert any(advice in warning for warning in found.warnings())


@pytest.mark.parametrize("cells", [["38_40", "40_42"], ["true", "false"], ["yes", "no", "unknown"], ["x1", "x2"]])
def test_codes_and_truth_values_in_one_spelling_are_not_remarked_on(cells: list[str]) -> None:
    assert infer_schema(pa.table({"size": cells * 20})).warnings() == []
