"""The export of a model of texts: its graphs, its record, and how far the graphs are from the model.

It knows no query. onnx and onnxscript come with the extra ``export``.
"""

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.exported.graph_files import OPSET, write_context_graph, write_graph
from contextual_bert.inference.exported.onnx_text_model import (
    HALVES,
    TEXT_FILE,
    TEXT_INPUTS,
    WORDS,
    OnnxTextModel,
    text_inputs,
)
from contextual_bert.inference.exported.record import LogitParity, OnnxTextExport, TextKind
from contextual_bert.inference.exported.text_graph import TextGraph, TextModel, text_example
from contextual_bert.inference.saved import bare_model
from contextual_bert.inference.saved_files import TrainedTexts
from contextual_bert.inference.scoring import nonfinite_error
from contextual_bert.inference.text_baseline import TextBaseline
from contextual_bert.inference.texts import QuestionAnsweringPipeline, TextPipeline
from contextual_bert.inference.texts.text_layout import num_readable
from contextual_bert.inference.texts.text_rows import TextBatch
from contextual_bert.models import (
    ContextualBertForQuestionAnswering,
    ContextualBertForTokenClassification,
    span_logits,
)

MAX_DIFFERENCE = 1e-4  # of a logit: more is no rounding
NUM_CHECKED = 12
LONGEST_CHECKED = 144  # beyond the window of ModernBERT's local attention
BACKBONES = ("bert", "mpnet", "modernbert")


class TextContent:
    """The export of a model that labels texts or words, or answers questions.

    Args:
        pipeline: of the model.
        columns: of the table of its run; None where the run does not say.
    """

    unit = "in a logit"
    max_difference = MAX_DIFFERENCE

    def __init__(self, pipeline: TextPipeline | QuestionAnsweringPipeline, *, columns: TrainedTexts | None) -> None:
        self.pipeline, self.columns = pipeline, columns if columns is not None else TrainedTexts()
        self.model: Any = bare_model(pipeline.model)

    def check(self) -> None:
        """Raise ConfigurationError where the model cannot be written as a graph."""
        config, fix = self.model.config, "Use the run itself."
        if isinstance(self.model, TextBaseline):
            raise ConfigurationError(
                "cannot be exported: baselines are not written as a graph",
                setting="conditioning",
                value=config.name,
                fix=fix,
            )
        if config.segment_length is not None:
            raise ConfigurationError(
                "cannot be exported: how many segments a text has depends on its values, and a graph has one form",
                setting="segment_length",
                value=config.segment_length,
                fix=fix,
            )
        if config.backbone not in BACKBONES:
            raise ConfigurationError(
                "cannot be written as a graph of texts",
                setting="backbone",
                value=config.backbone,
                allowed=f"Allowed: {', '.join(BACKBONES)}.",
                fix=fix,
            )

    def write_graphs(self, folder: Path) -> None:
        """Write the graphs, batch, length and the number of values of a feature left open, and the config."""
        graph = TextGraph(self.model).eval()
        inputs, batch = text_example(graph.model, batch_size=3, length=5), torch.export.Dim("batch")
        length, state = torch.export.Dim("length"), dict[str, Tensor]()
        if not self.model.config.has_context_as_text:
            state = write_context_graph(graph.model, inputs.context, folder, batch=batch)
        named = inputs._asdict() | {WORDS: inputs.context.get(WORDS)}
        others = [name for name in text_inputs(self.model.config) if name not in TEXT_INPUTS]
        of_lengths = {name: {0: batch, 1: length} for name in (*TEXT_INPUTS, HALVES)}
        shapes: dict[str, Any] = of_lengths | {WORDS: {0: batch, 1: torch.export.Dim(WORDS)}}
        shapes["state"] = {name: {0: batch} for name in state}
        names = (*TEXT_INPUTS, "state", *others)  # a graph's inputs are numbered in the order of ``forward``
        given: dict[str, Any] = {name: state if name == "state" else named[name] for name in names}
        write_graph(
            graph,
            given,
            shapes={name: shapes[name] for name in names},
            names=([*TEXT_INPUTS, *state, *others], ["log_shares" if graph.finds_answers else "logits"]),
            path=folder / TEXT_FILE,
        )
        self.model.config.save_pretrained(folder)

    def record(self, folder: Path) -> OnnxTextExport:
        """Return the record of the graphs of a folder, with their parity, but for what all exports have."""
        return OnnxTextExport(
            kind=kind_of(self.model),
            conditioning=self.model.config.conditioning,
            text=self.columns.text,
            pair=self.columns.pair,
            question=self.columns.question,
            reading=dict(self.columns.reading),
            context_features=[feature.name for feature in self.model.config.layout],
            opset=OPSET,
            versions={},
            parity=text_parity(self.model, OnnxTextModel(folder, self.model.config), longest=self._longest()),
        )

    def difference(self, record: OnnxTextExport) -> float:
        """Return the difference from the model that a record tells."""
        return record["parity"]["max_difference"]

    def _longest(self) -> int:
        """Return the length of the texts that are compared."""
        readable = num_readable(self.model.config, self.pipeline.processor.tokenizer)
        words = 10 if self.model.config.has_context_as_text else 0
        return max(1, min(LONGEST_CHECKED, readable - words))


def kind_of(model: TextModel) -> TextKind:
    """Return the kind of the task that a model learned."""
    if isinstance(model, ContextualBertForQuestionAnswering):
        return "question_answering"
    return "tagging" if isinstance(model, ContextualBertForTokenClassification) else "classification"


def text_parity(model: TextModel, exported: OnnxTextModel, *, longest: int) -> LogitParity:
    """Compare the graphs with the model on random inputs, by the model's own path and not the graphs' modules.

    Args:
        model: that was exported.
        exported: its graphs.
        longest: tokens of the longest text.

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    inputs = text_example(model, batch_size=NUM_CHECKED, length=longest, seed=1)
    device = cast(Any, model).device
    context = {name: tensor.to(device) for name, tensor in inputs.context.items()}
    given = {name: getattr(inputs, name) for name in (*TEXT_INPUTS, HALVES)}
    given = {name: tensor.to(device) for name, tensor in given.items() if tensor is not None}
    with torch.inference_mode():
        outputs = model(**given, context=context or None)
        has_spans = isinstance(model, ContextualBertForQuestionAnswering)
        logits = span_logits(outputs, given).log_softmax(dim=-1) if has_spans else outputs["logits"]
    wanted = logits.float().cpu().numpy()
    is_asked = np.isfinite(wanted) if has_spans else np.ones_like(wanted, dtype=np.bool_)
    if isinstance(model, ContextualBertForTokenClassification):
        is_asked &= inputs.attention_mask.bool().numpy()[:, :, None]  # what stands at padding is read by nobody
    if not np.isfinite(wanted[is_asked]).all():
        raise nonfinite_error(model)
    is_real = inputs.attention_mask.bool().numpy()
    rows = np.arange(NUM_CHECKED)
    halves = inputs.token_type_ids.numpy() if inputs.token_type_ids is not None else None
    arrays = {name: tensor.numpy() for name, tensor in inputs.context.items()}
    found = exported(
        TextBatch(rows, np.zeros_like(is_real, np.int64), is_real, inputs.input_ids.numpy(), halves, arrays)
    )
    differences = np.abs(found[is_asked] - wanted[is_asked])
    return LogitParity(num_rows=NUM_CHECKED, max_difference=float(differences.max(initial=0)))
