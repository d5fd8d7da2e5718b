"""A trained model as ONNX files: of sets with top-k and the permitted items inside the graph, of texts with the head.

The inputs of the context graph are numbered; ``context_features`` of the record names them in this order.

Beside the file lie the processor's and the model's settings, so the folder is all that completion needs, and a record
of what was exported and how far it is from the model. This module knows no query; onnx, onnxruntime and onnxscript come
with the extra ``export``.
"""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, get_args, overload

import torch
from torch import Tensor

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.baselines.names import WHOLE_TEXTS
from contextual_bert.errors import ConfigurationError, ContextualBertError, Message, did_you_mean
from contextual_bert.inference.exported.completion_graph import HISTORY, CompletionGraph, example
from contextual_bert.inference.exported.graph_files import OPSET, write_context_graph, write_graph
from contextual_bert.inference.exported.onnx_model import (
    COMPLETION_FILE,
    CONTEXT_FILE,
    INPUTS,
    OUTPUTS,
    OnnxModel,
    check_installed,
    inputs_of,
)
from contextual_bert.inference.exported.onnx_text_model import TEXT_FILE
from contextual_bert.inference.exported.origin import origin_of
from contextual_bert.inference.exported.record import OnnxExport, OnnxTextExport, OutputMatrix, Parity
from contextual_bert.inference.exported.text_content import TextContent
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.saved_files import RECORD_FILE, learned_kind, trained_texts
from contextual_bert.inference.scoring import nonfinite_error
from contextual_bert.inference.texts import QuestionAnsweringPipeline, TextPipeline
from contextual_bert.json_text import json_text
from contextual_bert.manifest import listed_files, write_manifest
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.places import PathPlace

Exportable = CompletionPipeline | TextPipeline | QuestionAnsweringPipeline
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
MAX_DIFFERENCE_NATS = 1e-3  # of a float32 export: more is no rounding
NUM_CHECKED = 32
TOP_K = 10
GRAPH_FILES = frozenset(
    name + ending for name in (COMPLETION_FILE, CONTEXT_FILE, TEXT_FILE) for ending in ("", ".data")
)

# Kinds of tasks whose runs are not exported, and why.
REFUSED_KINDS: Mapping[str | None, str] = {
    "masked_text": "it fills hidden words, and exports of texts give labels, tags and answers",
    "next_sentence": "it fills hidden words, and exports of texts give labels, tags and answers",
    "causal_text": "it writes token by token, and a graph computes a text in one pass",
    "bidirectional_text": "it predicts words by recurrent layers, which are not written as a graph",
    "text_to_text": "its decoder writes token by token, and a graph computes a text in one pass",
    "contrastive_text": "it makes vectors, and exports of texts give labels, tags and answers",
}
# What there is in place of a graph, where there is something.
INSTEAD: Mapping[str | None, Message] = {
    "contrastive_text": Message(
        "Embed with the run itself. Without a context, write it for sentence-transformers: {output_format}.",
        output_format="sentence-transformers",
    ),
}


@overload
def export_onnx(
    run: CompletionPipeline, output: str | Path, *, top_k: int | None = None, output_matrix: OutputMatrix | None = None
) -> OnnxExport: ...


@overload
def export_onnx(run: TextPipeline | QuestionAnsweringPipeline, output: str | Path) -> OnnxTextExport: ...


@overload
def export_onnx(
    run: str | Path, output: str | Path, *, top_k: int | None = None, output_matrix: OutputMatrix | None = None
) -> Any: ...


def export_onnx(
    run: str | Path | Exportable,
    output: str | Path,
    *,
    top_k: int | None = None,
    output_matrix: OutputMatrix | None = None,
) -> OnnxExport | OnnxTextExport:
    """Write a model as ONNX, with what answering without torch needs beside it, and compare the two.

    Args:
        run: a run directory, or the pipeline of a model.
        output: folder to write to: completion.onnx, or of texts text.onnx; context.onnx unless the method takes no
            context; export.json, config.json and the processor's files. An export that is there is replaced.
        top_k: of sets, the most proposals that can be asked of the graph; None: 10.
        output_matrix: of sets, "float32", or "int8" for an output product that reads a quarter of the memory; None:
            "float32".

    Returns:
        The record that was written, with the parity measured on random inputs.

    Raises:
        ConfigurationError: the extra is not installed, an argument makes no sense, or the model is of a kind that
            cannot be written as a graph.
        NonFiniteError: the model gives no numbers, and nothing was written.
        ContextualBertError: the graph does not compute what the model does.
    """
    check_installed(*PACKAGES, extra="export")
    of_sets = {"top_k": top_k, "output_matrix": output_matrix}
    if top_k is not None and top_k < 1:
        raise ConfigurationError("is not allowed", setting="top_k", value=top_k, fix="Give 1 or more.")
    if output_matrix is not None and output_matrix not in get_args(OutputMatrix):
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
    pipeline = exportable(run) if isinstance(run, str | Path) else run
    if isinstance(pipeline, CompletionPipeline):
        content: ExportedContent = SetContent(pipeline, top_k=top_k or TOP_K, output_matrix=output_matrix or "float32")
    else:
        given = next((name for name, value in of_sets.items() if value is not None), None)
        if given is not None:
            raise ConfigurationError(
                "is for runs of sets, and this model reads texts",
                setting=given,
                value=of_sets[given],
                fix="Leave it out.",
            )
        content = TextContent(pipeline, columns=None if not isinstance(run, str | Path) else trained_texts(run))
    check_finite_weights(pipeline.model)
    content.check()
    with replacing_directory(Path(output), last=RECORD_FILE) as folder:
        content.write_graphs(folder)
        pipeline.processor.save_pretrained(folder)
        record: Any = content.record(folder)
        record["opset"] = OPSET
        names = ("contextual-bert", "torch", *PACKAGES)
        record["versions"] = {name: version(name) for name in names if has_version(name)}
        if isinstance(run, str | Path):
            record["run"] = origin_of(run, output)
        difference = content.difference(record)
        if not difference <= content.max_difference:
            raise ContextualBertError(
                f"The exported graph is {difference:.2g} {content.unit} from the model, more than "
                f"{content.max_difference:g}: nothing was written to {output}",
                fix=Message(
                    "Does {conditioning} branch on the values of tensors?",
                    conditioning=pipeline.model.config.conditioning,
                ),
            )
        (folder / RECORD_FILE).write_text(json_text(record, indent=2) + "\n", encoding="utf-8")
        write_manifest(folder)
    for name in GRAPH_FILES - listed_files(output):  # of an export that was there before
        (Path(output) / name).unlink(missing_ok=True)
    return record


