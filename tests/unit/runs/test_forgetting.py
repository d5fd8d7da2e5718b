"""After forget no file of a run holds the id, her rows are in no part, and what stays is named."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

from contextual_bert import CompletionPipeline
from contextual_bert.data import Split
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.evaluation.answer_calibration import AnswerCalibration
from contextual_bert.inference.saved_files import check_files
from contextual_bert.manifest import RESULT_FILES, check_manifest, digest_of, weights_digest
from contextual_bert.runs import evaluate_run, forgetting, run
from contextual_bert.runs.calibrating import calibrate_run
from contextual_bert.runs.forgetting import CustomerTables, forget, plan_of, runs_in
from contextual_bert.runs.report_files import write_calibrated, write_report
from contextual_bert.runs.run_directory import load_run, load_scores
from contextual_bert.training import Classification, Recipe, SetCompletion
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PEOPLE, EACH, WHO = 6, 100, "custo005x"
KINDS = ("named", "context", "history", "texts", "counted")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    people = np.repeat(np.arange(PEOPLE), EACH)
    columns = {
        "items": [[f"item {each}" for each in draw.permutation(8)[:3]] for _ in people],
        "history": [[[f"item {each}" for each in draw.permutation(8)[:2]]] for _ in people],
        "said": [
            f"a {'fine' if each else 'poor'} word{draw.integers(9)}" for each in draw.integers(2, size=len(people))
        ],
        "verdict": [f"{each}" for each in draw.integers(2, size=len(people))],
        "person": [f"custo{each:03}x" for each in people],
        "town": [f"town {each % 2}" for each in people],
    }
    path = tmp_path_factory.mktemp("forget") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def made(table: Path) -> dict[str, Path]:
    """A run of each kind, with the reports that commands write beside it."""
    sets, texts = ("said", "verdict"), ("items", "history")
    small: dict[str, Any] = {"model": SIZES, "training": {"num_train_epochs": 1}, "device": "cpu"}
    shared: dict[str, Any] = {"data": str(table), "field_selection": "off"}
    task = SetCompletion(items="items")
    text_task = Classification(text="said", label="verdict")
    recipes = {
        "named": Recipe(
            task=task, customer="person", split_by="row", min_customers=1, exclude=("history", *sets), **shared, **small
        ),
        "context": Recipe(task=task, exclude=("history", *sets), conditioning="concat", **shared, **small),
        "history": Recipe(task=SetCompletion(items="items", hide="set"), exclude=sets, **shared, **small),
        "texts": Recipe(
            task=text_task,
            exclude=texts,
            conditioning="ngrams_context",
            **shared,
            device="cpu",
            training={"num_train_epochs": 1},
        ),
        "counted": Recipe(
            task=task, exclude=("history", *sets), conditioning="context_popularity", **shared, device="cpu"
        ),
    }
    found = {name: table.parent / "runs" / name for name in recipes}
    for name, recipe in recipes.items():
        run(recipe, found[name], is_quiet=True)
        if name != "counted":
            write_report(evaluate_run(found[name], part="test"), found[name] / "evaluation")
    for name in ("context", "texts"):
        calibrated = calibrate_run(found[name], field="person", min_rows=10)
        assert calibrated.answers is not None
        write_calibrated(calibrated.answers, found[name] / "calibration")
    return found


@pytest.fixture
def copy(made: dict[str, Path], tmp_path: Path) -> Iterator[dict[str, Path]]:
    yield {name: Path(shutil.copytree(path, tmp_path / "runs" / name)) for name, path in made.items()}


def forgotten(run_: Path, customer: str = WHO) -> forgetting.ForgetPlan:
    plan = plan_of(run_, CustomerTables(customer), column="person", others=[run_.parent])
    forget(plan)
    return plan


def holders(folder: Path, name: str = WHO) -> list[Path]:
    """Files below a folder that hold the id, in bytes or in a cell."""
    found = [path for path in folder.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]
    tables = [path for path in folder.rglob("*.parquet") if name in str(pq.read_table(path).to_pydict())]
    return [*found, *tables]


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_a_run_holds_the_id_afterwards(copy: dict[str, Path], kind: str, table: Path) -> None:
    directory, before = copy[kind], digest_of(table)
    held = holders(directory)
    assert bool(held) == (kind != "named")
    if kind in ("context", "history", "texts"):  # so that the walk finds what it looks for
        names = {path.name for path in held}
        assert {"schema.json", "recipe.json", "README.md", "metrics.json", "report.md", "report.json"} <= names
    forgotten(directory)
    assert holders(directory) == [] and holders(directory, "custo004x" if kind != "named" else "town 0") != []
    assert digest_of(table) == before
    check_files(directory)
    check_manifest(directory, RESULT_FILES)
    rows = np.array(pq.read_table(table)["person"].to_pylist()) == WHO
    split = Split.load(directory / "split.json")
    assert (split.assignment[rows] == 3).all() and (split.assignment[~rows] < 3).all()
    scores, clusters = load_scores(directory / "test_scores.safetensors")
    assert len(scores) > 0 and not rows[scores.example_id].any()
    assert clusters is None or len(clusters) == len(scores)
    load_run(directory, name=kind)
    again = forgotten(directory)
    assert again.traces.is_forgotten and not again.traces.has_data


def test_the_vector_of_the_id_is_that_of_unknown_values(copy: dict[str, Path]) -> None:
    directory = copy["context"]
    key = "bert.context_encoder.features.person.weight"
    before, schema = load_file(directory / "model.safetensors"), json.loads((directory / "schema.json").read_text())
    values = next(each for each in schema["features"] if each["name"] == "person")["values"]
    place = 2 + values.index(WHO)
    forgotten(directory)
    after = load_file(directory / "model.safetensors")
    assert not np.array_equal(before[key][place], before[key][1])
    assert np.array_equal(after[key][place], before[key][1])
    assert np.array_equal(np.delete(after[key], place, axis=0), np.delete(before[key], place, axis=0))
    assert all(np.array_equal(after[name], before[name]) for name in before if name != key)
    pipeline = CompletionPipeline.from_pretrained(directory)
    asked: list[Any] = [
        {"items": ["item 1", "[MASK]"], "context": {"person": name, "town": "town 1"}} for name in (WHO, "never seen")
    ]
    answers: Any = [pipeline(query) for query in asked]
    assert answers[0]["slots"] == answers[1]["slots"]


def test_what_was_chosen_for_the_weights_still_goes_with_them(copy: dict[str, Path]) -> None:
    directory = copy["context"]
    forgotten(directory)
    found = AnswerCalibration.from_run(directory, weights=weights_digest(directory))
    assert found is not None and WHO not in found.temperatures and "custo004x" in found.temperatures


def test_a_plan_changes_nothing_and_names_files_rows_and_what_stays(copy: dict[str, Path]) -> None:
    directory = copy["context"]
    before = {path: digest_of(path) for path in directory.rglob("*") if path.is_file()}
    plan = plan_of(directory, CustomerTables(WHO), column="person")
    assert {path: digest_of(path) for path in directory.rglob("*") if path.is_file()} == before
    traces = plan.traces
    assert traces.rows is not None and sum(traces.rows.values()) == EACH
    assert {path.relative_to(directory).as_posix() for path in holders(directory)} <= {
        each.partition(":")[0] for each in traces.removed
    } | {path.relative_to(directory).as_posix() for path in (directory / "checkpoints").rglob("*")}
    assert WHO not in json.dumps(traces.to_dict())
    assert any("learned from the rows" in each for each in traces.kept)
    others = plan_of(directory, CustomerTables("nobody"), column="person").traces
    assert not others.has_data and others.kept == ()


def test_a_write_that_fails_leaves_the_run_as_it_was(copy: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = copy["context"]
    before = {path: digest_of(path) for path in directory.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(forgetting, "_reset_rows", full)
    with pytest.raises(OSError, match="No space"):
        forgotten(directory)
    assert {path: digest_of(path) for path in directory.rglob("*") if path.is_file()} == before


def test_tables_exports_and_other_columns_stay_and_are_named(copy: dict[str, Path], tmp_path: Path) -> None:
    directory = copy["context"]
    pq.write_table(pa.table({"rows": [[WHO], ["b"]], "n": [1, 2]}), directory / "answers.parquet")
    (directory / "notes.txt").write_text(f"{WHO} called.\n")
    export = tmp_path / "runs" / "onnx"
    export.mkdir()
    (export / "export.json").write_text(json.dumps({"run": {"folder": "../context", "files": {}}}))
    on = json.loads((copy["named"] / "recipe.json").read_text())
    on["recipe"]["task"]["init_from"] = str(directory)
    (copy["named"] / "recipe.json").write_text(json.dumps(on))
    kept = forgotten(directory).traces.kept
    for name in ("answers.parquet", "notes.txt"):
        assert any(each.startswith(name) and "see to it yourself" in each for each in kept)
    assert f"{export}: an export of this run" in kept
    assert f"{copy['named']}: a run that started from this one" in kept
    assert (directory / "notes.txt").read_text() == f"{WHO} called.\n"


def test_a_table_that_is_gone_or_another_leaves_the_rows_unknown(copy: dict[str, Path], tmp_path: Path) -> None:
    directory, other = copy["context"], tmp_path / "other.parquet"
    table = json.loads((directory / "recipe.json").read_text())["recipe"]["data"]
    pq.write_table(pq.read_table(table).slice(1), other)
    found = plan_of(directory, CustomerTables(WHO, other), column="person").traces
    assert found.rows is None and "another table" in found.why_unknown and found.has_data
    gone = plan_of(directory, CustomerTables(WHO, tmp_path / "no.parquet"), column="person")
    assert gone.traces.rows is None and "no.parquet" in gone.traces.why_unknown
    forget(gone)
    assert [path for path in holders(directory) if "checkpoints" not in path.parts] == []


def test_an_interrupted_run_is_named_and_left(copy: dict[str, Path]) -> None:
    directory = copy["context"]
    (directory / "metrics.json").unlink()
    plan = forgotten(directory)
    assert "interrupted" in plan.traces.kept[0] and not plan.is_finished
    assert (directory / "checkpoints").exists() and holders(directory)


def test_runs_are_found_in_folders(copy: dict[str, Path], tmp_path: Path) -> None:
    assert runs_in([tmp_path, copy["texts"]]) == sorted(copy.values())
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match="holds no run"):
        runs_in([tmp_path / "empty"])
    with pytest.raises(ConfigurationError, match="without a column of customers"):
        plan_of(copy["context"], CustomerTables(WHO), column=None)


def called(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(each) for each in arguments])


def test_the_command_finds_tells_and_forgets(copy: dict[str, Path], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    options = ("--customer", WHO, "--customer-column", "person")
    told = called("forget", runs, *options, "--dry-run")
    assert told.exit_code == 0 and "nothing was changed" in told.output, told.output
    assert holders(runs)
    read = json.loads(called("forget", runs, *options, "--dry-run", "--json").stdout)
    assert read["num_runs"] == len(KINDS) and all(sum(each["rows"].values()) == EACH for each in read["runs"])
    done = called("forget", runs, *options)
    assert done.exit_code == 0 and "weights, counts of a baseline" in done.output, done.output
    assert holders(runs) == []
    nobody = called("forget", runs, "--customer", "nobody", "--customer-column", "person")
    assert nobody.exit_code == 0 and "no run holds data of this customer (5 runs looked through)" in nobody.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--customer", WHO), "--customer-column"),
        (("--customer", " "), "--customer"),
        (("--customer", WHO, "--customer-column", "persn"), "Did you mean 'person'"),
    ],
)
def test_a_mistake_changes_nothing(copy: dict[str, Path], arguments: tuple[str, ...], said: str) -> None:
    before = {path: digest_of(path) for path in copy["context"].rglob("*") if path.is_file()}
    found = called("forget", copy["context"], *arguments)
    assert found.exit_code == 2 and said in " ".join(found.output.split()), found.output
    assert {path: digest_of(path) for path in copy["context"].rglob("*") if path.is_file()} == before
