"""Words that say "missing" in a column of numbers or dates: found with a schema, remembered by its features.

A word has no digit, for "85+" and "12 kg" are values in another spelling; a date of zeros is such a word, too.

A schema leaves with its model, so it holds common words, dates of zeros, and words that enough customers have. For any
other word it holds ``ANY_WORD``: then every text without a digit is missing, at training and at asking.
"""

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text, value_type
from contextual_bert.context.binning import customers_of_values
from contextual_bert.context.spelling import FLOAT, DecimalMark, decimal_advice, number_pattern, spelt
from contextual_bert.context.vocabulary import canonical_array, to_doubles
from contextual_bert.nouns import agreeing, counted

ANY_WORD = "[any word]"  # stands for every text without a digit
_DIGIT = r"\p{Nd}"  # of any script, as Python's \d
_ZERO_DATE = r"^0{1,4}[-/.]0{1,2}[-/.]0{1,4}([T ]00:00(:00(\.0+)?)?)?$"
_LEADING_ZERO = r"^0[0-9]+$"
_DAY = 10  # characters of a date
_TRUTHS = ("true", "false", "yes", "no")
_MOST_WORDS = 10
_MOST_FORCED_WORDS = 20
_LEAST_VALUES = 0.5  # of the filled cells: a column with fewer numbers is one of words
# Words that mean nothing else, in small letters.
_COMMON = frozenset(
    word
    for words in (
        "unknown|missing|none|null|nil|nan|na|n/a|n.a.|#n/a|<na>|nat|(null)|\\n|not available|not applicable|not known",
        "not given|not specified|unspecified|undefined|no answer|no data|refused|blank|tbd",
        "#null!|#value!|#ref!|#div/0!|#name?|#num!",
        "k.a.|k. a.|keine angabe|ohne angabe|unbekannt|nicht bekannt|fehlt|leer|entfällt",
        "inconnu|inconnue|non renseigné|non disponible|n.d.|nd|n.c.|nc|sans réponse",
        "desconocido|desconocida|no disponible|s/d|s.d.|sin datos|sconosciuto|onbekend",
        "-|--|---|?|??|.|..|...|/|*|x|–|—",
    )
    for word in words.split("|")
)


@dataclass(frozen=True)
class Marks:
    """Words among values.

    ``kind``: what the values are; ``words``: the most frequent first; ``num_rows``: rows that have one of them;
    ``stored``: those that a schema holds, ``ANY_WORD`` for the others.
    """

    kind: Literal["numerical", "date"]
    words: tuple[str, ...]
    num_rows: int
    stored: tuple[str, ...] = ()

    def remark(self, *, shown: str, few: str) -> str:
        """Return a remark on the words and on what they are taken for.

        Args:
            shown: the words.
            few: what those have too few of that are not stored, such as "10 customers".
        """
        where = f" in {counted(self.num_rows, 'row')}" if self.num_rows else ", in no row to learn from,"
        sentence = f"{shown}{where} {agreeing('count', len(self.words))} as missing"
        if ANY_WORD not in self.stored:
            return sentence
        return f"{sentence}; words of fewer than {few} are not stored: any text without a digit is missing"

    def storable(self, array: pa.Array, *, min_count: int, customers: NDArray[np.int64] | None) -> "Marks":
        """The same marks, counted in the rows to learn from, and with the words that a schema may hold.

        Args:
            array: the column in these rows.
            min_count: the fewest customers of a word that is stored.
            customers: number of the customer of each row; None: each row is a customer.
        """
        lower = pc.utf8_lower(canonical_array(array)).dictionary_encode()
        codes = lower.indices.fill_null(len(lower.dictionary)).to_numpy().astype(np.int64)
        num_values = len(lower.dictionary) + 1
        owners = np.arange(len(codes)) if customers is None else customers
        counts = customers_of_values(codes, owners, num_values=num_values)
        size_of = dict(zip(lower.dictionary.to_pylist(), counts.tolist(), strict=False))

        def is_public(word: str) -> bool:
            low = spelt(word).lower()
            return low in _COMMON or bool(re.search(_ZERO_DATE, word)) or size_of.get(low, 0) >= min_count

        public = tuple(word for word in self.words if is_public(word))
        stored = public if len(public) == len(self.words) else (*public, ANY_WORD)
        num_rows = without_words(array, stored).null_count - canonical_array(array).null_count
        return replace(self, num_rows=num_rows, stored=stored)


