"""Parts of dates are features where training has gone round them twice."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import InferredSchema, infer_schema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.seasons import left_out_parts
from contextual_bert.errors import ConfigurationError, SchemaError


def days(first: str, number: int, *, step: int = 1) -> list[datetime.date]:
    start = datetime.date.fromisoformat(first)
    return [start + datetime.timedelta(days=step * day) for day in range(number)]


def parts_of(table: pa.Table, *, time: str | None = None, **asked: object) -> tuple[str, ...]:
    return found(table, time=time, **asked).schema.names


def found(table: pa.Table, *, time: str | None = None, **asked: object) -> InferredSchema:
    return infer_features(table, SchemaSettings(time=time, **asked))  # pyright: ignore[reportArgumentType]


def test_a_month_needs_two_years_and_a_weekday_two_weeks() -> None:
    four_months = pa.table({"day": days("2000-11-01", 120)})
    assert parts_of(four_months) == ("day_year", "day_weekday")
    assert parts_of(pa.table({"day": days("2000-11-01", 10)}), min_count=1) == ()
    assert parts_of(pa.table({"day": days("2000-11-01", 14)}), min_count=1) == ("day_weekday",)
    assert parts_of(pa.table({"day": days("2019-03-15", 690)})) == ("day_year", "day_weekday")
    two_years = ("day_year", "day_month", "day_weekday")
    assert parts_of(pa.table({"day": days("2019-03-15", 731)})) == two_years
    # Working days alone, and the first days of January are holidays.
    working = [day for day in days("2019-01-03", 725) if day.weekday() < 5]
    assert parts_of(pa.table({"day": working})) == two_years


def test_what_was_left_out_is_said_with_its_share_and_how_to_keep_it() -> None:
    table = pa.table({"day": days("2000-11-01", 120)})
    inferred = found(table)
    assert inferred.remarks() == [
        "context: column 'day': month left out: 100.0% of the rows have a month that training has seen in one year "
        "only, and it needs two years; override to keep it (day=month)"
    ]
    assert inferred.notes[0].reason.startswith("gives year, weekday; month left out: ")
    assert parts_of(table, overrides={"day": "date"}) == ("day_year", "day_month", "day_weekday")
    assert parts_of(table, overrides={"day": "weekday, month"}) == ("day_month", "day_weekday")
    one_day = found(pa.table({"day": days("2000-11-01", 1) * 40}))
    assert one_day.notes[0].reason == "constant: every row has the same year, month and weekday"
    assert one_day.remarks() == []


def test_a_year_is_none_where_the_split_is_by_time() -> None:
    table = pa.table({"day": days("2017-01-01", 1200)})
    assert parts_of(table, time="day") == ("day_month", "day_weekday")
    assert parts_of(table) == ("day_year", "day_month", "day_weekday")
    assert parts_of(table, time="day", overrides={"day": "year"}) == ("day_year",)


def test_strays_make_no_second_turn_and_undo_none() -> None:
    four_months = [*days("2000-11-01", 120), *days("1970-01-01", 1), *days("2099-12-31", 1)]
    assert "day_month" not in parts_of(pa.table({"day": four_months}))
    few_rows = np.random.default_rng(0).choice(np.array(days("2016-01-01", 1095)), 60, replace=False)
    assert "day_month" in parts_of(pa.table({"day": pa.array(few_rows.tolist())}))
    two_campaigns = [*days("2016-01-01", 31), *days("2019-06-01", 30)]
    assert "day_month" not in parts_of(pa.table({"day": two_campaigns}))


def test_an_override_of_no_part_or_no_date_is_an_error() -> None:
    table = pa.table({"day": days("2000-11-01", 120), "same": days("2000-11-01", 1) * 120})
    with pytest.raises(
        ConfigurationError, match=r"'monat' in 'monat,year' is no part of a date\. Did you mean 'month'"
    ):
        infer_schema(table, overrides={"day": "monat,year"})
    with pytest.raises(ConfigurationError, match="Did you mean 'month'"):
        infer_schema(table, overrides={"day": "monht"})
    with pytest.raises(
        SchemaError, match=r"'same' gives no feature as 'month': constant: every row has the same month"
    ):
        infer_schema(table, overrides={"same": "month"})


def test_a_column_without_a_date_has_no_part() -> None:
    assert [each.is_constant for each in left_out_parts(pa.nulls(3, pa.date32()), is_split_by_time=True)] == [True] * 3
