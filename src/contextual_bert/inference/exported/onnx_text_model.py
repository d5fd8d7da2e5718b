"""Exported graphs of texts, run by onnxruntime: from contexts and tokens to logits.

It knows ids, no words: ``OnnxTextPipeline`` translates. It imports no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.inference.exported.onnx_model import GraphConfig, OnnxGraphs, no_numbers
from contextual_bert.inference.texts.text_rows import TextBatch

TEXT_FILE = "text.onnx"
TEXT_INPUTS = ("input_ids", "attention_mask")
HALVES, WORDS = "token_type_ids", "words"


@dataclass(frozen=True, kw_only=True)
class ExportedTextConfig(GraphConfig):
    """The settings of an exported model of texts that its answers depend on.

    A config.json does not say transformers' default of two labels.
    """

    type_vocab_size: int
    id2label: Mapping[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})
    problem_type: str | None = None
    number_bins: list[list[float]] | None = None
    num_separators: int = 1
    segment_length: None = None


class OnnxTextModel(OnnxGraphs):
    """The graphs of an export of texts.

    Args:
        directory: with text.onnx, and context.onnx unless the method takes no context.
        config: of the model that was exported: its own, or what a folder says.
        num_threads: that one call uses.

    Raises:
        RunDirectoryError: graphs and config do not belong together.
    """

    def __init__(self, directory: Path, config: Any, *, num_threads: int = 1) -> None:
        inputs = text_inputs(config)
        super().__init__(directory, config, file=TEXT_FILE, inputs=inputs, num_threads=num_threads)
        self.inputs = inputs

    def __call__(self, batch: TextBatch) -> NDArray[np.float32]:
        """Return what the graph gives for some texts: logits, or of questions logarithms of probabilities.

        Raises:
            NonFiniteError: the graph gives no numbers.
        """
        given: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if HALVES in self.inputs:
            halves = batch.token_type_ids
            given[HALVES] = np.zeros_like(batch.input_ids) if halves is None else halves
        if WORDS in self.inputs:
            given[WORDS] = np.concatenate([*batch.context.values()], axis=1)
        state = self.encode_context(batch.context) if self.context is not None else None
        if state is not None:
            given |= state.for_sets(len(batch.input_ids), conditioning=self.conditioning).arrays
        found: NDArray[np.float32] = self.graph.run(None, given)[0]
        if found.size and not np.isfinite(found.max(axis=-1)).all():  # NaN where any is
            raise no_numbers()
        return found


def text_inputs(config: Any) -> tuple[str, ...]:
    """Return the names of the inputs of a model's text graph besides the state."""
    halves = (HALVES,) if config.type_vocab_size else ()
    return (*TEXT_INPUTS, *halves, *((WORDS,) if config.has_context_as_text else ()))
