"""Recipes -> run directories -> one table. ``contextual-bert train`` is one run, ``compare`` is methods x seeds.

A run that is complete is not run again, an interrupted one goes on at its last checkpoint. PROTOCOL, points 7, 10, 13.
"""

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, TrainerCallback, set_seed
from transformers.integrations import TensorBoardCallback

from contextual_bert.baselines import BagOfItems
from contextual_bert.benchmark.card import write_card
from contextual_bert.benchmark.preparation import Preparation, prepare
from contextual_bert.benchmark.run_files import (
    CHECKPOINTS,
    commit,
    hardware,
    is_complete,
    last_checkpoint,
    load_run,
    replacing_directory,
    save_scores,
    write_metrics,
    write_recipe,
)
from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean
from contextual_bert.evaluation import Comparison, Cost, EvaluationSettings, Provenance, Report, Run, compare_runs, evaluate_scores
from contextual_bert.inference import ScoredSet, score, segment_labels, set_index
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments, training_arguments
from contextual_bert.training.progress import TrainingProgress
from contextual_bert.training.recipe import Recipe

BASELINES = ("bag", "bag_context")
DEFAULT_MODEL: Mapping[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 256,
}
Say = Callable[[str], None]


def run(
    recipe: Recipe, output: Path, *, preparation: Preparation | None = None, is_resumed: bool = False, is_quiet: bool = False
) -> Report:
    """Train one model, evaluate its best checkpoint, and write the run directory.

    Args:
        recipe: what to train.
        output: the run directory.
        preparation: the data, where they were prepared already.
        is_resumed: go on at the last whole checkpoint of an interrupted run.
        is_quiet: no progress bar.

    Returns:
        The report on the test part (on the validation part where there is no test).

    Raises:
        ConfigurationError: the directory holds a run already.
    """
    if is_complete(output):
        raise ConfigurationError(f"{output} holds a complete run. Give another --output, or --overwrite to replace it.")
    checkpoint = last_checkpoint(output)
    if checkpoint is not None and not is_resumed:
        raise ConfigurationError(f"{output} holds an interrupted run. Give --resume to go on with it, or --overwrite to start again.")
    ready = preparation or prepare(recipe)
    recipe = replace(ready.recipe, conditioning=recipe.conditioning, seed=recipe.seed)
    arguments = training_arguments(
        output / CHECKPOINTS, device=recipe.device, dtype=recipe.dtype, seed=recipe.seed, disable_tqdm=True, **recipe.training
    )
    set_seed(recipe.seed)
    model = build_model(recipe, ready)
    trainer = make_trainer(recipe, ready, model, arguments, is_quiet=is_quiet)
    started = time.perf_counter()
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
    finally:
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, TrainingProgress):
                callback.close()
    cost = Cost(count_counted(model), time.perf_counter() - started, peak_memory_bytes())
    model.eval()
    scored = {part: score(model, ready.datasets[part]) for part in ("validation", "test") if part in ready.datasets}
    reports = {part: report_on(part, result, ready, seed=recipe.seed) for part, result in scored.items()}
    if trainer.is_world_process_zero():
        write_run(output, recipe, ready, model, {"reports": reports, "scored": scored, "cost": cost, "arguments": arguments})
    return reports.get("test") or reports["validation"]


def build_model(recipe: Recipe, ready: Preparation) -> nn.Module:
    """The model of a recipe: new, from ``init_from``, or a baseline.

    Raises:
        UnknownNameError: neither a method nor a baseline has that name.
    """
    name, schema, vocab_size = recipe.conditioning, ready.processor.schema, len(ready.processor.items)
    if name in BASELINES:
        return BagOfItems(vocab_size, layout=schema.layout if name == "bag_context" and schema is not None else ())
    if name not in METHODS:
        raise UnknownNameError(f"Unknown conditioning {name!r}. {did_you_mean(name, [*METHODS, *BASELINES])}")
    if recipe.init_from is not None:
        return started_from(recipe, vocab_size)
    if get_method(name).has_context and schema is None:
        raise ConfigurationError(f"conditioning={name!r} needs a context, and {recipe.data} has no column for one. Take 'none'.")
    return ContextualBertForMaskedLM(
        ContextualBertConfig.from_schema(schema, **{**DEFAULT_MODEL, **recipe.model, "conditioning": name, "vocab_size": vocab_size})
    )


def started_from(recipe: Recipe, vocab_size: int) -> ContextualBertForMaskedLM:
    """The model of the run ``init_from``, with rows for the items that were appended to its vocabulary."""
    model = ContextualBertForMaskedLM.from_pretrained(str(recipe.init_from))
    if recipe.conditioning != model.config.conditioning:
        raise ConfigurationError(
            f"{recipe.init_from} was trained with conditioning={model.config.conditioning!r}, this run asks for {recipe.conditioning!r}. "
            "Give the same --conditioning, or start without --init-from."
        )
    differing = [field for field, value in recipe.model.items() if getattr(model.config, field, None) != value]
    if differing:
        raise ConfigurationError(f"{', '.join(differing)} cannot change in a run that starts from {recipe.init_from}. Leave it out.")
    if vocab_size > model.config.vocab_size:
        model.resize_token_embeddings(vocab_size)
    return model


