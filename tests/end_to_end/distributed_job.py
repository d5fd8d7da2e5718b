"""What test_distributed.py runs, alone and under torchrun: every process writes what it saw as JSON."""

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, set_seed

from contextual_bert.data import MaskingCollator, SequenceBatch, SequenceDataset
from contextual_bert.inference import score
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask, as_row, prepare, runner, study
from contextual_bert.training import ContextualBertTrainer, Recipe, training_arguments

BATCH = 16  # of all processes together, where gradients are compared


class Recorder(MaskingCollator):
    """Remembers which positions it masked."""

    masks: dict[str, list[int]]

    def __call__(self, batch: SequenceBatch) -> dict[str, Any]:
        output = super().__call__(batch)
        for example, labels in zip(batch.example_ids.tolist(), output["labels"], strict=True):
            self.masks[f"{example} in epoch {self.epoch}"] = (labels != -100).nonzero().flatten().tolist()
        return output


class Gradients(TrainerCallback):
    """Keeps the gradients of the first step."""

    norms: dict[str, list[float]]

    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        self.norms = {
            name: weight.grad.flatten()[:50].tolist()
            for name, weight in model.named_parameters()
            if weight.grad is not None
        }


def model_for(data: SetCompletionTask, *, dropout: float) -> ContextualBertForMaskedLM:
    set_seed(0)
    config = ContextualBertConfig.from_schema(
        data.processor.schema,
        conditioning="global_state_update",
        vocab_size=len(data.processor.items),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return ContextualBertForMaskedLM(config)


def trainer_for(data: SetCompletionTask, output: Path, *, dropout: float, **settings: Any) -> ContextualBertTrainer:
    chosen = {"save_strategy": "no", "eval_strategy": "no", "load_best_model_at_end": False, **settings}
    return ContextualBertTrainer(
        model_for(data, dropout=dropout),
        training_arguments(output, device="cpu", disable_tqdm=True, logging_steps=1, **chosen),
        train_dataset=data.datasets["train"],
        eval_dataset=data.datasets["validation"],
        processor=data.processor,
    )


def trained(data: SetCompletionTask, output: Path) -> dict[str, Any]:
    trainer = trainer_for(
        data,
        output,
        dropout=0.1,
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        masks_per_set=2,
        learning_rate=0.01,
    )
    recorder: Any = trainer.data_collator
    recorder.__class__ = Recorder
    recorder.masks = {}
    trainer.train()
    losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    return {"masks": recorder.masks, "losses": losses, "steps": trainer.state.global_step}


def evaluated(data: SetCompletionTask, output: Path, checkpoint: str) -> dict[str, Any]:
    """Trainer.evaluate and score of one checkpoint; batches that do not divide the rows."""
    numbers: dict[str, Any] = {}
    for batch_size in (7, 16, 4096):
        trainer = trainer_for(data, output, dropout=0.1, per_device_eval_batch_size=batch_size)
        trainer.model = ContextualBertForMaskedLM.from_pretrained(checkpoint).eval()
        metrics = trainer.evaluate()
        numbers[f"evaluate {batch_size}"] = {
            name: repr(value)
            for name, value in metrics.items()
            if not name.endswith(("_runtime", "_per_second", "_time"))
        }
        is_shared = trainer.args.world_size > 1
        result = score(trainer.model, data.datasets["validation"], batch_size=batch_size, is_shared=is_shared)
        numbers[f"score {batch_size}"] = {
            name: [repr(value) for value in column.tolist()] for name, column in result.as_arrays().items()
        }
        numbers[f"unknown {batch_size}"] = result.num_unknown_targets
    return numbers


def gradients(data: SetCompletionTask, output: Path) -> dict[str, Any]:
    """Of one step on the first 16 sets, in the order of the table; sets of 4 and 5 have fewer masks than others."""
    recorder = Gradients()
    world_size = training_arguments(output, device="cpu").world_size
    trainer = trainer_for(
        data,
        output,
        dropout=0.0,
        max_steps=1,
        max_grad_norm=0.0,
        masks_per_set=6,
        context_dropout=0.3,
        field_dropout=0.3,
        train_sampling_strategy="sequential",
        per_device_train_batch_size=BATCH // world_size,
    )
    trainer.add_callback(recorder)
    trainer.evaluate()  # which must not keep the processes from training together
    trainer.train()
    return recorder.norms


def with_unknown_items(data: SetCompletionTask) -> SetCompletionTask:
    """The same data whose validation part holds items that the vocabulary lacks."""
    validation = data.datasets["validation"]
    items = validation.input_ids.clone()
    items[::11] = 2
    changed = SequenceDataset(items, validation.offsets, context=validation.context, example_ids=validation.example_ids)
    data.datasets["validation"] = changed
    return data


def remember_the_end(output: Path) -> None:
    """Writes whether the process is still in its group when the interpreter ends."""
    (output / f"end-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(torch.distributed.is_initialized()))


def main() -> None:
    recipe_file, checkpoint, output = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    atexit.register(remember_the_end, output)  # what is registered first is called last
    recipe = Recipe.from_dict(json.loads(Path(recipe_file).read_text()))
    data = prepare(recipe)
    process = training_arguments(output / "unused", device="cpu").process_index
    written: list[str] = []
    write_run = runner.write_run

    def recorded(folder: Path, *rest: Any) -> None:
        written.append(folder.parent.name)
        write_run(folder, *rest)

    runner.write_run = recorded
    seen = {"training": trained(data, output / "training"), "gradients": gradients(data, output / "gradients")}
    recipes = [as_row(recipe, name) for name in ("none", "bag")]
    found = study("Two methods", recipes, output / "runs", prepared=data)
    seen |= {"comparison": found.to_markdown(), "written": written}
    seen["evaluation"] = evaluated(with_unknown_items(data), output / "evaluation", checkpoint)
    (output / f"process-{process}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
