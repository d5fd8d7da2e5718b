"""How long one label takes on one thread: MiniLM, 64 tokens, six fields of context, exported and in PyTorch.

    python benchmarks/text_inference.py --checkpoint MINILM --output text_inference.json

The peer is the plain BERT: the same checkpoint without a context, written by the same exporter. ``graph`` is a call of
the graphs with ids and encoded fields; ``query`` is a whole query, from text and values to the answer. Contenders take
turns, as in ``inference.py``; a ratio is the median over the turns of the ratio of medians within a turn.

The heads are new: what a label costs does not depend on what was learned.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inference import in_turn, ratio
from results import write_result

from contextual_bert import Categorical, ContextSchema, OnnxTextPipeline, TextPipeline, export_onnx
from contextual_bert.inference.texts.text_rows import TextBatch
from contextual_bert.models import ContextualBertForSequenceClassification, ContextualBertProcessor

PLAIN, METHODS = "none", ("concat", "global_state_update")
NUM_FIELDS, NUM_VALUES, NUM_TOKENS, NUM_LABELS = 6, 8, 64, 5


def draw_pipeline(checkpoint: str, method: str, schema: ContextSchema) -> TextPipeline:
    """A checkpoint with a new head, and of a method with a new context encoder."""
    given = schema if method != PLAIN else None
    torch.manual_seed(0)
    model = ContextualBertForSequenceClassification.from_checkpoint(
        checkpoint, conditioning=method, schema=given, num_labels=NUM_LABELS
    )
    return TextPipeline(model, ContextualBertProcessor.from_checkpoint(checkpoint, given))


def measure(checkpoint: str, *, turns: int) -> dict[str, Any]:
    """The result as plain values."""
    torch.set_num_threads(1)
    names = [f"field {number}" for number in range(NUM_FIELDS)]
    values = tuple(f"value {number}" for number in range(NUM_VALUES))
    schema = ContextSchema(features=tuple(Categorical(name=name, values=values) for name in names))
    generator = np.random.default_rng(0)
    ids, is_real = generator.integers(2000, 3000, (1, NUM_TOKENS)), np.ones((1, NUM_TOKENS), np.bool_)
    contenders: dict[str, Callable[[], Any]] = {}
    parity: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for method in (PLAIN, *METHODS):
            eager, folder = draw_pipeline(checkpoint, method, schema), Path(temporary) / method
            parity[method] = export_onnx(eager, folder)["parity"]["max_difference"]
            fast, has_context = OnnxTextPipeline(folder), method != PLAIN
            context = {name: np.array([2]) for name in names} if has_context else {}
            batch = TextBatch(np.arange(1), np.zeros_like(ids), is_real, ids, None, context)
            tokenizer: Any = eager.processor.tokenizer
            query: dict[str, Any] = {"text": tokenizer.decode(ids[0, : NUM_TOKENS - 2].tolist())}
            query |= {"context": dict.fromkeys(names, values[0])} if has_context else {}
            contenders[f"{method}, graph"] = partial(fast.exported, batch)
            contenders[f"{method}, query"] = partial(fast, query)
            contenders[f"{method}, query in PyTorch"] = partial(eager, query)
        seconds = in_turn(contenders, turns=turns)
    return {
        "num_tokens": NUM_TOKENS,
        "num_fields": NUM_FIELDS,
        "turns": turns,
        "max_difference": parity,
        "p50_milliseconds": {name: 1000 * float(np.median(each)) for name, each in seconds.items()},
        "ratio_to_plain": {
            name: ratio(seconds, name, f"{PLAIN}, {name.partition(', ')[2].removesuffix(' in PyTorch')}")
            for name in seconds
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="folder or name of MiniLM, or of another BERT")
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    write_result(measure(given.checkpoint, turns=given.turns), given.output)


if __name__ == "__main__":
    main()
