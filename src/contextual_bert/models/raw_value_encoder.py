"""From raw values to arrays: names of items become ids, records and columns of a context become encoded features.

It is what a processor and an export read alike. It knows no tensor and no file.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import (
    ContextSchema,
    EncodedContext,
    Vocabulary,
    encode_records,
    encode_table,
    record_sentences,
    table_sentences,
    unknown_values,
)
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.frames import Frame, as_table
from contextual_bert.models.context_words import word_ids
from contextual_bert.models.reserved_items import MASK, UNKNOWN


class RawValueEncoder:
    """Encode the sets and contexts of queries by a vocabulary and a context schema.

    ``removed_items``: names that are understood in a set and never proposed; ``has_context_as_text``: whether a context
    becomes the ids of its words, by the ``tokenizer`` of the texts.
    """

    removed_items: Sequence[str] = ()
    has_context_as_text: bool = False
    tokenizer: Any

    @property
    def schema(self) -> ContextSchema | None:
        """The context schema, None for a model without a context."""
        raise NotImplementedError

    @property
    def items(self) -> Vocabulary:
        """The item vocabulary, reserved ids included."""
        raise NotImplementedError

    @property
    def code_columns(self) -> tuple[str, ...]:
        """The raw columns of categories, which ``read_table`` is to read as they are spelt."""
        return self.schema.code_columns if self.schema is not None else ()

    def encode_names(
        self, sets: Sequence[Sequence[str]], gaps: Sequence[NDArray[np.int64]] | None = None
    ) -> dict[str, NDArray[np.int64]]:
        """Return input_ids and attention_mask of sets as arrays; and token_type_ids, given the gaps of time.

        Of the reserved names only [MASK] means something in a set; an item that is called like another is unknown.

        Shapes:
            (sets, length), padded with 0.

        Args:
            sets: names of items.
            gaps: of time before each item of each set, for models that read them.
        """
        unknown, mask_id = self.items.id_of(UNKNOWN), self.items.id_of(MASK)
        find = self.items.id_of_value
        rows = [[mask_id if item == MASK else find(item) or unknown for item in row] for row in sets]
        length = max((len(row) for row in rows), default=0)
        ids = [row + [0] * (length - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in rows]
        found = {"input_ids": ids, "attention_mask": mask}
        if gaps is not None:
            found["token_type_ids"] = [[*row.tolist(), *[0] * (length - len(row))] for row in gaps]
        return {name: np.array(each, np.int64).reshape(len(rows), length) for name, each in found.items()}

    def encode_context(self, context: Sequence[Mapping[str, Any]] | None, *, num_rows: int) -> EncodedContext | None:
        """Encode one record a row.

        Args:
            context: the records. None: every feature is missing.
            num_rows: number of rows.

        Returns:
            None for a model without a context.

        Raises:
            ConfigurationError: another number of records.
            DataError, UnknownNameError: a record that does not fit the schema.
        """
        if self.schema is None:
            return None
        records = checked_records(context, num_rows=num_rows)
        encoded = encode_records(self.schema, records)
        if not self.has_context_as_text:
            return encoded
        return self._in_words(encoded, record_sentences(self.schema, records))

    def encode_columns(self, table: Frame, *, file: str | None = None) -> EncodedContext | None:
        """Encode the context in the columns of a table.

        Args:
            table: raw values, as ``frames.as_table`` takes them.
            file: where it comes from, for messages.

        Returns:
            None for a model without a context.

        Raises:
            DataError, SchemaError: see ``encode_table``.
        """
        if self.schema is None:
            return None
        encoded = encode_table(self.schema, table, file=file)
        if not self.has_context_as_text:
            return encoded
        return self._in_words(encoded, table_sentences(self.schema, as_table(table)))

    def unknown_values(self, record: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the values of a record that the model never saw, by feature; of words there are none."""
        if self.schema is None or self.has_context_as_text:
            return {}
        return unknown_values(self.schema, record)

    def _in_words(self, encoded: EncodedContext, sentences: Mapping[str, pa.Array]) -> EncodedContext:
        return EncodedContext(word_ids(sentences, self.tokenizer), encoded.num_rows, unread=encoded.unread)


def checked_records(context: Sequence[Mapping[str, Any]] | None, *, num_rows: int) -> Sequence[Mapping[str, Any]]:
    """Return a record for each row, empty ones where there are none.

    Raises:
        ConfigurationError, DataError: another number of them, or one in place of a list.

    Example:
        >>> checked_records(None, num_rows=2)
        [{}, {}]
    """
    records = [dict[str, Any]()] * num_rows if context is None else context
    if isinstance(records, Mapping):
        raise DataError(f"{records!r:.80} is one record", column="context", fix="Give a list of them: [{...}].")
    if len(records) != num_rows:
        raise ConfigurationError(
            f"{num_rows} rows came with {len(records)} context records", fix="Give one record a row."
        )
    return records
