"""How long one completion takes on one thread: 30,000 items, the paper's sizes, an outfit of five with one blank.

    python benchmarks/inference.py --output inference.json

Contenders, all on the same sets and all giving the ten best permitted items with their probabilities: the model eagerly
in PyTorch; the exported graphs under onnxruntime with the output matrix in float32 and in int8; each of these also with
the customer's context computed before (``encode_context``), as where one customer asks about many sets.

The floor is the bare product of the output matrix (float32) and one vector: nothing that looks at every item in float32
can be faster.

Each contender is called a few times in a row, the first of which are not counted, then the next one: each finds in the
caches what its own last call left there, as in serving. They take turns many times; a ratio is the median over the
turns of the ratio of medians within a turn, so a machine that others use too slows a turn as a whole.

Recall@10 of int8 is against the items that the float32 graph proposes, on sets of many customers. The weights are
random, drawn as a run draws them before training: their logits are closer to each other than trained ones.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import write_result
from workload import Workload

from contextual_bert.inference import CompletionPipeline, OnnxCompletionPipeline, export_onnx
from contextual_bert.inference.exported.completion_graph import Example
from contextual_bert.inference.exported.onnx_model import Completions, OnnxModel
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

CONDITIONING = "global_state_update"
EAGER, ONNX, INT8, FLOOR = "PyTorch", "onnxruntime", "onnxruntime, int8", "product alone"
REUSED = {name: f"{name}, state reused" for name in (EAGER, ONNX, INT8)}
NUM_ITEMS, SET_SIZE, TOP_K = 30_000, 5, 10
CALLS, WARM_UP = 12, 3  # a turn
Seconds = dict[str, list[float]]


def draw_pipeline() -> tuple[CompletionPipeline, dict[str, torch.Tensor], int]:
    """A model of the paper's sizes with a run's first weights, contexts to complete for, and how many there are."""
    workload = Workload.draw(num_items=NUM_ITEMS, num_sets=512)
    torch.manual_seed(0)
    schema = workload.processor.schema
    assert schema is not None
    fields: dict[str, Any] = {"tie_word_embeddings": False, "initializer_range": 128**-0.5}
    vocab_size = len(workload.processor.items)
    config = ContextualBertConfig.paper(CONDITIONING, schema=schema, vocab_size=vocab_size, **fields)
    # The config scales the widths of the features; what the features are, and so the contexts, stays the same.
    processor = ContextualBertProcessor.from_items(workload.processor.items.values, schema.with_context_size(736))
    pipeline = CompletionPipeline(ContextualBertForMaskedLM(config), processor)
    return pipeline, workload.dataset.context, len(workload.dataset)


def draw_inputs(contexts: Mapping[str, torch.Tensor], vocab_size: int, *, rows: Sequence[int]) -> Example:
    """Sets of five with one blank, each with the context of a row; all items but those of the set are permitted."""
    generator = torch.Generator().manual_seed(len(rows))
    ids = torch.randint(3, vocab_size, (len(rows), SET_SIZE), generator=generator)
    ids[:, 1] = 1
    permitted = torch.ones(len(rows), vocab_size, dtype=torch.bool).scatter_(1, ids, False)
    permitted[:, :3] = False
    index = torch.tensor(rows)
    chosen = {name: tensor[index] for name, tensor in contexts.items()}
    return Example(ids, torch.ones_like(ids), torch.ones(len(rows), dtype=torch.long), permitted, chosen)


def eagerly(model: ContextualBertForMaskedLM, inputs: Example, context: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``CompletionPipeline.fill`` computes."""
    with torch.inference_mode():
        logits = model(inputs.input_ids, inputs.attention_mask, context).logits
        logits = logits.masked_fill(~inputs.permitted, -torch.inf)
        best = logits.topk(TOP_K, dim=-1)
        return best.indices, (best.values - logits.logsumexp(dim=-1, keepdim=True)).exp()


