r"""The files of the review corpora of MA-BERT and its predecessors: IMDB, Yelp-2013, Yelp-2014.

A line is `user \t\t product \t\t rating \t\t text`, its sentences joined by ` <sssss> `. It is split by hand: a reader
of CSV takes quotes for quotes, and "null" for nothing. It knows no tokenizer. Paper: MA-BERT (2021), section 3.
"""

import codecs
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.errors import DataError
from contextual_bert.places import rows_are_lines

__all__ = ["read_reviews", "reviews_of"]

COLUMNS = ("user", "product", "rating", "text")
SEPARATOR = "\t\t"
BETWEEN_SENTENCES = r"\s*<sssss>\s*"


def read_reviews(path: Path) -> pa.Table:
    r"""The reviews as columns user, product, rating (whole numbers as they stand, from 1) and text.

    ``read_table`` reads so what ends in .ss. Lines end in \n; other characters that Python takes for line ends may
    stand in a text.

    Raises:
        DataError: a line without four fields, a rating that is no whole number, a text that is empty or no UTF-8.
    """
    return reviews_of(path.read_bytes(), str(path))


def reviews_of(content: bytes, file: str) -> pa.Table:
    """`read_reviews` of the content of a file."""
    content = content.removeprefix(codecs.BOM_UTF8)
    rows_are_lines(file, range(1, content.count(b"\n") + 2))
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        row = error.object[: error.start].count(b"\n")
        raise DataError("the line is no UTF-8", file=file, row=row, fix="Save the file as UTF-8.") from error
    if lines and not lines[-1]:
        del lines[-1]
    fields = pc.split_pattern(
        pa.array([line.rstrip("\r") for line in lines], pa.large_string()), SEPARATOR, max_splits=3
    )
    counts = pc.list_value_length(fields)
    wrong = pc.index(pc.not_equal(counts, len(COLUMNS)), True).as_py()
    if wrong >= 0:
        raise DataError(
            f"{counts[wrong].as_py()} fields: {lines[wrong][:80]!r}",
            file=file,
            row=wrong,
            fix=f"A line has {', '.join(COLUMNS)}, with two tabs between them.",
        )
    columns = {name: pc.utf8_trim_whitespace(pc.list_element(fields, place)) for place, name in enumerate(COLUMNS)}
    for name, faulty, fix in (
        ("rating", pc.invert(pc.match_substring_regex(columns["rating"], "^[0-9]{1,9}$")), "Give a whole number."),
        ("text", pc.equal(columns["text"], ""), "Leave the line out."),
    ):
        row = pc.index(faulty, True).as_py()
        if row >= 0:
            raise DataError(f"{columns[name][row].as_py()!r} is no {name}", file=file, row=row, column=name, fix=fix)
    columns["rating"] = columns["rating"].cast(pa.int64())
    columns["text"] = pc.utf8_trim_whitespace(pc.replace_substring_regex(columns["text"], BETWEEN_SENTENCES, " "))
    return pa.table(columns)
