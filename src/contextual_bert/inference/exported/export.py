"""A trained model as ONNX files: top-k and the permitted items inside the graph, one input a context feature.

The inputs of the context graph are numbered; ``context_features`` of the record names them in this order.

Beside the file lie the processor's and the model's settings, so the folder is all that completion needs, and a record
of what was exported and how far it is from the model. This module knows no query; onnx, onnxruntime and onnxscript come
with the extra ``export``.
"""

import logging
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.errors import ConfigurationError, ContextualBertError, Message, did_you_mean
from contextual_bert.inference.exported.completion_graph import (
    HISTORY,
    CompletionGraph,
    ContextGraph,
    carried,
    example,
)
from contextual_bert.inference.exported.onnx_model import (
    COMPLETION_FILE,
    CONTEXT_FILE,
    INPUTS,
    OUTPUTS,
    OnnxModel,
    check_installed,
    inputs_of,
    numbered,
)
from contextual_bert.inference.exported.origin import origin_of
from contextual_bert.inference.exported.record import OnnxExport, OutputMatrix, Parity
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.saved_files import RECORD_FILE
from contextual_bert.inference.scoring import nonfinite_error
from contextual_bert.json_text import json_text
from contextual_bert.manifest import listed_files, write_manifest
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.places import PathPlace

OPSET = 23  # the first with attention as one node
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
MAX_DIFFERENCE_NATS = 1e-3  # of a float32 export: more is no rounding
NUM_CHECKED = 32
GRAPH_FILES = frozenset(name + ending for name in (COMPLETION_FILE, CONTEXT_FILE) for ending in ("", ".data"))


def export_onnx(
    run: str | Path | CompletionPipeline,
    output: str | Path,
    *,
    top_k: int = 10,
    output_matrix: OutputMatrix = "float32",
) -> OnnxExport:
    """Write a model as ONNX, with what ``OnnxCompletionPipeline`` needs beside it, and compare the two.

    Args:
        run: a run directory, or the pipeline of a model.
        output: folder to write to: completion.onnx, context.onnx unless the method takes no context, export.json,
            config.json and the processor's files. An export that is there is replaced.
        top_k: the most proposals that can be asked of the graph.
        output_matrix: "float32", or "int8" for an output product that reads a quarter of the memory.

    Returns:
        The record that was written, with the parity measured on random inputs.

    Raises:
        ConfigurationError: the extra is not installed, an argument makes no sense, or the blocks are not BERT's.
        NonFiniteError: the model gives no numbers, and nothing was written.
        ContextualBertError: the graph does not compute what the model does.
    """
    check_installed(*PACKAGES, extra="export")
    if top_k < 1:
        raise ConfigurationError("is not allowed", setting="top_k", value=top_k, fix="Give 1 or more.")
    if output_matrix not in get_args(OutputMatrix):
        raise ConfigurationError(
            "is unknown",
            setting="output_matrix",
            value=output_matrix,
            allowed=did_you_mean(output_matrix, get_args(OutputMatrix)),
        )
    if (Path(output) / "model.safetensors").exists():
        raise ConfigurationError(
            "holds a model, which an export would hide", fix="Give a folder of its own.", place=PathPlace(output)
        )
    pipeline = run if isinstance(run, CompletionPipeline) else CompletionPipeline.from_pretrained(run, device="cpu")
    model = pipeline.model
    if any(not bool(each.isfinite().all()) for each in model.state_dict().values() if each.is_floating_point()):
        raise nonfinite_error(model)
    if model.config.backbone != "bert":
        raise ConfigurationError(
            "cannot be written as a graph: its nodes are those of BERT's blocks",
            setting="backbone",
            value=model.config.backbone,
            fix="Serve the run itself, or train one with BERT's blocks.",
        )
    graph = CompletionGraph(model, top_k=top_k, output_matrix=output_matrix).eval()
    with replacing_directory(Path(output), last=RECORD_FILE) as folder:
        write_graphs(graph, folder)
        graph.model.config.save_pretrained(folder)
        pipeline.processor.save_pretrained(folder)
        record = OnnxExport(
            conditioning=model.config.conditioning,
            top_k=graph.top_k,
            output_matrix=output_matrix,
            num_items=model.config.vocab_size,
            separator=pipeline.sets.separator,
            largest_set=pipeline.sets.largest,
            items=pipeline.sets.items,
            group_by=list(pipeline.sets.group_by),
            reading=dict(pipeline.sets.reading),
            order=pipeline.sets.order,
            context_features=[feature.name for feature in model.config.layout],
            opset=OPSET,
            versions={name: version(name) for name in ("contextual-bert", "torch", *PACKAGES) if has_version(name)},
            parity=parity(model, OnnxModel(folder, model.config), top_k=graph.top_k),
        )
        if not isinstance(run, CompletionPipeline):
            record["run"] = origin_of(run, output)
        if pipeline.is_new is not None:
            record["new_items"] = pipeline.new_among(pipeline.processor.items.values)
        difference = record["parity"]["max_difference_nats"]
        # The rounding of int8 has no limit, but what it gives must be numbers.
        if not difference <= (MAX_DIFFERENCE_NATS if output_matrix == "float32" else sys.float_info.max):
            raise ContextualBertError(
                f"The exported graph is {difference:.2g} nats from the model, more than "
                f"{MAX_DIFFERENCE_NATS:g}: nothing was written to {output}",
                fix=Message(
                    "Does {conditioning} branch on the values of tensors?", conditioning=model.config.conditioning
                ),
            )
        (folder / RECORD_FILE).write_text(json_text(record, indent=2) + "\n", encoding="utf-8")
        write_manifest(folder)
    for name in GRAPH_FILES - listed_files(output):  # of an export that was there before
        (Path(output) / name).unlink(missing_ok=True)
    return record


