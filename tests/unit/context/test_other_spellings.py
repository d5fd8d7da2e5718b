"""Columns that look like numbers or dates in another spelling are remarked on, to who inspects and who trains."""

import pyarrow as pa
import pytest

from contextual_bert.context import infer_schema


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["1,234.50", "2,000.10", "12.10"], "give --decimal '.'"),
        (["+34", "+2", "7"], "write 1234.5"),
        (['="12"', '="13.5"'], "write 1234.5"),
        (["(12)", "13", "(14.5)"], "write 1234.5"),
        (["1'234", "12", "5"], "give --decimal '.'"),
        (["1.234,50", "2,10"], "give --decimal ','"),
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
        (["2-Oct-2019", "13-Nov-2018"], "--date-format, as '%d-%b-%Y'"),
        (["Oct 2, 2019", "Nov 13, 2018"], "--date-format, as '%d-%b-%Y'"),
        (["2 October 2019 10:00", "13 May 2018 9:30"], "--date-format, as '%d-%b-%Y'"),
        (["01/02/2019", "03/04/2019"], "--date-format, as '%d/%m/%Y'"),
        (["14:05", "9:30", "23:59:59"], "with --date-format, as '%d/%m/%Y %H:%M'"),
        ([20191001, 20180312, 20170229], "looks like dates, and is read as numbers: write 2016-03-05"),
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
