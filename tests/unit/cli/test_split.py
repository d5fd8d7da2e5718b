"""The command split: by whom, and what it looks at without a column of items."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contextual_bert_cli.main import app


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "days.csv"
    rows = [f"p{row % 60},2016-{row // 30 + 1:02}-05,a;b" for row in range(360)]
    path.write_text("\n".join(["who,day,goods", *rows]) + "\n", encoding="utf-8")
    return path


def split_of(table: Path, *options: str) -> tuple[str, dict[str, object]]:
    output = table.with_name("split.json")
    found = CliRunner().invoke(app, ["split", str(table), *options, "--output", str(output), "--overwrite"])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split()), json.loads(output.read_text(encoding="utf-8"))


def test_a_customer_alone_says_by_whom(table: Path) -> None:
    said, made = split_of(table, "--customer", "who")
    assert made == split_of(table, "--by", "who")[1]
    assert made["by"] == "customer"
    assert "no customer (column 'who') is in two parts" in said
    assert "--items COLUMN of sets" in said


def test_customers_in_two_parts_are_seen_without_items(table: Path) -> None:
    said, made = split_of(table, "--by-row", "--customer", "who")
    assert made["by"] == "row"
    assert "customers (column 'who') are in more than one part: split by customer instead" in said
    said, _ = split_of(table, "--by-time", "day", "--customer", "who")
    assert "expected of a split by time" in said
