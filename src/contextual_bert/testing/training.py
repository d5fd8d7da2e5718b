"""Contracts 6 and 11: a plain transformers.Trainer trains the model, and the context reaches it on the way.

Each function takes the name of a registered method and raises AssertionError with the reason. It knows no method.
"""

import math
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.data import default_collate
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contextual_bert.conditioning import get_method
from contextual_bert.context import encode_records
from contextual_bert.data import MaskingCollator, SequenceDataset
from contextual_bert.models import IGNORED_LABEL, ContextualBertForMaskedLM
from contextual_bert.testing.miniature import miniature_config, miniature_schema, require

FIRST_ITEM = 3  # the ids before are reserved
NUM_ANSWERS = 4
NUM_STEPS = 120
STEPS_BETWEEN_LOOKS = 20  # at the loss: most methods have learned long before the last step
INITIAL_SCALE = 0.1
LEARNED = 0.5  # of the first loss


def check_context_through_trainer(method_name: str) -> None:
    """Contract 6: where only the context tells the answer, a plain Trainer learns it; without a context it cannot.

    ``Trainer`` drops every input that ``forward`` does not name: a model that takes ``context`` only through
    ``**kwargs`` trains well, on no context at all.
    """
    schema = miniature_schema()
    records: list[dict[str, Any]] = [
        {"sex": sex, "age": 30, "brands": [brand], "style": [0.0, 0.0]} for sex in "fm" for brand in "ab"
    ]
    context = encode_records(schema, records * 8).tensors
    rows: list[dict[str, Any]] = [
        {
            "input_ids": torch.tensor([FIRST_ITEM + NUM_ANSWERS, 1]),
            "labels": torch.tensor([IGNORED_LABEL, FIRST_ITEM + row % NUM_ANSWERS]),
            "context": {feature: tensor[row] for feature, tensor in context.items()},
        }
        for row in range(8 * NUM_ANSWERS)
    ]
    chance = math.log(NUM_ANSWERS)
    loss = _train(method_name, rows, default_collate, is_learned=lambda _, loss: loss < LEARNED * chance)[1]
    if get_method(method_name).has_context:
        require(
            loss < LEARNED * chance,
            f"{method_name}: the context tells the answer, but after {NUM_STEPS} steps of a plain Trainer the loss is "
            f"{loss:.3f}, by chance {chance:.3f}. Does the context reach the model?",
        )
    else:
        require(
            loss > 0.9 * chance, f"{method_name}: takes no context, yet learned what only the context tells: {loss}"
        )


def check_training(method_name: str) -> None:
    """Contract 11: a plain Trainer with the package's data set and collator trains it: the loss falls."""
    groups = [[FIRST_ITEM + 4 * group + number for number in range(4)] for group in range(4)]
    items = [item for group in groups * 8 for item in group]
    offsets = list(range(0, len(items) + 1, 4))
    records = [{"sex": "f", "age": 30}, {"sex": "m"}] * 16
    dataset = SequenceDataset(
        items, offsets, context=encode_records(miniature_schema(), records).tensors, example_ids=range(len(records))
    )
    collator = MaskingCollator(mask_id=1, pad_id=0)
    first, last = _train(method_name, dataset, collator, is_learned=lambda first, loss: loss < LEARNED * first)
    require(last < LEARNED * first, f"{method_name}: after {NUM_STEPS} steps the loss went from {first} to {last} only")


class _StopWhenLearned(TrainerCallback):
    """Ends a training as soon as its loss on the data is low enough."""

    def __init__(self, is_learned: Callable[[float], bool]) -> None:
        self.is_learned = is_learned

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_training_stop = state.global_step > 0 and self.is_learned(kwargs["metrics"]["eval_loss"])


def _train(
    method_name: str, dataset: Any, collator: Any, *, is_learned: Callable[[float, float], bool]
) -> tuple[float, float]:
    """The loss on the data before training and after it. It ends early where the first and a later loss say it may."""
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        # BERT's 0.02 is meant for widths of hundreds: at 32 a model stays on a plateau for longer than this runs.
        model = ContextualBertForMaskedLM(miniature_config(method_name, initializer_range=INITIAL_SCALE))
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            dataloader_pin_memory=False,
            max_steps=NUM_STEPS,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            learning_rate=0.002,
            save_strategy="no",
            eval_strategy="steps",
            eval_steps=STEPS_BETWEEN_LOOKS,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model, args=arguments, data_collator=collator, train_dataset=dataset, eval_dataset=dataset
        )
        trainer.remove_callback(PrinterCallback)
        first = trainer.evaluate()["eval_loss"]
        trainer.add_callback(_StopWhenLearned(partial(is_learned, first)))
        trainer.train()
        return first, trainer.evaluate()["eval_loss"]
