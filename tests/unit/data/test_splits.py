"""Splits: who is in which part, and what a file vouches for."""

import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import (
    SetPolicy,
    Split,
    read_sets,
    split_by_column,
    split_by_customer,
    split_by_row,
    split_by_time,
    table_digest,
)
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError


def customers_table(num_rows: int = 3000, num_customers: int = 1000) -> pa.Table:
    draw = np.random.default_rng(0)
    who = draw.integers(0, num_customers, num_rows)
    items = [[f"i{item}" for item in draw.choice(300, 5, replace=False)] for _ in range(num_rows)]
    return pa.table(
        {
            "who": [f"c{w}" for w in who],
            "items": items,
            "age": draw.integers(0, 60, num_rows),
            "day": np.arange(num_rows) // 7,
        }
    )


TABLE = customers_table()


# --- by customer


def test_customers_stay_together_and_shares_are_met() -> None:
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    part_of: dict[str, set[int]] = {}
    for who, part in zip(TABLE.column("who").to_pylist(), split.assignment.tolist(), strict=True):
        part_of.setdefault(who, set()).add(part)
    assert all(len(parts) == 1 for parts in part_of.values())
    shares = np.bincount(split.assignment, minlength=3) / TABLE.num_rows
    assert np.allclose(shares, [0.7, 0.1, 0.2], atol=0.05)
    assert sorted(np.concatenate([split.rows(part) for part in ("train", "validation", "test")])) == list(
        range(TABLE.num_rows)
    )


def test_a_customers_part_depends_on_nothing_but_seed_and_name() -> None:
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    order = np.random.default_rng(1).permutation(TABLE.num_rows)
    assert np.array_equal(
        split_by_customer(TABLE.take(order), "who", validation=0.1, test=0.2).assignment, split.assignment[order]
    )
    assert np.array_equal(
        split_by_customer(TABLE.slice(500), "who", validation=0.1, test=0.2).assignment, split.assignment[500:]
    )
    assert not np.array_equal(
        split_by_customer(TABLE, "who", validation=0.1, test=0.2, seed=1).assignment, split.assignment
    )
    # The test part stays when the share of validation changes.
    assert np.array_equal(split_by_customer(TABLE, "who", validation=0.3, test=0.2).rows("test"), split.rows("test"))


def test_numbers_and_text_are_the_same_customer() -> None:
    ids = np.arange(200)
    splits = [
        split_by_customer(pa.table({"who": column}), "who", validation=0.2, test=0.2).assignment
        for column in (
            ids,
            ids.astype(float),
            [str(i) for i in ids],
            pa.array([str(i) for i in ids]).dictionary_encode(),
        )
    ]
    assert all(np.array_equal(splits[0], other) for other in splits[1:])


def test_faulty_columns_and_shares_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no column 'whom'.*Did you mean 'who'"):
        split_by_customer(TABLE, "whom", validation=0.1, test=0.1)
    with pytest.raises(DataError, match=r"days\.csv, row 2, column 'who': the cell is missing"):
        split_by_customer(pa.table({"who": ["a", None]}), "who", validation=0.1, test=0.1, file="days.csv")
    with pytest.raises(
        DataError,
        match=r"the [a-z]+ part of a split by customer would be empty \(1 rows, share 0\.\d\)\. Give",
    ):
        split_by_customer(pa.table({"who": ["a"]}), "who", validation=0.1, test=0.1)
    for validation, test in ((-0.1, 0.1), (0.1, 1.0), (0.6, 0.4), (float("nan"), 0.1)):
        with pytest.raises(ConfigurationError):
            split_by_row(TABLE, validation=validation, test=test)


def test_by_row_meets_shares_and_leaves_a_part_out() -> None:
    split = split_by_row(TABLE, validation=0.0, test=0.25)
    assert len(split.rows("validation")) == 0
    assert abs(len(split.rows("test")) / TABLE.num_rows - 0.25) < 0.04
    with pytest.raises(UnknownNameError, match=r"no part 'valid' in a split\. Did you mean 'validation'"):
        split.rows("valid")


# --- by time


def test_the_future_tests_and_ties_stay_together() -> None:
    draw = np.random.default_rng(0)
    order = draw.permutation(TABLE.num_rows)
    split = split_by_time(TABLE, "day", validation=0.1, test=0.2)
    day = TABLE.column("day").to_numpy()
    train, validation, test = (day[split.rows(part)] for part in ("train", "validation", "test"))
    assert train.max() < validation.min() and validation.max() < test.min()
    assert np.allclose([len(train), len(validation), len(test)], [2100, 300, 600], atol=7)
    assert np.array_equal(
        split_by_time(TABLE.take(order), "day", validation=0.1, test=0.2).assignment, split.assignment[order]
    )


