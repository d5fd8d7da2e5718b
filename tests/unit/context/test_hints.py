"""Columns that are read as they look, and may be ids or lists: what is said of them."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import infer_schema
from contextual_bert.context.hints import id_hint


@pytest.mark.parametrize("name", ["user_id", "userId", "kundennr", "Kunden-Nr", "store code", "plz", "zip", "ID"])
def test_whole_numbers_named_as_ids_are_remarked_on(name: str) -> None:
    numbers = np.repeat(np.random.default_rng(0).permutation(np.arange(10_000, 11_000)), 3)
    (note,) = infer_schema(pa.table({name: numbers})).notes
    assert f"override {name}=categorical, or name it as the customer" in note.warning
    assert note.kind == "numerical", "a remark changes nothing"


@pytest.mark.parametrize("name", ["age", "paid", "number_of_rooms", "nor", "width", "idle_minutes", "valid"])
def test_other_numbers_are_not(name: str) -> None:
    assert id_hint(name, distinct=1_000) == ""


def test_a_list_in_a_category_is_remarked_on() -> None:
    generator = np.random.default_rng(0)
    cells = [";".join(generator.choice(list("abcdefgh"), generator.integers(2, 5), replace=False)) for _ in range(900)]
    (note,) = infer_schema(pa.table({"brands": cells})).notes
    assert "most cells hold ';' between 8 values: override brands=multi_categorical" in note.warning


@pytest.mark.parametrize("cells", [["Doe, Jane", "Roe, Ann", "Poe, Eve"], ["1,5", "2,5", "1,2", "5,2"], ["a", "b"]])
def test_other_texts_are_no_lists(cells: list[str]) -> None:
    (note,) = infer_schema(pa.table({"text": cells * 50})).notes
    assert "multi_categorical" not in note.reason
