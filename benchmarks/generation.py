"""A token that a GPT writes under a context, against one without: same sizes, same prompts, with a cache.

    python benchmarks/generation.py --output generation.json

Contenders: transformers' GPT2LMHeadModel; ours with conditioning none, global_state_update, film and new_position. All
are asked by transformers' ``generate`` for the same number of tokens, alone and 32 texts in a batch. They take turns,
and a ratio is the median over the rounds of the ratio within a round. Time is that of the processor, which other work
on the machine lengthens little. Weights are drawn at random: they do not change it.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from results import write_result
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from contextual_bert import Categorical, ContextSchema, ContextualBertConfig, ContextualBertForCausalLM

PEER = "gpt2"
OURS = ("none", "global_state_update", "film", "new_position")
SHAPES: dict[str, dict[str, int]] = {
    "small": {"vocab_size": 4_000, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4},
    "gpt2": {"vocab_size": 50_257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
}
BATCHES = (1, 32)
NUM_PROMPT = 4  # short: a prompt is read at once, and what a token costs is asked
SCHEMA = ContextSchema(
    features=tuple(Categorical(name=f"category_{number}", values=tuple("abcdefgh")) for number in range(6))
)


def model_of(name: str, shape: dict[str, int]) -> Any:
    """A contender."""
    if name == PEER:
        return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=None, eos_token_id=None)).eval()  # pyright: ignore[reportArgumentType]
    fields = {"backbone": "gpt2", "has_position_embeddings": True, "max_position_embeddings": 1024}
    sizes = {**shape, "intermediate_size": 4 * shape["hidden_size"], "hidden_act": "gelu_new"}
    schema = SCHEMA if name != "none" else None
    config = ContextualBertConfig.from_schema(schema, conditioning=name, **fields, **sizes)
    return ContextualBertForCausalLM(config).eval()


def measure(shapes: Sequence[str] = tuple(SHAPES), *, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    rounds = 2 if quick else 7
    logging.set_verbosity_error()
    found: dict[str, Any] = {}
    for shape_name in shapes:
        if quick and shape_name != "small":
            continue
        shape = SHAPES[shape_name]
        models = {name: model_of(name, shape) for name in (PEER, *OURS)}
        for batch in BATCHES:
            num_new = 4 if quick else 12 if shape_name == "gpt2" else 64
            found[f"{shape_name}, {batch} text{'s' if batch > 1 else ''}"] = turns(
                models, batch=batch, num_new=num_new, rounds=rounds
            )
    return {"rounds": rounds, "num_prompt": NUM_PROMPT, "shapes": SHAPES, "cases": found}


def turns(models: dict[str, Any], *, batch: int, num_new: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of a token, and those of ours over the peer's and over those without a context."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 4_000, (batch, NUM_PROMPT), generator=generator)
    context = {f"category_{number}": torch.arange(batch) % 8 + 2 for number in range(6)}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(rounds + 1):
        for name in list(models)[:: 1 if turn % 2 == 0 else -1]:
            given = {"context": context} if name not in (PEER, "none") else {}
            start = time.process_time()
            models[name].generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=num_new,
                pad_token_id=0,
                **given,
            )
            if turn:  # the first turn warms up
                seconds[name].append((time.process_time() - start) / num_new)
    quarter = rounds // 4

    def over(base: str) -> dict[str, dict[str, float]]:
        ratios = {
            name: sorted(a / b for a, b in zip(seconds[name], seconds[base], strict=True))
            for name in models
            if name not in (PEER, base)
        }
        return {
            name: {
                "median": statistics.median(each),
                "low_quartile": each[quarter],
                "high_quartile": each[-1 - quarter],
            }
            for name, each in ratios.items()
        }

    return {
        "batch_size": batch,
        "num_new_tokens": num_new,
        "token_milliseconds": {name: 1000 * statistics.median(each) for name, each in seconds.items()},
        "token_over_peer": over(PEER),
        "token_over_none": over("none"),
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the small shape, fewer rounds")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    parser.add_argument("--shape", choices=SHAPES, nargs="+", default=[*SHAPES], help="some of the shapes")
    arguments = parser.parse_args()
    write_result(measure(arguments.shape, quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
