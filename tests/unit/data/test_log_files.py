"""A log in blocks is the log as a whole: rows, types of columns, and the lines that errors name."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.data.logs.log_files import LogFiles
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.errors import DataError, UnknownNameError

TEXT = 'who,what,note\n1,"a ""b""","two\nlines, and a comma"\n2,c,\n3,"d\n",5" pipe\n4,e,x\n'


def rows_of(path: Path, *, block_bytes: int, settings: ReadSettings | None = None) -> list[dict[str, object]]:
    files = LogFiles(path, settings or ReadSettings(), block_bytes=block_bytes)
    return [row for batch in files.batches(("who", "what"), None) for row in batch.table.to_pylist()]


@pytest.mark.parametrize("block_bytes", [1, 10, 30, 64, 10_000])
def test_csv_is_cut_between_rows(tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "log.csv"
    path.write_text(TEXT)
    whole = rows_of(path, block_bytes=10**6)
    assert len(whole) == 4 and whole[0]["note"] == "two\nlines, and a comma"
    assert rows_of(path, block_bytes=block_bytes) == whole


@pytest.mark.parametrize("block_bytes", [10, 10_000])
def test_files_of_text_in_blocks(tmp_path: Path, block_bytes: int) -> None:
    expected = [{"who": "1", "what": "ä"}, {"who": "2", "what": "b"}]
    text = "who;what\n1;ä\n2;b\n"
    contents = {
        "a.csv": text.encode(),
        "b.csv": b"\xef\xbb\xbf" + text.encode(),
        "c.csv.gz": gzip.compress(text.encode()),
        "d.csv": text.encode("utf-16"),
        "e.csv": b"sep=;\n" + text.encode(),
        "f.csv": text.replace("\n", "\r\n").encode(),
        "g.tsv": text.replace(";", "\t").encode(),
        "h.jsonl": '{"who": "1", "what": "ä"}\n{"who": "2", "what": "b"}\n'.encode(),
        "i.json": '[{"who": "1", "what": "ä"}, {"who": "2", "what": "b"}]'.encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert rows_of(tmp_path / name, block_bytes=block_bytes) == expected, name
    (tmp_path / "j.csv").write_bytes(text.encode("cp1252"))
    found = rows_of(tmp_path / "j.csv", block_bytes=block_bytes, settings=ReadSettings(encoding="cp1252"))
    assert found == expected
    with pytest.raises(DataError, match="not in UTF-8"):
        rows_of(tmp_path / "j.csv", block_bytes=block_bytes)


@pytest.mark.parametrize("block_bytes", [8, 10_000])
def test_errors_name_the_line_of_the_file(tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,what\n" + "1,a\n" * 20 + "2\n" + "3,b\n")
    with pytest.raises(DataError) as caught:
        rows_of(path, block_bytes=block_bytes)
    assert caught.value.row == 20
    assert "line 22" in str(caught.value)
    files = LogFiles(path, ReadSettings(on_bad_row="drop"), block_bytes=block_bytes)
    assert sum(batch.table.num_rows for batch in files.batches(("who",), ())) == 21
    assert files.notes.lines() == ["rows left out as broken: 1 with more or fewer cells than the header"]


def test_an_open_quote_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('who,what\n1,a\n2,"b\n3,c\n')
    with pytest.raises(DataError, match="never closed"):
        rows_of(path, block_bytes=8)


def test_each_file_of_a_folder_needs_the_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": [1], "what": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"who": [1], "waht": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(UnknownNameError, match="Did you mean 'waht'") as caught:
        rows_of(tmp_path, block_bytes=100)
    assert "b.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.parquet", b"", "empty"),
        ("b.parquet", b"PAR1 and no more", "not a whole Parquet file"),
        ("c.csv", b"", "empty"),
        ("d.csv", b"who,what\n", "no rows"),
        ("e.csv.gz", b"who,what\n1,a\n", "not packed"),
        ("f.txt", b"who,what\n1,a\n", "are not read"),
        ("g.csv", b"who,who\n1,a\n", "more than once"),
    ],
)
def test_broken_files_are_told(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        rows_of(tmp_path / name, block_bytes=100)


def test_a_large_parquet_file_comes_in_blocks(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": range(1000), "what": range(1000)}), tmp_path / "log.parquet")
    files = LogFiles(tmp_path / "log.parquet", block_rows=300)
    batches = [*files.batches(("who",), ())]
    assert [batch.first_row for batch in batches] == [0, 300, 600, 900]
    assert files.about_rows() == 1000
