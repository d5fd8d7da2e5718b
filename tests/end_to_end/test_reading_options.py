"""How a file is read is said once, to inspect, split or train, and kept for what comes after."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

VERSIONS = ("10.1", "10.10", "9.2", "9.20")
OPTIONS = ("--delimiter", "|", "--separator", ";", "--on-bad-row", "drop", "--date-format", "%d/%m/%Y %H:%M:%S")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two delimiters in the header, days below 13 alone, codes, and two broken rows of 242."""
    days = [f"{n % 12 + 1:02}/{n % 11 + 1:02}/20{10 + n % 4} 14:09:05" for n in range(240)]
    rows = [f"coat-{n % 3};hat-{n % 4}|{VERSIONS[n % 4]}|{1000 + n % 60}|{day}" for n, day in enumerate(days)]
    found = tmp_path_factory.mktemp("reading") / "days.csv"
    found.write_text("\n".join(["items|version|who;ever|day", *rows[:5], "torn", *rows[5:], "a|b|c|d|e"]) + "\n")
    return found


@pytest.fixture(scope="module")
def schema(command: Any, path: Path) -> Path:
    output = path.with_name("schema.json")
    named = ("--items", "items", "--customer", "who;ever", "--override", "version=categorical")
    result = command("inspect", path, *named, *OPTIONS, "--output", output)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "rows left out as broken: 2 with more or fewer cells than the header" in said
    line = " ".join(result.output.split())
    assert "--delimiter '|' --on-bad-row drop --date-format '%d/%m/%Y %H:%M:%S'" in line
    return output


def test_codes_and_dates_are_features_as_written(schema: Path) -> None:
    features = {each["name"]: each for each in json.loads(schema.read_text())["features"]}
    assert tuple(features["version"]["values"]) == VERSIONS
    assert features["day_month"]["date_format"] == "%d/%m/%Y %H:%M:%S"


def test_a_run_keeps_how_its_file_is_read(command: Any, path: Path, schema: Path, tmp_path: Path) -> None:
    split, run = tmp_path / "split.json", tmp_path / "run"
    made = command("split", path, "--by", "who;ever", "--items", "items", *OPTIONS[:6], "--output", split)
    assert made.exit_code == 0, made.output
    small = [each for each in command.small if each not in ("--customer", "customer_id")]
    named = ("--customer", "who;ever", "--schema", schema, "--split", split, "--conditioning", "concat")
    trained = command("train", path, *small, *named, *OPTIONS, "--output", run)
    assert trained.exit_code == 0, trained.output
    reading = json.loads((run / "recipe.json").read_text())["recipe"]["reading"]
    given = {name: value for name, value in reading.items() if value}
    assert given == {"delimiter": "|", "on_bad_row": "drop", "date_formats": ["%d/%m/%Y %H:%M:%S"]}
    evaluated = command("evaluate", run, "--device", "cpu")
    assert evaluated.exit_code == 0, evaluated.output
    said = " ".join(evaluated.output.split())
    assert "the split that the run was trained with" in said
    assert "never saw" not in said
    out = tmp_path / "out"
    completed = command("complete", run, "--data", path, "--output", out, "--keep", "version", "--device", "cpu")
    assert completed.exit_code == 0, completed.output
    assert "unknown" not in completed.output
    assert "240 sets" in completed.output
    asked = {"version": "10.10", "day": "03/04/2012 10:00:00"}
    answer = command("complete", run, "--set", "coat-1;[MASK]", "--context", json.dumps(asked), "--format", "json")
    assert answer.exit_code == 0, answer.output
    assert "never seen" not in answer.output


def test_a_format_that_fits_no_column_is_an_error(command: Any, path: Path, tmp_path: Path) -> None:
    options = (*OPTIONS[:-1], "%d-%m-%Y")
    result = command("inspect", path, "--items", "items", *options, "--output", tmp_path / "s.json")
    assert result.exit_code == 2
    assert "--date-format %d-%m-%Y is the form of no column" in " ".join(result.stderr.split())


def test_a_time_that_may_be_two_days_names_the_option(command: Any, path: Path, tmp_path: Path) -> None:
    options = ("--by-time", "day", "--delimiter", "|", "--on-bad-row", "drop", "--output", tmp_path / "s.json")
    result = command("split", path, *options)
    assert result.exit_code == 2
    assert "may be two days" in result.stderr
    assert "--date-format" in result.stderr
    assert command("split", path, *options, "--date-format", "%d/%m/%Y %H:%M:%S").exit_code == 0


def test_vectors_that_were_printed_into_a_csv_are_trained_and_evaluated(command: Any, tmp_path: Path) -> None:
    cells = [f'"i{n % 5},i{n % 3 + 5}",c{n % 40},"[{n % 7 / 7:.3f}, {n % 5 / 5 - 0.3:.3f}]"' for n in range(200)]
    path = tmp_path / "vectors.csv"
    path.write_text("\n".join(["items,customer,vector", *cells]) + "\n")
    run = tmp_path / "run"
    trained = command("train", path, *small_of(command), "--output", run)
    assert trained.exit_code == 0, trained.output
    evaluated = command("evaluate", run, "--data", path, "--device", "cpu")
    assert evaluated.exit_code == 0, evaluated.output


