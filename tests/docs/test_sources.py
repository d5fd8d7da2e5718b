"""The map from the sources to the code names files, tests, commands and options that are there."""

import re
from pathlib import Path
from typing import Any

import typer

from contextual_bert.baselines.names import BASELINES
from contextual_bert.conditioning import METHODS
from contextual_bert_cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "concepts" / "sources.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
MAPPED = [row for row in ROWS if len(row) == 4 and row[1] != "code"]


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_row_names_files_and_tests_that_are_there() -> None:
    assert len(MAPPED) > 20
    for row in MAPPED:
        code, tests = ticked(row[1]), ticked(row[2])
        assert code and tests, row
        assert [name for name in code if not (ROOT / "src" / "contextual_bert" / name).exists()] == []
        assert [name for name in tests if not (ROOT / name).is_file()] == []


def test_each_command_has_the_options_that_it_is_given() -> None:
    commands: Any = typer.main.get_command(app)
    known = {name: {each for one in found.params for each in one.opts} for name, found in commands.commands.items()}
    for row in MAPPED:
        name = ""
        for command in ticked(row[3]):
            words = command.split()
            if words[0] == "python":
                continue
            name = words[0] if words[0] in known else name
            assert [word for word in words if word.startswith("--") and word not in known[name]] == [], row


def test_each_baseline_and_method_of_the_commands_is_known() -> None:
    text = " ".join(row[3] for row in MAPPED)
    named = {each for found in re.findall(r"--baselines ([a-z_,]+)", text) for each in found.split(",")}
    assert named and named <= {*BASELINES}
    assert set(re.findall(r"--conditioning ([a-z_]+)", text)) <= {*METHODS}