def in_turn(contenders: Mapping[str, Callable[[], Any]], *, turns: int) -> Seconds:
    """Contender -> the median seconds of a call in each turn."""
    found: Seconds = {name: [] for name in contenders}
    for turn in range(turns):
        for name in list(contenders)[:: 1 if turn % 2 == 0 else -1]:
            seconds: list[float] = []
            for _ in range(CALLS):
                start = time.perf_counter()
                contenders[name]()
                seconds.append(time.perf_counter() - start)
            found[name].append(statistics.median(seconds[WARM_UP:]))
    return found


def ratio(seconds: Seconds, above: str, below: str) -> dict[str, float]:
    """The ratio of two contenders within a turn: median and quartiles over the turns."""
    ratios = sorted(a / b for a, b in zip(seconds[above], seconds[below], strict=True))
    quarter = len(ratios) // 4
    return {
        "median": statistics.median(ratios),
        "low_quartile": ratios[quarter],
        "high_quartile": ratios[-1 - quarter],
    }


def completed(exported: OnnxModel, inputs: Example) -> Completions:
    """From the context on."""
    return exported(inputs.graph_inputs, exported.encode_context(inputs.context))


def recall_of(exported: OnnxModel, reference: OnnxModel, inputs: Sequence[Example]) -> float:
    """Which share of the reference's items the exported model proposes."""
    both = [(completed(exported, each).ids, completed(reference, each).ids) for each in inputs]
    return float(np.mean([np.isin(*rows).mean() for found, wanted in both for rows in zip(found, wanted, strict=True)]))


def measure(*, quick: bool = False) -> dict[str, Any]:
    """The result as plain values."""
    torch.set_num_threads(1)
    turns, num_recalled = (5, 64) if quick else (60, 512)
    pipeline, contexts, num_contexts = draw_pipeline()
    model, vocab_size = pipeline.model, pipeline.model.config.vocab_size
    inputs = draw_inputs(contexts, vocab_size, rows=[0])
    with torch.inference_mode():
        customer = model.encode_context(inputs.context)
    # Copies of its own: what the model reads must not warm the floor's caches, nor the other way round.
    matrix, hidden = model.get_output_embeddings().weight.detach().clone(), torch.randn(model.config.hidden_size)
    parity: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        graphs: dict[str, OnnxModel] = {}
        for name, output_matrix in ((ONNX, "float32"), (INT8, "int8")):
            folder = Path(temporary) / output_matrix
            parity[name] = export_onnx(pipeline, folder, top_k=TOP_K, output_matrix=output_matrix)["parity"]
            graphs[name] = OnnxCompletionPipeline(folder).exported
        given = inputs.graph_inputs
        states = {name: graph.encode_context(inputs.context) for name, graph in graphs.items()}
        contenders: dict[str, Callable[[], Any]] = {
            EAGER: lambda: eagerly(model, inputs, inputs.context),
            ONNX: lambda: completed(graphs[ONNX], inputs),
            INT8: lambda: completed(graphs[INT8], inputs),
            REUSED[EAGER]: lambda: eagerly(model, inputs, customer),
            REUSED[ONNX]: lambda: graphs[ONNX](given, states[ONNX]),
            REUSED[INT8]: lambda: graphs[INT8](given, states[INT8]),
            FLOOR: lambda: torch.mv(matrix, hidden),
        }
        seconds = in_turn(contenders, turns=turns)
        batches = [
            draw_inputs(contexts, vocab_size, rows=[row % num_contexts for row in range(start, start + 64)])
            for start in range(0, num_recalled, 64)
        ]
        recall = recall_of(graphs[INT8], graphs[ONNX], batches)
    return {
        "conditioning": CONDITIONING,
        "num_items": NUM_ITEMS,
        "set_size": SET_SIZE,
        "top_k": TOP_K,
        "turns": turns,
        "calls_per_turn": CALLS - WARM_UP,
        "p50_milliseconds": {name: 1000 * statistics.median(each) for name, each in seconds.items()},
        "pytorch_over": {name: ratio(seconds, EAGER, name) for name in seconds if name != EAGER},
        "over_product_alone": {name: ratio(seconds, name, FLOOR) for name in seconds if name != FLOOR},
        "int8_recall_at_10": recall,
        "num_recalled_sets": num_recalled,
        "parity": parity,
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few turns")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    write_result(measure(quick=arguments.quick), arguments.output)


if __name__ == "__main__":
    main()