def exportable(run: str | Path) -> Exportable:
    """Return the pipeline of a run that can be exported, on the CPU.

    Raises:
        RunDirectoryError: no such run, or one whose files are missing or damaged.
        ConfigurationError: a run of a kind that is not exported.
    """
    kind = learned_kind(run)
    if kind in REFUSED_KINDS:
        raise ConfigurationError(
            f"cannot be exported: {REFUSED_KINDS[kind]}",
            fix=INSTEAD.get(kind, "Use the run itself."),
            place=PathPlace(run),
        )
    if kind == "question_answering":
        return QuestionAnsweringPipeline.from_pretrained(run, device="cpu")
    if kind in (*WHOLE_TEXTS, "tagging"):
        return TextPipeline.from_pretrained(run, device="cpu")
    return CompletionPipeline.from_pretrained(run, device="cpu")


def check_finite_weights(model: Any) -> None:
    """Raise NonFiniteError where a weight is NaN or infinite."""
    if any(not bool(each.isfinite().all()) for each in model.state_dict().values() if each.is_floating_point()):
        raise nonfinite_error(model)


class ExportedContent(Protocol):
    """Protocol of what differs between kinds of exports.

    ``max_difference``: from the model that is allowed, in ``unit``.
    """

    max_difference: float
    unit: str

    def check(self) -> None:
        """Raise ConfigurationError where the model cannot be written as a graph."""
        ...

    def write_graphs(self, folder: Path) -> None:
        """Write the graphs and the model's config."""
        ...

    def record(self, folder: Path) -> Any:
        """Return the record of the graphs of a folder, with their parity, but for what all exports have."""
        ...

    def difference(self, record: Any) -> float:
        """Return the difference from the model that a record tells."""
        ...


class SetContent:
    """The export of a model of sets.

    Args:
        pipeline: of the model.
        top_k, output_matrix: as for ``export_onnx``.
    """

    unit = "nats"

    def __init__(self, pipeline: CompletionPipeline, *, top_k: int, output_matrix: OutputMatrix) -> None:
        self.pipeline, self.top_k = pipeline, top_k
        self.output_matrix: OutputMatrix = output_matrix
        # The rounding of int8 has no limit, but what it gives must be numbers.
        self.max_difference = MAX_DIFFERENCE_NATS if output_matrix == "float32" else sys.float_info.max

    def check(self) -> None:
        backbone = self.pipeline.model.config.backbone
        if backbone != "bert":
            raise ConfigurationError(
                "cannot be written as a graph: its nodes are those of BERT's blocks",
                setting="backbone",
                value=backbone,
                fix="Serve the run itself, or train one with BERT's blocks.",
            )

    def write_graphs(self, folder: Path) -> None:
        graph = CompletionGraph(self.pipeline.model, top_k=self.top_k, output_matrix=self.output_matrix).eval()
        self.top_k = graph.top_k
        write_graphs(graph, folder)
        graph.model.config.save_pretrained(folder)

    def record(self, folder: Path) -> OnnxExport:
        model, sets = self.pipeline.model, self.pipeline.sets
        record = OnnxExport(
            conditioning=model.config.conditioning,
            top_k=self.top_k,
            output_matrix=self.output_matrix,
            num_items=model.config.vocab_size,
            separator=sets.separator,
            largest_set=sets.largest,
            items=sets.items,
            group_by=list(sets.group_by),
            reading=dict(sets.reading),
            order=sets.order,
            context_features=[feature.name for feature in model.config.layout],
            opset=OPSET,
            versions={},
            parity=parity(model, OnnxModel(folder, model.config), top_k=self.top_k),
        )
        if self.pipeline.is_new is not None:
            record["new_items"] = self.pipeline.new_among(self.pipeline.processor.items.values)
        return record

    def difference(self, record: OnnxExport) -> float:
        return record["parity"]["max_difference_nats"]


def has_version(name: str) -> bool:
    """Return True if a distribution of that name is installed."""
    try:
        return bool(version(name))
    except PackageNotFoundError:  # the package itself, run from its source
        return False


def write_graphs(graph: CompletionGraph, folder: Path) -> None:
    """Both ONNX files, batch, length and the number of values of a feature left open."""
    inputs, batch = example(graph.model, batch_size=3, length=4), torch.export.Dim("batch")
    length = torch.export.Dim("length")
    state = write_context_graph(graph.model, inputs.context, folder, batch=batch)
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
