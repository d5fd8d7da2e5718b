"""Services that follow a training: MLflow gets its numbers, and one that fails ends no training."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback
from transformers.integrations import integration_utils

from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import SetCompletionTask, trackers
from contextual_bert.runs.run_directory import is_complete, load_history
from contextual_bert.runs.runner import run
from contextual_bert.training import Recipe


def recipe_of(tiny_data: SetCompletionTask, tracker: str) -> Recipe:
    training = {**tiny_data.recipe.training, "num_train_epochs": 2, "report_to": tracker}
    return replace(tiny_data.recipe, training=training)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    found: Any = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "outfits")
    found.set_tracking_uri(None)
    yield found
    found.end_run()
    found.set_tracking_uri(None)


def test_mlflow_gets_the_settings_and_the_numbers_of_each_epoch(
    mlflow: Any, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    run(recipe_of(tiny_data, "mlflow"), tmp_path / "run", prepared=tiny_data, is_quiet=True)
    client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
    [kept] = client.search_runs([client.get_experiment_by_name("outfits").experiment_id])
    assert kept.info.status == "FINISHED" and kept.data.params["num_train_epochs"] == "2"
    told = client.get_metric_history(kept.info.run_id, "eval_cross_entropy_nats")
    curve = load_history(tmp_path / "run")
    assert curve is not None and [each.value for each in told][:2] == pytest.approx(
        [point.validation_cross_entropy_nats for point in curve.points]
    )


class Broken(TrainerCallback):
    """A service that fails at one event."""

    at = "on_train_begin"

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._fail("on_train_begin")

    def on_log(self, *_: Any, **__: Any) -> None:
        self._fail("on_log")

    def _fail(self, event: str) -> None:
        if event == self.at:
            raise OSError("no route\nto host")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> type[Broken]:
    known: dict[str, Any] = {**integration_utils.INTEGRATION_TO_CALLBACK, "swanlab": Broken}
    monkeypatch.setattr(integration_utils, "INTEGRATION_TO_CALLBACK", known)
    monkeypatch.setattr(trackers, "_NAMES", {Broken: "swanlab"})
    return Broken


def test_one_that_does_not_start_is_a_mistake(
    broken: type[Broken], tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, "at", "on_train_begin")
    with pytest.raises(ConfigurationError, match="report_to='swanlab' does not start: no route to host"):
        run(recipe_of(tiny_data, "swanlab"), tmp_path / "run", prepared=tiny_data, is_quiet=True)
    assert not is_complete(tmp_path / "run")
    run(recipe_of(tiny_data, "none"), tmp_path / "run", prepared=tiny_data, is_quiet=True)
    assert is_complete(tmp_path / "run")


def test_one_that_fails_later_is_said_once(
    broken: type[Broken],
    tiny_data: SetCompletionTask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(broken, "at", "on_log")
    run(recipe_of(tiny_data, "swanlab"), tmp_path / "run", prepared=tiny_data, is_quiet=True)
    assert is_complete(tmp_path / "run")
    told = [each.getMessage() for each in caplog.records if each.name == trackers.__name__]
    assert told == ["report_to=swanlab: no route to host. The training goes on without."]
