"""Tables whose rows are queries about texts: how they are read, and their contexts. It knows no answer and no token."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from contextual_bert.context import EncodedContext
from contextual_bert.data import read_table
from contextual_bert.data.checked_columns import check_free
from contextual_bert.frames import Frame
from contextual_bert.inference.context_notes import with_absent_columns


class TableWithContext(NamedTuple):
    """A table with each column of the context, empty where it lacked one.

    ``context``: of its rows; None of a model that reads none; ``remarks``: on what the table lacks.
    """

    table: pa.Table
    context: EncodedContext | None
    remarks: list[str]


def table_to_answer(frame: Frame, pipeline: Any, *, texts: Sequence[str | None]) -> pa.Table:
    """Return a table whose rows a pipeline is to answer, read as ``read_table`` does unless it is Arrow's.

    Args:
        frame: the rows.
        pipeline: has a processor, and ``columns``, which it adds.
        texts: names of the columns of texts; None: there is no such column.

    Raises:
        DataError: a column that is called as one of ``pipeline.columns``.
    """
    table = frame
    if not isinstance(table, pa.Table):
        table = read_table(table, text_columns=texts, code_columns=pipeline.processor.code_columns)
    check_free(table, pipeline.columns.names)
    return table


def with_context(table: pa.Table, pipeline: Any) -> TableWithContext:
    """Return a table with the contexts of its rows, as a pipeline's model reads them.

    Args:
        table: as ``table_to_answer`` gives it.
        pipeline: has a model and its processor.

    Raises:
        SchemaError: the table has none of the columns of the context.
    """
    if not pipeline.model.config.reads_context:
        return TableWithContext(table, None, [])
    table, remarks = with_absent_columns(table, pipeline.processor.schema)
    return TableWithContext(table, pipeline.processor.encode_columns(table), remarks)
