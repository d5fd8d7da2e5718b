"""It is trained, how do I predict? Texts and contexts in, labels and their probabilities out.

A query is a text, or words that each get a tag, and the context of who wrote or reads it. The folder that a model and
its processor were saved in is all that is needed. It knows no table and no training.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, cast

import pyarrow as pa
import torch
from torch import Tensor
from transformers import AutoConfig

from contextual_bert.context import unknown_values
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.inference.encode_texts import EncodedTexts, encode_texts
from contextual_bert.inference.queries import check_query
from contextual_bert.inference.scoring import to_device
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
    check_layout,
)

TextModel = ContextualBertForSequenceClassification | ContextualBertForTokenClassification
MODELS: Mapping[str, type[TextModel]] = {
    model.__name__: model for model in (ContextualBertForSequenceClassification, ContextualBertForTokenClassification)
}
QUERY = 'Give {"text": "...", "context": {...}}, for tags a list of words as text, or a list of such queries.'
KEYS = ("text", "pair", "context")


class TextAnswer(TypedDict):
    """What a query gets.

    ``label``: the likeliest label, all labels above one half where a text may have several, the number of a regression,
    or for words a tag each (None behind the longest text that the model reads); ``probabilities``: of the labels, for
    words of the tag that each got; ``unknown_context``: values that the model never saw; ``notes``: what the reader
    should know.
    """

    label: str | float | list[str] | list[str | None]
    probabilities: dict[str, float] | list[float | None]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class TextPipeline:
    """Labels texts, or the words of texts.

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``CompletionPipeline`` fills blanks in sets.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> pipeline = TextPipeline(ContextualBertForSequenceClassification(config), miniature_text_processor())
        >>> sorted(pipeline({"text": "word1 word2"})["probabilities"])
        ['bad', 'good']
    """

    def __init__(
        self, model: TextModel, processor: ContextualBertProcessor, *, device: str | torch.device | None = None
    ) -> None:
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items. Give that of the text model.")
        if model.config.layout:
            check_layout(model.config, processor.schema.layout if processor.schema is not None else ())
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor = processor
        self.has_tags = isinstance(model, ContextualBertForTokenClassification)
        self.names: list[str] = [name for _, name in sorted(cast(dict[int, str], model.config.id2label).items())]
        self._tokens = ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device | None = None) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that labels nothing.
        """
        try:
            kinds = AutoConfig.from_pretrained(directory).architectures or []
            chosen = [MODELS[kind] for kind in kinds if kind in MODELS]
            if not chosen:
                raise RunDirectoryError(
                    f"{directory} holds {', '.join(kinds) or 'no model'}, which labels no texts. Allowed: "
                    f"{', '.join(MODELS)}."
                )
            model: Any = chosen[0].from_pretrained(directory)
            processor = ContextualBertProcessor.from_pretrained(directory)
        except RunDirectoryError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            raise RunDirectoryError(
                f"{directory} cannot be loaded: {error} Save model and processor there with save_pretrained."
            ) from error
        return cls(model, processor, device=device)

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, batch_size: int = 64
    ) -> TextAnswer | list[TextAnswer]:
        """Label one text or many.

        Args:
            queries: {"text": "...", "context": {...}} and for pairs "pair": "..."; for tags the text is a list of
                words, or is split at spaces. A context feature that is not named is missing.
            batch_size: texts a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size={batch_size}: give 1 or more.")
        if isinstance(queries, Mapping):
            return next(self.label([queries], batch_size=1))
        given = cast(object, queries)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DataError(f"{queries!r:.80} is neither a query nor a list of them", fix=QUERY)
        return list(self.label(queries, batch_size=batch_size))

    def label(self, queries: Sequence[Mapping[str, Any]], *, batch_size: int) -> Iterator[TextAnswer]:
        """The answers, in order; everything is checked before the first one."""
        texts = [self._text(query, row) for row, query in enumerate(queries)]
        pairs = [query.get("pair") for query in queries]
        if any(pair is not None for pair in pairs) and not all(isinstance(pair, str) for pair in pairs):
            row = next(row for row, pair in enumerate(pairs) if not isinstance(pair, str))
            raise DataError(f"{pairs[row]!r} is no second text", row=row, column="pair", fix="All queries or none.")
        context = self.processor.encode_context([query.get("context") or {} for query in queries], num_rows=len(texts))
        for start in range(0, len(texts), batch_size):
            batch = slice(start, start + batch_size)
            encoded = self._encoded(texts[batch], pairs[batch])
            inputs = encoded.dataset.__getitems__(range(len(encoded.dataset)))
            asked = inputs.pop("labels", None)
            if context is not None:
                inputs["context"] = context.rows(batch)
            with torch.inference_mode():
                logits = self.model(**to_device(inputs, self.model.device)).logits.float().cpu()
            for row, query in enumerate(queries[batch]):
                words = len(texts[start + row]) if asked is not None else 0
                found = self._tags(logits[row], asked[row], words) if asked is not None else self._label(logits[row])
                yield self._answer(query, found, is_cut=self._is_cut(encoded, row))

    def _text(self, query: Mapping[str, Any], row: int) -> str | list[str]:
        check_query(query, row=row, known=KEYS, fix=QUERY)
        text: Any = query.get("text")
        if self.has_tags and isinstance(text, str):
            text = text.split()
        is_right = all(isinstance(word, str) for word in text) if isinstance(text, list) else isinstance(text, str)
        if not is_right or isinstance(text, list) != self.has_tags or not text:
            raise DataError(f"{text!r:.80} is no text", row=row, column="text", fix=QUERY)
        return text

    def _encoded(self, texts: Sequence[Any], pairs: Sequence[str | None]) -> EncodedTexts:
        if self.has_tags:
            # Which word a first piece is of, in place of the tag that is to be found.
            numbers = [[str(number) for number in range(len(words))] for words in texts]
            table = pa.table({"text": texts, "number": numbers})
            names = [str(number) for number in range(max(map(len, texts)))]
            return encode_texts(table, self._tokens, text="text", label="number", labels=names)
        if pairs[0] is None:
            return encode_texts(pa.table({"text": texts}), self._tokens, text="text")
        return encode_texts(pa.table({"text": texts, "pair": pairs}), self._tokens, text="text", pair="pair")

    def _label(self, logits: Tensor) -> tuple[Any, Any]:
        config = self.model.config
        if config.num_labels == 1 or config.problem_type == "regression":
            values = logits.tolist()
            return (values[0] if len(values) == 1 else values), {}
        if config.problem_type == "multi_label_classification":
            shares = dict(zip(self.names, logits.sigmoid().tolist(), strict=True))
            return [name for name, share in shares.items() if share > 0.5], shares
        shares = dict(zip(self.names, logits.softmax(dim=-1).tolist(), strict=True))
        return max(shares, key=lambda name: shares[name]), shares

    def _tags(self, logits: Tensor, asked: Tensor, num_words: int) -> tuple[Any, Any]:
        tags: list[str | None] = [None] * num_words
        shares: list[float | None] = [None] * num_words
        best = logits.softmax(dim=-1).max(dim=-1)
        for place in (asked >= 0).nonzero(as_tuple=True)[0].tolist():
            tags[int(asked[place])] = self.names[int(best.indices[place])]
            shares[int(asked[place])] = float(best.values[place])
        return tags, shares

    def _is_cut(self, encoded: EncodedTexts, row: int) -> bool:
        return encoded.report.num_cut > 0 and int(encoded.dataset.sizes[row]) == encoded.report.max_length

    def _answer(self, query: Mapping[str, Any], found: tuple[Any, Any], *, is_cut: bool) -> TextAnswer:
        context, schema = query.get("context") or {}, self.processor.schema
        notes: list[str] = []
        if is_cut:
            notes.append("The text is longer than the model reads: its end was not read.")
        if context and not self.model.config.layout:
            notes.append("The context was not used: this model was trained with conditioning='none'.")
        unknown = unknown_values(schema, context) if schema is not None else {}
        return TextAnswer(label=found[0], probabilities=found[1], unknown_context=unknown, notes=notes)
