"""Training one model by gradient steps: its trainer, going on at a checkpoint, and what is left of mixed precision."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from safetensors.torch import load_model
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.integrations.integration_utils import TensorBoardCallback

from contextual_bert.runs.run_files import TENSORBOARD, WEIGHTS_FILE, best_weights, is_trained, trainer_state
from contextual_bert.runs.tasks import Task
from contextual_bert.runs.termination import StopAfterStep, stopping_after_step
from contextual_bert.training import Bars, ContextualTrainingArguments, TrainingProgress
from contextual_bert.training.arguments import refusals_in_words
from contextual_bert.training.recipe import Recipe


def train(trainer: Trainer, checkpoint: Path | None, *, bars: Bars | None) -> Sequence[Mapping[str, Any]]:
    """Train the trainer's model and return the history of its losses.

    At SIGTERM training finishes its step, writes a checkpoint and raises ``SystemExit``.

    Args:
        trainer: of ``make_trainer``.
        checkpoint: what training goes on from; None begins anew.
        bars: where its steps are shown; they are closed at the end. None shows none.
    """
    stop = StopAfterStep()
    trainer.add_callback(stop)
    try:
        if checkpoint is not None and is_trained(checkpoint):
            # Interrupted after the last step. Another one must not follow, least of all after an early stop.
            best = best_weights(checkpoint) if trainer.args.load_best_model_at_end else checkpoint / WEIGHTS_FILE
            load_model(cast(nn.Module, trainer.model), best, strict=False)
            history = trainer_state(checkpoint)["log_history"]
        else:
            with stopping_after_step(stop):
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
            history = trainer.state.log_history
    finally:
        if bars is not None:
            bars.close()
    lose_mixed_precision(cast(nn.Module, trainer.model))
    return history


def make_trainer(
    ready: Task,
    recipe: Recipe,
    model: nn.Module,
    arguments: ContextualTrainingArguments,
    own: Sequence[TrainerCallback],
    *,
    bars: Bars | None,
) -> Trainer:
    """The trainer of a run: its data, TensorBoard in ``<checkpoints>/../tensorboard``, where its steps are shown."""
    callbacks: list[TrainerCallback] = []
    if bars is not None:
        callbacks.append(TrainingProgress(f"{recipe.label}, seed {recipe.seed}", bars))
    callbacks.extend(own)
    with refusals_in_words(recipe.training):
        trainer = ready.make_trainer(recipe, model, arguments, callbacks=callbacks)
    if arguments.should_log:  # a folder that is there before a setting is refused would stay
        log = Path(str(arguments.output_dir)).parent / TENSORBOARD
        trainer.add_callback(TensorBoardCallback(SummaryWriter(str(log))))
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer


def lose_mixed_precision(model: nn.Module) -> None:
    """Give a model that was trained in mixed precision the ``forward`` of its class back, in place of accelerate's: it
    is scored as it will be loaded."""
    for name in ("forward", "_original_forward"):
        vars(model).pop(name, None)
