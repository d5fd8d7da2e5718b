"""A recipe -> its run directory: train, evaluate, write. Those of a study are ``sweep``.

An interrupted run goes on at its last checkpoint. docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from safetensors.torch import load_model
from torch import distributed, nn
from torch.utils.tensorboard import SummaryWriter
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, Trainer, TrainerCallback, set_seed
from transformers.integrations.integration_utils import TensorBoardCallback

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import Cost, Report, Scores
from contextual_bert.evaluation.privacy_spent import PrivacySpent
from contextual_bert.folder_lock import locked_folder
from contextual_bert.frames import Frame
from contextual_bert.manifest import write_manifest
from contextual_bert.runs.card import write_card
from contextual_bert.runs.checkpoints import CheckpointFiles, check_resumable, recipe_digest
from contextual_bert.runs.field_importance import field_importances, kept_importances
from contextual_bert.runs.loss_checks import with_membership, with_new_item_calibration, with_shares
from contextual_bert.runs.model_factory import arguments_of, lines_on_steps
from contextual_bert.runs.registry import check_kind, check_machine, keeps_weights
from contextual_bert.runs.reporting import cluster_numbers, report_on
from contextual_bert.runs.resources import PeakMemory, TrainingClock
from contextual_bert.runs.run_directory import (
    CHECKPOINTS,
    IN_MEMORY,
    METRICS_FILE,
    SCORES_FILE,
    TENSORBOARD,
    WEIGHTS_FILE,
    await_clearing,
    best_weights,
    check_same_devices,
    check_same_recipe,
    checkpoint_to_resume,
    clear_run,
    is_run,
    is_trained,
    remember_recipe,
    save_scores,
    trainer_state,
    write_history,
    write_metrics,
    write_recipe,
)
from contextual_bert.runs.selected_fields import with_selected_fields
from contextual_bert.runs.tasks import Task, prepare
from contextual_bert.runs.termination import StopAfterStep, stopping_after_step
from contextual_bert.runs.text_baselines import processor_of
from contextual_bert.runs.trackers import guard_trackers
from contextual_bert.runs.trial_models import check_model_fields
from contextual_bert.training import Bars, ContextualTrainingArguments, TrainingProgress, counting, progress_bars
from contextual_bert.training.arguments import refusals_in_words
from contextual_bert.training.private_trainer import PrivateTrainer
from contextual_bert.training.recipe import Recipe


def train(trainer: Trainer, checkpoint: Path | None, *, bars: Bars | None) -> Sequence[Mapping[str, Any]]:
    """Train the trainer's model and return the history of its losses.

    At SIGTERM training finishes its step, writes a checkpoint and raises ``SystemExit``. At Ctrl-C it stops at once; a
    checkpoint that lacks its manifest alone gets it.

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
    except KeyboardInterrupt:
        for each in trainer.callback_handler.callbacks:
            if isinstance(each, CheckpointFiles):
                each.finish(trainer.args, trainer.state)
        raise
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
    guard_trackers(trainer)
    if arguments.should_log:  # a folder that is there before a setting is refused would stay
        log = Path(str(arguments.output_dir)).parent / TENSORBOARD
        trainer.add_callback(TensorBoardCallback(SummaryWriter(str(log))))
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer


@runtime_checkable
class HasCallbacks(Protocol):
    """Bars that bring further callbacks of the trainer."""

    callbacks: Sequence[TrainerCallback]


def callbacks_of(bars: Bars | None) -> Sequence[TrainerCallback]:
    """Return the callbacks that bars bring, none of most."""
    return bars.callbacks if isinstance(bars, HasCallbacks) else ()


def privacy_spent(trainer: Trainer | None, checkpoint: Path | None) -> PrivacySpent | None:
    """Return the privacy that a training has spent, None of one without DP-SGD.

    Args:
        trainer: that has trained, or went on after the last step of a checkpoint.
        checkpoint: what it went on from; None: it began anew.
    """
    if not isinstance(trainer, PrivateTrainer):
        return None
    done = trainer_state(checkpoint) if checkpoint is not None and is_trained(checkpoint) else {}
    if done:
        trainer.state.max_steps = int(done["max_steps"])
    return trainer.spent(int(done.get("global_step", trainer.state.global_step)))


def lose_mixed_precision(model: nn.Module) -> None:
    """Give a model that was trained in mixed precision the ``forward`` of its class back, in place of accelerate's: it
    is scored as it will be loaded."""
    for name in ("forward", "_original_forward"):
        vars(model).pop(name, None)


