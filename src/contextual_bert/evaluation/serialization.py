"""Reports as JSON and back, by the types of their dataclasses.

An unknown number (NaN) is null in the file. This module does not know which dataclasses there are.

Paper: not there.
"""

import json
import math
from dataclasses import asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from contextual_bert.errors import DataError
from contextual_bert.json_text import json_text, without_nonfinite

CAN_LACK = "can_lack"  # in the metadata of a field that earlier results do not have


class JsonText:
    """A dataclass of results that is kept as JSON: tables and pages are generated from files, never typed."""

    def to_json(self) -> str:
        """Everything, unrounded; units are in the keys, an unknown number is null."""
        return json_text(_plain(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            DataError: the text is not the JSON of this class.
        """
        try:
            return _restore(json.loads(text), cls)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            fix = f"Give the text that {cls.__name__}.to_json wrote with this version."
            raise DataError(f"this is not the JSON of a {cls.__name__}: {error!r}", fix=fix) from error


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    return without_nonfinite(value)


def _restore(raw: Any, kind: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        needed = {each.name for each in fields(kind) if not each.metadata.get(CAN_LACK)}
        if wrong := (set(raw) - set(hints)) | (needed - set(raw)):
            raise KeyError(f"keys {sorted(wrong)} are unknown or missing")
        return kind(**{name: _restore(raw[name], hint) for name, hint in hints.items() if name in raw})  # pyright: ignore[reportCallIssue]
    if origin is UnionType:
        return None if raw is None else _restore(raw, next(each for each in arguments if each is not NoneType))
    if origin is tuple:
        kinds = [arguments[0]] * len(raw) if arguments[-1] is Ellipsis else arguments
        return tuple(_restore(each, inner) for each, inner in zip(raw, kinds, strict=True))
    if origin is dict:
        return {key: _restore(each, arguments[1]) for key, each in raw.items()}
    if kind is float:
        return math.nan if raw is None else float(raw)
    if kind in (int, str, bool) and type(raw) is not kind:
        raise TypeError(f"{raw!r:.40} is no {kind.__name__}")
    return raw
