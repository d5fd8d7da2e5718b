"""Values of single customers, of sensitive features and of this machine: what leaves with a run, and what does not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from tests.end_to_end.conftest import CommandLine

PEOPLE, EACH = 60, 20
FAITHS = ("pastafarian", "discordian", "jedi")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 20 sets of each of 60 people, in a folder whose name nobody else has."""
    found = tmp_path_factory.mktemp("home-of-ann")
    generator = np.random.default_rng(0)
    people = np.repeat(np.arange(PEOPLE), EACH)
    salaries = np.round(generator.lognormal(10.8, 0.4, PEOPLE), 2)
    table = {
        "items": [[f"item {number}" for number in generator.permutation(8)[:3]] for _ in people],
        "person": [f"p{each:03}" for each in people],
        "email": [f"p{each:03}@example.org" for each in people],
        "faith": [FAITHS[each % 3] for each in people],
        "town": ["village" if each < 4 else f"town {each % 2}" for each in people],
        "salary": salaries[people],
    }
    pq.write_table(pa.table(table), found / "sets.parquet")
    return found


@pytest.fixture(scope="module")
def run(folder: Path, command: CommandLine) -> Path:
    output = folder / "run"
    options = ["--items", "items", "--customer", "person", *command.small[4:]]
    done = command("train", folder / "sets.parquet", *options, "--sensitive", "faith", "--output", output)
    assert done.exit_code == 0, done.output
    assert "context 'faith': sensitive, values withheld" in done.output
    assert "Membership: the loss is" in done.output
    for faith in FAITHS:
        assert faith not in done.output
    return output


def texts_of(run: Path, *names: str) -> dict[str, str]:
    return {name: (run / name).read_text(encoding="utf-8") for name in names}


def test_no_file_of_a_run_holds_a_value_of_a_single_customer(run: Path, folder: Path) -> None:
    salaries = {f"{value:g}" for value in pq.read_table(folder / "sets.parquet")["salary"].to_pylist()}
    found = 0
    for path in (each for each in run.rglob("*") if each.is_file()):
        content, found = path.read_bytes(), found + 1
        assert b"example.org" not in content and b"village" not in content, path
    assert found > 10
    schema = ContextSchema.load(run / "schema.json")
    assert "email" not in schema.names
    assert not {f"{edge:g}" for edge in schema.feature("salary").edges} & salaries  # pyright: ignore[reportAttributeAccessIssue]


def test_values_of_a_sensitive_feature_stand_in_the_schema_alone(run: Path) -> None:
    schema = ContextSchema.load(run / "schema.json")
    assert schema.feature("faith").sensitive
    assert schema.feature("faith").values == tuple(sorted(FAITHS))  # pyright: ignore[reportAttributeAccessIssue]
    texts = texts_of(run, "README.md", "metrics.json", "split.json", "history.json", "config.json")
    for name, text in texts.items():
        assert not any(faith in text for faith in FAITHS), name
    assert "sensitive, values withheld" in texts["README.md"]
    assert not [each for each in json.loads(texts["metrics.json"])["test"]["segments"] if each["feature"] == "faith"]


def test_the_card_names_no_folder_and_says_what_the_run_is_for(run: Path, folder: Path) -> None:
    card = (run / "README.md").read_text(encoding="utf-8")
    assert str(folder) not in card and folder.name not in card
    assert "\npipeline_tag: fill-mask\n" in card and "base_model" not in card
    assert "- table: sets.parquet" in card


def test_the_losses_of_training_and_test_are_compared(run: Path) -> None:
    gap = json.loads((run / "metrics.json").read_text())["test"]["membership"]
    assert gap["part"] == "test"
    assert gap["gap_nats"]["value"] == pytest.approx(gap["evaluated_nats"] - gap["training_nats"])
    assert gap["gap_nats"]["low"] < gap["gap_nats"]["value"] < gap["gap_nats"]["high"]
    assert gap["gap_nats"]["num_clusters"] > 30
    metrics: Any = json.loads((run / "metrics.json").read_text())["test"]["metrics"]
    assert gap["evaluated_nats"] == metrics["cross_entropy_nats"]["value"]


