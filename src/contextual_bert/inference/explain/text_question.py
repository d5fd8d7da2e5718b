"""One query about a text, asked for other contexts and with words that are hidden. Not in the paper."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import Feature
from contextual_bert.errors import UnknownNameError
from contextual_bert.inference.explain.question import Question
from contextual_bert.inference.explain.text_words import PlacedWords, read_words
from contextual_bert.inference.queries import encode_contexts, in_queries
from contextual_bert.inference.texts.base_text_pipeline import BaseTextPipeline, request_table
from contextual_bert.inference.texts.text_queries import TextQuery, read_text_request
from contextual_bert.inference.texts.text_rows import trimmed
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.places import SettingPlace


class TextQuestion(Question):
    """One query about a text, and the logits of its labels for other contexts or with words that are hidden.

    Args:
        pipeline: of the model.
        query: as the pipeline takes it.
        batch_size: questions a forward pass.

    Raises:
        DataError, UnknownNameError: a faulty query.
    """

    def __init__(self, pipeline: BaseTextPipeline, query: TextQuery, *, batch_size: int) -> None:
        self.request = read_text_request(query, row=0, form=pipeline.form)
        encoded = encode_contexts([self.request], pipeline.processor)
        super().__init__(pipeline, encoded, batch_size=batch_size)
        self.names = pipeline.labels
        table, pair = request_table([self.request])
        with in_queries():
            self._layout = pipeline.laid_out(table, encoded, text="text", pair=pair)
        self._rows = pipeline.rows_of(self._layout, encoded)
        self.tokens: NDArray[np.int64] = self._rows.ids

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the query by their keys, in the order in which they are read."""
        keys = [key for key in self.pipeline.form.texts if getattr(self.request, key) is not None]
        return {key: getattr(self.request, key) for key in keys}

    @property
    def hiding_token(self) -> int | None:
        """The token that stands for a word that is hidden: [MASK], else the unknown one.

        None where neither hides a word: the tokenizer has none, or the model reads the characters of words.
        """
        tokenizer = self.pipeline.processor.tokenizer
        if self._rows.spelt is not None:
            return None
        return tokenizer.mask_token_id if tokenizer.mask_token_id is not None else tokenizer.unk_token_id

    def words(self) -> PlacedWords:
        """Return the words of the texts that are read."""
        return read_words(self.texts, self._layout, self.pipeline.processor.tokenizer)

    def place_of(self, label: str) -> int:
        """Return the id of a label.

        Raises:
            UnknownNameError: the model knows no such label.
        """
        if label in self.names:
            return self.names.index(label)
        close = difflib.get_close_matches(label, self.names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Give one of {', '.join(map(repr, self.names[:20]))}."
        raise UnknownNameError(
            "is no label that the model knows", place=SettingPlace("label"), value=label, allowed=hint
        )

    def answers(self, context: Mapping[str, Tensor], others: NDArray[np.int64] | None = None) -> Iterator[Tensor]:
        """Yield the logits of the labels, a block of rows at a time, float64 (rows, labels).

        Args:
            context: a row each.
            others: tokens of the text in each row, (rows, tokens); None: the query's.
        """
        num_rows = len(next(iter(context.values())))
        weights = np.full(num_rows, self.request.guidance, np.float32)
        for start in range(0, num_rows, self.batch_size):
            rows = slice(start, min(start + self.batch_size, num_rows))
            batch = self._rows.batch(np.zeros(rows.stop - start, np.int64))
            part = {name: trimmed(values[rows].numpy()) for name, values in context.items()}
            batch = batch._replace(context=part, input_ids=batch.input_ids if others is None else others[rows])
            yield torch.from_numpy(self.pipeline.guided_logits(batch, weights[rows])).double()

    def evidence(self, logits: Tensor, chosen: int) -> Tensor:
        if self.pipeline.form.gives == "labels":  # each is decided for itself
            return logits[:, chosen]
        return super().evidence(logits, chosen)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities of the labels, (rows, labels)."""
        return logits.sigmoid() if self.pipeline.form.gives == "labels" else logits.softmax(dim=1)

    def value_of(self, feature: Feature, *, chosen: int) -> str:
        """Return the given value as the model reads it; of a context that is read as words, the words."""
        if not self.pipeline.model.config.has_context_as_text or feature.sensitive:
            return super().value_of(feature, chosen=chosen)
        ids: Any = self.context[feature.name][0]
        return self.pipeline.processor.tokenizer.decode((ids[ids >= FIRST_WORD] - FIRST_WORD).tolist())
