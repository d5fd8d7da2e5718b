"""Raw values in, tensors out: item names or texts become ids, context records become encoded features.

A processor is saved beside the model and is all that is needed to use it: the vocabulary lives in the tokenizer's
files, the context schema in ``processor_config.json``. It knows no table and no training.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchFeature, PreTrainedTokenizerFast, ProcessorMixin

from contextual_bert.arrow_types import checked_text
from contextual_bert.context import (
    SPELLING_RULE,
    ContextSchema,
    Vocabulary,
    check_rule,
    spelt,
)
from contextual_bert.errors import ConfigurationError, DataError, Message
from contextual_bert.models.checkpoint_files import load_tokenizer
from contextual_bert.models.feature_extraction_contextual_bert import ContextFeatureExtractor, ContextualBatch
from contextual_bert.models.raw_value_encoder import RawValueEncoder
from contextual_bert.models.reserved_items import MASK, PAD, RESERVED_ITEMS, UNKNOWN
from contextual_bert.models.truncation import Truncation, check_truncation


class ContextualBertProcessor(RawValueEncoder, ProcessorMixin):
    """Vocabulary and context schema in one object: for sets of items, or for text where the tokenizer is BERT's.

    Shapes:
        ``processor(items=[["a", "[MASK]"], ["b"]], context=[{...}, {...}])`` gives input_ids (batch, length) padded
        with [PAD], attention_mask (batch, length), and context, a tensor a feature with batch rows;
        ``processor(text=["one text", "two"], context=[{...}, {...}])`` gives token_type_ids (batch, length), too.

    Args:
        feature_extractor: ContextFeatureExtractor, holds the schema.
        tokenizer: for items a word-level tokenizer whose ids start with [PAD], [MASK], [UNK]; else one for text.
        truncation: what ``encode_texts`` and ``TextPipeline`` keep of a text that is too long, unless they are told
            otherwise: its "head", or the first quarter and the end ("head_tail"). The processor itself cuts the end.
        has_context_as_text: whether a context becomes the ids of its words, for a model of that name's config: a
            column's (batch, width), padded with 0.
        value_spelling: name of the rule by which items and values of the context are spelt (`context.spelling`).
        item_schema: the features of the items, as ``ContextSchema.to_dict`` gives them; None: items are names alone.
        removed_items: items that are understood in a set and never proposed.
        max_characters: of texts whose words a model reads by their characters too, the bytes of a word that are read,
            its two marks included; ``encode_texts`` and ``TextPipeline`` then give them. None: ids alone are read.

    Raises:
        ConfigurationError: other ids; another truncation; a context as text without a text; a rule of spelling that
            this version does not have.

    Relation to its siblings:
        ``CompletionPipeline`` calls it on raw values; training encodes whole columns with ``processor.items`` and
        ``processor.encode_columns``.

    Example:
        >>> processor = ContextualBertProcessor.from_items(["coat", "hat"])
        >>> processor(items=[["hat", "[MASK]"]])["input_ids"].tolist()
        [[4, 1]]
    """

    def __init__(
        self,
        feature_extractor: ContextFeatureExtractor,
        tokenizer: PreTrainedTokenizerFast,
        truncation: Truncation = "head",
        has_context_as_text: bool = False,
        value_spelling: str = SPELLING_RULE,
        item_schema: dict[str, Any] | None = None,
        removed_items: Sequence[str] | None = None,
        max_characters: int | None = None,
    ) -> None:
        super().__init__(feature_extractor=feature_extractor, tokenizer=tokenizer)
        check_truncation(truncation)
        check_rule(value_spelling)
        self.value_spelling = value_spelling
        self.truncation: Truncation = truncation
        self.has_context_as_text = has_context_as_text
        self.item_schema = item_schema
        self.removed_items = [*(removed_items or ())]
        self.max_characters = max_characters
        self._schema = feature_extractor.schema
        self._items: Vocabulary | None = None
        if not isinstance(tokenizer.backend_tokenizer.model, WordLevel):
            if tokenizer.pad_token is None:
                raise ConfigurationError(
                    "The tokenizer has no pad_token, with which texts get one length", fix="Name it."
                )
            return
        if has_context_as_text:
            raise ConfigurationError(
                "is not allowed: words are read before a text, and these are items",
                setting="has_context_as_text",
                value=True,
            )
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        names = tuple(name for name, _ in vocabulary)
        if names[: len(RESERVED_ITEMS)] != RESERVED_ITEMS:
            raise ConfigurationError(
                f"The first ids must be {', '.join(RESERVED_ITEMS)}, not {', '.join(names[:3])}",
                fix="Use from_items().",
            )
        self._items = Vocabulary(names[len(RESERVED_ITEMS) :], reserved=RESERVED_ITEMS)
        self._schema = self._schema.for_items(self._items) if self._schema is not None else None

    @classmethod
    def from_pretrained(  # pyright: ignore[reportIncompatibleMethodOverride]  (theirs names settings that ours passes on)
        cls, pretrained_model_name_or_path: Any, **settings: Any
    ) -> Self:
        """The processor of a folder, or of a name on the Hub; code that lies there is never run, nor is one asked.

        Raises:
            ConfigurationError: ``trust_remote_code``.
        """
        if settings.pop("trust_remote_code", False):
            raise ConfigurationError(
                "is not allowed: code beside a model is never run",
                setting="trust_remote_code",
                value=True,
                fix="Leave it out.",
            )
        return super().from_pretrained(pretrained_model_name_or_path, trust_remote_code=False, **settings)

    @classmethod
    def from_items(cls, items: Sequence[str], schema: ContextSchema | None = None) -> Self:
        """A processor for these items, ids in the given order after the reserved ones.

        Raises:
            ConfigurationError: an item twice, or one with a reserved name.
        """
        names = [spelt(item) for item in items]
        if len({*RESERVED_ITEMS, *names}) != len(RESERVED_ITEMS) + len(names):
            raise ConfigurationError(
                f"Items must be distinct and none of {', '.join(RESERVED_ITEMS)}; blanks at their ends make no "
                "difference",
                fix="Remove the repeated ones.",
            )
        return cls._from_spelt(names, schema)

    @classmethod
    def _from_spelt(cls, items: Sequence[str], schema: ContextSchema | None, **more: Any) -> Self:
        ids = {name: index for index, name in enumerate((*RESERVED_ITEMS, *items))}
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(WordLevel(ids, unk_token=UNKNOWN)),
            pad_token=PAD,
            mask_token=MASK,
            unk_token=UNKNOWN,
            model_input_names=["input_ids", "attention_mask"],
        )
        extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
        return cls(extractor, tokenizer, **more)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: str | Path,
        schema: ContextSchema | None = None,
        *,
        has_context_as_text: bool = False,
        **hub: Any,
    ) -> Self:
        """A processor for text, with the tokenizer of a checkpoint; ``from_bert`` is the same by its former name.

        Args:
            checkpoint: folder or name on the Hub.
            schema: the features of the context.
            has_context_as_text: whether they are said in words.
            **hub: which one of that name: ``revision``, ``subfolder``, ``token``, ``cache_dir``, ``force_download``,
                ``local_files_only``; as for the model.

        Raises:
            CheckpointError: no tokenizer there.
            ConfigurationError: another keyword.
        """
        extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
        tokenizer = cast(PreTrainedTokenizerFast, load_tokenizer(checkpoint, **hub))
        return cls(extractor, tokenizer, has_context_as_text=has_context_as_text)

    from_bert = from_checkpoint

    @property
    def schema(self) -> ContextSchema | None:
        """The context schema, None for a model without a context."""
        return self._schema

    @property
    def items(self) -> Vocabulary:
        """The item vocabulary, reserved ids included.

        Raises:
            ConfigurationError: this processor is for text.
        """
        if self._items is None:
            raise ConfigurationError(
                "This processor is for text and has no items",
                fix=Message("Give {text}, not {items}.", text=..., items=...),
            )
        return self._items

    @property
    def features_of_items(self) -> ContextSchema | None:
        """The schema of the items' features, None where items are names alone."""
        return ContextSchema.from_dict(self.item_schema) if self.item_schema is not None else None

    @property
    def is_for_text(self) -> bool:
        """Return True if the processor takes ``text``, not ``items``."""
        return self._items is None

    def with_items(self, items: Sequence[str]) -> Self:
        """The same processor with new items appended; known ones are passed over, ids stay as they are."""
        new = dict.fromkeys(spelt(item) for item in items if item not in self.items)
        # Those of the run keep their spelling and with it their ids, whatever rule they are from.
        return self._with_names((*self.items.values, *new))

    def without_items(self, items: Iterable[str]) -> Self:
        """The same processor without these items; the others move up and keep their order."""
        left_out = {*items}
        return self._with_names(tuple(item for item in self.items.values if item not in left_out))

    def _with_names(self, names: Sequence[str]) -> Self:
        """The same processor for other items, which are spelt."""
        known = {*names}
        removed = [item for item in self.removed_items if item in known]
        return self._from_spelt(names, self.schema, item_schema=self.item_schema, removed_items=removed)

    def with_removed(self, items: Iterable[str]) -> Self:
        """The same processor; these items, and no others, are never proposed."""
        return self._with(removed_items=[item for item in dict.fromkeys(items) if item in self.items])

    def with_context_as(self, kind: Literal["text", "values"]) -> Self:
        """The same processor, for a model that reads a context as words or as values."""
        return self._with(has_context_as_text=kind == "text")

    def with_characters(self, max_characters: int | None) -> Self:
        """The same processor, for a model that reads the characters of words, or for one that reads ids alone."""
        return self._with(max_characters=max_characters)

    def with_schema(self, schema: ContextSchema) -> Self:
        """The same processor, with another schema of the context."""
        return self._with(feature_extractor=ContextFeatureExtractor(schema.to_dict()))

    def with_item_schema(self, schema: ContextSchema | None) -> Self:
        """The same processor, with another schema of the items' features; None: they have none."""
        return self._with(item_schema=schema.to_dict() if schema is not None else None)

    def _with(self, **changed: Any) -> Self:
        """The same processor, some of its arguments changed."""
        kept: dict[str, Any] = {
            "feature_extractor": self.feature_extractor,
            "tokenizer": self.tokenizer,
            "truncation": self.truncation,
            "has_context_as_text": self.has_context_as_text,
            "value_spelling": self.value_spelling,
            "item_schema": self.item_schema,
            "removed_items": self.removed_items,
            "max_characters": self.max_characters,
        }
        return type(self)(**{**kept, **changed})

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        items: Sequence[Sequence[str]] | None = None,
        context: Sequence[Mapping[str, Any]] | None = None,
        *,
        text: str | Sequence[str] | None = None,
        text_pair: str | Sequence[str] | None = None,
        **settings: Any,
    ) -> BatchFeature:
        """Encode sets of item names or texts and, for a model with a context, one record each.

        Unknown items become [UNK]; unknown context values the state ``unknown`` of their feature; a feature that a
        record does not name is missing.

        Args:
            items: sets of item names.
            context: one record a set or text; None: all is missing.
            text: a text or several.
            text_pair: a second text for each, its tokens in segment 1.
            **settings: for text, arguments of the tokenizer; without ``truncation`` and ``padding`` texts are cut to
                the longest that the model takes, and padded to the longest of the batch. With
                ``return_overflowing_tokens=True`` a long text has several rows, each with its context.

        Raises:
            ConfigurationError: both or neither of items and text; another number of records; a keyword that means
                nothing here.
            DataError, UnknownNameError: a record that does not fit the schema; a text that is none.
        """
        if settings.pop("return_tensors", "pt") != "pt":
            raise ConfigurationError("The processor gives torch tensors", fix="Leave return_tensors out.")
        if (items is None) == (text is None):
            raise ConfigurationError(
                Message("Give either {items} (sets of item names) or {text}.", items=..., text=...)
            )
        if items is not None:
            if settings or text_pair is not None:
                names = sorted({**settings, **({"text_pair": text_pair} if text_pair is not None else {})})
                raise ConfigurationError(f"With items the processor takes a context and nothing else, not {names}")
            features = self.encode_items(items)
        else:
            features = self._encode_text(cast(Any, text), text_pair, settings)
        # A long text that is cut into several windows has one context, which each of them gets.
        window_of = features.get("overflow_to_sample_mapping")
        num_rows = len(features["input_ids"]) if window_of is None else int(window_of.max()) + 1
        encoded = self.encode_context(context, num_rows=num_rows)
        if encoded is not None:
            of_rows = encoded.tensors if window_of is None else {n: t[window_of] for n, t in encoded.tensors.items()}
            features["context"] = of_rows
        return ContextualBatch(features)

    def encode_items(
        self, items: Sequence[Sequence[str]], gaps: Sequence[NDArray[np.int64]] | None = None
    ) -> dict[str, Any]:
        """input_ids and attention_mask (batch, length) of sets, without a context; and token_type_ids, given time gaps.

        Of the reserved names only [MASK] means something in a set; an item that is called like another is unknown.
        """
        return {name: torch.from_numpy(array) for name, array in self.encode_names(items, gaps).items()}

    def _encode_text(
        self, text: str | Sequence[str], text_pair: str | Sequence[str] | None, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        if not self.is_for_text:
            raise ConfigurationError(
                "This processor is for sets of items", fix=Message("Give {items}, not {text}.", items=..., text=...)
            )
        columns: list[list[Any]] = [
            [column] if isinstance(column, str) else list(column) if column is not None else []
            for column in (text, text_pair)
        ]
        for name, column in zip(("text", "text_pair"), columns, strict=True):
            for row, value in enumerate(column):
                if not isinstance(value, str):
                    raise DataError(f"{value!r} is no text", row=row, column=name, fix="Give a string.")
                checked_text(value, row=row, column=name)
        if text_pair is not None and len(columns[1]) != len(columns[0]):
            raise ConfigurationError(f"{len(columns[0])} texts came with {len(columns[1])} second texts.")
        chosen: dict[str, Any] = {"truncation": True, "padding": True, **settings}
        return dict(self.tokenizer(*(column for column in columns if column), return_tensors="pt", **chosen))
