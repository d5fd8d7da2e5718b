"""Settings for reading a file of rows: delimiter, broken rows, spelling of dates."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from contextual_bert import context
from contextual_bert.errors import ConfigurationError, did_you_mean
from contextual_bert.options import FILE, Option

__all__ = ["ReadSettings"]

OnBadRow = Literal["error", "drop"]
DecimalMark = Literal[".", ","]
_NAMES = {"tab": "\t", "\\t": "\t"}  # a tab is hard to type on a command line


@dataclass(frozen=True)
class ReadSettings:
    """Settings for reading the file of a table.

    Args:
        delimiter: the character between the cells of CSV; "tab" is one. None takes the comma, in .tsv the tab, and
            another of ``,;|`` and tab where the header has that one alone.
        on_bad_row: a broken row is an "error", or is left out ("drop") and counted. Broken are: another number of
            cells than the header, a line that is no JSON object, a value of another kind than most of its column, a
            missing or empty item of a set, an item without its time where times give the order, an empty cell where a
            group, a customer, a time, a text or a label is needed.
        date_formats: how dates are written that are not ISO 8601, as "%d/%m/%Y %H:%M:%S". A column is read by the
            first format that fits each of its cells.
        decimal: the mark before the decimals of numbers in text, "." or ",". Marks between groups of three digits are
            then read, too: 1.234,50 or 1'234.50; and a minus behind the number. None: a point, and no other mark.
        missing_values: values of the context that stand for a missing one: "age=999" of a column, "n/a" of each that
            has it. The features keep them.
        encoding: of a file of text, as Python names it: "cp1252". None: UTF-8, or UTF-16 or UTF-32 where the file
            begins with its mark.

    Raises:
        ConfigurationError: a delimiter of several characters, another policy, a format that names no day, another
            decimal mark.

    Example:
        >>> ReadSettings(delimiter="tab").delimiter
        '\\t'
    """

    delimiter: Annotated[
        str | None,
        Option(
            "What stands between the cells of a row of CSV: ';', '|' or tab; left out, a comma, or as in the header.",
            FILE,
            metavar="CHARACTER",
            is_of_data=True,
        ),
    ] = None
    on_bad_row: Annotated[
        OnBadRow,
        Option("What happens to a broken row: stop there, or leave it out and count it.", FILE, is_of_data=True),
    ] = "error"
    date_formats: Annotated[
        tuple[str, ...],
        Option(
            "How dates are written that are not 2016-03-05, as strptime has it: '%d/%m/%Y %H:%M:%S'; repeatable.",
            FILE,
            name="date-format",
            metavar="FORMAT",
            form="texts",
            is_of_data=True,
        ),
    ] = ()
    decimal: Annotated[
        DecimalMark | None,
        Option(
            "Mark before the decimals of numbers in text: ',' reads 1.234,50 and 1 234,50; '.' reads 1,234.50 and "
            "1'234.50. Left out: a point, and nothing between thousands.",
            FILE,
            is_of_data=True,
        ),
    ] = None
    missing_values: Annotated[
        tuple[str, ...],
        Option(
            "Value of a context column that stands for a missing one, as age=999 or born=1900-01-01; without COLUMN= "
            "of each column; repeatable.",
            FILE,
            name="missing-value",
            metavar="COLUMN=VALUE",
            form="texts",
            is_of_data=True,
        ),
    ] = ()
    encoding: Annotated[
        str | None,
        Option(
            "Encoding of a file of text that is not UTF-8, as Python names it: cp1252.",
            FILE,
            metavar="NAME",
            is_of_data=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        delimiter = cast(object, self.delimiter)
        if isinstance(delimiter, str):
            delimiter = _NAMES.get(delimiter, delimiter)
            if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in "\"\r\n\\'":
                raise ConfigurationError(
                    "is not allowed",
                    setting="delimiter",
                    value=self.delimiter,
                    allowed="Allowed: one character such as ';', '|' or tab.",
                    fix="It stands between the cells of a row. Between the items of a cell stands the separator.",
                )
            object.__setattr__(self, "delimiter", delimiter)
        elif delimiter is not None:
            raise ConfigurationError(
                "is not allowed", setting="delimiter", value=delimiter, fix="Give one character, or None."
            )
        if self.on_bad_row not in get_args(OnBadRow):
            raise ConfigurationError(
                "is unknown",
                setting="on_bad_row",
                value=self.on_bad_row,
                allowed=did_you_mean(str(self.on_bad_row), get_args(OnBadRow)),
            )
        for name, example in (("date_formats", ("%d/%m/%Y",)), ("missing_values", ("age=999", "n/a"))):
            values = cast(object, getattr(self, name))
            if isinstance(values, str) or not isinstance(values, Sequence) or not all(cast("Sequence[object]", values)):
                raise ConfigurationError(
                    "is not allowed", setting=name, value=values, fix=f"Give a tuple of texts, such as {example}."
                )
            object.__setattr__(self, name, tuple(cast("Sequence[str]", values)))
        for each in self.date_formats:
            context.check_date_format(each)
        if self.decimal is not None and self.decimal not in get_args(DecimalMark):
            raise ConfigurationError(
                "is not allowed",
                setting="decimal",
                value=self.decimal,
                allowed="Allowed: '.' and ','.",
                fix="Name the mark before the decimals.",
            )
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise ConfigurationError(
                "is not known",
                setting="encoding",
                value=self.encoding,
                allowed="Allowed: those of Python, as 'cp1252'.",
            )


def _is_encoding(name: object) -> bool:
    try:
        codecs.lookup(str(name))
        "a".encode(str(name))
    except (LookupError, UnicodeError, ValueError):  # unknown, no encoding of text, or one that encodes nothing
        return False
    return isinstance(name, str) and bool(name)