def test_inspect_marks_and_counts_as_train_does(folder: Path, command: CommandLine, run: Path) -> None:
    output = folder / "schema.json"
    options = ["--items", "items", "--customer", "person", "--output", output]
    found = command("inspect", folder / "sets.parquet", *options, "--sensitive", "faith")
    assert found.exit_code == 0, found.output
    assert "no value is that of 10 customers" in " ".join(found.output.split())
    assert ContextSchema.load(output) == ContextSchema.load(run / "schema.json")
    wrong = command("inspect", folder / "sets.parquet", *options, "--sensitive", "fiath", "--overwrite")
    assert wrong.exit_code == 2 and "Did you mean 'faith'" in " ".join(wrong.output.split())
    asked = command("inspect", folder / "sets.parquet", *options, "--override", "person=categorical", "--overwrite")
    assert asked.exit_code == 0, asked.output
    assert "holds the ids of customers" in " ".join(asked.output.split()).replace("\n", " ")
    assert len(ContextSchema.load(output).feature("person").values) > 30  # pyright: ignore[reportAttributeAccessIssue]
    small = [*command.small[4:], "--schema", output, "--field-selection", "off", "--output", folder / "ids"]
    done = command("train", folder / "sets.parquet", *options[:4], *small)
    assert done.exit_code == 0, done.output
    assert "fewer than 10 customers each, and the run holds every one" in " ".join(done.output.split())


def test_a_customer_is_left_out_of_a_split_and_of_what_is_trained_by_it(folder: Path, command: CommandLine) -> None:
    data, names, split = folder / "sets.parquet", folder / "removed.txt", folder / "split.json"
    names.write_text("p004\np005\n")
    made = command("split", data, "--by", "person", "--exclude-customers", names, "--output", split)
    assert made.exit_code == 0, made.output
    assert "left out: 2 customers with 40 rows, in no part" in made.output
    people = np.array(pq.read_table(data)["person"].to_pylist())
    assert set(people[Split.load(split).assignment == 3]) == {"p004", "p005"}
    options = ["--items", "items", "--customer", "person", *command.small[4:], "--split", split]
    done = command("train", data, *options, "--output", folder / "without")
    assert done.exit_code == 0, done.output
    assert "in no part: 40 rows" in done.output
    asked = command("evaluate", folder / "without", "--part", "all", "--format", "json", "--device", "cpu")
    assert json.loads(asked.stdout)["num_rows"] == 3 * (PEOPLE * EACH - 40), asked.output
    told = command("evaluate", folder / "without", "--part", "all", "--device", "cpu")
    assert "left out: 40 rows that are in no part of the split" in " ".join(told.output.split())
    names.write_text("p004\nnobody\n")
    wrong = command("split", data, "--by", "person", "--exclude-customers", names, "--output", folder / "no.json")
    assert wrong.exit_code == 2 and "has no customer 'nobody'" in " ".join(wrong.output.split())
    assert not (folder / "no.json").exists()
    unnamed = command("split", data, "--by-row", "--exclude-customers", names, "--output", folder / "no.json")
    assert unnamed.exit_code == 2 and "--customer COLUMN" in unnamed.output


def test_the_fewest_customers_of_a_value_are_a_setting(folder: Path, command: CommandLine, tmp_path: Path) -> None:
    columns = ("--items", "items", "--customer", "person")
    for number, values in ((4, {"town 0", "town 1", "village"}), (5, {"town 0", "town 1"})):
        schema = tmp_path / f"{number}.json"
        options = ("--min-customers", number, "--output", schema)
        found = command("inspect", folder / "sets.parquet", *columns, *options)
        assert found.exit_code == 0, found.output
        assert {*ContextSchema.load(schema).feature("town").vocabulary.values} == values  # pyright: ignore[reportAttributeAccessIssue]
    refused = command("train", folder / "sets.parquet", *columns, "--min-customers", 0, "--output", tmp_path / "run")
    assert refused.exit_code == 2
