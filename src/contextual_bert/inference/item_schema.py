"""Which columns of a shop's catalogue are features of its items, in the kinds of the context. Not in the paper."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from contextual_bert.context import InferredSchema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.data import ReadSettings
from contextual_bert.errors import SchemaError
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.nouns import counted

# A value, or a bin of numbers, of fewer items says no more than the item's own vector does.
FEWEST_ITEMS = 2


def infer_item_schema(
    shop: Catalogue,
    *,
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    reading: ReadSettings | None = None,
) -> InferredSchema:
    """Find the features of the items of a catalogue, from the rows of those that the model learns from.

    The columns of names and of stock are none. A column whose every value differs, such as an address, is left out as
    in a context.

    Args:
        shop: aligned to the items that are learned from.
        exclude: columns that are no features.
        kinds: column -> a kind, or "ignore".
        reading: how the file is written.

    Raises:
        UnknownNameError, ConfigurationError, SchemaError, DataError: as ``infer_schema``.
        SchemaError: no column became a feature.
    """
    reading, rows = reading or ReadSettings(), shop.rows
    learned = shop.rows_of(shop.vocabulary.array)
    asked = SchemaSettings(
        tuple(exclude),
        dict(kinds or {}),
        min_count=FEWEST_ITEMS,
        hash_buckets=0,
        date_formats=reading.date_formats,
        decimal=reading.decimal,
        missing_values=tuple(each for each in reading.missing_values if _is_for(each, rows.column_names)),
    )
    found = infer_features(rows.take(pa.array(np.sort(learned[learned >= 0]))), asked, everywhere=rows)
    if not found.schema.features:
        reasons = "; ".join(f"{note.column}: {note.reason}" for note in found.notes)
        raise SchemaError(
            f"{shop.file or 'the catalogue'}: no column says something of an item ({reasons or 'it has names alone'})",
            fix="Give a catalogue with attributes, or train without one.",
        )
    return found


def _is_for(missing_value: str, columns: Sequence[str]) -> bool:
    """Return False for a value that stands for a missing one in a column of the other table alone."""
    column, sign, _ = missing_value.rpartition("=")
    return not sign or column in columns


def item_feature_lines(found: InferredSchema, *, num_new: int, num_lacking: int) -> list[str]:
    """Return sentences on the features that a catalogue has, on the columns left out, and on the items beside.

    Args:
        found: the schema.
        num_new: items of the catalogue that no training set has.
        num_lacking: items of training sets that the catalogue lacks.
    """
    schema = found.schema
    lines = [f"items: {counted(len(schema.features), 'feature')} of the catalogue, {', '.join(schema.names)}"]
    lines += [
        f"items: the catalogue's column {note.column!r} is no feature: {note.reason}"
        for note in found.notes
        if note.kind is None and note.reason
    ]
    if num_new:
        lines.append(
            f"items in no training set, known and proposed by their features alone: {num_new:,} of the catalogue"
        )
    if num_lacking:
        lines.append(f"items without features, for the catalogue lacks them: {num_lacking:,} of the training sets")
    return lines
