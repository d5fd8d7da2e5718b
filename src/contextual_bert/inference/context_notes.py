"""Notes on the context of an answer: clipped numbers, shared vectors, fields not read or not given.

It knows encoded contexts and what a model learned of missing ones. It knows no item and no label. Not in the
paper; docs/decisions/027.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import (
    ContextSchema,
    EncodedContext,
    outside_lines,
    outside_notes,
    unknown_in_words,
)
from contextual_bert.context.encoding import is_missing
from contextual_bert.errors import Message, SchemaError, did_you_mean
from contextual_bert.nouns import agreeing, counted


class ContextNotes:
    """The notes on the contexts of some queries, found for all of them at once.

    Args:
        context: of the queries; None where the processor encodes none.
        schema: that encoded it.
        model: that answers; a baseline for texts, too.

    Example:
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> model, processor = miniature_model("global_state", rarely_missing=["sex"]), miniature_processor()
        >>> context = processor.encode_context([{"age": 30}], num_rows=1)
        >>> ContextNotes(context, processor.schema, model).of(0)[0].partition(". ")[0]
        'Not given: sex'
    """

    def __init__(self, context: EncodedContext | None, schema: ContextSchema | None, model: Any) -> None:
        self._context = context if model.config.reads_context else None
        self._shared: dict[str, NDArray[np.bool_]] = {}
        self._absent: dict[str, NDArray[np.bool_]] = {}
        if self._context is None or schema is None:
            return
        arrays = self._context.arrays
        self._absent = unlearned_absence(arrays, model)
        for name in self._context.shared:
            ids = arrays[name].reshape(self._context.num_rows, -1)
            self._shared[name] = np.any(ids >= schema.feature(name).first_shared_id, axis=1)

    def of(self, row: int) -> list[str]:
        """Return what the answer to a query says; no value is repeated."""
        if self._context is None:
            return []
        notes = outside_notes(self._context.outside, row)
        shared = [name for name, is_shared in self._shared.items() if is_shared[row]]
        if shared:
            notes.append(
                f"Shared: {', '.join(shared)}. The value was rare in training, or new. It has the vector of its hash, "
                "which other values share."
            )
        unread = [name for name, is_given in self._context.unread.items() if is_given[row]]
        if unread:
            notes.append(f"Not read: {_silenced(unread)}")
        absent = [name for name, is_absent in self._absent.items() if is_absent[row]]
        if absent:
            them = "it" if len(absent) == 1 else "them"
            notes.append(
                Message(
                    f"Not given: {', '.join(absent)}. Hardly any training row lacked {them}, so the answer without "
                    f"{them} was not learned. Give a value, or train with {{field_dropout}}.",
                    field_dropout=0.1,
                )
            )
        return notes


def about_context(context: EncodedContext | None, model: Any) -> dict[str, Any]:
    """Return the fields of a ``TextReport`` or ``QuestionReport`` that are about the contexts of a table.

    Args:
        context: of the rows; None where the model reads none.
        model: that answers.
    """
    if context is None:
        return {}
    remarks = (*unread_lines(context), *absent_lines(context.arrays, model))
    return {"unknown": context.unknown, "outside": context.outside, "shared": context.shared, "remarks": remarks}


def with_absent_columns(table: pa.Table, schema: ContextSchema | None) -> tuple[pa.Table, list[str]]:
    """Return the table with an empty column for each that the context lacks, as a query may leave a feature out.

    Args:
        table: the rows.
        schema: of the context. Columns of silenced features may be absent: no model reads them.

    Returns:
        The table, and a remark on what it lacks.

    Raises:
        SchemaError: it has none of the columns of the context that are read.
    """
    columns = schema.read_columns if schema is not None else ()
    absent = [name for name in columns if name not in table.column_names]
    if schema is None or not absent:
        return table, []
    others = [name for name in table.column_names if name not in schema.columns]
    hint = did_you_mean(absent[0], others, label="In the table")
    shown = ", ".join(map(repr, absent))
    if len(absent) == len(columns):
        raise SchemaError(
            f"the table has no column of the context ({shown}). {hint} Rename the columns; or give each "
            "query by itself, without a context."
        )
    for name in absent:
        table = table.append_column(name, pa.nulls(table.num_rows))
    return table, [f"the table lacks context columns, which are missing in each row: {shown}. {hint}"]


def table_lines(context: EncodedContext, model: Any) -> list[str]:
    """Return what a report on a table says of its contexts, a line a field.

    Args:
        context: of the rows.
        model: that answers.
    """
    lines = [*unknown_in_words(context.unknown, shared=context.shared), *outside_lines(context.outside)]
    return [*lines, *unread_lines(context), *absent_lines(context.arrays, model)]


def unread_lines(context: EncodedContext) -> list[str]:
    """Return a line on the silenced fields that rows of a table give; none where no row gives one.

    Args:
        context: of the rows, encoded.
    """
    unread = [name for name, is_given in context.unread.items() if is_given.any()]
    return [f"context, not read: {_silenced(unread)}"] if unread else []


def _silenced(names: Sequence[str]) -> str:
    helps = "it helps" if len(names) == 1 else "they help"
    return f"{', '.join(names)}. The training part did not show that {helps}."


def absent_lines(context: Mapping[str, NDArray[Any]], model: Any) -> list[str]:
    """Return a line a field that rows of a table lack, and that training hardly ever lacked.

    Args:
        context: of the rows, encoded.
        model: that answers.
    """
    counts = {name: int(is_absent.sum()) for name, is_absent in unlearned_absence(context, model).items()}
    return [
        f"context {name!r}: {counted(count, 'row')} {agreeing('lack', count)} it, and hardly any training row did: "
        "what to answer then was not learned"
        for name, count in counts.items()
        if count
    ]


def unlearned_absence(context: Mapping[str, NDArray[Any]], model: Any) -> dict[str, NDArray[np.bool_]]:
    """Return the fields that training hardly ever lacked, and which rows lack each in a way that was not learned.

    Args:
        context: of the rows, encoded.
        model: that answers. One that does not know what training lacked gives nothing.
    """
    names = model.unlearned_absences if model.config.reads_context else ()
    if not names or not context:
        return {}
    absent = {name: is_missing(values) for name, values in context.items()}
    learned = np.zeros_like(next(iter(absent.values())))
    if model.has_learned_anonymous:  # then rows of which nothing is known were shown
        learned = np.stack([*absent.values()]).all(axis=0)
    return {name: absent[name] & ~learned for name in names if name in absent}
