"""Lists that a tool printed into cells of text become lists again: JSON's, Python's and numpy's way of writing them.

Where most cells of a column are in brackets, and some have a comma there, text without quotes is read, too: [a, b] of
YAML and Java, {a,"b c",NULL} of Postgres. So are pieces in quotes without brackets. Objects are no lists.

Nothing is run: a cell is read by a pattern of quoted texts, numbers and separators, each distinct cell once. Used for
items, values of the context, tags and vectors alike, at training and at asking.
"""

import json
import math
import re
from ast import literal_eval
from itertools import pairwise
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.context.vocabulary import canonical
from contextual_bert.errors import DataError

Element = str | int | float | bool | None

# What a printed list begins with: a bracket, and in it a quote, a number, a word for no value, or nothing.
LOOKS_PRINTED = (
    r"^\s*(array|list|tuple|set|frozenset)?\(?\s*[\[({]\s*"
    r"(['\"]|np\.|-?\.?[0-9]|(nan|NaN|None|null|True|False|true|false)\s*[,\])}]|[\])}])"
)
_BARE = r"^\s*(\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\})\s*$"  # one pair of brackets round all of it
_BARE_LIST = r"^\s*[\[({][^,;|]*[^\s,;|][^,;|]*[,;|]"  # of a cell in brackets: one with several elements
_PIECE = r"(\"[^\"]*\"|'[^']*')"
_SEVERAL_PIECES = rf"^\s*{_PIECE}\s*[,;|]"
_PIECES = rf"^\s*{_PIECE}(\s*[,;|]\s*{_PIECE})*\s*$"
_IN_BRACKETS = r"^\s*\(\s*[-+\d.]+\s*\)\s*$"  # (12.50): below zero, as accounts write it
# An object, or a list of lists or objects.
_OBJECT = r"^\s*([\[({]\s*[\[({]|\{\s*(\"[^\"]*\"|'[^']*'|[\w.-]+)\s*[:=])"
_OBJECT_FIX = (
    'Give plain values: the objects\' names of items as a list such as ["a", "b"], other fields in columns of '
    "their own."
)
_CALLS = re.compile(r"^(array|list|tuple|set|frozenset)\((.*?)(,\s*dtype=[\w.<>'\"\[\]]+)?\)$", re.DOTALL)
_NUMPY_SCALAR = re.compile(r"np\.\w+\((\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^()'\"]*)\)")
_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,\[\](){}'\"]+", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NUMBERS_ALONE = re.compile(r"\[[-+.\deE\s]*\]")
_BARE_TOKENS = {
    between: re.compile(
        rf"\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^{between}\"'][^{between}]*?|)\s*({re.escape(between)}|$)",
        re.DOTALL,
    )
    for between in ",;|"
}
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_NOTHING = ("None", "null", "nan", "NaN", "NaT", "<NA>", "inf", "-inf")
_TRUTH = {"True": True, "true": True, "False": False, "false": False}
_MOST = 0.5  # of the cells: above that, a cell that is no list is a fault of the table
_MOST_INTERVALS = 100


def read_list(text: str) -> list[Element] | None:
    """The elements of a printed list; None where the text is none, or where it was cut off.

    Example:
        >>> read_list("['red', \\"it's\\"]"), read_list('["a", null]'), read_list("[0.5 1.  2.]"), read_list("(3,)")
        (['red', "it's"], ['a', None], [0.5, 1.0, 2.0], [3])
        >>> read_list("[redacted]"), read_list("['a' ... 'b']"), read_list("[['a']]"), read_list("{'a': 1}")
        (None, None, None, None)
    """
    text = text.strip()
    if _NUMBERS_ALONE.fullmatch(text):
        return _numbers(text[1:-1].split())
    if (found := _json(text)) is not None:
        return None if any(isinstance(each, (list, dict)) for each in found) else cast(list[Element], found)
    if text in ("set()", "frozenset()", "list()", "tuple()"):
        return []
    if called := _CALLS.match(text):
        text = called[2].strip()
    if len(text) < 2 or _BRACKETS.get(text[0]) != text[-1]:
        return None
    inside = _NUMPY_SCALAR.sub(r"\1", text[1:-1])
    tokens = list(_TOKEN.finditer(inside))
    # Between two elements stands one comma, or blanks; the two are not mixed, for 'a' 'b', 'c' is a cut of something.
    between = [inside[one.end() : other.start()] for one, other in pairwise(tokens)]
    commas = {gap.count(",") for gap in between}
    ends = [inside[: tokens[0].start()], inside[tokens[-1].end() :]] if tokens else [inside]
    if len(commas) > 1 or commas - {0, 1} or any(gap.replace(",", "", 1).strip() for gap in (*between, *ends)):
        return None
    if any(not gap for gap in between) or (tokens and "," in ends[0]) or (not tokens and "," in inside):
        return None
    elements = [_element(token[0]) for token in tokens]
    return None if any(isinstance(each, _NoElement) for each in elements) else cast(list[Element], elements)


