"""Logs become sets with histories: as a plain loop makes them, whatever the number of buckets and the files."""

import datetime
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import HistorySettings, ReadSettings, read_table, write_histories
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError

COLUMNS = {"user": "who", "item": "what", "time": "when"}


def drawn_log(*, seed: int, num_rows: int = 2000, num_users: int = 60, num_days: int = 40) -> pa.Table:
    """A log whose rows stand in no order, with ages by user and shops by day."""
    draw = random.Random(seed)
    rows = [
        {"who": f"u{draw.randrange(num_users)}", "what": f"i{draw.randrange(30)}", "day": draw.randrange(num_days)}
        for _ in range(num_rows)
    ]
    first = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "who": [row["who"] for row in rows],
            "what": [row["what"] for row in rows],
            "when": [first + datetime.timedelta(days=row["day"]) for row in rows],
            "age": [20 + int(row["who"][1:]) for row in rows],
            "shop": [f"s{(int(row['who'][1:]) + row['day']) % 5}" for row in rows],
            "price": [round(draw.random(), 2) for _ in rows],
        }
    )


def expected(log: pa.Table, *, longest: int = 50) -> dict[tuple[str, Any], Any]:
    """(user, time) -> items, history and its times, from a loop over rows."""
    baskets: dict[str, dict[Any, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for who, what, when in zip(*(log[name].to_pylist() for name in ("who", "what", "when")), strict=True):
        baskets[who][when][what] = None
    found = {}
    for who, own in baskets.items():
        times = sorted(own)
        for place, when in enumerate(times):
            before = times[max(0, place - longest) : place]
            found[who, when] = ([*own[when]], [[*own[each]] for each in before], before)
    return found


def made(log: Any, folder: Path, *, reading: ReadSettings | None = None, **settings: Any) -> tuple[pa.Table, Any]:
    """The sets of a log, and the report."""
    path = folder / "sets.parquet"
    report = write_histories(log, path, HistorySettings(**{**COLUMNS, **settings}), reading=reading)
    assert [each.name for each in folder.iterdir() if each.name.startswith(".")] == []
    return pq.read_table(path), report


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_sets_are_those_of_a_loop(tmp_path: Path, longest: int) -> None:
    log = drawn_log(seed=longest)
    table, report = made(log, tmp_path, max_history=longest)
    wanted = expected(log, longest=longest)
    found = {
        (row["who"], row["when"]): (row["items"], row["history"], row["history_times"]) for row in table.to_pylist()
    }
    assert table.num_rows == len(wanted) == report.counts["sets"]
    assert found == wanted
    whole = expected(log, longest=10**6)
    assert report.counts["cut"] == sum(len(history) > longest for _, history, _ in whole.values())
    assert report.counts["without"] == sum(not history for _, history, _ in wanted.values())
    assert str(table.schema.field("history").type) == "list<element: list<element: string>>"


def test_a_column_is_carried_along_unless_it_describes_the_item(tmp_path: Path) -> None:
    table, report = made(drawn_log(seed=0), tmp_path)
    assert table.column_names == ["who", "when", "items", "history", "history_times", "age", "shop", "part"]
    assert (report.by_user, report.by_basket) == (("age",), ("shop",))
    assert report.columns == tuple(table.column_names)
    assert "varies within" in report.left_out["price"]
    assert all(row["age"] == 20 + int(row["who"][1:]) for row in table.to_pylist())
    table, _ = made(drawn_log(seed=0), tmp_path, keep=("shop",))
    assert "age" not in table.column_names and "shop" in table.column_names
    table, _ = made(drawn_log(seed=0), tmp_path, keep=())
    assert not {"age", "shop"} & {*table.column_names}
    with pytest.raises(DataError, match="describes the item") as caught:
        made(drawn_log(seed=0), tmp_path, keep=("price",))
    assert caught.value.column == "price"


def test_a_slip_is_missing_and_told(tmp_path: Path) -> None:
    log = drawn_log(seed=0, num_users=10, num_days=30)
    ages = log["age"].to_pylist()
    ages[7] = 99
    table, report = made(log.set_column(3, "age", pa.array(ages)), tmp_path)
    assert table["age"].null_count == 1
    assert any("'age' has several values in 1 basket" in line for line in report.lines())


@pytest.mark.parametrize("split", ["last", "time", "none"])
def test_the_result_does_not_depend_on_buckets_or_files(tmp_path: Path, split: str) -> None:
    log = drawn_log(seed=1)
    first, report = made(log, tmp_path, split=split, num_buckets=1)
    many, same = made(log, tmp_path, split=split, num_buckets=16)
    assert many.equals(first)
    assert same.counts == report.counts
    folder = tmp_path / "log"
    (folder / "2020").mkdir(parents=True)
    pq.write_table(log.slice(0, 700), folder / "2020" / "a.parquet")
    pq.write_table(log.slice(700), folder / "b.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "_log.parquet").write_text("of another program")
    assert made(folder, tmp_path, split=split)[0].equals(first)


def test_a_csv_file_in_blocks_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextual_bert.data.logs.transaction_logs.num_buckets_for", lambda rows: 4)
    log = drawn_log(seed=2)
    wanted, _ = made(log, tmp_path, split="none")
    pa_csv.write_csv(log, tmp_path / "log.csv")
    whole, _ = made(tmp_path / "log.csv", tmp_path, split="none")
    monkeypatch.setattr("contextual_bert.data.logs.log_files._BLOCK_BYTES", 3000)
    table, _ = made(tmp_path / "log.csv", tmp_path, split="none")
    assert table.equals(whole) and table.equals(wanted)
    assert table.schema.field("age").type == pa.int64()


def test_leave_last_out_by_user(tmp_path: Path) -> None:
    log = pa.table(
        {
            "who": ["a"] * 4 + ["b"] * 2 + ["c"],
            "what": ["x"] * 7,
            "when": [1, 2, 3, 4, 1, 2, 1],
        }
    )
    table, report = made(log, tmp_path)
    parts = defaultdict(list)
    for row in table.to_pylist():
        parts[row["who"]].append((row["when"], row["part"]))
    assert parts["a"] == [(1, "train"), (2, "train"), (3, "validation"), (4, "test")]
    assert parts["b"] == [(1, "train"), (2, "test")]
    assert parts["c"] == [(1, "train")]
    assert report.parts == {"train": 4, "validation": 1, "test": 2}
    table, _ = made(log, tmp_path, targets="last")
    assert sorted((row["who"], row["when"], row["part"]) for row in table.to_pylist()) == [
        ("a", 2, "train"), ("a", 3, "validation"), ("a", 4, "test"), ("b", 1, "train"), ("b", 2, "test"),
        ("c", 1, "train"),
    ]  # fmt: skip
    table, _ = made(log, tmp_path, targets="last", split="none")
    assert sorted((row["who"], row["when"]) for row in table.to_pylist()) == [("a", 4), ("b", 2), ("c", 1)]


def test_a_split_by_time_has_one_border_for_all(tmp_path: Path) -> None:
    table, report = made(drawn_log(seed=3), tmp_path, split="time", validation=0.2, test=0.1)
    ends = {part: [row["when"] for row in table.to_pylist() if row["part"] == part] for part in report.parts}
    assert max(ends["train"]) < min(ends["validation"]) <= max(ends["validation"]) < min(ends["test"])
    assert abs(len(ends["test"]) / table.num_rows - 0.1) < 0.03
    assert report.parts == {part: len(times) for part, times in ends.items()}


def test_small_and_early_baskets_become_no_row_and_stay_in_histories(tmp_path: Path) -> None:
    log = drawn_log(seed=4)
    wanted = expected(log)
    table, report = made(log, tmp_path, min_items=2, min_history=3, split="none")
    found = {(row["who"], row["when"]): row["history"] for row in table.to_pylist()}
    kept = {key: own[1] for key, own in wanted.items() if len(own[0]) >= 2 and len(own[1]) >= 3}
    assert found == kept
    assert report.counts["short"] == sum(len(own[0]) < 2 for own in wanted.values())
    assert report.counts["short"] + report.counts["early"] + len(kept) == len(wanted)


def test_baskets_by_name(tmp_path: Path) -> None:
    log = pa.table(
        {
            "who": ["a", "a", "a", "a", "a", "b", "b"],
            "order": [7, 7, 8, 9, 9, 7, 5],
            "what": ["x", "y", "x", "z", "w", "x", "y"],
            "when": pa.array([10, 12, 10, 20, 19, 3, 4], pa.timestamp("s")),
        }
    )
    table, report = made(log, tmp_path, basket="order", split="none")
    rows = {(row["who"], row["order"]): row for row in table.to_pylist()}
    assert rows["a", 7]["history"] == rows["a", 8]["history"] == []  # of one time
    assert rows["a", 9]["history"] == [["x", "y"], ["x"]]
    assert rows["a", 9]["items"] == ["w", "z"]  # by time
    assert rows["a", 9]["when"] == datetime.datetime(1970, 1, 1, 0, 0, 19)
    assert rows["b", 5]["history"] == [["x"]]
    assert report.counts["at_one_time"] == 1
    told = "\n".join(report.lines())
    assert "1 name of 'order' has rows of several users" in told
    assert "has the time of another one of the same user" in told


def test_names_of_baskets_that_begin_anew_for_each_user(tmp_path: Path) -> None:
    log = pa.table({"who": [1, 1, 2, 2], "n": [1, 2, 1, 2], "what": list("abcd"), "when": [1, 2, 3, 4]})
    _, report = made(log, tmp_path, basket="n", split="none")
    assert any("counts the baskets of each user anew" in line for line in report.lines())


def test_a_basket_whose_rows_lie_far_apart_is_told(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 11), datetime.date(2020, 1, 2)]
    log = pa.table({"who": [1, 1, 1], "order": ["x", "x", "y"], "what": list("abc"), "when": days})
    table, report = made(log, tmp_path, basket="order", split="none")
    assert table["when"].to_pylist() == [days[0], days[2]]
    assert any("1 basket lasts longer than a day, 'x' 10 days" in line for line in report.lines())


def test_sessions_end_at_a_gap(tmp_path: Path) -> None:
    minutes = [0, 10, 35, 66, 70, 0, 500]
    log = pa.table(
        {
            "who": ["a"] * 5 + ["b"] * 2,
            "what": list("pqrstuv"),
            "when": pa.array([60 * each for each in minutes], pa.timestamp("s", tz="UTC")),
        }
    )
    table, _ = made(log, tmp_path, session_gap=30, split="none")
    found = {row["who"]: row["history"] + [row["items"]] for row in table.to_pylist()}
    assert found == {"a": [["p", "q", "r"], ["s", "t"]], "b": [["u"], ["v"]]}
    with pytest.raises(DataError, match="a gap of minutes cannot be told"):
        made(log.set_column(2, "when", pa.array(minutes)), tmp_path, session_gap=30)


def test_counts_and_returns(tmp_path: Path) -> None:
    log = pa.table(
        {
            "who": [1] * 6,
            "what": ["a", "b", "a", "a", "c", "b"],
            "when": [1, 1, 1, 2, 2, 3],
            "quantity": [2, 1, 3, -1, 1, 1],
        }
    )
    table, report = made(log, tmp_path, has_counts=True, split="none", keep=())
    rows = table.to_pylist()
    assert [(row["items"], row["counts"]) for row in rows] == [(["a", "b"], [2, 1]), (["a", "c"], [1, 1]), (["b"], [1])]
    assert rows[2]["history_counts"] == [[2, 1], [1, 1]]
    assert report.counts["repeated"] == 1
    _, report = made(log, tmp_path, split="none")
    told = "\n".join(report.lines())
    assert "'quantity' is negative in 1 row (row 4 is the first)" in told and "--quantity" in told
    table, report = made(log, tmp_path, has_counts=True, quantity="quantity", split="none")
    rows = table.to_pylist()
    assert [(row["items"], row["counts"]) for row in rows] == [(["a", "b"], [5, 1]), (["c"], [1]), (["b"], [1])]
    assert any("rows left out as returned: 1" in line for line in report.lines())


@pytest.mark.parametrize(
    ("column", "cells"),
    [("who", ["a", None, "b"]), ("what", ["x", " ", "y"]), ("when", [1, None, 3]), ("order", [1.0, float("nan"), 2.0])],
)
def test_missing_cells_are_told_with_their_row_or_dropped(tmp_path: Path, column: str, cells: list[Any]) -> None:
    log = pa.table({"who": ["a"] * 3, "what": ["x"] * 3, "when": [1, 2, 3], "order": [1, 2, 3]})
    log = log.set_column(log.column_names.index(column), column, pa.array(cells))
    named = {"basket": "order"} if column == "order" else {}
    with pytest.raises(DataError) as caught:
        made(log, tmp_path, split="none", **named)
    assert (caught.value.row, caught.value.column) == (1, column)
    assert not (tmp_path / "sets.parquet").exists()
    log = pa.concat_tables([log, log.slice(0, 1).set_column(2, "when", pa.array([9], log["when"].type))])
    _, report = made(log, tmp_path, split="none", reading=ReadSettings(on_bad_row="drop"), **named)
    assert report.counts["rows"] == 3
    assert f"rows left out: 1 without a value of {column!r}" in report.lines()


def test_a_log_without_histories_is_an_error(tmp_path: Path) -> None:
    log = pa.table({"who": [1, 2, 2], "what": list("abc"), "when": [1, 2, 2]})
    with pytest.raises(DataError, match="no user has a second basket") as caught:
        made(log, tmp_path)
    assert caught.value.column == "who"
    assert [*tmp_path.iterdir()] == []


def test_what_else_is_an_error(tmp_path: Path) -> None:
    log = drawn_log(seed=0)
    with pytest.raises(UnknownNameError, match="Did you mean 'what'"):
        made(log, tmp_path, item="wht")
    with pytest.raises(DataError, match="no rows"):
        made(log.slice(0, 0), tmp_path)
    with pytest.raises(DataError, match="no table"):
        made(tmp_path, tmp_path)
    with pytest.raises(DataError, match="no basket becomes a set"):
        made(log, tmp_path, min_items=1000)
    with pytest.raises(DataError, match=r"the validation part .* would be empty"):
        made(pa.table({"who": [1, 1], "what": [1, 2], "when": [1, 2]}), tmp_path)
    with pytest.raises(DataError, match=r"end in '.csv'|no list"):
        write_histories(log, tmp_path / "sets.csv", HistorySettings(**COLUMNS))
    with pytest.raises(DataError, match="has decimals, and is no name"):
        made(log.set_column(1, "what", pa.array([0.5] * log.num_rows)), tmp_path)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("sets")]


@pytest.mark.parametrize(
    ("faulty", "setting"),
    [
        ({"user": "what"}, "item"),
        ({"max_history": 0}, "max_history"),
        ({"basket": "b", "session_gap": 5}, "session_gap"),
        ({"session_gap": -1}, "session_gap"),
        ({"targets": "lst"}, "targets"),
        ({"split": "user"}, "split"),
        ({"split": "time", "validation": 0.6, "test": 0.5}, "validation"),
        ({"user": "history"}, "user"),
        ({"keep": ("part",)}, "keep"),
        ({"min_history": 60}, "min_history"),
    ],
)
def test_settings_that_cannot_work(faulty: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        HistorySettings(**{**COLUMNS, **faulty})
    assert caught.value.location == (setting,)


def test_a_column_called_as_one_that_is_made_is_left_out(tmp_path: Path) -> None:
    log = drawn_log(seed=0).append_column("part", pa.array(["x"] * 2000))
    _, report = made(log, tmp_path)
    assert "called so" in report.left_out["part"]


def test_json_lines_are_written_and_read(tmp_path: Path) -> None:
    log = drawn_log(seed=5)
    table, _ = made(log, tmp_path)
    write_histories(log, tmp_path / "sets.jsonl", HistorySettings(**COLUMNS))
    found = read_table(tmp_path / "sets.jsonl")
    assert found["history"].to_pylist() == table["history"].to_pylist()


def test_zones_are_kept(tmp_path: Path) -> None:
    when = pa.array([0, 3600, 7200], pa.timestamp("s", tz="Europe/Berlin"))
    table, _ = made(pa.table({"who": [1, 1, 1], "what": [1, 2, 3], "when": when}), tmp_path)
    assert table.schema.field("when").type == pa.timestamp("us", tz="Europe/Berlin")
    assert table.schema.field("history_times").type.value_type == pa.timestamp("us", tz="Europe/Berlin")
    assert table["items"].to_pylist() == [["1"], ["2"], ["3"]]


def test_a_history_of_objects_says_the_days(tmp_path: Path) -> None:
    when = pa.array([0, 43_200, 10 * 86_400], pa.timestamp("s"))
    log = pa.table({"who": [1, 1, 1], "what": ["a", "b", "c"], "when": when})
    table, _ = made(log, tmp_path, has_days=True)
    assert table["history"].to_pylist()[2] == [{"items": ["a"], "days_ago": 10.0}, {"items": ["b"], "days_ago": 9.5}]
    write_histories(log, tmp_path / "sets.jsonl", HistorySettings(**COLUMNS, has_days=True))
    assert read_table(tmp_path / "sets.jsonl")["history"].to_pylist() == table["history"].to_pylist()
    with pytest.raises(DataError, match="days before a set cannot be told"):
        made(log.set_column(2, "when", pa.array([1, 2, 3])), tmp_path, has_days=True)


def test_folders_may_name_the_day(tmp_path: Path) -> None:
    log = drawn_log(seed=6)
    wanted, _ = made(log, tmp_path, split="none")
    folder = tmp_path / "log"
    days = log["when"].to_pylist()
    for day in sorted({*days}):
        rows = [row for row, each in enumerate(days) if each == day]
        (folder / f"when={day}").mkdir(parents=True)
        pq.write_table(log.drop_columns(["when"]).take(rows), folder / f"when={day}" / "part-0.parquet")
    table, _ = made(folder, tmp_path, split="none")
    # The rows come in another order, which decides about that of items on one day alone.
    assert table.drop_columns(["items", "history"]).equals(wanted.drop_columns(["items", "history"]))
    assert [sorted(row) for row in table["items"].to_pylist()] == [sorted(row) for row in wanted["items"].to_pylist()]


def test_a_full_disk_or_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for step in ("log_buckets.Buckets.add", "transaction_logs.baskets_of", "transaction_logs._lists"):
        with monkeypatch.context() as patched:
            patched.setattr(f"contextual_bert.data.logs.{step}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                made(drawn_log(seed=0), tmp_path)
        assert [*tmp_path.iterdir()] == []


def test_a_user_who_is_everybody_is_told(tmp_path: Path) -> None:
    log = drawn_log(seed=7, num_users=200)
    users = ["guest" if row % 10 == 0 else who for row, who in enumerate(log["who"].to_pylist())]
    _, report = made(log.set_column(0, "who", pa.array(users)), tmp_path, keep=())
    assert any("the user 'guest' has 200 of 2,000 rows" in line for line in report.lines())
    _, report = made(log, tmp_path)
    assert not any("the user" in line for line in report.lines())