def run(
    recipe: Recipe,
    output: Path,
    *,
    table: Frame | None = None,
    prepared: Task | None = None,
    is_resumed: bool = False,
    is_overwritten: bool = False,
    is_quiet: bool = False,
    bars: Bars | None = None,
) -> Report | None:
    """Train one model, evaluate its best checkpoint, and write the run directory, under the folder's lock.

    At SIGTERM training finishes its step, writes a checkpoint and raises ``SystemExit`` with code 143.

    Args:
        recipe: what to train.
        output: the run directory.
        table: the data in memory, which ``recipe.data`` then only names: pyarrow, pandas, polars or `datasets`.
        prepared: the data, where they were prepared already.
        is_resumed: go on at the last whole checkpoint of an interrupted run.
        is_overwritten: replace a run that is there, as soon as the new model could be made.
        is_quiet: no progress bar on the console.
        bars: where the training's steps are shown; None: on the console, unless that is quiet.

    Returns:
        The report on the test part; on the validation part where there is no test; None where nothing is held out.

    Raises:
        ConfigurationError: the directory holds a run already, or checkpoints of another recipe; both ``table`` and
            ``prepared``.
        RunDirectoryError: another process writes to the directory; a checkpoint lacks what a resume needs.
        DataError: no row is left to evaluate.
    """
    check_kind(recipe)
    check_machine(recipe)
    if prepared is None:
        check_model_fields(recipe)
    if table is not None and prepared is not None:
        raise ConfigurationError("table and prepared both say what the data are", fix="Give one of them.")
    with locked_folder(output):
        return _run(
            recipe,
            output,
            prepared=prepared,
            table=table,
            is_resumed=is_resumed,
            is_overwritten=is_overwritten,
            is_quiet=is_quiet,
            bars=bars,
        )