@dataclass(frozen=True)
class _Counted:
    """The distinct texts of a column and how often each occurs, blank ones left out."""

    texts: pa.Array
    counts: np.ndarray

    def words(self, is_word: np.ndarray) -> tuple[str, ...]:
        """The texts under a mask, the most frequent first."""
        order = np.argsort(-self.counts[is_word], kind="stable")
        return tuple(self.texts.filter(pa.array(is_word)).take(pa.array(order)).to_pylist())


def without_words(array: pa.Array, words: Sequence[str]) -> pa.Array:
    """A column of text in its one spelling, null where a cell is one of the words; capitals make no difference.

    ``ANY_WORD`` among the words stands for every text without a digit.

    Example:
        >>> without_words(pa.array(["34", "Unknown ", None]), ["unknown"]).to_pylist()
        ['34', None, None]
    """
    strings = canonical_array(array)
    if not words:
        return strings
    wanted = pa.array([spelt(word).lower() for word in words], pa.string())
    is_missing = pc.is_in(pc.utf8_lower(strings), value_set=wanted)
    if ANY_WORD in words:
        has_value = pc.or_(pc.match_substring_regex(strings, _DIGIT), pc.match_substring_regex(strings, FLOAT))
        is_missing = pc.or_(is_missing, pc.invert(pc.or_(has_value, pc.equal(strings, ""))))
    return pc.if_else(pc.fill_null(is_missing, False), pa.scalar(None, pa.string()), strings)


def unmarked(array: pa.Array, words: Sequence[str] | None) -> pa.Array:
    """The same column, null where its value is one of the words that a feature takes for missing.

    Example:
        >>> unmarked(pa.array([34, 999]), ["999", "unknown"]).to_pylist()
        [34, None]
    """
    kind = value_type(array.type)
    if not words or is_list(kind) or pa.types.is_nested(kind):
        return array
    if is_text(kind):
        return without_words(array, words)
    plain = decoded(array)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        days = pc.local_timestamp(plain) if pa.types.is_timestamp(kind) and kind.tz else plain
        told = days.cast(pa.date32(), safe=False).cast(pa.string())
        is_missing = pc.is_in(told, value_set=pa.array([spelt(word)[:_DAY] for word in words], pa.string()))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        is_missing = pc.is_in(to_doubles(plain), value_set=pa.array(_numbers_among(words), pa.float64()))
    else:
        return array
    return pc.if_else(pc.fill_null(is_missing, False), pa.scalar(None, plain.type), plain)


def _numbers_among(words: Sequence[str]) -> list[float]:
    return [float(word) for word in map(spelt, words) if re.search(FLOAT, word)]


def is_word(value: object, words: Sequence[str] | None) -> bool:
    """Return the mask of values that are among the words.

    Example:
        >>> is_word(" Unknown", ["unknown"]), is_word(34, ["unknown"]), is_word("never", ["unknown", ANY_WORD])
        (True, False, True)
        >>> is_word(999.0, ["999"]), is_word(True, ["1"])
        (True, False)
    """
    if not words or isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, datetime.date):
        return value.isoformat()[:_DAY] in {spelt(word)[:_DAY] for word in words}
    if isinstance(value, (int, float, Decimal, np.generic)):
        return value in _numbers_among(words)
    if not isinstance(value, str):
        return False
    text = spelt(value)
    if ANY_WORD in words and not re.search(r"\d", text) and not re.search(FLOAT, text):
        return True
    return text.lower() in {spelt(word).lower() for word in words}


