"""Times of a log: what all blocks agree on, and each way in which they may not."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import HistorySettings, ReadSettings, write_histories
from contextual_bert.errors import DataError

SETTINGS = HistorySettings(user="who", item="what", time="when", split="none")
LINES = "who,what,when\n"


def read(log: Any, folder: Path, *, formats: tuple[str, ...] = ()) -> tuple[list[Any], pa.DataType, list[str]]:
    """The times of the sets, their type, and the report."""
    report = write_histories(log, folder / "sets.parquet", SETTINGS, reading=ReadSettings(date_formats=formats))
    column = pq.read_table(folder / "sets.parquet")["when"]
    return column.to_pylist(), column.type, report.lines()


def of_times(times: Any) -> pa.Table:
    return pa.table({"who": [1] * len(times), "what": [str(each) for each in range(len(times))], "when": times})


DAYS = [datetime.date(2019, 2, 1), datetime.date(2019, 2, 25)]
MOMENTS = [datetime.datetime(2019, 2, 1, 12), datetime.datetime(2019, 2, 25, 13, 30)]


@pytest.mark.parametrize(
    ("times", "formats", "expected", "kind"),
    [
        (pa.array(DAYS), (), DAYS, pa.date32()),
        (pa.array(MOMENTS, pa.timestamp("ns")), (), MOMENTS, pa.timestamp("us")),
        (["2019-02-01", "2019-02-25"], (), DAYS, pa.date32()),
        (["2019/2/1", "2019/2/25"], (), DAYS, pa.date32()),
        (["01/02/2019", "25/02/2019"], (), DAYS, pa.date32()),
        (["02/01/2019", "02/25/2019"], (), DAYS, pa.date32()),
        (["1.2.19", "25.2.19"], ("%d.%m.%y",), DAYS, pa.date32()),
        ([20190201, 20190225], ("%Y%m%d",), DAYS, pa.date32()),
        (["2019-02-01 12:00", "2019-02-25T13:30:00"], (), MOMENTS, pa.timestamp("us")),
        ([1549022400, 1551101400], (), MOMENTS, pa.timestamp("us")),
        ([1549022400.0, 1551101400.0], (), MOMENTS, pa.timestamp("us")),
        (["1549022400", "1551101400"], (), MOMENTS, pa.timestamp("us")),
        ([1549022400000, 1551101400000], (), MOMENTS, pa.timestamp("us")),
        ([1, 2], (), [1, 2], pa.int64()),
        (["1", "2"], (), [1, 2], pa.int64()),
    ],
)
def test_times_are_read(
    tmp_path: Path, times: Any, formats: tuple[str, ...], expected: list[Any], kind: pa.DataType
) -> None:
    assert read(of_times(times), tmp_path, formats=formats)[:2] == (expected, kind)


def test_times_with_zones_are_sorted_by_the_moment(tmp_path: Path) -> None:
    found, kind, lines = read(of_times(["2019-02-01T12:00:00+02:00", "2019-02-01T10:30:00Z"]), tmp_path)
    assert kind == pa.timestamp("us", tz="UTC")
    assert [each.hour for each in found] == [10, 10]
    assert any("times in 2 zones (+02:00, UTC)" in line for line in lines)


def test_files_of_two_zones_are_sorted_by_the_moment(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    for name, zone in (("a", "Europe/Berlin"), ("b", "Asia/Tokyo")):
        pq.write_table(of_times(pa.array([MOMENTS[0]], pa.timestamp("s", tz=zone))), folder / f"{name}.parquet")
    pq.write_table(of_times(pa.array([MOMENTS[1]], pa.timestamp("s", tz="UTC"))), folder / "c.parquet")
    _, kind, lines = read(folder, tmp_path)
    assert kind == pa.timestamp("us", tz="UTC")
    assert any("3 zones (Europe/Berlin, Asia/Tokyo, UTC)" in line for line in lines)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(MOMENTS, pa.timestamp("us")), pa.array(MOMENTS, pa.timestamp("us", tz="UTC"))),
        (pa.array([1, 2]), pa.array(DAYS)),
        (["2019-02-01T10:00:00"], ["2019-02-01T10:00:00Z"]),
    ],
)
def test_files_that_disagree_are_told(tmp_path: Path, first: Any, second: Any) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    pq.write_table(of_times(first), folder / "a.parquet")
    pq.write_table(of_times(second), folder / "b.parquet")
    with pytest.raises(DataError, match="before") as caught:
        read(folder, tmp_path)
    assert caught.value.location == (str(folder / "b.parquet"), 0, "when")
    assert not (tmp_path / "sets.parquet").exists()


@pytest.mark.parametrize(
    ("times", "row", "words"),
    [
        (["2019-02-01T10:00:00Z", "2019-02-01T10:00:00"], 1, "with a zone, as others are"),
        (["25/02/2019", "02/25/2019"], 1, "has the month first"),
        (["2019-02-01", "yesterday"], 1, "is not a time"),
        (["2019-02-01", "2019-02-30"], 1, "is not a time"),
        (["25/02/2019", "soon", "26/02/2019"], 1, "is not a time"),
        (["01/02/2019", "03/02/2019"], 0, "may be two days"),
        ([0.5, 1.5], 0, "has decimals"),
        ([float("inf"), 1.0], 0, "too large"),
        (["1", "2", "x"], 2, "is not a time"),
    ],
)
def test_times_that_are_none_are_told(tmp_path: Path, times: list[Any], row: int, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(of_times(times), tmp_path)
    assert (caught.value.row, caught.value.column) == (row, "when")


def test_a_column_of_another_type_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of type bool"):
        read(of_times([True, False]), tmp_path)


def test_a_later_block_may_say_which_number_is_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    rows = ["1,a,01/02/2019", "1,b,02/02/2019", "1,c,25/02/2019"]
    path.write_text(LINES + "\n".join(rows) + "\n")
    for name in ("log_files._BLOCK_BYTES", "log_rows._BYTES_LOOKED_AT"):
        monkeypatch.setattr(f"contextual_bert.data.logs.{name}", 10)
    assert read(path, tmp_path)[0] == [DAYS[0], datetime.date(2019, 2, 2), DAYS[1]]
    path.write_text(LINES + "\n".join([*rows, *["1,e,26/02/2019"] * 5, "1,d,02/25/2019"]) + "\n")
    with pytest.raises(DataError, match="not written as '%d/%m/%Y', as others are") as caught:
        read(path, tmp_path)
    assert "line 10" in str(caught.value)


def test_numbers_that_look_like_days_are_told(tmp_path: Path) -> None:
    assert any("may be a day written as YYYYMMDD" in line for line in read(of_times([20190201, 20190225]), tmp_path)[2])
    assert any("of which all would be alike" in line for line in read(of_times([0, 1549022400]), tmp_path)[2])
