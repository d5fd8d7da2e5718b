"""Logs become sequences: all that a user has up to an item that is asked for, as a plain loop makes them."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import HistorySettings, write_histories
from contextual_bert.errors import ConfigurationError, DataError


def drawn_log(*, seed: int, num_rows: int = 600) -> pa.Table:
    """Plays in no order, many at one time, some again."""
    draw = random.Random(seed)
    users = [draw.randrange(40) for _ in range(num_rows)]
    return pa.table(
        {
            "who": [f"u{user}" for user in users],
            "what": [f"i{draw.randrange(20)}" for _ in users],
            "when": [draw.randrange(200) for _ in users],
            "age": [20 + user for user in users],
            "stars": [draw.randrange(5) for _ in users],
        }
    )


def made(log: pa.Table, folder: Path, **settings: Any) -> tuple[pa.Table, Any]:
    path = folder / "sequences.parquet"
    own = {"user": "who", "item": "what", "time": "when", "is_sequence": True}
    report = write_histories(log, path, HistorySettings(**{**own, **settings}))
    return pq.read_table(path), report


def whole(log: pa.Table) -> dict[str, list[tuple[int, str]]]:
    """User -> (time, item) in the order of time, those of one time as in the log."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in log.to_pylist():
        found[row["who"]].append((row["when"], row["what"]))
    return {who: sorted(own, key=lambda pair: pair[0]) for who, own in found.items()}


@pytest.mark.parametrize("num_buckets", [1, 4])
@pytest.mark.parametrize("longest", [1, 5, 200])
def test_the_last_items_are_held_out(tmp_path: Path, longest: int, num_buckets: int) -> None:
    log = drawn_log(seed=longest)
    table, report = made(log, tmp_path, max_history=longest, num_buckets=num_buckets)
    wanted, num_cut = {}, 0
    for who, own in whole(log).items():
        ends = {"test": len(own), "validation": len(own) - 1, "train": len(own) - 2}
        if len(own) < 3:
            ends = {"test": 2, "train": 1} if len(own) == 2 else {"train": 1}
        for part, end in ends.items():
            wanted[who, part] = own[max(0, end - longest) : end]
            num_cut += end > longest
    found = {(row["who"], row["part"]): list(zip(row["times"], row["items"], strict=True)) for row in table.to_pylist()}
    assert found == wanted
    num_repeating = sum(len({item for _, item in each}) < len(each) for each in wanted.values())
    assert report.counts.get("repeating", 0) == num_repeating
    assert any("more than once: to learn them, give --duplicates keep" in line for line in report.lines()) == (
        num_repeating > 0
    )
    assert report.counts["cut"] == num_cut
    assert table.column_names == ["who", "items", "times", "age", "part"]
    assert "'stars' left out: it has several values for a user" in "\n".join(report.lines())


@pytest.mark.parametrize("targets", ["all", "last"])
def test_what_comes_from_a_time_on_is_held_out(tmp_path: Path, targets: str) -> None:
    log = drawn_log(seed=7)
    table, report = made(log, tmp_path, split="time", validation=0.2, test=0.2, targets=targets)
    rows = table.to_pylist()
    last = {part: [row["times"][-1] for row in rows if row["part"] == part] for part in ("train", "validation", "test")}
    assert max(last["train"]) < min(last["validation"]) <= max(last["validation"]) < min(last["test"])
    own = whole(log)
    for row in rows:
        pairs = list(zip(row["times"], row["items"], strict=True))
        assert pairs == own[row["who"]][: len(pairs)]
    per_user = [(row["who"], row["part"]) for row in rows]
    if targets == "last":
        assert len(set(per_user)) == len(per_user)
    else:
        held_out = sum(time >= min(last["validation"]) for pairs in own.values() for time, _ in pairs)
        assert sum(part != "train" for _, part in per_user) == held_out
    trained = [who for who, part in per_user if part == "train"]
    assert len({*trained}) == len(trained)
    assert sum(report.parts.values()) == len(rows)


def test_without_parts_each_user_has_one_row(tmp_path: Path) -> None:
    log = drawn_log(seed=3)
    table, report = made(log, tmp_path, split="none", min_items=10)
    long = {who: [item for _, item in own] for who, own in whole(log).items() if len(own) >= 10}
    assert dict(zip(table["who"].to_pylist(), table["items"].to_pylist(), strict=True)) == long
    assert any("have the time of the item before" in line for line in report.lines())


def test_what_is_about_baskets_is_refused(tmp_path: Path) -> None:
    for name, value in (("basket", "age"), ("session_gap", 5.0), ("has_days", True), ("has_counts", True)):
        with pytest.raises(ConfigurationError, match="makes one sequence of all") as caught:
            made(drawn_log(seed=0), tmp_path, **{name: value})
        assert name in str(caught.value)
    with pytest.raises(DataError, match="describes the item or the moment"):
        made(drawn_log(seed=0), tmp_path, keep=("stars",))
    assert [*tmp_path.iterdir()] == []
    single = pa.table({"who": ["a", "b"], "what": ["x", "y"], "when": [1, 2]})
    with pytest.raises(DataError, match="no user has a second item"):
        made(single, tmp_path)
