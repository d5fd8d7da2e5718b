"""It is trained, how do I ask? Questions, texts and contexts in, the piece of each text that answers out.

A query is a question, the text that holds its answer, and the context of who asks. It knows no training.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from contextual_bert.arrow_types import checked_text
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.inference.queries import UNUSED_CONTEXT, check_count, check_queries, check_query
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.encode_questions import NO_ANSWER, EncodedQuestions, encode_questions
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForQuestionAnswering,
    ContextualBertProcessor,
    check_processor,
)

QUERY = 'Give {"question": "...", "text": "...", "context": {...}}, or a list of such queries.'
KEYS = ("question", "text", "context")


class TextSpan(TypedDict):
    """What a question gets.

    ``answer``: a piece of the text, which is ``text[start:end]``; ``probability``: that it begins and ends there, in
    the window that holds it; ``no_answer_probability``: that the text has no answer, in the window where that is least
    likely, for models that have learned of such questions; ``unknown_context``: values that the model never saw;
    ``notes``: what the reader should know.
    """

    answer: str
    start: int
    end: int
    probability: float
    no_answer_probability: float
    unknown_context: dict[str, list[str]]
    notes: list[str]


class QuestionAnsweringPipeline:
    """Finds the answers to questions in texts, for the person who asks.

    Formula:
        Pr(i, j) = softmax(start)_i softmax(end)_j, over the tokens of a window's text and [CLS], which is no answer

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.
        max_answer_tokens: an answer has so many tokens at most.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``TextPipeline`` labels texts. A text that is longer than the model reads is read in windows that overlap, as
        ``encode_questions`` makes them.

    Reference:
        Devlin et al. (2019), section 4.2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=23, type_vocab_size=2, **sizes))
        >>> pipeline = QuestionAnsweringPipeline(model, miniature_text_processor(), max_answer_tokens=1)
        >>> pipeline({"question": "word1", "text": "word2 word3"})["answer"] in ("word2", "word3")
        True
    """

    def __init__(
        self,
        model: ContextualBertForQuestionAnswering,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        max_answer_tokens: int = 30,
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, ContextualBertForQuestionAnswering):
            raise ConfigurationError(
                f"{type(bare).__name__} answers no questions. Give a {ContextualBertForQuestionAnswering.__name__}."
            )
        if bare.config.type_vocab_size < 2:
            raise ConfigurationError("A question and its text are two segments: the model needs type_vocab_size=2.")
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items. Give that of the text model.")
        check_count("max_answer_tokens", max_answer_tokens)
        if model.config.reads_context:
            check_processor(model.config, processor)
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor = processor
        self.max_answer_tokens = max_answer_tokens
        self.max_length = num_readable(model.config, processor.tokenizer)  # of a text, beside no words of a context
        self._tokens = ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device | None = None) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that answers no questions.
        """
        model, processor = load_text_model(directory, ContextualBertForQuestionAnswering)
        return cls(model, processor, device=device)

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, batch_size: int = 32
    ) -> TextSpan | list[TextSpan]:
        """Answer one question or many.

        Args:
            queries: {"question": "...", "text": "...", "context": {...}}; a context feature that is not named is
                missing.
            batch_size: windows a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        check_count("batch_size", batch_size)
        if isinstance(queries, Mapping):
            return self._answers([queries], batch_size=1)[0]
        given = check_queries(queries, fix=QUERY)
        return self._answers(given, batch_size=batch_size) if given else []

    def _answers(self, queries: Sequence[Mapping[str, Any]], *, batch_size: int) -> list[TextSpan]:
        for row, query in enumerate(queries):
            _check(query, row)
        columns = {name: [query[name] for query in queries] for name in ("question", "text")}
        records = [query.get("context") or {} for query in queries]
        context = self.processor.encode_context(records, num_rows=len(queries))
        tensors = context.tensors if context is not None else {}
        max_length = int(np.min(room_beside(tensors, self.model.config, longest=self.max_length)))
        encoded = encode_questions(pa.table(columns), self._tokens, max_length=max_length)
        rows = encoded.dataset.example_ids
        encoded.dataset.context |= {name: values[rows] for name, values in tensors.items()}
        found = self._best(encoded, batch_size=batch_size)
        bounds = torch.searchsorted(rows, torch.arange(len(queries) + 1)).tolist()  # the windows of a row are together
        return [self._answer(query, found, slice(*own)) for query, own in zip(queries, pairwise(bounds), strict=True)]

    def _best(self, encoded: EncodedQuestions, *, batch_size: int) -> "Spans":
        """The best span of each window."""
        dataset, characters = encoded.dataset, torch.from_numpy(encoded.characters)
        kept = torch.empty((len(dataset), 2)), torch.empty((len(dataset), 2), dtype=torch.int64)
        order = dataset.sizes.argsort(descending=True, stable=True)  # what does not fit into memory fails at once
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs = dataset.__getitems__(rows)
            places = torch.arange(inputs["input_ids"].shape[1])
            flat = dataset.offsets[rows][:, None] + places
            is_real = inputs["attention_mask"].bool()
            bounds = characters[flat.clamp(max=len(characters) - 1)]
            is_allowed = is_real & ((bounds[..., 0] >= 0) | (places == NO_ANSWER))
            with torch.inference_mode():
                outputs = self.model(**to_device(inputs, self.model.device))
            logits = torch.stack([outputs.start_logits, outputs.end_logits]).float().cpu()
            shares = logits.masked_fill(~is_allowed, -torch.inf).log_softmax(dim=-1)
            first, last, best = best_spans(*shares, max_tokens=self.max_answer_tokens)
            each = torch.arange(len(rows))
            kept[0][rows] = torch.stack([best, shares[:, :, NO_ANSWER].sum(dim=0)], dim=1).exp()
            kept[1][rows] = torch.stack([bounds[each, first, 0], bounds[each, last, 1]], dim=1)
        return Spans(*kept)

    def _answer(self, query: Mapping[str, Any], found: "Spans", windows: slice) -> TextSpan:
        probabilities, bounds = found.probabilities[windows], found.bounds[windows]
        window = int(probabilities[:, 0].argmax())
        text: str = query["text"]
        start, end = (max(0, int(place)) for place in bounds[window])  # a text may have no token at all
        while start < end < len(text) and unicodedata.category(text[end]).startswith("M"):
            end += 1  # accents by themselves belong to the letter, and a tokenizer drops them
        context = query.get("context") or {}
        return TextSpan(
            answer=text[start:end],
            start=start,
            end=end,
            probability=float(probabilities[window, 0]),
            no_answer_probability=float(probabilities[:, 1].min()),
            unknown_context=self.processor.unknown_values(context),
            notes=[UNUSED_CONTEXT] if context and not self.model.config.reads_context else [],
        )


class Spans(NamedTuple):
    """Of each window the probabilities of its best span and of no answer (windows, 2), and that span's characters."""

    probabilities: Tensor
    bounds: Tensor


