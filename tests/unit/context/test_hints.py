"""Columns that are read as they look, and may be ids or lists: what is said of them."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import infer_schema
from contextual_bert.context import Categorical, Numerical, encode_records
from contextual_bert.context.hints import is_named_id


@pytest.mark.parametrize("name", ["user_id", "userId", "kundennr", "Kunden-Nr", "store code", "plz", "zip", "ID"])
def test_whole_numbers_named_as_ids_are_categories(name: str) -> None:
    numbers = np.repeat(np.random.default_rng(0).permutation(np.arange(10_000, 11_000)), 30)
    with_gap = [None, *map(float, numbers[1:])]
    for cells in (numbers, with_gap):
        found = infer_schema(pa.table({name: cells}))
        (feature,) = found.schema.features
        assert isinstance(feature, Categorical)
        assert len(feature.values) == 1000
        assert f"override {name}=numerical to make bins" in found.notes[0].reason
        asked = [{name: int(numbers[60])}, {name: str(numbers[60])}, {name: float(numbers[60])}]
        assert len({*encode_records(found.schema, asked).tensors[feature.name].tolist()}) == 1
        assert encode_records(found.schema, asked).unknown == {}
    assert isinstance(
        infer_schema(pa.table({name: numbers}), overrides={name: "numerical"}).schema.features[0], Numerical
    )


def test_numbers_of_one_length_that_repeat_are_remarked_on() -> None:
    draws = np.random.default_rng(0)
    cells = {
        "group": draws.choice(np.arange(1_013, 9_999, 97), 900),
        "year": draws.integers(1900, 2020, 900),
        "price": draws.integers(150, 9_000, 900),
        "pay": draws.integers(40_000, 90_000, 900),
    }
    warnings = infer_schema(pa.table(cells)).warnings()
    assert len(warnings) == 1
    assert "all numbers have 4 digits, as codes have: override group=categorical" in warnings[0]


@pytest.mark.parametrize("name", ["age", "paid", "number_of_rooms", "nor", "width", "idle_minutes", "valid"])
def test_other_numbers_are_not(name: str) -> None:
    assert not is_named_id(name, distinct=1_000)


def test_a_list_in_a_category_is_remarked_on() -> None:
    generator = np.random.default_rng(0)
    cells = [";".join(generator.choice(list("abcdefgh"), generator.integers(2, 5), replace=False)) for _ in range(900)]
    (note,) = infer_schema(pa.table({"brands": cells})).notes
    assert "most cells hold ';' between 8 values: override brands=multi_categorical" in note.warning


@pytest.mark.parametrize("cells", [["Doe, Jane", "Roe, Ann", "Poe, Eve"], ["1,5", "2,5", "1,2", "5,2"], ["a", "b"]])
def test_other_texts_are_no_lists(cells: list[str]) -> None:
    (note,) = infer_schema(pa.table({"text": cells * 50})).notes
    assert "multi_categorical" not in note.reason
