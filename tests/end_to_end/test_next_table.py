"""Going on with next month's table: what it has, and lacks, beside the run is said."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def next_month(table: Path, tmp_path: Path) -> Path:
    """An item is renamed, another gone, a value of the context renamed, a column new."""
    read = pq.read_table(table)
    first, second = read["items"][0].as_py()[:2]
    renamed = [
        ["new-hat" if item == first else item for item in row if item != second] for row in read["items"].to_pylist()
    ]
    read = read.set_column(read.column_names.index("items"), "items", pa.array(renamed))
    column = read["gender"]
    values = pc.if_else(pc.equal(column, "female"), "Females", column)
    read = read.set_column(read.column_names.index("gender"), "gender", values)
    read = read.append_column("weather", pa.array(["sun", "rain"] * (read.num_rows // 2)))
    pq.write_table(read.filter(pc.greater(pc.list_value_length(read["items"]), 0)), tmp_path / "next.parquet")
    return tmp_path / "next.parquet"


def options(command: Any, run: Path) -> tuple[Any, ...]:
    small = [*command.small]
    return (*small[: small.index("--model")], "--init-from", run)


def test_what_is_new_and_what_is_gone_is_said(
    command: Any, table: Path, finished: Path, next_month: Path, tmp_path: Path
) -> None:
    first, second = pq.read_table(table)["items"][0].as_py()[:2]
    result = command("train", next_month, *options(command, finished), "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert f" new to {finished}, appended to its vocabulary: new-hat (" in said
    assert f" not in {next_month}: " in said
    assert first in said.split(f" not in {next_month}: ")[1].split("Each stays a candidate")[0]
    assert second in said.split(f" not in {next_month}: ")[1].split("Each stays a candidate")[0]
    assert "Each stays a candidate. To retire what is missing, give --retire-missing-items." in said
    assert f"columns of {next_month} that {finished} does not read, and which are ignored: weather" in said
    assert "warning: context 'gender': " in said
    assert "'Females' (" in said
    assert "did you mean 'female'?" in said
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert "Females" not in card  # values of single rows stand in no card


def test_the_same_table_has_no_news(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    result = command("train", table, *options(command, finished), "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    for word in (" new to ", "Each stays a candidate", "did you mean"):
        assert word not in result.stderr


def test_a_column_that_the_run_reads_and_the_table_lacks(
    command: Any, next_month: Path, finished: Path, tmp_path: Path
) -> None:
    read = pq.read_table(next_month)
    pq.write_table(read.rename_columns(["years" if name == "age" else name for name in read.column_names]), next_month)
    result = command("train", next_month, *options(command, finished), "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert f"lacks the context column 'age', which {finished} reads" in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
