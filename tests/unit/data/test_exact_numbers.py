"""Whole numbers that name things are exact, whatever file they come from, or an error names them."""

import decimal
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.context import canonical, canonical_array
from contextual_bert.data import SetPolicy, read_sets, read_table
from contextual_bert.data.reading_notes import reading_lines
from contextual_bert.errors import DataError

ID, NEXT, HUGE = 1398717875470837207, 1398717875470837208, 2**63
KEEP = SetPolicy(duplicates="keep")


def lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def items_of(table: pa.Table) -> list[str]:
    return read_sets(table, items="items", policy=KEEP).values.to_pylist()


@pytest.mark.parametrize(
    "huge",
    [HUGE, -HUGE - 1, 2**64, 10**30, 10**5000],
    ids=lambda huge: f"{huge:.2g}"[:9] if huge < 10**300 else "5001 digits",
)
def test_ids_of_json_lines_are_exact_beside_one_of_64_bits(tmp_path: Path, huge: int) -> None:
    spelt = "1" + "0" * 5000 if huge > 10**300 else str(huge)
    path = lines(tmp_path / "a.jsonl", [{"id": ID}, {"id": NEXT}, {"id": None}, f'{{"id": {spelt}}}'])
    assert read_table(path)["id"].to_pylist() == [str(ID), str(NEXT), None, spelt]


def test_items_within_lists_are_exact_and_none_is_a_duplicate(tmp_path: Path) -> None:
    rows = [{"items": [ID, NEXT]}, {"items": [HUGE, 5]}, {"items": None}, {"items": []}]
    table = read_table(lines(tmp_path / "a.jsonl", rows))
    sets = read_sets(table, items="items", policy=SetPolicy(duplicates="drop"))
    assert sets.values.to_pylist() == [str(ID), str(NEXT), str(HUGE), "5"]
    assert sets.report.repeated_items == 0


def test_the_only_whole_number_of_64_bits_is_a_name_too(tmp_path: Path) -> None:
    assert items_of(read_table(lines(tmp_path / "a.jsonl", [{"items": [HUGE]}]))) == [str(HUGE)]


def test_fractions_beside_ids_do_not_round_them(tmp_path: Path) -> None:
    table = read_table(lines(tmp_path / "a.jsonl", [{"id": 2**53 + 1, "x": 2**53}, {"id": 1.5, "x": 0.5}]))
    assert table["id"].to_pylist() == [str(2**53 + 1), "1.5"]
    assert table["x"].to_pylist() == [2.0**53, 0.5]


def test_numbers_that_lose_nothing_stay_numbers(tmp_path: Path) -> None:
    table = read_table(lines(tmp_path / "a.jsonl", ['{"a": 1e3, "b": -0, "c": 1e30}', '{"a": 2, "b": 7, "c": 1.5}']))
    assert table.schema.types == [pa.float64(), pa.int64(), pa.float64()]
    assert canonical_array(table["a"]).to_pylist() == ["1000", "2"]
    assert canonical_array(table["b"]).to_pylist() == ["0", "7"]


def test_a_number_within_an_object_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'a': a whole number within an object is too large"):
        read_table(lines(tmp_path / "a.jsonl", [{"a": {"b": HUGE + 1}}]))


def test_csv_columns_with_digits_that_do_not_fit_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"long,mixed,point,exact\n{10**30},1.5,{ID}.0,{2**53}\n1,{2**53 + 1},2,0.5\n")
    table = read_table(tmp_path / "a.csv")
    assert table["long"].to_pylist() == [str(10**30), "1"]
    assert table["mixed"].to_pylist() == ["1.5", str(2**53 + 1)]
    assert table["point"].to_pylist() == [f"{ID}.0", "2"]
    assert table["exact"].to_pylist() == [2.0**53, 0.5]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63 + 1, 2**63 + 2], pa.uint64()),
        pa.array([decimal.Decimal(2**63 + 1), decimal.Decimal(2**63 + 2)]),
        pa.array([[2**63 + 1], [2**63 + 2]], pa.list_(pa.uint64())),
        pa.array([[decimal.Decimal(2**63 + 1)], [decimal.Decimal(2**63 + 2)]]),
    ],
    ids=lambda column: str(column.type),
)
def test_whole_numbers_of_parquet_are_exact(tmp_path: Path, column: pa.Array) -> None:
    parquet.write_table(pa.table({"items": column}), tmp_path / "a.parquet")
    assert items_of(read_table(tmp_path / "a.parquet")) == [str(2**63 + 1), str(2**63 + 2)]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([5.0, float(ID)]), r"1\.3987178754708372e\+18 is a floating-point number of 64 bits.*2\*\*53"),
        (pa.array([5.0, None, float(2**53)]), r"9007199254740992\.0 is .*cannot be repaired"),
        (pa.array([[5.0], [7.0, float(ID)]]), r"1\.3987178754708372e\+18"),
        (pa.array([5.0, 2.0**24], pa.float32()), r"16777216\.0 is a floating-point number of 32 bits.*2\*\*24"),
    ],
    ids=str,
)
def test_ids_that_a_tool_made_floats_are_refused_by_their_place(column: pa.Array, says: str) -> None:
    """So pandas writes a column of ids in which one is missing: the digits are lost before the file is."""
    with pytest.raises(DataError, match=says) as caught:
        items_of(pa.table({"items": column}))
    assert (caught.value.row, caught.value.column) == (len(column) - 1, "items")


