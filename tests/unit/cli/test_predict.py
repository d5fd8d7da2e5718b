"""The table of predictions: which row of its file each row is, and columns that the file lacks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.context import ContextSchema, Numerical
from contextual_bert.data import ReadSettings, read_table
from contextual_bert.errors import DataError
from contextual_bert_cli.predict import write_predictions

ADDED = pa.schema([("predicted_label", pa.string())])
TABLE = "text,sex\nso it goes,f\na,b,c\n,m\nand so,f\n"


def predicted(table: pa.Table, **_: Any) -> Any:
    report = SimpleNamespace(lines=list)
    return SimpleNamespace(table=table.append_column(ADDED.field(0), [pa.array(table["text"])]), report=report)


def test_rows_are_numbered_as_in_the_file_where_some_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "texts.csv", tmp_path / "out.parquet"
    path.write_text(TABLE, encoding="utf-8")
    how: Any = {"read": {"text": "text", "pair": None}, "schema": None}
    write_predictions(path, output, ADDED, predicted, **how, reading=ReadSettings(on_bad_row="drop"))
    assert read_table(output).to_pydict() == {
        "text": ["so it goes", "and so"], "sex": ["f", "f"], "predicted_label": ["so it goes", "and so"], "row": [0, 3]
    }  # fmt: skip
    said = " ".join(capsys.readouterr().err.split())
    assert "1 with more or fewer cells than the header, 1 without a value of 'text'" in said
    assert "counted from 0" in said
    path.write_text(TABLE.replace("sex", "row"), encoding="utf-8")
    with pytest.raises(DataError, match="column 'row': the table has this column"):
        write_predictions(path, output, ADDED, predicted, **how, reading=ReadSettings(on_bad_row="drop"))
    path.write_text("text,row\nso,f\n", encoding="utf-8")
    write_predictions(path, output, ADDED, predicted, **how, reading=ReadSettings(on_bad_row="drop"))
    assert read_table(output).column_names == ["text", "row", "predicted_label"]


def test_the_columns_of_the_file_are_written_as_they_are_spelt(tmp_path: Path) -> None:
    path, output = tmp_path / "texts.csv", tmp_path / "out.parquet"
    path.write_text('text,paid\nso,"70,46"\nso,-\n', encoding="utf-8")
    schema = ContextSchema(features=(Numerical(name="paid", edges=(50.0,)),))
    reading = ReadSettings(decimal=",", missing_values=("paid=-",))
    read: list[Any] = []

    def reading_predict(table: pa.Table, **_: Any) -> Any:
        read.extend(table["paid"].to_pylist())
        return predicted(table)

    columns: Any = {"text": "text", "pair": None}
    write_predictions(path, output, ADDED, reading_predict, read=columns, schema=schema, reading=reading)
    assert read == [70.46, None]
    assert read_table(output)["paid"].to_pylist() == ["70,46", "-"]