def _run(
    recipe: Recipe,
    output: Path,
    *,
    prepared: Task | None,
    table: Frame | None,
    is_resumed: bool,
    is_overwritten: bool,
    is_quiet: bool,
    bars: Bars | None,
) -> Report | None:
    is_overwritten = is_overwritten and is_run(output)
    checkpoint = checkpoint_to_resume(output, is_resumed=is_resumed) if not is_overwritten else None
    ready = prepared
    if ready is None:
        ready = prepare(recipe, source=table)
        with counting("choosing the fields of the context", is_quiet=is_quiet) as progress:
            ready = with_selected_fields(
                ready, [recipe], remembered=[output] if checkpoint is not None else [], progress=progress
            )
    recipe, evaluated_part = ready.resolve(recipe), ready.evaluated_part
    digest = recipe_digest(recipe, digests=ready.digests)
    if checkpoint is not None:
        check_same_recipe(recipe, output, digests=ready.digests)
        check_resumable(checkpoint, recipe, digest=digest)
    has_validation = "validation" in ready.datasets
    defaults = ready.default_training(recipe)
    arguments = arguments_of(recipe, output / CHECKPOINTS, has_validation=has_validation, defaults=defaults)
    num_devices = arguments.world_size * max(1, arguments.n_gpu)
    if checkpoint is not None and not is_trained(checkpoint):
        check_same_devices(output, num_devices=num_devices)
        arguments.eval_on_start = False  # it is no start: the checkpoint's epoch was evaluated
    set_seed(recipe.seed)
    callbacks = callbacks_of(bars)
    if recipe.training.get("disable_tqdm"):
        is_quiet, bars = True, None
    elif bars is None and not is_quiet:
        bars = progress_bars()
    model = ready.build_model(recipe, is_quiet=is_quiet)
    if is_overwritten:
        (clear_run if arguments.process_index == 0 else await_clearing)(output)
    clock, memory = TrainingClock(trainer_state(checkpoint) if checkpoint is not None else None), PeakMemory()
    fitted, history, trainer = ready.fit(recipe, model), [], None
    if fitted is None:
        trainer = make_trainer(ready, recipe, model, arguments, [clock, CheckpointFiles(digest), *callbacks], bars=bars)
    if arguments.process_index == 0:
        remember_recipe(output, recipe, digests=ready.digests, num_devices=num_devices)
    if trainer is not None:
        history = train(trainer, checkpoint, bars=bars)
    spent = privacy_spent(trainer, checkpoint)
    model = ready.finished(recipe, model)
    cost = Cost(ready.count(model), clock.seconds, memory.bytes())
    model.eval()
    if isinstance(model, PreTrainedModel):
        model.set_attn_implementation("sdpa")  # as it will be loaded, so that others get these digits
    scored: dict[str, Scores] = {}
    reports: dict[str, Report] = {}
    for part in (part for part in ("validation", "test") if part in ready.datasets):
        with counting(f"scoring the {part} part", is_quiet=is_quiet) as progress:
            scored[part] = ready.score(
                recipe,
                model,
                part,
                batch_size=arguments.eval_batch_size,
                is_shared=arguments.world_size > 1,
                progress=progress,
            )
        segments = ready.segments(part, scored[part])
        reports[part] = report_on(
            part,
            scored[part],
            ready,
            segments=segments,
            seed=recipe.seed,
            known_customers=ready.customers("train"),
        )
        with counting(f"new items of the {part} part", is_quiet=is_quiet) as progress:
            reports[part] = with_new_item_calibration(
                reports[part],
                scored[part],
                ready,
                model,
                cast(Any, ready.dataset(recipe, part)),
                part=part,
                batch_size=arguments.eval_batch_size,
                is_shared=arguments.world_size > 1,
                progress=progress,
            )
    if evaluated_part is not None:
        chosen_by = "validation" if "validation" in scored else evaluated_part
        reports[evaluated_part] = with_shares(
            reports[evaluated_part], scored[chosen_by], ready, recipe, model, part=chosen_by, arguments=arguments
        )
        with counting("scoring a sample of the training part", is_quiet=is_quiet) as progress:
            reports[evaluated_part] = with_membership(
                reports[evaluated_part],
                scored[evaluated_part],
                ready,
                recipe,
                model,
                batch_size=arguments.eval_batch_size,
                is_shared=arguments.world_size > 1,
                progress=progress,
            )
    reports = {part: replace(report, privacy=spent) for part, report in reports.items()}
    with counting("permuting the fields of the context", is_quiet=is_quiet) as progress:
        importances = field_importances(
            recipe,
            model,
            ready,
            num_epochs=arguments.num_train_epochs,
            batch_size=arguments.eval_batch_size,
            is_shared=arguments.world_size > 1,
            progress=progress,
        )
    if arguments.process_index == 0:
        results: dict[str, Any] = {
            "fitted": fitted,
            "reports": reports,
            "scored": scored,
            "cost": cost,
            "arguments": arguments,
            "history": history,
            "importances": importances,
        }
        write_run(output, recipe, ready, model, results)
    if arguments.world_size > 1:
        distributed.barrier()
    return reports[evaluated_part] if evaluated_part is not None else None


def write_run(output: Path, recipe: Recipe, ready: Task, model: nn.Module, results: Mapping[str, Any]) -> None:
    """Everything that makes the directory usable and checkable; moved into place when all of it is written."""
    reports: Mapping[str, Report] = results["reports"]
    with replacing_directory(output, last=METRICS_FILE) as folder:
        if keeps_weights(recipe):
            cast(Any, model).save_pretrained(folder)
            processor_of(recipe, ready.processor).save_pretrained(folder)
        if ready.processor.schema is not None:
            ready.processor.schema.save(folder / "schema.json")
        ready.split.save(folder / "split.json")
        part = ready.evaluated_part
        if part is not None:
            scores = results["scored"][part]
            save_scores(scores, cluster_numbers(ready, part, scores.example_id), folder / SCORES_FILE)
        lines = [*ready.lines(), *lines_on_steps(recipe, results["arguments"], num_rows=len(ready.datasets["train"]))]
        resolved = {
            "data_digest": ready.split.data_digest,
            **ready.facts,
            IN_MEMORY: not Path(recipe.data).exists(),
            **ready.digests,
            "model": model.config.to_dict() if isinstance(model, PreTrainedModel) else str(model),
            "training": results["arguments"].to_dict() if results["fitted"] is None else results["fitted"],
            "lines": lines,
        }
        write_recipe(folder, recipe, resolved)
        write_history(folder, recipe, results["history"])
        write_card(folder, recipe, reports, lines, loss=results["arguments"].loss)
        unknown = {name: result.num_unknown_targets for name, result in results["scored"].items()}
        extra: dict[str, Any] = {"unknown_targets": unknown, "evaluated_part": part}
        if results["importances"] is not None:
            extra |= kept_importances(results["importances"])
        write_metrics(folder, reports, results["cost"], extra)
        write_manifest(folder)