def _json(text: str) -> list[object] | None:
    """The list that JSON, or Python's texts without an escape as JSON, make of it: much quicker than by a pattern."""
    if len(text) < 2 or _BRACKETS.get(text[0]) != text[-1]:
        return None
    if "'" in text or text[0] != "[":
        if '"' in text or "\\" in text:
            return None
        inside = text[1:-1].replace("'", '"')
        text = f"[{inside}]"
    try:
        found: object = json.loads(
            text, parse_int=_number, parse_float=_number if "e" in text.lower() else None, parse_constant=lambda _: None
        )
    except (ValueError, RecursionError):
        return None
    return cast(list[object], found) if isinstance(found, list) else None


class _NoElement:
    """Marker of a token that stands for no value."""


def _element(token: str) -> Element | _NoElement:
    if token[0] in "'\"":
        try:
            return cast(str, json.loads(token) if token[0] == '"' else literal_eval(token))
        except (ValueError, SyntaxError):
            return _NoElement()
    if token in _NOTHING:
        return None
    if token in _TRUTH:
        return _TRUTH[token]
    return _number(token) if _NUMBER.fullmatch(token) else _NoElement()


def _numbers(tokens: list[str]) -> list[Element] | None:
    return [_number(token) for token in tokens] if all(_NUMBER.fullmatch(token) for token in tokens) else None


def _number(token: str) -> Element:
    digits = token.lstrip("+-")
    if not digits.isdigit():
        number = float(token)
        return number if math.isfinite(number) else None
    # A code of an item keeps its zeros and all of its digits.
    is_code = (len(digits) > 1 and digits[0] == "0") or len(digits) > 18
    return token if is_code else int(token)


def read_bare_list(text: str) -> list[Element] | None:
    """The elements of a list in brackets whose texts may stand without quotes; None where the text is none.

    Example:
        >>> read_bare_list("[a, b c]"), read_bare_list('{a,"b, c",NULL}'), read_bare_list("(a,)"), read_bare_list("[]")
        (['a', 'b c'], ['a', 'b, c', None], ['a'], [])
        >>> read_bare_list("[a, ..., z]"), read_bare_list("[a,,b]"), read_bare_list("{a: 1, b: 2}")
        (None, None, None)
    """
    text = text.strip()
    if not re.match(_BARE, text) or re.match(_OBJECT, text):
        return None
    inside = text[1:-1].strip()
    between = next((mark for mark in _BARE_TOKENS if mark in inside), ",")
    elements, place = list[Element](), 0
    while place < len(inside):
        token = _BARE_TOKENS[between].match(inside, place)
        if token is None or token[1] in ("", "...", "\u2026"):
            return None
        element = None if token[1] == "NULL" else _element(token[1])
        elements.append(token[1] if isinstance(element, _NoElement) else element)
        place = token.end()
    return None if inside.endswith(between) and (text[0] != "(" or len(elements) != 1) else elements


def _read_pieces(text: str) -> list[Element] | None:
    """The texts of pieces in quotes without brackets, such as "a";"b"."""
    return [piece[1:-1] for piece in re.findall(_PIECE, text)] if re.match(_PIECES, text) else None