def test_every_kind_of_time_gives_the_same_split() -> None:
    days = np.arange("2016-01-25", "2016-03-15", dtype="datetime64[D]")
    columns = [
        pa.array(days),
        pa.array(days.astype("datetime64[us]")),
        pa.array([str(day) for day in days]),
        pa.array([f"{day}T12:00:00" for day in days], pa.large_string()),
        pa.array(days.astype("int64").astype(float)),
    ]
    splits = [
        split_by_time(pa.table({"day": column}), "day", validation=0.0, test=0.2).assignment for column in columns
    ]
    assert all(np.array_equal(splits[0], other) for other in splits[1:])
    assert splits[0].tolist() == [0] * 40 + [2] * 10


def test_times_with_zones_are_points_in_time() -> None:
    zoned = ["2016-03-05T23:00:00-05:00", "2016-03-06T03:00:00Z", "2016-03-06 06:00:00+01", "2016-03-06 04:30:00 UTC"]
    split = split_by_time(pa.table({"at": zoned}), "at", validation=0.25, test=0.25)
    assert split.assignment.tolist() == [0, 0, 2, 1]
    fine = ["2016-03-05T10:00:00.123456789", "2016-03-05 10:00", "2016-03-05T10:00:00", "9999-12-31"]
    split = split_by_time(pa.table({"at": fine}), "at", validation=0.25, test=0.25)
    assert split.assignment.tolist() == [1, 0, 0, 2]


def test_times_that_are_none_are_refused() -> None:
    for text, zone in (("2016-3-15", ""), ("2016-03-15T9:00", ""), ("2016-02-30", ""), ("2016-03-05T10:00", "Z")):
        with pytest.raises(DataError, match=rf"row 2, column 'day': '{text}' is not a time"):
            split_by_time(pa.table({"day": [f"2016-10-05T10:00{zone}", text]}), "day", validation=0.1, test=0.1)
    with pytest.raises(DataError, match=r"row 2, column 'day': '5 March' is not a time\. Write times as 2016-03-05"):
        split_by_time(pa.table({"day": ["2016-03-05", "5 March"]}), "day", validation=0.1, test=0.1)
    with pytest.raises(DataError, match="column is of type bool"):
        split_by_time(pa.table({"day": [True, False]}), "day", validation=0.1, test=0.1)
    with pytest.raises(DataError, match="part of a split by time would be empty"):
        split_by_time(pa.table({"day": [1, 1, 1]}), "day", validation=0.1, test=0.1)


# --- the file


def test_a_split_survives_the_file_and_names_its_data(tmp_path: Path) -> None:
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    split.save(tmp_path / "split.json")
    loaded = Split.load(tmp_path / "split.json")
    assert np.array_equal(loaded.assignment, split.assignment)
    assert (loaded.by, loaded.column, loaded.fractions, loaded.seed, loaded.data_digest, loaded.digest) == (
        "customer",
        "who",
        (0.1, 0.2),
        0,
        split.data_digest,
        split.digest,
    )
    loaded.check(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]
    assert json.loads((tmp_path / "split.json").read_text())["counts"]["train"] == len(split.rows("train"))
    assert "train: " in loaded.lines()[1]
    assert not loaded.assignment.flags.writeable


def test_rows_are_packed_at_most_once_and_not_again_from_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    levels: list[int] = []
    compress = zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda data, level: (levels.append(level), compress(data, level))[1])
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    assert levels == []
    split.save(tmp_path / "split.json")
    split.save(tmp_path / "again.json")
    loaded = Split.load(tmp_path / "split.json")
    loaded.save(tmp_path / "copy.json")
    assert loaded.digest == split.digest
    assert levels == [9]
    assert (tmp_path / "copy.json").read_text() == (tmp_path / "split.json").read_text()
    assert loaded.restricted(split.assignment == 2).digest != split.digest


def test_the_digest_is_what_older_versions_wrote() -> None:
    split = Split(np.array([0, 1, 2, 3] * 5), "row", None, (0.25, 0.25), 0, "80e4")
    assert split.digest == "a463720e557cb069541d8c9b9a634c3edbc4fae460b52b66e16b85491ea80a6b"


