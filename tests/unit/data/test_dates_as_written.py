"""Dates that are not ISO 8601: read where the column says what they mean, asked for where it does not."""

from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.context import ContextSchema, encode_records, encode_table, infer_schema
from contextual_bert.data import ReadSettings, split_by_time
from contextual_bert.errors import ConfigurationError, DataError, SchemaError

DAYS = [(2010 + n % 9, n % 12 + 1, n % 28 + 1) for n in range(84)]


def column(pattern: str, *, days: list[tuple[int, int, int]] = DAYS) -> pa.Table:
    return pa.table({"day": [pattern.format(y=y, m=m, d=d) for y, m, d in days]})


def months(schema: ContextSchema, table: pa.Table) -> list[str]:
    values = ["", "", *schema.feature("day_month").vocabulary.values]
    return [values[index] for index in encode_table(schema, table).tensors["day_month"].tolist()]


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        ("{y}/{m:02}/{d:02}", ()),
        ("{y}.{m}.{d}", ()),
        ("{y}/{m}/{d} 12:30", ()),
        ("{d:02}.{m:02}.{y}", ()),
        ("{m:02}/{d:02}/{y}", ()),
        ("{d}-{m}-{y} 09:05", ()),
        ("{d:02}/{m:02}/{y} 14:09:05", ()),
        ("{d:02}/{m:02}/{y} 02:09 PM", ("%d/%m/%Y %I:%M %p",)),
        ("{d:02}{m:02}{y}", ("%Y-%m-%d", "%d%m%Y")),
    ],
)
def test_a_column_that_says_which_is_the_day_gives_dates(pattern: str, known: tuple[str, ...]) -> None:
    table = column(pattern)
    schema = infer_schema(table, date_formats=known).schema
    assert schema.names == ("day_year", "day_month", "day_weekday")
    assert months(schema, table) == [str(m) for _, m, _ in DAYS]
    assert ContextSchema.from_json(schema.to_json()) == schema
    # One row says nothing of itself, and is read as the column was: by table and by record.
    one = table.slice(3, 1)
    asked = encode_records(schema, one.to_pylist()).tensors["day_month"].tolist()
    assert encode_table(schema, one).tensors["day_month"].tolist() == asked
    assert encode_records(schema, [{"day": "2014-11-01"}]).tensors["day_month"].tolist() == [12]


AMBIGUOUS = [(2010 + n % 9, n % 12 + 1, (n * 5) % 12 + 1) for n in range(84)]


def test_an_ambiguous_column_is_text_with_a_remark_and_dates_once_the_format_is_said() -> None:
    table = column("{d:02}/{m:02}/{y}", days=AMBIGUOUS)
    found = infer_schema(table)
    assert found.schema.names == ()
    assert "looks like dates: write 2016-03-05, or give --date-format '%d/%m/%Y' or '%m/%d/%Y'" in found.notes[0].reason
    for told, place in (("%d/%m/%Y", 1), ("%m/%d/%Y", 2)):
        schema = infer_schema(table, date_formats=[told]).schema
        assert months(schema, table) == [str(day[place]) for day in AMBIGUOUS]


def test_an_ambiguous_time_is_an_error_that_names_the_option() -> None:
    table = column("{d:02}/{m:02}/{y}", days=AMBIGUOUS)
    with pytest.raises(DataError, match=r"column 'day': '01/01/2010' may be two days.*--date-format '%d/%m/%Y' or '%m"):
        split_by_time(table, "day", validation=0.2, test=0.2)
    by_hand = pa.table({"day": [f"{y}-{m:02}-{d:02}" for y, m, d in AMBIGUOUS]})
    expected = split_by_time(by_hand, "day", validation=0.2, test=0.2).assignment.tolist()
    found = split_by_time(table, "day", validation=0.2, test=0.2, date_formats=["%d/%m/%Y"])
    assert found.assignment.tolist() == expected
    assert found.assignment.tolist() != sorted(found.assignment.tolist())


@pytest.mark.parametrize("pattern", ["{y}/{m}/{d}", "{d:02}/{m:02}/{y} 14:09:05", "{y}.{m:02}.{d:02} 10:00"])
def test_times_that_say_which_is_the_day_split_a_table(pattern: str) -> None:
    expected = split_by_time(column("{y}-{m:02}-{d:02}"), "day", validation=0.2, test=0.2).assignment.tolist()
    assert split_by_time(column(pattern), "day", validation=0.2, test=0.2).assignment.tolist() == expected


def test_a_row_that_is_written_otherwise_is_named() -> None:
    table = pa.table({"day": ["01/02/2019", "25/02/2019", "30/02/2019"]})
    with pytest.raises(DataError, match=r"row 3, column 'day': '30/02/2019' is not written as '%d/%m/%Y'"):
        split_by_time(table, "day", validation=0.2, test=0.2, date_formats=["%d/%m/%Y"])
    schema = infer_schema(column("{d:02}/{m:02}/{y}")).schema
    with pytest.raises(
        DataError, match=r"row 3, column 'day': '30/02/2019' is not a date. Allowed: '%d/%m/%Y', or ISO"
    ):
        encode_table(schema, table)
    with pytest.raises(DataError, match=r"column 'day': '30/02/2019' is not a date"):
        encode_records(schema, [{"day": "30/02/2019"}])


@pytest.mark.parametrize(
    ("date_format", "says"),
    [("%d/%m", "does not say the year"), ("%d/%m/%Y %f", "has %f, which is not read"), ("%Y-%m-%d%", "has %, which")],
)
def test_a_format_that_names_no_day_is_refused(date_format: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ReadSettings(date_formats=(date_format,))


def test_a_format_belongs_to_a_part_of_a_date() -> None:
    feature: dict[str, Any] = {"kind": "categorical", "name": "a", "values": ["1"], "date_format": "%d/%m/%Y"}
    with pytest.raises(SchemaError, match="date_format= is for a part of a date"):
        ContextSchema.from_dict({"features": [feature]})
