from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import read_names
from contextual_bert.errors import DataError, UnknownNameError


def test_names_are_lines_or_a_column(tmp_path: Path) -> None:
    lines, csv, parquet = (tmp_path / name for name in ("names.txt", "names.csv", "names.parquet"))
    lines.write_bytes("\ufeff007\r\n\r\n  Zoë \r\n007\r\n".encode())
    csv.write_text("who,why\n007,asked\nZoë,asked\n", encoding="utf-8")
    pq.write_table(pa.table({"who": ["007", "Zoë"], "n": [1, 2]}), parquet)
    for path in (lines, csv, parquet):
        assert read_names(path, column="who") == ["007", "Zoë"]
    with pytest.raises(UnknownNameError, match="Did you mean 'who'"):
        read_names(csv, column="whom")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such file"), (b"\n \n", "no name"), (b"\xff\xfe\x00", "UTF-8")]
)
def test_a_file_without_names_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "names.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_names(path, column="who")
