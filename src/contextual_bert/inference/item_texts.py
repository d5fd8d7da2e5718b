"""Texts of a catalogue: which columns hold some, and the vectors that a sentence encoder makes of them.

Not in the paper.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text, value_type
from contextual_bert.context import ContextSchema, canonical_array
from contextual_bert.context.kinds.feature import feature_name, feature_source
from contextual_bert.context.kinds.item_text import ItemText
from contextual_bert.errors import ConfigurationError, Message, SchemaError
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.text_vectors import Showing, TextVectors

if TYPE_CHECKING:
    import torch

TEXT_KIND = "text"
# A column holds free text where it has so many different values, of so many words on average, and its different values
# have together as many words as the column has cells: then most are said once, or are long.
FEWEST_TEXTS, FEWEST_WORDS = 20, 2.0


class FoundTexts(NamedTuple):
    """What was found of the texts of a catalogue: the features of some columns, and columns of free text."""

    features: Mapping[str, ItemText]
    free: Mapping[str, float]  # column -> words of a text, on average


def find_texts(
    shop: Catalogue,
    learned: NDArray[np.int64],
    *,
    kinds: Mapping[str, str],
    exclude: Collection[str],
    texts: TextVectors | None,
) -> FoundTexts:
    """Find the texts of a catalogue.

    Args:
        shop: the catalogue.
        learned: rows of the items that are learned from.
        kinds: column -> a kind; those of the kind "text" become features.
        exclude: columns that are not looked at.
        texts: reads them. None: no column is of that kind.

    Raises:
        ConfigurationError: a column of that kind, and nothing that reads it.
        SchemaError: one that holds no texts.
    """
    features: dict[str, ItemText] = {}
    free: dict[str, float] = {}
    for column in shop.rows.column_names:
        if kinds.get(column) == TEXT_KIND:
            if texts is None:
                raise ConfigurationError(
                    Message("{item_kinds} needs a sentence encoder", item_kinds={column: TEXT_KIND}),
                    fix=Message("Name its folder with {item_text_encoder}.", item_text_encoder=...),
                )
            found = _texts_of(shop.rows, column)
            texts.of(found.drop_null().to_pylist())  # of new items, too: in whole batches, and at once
            vectors = texts.of(found.take(pa.array(learned)).drop_null().to_pylist())
            names = (feature_name(column), feature_source(column))
            features[column] = ItemText.of_vectors(names, vectors, encoder=texts.folder, digest=texts.digest)
        elif column not in kinds and column not in exclude:
            words = words_of_free_text(shop.rows[column].combine_chunks().take(pa.array(learned)))
            if words:
                free[column] = words
    return FoundTexts(features, free)


def words_of_free_text(array: pa.Array) -> float:
    """Return how many words a cell of a column of free text has on average; 0.0 where the column holds something else.

    Example:
        >>> words_of_free_text(pa.array([f"A fine coat, number {number}" for number in range(30)]))
        5.0
        >>> words_of_free_text(pa.array(["dark blue", "light blue"] * 30))
        0.0
    """
    if not is_text(value_type(array.type)):
        return 0.0
    found = canonical_array(array).drop_null()
    found = found.filter(pc.not_equal(found, ""))
    different = found.unique()
    if len(different) < FEWEST_TEXTS:
        return 0.0
    counts = pc.list_value_length(pc.utf8_split_whitespace(different))
    mean = float(pc.mean(counts).as_py())
    is_free = mean >= FEWEST_WORDS and pc.sum(counts).as_py() >= len(found)
    return round(mean, 1) if is_free else 0.0


def free_text_reason(column: str, words: float) -> Message:
    """Return why a column of free text is no feature, and what makes it one."""
    return Message(
        f"free text, of {words:g} words on average; {{item_kinds}} with {{item_text_encoder}} reads it by a sentence "
        "encoder",
        item_kinds={column: TEXT_KIND},
        item_text_encoder=...,
    )


def text_reason(feature: ItemText, array: pa.Array) -> str:
    """Return what became of a column of texts."""
    return f"{len(array.unique().drop_null()):,} texts as vectors of {feature.size} numbers, by {feature.encoder}"


def text_features(schema: ContextSchema) -> tuple[ItemText, ...]:
    """Return the features that are texts."""
    return tuple(feature for feature in schema.read_features if isinstance(feature, ItemText))


def recorded_texts(
    schema: ContextSchema,
    *,
    item_text_encoder: str | None = None,
    device: "torch.device | None" = None,
    showing: Showing | None = None,
) -> TextVectors | None:
    """Return what reads the texts of a run's new items, None where no feature is a text.

    Args:
        schema: of the items.
        item_text_encoder: where the encoder lies now; None: where it lay in training.
        device, showing: as ``TextVectors`` takes them.

    Raises:
        ConfigurationError: another encoder lies there, or no feature is a text.
    """
    features = text_features(schema)
    if not features:
        if item_text_encoder is not None:
            raise ConfigurationError(
                "is named, and no feature of the items is a text",
                setting="item_text_encoder",
                value=item_text_encoder,
                fix="Leave it out.",
            )
        return None
    folder = item_text_encoder or features[0].encoder
    found = TextVectors(folder, digest=features[0].digest, device=device, showing=showing)
    if item_text_encoder is not None:
        found.check_recorded()
    return found


def with_text_vectors(
    rows: pa.Table, schema: ContextSchema, texts: TextVectors | None, *, is_needed: NDArray[np.bool_] | None = None
) -> pa.Table:
    """Return the rows of a catalogue with the vectors of texts in their place.

    Args:
        rows: of the catalogue.
        schema: of the items.
        texts: reads them; None where no feature is a text.
        is_needed: (rows,), False for rows whose texts are not read, and count as missing. None: all are.

    Raises:
        ConfigurationError: a text is new, and its encoder is not there, or another one.
        SchemaError: a column that holds no texts.
    """
    for feature in text_features(schema):
        if texts is None or feature.column not in rows.column_names:
            continue
        found = _texts_of(rows, feature.column)
        if is_needed is not None:
            found = pc.if_else(pa.array(is_needed), found, pa.scalar(None, pa.string()))
        is_given = found.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.zeros((len(found), feature.size), np.float32)
        if is_given.any():
            numbers[is_given] = texts.of(found.drop_null().to_pylist())
        vectors = pa.FixedSizeListArray.from_arrays(numbers.ravel(), feature.size, mask=pa.array(~is_given))
        rows = rows.set_column(rows.column_names.index(feature.column), feature.column, vectors)
    return rows


def rows_of_items(shop: Catalogue, items: Sequence[str]) -> NDArray[np.bool_]:
    """Return which rows of a catalogue are those of these items: (rows,)."""
    found = np.zeros(shop.rows.num_rows, np.bool_)
    rows = shop.rows_of(pa.array(items, pa.string()))
    found[rows[rows >= 0]] = True
    return found


def _texts_of(rows: pa.Table, column: str) -> pa.Array:
    """Return a column as text, null where it is blank.

    Raises:
        SchemaError: its cells are lists or objects.
    """
    array = rows[column].combine_chunks()
    if is_list(value_type(array.type)) or pa.types.is_nested(array.type):
        raise SchemaError(
            f"column {column!r} has the type {array.type}, and a sentence encoder reads text", fix="Give it text."
        )
    found = canonical_array(array, column=column, is_name=False)
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
