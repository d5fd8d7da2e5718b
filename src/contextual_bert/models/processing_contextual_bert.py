"""Raw values in, tensors out: item names become ids, context records become encoded features.

A processor is saved beside the model and is all that is needed to use it: the item vocabulary lives in the tokenizer's
files, the context schema in ``processor_config.json``. It knows no table and no training.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchFeature, FeatureExtractionMixin, PreTrainedTokenizerFast, ProcessorMixin

from contextual_bert.context import ContextSchema, EncodedContext, Vocabulary, encode_records
from contextual_bert.errors import ConfigurationError

PAD, MASK, UNKNOWN = "[PAD]", "[MASK]", "[UNK]"
RESERVED_ITEMS = (PAD, MASK, UNKNOWN)


class ContextFeatureExtractor(FeatureExtractionMixin):
    """The context half of the processor: a ContextSchema in the shape that transformers saves and loads.

    Args:
        context_schema: ``ContextSchema.to_dict()``, or None for a model without a context.

    Example:
        >>> ContextFeatureExtractor().schema is None
        True
    """

    model_input_names = ("context",)

    def __init__(self, context_schema: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.context_schema = context_schema

    @property
    def schema(self) -> ContextSchema | None:
        """The schema as an object."""
        return ContextSchema.from_dict(self.context_schema) if self.context_schema is not None else None


class ContextualBertProcessor(ProcessorMixin):
    """Item vocabulary and context schema in one object.

    Shapes:
        ``processor(items=[["a", "[MASK]"], ["b"]], context=[{...}, {...}])`` gives input_ids (batch, length) padded
        with [PAD], attention_mask (batch, length), and context, a tensor a feature with batch rows.

    Args:
        feature_extractor: ContextFeatureExtractor, holds the schema.
        tokenizer: a word-level tokenizer whose ids start with [PAD], [MASK], [UNK].

    Relation to its siblings:
        ``CompletionPipeline`` calls it on raw values; training encodes whole columns with ``processor.items`` and
        ``encode_table``.

    Example:
        >>> processor = ContextualBertProcessor.from_items(["coat", "hat"])
        >>> processor(items=[["hat", "[MASK]"]])["input_ids"].tolist()
        [[4, 1]]
    """

    def __init__(self, feature_extractor: ContextFeatureExtractor, tokenizer: PreTrainedTokenizerFast) -> None:
        super().__init__(feature_extractor=feature_extractor, tokenizer=tokenizer)
        self._schema = feature_extractor.schema
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        names = tuple(name for name, _ in vocabulary)
        if names[: len(RESERVED_ITEMS)] != RESERVED_ITEMS:
            raise ConfigurationError(
                f"The first ids must be {', '.join(RESERVED_ITEMS)}, not {', '.join(names[:3])}. Use from_items()."
            )
        self._items = Vocabulary(names[len(RESERVED_ITEMS) :], reserved=RESERVED_ITEMS)

    @classmethod
    def from_items(cls, items: Sequence[str], schema: ContextSchema | None = None) -> Self:
        """A processor for these items, ids in the given order after the reserved ones.

        Raises:
            ConfigurationError: an item twice, or one with a reserved name.
        """
        ids = {name: index for index, name in enumerate((*RESERVED_ITEMS, *items))}
        if len(ids) != len(RESERVED_ITEMS) + len(items):
            raise ConfigurationError(
                f"Items must be distinct and none of {', '.join(RESERVED_ITEMS)}. Remove the repeated ones."
            )
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(WordLevel(ids, unk_token=UNKNOWN)),
            pad_token=PAD,
            mask_token=MASK,
            unk_token=UNKNOWN,
            model_input_names=["input_ids", "attention_mask"],
        )
        return cls(ContextFeatureExtractor(schema.to_dict() if schema is not None else None), tokenizer)

    @property
    def schema(self) -> ContextSchema | None:
        """The context schema, None for a model without a context."""
        return self._schema

    @property
    def items(self) -> Vocabulary:
        """The item vocabulary, reserved ids included."""
        return self._items

    def with_items(self, items: Sequence[str]) -> Self:
        """The same processor with new items appended; known ones are passed over, ids stay as they are."""
        return self.from_items(
            (*self.items.values, *(item for item in dict.fromkeys(items) if item not in self.items)), self.schema
        )

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, items: Sequence[Sequence[str]], context: Sequence[Mapping[str, Any]] | None = None, **kwargs: Any
    ) -> BatchFeature:
        """Encode sets of item names and, for a model with a context, one record a set.

        Unknown items become [UNK]; unknown context values the state ``unknown`` of their feature; a feature that a
        record does not name is missing.

        Raises:
            ConfigurationError: another number of records than of sets; a keyword that means nothing here.
            DataError, UnknownNameError: a record that does not fit the schema.
        """
        if kwargs.pop("return_tensors", "pt") != "pt" or kwargs:
            raise ConfigurationError(
                f"The processor gives torch tensors and takes items and context, not {sorted(kwargs)}."
            )
        unknown = self.items.id_of(UNKNOWN)
        rows = [[self.items.id_of(item) or (0 if item == PAD else unknown) for item in row] for row in items]
        length = max((len(row) for row in rows), default=0)
        ids = [row + [0] * (length - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in rows]
        features: dict[str, Any] = {
            "input_ids": torch.tensor(ids, dtype=torch.long).view(len(rows), length),
            "attention_mask": torch.tensor(mask, dtype=torch.long).view(len(rows), length),
        }
        encoded = self.encode_context(context, num_rows=len(rows))
        if encoded is not None:
            features["context"] = encoded.tensors
        return BatchFeature(features)

    def encode_context(self, context: Sequence[Mapping[str, Any]] | None, *, num_rows: int) -> EncodedContext | None:
        """Encoded context records, None for a model without a context; no records at all: every feature is missing."""
        if self.schema is None:
            return None
        records = [{}] * num_rows if context is None else context
        if len(records) != num_rows:
            raise ConfigurationError(
                f"{num_rows} sets came with {len(records)} context records. Give one record a set."
            )
        return encode_records(self.schema, records)
