"""Where torch is not installed, a run says so and what to do; an export needs none."""

from importlib import util
from pathlib import Path

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert_cli import pipelines


def test_a_run_without_torch_says_what_to_name_or_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipe.json").write_text('{"recipe": {"format": "contextual-bert recipe 1"}}', encoding="utf-8")
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None if name == "torch" else util.find_spec(name))
    with pytest.raises(ConfigurationError, match=r"is a run, and torch, .* Name the folder of an export"):
        pipelines.load_pipeline(tmp_path, device="auto", catalogue=None)
