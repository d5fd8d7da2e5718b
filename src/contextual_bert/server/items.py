"""The items of a version for a person who looks for some: by a piece of the name, or by id. It knows no HTTP."""

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow.compute as pc

from contextual_bert.inference.catalogue_columns import STOCK
from contextual_bert.server.column_descriptions import text_of
from contextual_bert.server.state import Version

NAME = "name"  # the column of what people call an item


class Page(NamedTuple):
    """One page of found items, with the number of all."""

    total: int
    items: list[dict[str, Any]]


def find_items(version: Version, text: str, *, is_prefix: bool, offset: int, limit: int) -> Page:
    """The items that have this text in their id or their name, or begin with it, whatever the case."""
    vocabulary, catalogue = version.pipeline.processor.items, version.pipeline.catalogue
    ids = vocabulary.array
    if text:
        match = pc.starts_with if is_prefix else pc.match_substring
        is_found = match(ids, text, ignore_case=True)
        if catalogue is not None and NAME in catalogue.table.column_names:
            names = text_of(catalogue.table.column(NAME).slice(len(vocabulary.reserved)))
            if names is not None:
                is_found = pc.or_(is_found, pc.fill_null(match(names, text, ignore_case=True), False))
        ids = ids.filter(is_found)
    return Page(len(ids), [describe_item(version, item) for item in ids.slice(offset, limit).to_pylist()])


def named_items(version: Version, items: Sequence[str], *, offset: int, limit: int) -> Page:
    """The items of these ids, in this order; those that the model does not know are left out."""
    vocabulary = version.pipeline.processor.items
    known = [item for item in items if vocabulary.id_of_value(item) is not None]
    return Page(len(known), [describe_item(version, item) for item in known[offset : offset + limit]])


def describe_item(version: Version, item: str) -> dict[str, Any]:
    """An item, whether it is in stock, what the catalogue says of it, and whether it is new or proposed no more."""
    catalogue, is_new = version.pipeline.catalogue, version.pipeline.is_new
    index = version.pipeline.processor.items.id_of(item)
    known_since = {"is_new": bool(is_new[index])} if is_new is not None else {}
    if removed := version.pipeline.processor.removed_items:
        known_since["is_removed"] = item in removed
    if catalogue is None:
        return {"item": item, "in_stock": None, "attributes": {}, **known_since}
    shown_already = (catalogue.id_column, STOCK)
    record = {key: json_value(value) for key, value in catalogue.record(item).items() if key not in shown_already}
    return {"item": item, "in_stock": bool(catalogue.in_stock[index]), "attributes": record, **known_since}


def json_value(value: Any) -> Any:
    """A cell of a table as JSON can say it; what has no such form is null.

    Example:
        >>> json_value([Decimal("9.90"), datetime.date(2016, 3, 5), float("nan"), b"photo"])
        [9.9, '2016-03-05', None, None]
    """
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | int | bool) else None
