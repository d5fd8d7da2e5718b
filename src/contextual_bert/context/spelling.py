"""The one spelling of text that is a value: NFC, without outer blanks. And values that still look alike.

Categories, items, labels, customers and the names in constraints are spelt so, at training and at asking. Texts that a
model reads are left to its tokenizer. docs/decisions/019.
"""

import unicodedata
from collections.abc import Iterable
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.errors import ConfigurationError, did_you_mean

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
