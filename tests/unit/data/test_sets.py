"""Columns to sets: what a policy keeps, what is refused, and that each message names its place."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy, SetTable, read_sets
from contextual_bert.errors import ConfigurationError, ContextualBertError, DataError, UnknownNameError


def sets_of(column: object, **policy: object):
    return read_sets(pa.table({"items": column}), items="items", policy=SetPolicy(**policy), file="days.parquet")


def as_lists(sets: SetTable) -> list[list[str]]:
    values = sets.values.to_pylist()
    return [values[start:stop] for start, stop in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)]


def test_items_are_the_same_strings_whatever_the_type() -> None:
    for column in (
        [["3", "10"]],
        [[3, 10]],
        [[3.0, 10.0]],
        ["3, 10"],
        pa.array(["3, 10"]).dictionary_encode(),
        pa.array([["3", "10"]], pa.large_list(pa.large_string())),
    ):
        assert as_lists(sets_of(column)) == [["3", "10"]]
    dictionary = pa.array(["b,a", "a"]).dictionary_encode()
    assert as_lists(sets_of(dictionary)) == [["b", "a"], ["a"]]
    assert as_lists(sets_of(pa.chunked_array([[["a"]], [["b"], None, ["c", "a"]]]))) == [["a"], ["b"], ["c", "a"]]


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [
        (pa.int64(), [1042, None, -3], ["1042", "-3"]),
        (pa.float64(), [1042.0, None, 3.0], ["1042", "3"]),
        (pa.dictionary(pa.int8(), pa.int64()), [1042, None, 3], ["1042", "3"]),
        (pa.date32(), [datetime.date(2016, 3, 5), None, datetime.date(2016, 3, 6)], ["2016-03-05", "2016-03-06"]),
    ],
    ids=str,
)
def test_a_column_of_single_values_is_sets_of_one_item(kind: pa.DataType, values: list, names: list[str]) -> None:
    sets = sets_of(pa.array(values, kind))
    assert as_lists(sets) == [[name] for name in names]
    assert sets.rows.tolist() == [0, 2]


def test_text_is_split_by_the_separator_and_stripped() -> None:
    assert as_lists(sets_of(["a b ;  c", " d"], separator=";")) == [["a b", "c"], ["d"]]
    assert as_lists(sets_of(["a  b", " c "], separator=" ")) == [["a", "b"], ["c"]]
    assert as_lists(sets_of(["red coat, hat", "blue coat"])) == [["red coat", "hat"], ["blue coat"]]
    assert as_lists(sets_of(["red coat", "hat"])) == [["red coat"], ["hat"]]  # half of the cells are not most


@pytest.mark.parametrize(
    ("column", "row", "says"),
    [
        ([["a"], ["b", None]], 1, "item 2 of 2 is missing (null)"),
        ([["a"], ["b", ""]], 1, "item 2 of 2 is an empty string"),
        ([["a"], ["b"], [" ", "c"]], 2, "item 1 of 2 is an empty string"),
        (["a", "b,,c"], 1, "item 2 of 3 is an empty string between two separators ','"),
        ([[1.0], [float("nan")]], 1, "item 1 of 1 is not a finite number"),
        ([[1.0], [2.0, float("inf")]], 1, "item 2 of 2 is not a finite number"),
        (["a", "['a', 'b']"], 1, "\"['a', 'b']\" is a printed list"),
        (["a b", "c d e", "f", None, ""], None, "no cell has ',' between its items, and 2 of 3 have ' '. Give --sep"),
        (["a;b", "c;d e", "f;g"], None, "no cell has ',' between its items, and 3 of 3 have ';'"),
        ([["a"], ["b", "c", "b"]], 1, "the item 'b' occurs more than once in the set (1 such items in 1 rows)"),
        ([1.5, 2.0], None, "the column is of type double"),
        (np.array([1.5, 2.0], np.float16), None, "the column is of type halffloat"),
        ([True, False], None, "the column is of type bool"),
        ([[["a"]]], None, "the column is of type list"),
    ],
)
def test_a_faulty_set_is_named(column: object, row: int | None, says: str) -> None:
    with pytest.raises(DataError) as caught:
        sets_of(column)
    error = caught.value
    assert (error.file, error.row, error.column) == ("days.parquet", row, "items")
    assert says in str(error)
    assert error.fix.endswith(".")


def test_a_wrong_column_gets_a_suggestion_and_customer_and_time_must_be_whole() -> None:
    table = pa.table({"items": [["a"], ["b"]], "person": ["x", None], "age": [1.0, float("nan")]})
    with pytest.raises(UnknownNameError, match=r"no column 'item' in days\.csv\. Did you mean 'items'\?"):
        read_sets(table, items="item", policy=SetPolicy(), file="days.csv")
    for argument, column in (("customer", "person"), ("time", "age")):
        with pytest.raises(
            DataError, match=rf"row 2, column '{column}': the cell is missing \(1 such row\)\. Each row needs"
        ):
            read_sets(table, items="items", policy=SetPolicy(), **{argument: column})


def test_duplicates_are_dropped_or_kept_and_reported() -> None:
    column = [["a", "b", "a"], ["c"], ["d", "d", "d"]]
    dropped = sets_of(column, duplicates="drop")
    assert as_lists(dropped) == [["a", "b"], ["c"], ["d"]]
    assert (dropped.report.repeated_items, dropped.report.sets_with_repeats) == (3, 2)
    assert dropped.report.items_dropped == {"repeated in their set": 3}
    kept = sets_of(column, duplicates="keep")
    assert as_lists(kept) == column
    assert "items repeated within their set: 3, in 2 sets" in kept.report.lines()


def test_a_repeated_item_that_is_dropped_anyway_is_no_fault() -> None:
    assert as_lists(sets_of([["sleep", "eat", "sleep"]], drop_items=("sleep",))) == [["eat"]]


def test_filters_sizes_and_their_report() -> None:
    column = [["18a", "x", "y"], ["18a"], None, [], ["x", "y", "z", "w"], ["x"], ["x", "rare"], ["z", "w", "x"]]
    sets = sets_of(column, drop_prefixes=("18", "77"), drop_items=("nope",), min_count=2, min_size=2, max_size=3)
    assert as_lists(sets) == [["x", "y"], ["z", "w", "x"]]
    assert sets.rows.tolist() == [0, 7]
    assert sets.table.num_rows == 2
    assert sets.distinct_items() == ["w", "x", "y", "z"]
    report = sets.report
    assert report.rows_dropped == {
        "empty in the table": 2,
        "empty after the item filters": 1,
        "with fewer than 2 items": 2,
        "with more than 3 items": 1,
    }
    assert report.items_dropped == {"by prefix": 2, "seen fewer than 2 times": 1}
    assert (report.rows_in, report.rows_kept, report.items_in, report.items_kept) == (8, 2, 14, 5)
    assert (report.smallest, report.largest, report.num_distinct, report.mean_size) == (2, 3, 4, 2.5)
    assert report.lines()[0] == "2 sets of 8 rows kept (25.0%), 4 distinct items, 2.50 items a set (2 to 3)"
    assert report.lines()[-1] == "to be dropped (drop_items, drop_prefixes), but not in the table: nope, 77..."


def test_min_count_counts_only_in_the_rows_that_count() -> None:
    table = pa.table({"items": [["a", "b"], ["a", "c"], ["c", "b"]]})
    policy = SetPolicy(min_count=2)
    assert as_lists(read_sets(table, items="items", policy=policy)) == [["a", "b"], ["a", "c"], ["c", "b"]]
    for count_rows in ([0, 1], np.array([True, True, False])):
        assert as_lists(read_sets(table, items="items", policy=policy, count_rows=count_rows)) == [["a"], ["a"]]
    with pytest.raises(ConfigurationError, match="mask of 2 rows, the table has 3"):
        read_sets(table, items="items", policy=policy, count_rows=np.array([True, False]))
    with pytest.raises(ConfigurationError, match="from 0 to 2"):
        read_sets(table, items="items", policy=policy, count_rows=[3])


def test_nothing_left_says_which_rule_removed_how_much() -> None:
    with pytest.raises(DataError) as caught:
        sets_of([["a", "b"], ["c"], []], drop_items=("c",), min_size=3)
    text = str(caught.value)
    for part in (
        "no set of 3 rows",
        "1 empty in the table",
        "1 empty after the item filters",
        "1 with fewer than 3 items",
        "1 by name",
        "Loosen",
    ):
        assert part in text
    with pytest.raises(DataError, match="2 empty in the table"):
        sets_of(pa.nulls(2))
    with pytest.raises(DataError, match="2 empty in the table"):
        sets_of([[], []])


def test_longer_sets_are_sampled_as_a_function_of_seed_and_row() -> None:
    column = [[f"{row}-{item}" for item in range(12)] for row in range(300)] + [["a", "b"]]
    sampled = sets_of(column, max_size=4, longer="sample", seed=3)
    assert sampled.sizes.tolist() == [4] * 300 + [2]
    assert sampled.report.sets_sampled == 300
    assert sampled.report.items_dropped == {"not in the sample of their set": 2400}
    assert all(
        set(kept) <= set(full) and kept == sorted(kept, key=full.index)
        for kept, full in zip(as_lists(sampled), column, strict=True)
    )
    assert as_lists(sampled) == as_lists(sets_of(column, max_size=4, longer="sample", seed=3))
    assert as_lists(sampled) != as_lists(sets_of(column, max_size=4, longer="sample", seed=4))
    # What happens to a row does not depend on the rows behind it.
    assert as_lists(sets_of(column[:5], max_size=4, longer="sample", seed=3)) == as_lists(sampled)[:5]
    chosen = np.bincount([int(item.split("-")[1]) for kept in as_lists(sampled)[:300] for item in kept], minlength=12)
    assert chosen.min() > 60 and chosen.max() < 140  # 100 expected, standard deviation 8


def test_select_keeps_sets_and_rows_together() -> None:
    table = pa.table({"items": [["a", "b"], ["c"], ["d", "e", "f"]], "age": [1, 2, 3]})
    sets = read_sets(table, items="items", policy=SetPolicy())
    assert as_lists(sets.select([2, 0])) == [["d", "e", "f"], ["a", "b"]]
    assert sets.select([2, 0]).table.column("age").to_pylist() == [3, 1]
    assert as_lists(sets.select(np.array([False, True, False]))) == [["c"]]
    assert sets.select([2]).rows.tolist() == [2]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"drop_prefixes": "18"}, r"drop_prefixes is the string '18'. Give a tuple of strings, such as \('18',\)"),
        ({"drop_items": 3}, "drop_items=3 is not allowed"),
        ({"drop_items": ("a", 3)}, "drop_items holds 3"),
        ({"drop_prefixes": ("",)}, "drop_prefixes holds ''"),
        ({"duplicates": "dorp"}, "duplicates='dorp' is unknown. Did you mean 'drop'"),
        ({"longer": "sampel"}, "longer='sampel' is unknown. Did you mean 'sample'"),
        ({"min_count": 0}, "min_count=0 is not allowed. Give an integer of at least 1"),
        ({"min_size": True}, "min_size=True"),
        ({"min_size": 4, "max_size": 3}, "max_size=3 and min_size=4"),
        ({"longer": "sample"}, "no max_size says how many"),
        ({"separator": ""}, "separator=''"),
        ({"seed": 1.5}, "seed=1.5 is not allowed"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(settings: dict, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        SetPolicy(**settings)


def test_errors_are_ours() -> None:
    assert issubclass(DataError, ContextualBertError)
    assert re.fullmatch(r"days\.parquet, row 1, column 'items': .*", str(_error_of([["a", "a"]])))


def _error_of(column: object) -> DataError:
    with pytest.raises(DataError) as caught:
        sets_of(column)
    return caught.value


def test_items_that_say_missing_or_are_one_number_are_warned_of() -> None:
    table = pa.table({"items": [["5", "nan"], ["5.0", "7"], ["5.10", "a:2"]]})
    remarks = read_sets(table, items="items", policy=SetPolicy()).report.remarks
    assert "warning: the items 'nan' may stand for a missing one, and each is an item" in remarks
    assert "warning: the items '5' and '5.0' are one number, and each is an item of its own" in remarks
    assert len(remarks) == 2


def test_cold_items_leave_the_rows_that_count_alone() -> None:
    table = pa.table({"items": [["a", "b"], ["a", "c"], ["a", "b"]]})
    policy = SetPolicy(cold_items=("a",), keeps_new=True)
    found = read_sets(table, items="items", policy=policy, count_rows=[0, 1])
    assert found.values.to_pylist() == ["b", "c", "a", "b"]
    assert found.report.items_dropped == {"cold, left out of the training part": 2}
    without = read_sets(table, items="items", policy=SetPolicy(cold_items=("a",)), count_rows=[0, 1])
    assert without.values.to_pylist() == ["b", "c", "b"]
