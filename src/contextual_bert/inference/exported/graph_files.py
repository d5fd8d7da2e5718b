"""ONNX files from modules: the exporter, and the graph of a context, which every kind of export has.

It knows no head. onnx and onnxscript come with the extra ``export``.
"""

import logging
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from contextual_bert.context.forms import FORMS
from contextual_bert.inference.exported.completion_graph import ContextGraph, carried
from contextual_bert.inference.exported.onnx_model import CONTEXT_FILE, numbered
from contextual_bert.models import ContextualBertPreTrainedModel

OPSET = 23  # the first with attention as one node
STACK_TRACE = "pkg.torch.onnx.stack_trace"  # the exporter's note on a node: files and lines


def random_context(
    model: ContextualBertPreTrainedModel, *, num_rows: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return random values of all features of a model; the numbers of values of lists differ by row.

    Args:
        model: its config has the features.
        num_rows: of how many people.
        generator: draws them.
    """
    layout = model.config.layout
    return {each.name: FORMS[each.form].random(each, num_rows, generator=generator) for each in layout}


def write_context_graph(
    model: ContextualBertPreTrainedModel, context: Mapping[str, Tensor], folder: Path, *, batch: Any
) -> dict[str, Tensor]:
    """Write the graph from a context to its encoding, batch and number of values of a feature left open.

    Args:
        model: as ``lean`` gives it.
        context: an example; empty where none is read, and then nothing is written.
        folder: gets ``CONTEXT_FILE``.
        batch: the dimension of the batch.

    Returns:
        What the graph gives for the example.
    """
    if not context:
        return {}
    given = numbered(context, model.config.layout)
    widths = {
        name: {1: torch.export.Dim(f"width_{name}")} if tensor.ndim > 1 and not tensor.is_floating_point() else {}
        for name, tensor in given.items()
    }
    state = carried(model, model.encode_context(context))
    write_graph(
        ContextGraph(model).eval(),
        {"context": given},
        shapes={"context": {name: {0: batch, **width} for name, width in widths.items()}},
        names=(list(given), list(state)),
        path=folder / CONTEXT_FILE,
    )
    return state


def write_graph(
    graph: nn.Module,
    inputs: Mapping[str, Any],
    *,
    shapes: Mapping[str, Any],
    names: tuple[Sequence[str], Sequence[str]],
    path: Path,
) -> None:
    """One ONNX file; ``names`` are those of its inputs and of its outputs."""
    with quiet(), torch.no_grad():
        program: Any = torch.onnx.export(
            graph,
            (),
            kwargs=dict(inputs),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(names[0]),
            output_names=list(names[1]),
            dynamic_shapes=dict(shapes),
            verbose=False,
        )
        _forget_sources(program.model)
        program.save(path)


def _forget_sources(model: Any) -> None:
    """Remove what the exporter notes of the lines that made a node: paths of this machine are nobody else's.

    Args:
        model: of onnx_ir; changed in place.
    """
    for graph in (model.graph, *model.functions.values()):
        for node in graph.all_nodes():
            node.metadata_props.pop(STACK_TRACE, None)


@contextmanager
def quiet() -> Generator[None]:
    """Without the exporter's remarks on packages that are not needed here."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
