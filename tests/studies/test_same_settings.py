"""studies/same_settings.py: every method of Table 1 with the same settings, and nothing else changed."""

from pathlib import Path
from types import ModuleType

import pytest

import studies.same_settings
from contextual_bert.evaluation import Study
from studies.outfits import prepare_study


@pytest.fixture(scope="module")
def same_settings(tiny_study: None) -> ModuleType:
    return studies.same_settings


def test_each_method_gets_the_same_settings(same_settings: ModuleType, tmp_path: Path) -> None:
    data = prepare_study(tmp_path / "world", size="tiny")
    rows = {row.label: row for row in same_settings.rows(data)}
    assert len(rows) == 7 * 5
    for method in same_settings.METHODS:
        plain = data.row(method)
        for name, setting in same_settings.SETTINGS.items():
            row = rows[f"{method}_{name}"]
            assert row.training == {**plain.training, **setting}
            assert (row.conditioning, row.model, row.seed) == (plain.conditioning, plain.model, plain.seed)


@pytest.mark.slow
def test_what_is_complete_is_reported(
    same_settings: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {name: setting.get("weight_decay", 0.5) for name, setting in same_settings.SETTINGS.items()}
    brief = {name: {"num_train_epochs": 1, "weight_decay": decay} for name, decay in short.items()}
    monkeypatch.setattr(same_settings, "SETTINGS", brief)
    tiny = ["--size", "tiny", "--output", str(tmp_path), "--dtype", "float32"]
    same_settings.main([*tiny, "--methods", "none"])
    same_settings.main([*tiny, "--report-only"])
    assert "By cross-entropy: `none_" in capsys.readouterr().out
    study = Study.from_json((tmp_path / "same-settings" / "study.json").read_text(encoding="utf-8"))
    assert {row.name for row in study.comparison.rows} == {"oracle", *(f"none_{name}" for name in brief)}
    assert study.title.startswith("The same settings for every method: Outfit completion")
    with pytest.raises(SystemExit):
        same_settings.main([*tiny, "--methods", "flim"])
    assert "Did you mean 'film'" in capsys.readouterr().err