def as_lists(
    column: pa.Array,
    *,
    file: str | None = None,
    name: str | None = None,
    is_known: bool = False,
    has_bands: bool = True,
) -> pa.Array | None:
    """A column of printed lists as a column of lists; None where it is a column of something else.

    A column is one of printed lists where more than half of its filled cells look like such. Then every filled cell has
    to be one.

    Args:
        column: any column; one that is no text is something else.
        file: path of the table, for messages.
        name: of the column, for messages.
        is_known: the column held lists at training, so that its text must be lists.
        has_bands: cells such as (20, 30) may be bands of a number, and no lists.

    Returns:
        Lists of text, of whole numbers or of numbers; null where a cell is blank.

    Raises:
        DataError: a cell is no list, and the others are; with its row.

    Example:
        >>> as_lists(pa.array(["['a', 'b']", None, "[]"])).to_pylist()
        [['a', 'b'], None, []]
        >>> as_lists(pa.array(["[a, b]", "[c]"])).to_pylist()
        [['a', 'b'], ['c']]
        >>> as_lists(pa.array(["a", "b"])) is None
        True
    """
    column = decoded(column)
    if not is_text(column.type):
        return None
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    is_filled = pc.fill_null(pc.not_equal(texts, ""), False)
    num_filled = pc.sum(is_filled).as_py() or 0
    if not is_known and num_printed(texts) <= _MOST * num_filled:
        return None
    encoded = pc.if_else(is_filled, texts, pa.scalar(None, texts.type)).dictionary_encode()
    distinct = encoded.dictionary
    has_bare = is_known or bool(_num_matching(distinct.filter(_matching(distinct, _BARE)), _BARE_LIST))
    has_pieces = is_known or bool(_num_matching(distinct, _PIECES))
    cells = [_read_cell(text, has_bare=has_bare, has_pieces=has_pieces) for text in distinct.to_pylist()]
    if all(cell is None for cell in cells) or (has_bands and not is_known and _are_intervals(cells)):
        return None
    wrong = next((number for number, cell in enumerate(cells) if cell is None), None)
    if wrong is not None:
        row = int(pc.index(encoded.indices, wrong).as_py())
        raise DataError(
            f"{distinct[wrong].as_py()[:80]!r} is no list, as other cells of the column are",
            file=file,
            row=row,
            column=name,
            fix='Write every cell as ["a", "b"], with quotes around text, or save the table as Parquet or JSON Lines.',
        )
    return pc.take(_typed(cast(list[list[Element]], cells)), encoded.indices)


def read_cell(text: str, *, is_known: bool) -> list[Element] | None:
    """The elements of one value, as ``as_lists`` reads a column that has no other cell; None where it is no list.

    Example:
        >>> read_cell("[a, b]", is_known=False), read_cell("[a]", is_known=False), read_cell("[a]", is_known=True)
        (['a', 'b'], None, ['a'])
    """
    has_bare = is_known or bool(re.match(_BARE, text) and re.match(_BARE_LIST, text))
    return _read_cell(text, has_bare=has_bare, has_pieces=is_known or bool(re.match(_SEVERAL_PIECES, text)))


def _read_cell(text: str, *, has_bare: bool, has_pieces: bool) -> list[Element] | None:
    found = read_list(text)
    if found is None and has_bare:
        found = read_bare_list(text)
    return _read_pieces(text) if found is None and has_pieces else found


