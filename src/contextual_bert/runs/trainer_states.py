"""Check that ``trainer_state.json`` of a checkpoint holds what a trainer writes, before training goes on from it.

transformers takes its values as they are: one of another type ends a training hours later, or changes it in silence.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contextual_bert.errors import ContextualBertError, RunDirectoryError
from contextual_bert.runs.histories import curve_of
from contextual_bert.runs.run_files import trainer_state
from contextual_bert.training.recipe import Recipe

_Number = int | float
_Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """Part of the file; unknown names are refused, as transformers passes them to a constructor."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Nothing(_Part):
    pass


class _Control(_Part):
    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False


class _ControlState(_Part):
    args: _Control = _Control()
    attributes: _Nothing = _Nothing()


class _Patience(_Part):
    early_stopping_patience: Annotated[int, Field(ge=1)]
    early_stopping_threshold: _Number | None = 0.0


class _Worse(_Part):
    early_stopping_patience_counter: _Count = 0


class _EarlyStoppingState(_Part):
    args: _Patience
    attributes: _Worse = _Worse()


class _Seconds(_Part):
    training_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class _ClockState(_Part):
    args: _Nothing = _Nothing()
    attributes: _Seconds = _Seconds()


class _Digest(_Part):
    recipe_digest: str = ""


class _FilesState(_Part):
    args: _Nothing = _Nothing()
    attributes: _Digest = _Digest()


class _Callbacks(BaseModel):
    """States of the callbacks that are restored; transformers passes over others."""

    model_config = ConfigDict(strict=True)
    TrainerControl: _ControlState = _ControlState()
    EarlyStoppingCallback: _EarlyStoppingState | None = None
    TrainingClock: _ClockState = _ClockState()
    CheckpointFiles: _FilesState = _FilesState()


class _State(_Part):
    """Fields of ``transformers.TrainerState``."""

    epoch: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    global_step: _Count
    max_steps: _Count
    logging_steps: _Number
    eval_steps: _Number
    save_steps: _Number
    train_batch_size: Annotated[int, Field(ge=1)]
    num_train_epochs: _Count
    num_input_tokens_seen: _Number
    total_flos: _Number
    log_history: list[dict[str, Any]]
    best_metric: _Number | None = None
    best_global_step: _Count | None = None
    best_model_checkpoint: str | None = None
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True
    is_hyper_param_search: bool = False
    trial_name: str | None = None
    trial_params: dict[str, Any] | None = None
    stateful_callbacks: _Callbacks


def check_trainer_state(checkpoint: Path, recipe: Recipe) -> None:
    """Raise unless a trainer can go on from ``trainer_state.json``, and the learning curve so far can be written.

    Args:
        checkpoint: a whole one.
        recipe: of the run.

    Raises:
        RunDirectoryError: a value of another type, or one that no training writes; names it.
    """
    content = trainer_state(checkpoint)
    try:
        _State.model_validate(content)
        curve_of(recipe, content["log_history"])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _refused(checkpoint, f"{place}: {first['msg']}") from error
    except (ContextualBertError, TypeError) as error:
        raise _refused(checkpoint, f"log_history: {error}") from error


def _refused(checkpoint: Path, problem: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{checkpoint / 'trainer_state.json'} is not what a trainer writes: {problem.rstrip('.')}. Copy the file back, "
        f"or remove {checkpoint} to go on at the checkpoint before it."
    )
