"""Text: a title or a description of an item, as the vector that a frozen sentence encoder makes of it.

The kind knows no encoder. `inference.item_texts` puts the vectors in the place of the texts; what is here brings them
to the scale of the other features. Not in the paper.
"""

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context.kinds.feature import EncodedColumn, Finding, InferenceSettings, count_distinct
from contextual_bert.context.kinds.vector import Vector
from contextual_bert.errors import SchemaError

FOR_ITEMS = "only texts of items are read by a sentence encoder, those of a catalogue"
_DIGITS = 7  # of float32


class ItemText(Vector, frozen=True):
    """A text of an item, as the vector of a sentence encoder that nothing trains; it may be missing.

    Formula:
        v' = (v - m) / s;  s the root of the mean of |v - m|^2 over the items that are learned from

    Symbols: v what the encoder makes of the text; m the mean over these items. So a text counts like a category, whose
        vector has the length 1.

    Args:
        name: name of the feature.
        size: length of the vectors.
        encoder: the folder of the encoder, as it was given.
        digest: the SHA-256 of the encoder's files, see ``inference.text_vectors.encoder_digest``.
        center: m.
        scale: s.

    Example:
        >>> title = ItemText(name="title", size=2, encoder="minilm", digest="0" * 64, center=(1.0, 0.0), scale=2.0)
        >>> title.encode_values(pa.array([[3.0, 2.0], None])).values.tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    has_lists: ClassVar[bool] = False

    kind: Literal["text"] = "text"  # pyright: ignore[reportIncompatibleVariableOverride]
    encoder: str = Field(min_length=1)
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    center: tuple[float, ...]
    scale: float = Field(gt=0)

    @model_validator(mode="after")
    def _check_size(self) -> "ItemText":
        if len(self.center) != self.size:
            raise ValueError(f"center has {len(self.center)} numbers, and vectors of size {self.size} have as many")
        return self

    @classmethod
    def of_vectors(
        cls, column: tuple[str, str | None], vectors: NDArray[np.float32], *, encoder: str, digest: str
    ) -> "ItemText":
        """Return the feature of a column, from the vectors of the items that are learned from.

        Args:
            column: name and source of the feature.
            vectors: (items, size).
            encoder: its folder.
            digest: of its files.

        Raises:
            SchemaError: there is no vector, or all are the same.
        """
        name, source = column
        center = vectors.mean(axis=0, dtype=np.float64) if len(vectors) else np.zeros(vectors.shape[1])
        scale = float(np.sqrt(((vectors - center) ** 2).sum(axis=1).mean())) if len(vectors) else 0.0
        if round(scale, _DIGITS) <= 0:
            raise SchemaError(
                f"column {source or name!r} cannot be text: the items that are learned from have "
                f"{'the same text each' if len(vectors) else 'none'}",
                fix="Leave the column out.",
            )
        return cls(
            name=name,
            source=source,
            size=vectors.shape[1],
            encoder=encoder,
            digest=digest,
            center=tuple(round(float(each), _DIGITS) for each in center),
            scale=round(scale, _DIGITS),
        )

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        return False

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        return Finding(None, FOR_ITEMS, count_distinct(array))

    def with_range(self, array: pa.Array) -> "ItemText":
        return self

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        if is_text(value_type(array.type)):
            raise SchemaError(f"column {self.column!r} holds texts: {FOR_ITEMS}", fix="Leave the feature out.")
        found = super().encode_values(array, file=file)
        vectors, is_given = found.values[:, :-1], found.values[:, -1] == 0
        vectors[is_given] = (vectors[is_given] - np.asarray(self.center, np.float32)) / np.float32(self.scale)
        return found
