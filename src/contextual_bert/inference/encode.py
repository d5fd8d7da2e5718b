"""From sets of names to sets of ids, and the labels of their segments: whole columns at once.

Knows no model; the processor says what the names mean.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contextual_bert import data
from contextual_bert.context import find_outside, outside_lines
from contextual_bert.data import SetTable, TextTable
from contextual_bert.errors import DataError, SchemaError, UnknownNameError
from contextual_bert.models.reserved_items import RESERVED_ITEMS

if TYPE_CHECKING:
    from contextual_bert.data import SequenceDataset
    from contextual_bert.models import ContextualBertProcessor

UNKNOWN_ID = RESERVED_ITEMS.index("[UNK]")


def encode_sets(sets: SetTable, processor: "ContextualBertProcessor", *, file: str | None = None) -> "SequenceDataset":
    """The data set of these sets: items as ids ([UNK] where the vocabulary lacks one), contexts encoded; and the gaps
    of time between items, where the sets have their times.

    Raises:
        SchemaError, DataError: the table does not fit the processor's schema.
    """
    ids = processor.items.lookup(sets.values)
    try:
        context = processor.encode_columns(sets.table, file=file)
    except DataError as error:
        raise placed(error, sets.rows, file=file) from error
    tensors = context.tensors if context is not None else {}
    found = data.SequenceDataset(
        np.where(ids < 0, UNKNOWN_ID, ids),
        sets.offsets,
        context=tensors,
        example_ids=sets.rows,
        token_type_ids=sets.times.gaps().astype(np.uint8) if sets.times is not None else None,
    )
    return found.without_padding()


def outside_lines_of(
    sets: SetTable | TextTable, processor: "ContextualBertProcessor", *, first_rows: NDArray[np.int64] | None = None
) -> list[str]:
    """Return a line on each feature of which some sets, or texts, have a number far from those of training.

    Args:
        sets: of which rows.
        processor: has the schema.
        first_rows: where each set begins in the file, if its rows were grouped; rows are named by it.
    """
    if processor.schema is None:
        return []
    try:
        found = find_outside(processor.schema, sets.table)
    except DataError:
        return []  # encoding says what is wrong with a cell, with its place in the file
    rows = sets.rows if first_rows is None else first_rows[sets.rows]
    return outside_lines({name: outside.at(rows) for name, outside in found.items()})


def placed(error: DataError, rows: NDArray[np.int64], *, file: str | None) -> DataError:
    """The same error with the row of the file, where it names one of these rows by its place among them."""
    row = int(rows[error.row]) if error.row is not None else None
    return error.moved(file=file, row=row)


@contextmanager
def naming(file: str | None) -> Generator[None]:
    """Add the name of the file to errors of the block that lack it.

    Raises:
        DataError, UnknownNameError, SchemaError: what came, with the file.

    Example:
        >>> with naming("days.csv"):
        ...     raise UnknownNameError("There is no column 'sex'.")
        Traceback (most recent call last):
        contextual_bert.errors.UnknownNameError: days.csv: There is no column 'sex'.
    """
    try:
        yield
    except (DataError, UnknownNameError, SchemaError) as error:
        raise error.in_file(file) from error.__cause__


def set_index(dataset: "SequenceDataset", example_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each example id (a row of the table) the number of its set in ``dataset``."""
    rows = dataset.example_ids.numpy()
    order = np.argsort(rows)
    return order[np.searchsorted(rows, example_ids, sorter=order)]


def segment_labels(
    dataset: "SequenceDataset", processor: "ContextualBertProcessor"
) -> dict[str, NDArray[np.str_] | list[list[str]]]:
    """Feature -> the label of each set: its category, its bin or its values; "(missing)", "(unknown)" are labels.

    Sensitive features are left out: what is reported by label would tell their values. Silenced features are left out,
    too: each row of them reads as missing.
    """
    if processor.schema is None:
        return {}
    return processor.schema.names_of({name: each.numpy() for name, each in dataset.context.items()})
