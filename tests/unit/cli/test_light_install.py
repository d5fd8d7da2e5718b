"""Where torch or Ray is not installed, a command says so and what to do; an export needs none."""

from importlib import util
from pathlib import Path

import pytest

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference.saved_files import check_trained
from contextual_bert_cli import clusters, pipelines


def test_a_run_without_torch_says_what_to_name_or_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipe.json").write_text('{"recipe": {"format": "contextual-bert recipe 1"}}', encoding="utf-8")
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None if name == "torch" else util.find_spec(name))
    with pytest.raises(ConfigurationError, match=r"is a run, and torch, .* Name the folder of an export"):
        pipelines.load_pipeline(tmp_path, device="auto", catalogue=None)


def test_ray_says_what_to_install_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "find_spec", lambda name: None if name == "ray" else util.find_spec(name))
    with pytest.raises(ConfigurationError) as caught:
        clusters.chosen_cluster(True, address=None, workers=None, device="auto")
    assert "contextual-bert[distributed]" in caught.value.fix


@pytest.mark.parametrize(
    ("takes_exports", "told"), [(True, "neither a run nor an export"), (False, "no run directory")]
)
def test_a_wrong_folder_is_told_with_what_would_do(tmp_path: Path, takes_exports: bool, told: str) -> None:
    with pytest.raises(RunDirectoryError, match=told) as caught:
        check_trained(tmp_path, takes_exports=takes_exports)
    assert ("export" in caught.value.fix) == takes_exports
    with pytest.raises(RunDirectoryError, match="does not exist") as caught:
        check_trained(tmp_path / "nowhere", takes_exports=takes_exports)
    assert ("export" in caught.value.fix) == takes_exports
