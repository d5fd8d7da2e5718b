"""The bytes of a file of text: unpacked, UTF-8, and which line of an editor each row is."""

import codecs
import re
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.errors import DataError
from contextual_bert.places import rows_are_lines

__all__ = [
    "check_is_table",
    "check_utf8",
    "content_of",
    "grown_blocks",
    "in_utf8",
    "number_rows",
    "utf8_fault",
]

_BLOCK_BYTES = 16 << 20
_LARGEST_BLOCK = (1 << 31) - 1
_PIECE = 1 << 20
# UTF-8 of the letters that UTF-8 of é, ß or a quotation mark is in Latin-1 or cp1252: Ã©, ÃŸ, â€.
_MISREAD = re.compile(rb"\xc3\x83(?:\xc2[\x80-\xbf]|\xc5[\x92\x93\xa0\xa1\xb8])|\xc3\xa2\xe2\x82\xac")
_NUM_AROUND = 12


def content_of(path: Path, compression: str | None) -> bytes:
    """The text of a file as bytes, unpacked, without a mark of byte order.

    Raises:
        OSError: the file cannot be read or unpacked.
        DataError: it is empty.
    """
    content = path.read_bytes()
    if compression is not None:
        try:
            content = bytes(pa.CompressedInputStream(pa.BufferReader(content), compression).read())
        except OSError as error:
            raise DataError(
                f"it is not packed as its name says, or damaged: {error}",
                file=str(path),
                fix=f"Leave {path.suffix} out of the name of a file that is not packed; else pack it again.",
            ) from error
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise DataError(
            f"the file is empty ({'once unpacked' if compression else '0 bytes'})",
            file=str(path),
            fix="Write it again: it needs at least one row.",
        )
    return content


# First bytes -> what the file is, and what to do.
_FOREIGN = {
    b"PK\x03\x04": ("a spreadsheet or a zip archive", "In the spreadsheet save it as CSV in UTF-8. Unpack an archive."),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", "In the spreadsheet save it as CSV in UTF-8."),
    b"\x1f\x8b": ("packed", "Give it a name that ends in .gz, too."),
    b"BZh9": ("packed", "Give it a name that ends in .bz2, too."),
    b"\x28\xb5\x2f\xfd": ("packed", "Give it a name that ends in .zst, too."),
    b"SQLite format 3": ("a database", "Save the table as CSV or Parquet."),
    b"ARROW1\0": ("an Arrow file", "Save the table as Parquet."),
    b"%PDF-": ("a PDF", "Save the table as CSV."),
}
# The longer marks first, for those of UTF-32 begin with those of UTF-16.
_MARKED = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_WIDE_START = 200  # bytes
# Which of four bytes are mostly zero -> the encoding.
_WIDE: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
_PAGE = (b"<!doctype", b"<html", b"<?xml")


def marked_encoding(content: bytes) -> str | None:
    """Return the encoding of two or four bytes a character that the first bytes of a text say; None where none.

    Example:
        >>> marked_encoding("items".encode("utf-16")), marked_encoding(b"items")
        ('utf-16', None)
    """
    return next((name for name, marks in _MARKED.items() if content.startswith(marks)), None)


def check_is_table(content: bytes, file: str) -> None:
    """Raise DataError where the first bytes of a file of text are those of a file of another kind.

    Example:
        >>> check_is_table(b"items,age", "days.csv")
    """
    found = next((told for start, told in _FOREIGN.items() if content.startswith(start)), None)
    if content.startswith(b"PAR1") and content.endswith(b"PAR1"):
        found = ("a Parquet file", "Give it a name that ends in .parquet.")
    if found is None and content.lstrip()[:10].lower().startswith(_PAGE):
        found = ("an HTML or XML document", "Download or save the table itself.")
    if found is not None:
        raise DataError(f"this is {found[0]}, whatever its name says", file=file, fix=found[1])


def in_utf8(content: bytes, file: str, encoding: str | None) -> tuple[bytes, tuple[str, ...]]:
    """Return the content in UTF-8, without a mark of byte order, and a remark where only its mark named the encoding.

    Args:
        content: of the file.
        file: its path, for messages.
        encoding: as Python names it. None: UTF-8, or UTF-16 or UTF-32 where the content begins with its mark.

    Raises:
        DataError: a byte that the encoding does not have, with its line; wide characters without a mark.
    """
    told = ()
    if encoding is None:
        encoding = marked_encoding(content)
        told = (f"{file}: read as {encoding.upper()}, which its first bytes say",) if encoding is not None else ()
    if encoding is None:
        if (wide := _wide_characters(content, file)) is not None:
            raise wide
        return content, (*told, *_misread(content, file))
    try:
        text = content.decode(encoding)
        return text.removeprefix("\ufeff").encode(errors="surrogateescape"), told
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        number = content.count(b"\n", 0, start) + 1
        raise DataError(
            f"line {number} is not in {encoding}", file=file, fix="Name the encoding of the file: --encoding."
        ) from error


