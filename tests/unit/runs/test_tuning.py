"""A search on Ray: the best trial is a whole run, what falls behind is stopped, what fails is told."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline, RayCluster
from contextual_bert.runs import SetCompletionTask, prepare
from contextual_bert.runs.run_directory import CHECKPOINTS, is_complete
from contextual_bert.runs.search_space import SearchedSetting
from contextual_bert.runs.tuning import TRIALS, TRIALS_FILE, tune_settings
from tests.local_ray import local_ray

pytest.importorskip("ray")
RATES = [SearchedSetting("learning_rate", (1e-2, 1e-7, 2e-7, 3e-7, 1e30))]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with local_ray(1):
        yield RayCluster(num_workers=1, device="cpu")


@pytest.mark.slow
def test_the_best_trial_is_a_run_and_the_others_are_told(
    cluster: RayCluster, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    recipe = tiny_data.recipe.changed(training={**tiny_data.recipe.training, "num_train_epochs": 4})
    how: dict[str, Any] = {"ready": tiny_data, "num_trials": 5, "cluster": cluster, "say": print}
    found = tune_settings(recipe, RATES, tmp_path, **how)
    assert found.metric == "cross_entropy_nats" and not found.is_higher_better
    states = {trial.settings["learning_rate"]: trial.state for trial in found.trials}
    assert states[1e-2] == "complete" and states[1e30] == "failed"
    best = found.best
    assert best is not None and best == found.trials[0] and best.settings == {"learning_rate": 1e-2}
    assert best.num_epochs == 4 and best.epoch is not None and best.value is not None
    # One worker, so that each trial is set against those before it: of four that learn, three cannot all be ahead.
    assert "stopped" in states.values()
    for trial in found.trials:
        folder = tmp_path / TRIALS / f"{trial.number:03}"
        assert is_complete(folder) == (trial.state == "complete")
        if trial.state == "stopped":
            assert trial.num_epochs < 4 and not (folder / CHECKPOINTS).exists()
        assert (trial.reason is not None) == (trial.state == "failed")
    written = json.loads((tmp_path / TRIALS_FILE).read_text())
    assert [each["number"] for each in written["trials"]] == [trial.number for trial in found.trials]
    assert not (tmp_path / ".ray").exists()
    folder = tmp_path / TRIALS / f"{best.number:03}"
    assert CompletionPipeline.from_pretrained(folder)({"items": []})["slots"]
    before = (folder / "metrics.json").stat().st_mtime_ns
    again = tune_settings(recipe, RATES, tmp_path, **how)
    assert again.best == best and (folder / "metrics.json").stat().st_mtime_ns == before  # not trained again


def test_a_search_needs_a_validation_part(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    ready = prepare(replace(tiny_data.recipe, validation=0.0))
    with pytest.raises(ConfigurationError, match="needs a validation part"):
        tune_settings(ready.recipe, RATES, tmp_path, ready=ready, num_trials=2)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (SearchedSetting("learning_rat", (0.1, 0.2)), "learning_rate"),
        (SearchedSetting("model.hidden_siz", (16, 32)), "hidden_size"),
        (SearchedSetting("model.hidden_size", (16, 33)), "33"),
        (SearchedSetting("seed", (1, 2)), "seed"),
    ],
)
def test_a_setting_that_cannot_be_is_found_before_anything_is_trained(
    tiny_data: SetCompletionTask, tmp_path: Path, setting: SearchedSetting, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        tune_settings(tiny_data.recipe, [setting], tmp_path, ready=tiny_data, num_trials=2)
    assert not list(tmp_path.iterdir())
