"""The step of fine-tuning a BERT, a RoBERTa and a ModernBERT, with a context against without: same Trainer, same texts.

    python benchmarks/fine_tuning.py --output fine_tuning.json
    python benchmarks/fine_tuning.py --family bert --device cuda --batch-size 512    # in bfloat16, on two cores float32

Families: BERT at MiniLM-L6's sizes, RoBERTa and ModernBERT at those of their base models. Contenders of each:
transformers' classifier; ours with conditioning none, global_state_update and film; of BERT also new_position, and
multi_attribute with six blocks more. All are trained by transformers' Trainer, on the same batches in the same order.
They take turns, a step or a few each, and a ratio is the median over the rounds of the ratio within a round. A step
lasts from the end of one to the end of the next; on a CPU its time is that of the processor, which other work on the
machine lengthens little. Weights are drawn at random: they do not change it.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import write_result
from training_step import StepClock
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PrinterCallback,
    RobertaConfig,
    RobertaForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from contextual_bert import (
    Categorical,
    ContextSchema,
    ContextualBertConfig,
    ContextualBertForSequenceClassification,
    Numerical,
)
from contextual_bert.data import SequenceDataset
from contextual_bert.models.backbones import BACKBONES

PEER = "peer"
METHODS = ("none", "global_state_update", "film")
NUM_LABELS = 5


@dataclass(frozen=True)
class Family:
    """An architecture: transformers' classifier and config, the contenders beside it, and how long they are timed."""

    peer: type[PreTrainedModel]
    config: PretrainedConfig
    contenders: tuple[str, ...]
    batch_size: int
    rounds: int
    steps: int  # of a round, behind one that warms up


FAMILIES = {
    "bert": Family(
        BertForSequenceClassification,
        BertConfig(  # MiniLM-L6
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, num_labels=NUM_LABELS
        ),
        (*METHODS, "new_position", "multi_attribute"),
        batch_size=32,
        rounds=3,
        steps=1,
    ),
    "roberta": Family(
        RobertaForSequenceClassification,
        RobertaConfig(vocab_size=50_265, max_position_embeddings=514, num_labels=NUM_LABELS),
        METHODS,
        batch_size=8,
        rounds=3,
        steps=1,
    ),
    "modernbert": Family(
        ModernBertForSequenceClassification,
        ModernBertConfig(num_labels=NUM_LABELS, classifier_pooling="mean"),
        METHODS,
        batch_size=8,
        rounds=3,
        steps=1,
    ),
}
MAX_LENGTH = 64
SCHEMA = ContextSchema(
    features=(
        *(Categorical(name=f"category_{number}", values=tuple("abcdefgh")) for number in range(5)),
        Numerical(name="age", edges=(20.0, 30.0, 40.0, 50.0, 60.0)),
    )
)


def texts(num_texts: int, *, has_context: bool, seed: int = 0) -> SequenceDataset:
    """Token ids at random, 8 to 64 a text, with a grade and six features."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(8, MAX_LENGTH + 1, num_texts)
    context = {
        feature.name: torch.from_numpy(generator.integers(0, feature.num_embeddings, num_texts))
        for feature in SCHEMA.layout
    }
    return SequenceDataset(
        torch.from_numpy(generator.integers(1000, 30_000, lengths.sum())),
        torch.from_numpy(np.concatenate([[0], lengths.cumsum()])),
        context=context if has_context else {},
        labels=torch.from_numpy(generator.integers(0, NUM_LABELS, num_texts)),
    )


def model_of(family: Family, name: str) -> Any:
    """A contender."""
    if name == PEER:
        return family.peer(family.config)
    extra = 6 if name == "multi_attribute" else 0
    fields = BACKBONES[family.config.model_type].config_fields(family.config)
    layout = {"has_position_embeddings": True, "has_pretrained_start": True, "num_extra_layers": extra}
    fields |= {"num_hidden_layers": fields["num_hidden_layers"] + extra, "num_labels": NUM_LABELS, **layout}
    schema = SCHEMA if name != "none" else None
    return ContextualBertForSequenceClassification(
        ContextualBertConfig.from_schema(schema, conditioning=name, **fields)
    )


def measure(
    family: Family, *, quick: bool = False, device: str = "cpu", batch_size: int | None = None
) -> dict[str, Any]:
    """The result of a family as plain values."""
    is_on_cpu, batch_size = device == "cpu", batch_size or family.batch_size
    rounds, steps = (2, 1) if quick else (family.rounds, family.steps if is_on_cpu else 10)
    now = time.process_time if is_on_cpu else time.perf_counter
    clocks = {name: StepClock(now) for name in (PEER, *family.contenders)}
    found: dict[str, list[float]] = {name: [] for name in clocks}
    num_parameters: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "output_dir": folder,
            "per_device_train_batch_size": batch_size,
            "max_steps": steps + 1,
            "use_cpu": is_on_cpu,
            "bf16": not is_on_cpu,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "remove_unused_columns": False,
            "dataloader_pin_memory": False,
        }
        trainers: dict[str, Trainer] = {}
        for name, clock in clocks.items():
            dataset = texts(batch_size * (steps + 1), has_context=name not in (PEER, "none"))
            model = model_of(family, name)
            num_parameters[name] = sum(weight.numel() for weight in model.parameters())
            trainers[name] = Trainer(
                model,
                TrainingArguments(**settings),
                train_dataset=dataset,
                data_collator=dataset.collate_fn,
                callbacks=[clock],
            )
            trainers[name].remove_callback(PrinterCallback)
        for turn in range(rounds):
            for name in list(clocks)[:: 1 if turn % 2 == 0 else -1]:
                trainers[name].args.data_seed = turn
                trainers[name].train()
                found[name].append(statistics.fmean(clocks[name].take()))
                trainers[name].optimizer = trainers[name].lr_scheduler = None  # twice the weights: of one model at once
    over = {name: ratios_over(found[name], found[PEER]) for name in family.contenders}
    return {
        "batch_size": batch_size,
        "rounds": rounds,
        "steps_per_round": steps,
        "step_seconds": {name: statistics.median(seconds) for name, seconds in found.items()},
        "step_over_peer": over,
        "num_parameters": num_parameters,
    }


def ratios_over(seconds: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratios within the rounds."""
    ratios = sorted(a / b for a, b in zip(seconds, base, strict=True))
    quarter = len(ratios) // 4
    return {
        "median": statistics.median(ratios),
        "low_quartile": ratios[quarter],
        "high_quartile": ratios[-1 - quarter],
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: %(default)s)")
    parser.add_argument("--family", choices=FAMILIES, nargs="+", default=[*FAMILIES], help="some of the families")
    parser.add_argument("--batch-size", type=int, help="texts a step (default: 32 of bert, 8 of the others)")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    is_on_cpu = arguments.device == "cpu"
    how = {"quick": arguments.quick, "device": arguments.device, "batch_size": arguments.batch_size}
    families = {name: measure(FAMILIES[name], **how) for name in arguments.family}
    result = {
        "device": arguments.device if is_on_cpu else torch.cuda.get_device_name(),
        "max_length": MAX_LENGTH,
        "families": families,
    }
    write_result(result, arguments.output)


if __name__ == "__main__":
    main()
