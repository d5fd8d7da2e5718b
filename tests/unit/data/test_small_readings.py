"""Values that were read wrong, or refused without their place: half characters, long fractions, names of columns."""

from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.context import infer_schema
from contextual_bert.data import ReadSettings, SetPolicy, read_sets, read_table
from contextual_bert.errors import DataError


@pytest.mark.parametrize("line", ['{"a": "\\ud800"}', '{"a": ["x", "\\udc00y"]}', '{"\\ud83d": 1}'])
def test_half_a_character_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": null}}\n\n{line}\n{{"a": null}}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 3.*half of a character"):
        read_table(path)
    left = read_table(path, settings=ReadSettings(on_bad_row="drop"))
    assert left.num_rows == 2


def test_both_halves_are_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": "\\ud83d\\ude00"}\n')
    assert read_table(tmp_path / "a.jsonl")["a"].to_pylist() == ["\U0001f600"]


def test_ids_of_more_digits_than_a_float_has_stay_as_they_are_spelt(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1234567890123456.75, "pay": 0.1}\n{"id": 1234567890123456.70, "pay": 0.2}\n')
    found = read_table(path, code_columns=["id", "pay"])
    assert found["id"].to_pylist() == ["1234567890123456.75", "1234567890123456.70"]
    assert found["pay"].to_pylist() == [0.1, 0.2]
    assert read_table(path)["id"].type == pa.float64()  # an amount is a number
    path.write_text('{"items": [0.12345678901234567, 0.5]}\n{"items": [0.123456789012345671]}\n')
    lists = read_table(path, code_columns=["items"])["items"].to_pylist()
    assert lists == [["0.12345678901234567", "0.5"], ["0.123456789012345671"]]


def test_a_frame_whose_names_are_one_name_as_text_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, 2]] * 40, columns=[0, "0"])
    for read in (read_table, infer_schema):
        with pytest.raises(DataError, match="column '0': the column occurs more than once"):
            read(frame)


def test_a_separator_in_few_cells_is_said() -> None:
    sets = read_sets(pa.table({"items": ["a,b"] * 500 + ["c;d"]}), items="items", policy=SetPolicy())
    assert [each for each in sets.report.remarks if "1 of 501 cells has ';'" in each]
