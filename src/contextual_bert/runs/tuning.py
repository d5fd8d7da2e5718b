"""A search over settings: Ray Tune trains the trials beside each other, and stops early what falls behind.

Each trial is a run in a folder of its own. The best one is evaluated and usable like any other run.
Reference: Li et al. (2020), "A System for Massively Parallel Hyperparameter Tuning" (ASHA).
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import TrainerCallback
from transformers.utils import logging

from contextual_bert.atomic_files import replacing_file
from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.folder_lock import locked_folder
from contextual_bert.inference.tables.ray_cluster import (
    RayCluster,
    connected,
    lost_workers,
    ray_tune,
    unless_set,
    workers_of,
)
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.places import PathPlace
from contextual_bert.runs.model_factory import arguments_of
from contextual_bert.runs.ray_sweep import RETRIES
from contextual_bert.runs.run_directory import CHECKPOINTS, check_same_recipe, is_complete
from contextual_bert.runs.runner import run
from contextual_bert.runs.search_space import SearchedSetting, drawn_trials, with_drawn
from contextual_bert.runs.tasks import Task
from contextual_bert.runs.trial_models import check_model_fields
from contextual_bert.training import ContextualTrainingArguments, progress_bars
from contextual_bert.training.recipe import Recipe

TRIALS, TRIALS_FILE = "trials", "trials.json"
VALUES_FILE = "validation_values.json"  # in the folder of a trial
FORMAT = "contextual-bert trials 1"
REDUCTION = 3  # of three trials that have come as far, one goes on
_VALUE, _EPOCH, _FAILED = "value", "epoch", "failed"
_OWN = ".ray"  # folder of Ray's own files, gone when the search has ended
_ENVIRONMENT = {  # no files beside ours, and no lines of Ray's own
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
}


@dataclass(frozen=True)
class Trial:
    """A trial of a search.

    Args:
        number: counted from 0.
        settings: what it was trained with, by name.
        state: "complete"; "stopped" where it fell behind; "failed" where its training could not go on.
        value: the best value of the metric on validation; None of one that failed at once.
        epoch: of this value.
        num_epochs: that it was trained.
        reason: why it failed.
    """

    number: int
    settings: Mapping[str, Any]
    state: Literal["complete", "stopped", "failed"]
    value: float | None
    epoch: float | None
    num_epochs: float
    reason: str | None = None


@dataclass(frozen=True)
class Tuning:
    """A search that has ended.

    Args:
        metric: what the trials are judged by, on the validation part.
        is_higher_better: of the metric.
        trials: best first, then those without a value.
    """

    metric: str
    is_higher_better: bool
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The best complete trial; None where none is."""
        return next((trial for trial in self.trials if trial.state == "complete"), None)


