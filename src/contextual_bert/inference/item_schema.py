"""Which columns of a shop's catalogue are features of its items, in the kinds of the context. Not in the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from contextual_bert.context import InferredSchema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.data import ReadSettings
from contextual_bert.errors import SchemaError, joined
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_texts import FoundTexts, find_texts, free_text_reason, text_reason
from contextual_bert.inference.text_vectors import TextVectors
from contextual_bert.nouns import counted

# A value, or a bin of numbers, of fewer items says no more than the item's own vector does.
FEWEST_ITEMS = 2


def infer_item_schema(
    shop: Catalogue,
    *,
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    reading: ReadSettings | None = None,
    texts: TextVectors | None = None,
) -> InferredSchema:
    """Find the features of the items of a catalogue, from the rows of those that the model learns from.

    The columns of names and of stock are none. A column whose every value differs, such as an address, is left out as
    in a context, and so are those of free text, unless ``kinds`` says that they are texts.

    Args:
        shop: aligned to the items that are learned from.
        exclude: columns that are no features.
        kinds: column -> a kind, or "ignore".
        reading: how the file is written.
        texts: reads the columns of the kind "text".

    Raises:
        UnknownNameError, ConfigurationError, SchemaError, DataError: as ``infer_schema``.
        SchemaError: no column became a feature.
    """
    reading, rows = reading or ReadSettings(), shop.rows
    learned = shop.rows_of(shop.vocabulary.array)
    learned = np.sort(learned[learned >= 0])
    asked_kinds = dict(kinds or {})
    told = find_texts(shop, learned, kinds=asked_kinds, exclude=exclude, texts=texts)
    asked = SchemaSettings(
        tuple(exclude),
        {**asked_kinds, **dict.fromkeys(told.free, "ignore"), **told.features},
        min_count=FEWEST_ITEMS,
        hash_buckets=0,
        date_formats=reading.date_formats,
        decimal=reading.decimal,
        missing_values=tuple(each for each in reading.missing_values if _is_for(each, rows.column_names)),
    )
    found = _with_reasons(infer_features(rows.take(pa.array(learned)), asked, everywhere=rows), told, rows)
    if not found.schema.features:
        reasons = [part for note in found.notes for part in ("; ", f"{note.column}: ", note.reason)][1:]
        problem = f"{shop.file or 'the catalogue'}: no column says something of an item ("
        raise SchemaError(
            joined(problem, *(reasons or ["it has names alone"]), ")"),
            fix="Give a catalogue with attributes, or train without one.",
        )
    return found


def _with_reasons(found: InferredSchema, texts: FoundTexts, rows: pa.Table) -> InferredSchema:
    """Return what was inferred, with what became of columns of texts."""
    reasons = {column: free_text_reason(column, words) for column, words in texts.free.items()}
    reasons |= {column: text_reason(each, rows[column].combine_chunks()) for column, each in texts.features.items()}
    return replace(
        found, notes=tuple(replace(note, reason=reasons.get(note.column, note.reason)) for note in found.notes)
    )


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
        joined(f"items: the catalogue's column {note.column!r} is no feature: ", note.reason)
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