def test_wrong_data_are_detected() -> None:
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    with pytest.raises(DataError, match=r"other\.csv: the table has 10 rows, the split is for 3,000\. Use the table"):
        split.check(TABLE.slice(0, 10), file="other.csv")
    changed = TABLE.set_column(2, "age", pa.array(np.roll(TABLE.column("age").to_numpy(), 1)))
    with pytest.raises(DataError, match="the split was made from"):
        split.check(changed)
    with pytest.raises(DataError, match="the rows are from a table of 10 rows"):
        split.select(read_sets(TABLE.slice(0, 10), items="items", policy=SetPolicy()), "train")


def test_an_altered_split_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    split = split_by_customer(TABLE, "who", validation=0.1, test=0.2)
    split.save(path)
    whole = path.read_text()
    other = split_by_customer(TABLE, "who", validation=0.1, test=0.2, seed=1)
    for name, value in (
        ("assignment", other._content["assignment"]),
        ("seed", 7),
        ("data_digest", "0" * 64),
        ("num_rows", 5),
    ):
        path.write_text(json.dumps({**json.loads(whole), name: value}))
        with pytest.raises(DataError, match=r"split\.json: the split was altered.*Make the split again"):
            Split.load(path)
    for text, says in (
        (whole[:100], "not a split"),
        ("{}", "not a split of the format"),
        ("[]", "not a split of the format"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=says):
            Split.load(path)
    without = json.loads(whole)
    del without["seed"]
    path.write_text(json.dumps(without))
    with pytest.raises(DataError, match="the split lacks seed"):
        Split.load(path)
    with pytest.raises(DataError, match="no such file"):
        Split.load(tmp_path / "none.json")


def test_a_customer_is_one_value() -> None:
    table = TABLE.append_column("home", TABLE["items"])
    with pytest.raises(SchemaError, match=r"days\.csv, column 'home' has the type list<.*>, which has no single value"):
        split_by_customer(table, "home", validation=0.1, test=0.1, file="days.csv")


def test_a_split_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    split = split_by_row(TABLE, validation=0.1, test=0.1)
    with pytest.raises(DataError, match="cannot be written"):
        split.save(tmp_path / "none" / "split.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        split.save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_digest_is_of_content_not_of_storage() -> None:
    rows = {
        "text": ["a", None, "ccc", "", "a"],
        "number": [1, None, 3, 4, 5],
        "real": [0.5, None, 1.5, 2.0, 2.5],
        "flag": [True, None, False, True, True],
        "items": [["a", "b"], None, [], ["c", None], ["a"]],
        "day": pa.array([1, 2, None, 4, 5], pa.date32()),
        "when": pa.array([1, 2, None, 4, 5], pa.timestamp("us")),
        "pair": [{"x": 1}, None, {"x": 3}, {"x": None}, {"x": 5}],
        "none": pa.nulls(5),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal(0), Decimal("9.99")]),
        "stock": pa.array([[("S", 1)], None, [], [("M", 2), ("L", None)], [("S", 0)]], pa.map_(pa.string(), pa.int8())),
        "key": pa.array([b"ab", None, b"cd", b"ab", b"ef"], pa.binary(2)),
        "time": pa.array([1, 2, None, 4, 5], pa.time64("us")),
        "stay": pa.array([1, 2, None, 4, 5], pa.duration("s")),
    }
    table = pa.table(rows)
    digest = table_digest(table)
    assert table_digest(pa.concat_tables([table.slice(0, 2), table.slice(2, 1), table.slice(3)])) == digest
    padded = pa.concat_tables([table, table]).combine_chunks().slice(5)
    assert table_digest(padded) == digest
    stored = table.set_column(0, "text", table["text"].combine_chunks().dictionary_encode())
    stored = stored.set_column(4, "items", table["items"].cast(pa.large_list(pa.large_string())))
    assert table_digest(stored) == digest
    changes = [
        table.rename_columns(["words", *table.column_names[1:]]),
        table.slice(1),
        table.take([1, 0, 2, 3, 4]),
        table.drop_columns(["flag"]),
        table.set_column(0, "text", pa.array(["a", "", "ccc", None, "a"])),
        table.set_column(0, "text", pa.array(["ac", None, "cc", "", "a"])),
        table.set_column(1, "number", pa.array([1, 0, 3, 4, 5])),
        table.set_column(4, "items", pa.array([["a"], None, ["b"], ["c", None], ["a"]])),
        table.set_column(9, "price", pa.array([Decimal("1.50"), None, Decimal("2.25"), Decimal(0), Decimal("9.99")])),
        table.set_column(10, "stock", table["stock"].take([0, 2, 1, 3, 4])),
        table.set_column(11, "key", pa.array([b"ab", None, b"cd", b"ef", b"ab"])),
        table.set_column(7, "pair", pa.array([{"x": 1}, {"x": None}, {"x": 3}, {"x": None}, {"x": 5}])),
    ]
    assert len({digest, *map(table_digest, changes)}) == len(changes) + 1