@pytest.mark.parametrize("stray", [1e30, 1.7e18])
def test_a_number_of_the_context_is_no_name_however_large(command: Any, tmp_path: Path, stray: float) -> None:
    sets = [["a", "b"], ["b", "c"], ["a", "c"]]
    columns = {
        "items": [sets[n % 3] for n in range(200)],
        "customer": [f"c{n % 40}" for n in range(200)],
        "income": [stray if n == 3 else 1000.0 + n // 3 % 90 for n in range(200)],
    }
    path = tmp_path / "incomes.parquet"
    pq.write_table(pa.table(columns), path)
    inspected = command("inspect", path, *small_of(command)[:4], "--output", tmp_path / "schema.json")
    assert inspected.exit_code == 0, inspected.output
    assert "stands out" in " ".join(inspected.stdout.split())
    split = command("split", path, "--by", "customer", "--items", "items", "--output", tmp_path / "split.json")
    assert split.exit_code == 0, split.output
    trained = command("train", path, *small_of(command), "--output", tmp_path / "run")
    assert trained.exit_code == 0, trained.output


GERMAN = ("--delimiter", "|", "--decimal", ",", "--date-format", "%d.%m.%Y", "--missing-value", "paid=none")


@pytest.fixture(scope="module")
def spellings(command: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A run; a table of the same spelling; and the same rows as a German spreadsheet writes them."""
    folder = tmp_path_factory.mktemp("spellings")
    rows = [(f"i{n % 5};i{n % 7 + 5}", f"c{n % 40}", f"{n % 90 + n % 4 / 4:.2f}", n % 12 + 1) for n in range(240)]
    plain, german = folder / "plain.csv", folder / "german.csv"
    cells = [",".join((s, c, "" if n % 30 == 0 else p, f"2016-{m:02}-05")) for n, (s, c, p, m) in enumerate(rows)]
    plain.write_text("\n".join(["items,customer,paid,day", *cells]) + "\n")
    paid = ["none" if n % 30 == 0 else p.replace(".", ",") for n, (_, _, p, _) in enumerate(rows)]
    cells = ["|".join((s, c, p, f"05.{m:02}.2016")) for (s, c, _, m), p in zip(rows, paid, strict=True)]
    german.write_text("\n".join(["items|customer|paid|day", *cells]) + "\n")
    options = ("--separator", ";", "--conditioning", "concat", "--output", folder / "run")
    trained = command("train", plain, *small_of(command), *options)
    assert trained.exit_code == 0, trained.output
    return folder / "run", plain, german


def test_another_spelling_of_the_same_rows_is_evaluated_and_completed_alike(
    command: Any, spellings: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    run, plain, german = spellings
    ways = {"plain": (plain, ()), "german": (german, GERMAN)}
    found: dict[str, Any] = {}
    for name, (path, options) in ways.items():
        common = ("--data", path, *options, "--device", "cpu")
        part = ("--part", "all") if name == "plain" else ()
        evaluated = command("evaluate", run, *common, *part, "--format", "json")
        assert evaluated.exit_code == 0, evaluated.output
        attributed = command("importance", run, *common, *part, "--format", "json")
        assert attributed.exit_code == 0, attributed.output
        completed = command("complete", run, *common, "--output", tmp_path / name)
        assert completed.exit_code == 0, completed.output
        report, features = json.loads(evaluated.stdout), json.loads(attributed.stdout)
        rows = pq.read_table(tmp_path / name / "part-00000.parquet").to_pylist()
        found[name] = (report["metrics"], [each["feature"] for each in features["rows"]], rows)
    assert found["german"] == found["plain"]


@pytest.mark.parametrize("name", ["evaluate", "importance"])
def test_how_a_file_is_written_needs_a_file(command: Any, spellings: tuple[Path, Path, Path], name: str) -> None:
    result = command(name, spellings[0], "--decimal", ",")
    assert result.exit_code == 2
    assert "--decimal says how the file of --data is written" in result.stderr


def test_a_cell_that_cannot_be_read_so_is_named(command: Any, spellings: tuple[Path, Path, Path]) -> None:
    result = command("evaluate", spellings[0], "--data", spellings[2], *GERMAN[:-2], "--device", "cpu")
    assert result.exit_code == 2
    assert "line 2, column 'paid': 'none' is not a number" in " ".join(result.stderr.split())


def test_prices_of_a_catalogue_are_read_as_said(
    command: Any, spellings: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    run, plain, _ = spellings
    shop = tmp_path / "shop.csv"
    shop.write_text("id;price\n" + "".join(f"i{n};1.0{n:02},50\n" for n in range(12)), encoding="cp1252")
    reading = ("--catalogue", shop, "--delimiter", ";", "--decimal", ",", "--encoding", "cp1252")
    common = ("--max-price", "1003,5", "--device", "cpu")
    one = command("complete", run, "--set", "i7;[MASK]", *reading, *common, "--format", "json")
    assert one.exit_code == 0, one.output
    [slot] = json.loads(one.stdout)["slots"]
    assert {each["item"] for each in slot["candidates"]} == {"i0", "i1", "i2", "i3"}
    plain = plain.with_name("semicolons.csv")
    plain.write_text('items;customer;paid;day\n"i1;i7";c1;70,46;2016-01-05\n')
    many = command("complete", run, "--data", plain, *reading, *common, "--output", tmp_path / "out")
    assert many.exit_code == 0, many.output
    [row] = pq.read_table(tmp_path / "out" / "part-00000.parquet").to_pylist()
    assert {*row["candidates"]} == {"i0", "i2", "i3"}
    wrong = command("complete", run, "--set", "i7;[MASK]", *reading[:4], "--max-price", 1003.5, *common[2:])
    assert wrong.exit_code == 2
    assert "--decimal ','" in wrong.stderr


def small_of(command: Any) -> tuple[Any, ...]:
    return ("--items", "items", "--customer", "customer", *command.small[4:])
