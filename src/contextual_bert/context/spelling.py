"""How values are spelt: NFC without outer blanks, the cells of text files, and numbers as people write them.

Categories, items, labels, customers and the names in constraints have the one spelling, at training and at asking.
Texts that a model reads are left to its tokenizer (docs/decisions/019). `data.csv_tables` types whole columns by the
patterns of cells, and `vocabulary.normal_form` reads a single value by them, so that both mean the same; what is
spelt otherwise is text: codes with leading zeros ("010101"), "+1" and "1,000". Where a decimal mark is named,
"1.234,50" and "1'234.50" are numbers, too (docs/decisions/032). Strings only: no schema, no table. Not in the paper.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.errors import ConfigurationError, did_you_mean

INTEGER = r"^-?(0|[1-9][0-9]*)$"
FLOAT = r"^-?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI]nf(inity)?)$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"
ZONED = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([zZ]|[+-][0-9]{2}:?[0-9]{2})$"
BOOLEAN = r"^([tT]rue|TRUE|[fF]alse|FALSE)$"

DecimalMark = Literal[".", ","]
DECIMAL_MARKS: tuple[DecimalMark, ...] = (",", ".")
_BLANKS = " \u00a0\u2009\u202f"
_GROUP_MARKS = {".": f",'’{_BLANKS}", ",": f".'’{_BLANKS}"}
_MINUS = "-−"  # hyphen, and the minus sign of Unicode

SpellingRule = Literal["nfc-trimmed"]
SPELLING_RULE: SpellingRule = "nfc-trimmed"

# Marks that show nothing: byte order marks, zero-width spaces, marks of direction. The joiners U+200C and U+200D are
# not among them, for they change how the letter before them looks.
_INVISIBLE = "".join(
    map(chr, (0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2065)))
) + "".join(map(chr, (*range(0x2066, 0x206A), 0xFEFF)))
BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + _INVISIBLE
_ASCII_BLANKS = "".join(mark for mark in BLANKS if mark.isascii())
_WITHOUT_INVISIBLE = dict.fromkeys(map(ord, _INVISIBLE))


def number_pattern(decimal: DecimalMark | None) -> str:
    """Return the pattern of the texts that are numbers, for `re` and for arrow.

    Args:
        decimal: the mark before the decimals. None: a point, and no mark between thousands.

    Example:
        >>> pattern = number_pattern(",")
        >>> [bool(re.search(pattern, text)) for text in ("1.234,50", "1 234", "3,45-", "1.5", "0.200", "1.23,4")]
        [True, True, True, False, False, False]
    """
    if decimal is None:
        return FLOAT
    grouped = [rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+" for mark in _GROUP_MARKS[decimal]]
    if decimal == ".":
        grouped.append("[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}")  # 12,34,567 of India
    whole = "|".join(["0", "[1-9][0-9]*", *grouped])
    mark = re.escape(decimal)
    number = rf"(?:(?:{whole})(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    return rf"^(?:[{_MINUS}]?{number}|{number}[{_MINUS}])$"


def plain_numbers(texts: pa.Array | pa.ChunkedArray, decimal: DecimalMark | None) -> pa.Array | pa.ChunkedArray:
    """Return the same numbers as `FLOAT` writes them, null where a text is no number.

    Example:
        >>> plain_numbers(pa.array(["1.234,50", "3,45-", "950", "1.5", "k.A."]), ",").to_pylist()
        ['1234.50', '-3.45', '950', None, None]
    """
    is_number = pc.fill_null(pc.match_substring_regex(texts, number_pattern(decimal)), False)
    found = pc.if_else(is_number, texts, pa.scalar(None, texts.type))
    if decimal is None:
        return found
    found = pc.replace_substring_regex(found, f"[{re.escape(_GROUP_MARKS[decimal])}]", "")
    found = pc.replace_substring(found, decimal, ".")
    found = pc.replace_substring_regex(found, f"^[{_MINUS}]?(.*[0-9.])[{_MINUS}]$", r"-\1")
    return pc.replace_substring(found, "−", "-")


def plain_number(text: str, decimal: DecimalMark | None) -> str | None:
    """Return ``plain_numbers`` of one text.

    Example:
        >>> plain_number("1.250", ","), plain_number("1.250", None), plain_number("1,25", None)
        ('1250', '1.250', None)
    """
    return cast("str | None", plain_numbers(pa.array([text], pa.string()), decimal)[0].as_py())


def decimal_advice(texts: pa.Array, *, share: float = 1.0) -> str:
    """Return which decimal mark reads texts that are no numbers yet; empty where none does.

    Where both marks read them, as other numbers, the advice names both: 1,200 is 1200 or 1.2.

    Args:
        texts: none of them a number as it is.
        share: of the texts that a mark must read.

    Example:
        >>> decimal_advice(pa.array(["70,46", "9,99"])), decimal_advice(pa.array(["12 kg"]))
        ("give --decimal ',' (in Python decimal)", '')
        >>> decimal_advice(pa.array(["1,200"])).partition(",")[0]
        "give --decimal '.' where its marks stand between thousands"
    """
    read = {mark: plain_numbers(texts, mark) for mark in DECIMAL_MARKS}
    fitting = [
        mark
        for mark, numbers in read.items()
        if numbers.null_count <= (1 - share) * len(texts) and numbers.null_count < len(texts)
    ]
    if not fitting:
        return ""
    if len(fitting) == 2:
        doubles = [pc.drop_null(read[mark].cast(pa.float64())) for mark in DECIMAL_MARKS]
        if not doubles[0].equals(doubles[1]):
            between, before = (".", ",") if pc.any(pc.match_substring(texts, ",")).as_py() else (",", ".")
            return (
                f"give --decimal '{between}' where its marks stand between thousands, --decimal '{before}' where they "
                "stand before decimals (in Python decimal)"
            )
    return f"give --decimal '{fitting[-1]}' (in Python decimal)"


def are_written(texts: pa.Array, decimal: DecimalMark | None) -> bool:
    """Return whether each text of a column is a number with a decimal mark that was named, and there is one.

    Example:
        >>> are_written(pa.array(["1,5", "2", None]), ","), are_written(pa.array(["1.5"]), None)
        (True, False)
    """
    filled = pc.drop_null(texts).unique() if decimal is not None else texts.slice(0, 0)
    filled = filled.filter(pc.not_equal(filled, ""))
    return len(filled) > 0 and plain_numbers(filled, decimal).null_count == 0


def spelt(text: str) -> str:
    """The text in Unicode's form NFC, without blanks and invisible marks at its ends.

    Example:
        >>> spelt(" cafe\\u0301\\u00a0") == "café"
        True
    """
    return unicodedata.normalize("NFC", text).strip(BLANKS)


def spelt_start(prefix: str) -> str:
    """The beginning of a text as ``spelt`` leaves it: a blank at its end is one inside of the text.

    Example:
        >>> spelt_start(" new ")
        'new '
    """
    return unicodedata.normalize("NFC", prefix).lstrip(BLANKS)


def spelt_array(array: pa.Array) -> pa.Array:
    """``spelt`` of a whole column of `pa.string()`.

    Example:
        >>> spelt_array(pa.array([" work", "work\\u200b", None])).to_pylist()
        ['work', 'work', None]
    """
    if pc.all(pc.string_is_ascii(array), min_count=0).as_py():
        return pc.ascii_trim(array, characters=_ASCII_BLANKS)
    encoded = array.dictionary_encode()
    names = [None if text is None else spelt(text) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(names, pa.string()), encoded.indices)


def check_rule(name: str) -> None:
    """Raise ConfigurationError unless values can be spelt by a rule of this name.

    Example:
        >>> check_rule("nfc-trimmed")
    """
    if name != SPELLING_RULE:
        raise ConfigurationError(
            f"Values are spelt by the rule {name!r}, which this version does not have",
            allowed=did_you_mean(str(name), [SPELLING_RULE]),
            fix="Use the version that the run was trained with, or train again.",
        )


def alike(names: Iterable[str]) -> list[list[str]]:
    """The groups of names that differ in capitals, inner blanks or invisible marks alone.

    Example:
        >>> alike(["party", "work", "Party", "new  york", "New York"])
        [['party', 'Party'], ['new  york', 'New York']]
    """
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        key = " ".join(name.translate(_WITHOUT_INVISIBLE).split())
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())  # wide letters, ligatures
        found.setdefault(key, []).append(name)
    return [group for group in found.values() if len(group) > 1]


def alike_warning(names: Iterable[str], *, what: str, each: str, num_shown: int = 3) -> list[str]:
    """A warning about names that look alike, none where all differ.

    Args:
        names: of items, labels or values.
        what: what they are, such as "the items".
        each: what each of them is taken for, such as "an item".
        num_shown: groups that are named.

    Example:
        >>> alike_warning(["Party", "party"], what="the items", each="an item")
        ["warning: the items 'Party' and 'party' differ in blanks or capitals alone, and each is an item of its own"]
    """
    groups = alike(names)
    shown = "; ".join(" and ".join(map(repr, group)) for group in groups[:num_shown])
    more = f"; and {len(groups) - num_shown:,} more such" if len(groups) > num_shown else ""
    sentence = f"warning: {what} {shown}{more} differ in blanks or capitals alone, and each is {each} of its own"
    return [sentence] if groups else []
