"""The sets, models and trainers that the benchmarks compare: ours, and transformers' BertForMaskedLM as the peer.

Sets come from the stylist world: 4 to 8 items, about 5 in the mean, of 30,000, with 14 customer features. Both sides
get the same sets, the same sizes and the same optimiser; the peer gets what its user would write: sets padded to the
longest of a batch, one item of a set masked, logits at every position. This module measures nothing.
"""

import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from contextual_bert.context import infer_schema
from contextual_bert.data import SequenceDataset, SetPolicy, read_sets
from contextual_bert.data.world import StylistWorld
from contextual_bert.inference import encode_sets
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments

PEER = "BertForMaskedLM"
OURS = ("none", "global_state_update")
# Fields of TrainingArguments that all trainers have.
COMMON: dict[str, Any] = {
    "output_dir": tempfile.gettempdir(),
    "use_cpu": True,
    "dataloader_pin_memory": False,
    "save_strategy": "no",
    "eval_strategy": "no",
    "logging_strategy": "steps",
    "logging_steps": 50,
    "disable_tqdm": True,
    "report_to": [],
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
}
Masks = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Workload:
    """Encoded sets and the processor that belongs to them."""

    dataset: SequenceDataset
    processor: ContextualBertProcessor

    @classmethod
    def draw(cls, *, num_items: int, num_sets: int, seed: int = 0) -> "Workload":
        """Outfits of a world whose vocabulary has ``num_items`` articles."""
        world = StylistWorld.generate(num_items, seed=seed)
        sets = read_sets(world.sample(num_sets, seed=seed + 1), items="items", policy=SetPolicy())
        schema = infer_schema(sets.table, exclude=("customer_id", "items")).schema
        # The processor's schema is that of the model, scaled to the paper's context size.
        processor = ContextualBertProcessor.from_items(world.items, schema.with_context_size(736))
        return cls(encode_sets(sets, processor), processor)

    def model(self, name: str, *, seed: int = 0) -> torch.nn.Module:
        """An untrained model of the paper's sizes: one of ours by its conditioning, or the peer."""
        torch.manual_seed(seed)
        vocab_size = len(self.processor.items)
        if name != PEER:
            schema = self.processor.schema
            assert schema is not None
            return ContextualBertForMaskedLM(ContextualBertConfig.paper(name, schema=schema, vocab_size=vocab_size))
        paper = ContextualBertConfig(vocab_size=vocab_size)
        config = BertConfig(
            vocab_size=vocab_size,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=8,
            intermediate_size=256,
            max_position_embeddings=16,
            pad_token_id=paper.pad_token_id,
        )
        return BertForMaskedLM(config)

    def trainer(self, name: str, settings: dict[str, Any], callbacks: list[TrainerCallback] | None = None) -> Trainer:
        """A trainer of that model on these sets; ``settings``: fields of TrainingArguments, the same for all."""
        common: dict[str, Any] = COMMON | settings
        if name != PEER:
            arguments = ContextualTrainingArguments(**common, load_best_model_at_end=False)
            model = self.model(name, seed=arguments.seed)
            return ContextualBertTrainer(model, arguments, train_dataset=self.dataset, callbacks=callbacks)
        arguments = TrainingArguments(**common)
        return Trainer(
            self.model(name, seed=arguments.seed),
            arguments,
            train_dataset=PlainSets(self.dataset),
            data_collator=OneMaskCollator(self.processor.tokenizer),
            callbacks=callbacks,
        )


@dataclass(frozen=True, eq=False)
class World:
    """Sets to train on and sets of other customers to test on."""

    train: SequenceDataset
    test: SequenceDataset
    test_customers: NDArray[np.str_]  # of the row of the test table that a set's example id names
    processor: ContextualBertProcessor
    folder: Path

    @classmethod
    def draw(cls, *, num_items: int, num_train: int, num_test: int, seed: int) -> "World":
        """A world, encoded by the vocabulary and the schema of its training sets."""
        world = StylistWorld.generate(num_items, seed=seed)
        tables: list[pa.Table] = [world.sample(num_train, seed=seed + 1), world.sample(num_test, seed=seed + 2)]
        train, test = (read_sets(table, items="items", policy=SetPolicy()) for table in tables)
        schema = infer_schema(train.table, exclude=("customer_id", "items")).schema
        processor = ContextualBertProcessor.from_items(world.items, schema)
        customers = np.asarray(tables[1].column("customer_id").to_pylist(), dtype=np.str_)
        folder = Path(tempfile.gettempdir())
        return cls(encode_sets(train, processor), encode_sets(test, processor), customers, processor, folder)


class PlainSets(Dataset[dict[str, list[int]]]):
    """The same sets as a list of ids each: what a user of BertForMaskedLM has."""

    def __init__(self, dataset: SequenceDataset) -> None:
        items, offsets = dataset.input_ids.tolist(), dataset.offsets.tolist()
        self.rows = [items[start:end] for start, end in itertools.pairwise(offsets)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self.rows[index], "attention_mask": [1] * len(self.rows[index])}


class OneMaskCollator(DataCollatorForLanguageModeling):
    """transformers' collator, but for which positions are masked: exactly one item of each set."""

    def torch_mask_tokens(
        self, inputs: Any, special_tokens_mask: Any | None = None, offset_mapping: Any | None = None
    ) -> Masks:
        is_real = inputs != self.tokenizer.pad_token_id
        chance = torch.rand(inputs.shape).masked_fill_(~is_real, -1)
        masked = torch.nn.functional.one_hot(chance.argmax(dim=1), inputs.shape[1]).bool()
        labels = inputs.masked_fill(~masked, -100)
        return inputs.masked_fill(masked, self.tokenizer.mask_token_id), labels


def batches(trainer: Trainer, count: int) -> list[dict[str, Any]]:
    """The first batches that a trainer would train on."""
    loader = iter(trainer.get_train_dataloader())
    return [next(loader) for _ in range(count)]
