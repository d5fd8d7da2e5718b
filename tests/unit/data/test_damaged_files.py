"""Files that are damaged at random: read, or refused with an error of ours, and never anything else."""

import bz2
import datetime
import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.context import encode_table, infer_schema
from contextual_bert.data import ReadSettings, SetPolicy, read_sets, read_table, table_digest
from contextual_bert.errors import ContextualBertError

NUM_DAMAGES = 45  # of each file; some seconds in all
ROWS = [
    {"items": ["a", str(n)], "x": n / 3, "day": f"2016-03-{n % 28 + 1:02}", "text": 'é"q,\n', "id": 10**17 + n}
    for n in range(25)
]
CELLS = [f'"a,{n}",{n / 3},2016-03-{n % 28 + 1:02},"é""q,\n",{10**17 + n}' for n in range(25)]
CSV = "\n".join(["items,x,day,text,id", *CELLS]).encode()
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
COLUMNS = json.dumps({name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ROWS[0]}).encode()
PIECES = (
    *(
        b'"',
        b",",
        b"\n",
        b"\r",
        b"[",
        b"]",
        b"{",
        b"}",
        b":",
        b"\\",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\t",
        b";",
        b"-",
    ),
    *(b"1e999", b"NaN", b"-Infinity", b"null", b"true", b'""', b"2016-02-30", b"\\ud800", b"\\u0000", b"\xe2\x80\xa8"),
    *(
        b"9" * 25,
        b"9" * 5000,
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'{"a":{"b":[{"c":1}]}}',
        b"9999-12-31T00:00:00+25:00",
    ),
)


def whole(tmp_path: Path, name: str) -> bytes:
    if name == "a.parquet":
        days = [datetime.datetime(2016, 3, n + 1, tzinfo=datetime.UTC) for n in range(25)]
        path = tmp_path / "whole.parquet"
        parquet.write_table(pa.Table.from_pylist(ROWS).append_column("when", pa.array(days)), path)
        return path.read_bytes()
    return {
        "a.csv": CSV,
        "a.tsv": CSV.replace(b",", b"\t"),
        "a.csv.gz": gzip.compress(CSV),
        "a.jsonl": LINES,
        "a.jsonl.bz2": bz2.compress(LINES),
        "a.json": json.dumps(ROWS, indent=1).encode(),
        "columns.json": COLUMNS,
        "a.ss": b"u1\t\tp1\t\t5\t\ttext <sssss> more\nu2\t\tp2\t\t3\t\tother\n" * 5,
    }[name]


def damaged(content: bytes, draw: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 4, 10])):
        place, way = draw.randrange(len(found) + 1), draw.randrange(6)
        if way <= 1:
            found[place:place] = draw.choice(PIECES)
        elif way == 2:
            del found[place : place + draw.choice([1, 2, 8, 100])]
        elif way == 3:
            found[place : place + 1] = bytes([draw.randrange(256)])
        elif way == 4:
            copied = draw.randrange(len(found) + 1)
            found[place:place] = found[copied : copied + draw.choice([1, 10, 200])]
        elif draw.random() < 0.3:
            del found[place:]
    return bytes(found)


@pytest.mark.parametrize(
    "name",
    ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.bz2", "a.json", "columns.json", "a.parquet", "a.ss"],
)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    draw, content, path = random.Random(name), whole(tmp_path, name), tmp_path / name
    path.write_bytes(content)
    assert read_table(path).num_rows > 0
    for number in range(NUM_DAMAGES):
        path.write_bytes(damaged(content, draw))
        settings = ReadSettings(on_bad_row="drop" if number % 2 else "error")
        try:
            table = read_table(path, code_columns=("id",), settings=settings)
            table_digest(table)
            if "items" in table.column_names:
                policy = SetPolicy(duplicates="keep")
                read_sets(table, items="items", policy=policy, file=str(path), on_bad_row=settings.on_bad_row)
            schema = infer_schema(table, exclude=["items"] if "items" in table.column_names else [], min_count=1).schema
            encode_table(schema, table, file=str(path))
        except ContextualBertError as error:
            assert str(error)
