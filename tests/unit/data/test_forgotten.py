"""Customers are left out by salted hashes: in their own spelling, in no other, and without their names."""

import pyarrow as pa
import pytest

from contextual_bert.data.forgotten import customer_rows, forget_entry, forgotten_columns, forgotten_rows, has_entry
from contextual_bert.errors import ConfigurationError, UnknownNameError


def test_an_entry_names_nobody_and_matches_one_customer() -> None:
    entry = forget_entry("ann", "user")
    assert "ann" not in entry and forget_entry("ann", "user") != entry
    table = pa.table({"user": ["ann", "anna", " ann ", None]})
    assert forgotten_rows(table, [entry]).tolist() == [True, False, True, False]
    assert has_entry([entry], "ann", "user") and not has_entry([entry], "ann", "writer")
    assert not has_entry([entry], "bob", "user")


def test_several_columns_are_looked_through() -> None:
    entries = [forget_entry("a", "x"), forget_entry("b", "y", salt="1" * 32), forget_entry("c", "y", salt="2" * 32)]
    assert forgotten_columns(entries) == ("x", "y")
    table = pa.table({"x": ["a", "b", "b", "b"], "y": ["z", "b", "c", "z"]})
    assert forgotten_rows(table, entries).tolist() == [True, True, True, False]


def test_codes_that_are_one_number_are_two_customers() -> None:
    table = pa.table({"user": ["1.10", "1.1"]})
    name, rows = customer_rows(table, "1.10", "user")
    assert (name, rows.tolist()) == ("1.10", [True, False])
    assert forgotten_rows(table, [forget_entry(name, "user")]).tolist() == [True, False]
    assert customer_rows(pa.table({"user": [7.0, 8.0]}), "7.0", "user")[1].tolist() == [True, False]
    assert not customer_rows(table, "nobody", "user")[1].any()


def test_what_is_no_entry_and_no_column_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is no hash of a customer"):
        forgotten_rows(pa.table({"user": ["a"]}), ["ann"])
    with pytest.raises(UnknownNameError, match="writer"):
        forgotten_rows(pa.table({"user": ["a"]}), [forget_entry("ann", "writer")])
