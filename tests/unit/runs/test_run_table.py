"""The table of a recipe: rows that are left out as broken, and files that do not look alike."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import ReadSettings, SetPolicy, new_split, read_table
from contextual_bert.errors import DataError
from contextual_bert.runs import prepare
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.runs.run_table import read_data
from contextual_bert.training import Classification, Recipe, SetCompletion

DROP = ReadSettings(on_bad_row="drop")


def days(tmp_path: Path, name: str, ages: list[str]) -> str:
    rows = [f"coat{row % 7};hat{row % 5};bag{row % 3},{age}" for row, age in enumerate(ages)]
    (tmp_path / name).write_text("\n".join(["items,age", *rows]) + "\n")
    return str(tmp_path / name)


def files(tmp_path: Path, *cells: str) -> Recipe:
    ages = [str(18 + row % 60) for row in range(300)]
    return Recipe(
        data=days(tmp_path, "train.csv", ages),
        validation_data=days(tmp_path, "val.csv", [*ages[:40], *cells]),
        test_data=days(tmp_path, "test.csv", ages[:40]),
        task=SetCompletion(items="items", policy=SetPolicy(separator=";")),
        min_customers=1,
    )


def test_a_word_of_the_validation_file_leaves_a_number_a_number(tmp_path: Path) -> None:
    ready = prepare(files(tmp_path, "unknown"))
    assert ready.processor.schema is not None
    feature: Any = ready.processor.schema.feature("age")
    assert (feature.kind, feature.missing) == ("numerical", ("unknown",))
    assert feature.edges == prepare(files(tmp_path)).processor.schema.feature("age").edges  # pyright: ignore
    assert ready.lines() and not [line for line in ready.lines() if "most cells are numbers" in line]


def test_a_number_with_a_unit_in_the_validation_file_is_warned_of(tmp_path: Path) -> None:
    recipe = files(tmp_path, "12 kg")
    warning = "warning: column 'age': most cells are numbers, and '12 kg' is none: correct these cells"
    assert warning in prepare(recipe).remarks
    assert warning in inspect_table(recipe).faults


def test_rows_without_a_text_or_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": ["so it goes", None, " ", "and so", "so"],
            "mood": ["good", "bad", "bad", None, "good"],
            "year": [1, 2, 3, 4, 5],
        }
    )
    path = tmp_path / "texts.parquet"
    pq.write_table(table, path)
    recipe = Recipe(data=str(path), task=Classification(checkpoint="bert", text="text", label="mood"), reading=DROP)
    rows = read_data(recipe)
    assert rows.table["text"].to_pylist() == ["so it goes", "so"]
    noted = " ".join(read_lines(rows.table))
    assert noted == "rows left out as broken: 2 without a value of 'text', 1 without a value of 'mood'"
    with pytest.raises(DataError, match=r"texts.parquet, row 5, column 'text': odd"):
        raise DataError("odd", file=str(path), row=1, column="text")
    assert read_data(Recipe(data=str(path), task=recipe.task)).table.num_rows == 5
    assert str(DataError("odd", file=str(path), row=1)).startswith(f"{path}, row 2")


def read_lines(table: pa.Table) -> list[str]:
    from contextual_bert.data.reading_notes import reading_lines

    return reading_lines(table)


def test_lines_of_a_text_file_are_named_after_rows_were_left_out(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("order,item,who\n1,coat,ann\n,hat,ann\n1,bag,ann\n2,hat,\n2,sock,bob\n")
    recipe = Recipe(data=str(path), task=SetCompletion(items="item", group_by=("order",)), customer="who", reading=DROP)
    rows = read_data(recipe)
    assert rows.table.select(["item", "who"]).to_pylist() == [
        {"item": ["coat", "bag"], "who": "ann"},
        {"item": ["sock"], "who": "bob"},
    ]
    with pytest.raises(DataError, match=r"long.csv, line 6: order '2': odd"), rows.placed():
        raise DataError("odd", file=str(path), row=1)
    path.write_text("order,item,who\n,coat,ann\n")
    with pytest.raises(DataError, match="column 'order': each row is left out as broken"):
        read_data(recipe)


def test_a_sensitive_column_that_varies_within_groups_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    lines = [f"o{row // 3},i{row * 7 % 11},c{row // 30},{20 + row // 30},{row % 4}" for row in range(1200)]
    path.write_text("\n".join(["order,item,who,age,secret", *lines]) + "\n")
    recipe = Recipe(
        data=str(path),
        task=SetCompletion(items="item", group_by=("order",)),
        customer="who",
        sensitive=("secret", "age"),
    )
    found = inspect_table(recipe)
    assert found.schema is not None and found.schema.names == ("age",)
    ready = prepare(recipe)
    assert ready.processor.schema is not None and ready.processor.schema.feature("age").sensitive
    with pytest.raises(LookupError, match="'secert'"):
        prepare(
            Recipe(
                data=str(path),
                task=SetCompletion(items="item", group_by=("order",)),
                customer="who",
                sensitive=("secert",),
            )
        )


def test_a_word_of_customers_who_were_left_out_is_no_word_of_train_or_inspect(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    ages = [str(18 + row // 5) if row < 295 else "hospice" for row in range(300)]
    lines = [f"coat{row % 7};hat{row % 5},c{row // 5},{age}" for row, age in enumerate(ages)]
    path.write_text("\n".join(["items,who,age", *lines]) + "\n")
    made = new_split(read_table(path), "customer", "who", file=str(path))
    made, num_rows = made.without_customers(read_table(path), "who", ["c59"])
    assert num_rows == 5
    made.save(tmp_path / "split.json")
    recipe = Recipe(
        data=str(path),
        task=SetCompletion(items="items", policy=SetPolicy(separator=";")),
        customer="who",
        split=str(tmp_path / "split.json"),
        min_customers=1,
    )
    trained, found = prepare(recipe).processor.schema, inspect_table(recipe)
    assert trained is not None and found.schema is not None
    assert "hospice" not in trained.to_json() + found.schema.to_json() + str(found.notes)
    assert found.schema == trained
