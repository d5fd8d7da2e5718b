"""Long tables: rows to sets, columns that vary, and what is said where every set has one item."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import Groups, SetPolicy, group_rows, read_sets, split_by_row
from contextual_bert.data.checked_columns import checked_column, guessed_group
from contextual_bert.data.splits import Split
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
from contextual_bert.places import TablePlace

LONG = pa.table(
    {
        "order": [7, 8, 7, 9, 8, 7],
        "item": ["coat", "hat", "bag", "hat", None, "sock, red"],
        "age": [30, 41, 30, None, 41, 30],
        "price": [90.0, 20.0, 35.0, 20.0, None, 5.0],
        "who": ["ann", "bob", "ann", "cy", "bob", "ann"],
    }
)


def grouped(table: pa.Table = LONG, *, by: tuple[str, ...] = ("order",), **settings: object) -> Groups:
    return group_rows(table, by, items="item", file="shop.csv", **settings)  # pyright: ignore[reportArgumentType]


def test_the_rows_of_a_group_become_one_set_wherever_they_stand() -> None:
    found = grouped()
    assert found.table.select(["order", "item", "age", "who"]).to_pylist() == [
        {"order": 7, "item": ["coat", "bag", "sock, red"], "age": 30, "who": "ann"},
        {"order": 8, "item": ["hat"], "age": 41, "who": "bob"},
        {"order": 9, "item": ["hat"], "age": None, "who": "cy"},
    ]
    assert found.first_rows.tolist() == [0, 1, 3]
    assert found.lines()[:2] == ["6 rows grouped by 'order' into 3 sets", "rows without an item: 1"]


def test_a_column_that_varies_within_a_group_is_left_out_with_its_reason() -> None:
    found = grouped()
    assert "price" not in found.table.column_names
    assert found.left_out["price"] == "it varies within 1 of 3 groups, and describes the item"
    with pytest.raises(DataError, match=r"shop.csv, row 3, column 'price': order '7' has several values, such as 90.0"):
        grouped(needed=["price"])


@pytest.mark.parametrize("order", [["a", None, "b"], ["a", " ", "b"], [1.0, float("nan"), 2.0]], ids=str)
def test_a_row_without_a_group_is_named(order: list) -> None:
    with pytest.raises(DataError, match=r"row 2, column 'order': the cell is (missing|empty)"):
        grouped(pa.table({"order": order, "item": ["a", "b", "c"]}))


def test_several_columns_name_a_group_together() -> None:
    table = pa.table({"who": ["a", "b", "a", "a"], "day": ["1", "1", "2", "1"], "item": list("wxyz")})
    assert grouped(table, by=("who", "day")).table["item"].to_pylist() == [["w", "z"], ["x"], ["y"]]


def test_a_group_is_the_same_whatever_the_type_of_its_name() -> None:
    for order in ([7, 8, 7], [7.0, 8.0, 7.0], ["7", "8", "7"], pa.array(["7", "8", "7"]).dictionary_encode()):
        assert grouped(pa.table({"order": order, "item": list("abc")})).table["item"].to_pylist() == [["a", "c"], ["b"]]


def test_cells_with_several_items_are_split_where_a_separator_is_given() -> None:
    table = pa.table({"order": [1, 2, 1], "item": ["a;b", "c", "d"]})
    assert grouped(table, separator=";").table["item"].to_pylist() == [["a", "b", "d"], ["c"]]
    assert "1 of 3 cells has ';'" in grouped(table).lines()[-1]
    lists = pa.table({"order": [1, 2, 1], "item": [["a", "b"], ["c"], ["d"]]})
    assert grouped(lists).table["item"].to_pylist() == [["a", "b", "d"], ["c"]]


def test_what_cannot_be_grouped_by_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'order'"):
        grouped(by=("ordr",))
    with pytest.raises(ConfigurationError, match="grouped by 'item'"):
        grouped(by=("item",))
    with pytest.raises(ConfigurationError, match="grouped by no column"):
        grouped(by=())


def test_errors_about_a_set_name_its_group_and_a_row_of_the_file() -> None:
    found = grouped()
    with pytest.raises(DataError, match=r"shop.csv, row 4, column 'age': order '9': no age"), found.placed():
        raise DataError("no age", file="shop.csv", row=2, column="age")
    with pytest.raises(SchemaError, match=r"lacks 'price'. The column 'price' was left out: it varies"), found.placed():
        raise SchemaError("lacks 'price'", place=TablePlace(lacking=("price",)))
    with pytest.raises(UnknownNameError) as caught, found.placed():
        checked_column(found.table, "price", file="shop.csv")
    assert caught.value.location == ("price",)
    assert caught.value.fix.startswith("The column 'price' was left out")
    with pytest.raises(UnknownNameError) as caught, found.placed():
        raise UnknownNameError("There is no feature 'price'.")  # of something else
    assert "left out" not in str(caught.value)


def test_a_table_of_single_items_says_so_and_names_the_column_of_sets() -> None:
    table = pa.table({"n": range(6), "order": [1, 1, 2, 2, 2, 3], "item": list("abcabd"), "vip": [1, 1, 0, 0, 0, 0]})
    assert guessed_group(table, items="item") == "order"
    lines = read_sets(table, items="item", policy=SetPolicy()).report.lines()
    assert any(line.startswith("warning: every set has one item") and "--group-by order" in line for line in lines)
    with pytest.raises(DataError, match="--group-by order"):
        read_sets(table, items="item", policy=SetPolicy(min_size=2))
    wide = read_sets(pa.table({"item": [["a"], ["b", "c"]]}), items="item", policy=SetPolicy()).report.lines()
    assert not any("every set has one item" in line for line in wide)


@pytest.mark.parametrize("separator", [";", "|", "\t"])
def test_a_separator_of_some_cells_was_missed(separator: str) -> None:
    cells = ["coat"] * 18 + [f"hat{separator}bag"] * 2
    with pytest.raises(DataError, match="2 of 20 have") as caught:
        read_sets(pa.table({"item": cells}), items="item", policy=SetPolicy())
    assert f"--separator {separator!r}" in caught.value.fix
    mixed = read_sets(pa.table({"item": ["coat,hat"] * 18 + cells[-2:]}), items="item", policy=SetPolicy())
    assert any("2 of 20 cells have" in line for line in mixed.report.lines())
    assert read_sets(pa.table({"item": cells}), items="item", policy=SetPolicy(separator=separator)).sizes.max() == 2


def test_a_split_remembers_what_its_rows_were_grouped_by(tmp_path: Path) -> None:
    table = pa.table({"x": range(100)})
    plain = split_by_row(table, validation=0.2, test=0.2)
    split = replace(plain, group_by=("order",))
    assert split.digest != plain.digest
    split.save(tmp_path / "split.json")
    loaded = Split.load(tmp_path / "split.json")
    assert loaded.group_by == ("order",)
    assert loaded.digest == split.digest
    assert "100 sets grouped by order" in loaded.lines()[0]


def test_a_million_rows_take_seconds() -> None:
    generator = np.random.default_rng(0)
    orders = generator.integers(0, 200_000, 1_000_000)
    items = pa.array([f"item-{number}" for number in range(1000)]).take(
        pa.array(generator.integers(0, 1000, 1_000_000))
    )
    found = grouped(pa.table({"order": orders, "item": items, "age": orders % 60}))
    assert found.table.num_rows == len(np.unique(orders))
    assert found.table["age"].to_pylist()[0] == int(orders[0]) % 60


def test_items_that_are_not_there_in_a_column_of_floats_are_empty_cells() -> None:
    table = pa.table({"order": [1, 1, 2], "item": [3.0, float("nan"), 4.0]})
    found = grouped(table)
    assert found.table["item"].to_pylist() == [["3"], ["4"]]
    assert found.num_without_item == 1
    with pytest.raises(DataError, match="row 2, column 'item': inf is not a finite number"):
        grouped(pa.table({"order": [1, 1, 2], "item": [3.0, float("inf"), 4.0]}))


def test_a_row_with_a_broken_item_is_left_out_where_that_was_asked_for() -> None:
    table = pa.table({"order": [1, 1, 2], "item": ["a;;b", "c", "d;e"]})
    with pytest.raises(DataError, match="row 1, column 'item': item 2 of 3 is an empty string"):
        grouped(table, separator=";")
    found = grouped(table, separator=";", on_bad_row="drop")
    assert found.table["item"].to_pylist() == [["c"], ["d", "e"]]
    assert "rows left out as broken: 1 with a missing or empty item" in found.lines()


def test_an_empty_cell_of_a_group_says_nothing() -> None:
    long = pa.table(
        {
            "order": [1, 1, 2, 2, 3],
            "item": list("abcde"),
            "age": ["34", None, " ", "51", ""],
            "customer": ["ann", None, "bob", "bob", "cyd"],
            "seen": [[1.0, 2.0], None, None, [3.0, 4.0], None],
        }
    )
    found = group_rows(long, ["order"], items="item", needed=["customer"])
    assert found.table["age"].to_pylist() == ["34", "51", None]
    assert found.table["customer"].to_pylist() == ["ann", "bob", "cyd"]
    assert found.table["seen"].to_pylist() == [[1.0, 2.0], [3.0, 4.0], None]
    assert "column 'age': 2 groups have empty cells beside a value, filled with the value" in found.lines()
    assert found.left_out == {}


@pytest.mark.parametrize(("num_slips", "is_kept"), [(1, True), (3, True), (4, False)])
def test_few_slips_cost_no_column_and_are_told_of(num_slips: int, is_kept: bool) -> None:
    orders = np.repeat(np.arange(300), 2)
    city = np.where(orders % 2 == 0, "rome", "oslo").astype(object)
    city[1 : 2 * num_slips : 2] = "rmoe"
    long = pa.table({"order": orders, "item": [f"i{row}" for row in range(600)], "city": pa.array(city)})
    found = group_rows(long, ["order"], items="item", file="shop.csv")
    assert ("city" not in found.left_out) == is_kept
    if not is_kept:
        assert found.left_out["city"] == "it varies within 4 of 300 groups, and describes the item"
        return
    whole = [["rome", "oslo"][order % 2] for order in range(num_slips, 300)]
    assert found.table["city"].to_pylist() == [None] * num_slips + whole
    assert found.remarks == (
        f"warning: column 'city' has several values in {num_slips} of 300 groups, and is missing there: order '0' is "
        "the first. Correct these cells",
    )
    with pytest.raises(DataError, match=r"row 2, column 'city': order '0' has several values, such as 'rome'"):
        group_rows(long, ["order"], items="item", needed=["city"], file="shop.csv")


def test_returned_goods_and_lines_of_totals_are_told() -> None:
    table = pa.table(
        {
            "order": [1, 1, 2, 2, 2],
            "item": ["hat", "bag", "hat", "coat", "TOTAL:"],
            "Quantity": [1, -1, 2, 1, 3],
            "unit_price": [1.0, 2.0, 3.0, 4.0, 5.0],
            "latitude": [-1, 2, 3, 4, 5],
        }
    )
    groups = group_rows(table, ["order"], items="item", file="sold.parquet")
    [told] = groups.remarks
    assert told.startswith("warning: column 'Quantity' is negative in 1 row (row 2 is the first)")
    report = read_sets(groups.table, items="item", policy=SetPolicy()).report
    assert any("'TOTAL:' is in 1 set" in line and "drop_items=['TOTAL:']" in line for line in report.lines())
    without = read_sets(groups.table, items="item", policy=SetPolicy(drop_items=("TOTAL:",))).report
    assert not any("totals" in line for line in without.lines())


def test_groups_in_two_spellings_are_said() -> None:
    table = pa.table({"order": ["7", "8", "7.0", "8.0"], "item": ["coat", "hat", "bag", "sock"]})
    assert grouped(table).table.num_rows == 4
    assert grouped(table).remarks == (
        "warning: column 'order': 2 whole numbers are spelt with and without decimals, and each spelling is a group: "
        "write them in one way",
    )
    assert grouped(LONG).remarks == ()