@pytest.mark.parametrize("value", [float(ID), np.float64(ID), np.float32(2**24), -float(2**53)])
def test_a_single_float_that_may_be_another_number_is_no_name(value: Any) -> None:
    with pytest.raises(DataError, match="Give text or whole numbers"):
        canonical(value)


def test_decimals_keep_their_digits() -> None:
    spelt = {"1398717875470837207.5": "1398717875470837207.5", "1.50": "1.5", "0.00001": "1e-05", "1E+3": "1000"}
    assert [canonical(decimal.Decimal(text)) for text in spelt] == [*spelt.values()]
    assert canonical_array(pa.array([decimal.Decimal("1398717875470837207.5")])).to_pylist() == [
        "1398717875470837207.5"
    ]


# --- brackets


@pytest.mark.parametrize("brackets", ["[]", "{}"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_brackets_without_end_are_an_error_and_no_crash(tmp_path: Path, name: str, brackets: str) -> None:
    opened, closed = brackets
    deep = opened * 100_000 + closed * 100_000 if opened == "[" else '{"a":' * 100_000 + "1" + "}" * 100_000
    record = f'{{"a": 1, "b": {deep}}}'
    path = tmp_path / name
    path.write_text(f'{{"a": 1}}\n{record}\n' if name == "a.jsonl" else f'[{{"a": 1}}, {record}]')
    with pytest.raises(DataError, match="more than 100 brackets within each other"):
        read_table(path)


def test_brackets_in_text_and_beside_each_other_are_no_depth(tmp_path: Path) -> None:
    row = {"text": "[" * 1000 + '"' + "{" * 1000, "items": [[] for _ in range(1000)]}
    assert read_table(lines(tmp_path / "a.jsonl", [row]))["text"].to_pylist() == [row["text"]]
    assert read_table(lines(tmp_path / "b.jsonl", ['{"a": "]]]]]", "b": ' + "[" * 99 + "]" * 99 + "}"])).num_rows == 1


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_amounts_that_become_text_for_their_digits_are_said(tmp_path: Path, name: str) -> None:
    rows = [{"id": ID + row, "amount": HUGE + row, "age": row} for row in range(3)]
    if name == "a.csv":
        (tmp_path / name).write_text("id,amount,age\n" + "".join(f"{r['id']},{r['amount']},{r['age']}\n" for r in rows))
    elif name == "a.json":
        (tmp_path / name).write_text(json.dumps(rows))
    else:
        lines(tmp_path / name, rows)
    table = read_table(tmp_path / name, code_columns=["id"])
    assert table["amount"].to_pylist() == [str(row["amount"]) for row in rows]
    assert [line[:70] for line in reading_lines(table)] == [
        "column 'amount' has whole numbers of more digits than a number keeps, "
    ]
    assert reading_lines(read_table(tmp_path / name, code_columns=["id", "amount"])) == []


def test_one_list_of_two_kinds_is_said_to_be_so(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"items": ["a", 2**64]}])
    with pytest.raises(
        DataError, match=r"line 1, column 'items': this is a list with a number .* and a list with a string, too"
    ):
        read_table(tmp_path / "a.jsonl")


@pytest.mark.parametrize("code", ["inf", "Infinity", "1e400"])
def test_a_code_that_reads_as_no_finite_number_is_text(tmp_path: Path, code: str) -> None:
    (tmp_path / "a.csv").write_text(f"items,n\n1,1\n2.5,2\n{code},3\n")
    assert items_of(read_table(tmp_path / "a.csv", code_columns=["items"])) == ["1", "2.5", code]
