"""The step of fine-tuning a BERT of MiniLM-L6's sizes, with a context against without: same Trainer, same texts.

    python benchmarks/fine_tuning.py --output fine_tuning.json
    python benchmarks/fine_tuning.py --device cuda --batch-size 512     # in bfloat16, where two cores take float32

Contenders: transformers' BertForSequenceClassification; ours with conditioning none, global_state_update and
multi_attribute (six blocks more). All are trained by transformers' Trainer, on the same batches in the same order. They
take turns, a few steps each, and a ratio is the median over the rounds of the ratio within a round. A step lasts from
the end of one to the end of the next. Weights are drawn at random: they do not change the time.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import write_result
from training_step import StepClock
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments

from contextual_bert import (
    Categorical,
    ContextSchema,
    ContextualBertConfig,
    ContextualBertForSequenceClassification,
    Numerical,
)
from contextual_bert.data import SequenceDataset

PEER = "bert"
OURS = ("none", "global_state_update", "multi_attribute")
SIZES: dict[str, Any] = {  # MiniLM-L6
    "vocab_size": 30_522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "num_labels": 5,
}
BATCH_SIZE, MAX_LENGTH = 32, 64
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
        torch.from_numpy(generator.integers(1000, SIZES["vocab_size"], lengths.sum())),
        torch.from_numpy(np.concatenate([[0], lengths.cumsum()])),
        context=context if has_context else {},
        labels=torch.from_numpy(generator.integers(0, SIZES["num_labels"], num_texts)),
    )


def model_of(name: str) -> Any:
    """A contender."""
    if name == PEER:
        return BertForSequenceClassification(BertConfig(**SIZES))
    extra = 6 if name == "multi_attribute" else 0
    layout = {
        "has_position_embeddings": True,
        "type_vocab_size": 2,
        "has_pretrained_start": True,
        "num_extra_layers": extra,
    }
    sizes = {**SIZES, "num_hidden_layers": SIZES["num_hidden_layers"] + extra}
    return ContextualBertForSequenceClassification(
        ContextualBertConfig.from_schema(SCHEMA, conditioning=name, **sizes, **layout)
    )


def measure(*, quick: bool = False, device: str = "cpu", batch_size: int = BATCH_SIZE) -> dict[str, Any]:
    """The result as plain values."""
    is_on_cpu = device == "cpu"
    rounds, steps = (2, 1) if quick else (9, 3 if is_on_cpu else 10)
    clocks = {name: StepClock() for name in (PEER, *OURS)}
    found: dict[str, list[float]] = {name: [] for name in clocks}
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
            trainers[name] = Trainer(
                model_of(name),
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
    over = {name: sorted(a / b for a, b in zip(found[name], found[PEER], strict=True)) for name in OURS}
    quarter = rounds // 4
    return {
        "device": device if is_on_cpu else torch.cuda.get_device_name(),
        "batch_size": batch_size,
        "max_length": MAX_LENGTH,
        "rounds": rounds,
        "steps_per_round": steps,
        "step_seconds": {name: statistics.median(seconds) for name, seconds in found.items()},
        "step_over_bert": {
            name: {
                "median": statistics.median(ratios),
                "low_quartile": ratios[quarter],
                "high_quartile": ratios[-1 - quarter],
            }
            for name, ratios in over.items()
        },
        "num_parameters": {name: sum(weight.numel() for weight in model_of(name).parameters()) for name in clocks},
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="texts a step (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    result = measure(quick=arguments.quick, device=arguments.device, batch_size=arguments.batch_size)
    write_result(result, arguments.output)


if __name__ == "__main__":
    main()