def _misread(content: bytes, file: str) -> tuple[str, ...]:
    """Return a remark where letters were read in another encoding than they were written in, before the file was."""
    found = _MISREAD.search(content)
    if found is None:
        return ()
    start = max(content.rfind(b"\n", 0, found.start()) + 1, found.start() - _NUM_AROUND)
    shown = content[start : found.end() + _NUM_AROUND].split(b"\n")[0].decode(errors="ignore")
    return (
        f"warning: {file}: letters such as those in {shown!r} were written as UTF-8 and read as something else before "
        "the file was saved: export it again",
    )


def utf8_fault(content: bytes) -> int | None:
    """The place of the first byte that is no UTF-8, None where there is none."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), _PIECE):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(content[start : start + _PIECE], final=start + _PIECE >= len(content))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None


def check_utf8(content: bytes, file: str, *, fix: str) -> None:
    """Raise DataError at the first line that is no UTF-8."""
    fault = utf8_fault(content)
    if fault is not None:
        number = content.count(b"\n", 0, fault) + 1
        raise other_encoding(content, file, fix=fix) or DataError(f"line {number} is not in UTF-8", file=file, fix=fix)


def other_encoding(content: bytes, file: str, *, fix: str) -> DataError | None:
    """The error of a file that is something else as a whole, None where it may be text with a faulty byte."""
    if content.startswith(b"\x1f\x8b"):
        return DataError("the file is packed with gzip", file=file, fix="Let its name end in .gz.")
    return _wide_characters(content, file)


def _wide_characters(content: bytes, file: str) -> DataError | None:
    """The error of a file in UTF-16 or UTF-32 that no mark of byte order names, None where it is in neither."""
    start = content[:_WIDE_START]
    columns = [start[place::4] for place in range(4)]
    is_zero = tuple(2 * column.count(0) > len(column) for column in columns)
    name = _WIDE.get(is_zero)
    if name is None:
        return None
    return DataError(
        f"the file is in {name[:6].upper()}, and not in UTF-8",
        file=file,
        fix=f"Give --encoding {name} (in Python ReadSettings), or save it in UTF-8.",
    )


def grown_blocks(read: Callable[[int], pa.Table], num_bytes: int) -> pa.Table:
    """Return the result of ``read`` with blocks that hold the longest row of the file.

    Args:
        read: takes the bytes of a block; arrow raises ArrowInvalid where a row is longer than that.
        num_bytes: of the file.
    """
    size = _BLOCK_BYTES
    while True:
        try:
            return read(size)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or size >= min(_LARGEST_BLOCK, num_bytes + 1):
                raise
            size = min(size * 8, _LARGEST_BLOCK)


def number_rows(
    file: str, content: bytes, sizes: NDArray[np.int64], *, num_headers: int, dropped: Collection[int] = ()
) -> None:
    """Tell the errors which line each row of the table is, where that is known exactly.

    Args:
        file: as errors name it.
        content: of the file.
        sizes: (rows of the file, headers and dropped ones included) how many lines each takes.
        num_headers: rows before the first one of the table.
        dropped: those rows of the file that the table lacks.
    """
    total = content.count(b"\n") + (not content.endswith(b"\n"))
    starts = 1 + np.cumsum(sizes) - sizes
    if int(sizes.sum()) != total:
        filled = np.array(filled_lines(content), np.int64)
        if (sizes != 1).any() or len(filled) != len(sizes):
            rows_are_lines(file, None)
            return
        starts = filled
    kept = np.setdiff1d(np.arange(num_headers, len(sizes)), np.array([*dropped], np.int64))
    lines = starts[kept]
    is_even = (lines == np.arange(len(lines)) + num_headers + 1).all()
    rows_are_lines(file, range(num_headers + 1, num_headers + 1 + len(lines)) if is_even else lines.tolist())


def filled_lines(content: bytes) -> list[int]:
    """The numbers, from 1, of the lines that are not blank."""
    return [number for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
