"""What inspect finds in a table: features of the training part only, faults, and rows of the file in errors."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy
from contextual_bert.errors import DataError, UnknownNameError
from contextual_bert.runs import make_split, prepare
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.training import Recipe, SetCompletion

RECIPE = Recipe(data="days.parquet", task=SetCompletion(items="items"), customer="who")


def table(num_rows: int = 200, **columns: object) -> pa.Table:
    generator = np.random.default_rng(0)
    sets = [["sleep", f"item-{generator.integers(8)}"] for _ in range(num_rows)]
    return pa.table({"items": sets, "who": [str(row) for row in range(num_rows)], **columns})


def test_features_come_from_the_training_part_alone() -> None:
    training = make_split(RECIPE, table()).rows("train")
    is_training = np.isin(np.arange(200), training)
    source = table(city=np.where(is_training, np.where(np.arange(200) % 2, "Oslo", "Bergen"), "Moss"))
    found = inspect_table(RECIPE, source=source)
    assert found.schema is not None
    assert found.schema.features[0].values == ("Bergen", "Oslo")  # pyright: ignore[reportAttributeAccessIssue]
    assert found.num_rows == len(training)
    assert "training part" in found.basis[0]


def test_an_item_of_nearly_every_set_is_a_fault() -> None:
    found = inspect_table(RECIPE, source=table())
    assert any("sleep" in fault and "--drop-items sleep" in fault for fault in found.faults)
    cleaned = RECIPE.changed(policy=SetPolicy(drop_items=("sleep",)))
    assert not any("--drop-items" in fault for fault in inspect_table(cleaned, source=table()).faults)


def test_a_column_that_gives_items_away_is_a_leak() -> None:
    source = table()
    leak = source.append_column("copy", pa.array([row[1] for row in source["items"].to_pylist()]))
    assert any(fault.startswith("leak:") and "'copy'" in fault for fault in inspect_table(RECIPE, source=leak).faults)


@pytest.mark.parametrize("words", [("train", "dev", "test"), ("Training ", "HOLDOUT", "valid")])
def test_a_column_that_names_the_parts_is_no_feature_in_silence(words: tuple[str, str, str]) -> None:
    source = table(fold=[words[max(row % 10 - 7, 0)] for row in range(200)])
    warned = [line for line in inspect_table(RECIPE, source=source).lines() if "--split-column fold" in line]
    assert len(warned) == 1
    assert "--exclude fold" in warned[0]
    prepared = prepare(RECIPE, source=source)
    assert any("--split-column fold" in line for line in prepared.remarks)
    quiet = table(fold=[(*words, "bus")[row % 4] for row in range(200)])
    assert not any("--split-column" in line for line in inspect_table(RECIPE, source=quiet).lines())


def test_a_table_too_small_to_split_is_inspected_whole() -> None:
    found = inspect_table(RECIPE, source=table(3))
    assert "cannot be split" in found.basis[0]
    assert found.schema is None
    assert "no feature found" in "\n".join(found.lines())


def test_an_error_names_the_row_of_the_file() -> None:
    row = int(make_split(RECIPE, table()).rows("train")[-1])
    ages = np.arange(200.0)
    ages[row] = np.inf
    with pytest.raises(DataError, match=rf"days.parquet, row {row + 1}, column 'age': inf") as caught:
        inspect_table(RECIPE, source=table(age=ages))
    assert caught.value.row == row


@pytest.mark.parametrize("overrides", [{"ctiy": "categorical"}])
def test_a_misspelt_column_gets_a_suggestion(overrides: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'city'"):
        inspect_table(RECIPE, overrides=overrides, source=table(city=["x", "y"] * 100))


def test_a_frame_of_string_views_is_inspected_as_one_of_strings() -> None:
    plain = table(
        city=["Oslo", "Bergen"] * 100, born=[f"19{60 + row % 40}-01-02" for row in range(200)], likes=[["a", "b"]] * 200
    )
    kinds = {"items": pa.list_(pa.string_view()), "likes": pa.list_(pa.string(), 2)}
    frame = pa.table(
        {name: pa.array(plain[name].to_pylist(), kinds.get(name, pa.string_view())) for name in plain.column_names}
    )
    assert inspect_table(RECIPE, source=frame).lines() == inspect_table(RECIPE, source=plain).lines()


def test_a_value_of_a_held_out_part_is_named_with_its_row_of_the_file() -> None:
    held_out = np.setdiff1d(np.arange(200), make_split(RECIPE, table()).rows("train"))
    vectors = [[0.1 * row, 1.0] for row in range(200)]
    vectors[int(held_out[-1])] = [float("nan"), 1.0]
    with pytest.raises(DataError, match=rf"days.parquet, row {held_out[-1] + 1}, column 'photo'"):
        inspect_table(RECIPE, source=table(photo=vectors))


def test_large_whole_numbers_are_audited_and_inspected() -> None:
    found = inspect_table(RECIPE, source=table(big=[2**62 + row % 3 for row in range(200)]))
    assert found.schema is not None
    assert found.schema.names == ("big",)


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ([f"{row // 2}{'.0' if row % 2 else ''}" for row in range(200)], "100 whole numbers are spelt with and"),
        (["nan" if row % 9 == 0 else f"c{row}" for row in range(200)], "'nan' may stand for a missing one, and is a"),
    ],
    ids=["decimals", "nan"],
)
def test_customers_in_two_spellings_are_said_without_a_name(who: list[str], said: str) -> None:
    source = table().set_column(1, "who", pa.array(who))
    ready = prepare(RECIPE, source=source)
    for warnings in (inspect_table(RECIPE, source=source).faults, ready.remarks):
        (warning,) = (line for line in warnings if line.startswith("warning: column 'who'"))
        assert said in warning
    assert not [line for line in prepare(RECIPE, source=table()).remarks if "column 'who'" in line]
