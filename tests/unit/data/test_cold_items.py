from dataclasses import replace

import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy, Split, read_sets, split_by_row
from contextual_bert.data.cold_items import cold_lines, with_cold_items
from contextual_bert.errors import ConfigurationError


def test_cold_items_are_a_function_of_seed_and_name_and_saved_with_the_split(tmp_path) -> None:
    table = pa.table({"items": [["a", "b"], ["c", "d"], ["e", "f"]] * 10})
    items = pa.array(list("abcdef"))
    plain = split_by_row(table, validation=0.2, test=0.2)
    split = with_cold_items(plain, items, 0.5, seed=3)
    assert 0 < len(split.cold_items) < 6
    assert split.cold_items == with_cold_items(plain, pa.array(list("fedcba")), 0.5, seed=3).cold_items
    assert set(split.cold_items) <= {*with_cold_items(plain, items, 0.9, seed=3).cold_items}
    assert split.digest != plain.digest
    split.save(tmp_path / "split.json")
    loaded = Split.load(tmp_path / "split.json")
    assert loaded.cold_items == split.cold_items
    assert loaded.digest == split.digest


def test_cold_items_say_what_they_do_to_the_training_sets() -> None:
    table = pa.table({"items": [["a"], ["a", "b"], ["b", "c"], ["c"]]})
    sets = read_sets(table, items="items", policy=SetPolicy())
    split = replace(split_by_row(table, validation=0.0, test=0.0), cold_items=("a",))
    assert cold_lines(split, sets) == [
        "cold items: 1 of 3 items, left out of 2 of 4 training sets, which lose 2 items (33.3%); 1 set is empty without"
    ]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1e-9])
def test_a_share_of_cold_items_that_cannot_be_is_refused(share: float) -> None:
    split = split_by_row(pa.table({"x": range(9)}), validation=0.2, test=0.2)
    with pytest.raises(ConfigurationError) as caught:
        with_cold_items(split, pa.array(["a", "b"]), share, seed=0)
    assert caught.value.place.name == "cold_items"
