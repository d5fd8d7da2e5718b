"""studies/table1.py: the command of the outfit study, and a report where its results belong."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contextual_bert.evaluation import Study
from contextual_bert_cli.failures import in_words
from studies import table1

pytestmark = pytest.mark.usefixtures("tiny_study")


def started(*options: str) -> None:
    """Run the command in this process."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(table1.command)
    result = CliRunner().invoke(app, [*options, "--device", "cpu"])
    if result.exception is not None:
        with in_words():
            raise result.exception


def test_it_writes_the_report(tmp_path: Path) -> None:
    options = ["--size", "tiny", "--world", "additive", "--rows", "none,popularity", "--seeds", "1"]
    started(*options, "--output", str(tmp_path))
    study = Study.from_json((tmp_path / "study.json").read_text())
    assert [row.name for row in study.comparison.rows] == ["none", "popularity", "oracle"]
    assert "without interactions" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.html").exists()


def test_a_row_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        started("--size", "tiny", "--rows", "none,flim", "--output", str(tmp_path))
    assert "Did you mean 'film'?" in capsys.readouterr().err
