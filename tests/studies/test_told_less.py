"""studies/told_less.py: three runs, scored with more or less of the context known, and a report."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import studies.told_less


@pytest.fixture
def told_less(tiny_study: None) -> ModuleType:
    return studies.told_less


@pytest.mark.slow
def test_what_is_known_and_how_personal_it_is(told_less: ModuleType, tmp_path: Path) -> None:
    told_less.main(["--size", "tiny", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path / "out")])
    found: Any = json.loads((tmp_path / "out" / "results.json").read_text())
    known = {(each["known"], each["run"]): each["cross_entropy_nats"]["value"] for each in found["known"]}
    assert len(known) == 15
    assert len({known[level, "none"] for level in told_less.LEVELS}) == 1  # it reads no context
    for name in ("global_state_update", "global_state_update_told_less"):
        assert len({known[level, name] for level in told_less.LEVELS}) == 5
    weights = {each["weight"]: each["cross_entropy_nats"]["value"] for each in found["guidance"]}
    assert weights[1] == pytest.approx(known["everything", "global_state_update_told_less"], abs=1e-6)
    assert weights[0] == pytest.approx(known["nothing", "global_state_update_told_less"], abs=1e-6)
    gains = {(each["known"], each["other"]): each["interval"]["value"] for each in found["differences"]}
    expected = known["nothing", "global_state_update_told_less"] - known["nothing", "none"]
    assert gains["nothing", "none"] == pytest.approx(expected, abs=1e-9)
    report = (tmp_path / "out" / "report.md").read_text()
    assert f"{expected:+.4f}" in report
    assert "half of it, the rest new" in report