def tune_settings(
    recipe: Recipe,
    space: Sequence[SearchedSetting],
    output: Path,
    *,
    ready: Task,
    num_trials: int,
    cluster: RayCluster | None = None,
    say: Callable[[str], None] = print,
) -> Tuning:
    """Train trials with drawn settings, and return them, best first.

    After each epoch a trial goes on where it is among the best third of those that have come as far. A complete trial
    is not trained again, an interrupted one goes on at its last checkpoint.

    Args:
        recipe: what all trials share.
        space: settings that differ.
        output: folder of the trials, which all machines of the cluster share.
        ready: the data, with a validation part.
        num_trials: how many are drawn.
        cluster: where they are trained; default: one on this machine.
        say: where sentences about the progress go.

    Raises:
        ConfigurationError: Ray is not installed; a setting that cannot be; no validation part; no trial that ended.
        RunDirectoryError: another process works in the folder.
    """
    tune = ray_tune()
    if "validation" not in ready.datasets:
        raise ConfigurationError(
            "A search needs a validation part, by which trials are judged",
            fix="Give --validation, a share of the rows.",
        )
    drawn = drawn_trials(space, num_trials, seed=recipe.seed)
    recipes = [with_drawn(recipe, each, name=f"trial-{number}") for number, each in enumerate(drawn)]
    folders = [(output / TRIALS / f"{number:03}").absolute() for number in range(len(drawn))]
    arguments = [_checked(each, ready, folder) for each, folder in zip(recipes, folders, strict=True)]
    metric, is_higher_better = _metric_of(arguments[0])
    if len(drawn) < num_trials:
        say(f"{len(drawn)} trials in place of {num_trials}: these settings can be no others")
    say(f"{len(drawn)} trials, judged by {metric} on the validation part")
    watch = _watch(tune, [each.num_train_epochs for each in arguments], is_higher_better=is_higher_better)
    cluster = cluster or RayCluster()
    with unless_set(_ENVIRONMENT), locked_folder(output), connected(cluster), lost_workers(output):
        device, num_workers = workers_of(cluster)
        recipes = [each.changed(device=device) for each in recipes]
        task = tune.with_parameters(
            train_trial,
            ready=ready,
            recipes=recipes,
            folders=folders,
            judged=(metric, is_higher_better),
            verbosity=logging.get_verbosity(),
        )
        task = tune.with_resources(task, {"cpu": 1, "gpu": 1 if device == "cuda" else 0})
        mode = "max" if is_higher_better else "min"
        asha = tune.schedulers.ASHAScheduler(
            time_attr=_EPOCH,
            # One more than there are: at the last one it would stop a trial before that is scored.
            max_t=1 + max(math.ceil(each.num_train_epochs) for each in arguments),
            grace_period=1,
            reduction_factor=REDUCTION,
        )
        tune.Tuner(
            task,
            param_space={"number": tune.grid_search(list(range(len(drawn))))},
            tune_config=tune.TuneConfig(metric=_VALUE, mode=mode, scheduler=asha, max_concurrent_trials=num_workers),
            run_config=tune.RunConfig(
                name="search",
                storage_path=str((output / _OWN).absolute()),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                callbacks=[watch],
                verbose=0,
            ),
        ).fit()
        shutil.rmtree(output / _OWN, ignore_errors=True)
        trials = [
            watch.trial(number, settings, folder)
            for number, (settings, folder) in enumerate(zip(drawn, folders, strict=True))
        ]
        for trial, folder in zip(trials, folders, strict=True):
            if trial.state != "complete":
                shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        found = Tuning(metric, is_higher_better, tuple(_in_order(trials, is_higher_better=is_higher_better)))
        _write(found, output)
    if found.best is None:
        reasons = "; ".join(dict.fromkeys(trial.reason for trial in trials if trial.reason is not None))
        raise ConfigurationError(f"No trial ended: {reasons or 'their workers died'}", place=PathPlace(output))
    return found


def _checked(recipe: Recipe, ready: Task, folder: Path) -> ContextualTrainingArguments:
    """Return the arguments of a trial. A mistake in the last one is found before hours are spent on the first."""
    check_model_fields(recipe)
    own = ready.resolve(recipe)
    ready.check(own)
    if is_complete(folder):
        check_same_recipe(own, folder, digests=ready.digests, model_fields=ready.model_fields)
    return arguments_of(own, folder / CHECKPOINTS, has_validation=True, defaults=ready.default_training(own))


def _metric_of(arguments: ContextualTrainingArguments) -> tuple[str, bool]:
    """Return the metric that chooses the best epoch, by which trials are judged, too, and whether more is better."""
    name = arguments.metric_for_best_model or "loss"
    return name.removeprefix("eval_"), bool(arguments.greater_is_better)


def _in_order(trials: Sequence[Trial], *, is_higher_better: bool) -> list[Trial]:
    sign = -1 if is_higher_better else 1
    return sorted(trials, key=lambda trial: (trial.value is None, sign * (trial.value or 0.0), trial.number))


def _write(found: Tuning, output: Path) -> None:
    with replacing_file(output / TRIALS_FILE) as partial:
        partial.write_text(json_text({"format": FORMAT, **asdict(found)}, indent=1) + "\n", encoding="utf-8")