def best_spans(start: Tensor, end: Tensor, *, max_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first and the last token of the likeliest span of each row that does not begin at [CLS], and the logarithm of
    its probability; of those alike the shortest.

    Shapes:
        start, end (batch, length), log-probabilities -> (batch,) each.

    Example:
        >>> share = torch.tensor([[0.5, 0.1, 0.4]]).log()
        >>> [each.tolist()[0] for each in best_spans(share, share.flip(1), max_tokens=2)][:2]
        [2, 2]
    """
    first, last = torch.zeros(2, len(start), dtype=torch.int64)
    best = torch.full((len(start),), -torch.inf)
    for distance in range(min(max_tokens, start.shape[1] - 1)):  # a square of positions would be large for long texts
        joint = start[:, 1 : start.shape[1] - distance] + end[:, 1 + distance :]
        found, place = joint.max(dim=1)
        is_better = found > best
        best = torch.where(is_better, found, best)
        first = torch.where(is_better, place + 1, first)
        last = torch.where(is_better, place + 1 + distance, last)
    return first, last, best


def _check(query: Mapping[str, Any], row: int) -> None:
    check_query(query, row=row, known=KEYS, fix=QUERY)
    for name in ("question", "text"):
        value = query.get(name)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{value!r:.80} is no text", row=row, column=name, fix=QUERY)
        checked_text(value, row=row, column=name)
