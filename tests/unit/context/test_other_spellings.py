"""Columns that look like numbers or dates in another spelling are remarked on, to who inspects and who trains."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import encode_records, encode_table, infer_schema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.data import ReadSettings, read_table


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