def _watch(tune: Any, num_epochs: Sequence[float], *, is_higher_better: bool) -> Any:
    """Return the callback of Ray Tune in this process, which shows how far trials are and keeps their values."""

    class Watch(tune.Callback):
        def __init__(self) -> None:
            self.bars = progress_bars(unit="epoch")
            self.told: dict[int, list[tuple[float, float]]] = {}  # number -> epochs and values
            self.reasons: dict[int, str] = {}

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **_: Any) -> None:
            number, epoch = trial.config["number"], float(result[_EPOCH])
            if _FAILED in result:
                self.reasons[number] = result[_FAILED]
                return
            self.told.setdefault(number, []).append((epoch, float(result[_VALUE])))
            note = f"{result[_VALUE]:.4g} on validation"
            self.bars.show(f"trial {number}", round(epoch), math.ceil(num_epochs[number]), note, is_milestone=True)

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            self.bars.remove(f"trial {trial.config['number']}")

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            told = str(trial.get_error() or "").strip().splitlines() or ["its worker ended without a word"]
            self.reasons[trial.config["number"]] = told[-1]
            self.bars.remove(f"trial {trial.config['number']}")

        def on_experiment_end(self, trials: Any, **_: Any) -> None:
            self.bars.close()

        def trial(self, number: int, settings: Mapping[str, Any], folder: Path) -> Trial:
            told, sign = self.told.get(number, []), -1 if is_higher_better else 1
            epoch, value = min(told, key=lambda each: sign * each[1], default=(None, None))
            reason = self.reasons.get(number)
            state = "complete" if is_complete(folder) else "failed" if reason is not None or not told else "stopped"
            last = max((each for each, _ in told), default=0.0)
            return Trial(number, settings, state, value, epoch, last, reason)

    return Watch()


class _Reports(TrainerCallback):
    """Tells Ray Tune the metric after each evaluation, and keeps it in the folder of the trial."""

    def __init__(self, metric: str, folder: Path) -> None:
        self.metric, self.file = metric, folder / VALUES_FILE

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        if state.epoch:
            values = _values_in(self.file) | {float(state.epoch): float(metrics[f"eval_{self.metric}"])}
            with replacing_file(self.file) as partial:
                partial.write_text(json_text({"metric": self.metric, "values": [*values.items()]}), encoding="utf-8")
            report_value(values[state.epoch], epoch=state.epoch)


class _TrialBars:
    """Bars that show nothing, with a callback for the trainer."""

    def __init__(self, metric: str, folder: Path) -> None:
        self.callbacks = [_Reports(metric, folder)]

    def show(self, label: str, done: int, total: int, note: str = "", *, is_milestone: bool = False) -> None: ...

    def remove(self, label: str) -> None: ...

    def close(self) -> None: ...


def _values_in(file: Path) -> dict[float, float]:
    """Return epoch -> value of a trial that was told before."""
    return dict(read_json_object(file)["values"]) if file.is_file() else {}


def report_value(value: float, *, epoch: float) -> None:
    """Tell Ray Tune a value; where the search ends the trial, this call does not return."""
    ray_tune().report({_VALUE: value, _EPOCH: float(epoch)})


def train_trial(
    config: Mapping[str, Any],
    *,
    ready: Task,
    recipes: Sequence[Recipe],
    folders: Sequence[Path],
    judged: tuple[str, bool],
    verbosity: int,
) -> None:
    """Train one trial in a worker of Ray; of one that is complete tell its values again."""
    logging.set_verbosity(verbosity)
    logging.disable_progress_bar()
    number, (metric, is_higher_better) = config["number"], judged
    folder = folders[number]
    if is_complete(folder):
        for epoch, value in _values_in(folder / VALUES_FILE).items():
            report_value(value, epoch=epoch)
        return
    try:
        run(recipes[number], folder, prepared=ready, is_resumed=True, is_quiet=True, bars=_TrialBars(metric, folder))
    except ContextualBertError as error:  # it is no fault of the others
        worst = -math.inf if is_higher_better else math.inf
        ray_tune().report({_VALUE: worst, _EPOCH: 0.0, _FAILED: str(error)})