def has_version(name: str) -> bool:
    """Return True if a distribution of that name is installed."""
    try:
        return bool(version(name))
    except PackageNotFoundError:  # the package itself, run from its source
        return False


def write_graphs(graph: CompletionGraph, folder: Path) -> None:
    """Both ONNX files, batch, length and the number of values of a feature left open."""
    inputs, batch = example(graph.model, batch_size=3, length=4), torch.export.Dim("batch")
    length, state = torch.export.Dim("length"), dict[str, Tensor]()
    if inputs.context:
        context = numbered(inputs.context, graph.model.config.layout)
        widths = {
            name: {1: torch.export.Dim(f"width_{name}")} if tensor.ndim > 1 and not tensor.is_floating_point() else {}
            for name, tensor in context.items()
        }
        state = carried(graph.model, graph.model.encode_context(inputs.context))
        write_graph(
            ContextGraph(graph.model).eval(),
            {"context": context},
            shapes={"context": {name: {0: batch, **width} for name, width in widths.items()}},
            names=(list(context), list(state)),
            path=folder / CONTEXT_FILE,
        )
    names = inputs_of(graph.model.config)
    given = {name: getattr(inputs, name) for name in INPUTS} | {"state": state}
    # The inputs of a graph are numbered in the order of ``forward``, in which the gaps are the last.
    write_graph(
        graph,
        {**given, **{name: getattr(inputs, name) for name in names if name not in INPUTS}},
        shapes={
            "input_ids": {0: batch, 1: length},
            "attention_mask": {0: batch, 1: length},
            "position": {0: batch},
            "permitted": {0: batch},
            "state": {
                name: {0: batch, **({1: torch.export.Dim(f"width_{name}")} if name.startswith(HISTORY) else {})}
                for name in state
            },
            **{name: {0: batch, 1: length} for name in names if name not in INPUTS},
        },
        names=([*INPUTS, *state, *names[len(INPUTS) :]], OUTPUTS),
        path=folder / COMPLETION_FILE,
    )


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
        program.save(path)


def parity(model: ContextualBertForMaskedLM, exported: OnnxModel, *, top_k: int) -> Parity:
    """Compare the graphs with the model on random inputs, by the model's own path and not the graphs' modules."""
    inputs = example(model, batch_size=NUM_CHECKED, length=6, seed=1)
    with torch.inference_mode():
        copied: Any = model.bert
        device = copied.device
        context = {name: tensor.to(device) for name, tensor in inputs.context.items()}
        gaps = inputs.token_type_ids.to(device) if inputs.token_type_ids is not None else None
        outputs = copied(inputs.input_ids.to(device), inputs.attention_mask.to(device), context or None, gaps)
        every = torch.arange(NUM_CHECKED, device=device)
        length = inputs.input_ids.shape[1]
        hidden = model.with_context(outputs, every.repeat_interleave(length))
        asked = hidden[every, inputs.position.to(device)]
        added = model.added_logits(asked, context or None, every, num_sets=NUM_CHECKED)
        logits: Tensor = model.logits_of(asked, added=added).float().cpu().masked_fill(~inputs.permitted, -torch.inf)
    if not bool(logits[inputs.permitted].isfinite().all()):
        raise nonfinite_error(model)
    expected = logits.log_softmax(dim=-1)
    ids, log_probabilities, _ = exported(inputs.graph_inputs, exported.encode_context(inputs.context))
    found, proposed = torch.from_numpy(log_probabilities), torch.from_numpy(ids)
    is_there = found > -torch.inf
    # What neither rules out; a row in which the graph proposes nothing is as far from the model as can be.
    differences = torch.where(is_there, (expected.gather(1, proposed) - found).abs(), 0.0)
    differences[inputs.permitted.any(dim=1) & ~is_there.any(dim=1)] = torch.inf
    best = expected.topk(top_k, dim=-1)
    is_found = (best.indices.unsqueeze(2) == proposed.unsqueeze(1)).any(dim=2)
    is_asked = best.values > -torch.inf
    return Parity(
        num_rows=NUM_CHECKED,
        max_difference_nats=float(differences.max()),  # of tensors NaN where any is, unlike Python's max
        recall=float(is_found[is_asked].float().mean()) if is_asked.any() else 1.0,
    )


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