def named_values(*values: object, most: int = 3) -> str:
    """Values as a message names them.

    Example:
        >>> named_values("a", "b", "c", "d")
        "'a', 'b', 'c', ..."
    """
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")


def number_words(
    array: pa.Array,
    *,
    max_distinct: int,
    is_forced: bool = False,
    shown: Callable[..., str] = named_values,
    decimal: DecimalMark | None = None,
) -> tuple[Marks | None, str]:
    """The words of a column of text that holds numbers otherwise; None, and a warning, where it is to stay text.

    A few numbers with a word that may be a category, such as the floors 1, 2 and "ground", stay text.

    Args:
        array: the column.
        max_distinct: with more distinct numbers than these, any words are taken for marks.
        is_forced: an override says that the column holds numbers.
        shown: words -> how the warning names them.
        decimal: the mark before the decimals.

    Example:
        >>> number_words(pa.array(["34", "51", "unknown", "28"]), max_distinct=16)[0].words
        ('unknown',)
    """
    counted = _counted(array)
    is_number, has_digit = _matches(counted.texts, number_pattern(decimal)), _matches(counted.texts, _DIGIT)
    is_text_word = ~is_number & ~has_digit
    num_values, num_words = int(is_number.sum()), int(is_text_word.sum())
    if not num_values or not (~is_number).any():
        return None, ""
    marks = Marks("numerical", counted.words(is_text_word), int(counted.counts[is_text_word].sum()))
    if is_forced:
        return (marks if 0 < num_words <= _MOST_FORCED_WORDS else None), ""
    if marks.words and num_values <= 2 and all(word.lower() in _TRUTHS for word in marks.words):
        return None, ""  # truth values, of which `other_spelling` says that they are spelt in several ways
    are_common = all(word.lower() in _COMMON for word in marks.words)
    has_other_spellings = bool((~is_number & has_digit).any())
    are_numbers = num_values > max_distinct and are_common and not has_other_spellings  # however many are missing
    if not are_numbers and counted.counts[is_number].sum() < _LEAST_VALUES * counted.counts.sum():
        return None, ""
    if not has_other_spellings and num_words <= _MOST_WORDS and (are_common or num_values > max_distinct):
        return marks, ""
    others = counted.words(~is_number)
    spelt_otherwise = counted.texts.filter(pa.array(~is_number & has_digit))
    if has_other_spellings and num_words == 0 and _matches(spelt_otherwise, _LEADING_ZERO).all():
        return None, ""  # codes, such as the postcodes 01067 and 10115
    advice = "correct these cells" if has_other_spellings else "with the override numerical these count as missing"
    if has_other_spellings and decimal is None:
        advice = decimal_advice(spelt_otherwise) or advice
    verb = "is none" if len(others) == 1 else "are none"
    return None, f"most cells are numbers, and {shown(*others)} {verb}: {advice}"


def date_words(array: pa.Array) -> Marks | None:
    """The words, and dates of zeros, of a column of text; None where it has none, or many.

    Example:
        >>> date_words(pa.array(["2016-03-05", "0000-00-00", "unknown", "2016-03-06"])).words
        ('0000-00-00', 'unknown')
    """
    counted = _counted(array)
    is_mark = ~_matches(counted.texts, _DIGIT) | _matches(counted.texts, _ZERO_DATE)
    num_marks, num_rows = int(is_mark.sum()), int(counted.counts[is_mark].sum())
    if not 0 < num_marks <= _MOST_WORDS or num_rows > (1 - _LEAST_VALUES) * counted.counts.sum():
        return None
    return Marks("date", counted.words(is_mark), num_rows)


def _counted(array: pa.Array) -> _Counted:
    found = pc.value_counts(pc.drop_null(canonical_array(array)))
    is_filled = pc.not_equal(found.field(0), "")
    counts = found.field(1).filter(is_filled).to_numpy(zero_copy_only=False)
    return _Counted(found.field(0).filter(is_filled), counts)


def _matches(texts: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False).astype(bool)
