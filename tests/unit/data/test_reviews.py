"""Reviews in the format of the IMDB and Yelp corpora: split by hand, nothing lost, faults named."""

from pathlib import Path

import pytest

from contextual_bert.data import read_reviews, read_table
from contextual_bert.errors import DataError

LINES = [
    "ur001/\t\ttt0111\t\t10\t\ta \" quoted ' film <sssss> it 's n't bad <sssss>",
    "null\t\tNA\t\t1\t\tnull",
    "ur003/\t\ttt0112\t\t7\t\ttwo tabs\t\there <sssss>second\u2028part , caf\u00e9 !",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "imdb.train.txt.ss"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def test_columns_come_as_they_stand(path: Path) -> None:
    assert read_table(path).to_pydict() == {
        "user": ["ur001/", "null", "ur003/"],
        "product": ["tt0111", "NA", "tt0112"],
        "rating": [10, 1, 7],
        "text": ["a \" quoted ' film it 's n't bad", "null", "two tabs\t\there second\u2028part , caf\u00e9 !"],
    }


def test_the_last_line_may_lack_its_end_and_windows_its_own(path: Path) -> None:
    expected = read_reviews(path)
    path.write_text("\r\n".join(LINES), "utf-8", newline="")
    assert read_reviews(path).equals(expected)


def test_a_mark_of_byte_order_is_no_name(path: Path) -> None:
    expected = read_reviews(path)
    path.write_text("\n".join(LINES), "utf-8-sig")
    assert read_reviews(path).equals(expected)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ur004/\t\ttt0113\t\t5", r"line 4: 3 fields: .*with two tabs between them"),
        ("", "line 4: 1 fields"),
        ("ur004/\t\ttt0113\t\t4.5\t\tfine", "line 4, column 'rating': '4.5' is no rating"),
        ("ur004/\t\ttt0113\t\t\t\tfine", "line 4, column 'rating': '' is no rating"),
        ("ur004/\t\ttt0113\t\t4\t\t ", "line 4, column 'text': '' is no text"),
    ],
)
def test_faults_are_named(line: str, message: str, path: Path) -> None:
    path.write_text("\n".join([*LINES, line, LINES[0]]) + "\n", "utf-8")
    with pytest.raises(DataError, match=rf"imdb.train.txt.ss, {message}"):
        read_reviews(path)


def test_another_encoding_is_named(path: Path) -> None:
    path.write_bytes(path.read_bytes() + "ur004/\t\ttt0113\t\t4\t\tcaf\u00e9".encode("latin-1"))
    with pytest.raises(DataError, match="line 4: the line is no UTF-8"):
        read_reviews(path)


def test_an_empty_file_is_one(path: Path) -> None:
    path.write_text("", "utf-8")
    with pytest.raises(DataError, match="the file is empty"):
        read_table(path)
