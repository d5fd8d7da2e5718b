"""JSON objects that a person types: the context of a query, or many queries, one a line of a file."""

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextual_bert.places import Key, Place, Spelling

CONTEXT = "--context"
_QUOTES = 'Names and text stand in double quotes, all of it in single ones: \'{"age": 34, "weekday": "Sunday"}\'.'
_QUERY_A_LINE = 'Write one JSON object a line, such as {"items": ["a", "[MASK]"]}.'


def read_context(text: str | None) -> dict[str, Any]:
    """The record of --context.

    Raises:
        ConfigurationError: no JSON object.
    """
    return parse_record(text, place=OptionPlace(("context",), CONTEXT)) if text is not None else {}


def parse_record(text: str, *, place: "Place") -> dict[str, Any]:
    """A JSON object; line and column of a fault are named.

    Raises:
        ConfigurationError: something else.
    """
    from contextual_bert.errors import ConfigurationError, ContextualBertError
    from contextual_bert.json_text import reason_of

    def refuse(constant: str) -> None:
        raise ConfigurationError(
            f"{constant} is no JSON value", place=place, fix="Leave the feature out if its value is missing."
        )

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            twice = [repr(name) for name, count in Counter(name for name, _ in pairs).items() if count > 1]
            raise ConfigurationError(
                f"the name {twice[0]} stands in one object more than once", place=place, fix="Give it once."
            )
        return record

    try:
        found = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        near = text[max(0, error.pos - 10) : error.pos + 10]
        raise ConfigurationError(
            f"not valid JSON at {at}, near {near!r}: {error.msg}",
            place=place,
            fix=_QUERY_A_LINE if isinstance(place, LinePlace) else _QUOTES,
        ) from error
    except RecursionError:
        raise ConfigurationError(
            "nested too deep", place=place, fix="Give an object with values and lists of values."
        ) from None
    except ContextualBertError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"not valid JSON: {reason_of(error)}", place=place, fix="Shorten it.") from error
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{error.object[error.start]!a} is half of a character", place=place, fix="Give both of its halves."
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"{text!r:.60} is no JSON object",
            place=place,
            value=found,
            fix=_QUERY_A_LINE if isinstance(place, LinePlace) else 'Give a JSON object, such as {"age": 34}.',
        )
    return found


def read_queries(path: Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The queries of --input, one a line, and the number of the line of each; empty lines are passed over.

    Raises:
        DataError: no such file, not UTF-8, no query.
        ConfigurationError: a line that is no JSON object.
    """
    from contextual_bert.errors import DataError
    from contextual_bert.json_text import unreadable

    if not path.is_file():
        raise DataError("there is no such file", file=str(path), fix="Give a file with one JSON object a line.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a JSON text may hold what else ends a line
    except OSError as error:
        raise unreadable(path, error, error=DataError) from error
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 ({error})", file=str(path), fix="Save it as UTF-8.") from error
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    if not numbers:
        raise DataError("there is no query in it", file=str(path), fix=_QUERY_A_LINE)
    return numbers, [parse_record(lines[number - 1], place=LinePlace(str(path), number)) for number in numbers]


@dataclass(frozen=True)
class OptionPlace:
    """A value in the query that the options of a command make up.

    Args:
        keys: of the value in the query.
        option: that gave it.
        given: the texts that the option was given, of which each made one element of its value.
    """

    keys: "tuple[Key, ...]"
    option: str
    given: Sequence[str] = ()

    def text(self, value: object, spelling: "Spelling") -> str:
        """Return the option, and the path in its value, as the beginning of a sentence."""
        from contextual_bert.places import path_of

        rest = self.keys[1:]
        if rest and isinstance(rest[0], int) and rest[0] < len(self.given):
            return f"{self.option} {self.given[rest[0]]!r}: "
        if self.option == CONTEXT:
            path = f", feature {path_of(rest)!r}" if rest else ""
        else:
            path = f", {path_of(rest)!r}" if any(isinstance(key, str) for key in rest) else ""
        return f"{self.option}{path}: "


@dataclass(frozen=True)
class LinePlace:
    """A value in a file of queries, one a line.

    Args:
        file: path of the file.
        line: counted from 1.
        inner: keys of the value in the query.
    """

    file: str
    line: int
    inner: "tuple[Key, ...]" = ()

    @property
    def keys(self) -> "tuple[Key, ...]":
        """File, line and the keys in the query."""
        return (self.file, self.line, *self.inner)

    def text(self, value: object, spelling: "Spelling") -> str:
        """Return file, line and path as the beginning of a sentence."""
        from contextual_bert.places import path_of

        path = f", {path_of(self.inner)}" if self.inner else ""
        return f"{self.file}, line {self.line}{path}: "


@contextmanager
def at_options(options: Mapping[str, str], *, given: Mapping[str, Sequence[str]] | None = None) -> Generator[None]:
    """Name the option, and no query, where the one query of the options is at fault.

    Args:
        options: key of a query -> the option that gave it. That of the context is ``CONTEXT``.
        given: key of a query -> the texts of an option that is repeated, where each made one element of the value.

    Raises:
        ContextualBertError: what came, with its option.
    """
    from contextual_bert.errors import ContextualBertError
    from contextual_bert.places import QueryPlace

    try:
        yield
    except ContextualBertError as error:
        if not isinstance(error.place, QueryPlace):
            raise
        keys = error.place.inner
        option = {"context": CONTEXT, **options}.get(str(keys[0])) if keys else None
        texts = (given or {}).get(str(keys[0]), ()) if keys else ()
        place = OptionPlace(keys, option, texts) if option is not None else QueryPlace(keys)
        raise error.at(place) from error.__cause__


@contextmanager
def at_lines(path: Path, numbers: Sequence[int]) -> Generator[None]:
    """Name the line of the file where a query is at fault.

    Args:
        path: of the file.
        numbers: the line of each query.

    Raises:
        ContextualBertError: what came, with its line.
    """
    from contextual_bert.errors import ContextualBertError
    from contextual_bert.places import QueryPlace

    try:
        yield
    except ContextualBertError as error:
        if not isinstance(error.place, QueryPlace) or error.place.row is None:
            raise
        place = LinePlace(str(path), numbers[error.place.row], error.place.inner)
        raise error.at(place) from error.__cause__