def num_printed(cells: pa.Array | pa.ChunkedArray) -> int:
    """Return the number of text cells that look like printed lists."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    is_printed = _matching(cells, LOOKS_PRINTED)
    for pattern, several in ((_BARE, _BARE_LIST), (_PIECES, _SEVERAL_PIECES)):
        is_such = _matching(cells, pattern)
        # Words in brackets or quotes are words, unless some cell has several.
        if _num_matching(cells.filter(is_such), several):
            is_printed = pc.or_(is_printed, is_such)
    is_printed = pc.and_not(is_printed, pc.or_(_matching(cells, _OBJECT), _matching(cells, _IN_BRACKETS)))
    return pc.sum(is_printed).as_py() or 0


def first_printed(cells: pa.Array | pa.ChunkedArray, *, separator: str | None = None) -> int | None:
    """The first cell that is a list in brackets, with quotes or of several elements; None where none is.

    Args:
        cells: of text.
        separator: what may stand between the elements, too.

    Example:
        >>> first_printed(pa.array(["a", "(new) coat", "[new]", "[a, b]"]))
        3
    """
    has_several = _matching(cells, _BARE_LIST)
    if separator is not None:
        has_several = pc.or_(has_several, pc.fill_null(pc.match_substring(cells, separator), False))
    is_list = pc.and_(_matching(cells, _BARE), has_several)
    place = pc.index(pc.or_(_matching(cells, LOOKS_PRINTED), is_list), True).as_py()
    return place if place >= 0 else None


def printed_error(cells: pa.Array | pa.ChunkedArray, row: int, *, file: str | None, column: str, fix: str) -> DataError:
    """The error of a cell of ``first_printed`` in a column that holds no lists."""
    problem = f"{cells[row].as_py()[:80]!r} is a printed list, and most cells are none"
    return DataError(problem, file=file, row=row, column=column, fix=fix)


def num_wrapped(cells: pa.Array | pa.ChunkedArray, separator: str | None) -> tuple[int, int]:
    """Return the number of cells in brackets, and of cells with a piece in quotes.

    Example:
        >>> num_wrapped(pa.array(["[new]", 'a,"b c"', "(old) hat"]), ",")
        (1, 1)
    """
    around = re.escape(separator) if separator is not None else "$"
    return _num_matching(cells, _BARE), _num_matching(cells, rf"(^|{around})\s*{_PIECE}\s*($|{around})")


def holds_objects(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return True if most filled cells of text are printed objects, or lists of objects or lists.

    Example:
        >>> holds_objects(pa.array(["{'a': 1}", '[{"id": "a"}]', None])), holds_objects(pa.array(["['a']"]))
        (True, False)
    """
    column = decoded(column)
    if not is_text(column.type):
        return False
    num_filled = pc.sum(pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(column), ""), False)).as_py() or 0
    return _num_matching(column, _OBJECT) > _MOST * num_filled


def object_error(cells: pa.Array | pa.ChunkedArray, *, file: str | None, column: str | None) -> DataError:
    """The error of a column that ``holds_objects`` where lists are wanted."""
    row = int(pc.index(_matching(decoded(cells), _OBJECT), True).as_py())
    problem = f"{str(cells[row].as_py())[:80]!r} is an object or has such, and no list of values"
    return DataError(problem, file=file, row=row, column=column, fix=_OBJECT_FIX)


def _matching(cells: pa.Array | pa.ChunkedArray, pattern: str) -> pa.Array | pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(cells, pattern), False)


def _num_matching(cells: pa.Array | pa.ChunkedArray, pattern: str) -> int:
    return pc.sum(_matching(cells, pattern)).as_py() or 0


def _are_intervals(cells: list[list[Element] | None]) -> bool:
    """Return True for bands of a number such as (20, 30): few of them, the first number smaller."""
    return len(cells) <= _MOST_INTERVALS and all(
        cell is not None
        and len(cell) == 2
        and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in cell)
        and cast(float, cell[0]) < cast(float, cell[1])
        for cell in cells
    )


def _typed(cells: list[list[Element]]) -> pa.Array:
    """Lists of one type: whole numbers, numbers, or everything as text."""
    kinds = {type(element) for cell in cells for element in cell if element is not None}
    if kinds == {int}:
        return pa.array(cells, pa.list_(pa.int64()))
    if kinds and kinds <= {int, float}:
        return pa.array(cells, pa.list_(pa.float64()))
    texts = [[None if element is None else canonical(element) for element in cell] for cell in cells]
    return pa.array(texts, pa.list_(pa.string()))


def vectors_of(column: pa.Array, *, file: str | None = None, name: str | None = None) -> pa.Array | None:
    """As ``as_lists`` for a column of vectors, whose whole numbers are numbers, too."""
    lists = as_lists(column, file=file, name=name)
    if lists is None or not pa.types.is_integer(lists.type.value_type):
        return lists
    return lists.cast(pa.list_(pa.float64()))
