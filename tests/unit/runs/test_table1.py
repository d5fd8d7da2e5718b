"""recipes/table1.py: one function a row of the study, and a report where its results belong."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from contextual_bert.evaluation import Study
from contextual_bert.runs.tasks.outfit_completion import prepare_study


@pytest.fixture
def table1(tiny_study: None, recipe_module: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_module("table1")


def test_a_function_for_each_row_of_the_study(table1: ModuleType, tmp_path: Path) -> None:
    data = prepare_study(tmp_path, size="tiny", device="cpu")
    rows = {row.__name__: row(data) for row in table1.ROWS}
    assert rows == data.rows()
    assert [recipe.label for recipe in rows.values()] == list(rows)
    assert all(row.__doc__ for row in table1.ROWS)


def test_it_writes_the_report(table1: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--size", "tiny", "--world", "additive", "--rows", "none,popularity", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", ["table1.py", *options, "--output", str(tmp_path)])
    table1.main()
    folder = tmp_path / "table1-tiny-additive"
    study = Study.from_json((folder / "study.json").read_text())
    assert [row.name for row in study.comparison.rows] == ["none", "popularity", "oracle"]
    assert "without interactions" in (folder / "report.md").read_text()
    assert (folder / "report.html").exists()


def test_a_row_that_is_not_there_is_said_before_anything_is_drawn(
    table1: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["table1.py", "--rows", "none,flim", "--output", str(tmp_path)])
    with pytest.raises(SystemExit):
        table1.main()
    assert "no row 'flim'. Did you mean 'film'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
