"""studies/table1.py: the command of the outfit study, and a report where its results belong."""

import shutil
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


def test_scores_over_all_items(tmp_path: Path) -> None:
    found = {}
    for over in ("candidates", "vocabulary"):
        options = ["--size", "tiny", "--rows", "popularity", "--seeds", "1", "--softmax-over", over]
        started(*options, "--output", str(tmp_path / over))
        study = Study.from_json((tmp_path / over / "study.json").read_text())
        found[over] = study.comparison.rows[0].intervals["cross_entropy_nats"].value
    assert found["vocabulary"] > found["candidates"]


def test_a_softmax_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        started("--size", "tiny", "--rows", "popularity", "--softmax-over", "words", "--output", str(tmp_path))
    assert "candidates" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_without_its_runs_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--size", "tiny", "--seeds", "1", "--output", str(tmp_path)]
    started(*options, "--rows", "popularity,context_popularity")
    started(*options, "--rows", "popularity")  # the other run is there, so its row can be reported again
    started(*options, "--rows", "popularity,context_popularity")
    before = (tmp_path / "study.json").read_bytes()
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(SystemExit, match="2"):
        started(*options, "--rows", "popularity")
    assert "context_popularity. A report on popularity" in capsys.readouterr().err
    assert (tmp_path / "study.json").read_bytes() == before
    started(*options, "--rows", "popularity,context_popularity")


def test_a_row_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        started("--size", "tiny", "--rows", "none,flim", "--output", str(tmp_path))
    assert "Did you mean 'film'?" in capsys.readouterr().err
