"""The audit: which planted leaks it finds, and what it does not take for one."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import (
    SetPolicy,
    Split,
    audit,
    read_sets,
    split_by_column,
    split_by_customer,
    split_by_row,
    split_by_time,
)
from contextual_bert.data.column_codes import codes_of, elements_as_text


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


def clean(**columns: object) -> tuple[pa.Table, Split]:
    table = TABLE
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table, split_by_customer(table, "who", validation=0.2, test=0.2)


def audit_of(table: pa.Table, split: Split):
    return audit(split, read_sets(table, items="items", policy=SetPolicy(), customer="who"))


def test_a_clean_split_has_no_faults() -> None:
    found = audit_of(*clean())
    assert found.faults == ()
    assert found.lines()[-1] == "no leak found"
    assert "customers in two parts (who)" in found.lines()[0]


def test_columns_of_every_type_are_read_past() -> None:
    times = np.arange(TABLE.num_rows)
    items = TABLE.column("items").combine_chunks()
    found = audit_of(
        *clean(
            time=pa.array(times, pa.time64("us")),
            stay=pa.array(times, pa.duration("s")),
            picture=pa.array([b"x"] * len(times)),
            orders=pa.ListArray.from_arrays(np.arange(len(times) + 1), items),
            stock=pa.array([[("S", 1)]] * len(times), pa.map_(pa.string(), pa.int64())),
            price=pa.array(times).cast(pa.decimal128(22, 2)),
            ratio=np.full(len(times), np.inf),
        )
    )
    assert found.faults == ()


def test_a_copied_set_is_found_whatever_the_order_of_its_items() -> None:
    table, split = clean()
    train, test = int(split.rows("train")[3]), int(split.rows("test")[5])
    items = table.column("items").to_pylist()
    items[test] = items[train][::-1]
    age = table.column("age").to_pylist()
    same_items = table.set_column(1, "items", pa.array(items))
    [fault] = audit_of(same_items, split).faults
    assert (fault.kind, fault.severity, fault.count, fault.rows) == ("duplicate_set", "warning", 1, (test,))
    assert "test sets (0.2%) occurs in train or validation too, 0 of them" in fault.message
    age[test] = age[train]
    day = table.column("day").to_pylist()
    day[test] = day[train]
    copied = same_items.set_column(2, "age", pa.array(age)).set_column(3, "day", pa.array(day))
    copied = copied.append_column("order_id", pa.array([f"order-{row}" for row in range(copied.num_rows)]))
    [fault] = audit_of(copied, split).leaks
    assert (fault.kind, fault.rows) == ("duplicate_set", (test,))


def test_a_customer_in_two_parts_is_found_and_unchecked_is_said() -> None:
    table, _ = clean()
    by_row = split_by_row(table, validation=0.2, test=0.2)
    [fault] = audit_of(table, by_row).faults
    assert (fault.kind, fault.severity) == ("same_customer", "leak")
    parts = [
        {*by_row.assignment[np.array(table.column("who").to_pylist()) == f"c{who}"].tolist()} for who in range(1000)
    ]
    assert fault.count == sum(len(seen) > 1 for seen in parts)
    [fault] = audit_of(table, split_by_time(table, "day", validation=0.2, test=0.2)).faults
    assert (fault.kind, fault.severity) == ("same_customer", "warning")
    sets = read_sets(table, items="items", policy=SetPolicy())
    assert "NOT checked" in audit(by_row, sets).lines()[0]


@pytest.mark.parametrize("kind", ["dates", "lists", "amounts"])
def test_customers_whose_parts_follow_in_time_are_no_leak(kind: str) -> None:
    who = np.repeat(np.arange(40), 4)
    part = np.tile(["train", "train", "validation", "test"], 40)
    items = [[f"i{number % 50}", f"j{number % 30}"] for number in range(160)]
    days = np.tile(np.arange(4), 40) + 1
    times = {
        "dates": [f"2024-01-{day:02}" for day in days],
        "lists": [[day, day + 1] for day in days.tolist()],
        "amounts": np.random.default_rng(0).integers(0, 9, 160),
    }[kind]
    order = np.random.default_rng(1).permutation(160)
    columns = {"who": who, "items": items, "age": who % 7, "when": times, "part": part}
    table = pa.table(columns).take(pa.array(order))
    found = audit_of(table, split_by_column(table, "part"))
    [fault] = [fault for fault in found.faults if fault.kind == "same_customer"]
    assert fault.severity == ("leak" if kind == "amounts" else "warning")
    assert ("follow each other in time, as by 'when'" in fault.message) == (kind != "amounts")


ITEMS = TABLE.column("items").to_pylist()
LEAKS = {
    "first_item": ("column_names_items", [items[0] for items in ITEMS]),
    "some_item": ("column_names_items", [items[4] if row % 4 == 0 else None for row, items in enumerate(ITEMS)]),
    "bought": ("column_names_items", [[*items[:2], "other"] for items in ITEMS]),
    "joined": ("column_names_items", ["|".join(sorted(items)) for items in ITEMS]),
    # Not the name of an item, but its number: value 1007 is in the row exactly where i7 is the lowest item.
    "family": (
        "column_determines_items",
        [min(999 + 41, *(1000 + int(item[1:]) for item in items)) for items in ITEMS],
    ),
    "num_items": ("column_determines_items", [len(items) for items in ITEMS]),
}


@pytest.mark.parametrize("likes", [0.0, 0.3])
def test_values_that_are_called_like_items_are_a_context(likes: float) -> None:
    """Truth values, sexes and sizes are letters, and so are items: women take "f" more often, and it is no leak."""
    numbers = np.random.default_rng(0)
    sex = numbers.choice(["f", "m"], len(ITEMS)).tolist()
    chosen = ["f" if numbers.random() < 0.3 + likes * (each == "f") else "m" for each in sex]
    items = [[*own, each] for own, each in zip(ITEMS, chosen, strict=True)]
    table = TABLE.set_column(1, "items", pa.array(items)).append_column("sex", pa.array(sex))
    assert audit_of(table, split_by_customer(table, "who", validation=0.2, test=0.2)).faults == ()


@pytest.mark.parametrize("name", sorted(LEAKS))
def test_a_column_that_gives_items_away_is_found(name: str) -> None:
    kind, values = LEAKS[name]
    if name == "num_items":
        items = [items[: 3 + row % 3] for row, items in enumerate(ITEMS)]
        table = TABLE.set_column(1, "items", pa.array(items)).append_column(name, pa.array([len(i) for i in items]))
        split = split_by_customer(table, "who", validation=0.2, test=0.2)
    else:
        table, split = clean(**{name: values})
    [fault] = audit_of(table, split).faults
    assert (fault.kind, fault.severity) == (kind, "leak")
    assert repr(name) in fault.message and fault.rows


def test_items_everybody_has_and_chance_matches_are_no_leaks() -> None:
    everywhere = [["sleep", *items] for items in ITEMS]
    draw = np.random.default_rng(5)
    table = TABLE.set_column(1, "items", pa.array(everywhere)).append_column(
        "favourite", pa.array([f"i{item}" for item in draw.integers(0, 300, len(ITEMS))])
    )
    assert audit_of(table, split_by_customer(table, "who", validation=0.2, test=0.2)).faults == ()


def test_a_column_that_shares_names_with_a_small_vocabulary_is_no_leak() -> None:
    draw = np.random.default_rng(6)
    items = [[f"i{item}" for item in draw.choice(15, 5, replace=False)] for _ in ITEMS]
    table = TABLE.set_column(1, "items", pa.array(items))
    table = table.append_column("favourite", pa.array([f"i{item}" for item in draw.integers(0, 15, len(ITEMS))]))
    kinds = {fault.kind for fault in audit_of(table, split_by_customer(table, "who", validation=0.2, test=0.2)).faults}
    assert kinds == {"duplicate_set"}


def test_equal_sets_are_called_copies_only_where_another_column_says_so() -> None:
    who, twice = [f"c{row}" for row in range(100)], [f"i{row // 2}" for row in range(100)]
    table = pa.table({"who": who, "items": [[item, "b"] for item in twice]})
    split = split_by_customer(table, "who", validation=0.2, test=0.2)
    alone = audit_of(table, split).faults
    assert [fault.severity for fault in alone] == ["warning", "warning"]
    assert "occur in train too. Where" in alone[0].message
    told = table.append_column("age", pa.array([row // 2 for row in range(100)]))
    assert [fault.severity for fault in audit_of(told, split).faults] == ["leak", "leak"]
    # What all rows have, and what they have by chance, tells nothing of copies.
    for age in ([30] * 100, np.random.default_rng(0).integers(0, 2, 100)):
        assert [fault.severity for fault in audit_of(table.append_column("age", pa.array(age)), split).faults] == [
            "warning",
            "warning",
        ]


def test_vectors_are_told_apart_by_their_numbers_and_places() -> None:
    vectors = pa.chunked_array([pa.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], None], pa.list_(pa.float32()))])
    codes = codes_of(vectors)
    assert codes[0] == codes[2]
    assert len({*codes.tolist()}) == 3
    rows, words = elements_as_text(vectors)
    assert (len(rows), len(words)) == (0, 0)
