"""A transaction log to sets with histories by the command: its report, and mistakes as one sentence."""

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import large_files

NAMED = ("--user", "customer", "--item", "article", "--time", "date")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(0)
    rows = [
        {"customer": f"c{draw.randrange(40)}", "article": f"a{draw.randrange(25)}", "date": f"2020-01-{day:02}"}
        for day in range(1, 31)
        for _ in range(40)
    ]
    table = pa.Table.from_pylist(rows)
    ages = pa.array([20 + int(row["customer"][1:]) for row in rows])
    path = tmp_path_factory.mktemp("log") / "log.csv"
    pa_csv.write_csv(table.append_column("age", ages), path)
    return path


def test_a_log_becomes_sets_that_inspect_reads(command: Any, log: Path, tmp_path: Path) -> None:
    output = tmp_path / "sets.parquet"
    result = command("histories", "--log", log, *NAMED, "--max-history", 5, "--output", output)
    assert result.exit_code == 0, result.output
    table = pq.read_table(output)
    assert table.column_names == ["customer", "date", "items", "history", "history_times", "age", "part"]
    assert "1,200 rows of 40 users are" in result.stdout
    assert "histories cut to the newest 5 baskets" in result.stdout
    assert "from 2020-01-01 to 2020-01-30, read as dates: what a user has on one day is a basket" in result.stdout
    assert "carried along, one value for each user: age" in result.stdout
    words = f"inspect {output} --items items --customer customer --split-column part"
    assert f"contextual-bert {words}" in result.stderr
    result = command(*words.split(), "--exclude", "history,history_times", "--output", tmp_path / "schema.json")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--item", "artcle"), "Did you mean 'article'"),
        (("--user", "age", "--keep", "customr"), "Did you mean 'customer'"),
        (("--user", "age", "--time", "customer"), "is not a time"),
        (("--validation", "0.2"), "Give --split time"),
        (("--split", "tme"), "Did you mean 'time'"),
        (("--max-history", "0"), "--max-history 0 is too small"),
        (("--session-gap", "30", "--basket", "age"), "--session-gap 30"),
        (("--item", "customer"), "--item customer is the column of --user, too"),
        (("--output", "sets.csv"), "Give a file that ends in"),
        (("--output", "/proc/sets.parquet"), "/proc/sets.parquet"),
        (("--log", "nowhere.csv"), "there is no such file"),
    ],
)
def test_mistakes_are_a_sentence(
    command: Any, log: Path, tmp_path: Path, options: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("histories", "--log", log, *NAMED, "--output", "sets.parquet", *options)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert [*tmp_path.iterdir()] == []


def test_an_output_that_exists_is_kept(command: Any, log: Path, tmp_path: Path) -> None:
    output = tmp_path / "sets.parquet"
    output.write_text("mine")
    result = command("histories", "--log", log, *NAMED, "--output", output)
    assert result.exit_code == 2
    assert "exists already" in result.output and output.read_text() == "mine"
    assert command("histories", "--log", log, *NAMED, "--output", output, "--overwrite").exit_code == 0


def test_inspect_reads_the_first_rows_alone_of_a_large_log(
    command: Any, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_files, "_NUM_BYTES", 4_000)
    output = tmp_path / "schema.json"
    result = command("inspect", log, "--items", "article", "--output", output)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert re.search(rf"read the first \d+ rows of {re.escape(str(log))}, which is large", said)
    assert "most of 'customer' come at several times of 'date': a transaction log" in said
    assert f"histories --log {log} --user customer --item article --time date" in result.stderr
    assert not output.exists() and "no schema is written" in result.stderr and "train" not in result.stderr
    grouped = ("--group-by", "customer,date", "--duplicates", "drop")
    whole = command("inspect", log, "--items", "article", *grouped, "--output", output)
    assert whole.exit_code == 0, whole.output
    assert output.exists() and "which is large" not in whole.stdout


def test_inspect_proposes_the_command_for_a_log(command: Any, log: Path, tmp_path: Path) -> None:
    result = command("inspect", log, "--items", "article", "--on-bad-row", "drop", "--output", tmp_path / "schema.json")
    assert result.exit_code == 0, result.output
    assert "most of 'customer' come at several times of 'date': a transaction log" in " ".join(result.stdout.split())
    words = f"histories --log {log} --user customer --item article --time date --on-bad-row drop --output sets.parquet"
    assert f"contextual-bert {words}" in result.stderr
    result = command(*words.split()[:-1], tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
