"""Files of JSON as tables: JSON Lines, and one array of objects. What is broken is named with its line.

`readers.read_table` calls it for files that end in .jsonl, .ndjson or .json. It knows no other kind of file.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_list
from contextual_bert.context.vocabulary import canonical
from contextual_bert.data.column_types import digits_remark, loses_digits
from contextual_bert.data.json_blocks import read_blocks
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.reading_notes import ReadingNotes
from contextual_bert.data.text_files import check_utf8, filled_lines
from contextual_bert.errors import DataError
from contextual_bert.json_text import echoed
from contextual_bert.places import path_of, rows_are_lines

__all__ = ["lines_of_json", "read_json_lines"]

MAX_DEPTH = 100  # of brackets within each other; arrow's reader ends the process at some tens of thousands
_LINE_FIX = 'Each line is one JSON object such as {"items": ["a", "b"], "age": 34}.'
_ARRAY_FIX = (
    'Give an array of objects such as [{"items": ["a", "b"], "age": 34}]; pandas writes one with '
    "to_json(path, orient='records')."
)
_NUM_SHOWN = 80
_ELEMENT = "\0"  # in a path: of a list, whose elements are of one kind
_DIGITS_OF_FLOATS = 16  # spellings of more digits than 15 may be rounded to one float
_MOST_DIGITS = 4000  # of a whole number that Python reads
_EXACT = float(1 << 53)  # whole numbers above it may be another one as a floating-point number
# As what to read again what arrow made a time, which it does with every text like one.
_TEXTS = {pa.timestamp("s"): pa.string(), pa.list_(pa.timestamp("s")): pa.list_(pa.string())}
_OFFSET = r"[T ].*[+-].*[1-9]"  # a time zone other than UTC
_HALF = re.compile(r"[\ud800-\udfff]")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = np.zeros(256, np.int64)
_BRACKETS[[ord("["), ord("{")]], _BRACKETS[[ord("]"), ord("}")]] = 1, -1


class _Whole(str):
    """A whole number as its digits: Python reads at most 4,300 of them."""


class _Fraction(str):
    """Another number as it is spelt."""


class _TwiceError(ValueError):
    """A name that an object has twice."""


def read_json_lines(
    content: bytes,
    file: str,
    *,
    settings: ReadSettings,
    text_columns: Collection[str | None] = (),
    code_columns: Collection[str | None] = (),
) -> tuple[pa.Table, ReadingNotes]:
    """The columns of a file with one JSON object a line.

    A whole number that no column of numbers can hold exactly makes its column text.

    Args:
        content: of the file, without a mark of byte order.
        file: its path, for messages.
        settings: what happens to broken lines.
        text_columns: columns that stay text where all of it looks like dates.
        code_columns: columns that name things; of the others it is said where numbers are read as text.

    Returns:
        The table, and what is to be said of it.

    Raises:
        DataError: a line is broken, or holds another kind of value than those before.
    """
    check_utf8(content, file, fix="Save the file as UTF-8.")
    lines, dropped = filled_lines(content), Counter[str]()
    content_lines = lines
    deep = _deep_lines(content)
    if deep and settings.on_bad_row == "error":
        raise _line_error(
            lines, deep[0], f"has more than {MAX_DEPTH} brackets within each other", file, fix="Make it flat."
        )
    if deep:
        content, lines, dropped = _healthy(content, dict.fromkeys(deep, "with too many brackets"))
    try:
        table = read_blocks(content)
    except pa.ArrowInvalid as error:
        if settings.on_bad_row == "error":
            raise _broken_line(content, file, str(error)) from error
        broken = _broken_lines(content)
        content, lines, more = _healthy(content, broken, numbers=lines)
        dropped += more
        if not lines:
            raise DataError("no line is a JSON object", file=file, fix=_LINE_FIX) from error
        try:
            table = read_blocks(content)
        except pa.ArrowInvalid as again:
            raise _broken_line(content, file, str(again)) from again
    rows_are_lines(file, lines if len(lines) == table.num_rows else None)
    table, exact = _with_exact_numbers(table, content, file, code_columns)
    remarks = [digits_remark(name) for name in exact if name not in text_columns and name not in code_columns]
    return _with_times(table, content, text_columns), ReadingNotes(
        tuple(remarks),
        rows_dropped=dict(dropped),
        dropped_rows=_places_without(lines, content_lines) if dropped else (),
    )


def lines_of_json(content: bytes, file: str) -> tuple[bytes, bool]:
    """The content of a .json file as JSON Lines, and whether its rows are its own lines.

    Read are an array of objects; an object of columns, as pandas writes it by default; and JSON Lines.

    Raises:
        DataError: it is no JSON, or of another layout.
    """
    check_utf8(content, file, fix="Save the file as UTF-8.")
    text = content.decode()
    start = text.lstrip()[:1]
    decoder = json.JSONDecoder(parse_int=_Whole, object_pairs_hook=_record)
    if start not in ("[", "{"):
        raise DataError(f"it begins with {text.lstrip()[:20]!r}", file=file, fix=_ARRAY_FIX)
    if start == "{" and _is_lines(content):
        return content, True
    if _depth(content) > MAX_DEPTH:
        raise DataError(f"it has more than {MAX_DEPTH} brackets within each other", file=file, fix="Make it flat.")
    try:
        if start == "[":
            return "\n".join(_elements(text, decoder, file)).encode(), False
        found = json.loads(text, parse_int=_readable, object_pairs_hook=_record)
    except json.JSONDecodeError as error:
        raise DataError(
            f"it is not valid JSON at line {text.count(chr(10), 0, error.pos) + 1}: {error.msg}",
            file=file,
            fix=_ARRAY_FIX,
        ) from error
    except _TwiceError as error:
        raise DataError(str(error), file=file, fix="Name each value once.") from error
    records = _records_of_columns(found, file)
    return "\n".join(echoed(each) for each in records).encode(), False


def _readable(digits: str) -> int:
    """A whole number that Python can read.

    Raises:
        DataError: it has thousands of digits.
    """
    if len(digits) > _MOST_DIGITS:
        raise DataError(
            f"a number has {len(digits):,} digits", fix=f"Allowed: up to {_MOST_DIGITS:,}. Write it as text."
        )
    return int(digits)


def _elements(text: str, decoder: json.JSONDecoder, file: str) -> Iterator[str]:
    """The objects of an array, each as one line, spelt as in the file."""
    blank = re.compile(r"[ \t\r\n]*")
    place, number = text.index("[") + 1, 0
    while True:
        place = cast("re.Match[str]", blank.match(text, place)).end()
        if text[place : place + 1] == "]" and number == 0:
            raise DataError("the array is empty", file=file, fix=_ARRAY_FIX)
        value, end = decoder.raw_decode(text, place)
        if not isinstance(value, dict):
            raise DataError(
                f"element {number + 1} of the array is {_kind(value)} and no object", file=file, fix=_ARRAY_FIX
            )
        yield text[place:end].replace("\n", " ").replace("\r", " ")
        number += 1
        place = cast("re.Match[str]", blank.match(text, end)).end()
        mark = text[place : place + 1]
        if mark == "]":
            rest = cast("re.Match[str]", blank.match(text, place + 1)).end()
            if rest != len(text):
                raise json.JSONDecodeError("something follows the array", text, rest)
            return
        if mark != ",":
            raise json.JSONDecodeError("a comma or ']' is missing", text, place)
        place += 1


def _is_lines(content: bytes) -> bool:
    """Return True if the first non-blank line is a whole object and others follow."""
    rows = content.lstrip().split(b"\n", 1)
    if len(rows) < 2 or not rows[1].strip() or _depth(rows[0]) > MAX_DEPTH:
        return False
    try:
        return isinstance(json.loads(rows[0], parse_int=_Whole), dict)
    except ValueError:
        return False


def _records_of_columns(found: Mapping[str, Any], file: str) -> list[dict[str, Any]]:
    """The rows of an object of columns: {"age": {"0": 34}} as pandas writes it, or {"age": [34]}.

    Raises:
        DataError: the object has another layout, or one of two.
    """
    for orient, keys in (("split", {"columns", "data"}), ("table", {"schema", "data"})):
        if keys <= set(found):
            raise DataError(f"this is pandas' orient={orient!r}", file=file, fix=_ARRAY_FIX)
    columns = list(found.values())
    wrapped = [name for name, each in found.items() if isinstance(each, list) and each and isinstance(each[0], dict)]
    if len(wrapped) == 1 and (len(columns) == 1 or not all(isinstance(each, list) for each in columns)):
        raise DataError(
            f"its rows stand in {wrapped[0]!r} of an object", file=file, fix=f"Save that alone. {_ARRAY_FIX}"
        )
    if columns and all(isinstance(each, list) for each in columns) and len({len(each) for each in columns}) == 1:
        return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    if not columns or not all(isinstance(each, dict) for each in columns):
        raise DataError("it is one object, and no array of objects", file=file, fix=_ARRAY_FIX)
    inner = [*columns[0]]
    if any([*each] != inner for each in columns) or not inner:
        raise DataError(
            "its objects do not have the same keys, so that it is not known which are the columns",
            file=file,
            fix=_ARRAY_FIX,
        )
    are_rows_inside, are_rows_outside = (all(key.isdigit() for key in keys) for keys in (inner, found))
    if are_rows_inside == are_rows_outside:
        raise DataError(
            "it is pandas' orient='columns' or orient='index', and its keys do not say which", file=file, fix=_ARRAY_FIX
        )
    if are_rows_outside:
        return columns
    return [{name: each[key] for name, each in found.items()} for key in inner]


def _depth(line: bytes) -> int:
    """The most brackets within each other, those in strings aside."""
    steps = _BRACKETS[np.frombuffer(_STRINGS.sub(b"", line), np.uint8)]
    return int(np.cumsum(steps).max(initial=0))


def _deep_lines(content: bytes) -> list[int]:
    """The numbers of the lines with more brackets within each other than a row needs."""
    text = np.frombuffer(content, np.uint8)
    opened = np.flatnonzero((text == ord("[")) | (text == ord("{")))
    if len(opened) <= MAX_DEPTH:
        return []
    ends = np.append(np.flatnonzero(text == ord("\n")), len(text))
    counts = np.diff(np.searchsorted(opened, ends), prepend=0)
    suspects = np.flatnonzero(counts > MAX_DEPTH).tolist()
    starts = np.append(0, ends[:-1] + 1)
    return [index + 1 for index in suspects if _depth(content[starts[index] : ends[index]]) > MAX_DEPTH]


def _places_without(lines: Collection[int], all_lines: Sequence[int]) -> tuple[int, ...]:
    """The places of the lines that were left out among those that are not blank."""
    kept = {*lines}
    return tuple(place for place, line in enumerate(all_lines) if line not in kept)


def _healthy(
    content: bytes, broken: Mapping[int, str], *, numbers: list[int] | None = None
) -> tuple[bytes, list[int], Counter[str]]:
    """The content without its broken lines, the numbers of the others in the file, and how many went, by reason.

    Args:
        content: lines.
        broken: number of a line -> what is wrong with it.
        numbers: the number in the file of each line of the content; its own if left out.
    """
    kept, places = list[bytes](), list[int]()
    own = filled_lines(content)
    rows = content.split(b"\n")
    for line, number in zip(own, numbers or own, strict=True):
        if line not in broken:
            kept.append(rows[line - 1])
            places.append(number)
    return b"\n".join(kept), places, Counter(broken.values())


def _with_exact_numbers(
    table: pa.Table, content: bytes, file: str, code_columns: Collection[str | None]
) -> tuple[pa.Table, list[str]]:
    """The table, its whole numbers exact, and the columns that became text for it.

    Arrow makes a column with one of 64 bits or more a column of floats. Of columns that name things, other numbers stay
    as they are spelt where a float has fewer digits.
    """
    named = [name for name in table.column_names if name in code_columns and _has_many_digits(table.column(name))]
    suspects = [each for each in table.column_names if each in named or _has_large(table.column(each))]
    if not suspects:
        return table, []
    became_text = list[str]()
    columns: dict[str, list[Any]] = {name: [] for name in suspects}
    rounded, fractions = set[str](), set[str]()
    for record in _records(content):
        for name in suspects:
            value = record.get(name)
            columns[name].append(value)
            for number in _numbers(value):
                if not isinstance(number, _Whole):
                    fractions.add(name)
                    if name in named and _is_rounded(number):
                        rounded.add(name)
                elif loses_digits(number):
                    rounded.add(name)
    for name in suspects:
        if name in fractions and name not in rounded:
            continue
        if _has_objects(table.schema.field(name).type):
            raise DataError(
                "a whole number within an object is too large to be read exactly",
                file=file,
                column=name,
                fix="Write it as text.",
            )
        try:
            exact = pa.array(_all_spelt(columns[name], file=file, column=name))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"the numbers cannot be read exactly: {error}", file=file, column=name, fix="Write them as text."
            ) from error
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array([exact]))
        became_text.append(name)
    return table, became_text


def _has_large(column: pa.ChunkedArray) -> bool:
    """Return True if a column, or lists or objects in it, has floats beyond which whole numbers are not exact."""
    kind = column.type
    if is_list(kind):
        return _has_large(pc.list_flatten(column))
    if pa.types.is_struct(kind):
        return any(_has_large(pc.struct_field(column, [index])) for index in range(kind.num_fields))
    if not pa.types.is_floating(kind):
        return False
    is_large = pc.and_(pc.is_finite(column), pc.greater_equal(pc.abs(column), _EXACT))
    return bool(pc.any(is_large).as_py())


def _has_many_digits(column: pa.ChunkedArray) -> bool:
    """Return True if a float of the column may be a spelling of more digits, rounded."""
    if is_list(column.type):
        return _has_many_digits(pc.list_flatten(column))
    if not pa.types.is_floating(column.type):
        return False
    digits = pc.replace_substring_regex(pc.unique(column).cast(pa.string()), pattern=r"[eE].*|[-.]", replacement="")
    return (pc.max(pc.utf8_length(digits)).as_py() or 0) >= _DIGITS_OF_FLOATS


def _is_rounded(spelt: str) -> bool:
    """Return True if the spelt number differs from its float."""
    return Decimal(spelt) != Decimal(repr(float(spelt)))


def _has_objects(kind: pa.DataType) -> bool:
    return _has_objects(kind.value_type) if is_list(kind) else pa.types.is_struct(kind)


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    """The objects of the lines, whole numbers as their digits; several may stand in one line, as arrow has it."""
    decoder = json.JSONDecoder(parse_int=_Whole, parse_float=_Fraction)
    for line in content.split(b"\n"):
        text, place = line.decode().strip(), 0
        while place < len(text):
            record, place = decoder.raw_decode(text, place)
            yield record
            place += len(text[place:]) - len(text[place:].lstrip())


def _numbers(value: object) -> Iterator[_Whole | _Fraction]:
    if isinstance(value, (_Whole, _Fraction)):
        yield value
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _numbers(each)
    elif isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _numbers(each)


def _all_spelt(values: Sequence[object], *, file: str, column: str) -> list[object]:
    """Return ``_spelt`` of each value.

    Raises:
        DataError: a number that is not finite, with its row.
    """
    found = list[object]()
    for row, value in enumerate(values):
        try:
            found.append(_spelt(value))
        except DataError as error:
            raise error.moved(file=file, row=row, column=column) from error
    return found


def _spelt(value: object) -> object:
    """The same value, its numbers as the text that is one name for them everywhere."""
    if isinstance(value, list):
        return [_spelt(each) for each in cast("list[object]", value)]
    if isinstance(value, _Whole):
        return "0" if value == "-0" else str(value)
    if isinstance(value, _Fraction):
        return str(value) if _is_rounded(value) else canonical(float(value))
    return value if value is None or isinstance(value, str) else canonical(value)


def _with_times(table: pa.Table, content: bytes, text_columns: Collection[str | None]) -> pa.Table:
    """The table, its times as they are written: those with a zone are text, and days are dates."""
    texts = [(field.name, _TEXTS[field.type]) for field in table.schema if field.type in _TEXTS]
    if not texts:
        return table
    written = read_blocks(content, types=dict(texts))
    for name, kind in texts:
        column = table[name]
        # Times are in UTC by now; with a zone they stay text, as in CSV, so that the day is the day as written.
        if is_list(kind) or name in text_columns or pc.any(pc.match_substring_regex(written[name], _OFFSET)).as_py():
            column = written[name]
        elif pc.all(pc.equal(pc.floor_temporal(column, unit="day"), column)).as_py():
            column = column.cast(pa.date32())
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _line_error(
    lines: list[int], number: int, problem: str, file: str, *, column: str | None = None, fix: str = _LINE_FIX
) -> DataError:
    """The error of a line, whose row is known, too."""
    rows_are_lines(file, lines)
    return DataError(problem, file=file, row=lines.index(number), column=column, fix=fix)


def _broken_line(content: bytes, file: str, problem: str) -> DataError:
    """Which line it was: arrow counts within a block. One line at a time, for this happens once."""
    lines, kinds = filled_lines(content), dict[tuple[str, ...], tuple[str, int]]()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        record, fault = _read_line(line)
        if fault is not None:
            return _line_error(lines, number, fault, file)
        for path, kind, value in _kinds((), record):
            usual, first = kinds.setdefault(path, (kind, number))
            if usual != kind:
                others = f"and {usual}, too" if first == number else f"the lines before hold {usual}"
                keys = [key for key in path if key != _ELEMENT]
                inside = f"{path_of(keys)}: " if len(keys) > 1 else ""
                return _line_error(
                    lines,
                    number,
                    f"{inside}this is {kind} ({echoed(value)[:_NUM_SHOWN]}), {others}",
                    file,
                    column=keys[0],
                    fix="A column holds one kind of value: write all as strings, or correct this one.",
                )
    return DataError(f"this is not JSON Lines: {problem}", file=file, fix=_LINE_FIX)


def _broken_lines(content: bytes) -> dict[int, str]:
    """Number of a line -> what is wrong with it, by kinds of faults; of the kinds of values the rarer ones are."""
    broken, kinds = dict[int, str](), dict[tuple[str, ...], dict[str, list[int]]]()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        record, fault = _read_line(line)
        if fault is not None:
            broken[number] = "that are no JSON objects"
            continue
        for path, kind, _ in _kinds((), record):
            kinds.setdefault(path, {}).setdefault(kind, []).append(number)
    for found in kinds.values():
        usual = max(found, key=lambda kind: len(found[kind]))
        for kind, numbers in found.items():
            if kind != usual:
                broken |= dict.fromkeys(numbers, "with another kind of value than most")
    return broken


def _read_line(line: bytes) -> tuple[dict[str, Any], str | None]:
    """The object of a line, and what is wrong with it."""
    try:
        record = json.loads(line, parse_int=_Whole, parse_float=_finite, object_pairs_hook=_record)
    except _TwiceError as error:
        return {}, str(error)
    except ValueError as error:
        return {}, f"this is not valid JSON: {error}"
    if not isinstance(record, dict):
        return {}, f"this is {_kind(record)}, not an object"
    if (half := _half_of(record)) is not None:
        return {}, f"a text or a name has {half!a}, half of a character: give both of its halves"
    return cast("dict[str, Any]", record), None


def _half_of(value: object) -> str | None:
    """The first half of a character by itself in the texts and names of a value."""
    if isinstance(value, str):
        found = _HALF.search(value)
        return found[0] if found is not None else None
    inner: list[object] = []
    if isinstance(value, dict):
        inner = [*cast("dict[str, object]", value), *cast("dict[str, object]", value).values()]
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    return next((half for each in inner if (half := _half_of(each)) is not None), None)


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _TwiceError(f"an object names {name!r} twice")
    return record


def _finite(spelt: str) -> float:
    number = float(spelt)
    if not np.isfinite(number):
        raise ValueError(f"{spelt[:_NUM_SHOWN]} is no finite number")
    return number


def _kind(value: object) -> str:
    if isinstance(value, _Whole):
        return "a number"
    names: dict[type, str] = {
        bool: "a truth value",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _kinds(path: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], str, object]]:
    """Yield the path, the kind and the value of each value of a record that is to be of one kind in all lines.

    An empty list, and null, fit every kind.
    """
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            inner = (*path, key)
            if each is not None:
                yield inner, _kind(each), each
                yield from _kinds(inner, each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            inner = (*path, _ELEMENT)
            if each is not None:
                yield inner, f"a list with {_kind(each)}", value
                yield from _kinds(inner, each)
