"""A study as files: all of them or none, and the page the same each time."""

import base64
import json
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.errors import NAME, Message
from contextual_bert.evaluation import Report, Study, write_study
from contextual_bert_cli.studies import finish_study

ADVISED = {"num_train_epochs": NAME, "learning_rate": NAME}

PICTURES = {
    "comparison.png",
    "cost_parameters.png",
    "cost_training_seconds.png",
    "gap_to_oracle.png",
    "learning_curves.png",
    "recall.png",
    "reliability.png",
    "reliability_by_method.png",
    "segments.png",
}


def test_all_files_are_written_and_agree(study, study_without_oracle, tmp_path):
    paths = write_study(study, tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert {path.name for path in paths} == PICTURES | {"report.html", "report.md", "study.json", "reports.json"}
    assert sorted(folder.iterdir()) == sorted(paths)
    html = (folder / "report.html").read_text("utf-8")
    inside = [base64.b64decode(found) for found in re.findall(r"base64,([^\"]+)", html)]
    assert sorted(inside) == sorted((folder / name).read_bytes() for name in PICTURES)
    assert all(len(png) > 10_000 for png in inside)
    markdown = (folder / "report.md").read_text("utf-8")
    assert set(re.findall(r"\]\((\w+\.png)\)", markdown)) == PICTURES
    again = Study.from_json((folder / "study.json").read_text("utf-8"))
    assert again.reports == {}
    written = json.loads((folder / "reports.json").read_text("utf-8"))
    reports = {name: Report.from_json(json.dumps(report)) for name, report in written.items()}
    assert replace(again, reports=reports).to_markdown() == markdown

    # A later study without an oracle leaves no picture of the earlier one's.
    (folder / "mine.png").write_bytes(b"not ours")
    write_study(replace(study_without_oracle, reports={}, curves=()), folder)
    left = {path.name for path in folder.iterdir()}
    assert "mine.png" in left
    assert PICTURES & left == {"comparison.png", "recall.png", "cost_parameters.png", "cost_training_seconds.png"}


def test_a_failing_disk_leaves_what_was_there(study_without_oracle, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    (tmp_path / "report.html").write_text("old", encoding="utf-8")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        write_study(study_without_oracle, tmp_path)
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [("report.html", "old")]


def test_the_last_file_comes_last(tmp_path, monkeypatch):
    moved = []
    path_type = type(tmp_path)
    replace_file = path_type.replace
    monkeypatch.setattr(path_type, "replace", lambda self, to: (moved.append(self.name), replace_file(self, to))[1])
    with replacing_directory(tmp_path, last="a") as folder:
        for name in "bac":
            (folder / name).write_text(name, encoding="utf-8")
    assert moved[-1] == "a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_a_command_writes_settings_as_options_and_python_as_arguments(study_without_oracle, tmp_path):
    advice = Message("Train longer ({num_train_epochs}) or at another {learning_rate}.", **ADVISED)
    found = replace(study_without_oracle, texts=(advice,), data=(advice,), about=(advice,), curves=())
    write_study(found, tmp_path / "python")
    finish_study(found, tmp_path / "command", runs=tmp_path)
    for name in ("report.md", "report.html"):
        assert (tmp_path / "python" / name).read_text("utf-8").count("Train longer (num_train_epochs)") == 3
        written = (tmp_path / "command" / name).read_text("utf-8")
        assert written.count("Train longer (--epochs) or at another --learning-rate.") == 3
