"""JSON objects that a person types: the context of a query, or many queries, one a line of a file."""

import json
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextual_bert import ContextualBertProcessor


def read_context(text: str | None) -> dict[str, Any]:
    """The record of --context.

    Raises:
        ConfigurationError: no JSON object.
    """
    return record_of(text, place="--context") if text is not None else {}


def record_of(text: str, *, place: str) -> dict[str, Any]:
    """A JSON object; the place of a fault is named with line and column.

    Raises:
        ConfigurationError: something else.
    """
    from contextual_bert.errors import ConfigurationError, ContextualBertError
    from contextual_bert.json_files import reason_of

    def refuse(constant: str) -> None:
        raise ConfigurationError(
            f"{place}: {constant} is no JSON value. Leave the feature out if its value is missing."
        )

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            twice = [repr(name) for name, count in Counter(name for name, _ in pairs).items() if count > 1]
            raise ConfigurationError(f"{place} names {', '.join(twice)} more than once. Give it once.")
        return record

    try:
        found = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 10) : error.pos + 10]
        raise ConfigurationError(
            f"{place} is not valid JSON at line {error.lineno}, column {error.colno}, near {near!r}: {error.msg}. "
            """Names and text stand in double quotes, all of it in single ones: '{"age": 34, "weekday": "Sunday"}'."""
        ) from error
    except RecursionError:
        raise ConfigurationError(
            f"{place} is nested too deep. Give an object with values and lists of values."
        ) from None
    except ContextualBertError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{place} is not valid JSON: {reason_of(error)}. Shorten it.") from error
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{place} has {error.object[error.start]!a}, half of a character: give both of its halves."
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(f'{place} is {text!r:.60}: give a JSON object, such as {{"age": 34}}.')
    return found


def read_queries(path: Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The queries of --input, one a line, and the number of the line of each; empty lines are passed over.

    Raises:
        DataError: no such file, not UTF-8, no query.
        ConfigurationError: a line that is no JSON object.
    """
    from contextual_bert.errors import DataError
    from contextual_bert.json_files import unreadable

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
        raise DataError(
            "there is no query in it", file=str(path), fix='Write lines such as {"items": ["a", "[MASK]"]}.'
        )
    return numbers, [record_of(lines[number - 1], place=f"{path}, line {number}") for number in numbers]


def check_context(record: Mapping[str, Any], processor: "ContextualBertProcessor") -> None:
    """Raise where a record of --context does not fit the features of a model; no row is named, for there is none.

    Raises:
        ConfigurationError, UnknownNameError: a value, or a feature, by its name.
    """
    from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
    from contextual_bert.inference.queries import placed_row

    try:
        processor.encode_context([record], num_rows=1)
    except DataError as error:
        raise ConfigurationError(f"--context, feature {error.column!r}: {error.problem}. {error.fix}") from error
    except UnknownNameError as error:
        raise UnknownNameError(f"--context: {placed_row(error)[1]}") from error


@contextmanager
def at_options(options: Mapping[str, str]) -> Generator[None]:
    """Where the one query of the options is at fault, the option is named and no row.

    Args:
        options: key of a query -> the option that gave it.

    Raises:
        ConfigurationError, UnknownNameError, SchemaError: what came, with its option.
    """
    from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
    from contextual_bert.inference.queries import placed_row

    try:
        yield
    except DataError as error:
        option = options.get(re.split(r"[.\[]", error.column or "")[0])
        if option is None:
            raise
        path = f", {error.column!r}" if error.column not in options else ""
        raise ConfigurationError(f"{option}{path}: {error.problem}. {error.fix}") from error
    except (UnknownNameError, SchemaError) as error:
        raise type(error)(placed_row(error)[1]) from error


@contextmanager
def at_lines(path: Path, numbers: Sequence[int]) -> Generator[None]:
    """Where a query is at fault, its line of the file is named.

    Raises:
        DataError, UnknownNameError, SchemaError: what came, with its place.
    """
    from contextual_bert.errors import DataError, SchemaError, UnknownNameError
    from contextual_bert.inference.queries import placed_row

    try:
        yield
    except (DataError, UnknownNameError, SchemaError) as error:
        row, text = placed_row(error)
        if row is None:
            raise
        place = f"{path}, line {numbers[row]}"
        if isinstance(error, DataError):
            raise DataError(error.problem, file=place, column=error.column, fix=error.fix) from error
        raise type(error)(f"{place}: {text}") from error
