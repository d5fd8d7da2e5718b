"""The items of a version for a person who looks for one: by a piece of its name, page by page. It knows no HTTP."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.inference.catalogue import ID_COLUMNS, STOCK
from contextual_bert.server.state import Version


def find_items(version: Version, text: str, *, is_prefix: bool, offset: int, limit: int) -> tuple[int, list[Any]]:
    """How many items have this text in their name, or begin with it, whatever the case; and a page of them."""
    vocabulary = version.pipeline.processor.items
    names = pa.array(vocabulary.values, pa.string())
    if text:
        match = pc.starts_with if is_prefix else pc.match_substring
        names = names.filter(match(names, text, ignore_case=True))
    return len(names), [describe(version, name) for name in names.slice(offset, limit).to_pylist()]


def describe(version: Version, item: str) -> dict[str, Any]:
    """An item, whether it is in stock at this moment, and what the catalogue says of it."""
    catalogue = version.pipeline.catalogue
    if catalogue is None:
        return {"item": item, "in_stock": None, "attributes": {}}
    index = catalogue.vocabulary.id_of(item)
    record = {key: plain(value) for key, value in catalogue.record(item).items() if key not in (*ID_COLUMNS, STOCK)}
    return {"item": item, "in_stock": bool(catalogue.in_stock[index]), "attributes": record}


def plain(value: Any) -> Any:
    """A cell of a table as JSON can say it; what has no such form is null.

    Example:
        >>> plain([Decimal("9.90"), datetime.date(2016, 3, 5), float("nan"), b"photo"])
        [9.9, '2016-03-05', None, None]
    """
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | int | bool) else None