def make_trainer(
    recipe: Recipe, ready: Preparation, model: nn.Module, arguments: ContextualTrainingArguments, *, is_quiet: bool
) -> ContextualBertTrainer:
    """The trainer of a run: its data, TensorBoard in ``<checkpoints>/../tensorboard``, one progress bar."""
    log = Path(arguments.output_dir).parent / "tensorboard"
    callbacks: list[TrainerCallback] = [TensorBoardCallback(SummaryWriter(str(log)))] if arguments.should_log else []
    if not is_quiet:
        callbacks.append(TrainingProgress(f"{recipe.conditioning}, seed {recipe.seed}"))
    trainer = ContextualBertTrainer(
        model,
        arguments,
        train_dataset=ready.datasets["train"],
        eval_dataset=ready.datasets.get("validation"),
        processor=ready.processor,
        patience=recipe.patience,
        callbacks=callbacks,
    )
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer


def report_on(part: str, scored: ScoredSet, ready: Preparation, *, seed: int) -> Report:
    """Metrics with intervals and segments of one part."""
    dataset, customers = ready.datasets[part], ready.customers(part)
    index = set_index(dataset, scored.scores.example_id)
    return evaluate_scores(
        scored.scores,
        clusters=customers[index] if customers is not None else None,
        segments={name: take(labels, index) for name, labels in segment_labels(dataset, ready.processor).items()},
        num_items=len(ready.processor.items.values),
        provenance=provenance(ready, seeds=(seed,)),
    )


def take(labels: NDArray[np.str_] | list[list[str]], index: NDArray[np.int64]) -> NDArray[np.str_] | list[list[str]]:
    """The labels of these sets, in that order."""
    return [labels[place] for place in index.tolist()] if isinstance(labels, list) else labels[index]


def write_run(output: Path, recipe: Recipe, ready: Preparation, model: nn.Module, results: Mapping[str, Any]) -> None:
    """Everything that makes the directory usable and checkable; moved into place when all of it is written."""
    reports: Mapping[str, Report] = results["reports"]
    with replacing_directory(output) as folder:
        if isinstance(model, PreTrainedModel):
            model.save_pretrained(folder)
            ready.processor.save_pretrained(folder)
        if ready.processor.schema is not None:
            ready.processor.schema.save(folder / "schema.json")
        ready.split.save(folder / "split.json")
        part = "test" if "test" in reports else "validation"
        scores = results["scored"][part].scores
        save_scores(scores, cluster_numbers(ready, part, scores.example_id), folder / "test_scores.safetensors")
        resolved = {
            "data_digest": ready.split.data_digest,
            "split_digest": ready.split.digest,
            "model": model.config.to_dict() if isinstance(model, PreTrainedModel) else str(model),
            "training": results["arguments"].to_dict(),
            "lines": ready.lines(),
        }
        write_recipe(folder, recipe, resolved)
        write_card(folder, recipe, reports, ready.lines())
        unknown = {name: result.num_unknown_targets for name, result in results["scored"].items()}
        write_metrics(folder, reports, results["cost"], {"unknown_targets": unknown, "evaluated_part": part})


def cluster_numbers(ready: Preparation, part: str, example_ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """A number for the customer of each scored row, the same in every run on these data."""
    customers = ready.customers(part)
    if customers is None:
        return None
    numbers = np.unique(customers, return_inverse=True)[1]
    return numbers[set_index(ready.datasets[part], example_ids)].astype(np.int64)


def compare(
    recipes: Sequence[Recipe],
    output: Path,
    *,
    reference: str = "none",
    extra: Sequence[Run] = (),
    preparation: Preparation | None = None,
    is_quiet: bool = False,
    say: Say = print,
) -> Comparison:
    """Train what is missing, then compare all on the same masked positions.

    Args:
        recipes: one a run; they differ in ``conditioning`` and ``seed`` only.
        output: the study's folder; a run lies in ``<output>/<conditioning>/seed-<n>``.
        reference: the method the others are compared with.
        extra: rows from elsewhere, the oracle for instance.
        preparation: the data, where they were prepared already.
        is_quiet: no progress bars.
        say: where sentences about the progress go.

    Returns:
        The comparison on the test part.
    """
    ready = preparation or prepare(recipes[0])
    runs: list[Run] = []
    for recipe in recipes:
        folder = output / recipe.conditioning / f"seed-{recipe.seed}"
        if is_complete(folder):
            say(f"{folder}: complete, not run again")
        else:
            run(recipe, folder, preparation=ready, is_resumed=True, is_quiet=is_quiet)
        role = "baseline" if recipe.conditioning in BASELINES else "method"
        runs.append(load_run(folder, name=recipe.conditioning, role=role))
    return compare_runs(
        [*runs, *extra],
        reference=reference,
        num_items=len(ready.processor.items.values),
        settings=EvaluationSettings(),
        provenance=provenance(ready, seeds=sorted({recipe.seed for recipe in recipes})),
    )


def provenance(ready: Preparation, *, seeds: Sequence[int]) -> Provenance:
    """Where the numbers of a report come from."""
    return Provenance(
        data_digest=ready.split.data_digest[:16], commit=commit(), seeds=tuple(seeds), hardware=hardware(), recipe="recipe.json"
    )


def count_counted(model: nn.Module) -> int:
    """Parameters by the paper's rule: without item embeddings, context encoder and output matrix."""
    left_out = ("bert.embeddings.", "bert.context_encoder.", "cls.predictions.decoder.", "cls.predictions.bias", "items.", "context_encoder.", "output.")
    return sum(parameter.numel() for name, parameter in model.named_parameters() if not name.startswith(left_out))


def peak_memory_bytes() -> int:
    """The most memory this process, or the accelerator it used, ever held."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