def test_all_rows_may_train() -> None:
    split = split_by_customer(TABLE, "who", validation=0.0, test=0.0)
    assert (split.assignment == 0).all()


def test_a_column_names_the_parts_in_the_words_of_people() -> None:
    words = ["train", "Dev", " TEST ", "training", "val", "holdout"]
    split = split_by_column(pa.table({"part": words}), "part")
    assert split.assignment.tolist() == [0, 1, 2, 0, 1, 2]
    assert (split.by, split.column, split.seed) == ("column", "part", None)
    with pytest.raises(DataError, match=r"days\.csv, row 2, column 'part': 'tset' is no part \(2 such"):
        split_by_column(pa.table({"part": ["train", "tset", "tset"]}), "part", file="days.csv")
    with pytest.raises(DataError, match="no row is in the training part"):
        split_by_column(pa.table({"part": ["test", "val"]}), "part")
    with pytest.raises(DataError, match="the cell is missing"):
        split_by_column(pa.table({"part": ["train", None]}), "part")


def test_customers_are_left_out_of_all_parts_and_the_others_stay(tmp_path: Path) -> None:
    names = [f"c{number % 40}" for number in range(200)]
    names[3], names[4] = "Zoe\u0308", " Zoë "
    table = pa.table({"who": names, "day": list(range(200))})
    for split in (
        split_by_customer(table, "who", validation=0.2, test=0.2),
        split_by_row(table, validation=0.2, test=0.2),
        split_by_time(table, "day", validation=0.2, test=0.2),
    ):
        without, num_rows = split.without_customers(table, "who", ["c7", "Zoë", "c7"])
        left_out = [row for row, name in enumerate(names) if name == "c7" or "Z" in name]
        assert num_rows == len(left_out) == 7
        assert np.flatnonzero(without.assignment == 3).tolist() == left_out
        others = np.setdiff1d(np.arange(200), left_out)
        assert (without.assignment[others] == split.assignment[others]).all()
        assert "in no part: 7 rows (3.5%)" in without.lines()
        without.save(tmp_path / "split.json")
        assert (Split.load(tmp_path / "split.json").assignment == without.assignment).all()
        assert "c7" not in (tmp_path / "split.json").read_text()
    with pytest.raises(UnknownNameError, match=r"column 'who' has no customer 'c99', 'd' \(2 of 3 are unknown\)"):
        split.without_customers(table, "who", ["c99", "c7", "d"])
    with pytest.raises(UnknownNameError, match="There is no column 'whom'"):
        split.without_customers(table, "whom", ["c7"])
    numbers = pa.table({"who": [float(number % 40) for number in range(200)]})
    assert split_by_row(numbers, validation=0.2, test=0.2).without_customers(numbers, "who", ["7"])[1] == 5
    with pytest.raises(DataError, match="part would be empty"):
        split_by_row(table, validation=0.2, test=0.2).without_customers(table, "who", set(names))


def test_rows_without_a_time_are_in_no_part_where_broken_rows_are_dropped() -> None:
    days: list[str | None] = [f"2016-03-{day:02}" for day in range(1, 29) for _ in range(4)]
    gaps = [None if row % 9 == 0 else day for row, day in enumerate(days)]
    table = pa.table({"day": gaps, "n": range(len(gaps))})
    shares: dict[str, float] = {"validation": 0.2, "test": 0.2}
    with pytest.raises(DataError, match="column 'day': the cell is missing"):
        split_by_time(table, "day", **shares)
    found = split_by_time(table, "day", **shares, on_bad_row="drop")
    timed = [row for row, day in enumerate(gaps) if day is not None]
    alone = split_by_time(table.take(timed), "day", **shares)
    assert found.assignment[timed].tolist() == alone.assignment.tolist()
    assert sum(len(found.rows(part)) for part in ("train", "validation", "test")) == len(timed)
    gaps[5] = "soon"
    with pytest.raises(DataError, match=r"row 6, column 'day': 'soon' is not a time"):
        split_by_time(pa.table({"day": gaps}), "day", **shares, on_bad_row="drop")
    with pytest.raises(DataError, match="the cell is missing"):
        split_by_time(pa.table({"day": pa.nulls(9, pa.string())}), "day", **shares, on_bad_row="drop")
