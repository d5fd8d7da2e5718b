"""The part that pipelines share which compute with torch from whole encoded texts: the model, its processor, contexts.

It knows no answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch

from contextual_bert.context import EncodedContext
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.context_notes import ContextNotes, about_context
from contextual_bert.inference.queries import UNUSED_CONTEXT
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.texts.encode_texts import EncodedTexts, encode_texts
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.models import ContextFeatureExtractor, ContextualBertProcessor, check_processor


class EncodedTextPipeline:
    """Base of pipelines whose model reads whole texts, each with the context of who asks.

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.

    Attributes:
        model_class: class of the model.
        cannot: what a model of another class does not do, in words.

    Raises:
        ConfigurationError: model and processor do not belong together.
    """

    model_class: ClassVar[type[Any]]
    cannot: ClassVar[str]
    labels: tuple[str, ...] = ()

    def __init__(
        self, model: Any, processor: ContextualBertProcessor, *, device: str | torch.device | None = None
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, self.model_class):
            fix = f"Give a {self.model_class.__name__}."
            raise ConfigurationError(f"{type(bare).__name__} {self.cannot}", fix=fix)
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items", fix="Give that of the text model.")
        if model.config.reads_context:
            check_processor(model.config, processor)
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor = processor
        self._tokens = ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)
        self._tokens.truncation = processor.truncation

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, device: str | torch.device | None = None, **settings: Any
    ) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Args:
            directory: the folder.
            device: where to run; default: where the model is.
            **settings: further arguments of the class.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model for something else.
        """
        model, processor = load_text_model(directory, cls.model_class)
        return cls(model, processor, device=device, **settings)

    def notes(self) -> list[str]:
        """Return sentences on what was loaded: of a run there are none."""
        return []

    @property
    def max_length(self) -> int:
        """Tokens of a text that are read."""
        return num_readable(self.model.config, self.processor.tokenizer)

    def encoded(self, table: pa.Table, context: EncodedContext | None, *, text: str) -> EncodedTexts:
        """Return the texts of a table, each with the context of its row.

        Args:
            table: of the texts.
            context: a row each; None: nothing is known of anybody.
            text: name of the column of texts.
        """
        is_read = context is not None and self.model.config.reads_context
        given, tensors = (context.arrays, context.tensors) if context is not None and is_read else ({}, {})
        room = room_beside(given, self.model.config, longest=self.max_length)
        found = encode_texts(table, self._tokens, text=text, max_length=room)
        report = replace(found.report, **about_context(context, self.model))
        return replace(found, dataset=found.dataset.with_context(tensors), report=report)

    def query_notes(
        self, contexts: Sequence[Mapping[str, Any]], context: EncodedContext | None, encoded: EncodedTexts
    ) -> list[list[str]]:
        """Return what the answer to each query says of its context and of its length.

        Args:
            contexts: of the queries, as they were given.
            context: the same, encoded.
            encoded: the texts of the queries.
        """
        notes, reads_context = ContextNotes(context, self.processor.schema, self.model), self.model.config.reads_context
        cut = [f"Cut to {encoded.report.max_length:,} tokens."]
        return [
            [
                *(notes.of(row) if reads_context else [UNUSED_CONTEXT] * bool(given)),
                *cut * bool(encoded.is_cut[row]),
            ]
            for row, given in enumerate(contexts)
        ]
