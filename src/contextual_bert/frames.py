"""Tables in memory: pandas, polars, Hugging Face datasets and Arrow become one `pyarrow.Table`.

No package of frames is imported. pandas is found among the loaded modules, everything else by the Arrow PyCapsule
interface. `data.readers.read_table` adds files.
"""

import sys
from typing import Any, Protocol, cast, runtime_checkable

import pyarrow as pa

from contextual_bert.arrow_types import without_views
from contextual_bert.errors import DataError
from contextual_bert.foreign_metadata import with_class_names, with_known_times

TAKEN = "a pyarrow.Table, a pandas or polars DataFrame, a datasets.Dataset, or an object with __arrow_c_stream__"
_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


@runtime_checkable
class HuggingFaceDataset(Protocol):
    """The part of `datasets.Dataset` that is used here."""

    def __len__(self) -> int: ...

    def with_format(self, type: str) -> Any: ...  # noqa: A002  (the name is theirs)


@runtime_checkable
class ArrowStream(Protocol):
    """An object that hands over its rows by the Arrow PyCapsule interface, as polars and DuckDB have it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# pyarrow.Table, HuggingFaceDataset, ArrowStream or a frame of pandas: what `as_table` takes. pyarrow publishes no
# types, so a union of these would forbid what only a table has, once one is made of it.
Frame = pa.Table | Any


def as_table(source: Frame) -> pa.Table:
    """Return a table in memory as a `pyarrow.Table`.

    The rows keep their order. Missing values of pandas (NaN, NA, NaT, None) become nulls. The index of a pandas frame
    is left out if it only numbers the rows: without a name, and of whole numbers. Names of `datasets.ClassLabel` stand
    in place of their numbers.

    Args:
        source: a pyarrow.Table; a pandas or polars DataFrame; a `datasets.Dataset`; or any other object with
            ``__arrow_c_stream__``.

    Raises:
        DataError: another object; a pandas index that has a name or is no numbering; a column of values of several
            kinds, with its first such row; a number of a ClassLabel without a name.

    Example:
        >>> as_table(pa.record_batch({"age": [34, 51]})).num_rows
        2
    """
    if isinstance(source, pa.Table):
        return with_known_times(with_class_names(source, file=None), file=None)
    if isinstance(source, dict):
        raise DataError(
            f"a dictionary of data sets ({', '.join(map(str, cast(dict[object, object], source)))}) is not a table",
            fix="Choose one of them, such as dataset['train'].",
        )
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return _of_pandas(source)
    if isinstance(source, HuggingFaceDataset):
        # The arrow format applies select() and shuffle(), which `.data` does not.
        return as_table(source.with_format("arrow")[:] if len(source) else pa.table({}))
    kind = type(source).__name__
    if isinstance(source, ArrowStream):
        try:
            table = pa.table(cast(Any, source))
        except pa.ArrowInvalid as error:
            if hasattr(source, "to_frame"):
                problem, fix = f"a {kind} is one column, not a table", "Give a table: series.to_frame() makes one."
            else:
                problem, fix = f"the {kind} cannot become a table of Arrow: {error}", "Write such columns as text."
            raise DataError(problem, fix=fix) from error
        return with_known_times(without_views(table), file=None)
    if hasattr(source, "collect"):
        raise DataError(f"a {kind} has not been computed", fix="Give its rows: frame.collect().")
    if hasattr(source, "with_format"):
        raise DataError(f"a {kind} is a stream of rows", fix="Give a datasets.Dataset, which has a length.")
    raise DataError(f"a {kind} is not a table", fix=f"Give {TAKEN}. From files, read_table reads one.")


def _of_pandas(frame: Any) -> pa.Table:
    _check_labels(frame)
    sparse = [name for name, kind in frame.dtypes.items() if kind.name.startswith("Sparse[")]
    if sparse:  # as pandas.get_dummies(sparse=True) makes them; Arrow has none
        frame = frame.assign(**{str(name): frame[name].sparse.to_dense() for name in sparse})
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except _REFUSALS as error:
        raise _mixed_column(frame, error) from error
    return with_known_times(table, file=None)


def _check_labels(frame: Any) -> None:
    """Raise DataError where the labels of rows or columns say more than a table can hold."""
    if frame.columns.nlevels > 1:
        raise DataError(
            f"the columns have names of {frame.columns.nlevels} parts, such as {frame.columns[0]!r}",
            fix="Give each column one name: frame.columns = ['_'.join(name) for name in frame.columns].",
        )
    labels = frame.columns.map(str)  # 0 and "0" are one name in a table
    repeated = labels[labels.duplicated()]
    if len(repeated):
        raise DataError("the column occurs more than once", column=str(repeated[0]), fix="Rename one of them.")
    names = [name for name in frame.index.names if name is not None]
    if names or frame.index.nlevels > 1 or (frame.index.dtype.kind not in "iu" and len(frame)):
        called = f"{', '.join(map(repr, names))}" if names else f"of {frame.index.dtype}"
        raise DataError(
            f"the index {called} is no column of the DataFrame",
            fix="Call frame.reset_index() to make it a column, or frame.reset_index(drop=True) to leave it out.",
        )


def _mixed_column(frame: Any, error: Exception) -> DataError:
    """Find the column and the first row that Arrow could not take."""
    for place, name in enumerate(frame.columns):
        cells = frame.iloc[:, place]
        if _fits(cells):
            continue
        first, last = 0, len(cells)  # of `first` rows all fit, of `last` rows not
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if _fits(cells.iloc[:middle]) else (first, middle)
        value, before = cells.iloc[first], cells.iloc[:first].dropna()
        kinds = list(dict.fromkeys(type(each).__name__ for each in before))
        beside = f", and the rows before hold {', '.join(kinds[:3])}" if kinds else ""
        return DataError(
            f"{value!r:.80} is of type {type(value).__name__}{beside}",
            row=first,
            column=str(name),
            fix="A column holds one kind of value that Arrow knows. Correct the cell, or write all of them as text: "
            f"frame[{name!r}].astype(str).",
        )
    return DataError(f"the DataFrame cannot become a table of Arrow: {error}", fix=f"Give {TAKEN}.")


def _fits(cells: Any) -> bool:
    try:
        pa.array(cells, from_pandas=True)
    except _REFUSALS:
        return False
    return True
