"""Descriptions of catalogue columns, for a page that lets people choose by them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list, is_text

MOST_VALUES = 50


def attributes_of(table: pa.Table) -> list[dict[str, Any]]:
    """Each column with its kind, its values where they are few words, and its range where it holds numbers.

    Example:
        >>> coats = pa.table({"price": [90.5, None, 20.0], "colours": [["red", "blue"], [], None]})
        >>> price, colours = attributes_of(coats)
        >>> (price["kind"], price["lowest"], price["highest"]), (colours["kind"], colours["values"])
        (('number', 20.0, 90.5), ('list', ['blue', 'red']))
    """
    return [_attribute(name, _as_array(table.column(name))) for name in table.column_names]


def text_of(column: pa.ChunkedArray | pa.Array) -> pa.Array | None:
    """The column as one array of strings; None where it holds something else."""
    array = _as_array(column)
    return array.cast(pa.string()) if is_text(array.type) else None


def _as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return decoded(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def _attribute(name: str, cells: pa.Array) -> dict[str, Any]:
    kind = cells.type
    named = {"text": is_text, "number": _is_number, "flag": pa.types.is_boolean, "list": is_list}
    found = next((word for word, check in named.items() if check(kind)), "other")
    lowest, highest = _range(cells) if found == "number" else (None, None)
    values = _values(pc.list_flatten(cells) if found == "list" else cells)
    return {"name": name, "kind": found, "values": values, "lowest": lowest, "highest": highest}


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _values(cells: pa.Array) -> list[str] | None:
    if (words := text_of(cells)) is None:
        return None
    distinct = pc.unique(words.drop_null())
    return sorted(distinct.to_pylist()) if len(distinct) <= MOST_VALUES else None


def _range(cells: pa.Array) -> tuple[float | None, float | None]:
    numbers = cells.cast(pa.float64(), safe=False)
    found = pc.min_max(numbers.filter(pc.is_finite(numbers))).as_py()
    return found["min"], found["max"]
