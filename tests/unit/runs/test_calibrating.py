"""Runs are calibrated on their validation part, and what the report says of the test part is what is answered there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification
from typer.testing import CliRunner

from contextual_bert import CompletionPipeline, TextPipeline
from contextual_bert.data import Split
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference import BulkSettings, complete_table
from contextual_bert.inference.applied_calibration import (
    OF_GUIDANCE,
    OF_ONE_BLANK,
    AppliedCalibration,
    calibrate_by_run,
)
from contextual_bert.inference.tables.ray_completion import CompletionJob
from contextual_bert.runs import evaluate_run, run
from contextual_bert.runs.calibrated_evaluation import choices_of
from contextual_bert.runs.calibrating import RunCalibration, calibrate_run
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.run_directory import clear_run
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, SetCompletion, task_on_texts
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROWS, MIN_ROWS = 600, 60
COVERAGES = (0.7, 0.9)
KINDS = ("items", "set", "next", "labels", "grades")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    moods, ages = generator.choice(["glad", "sad"], ROWS), generator.integers(18, 80, ROWS)
    columns = {
        "items": [
            [f"coat-{generator.integers(2) + 2 * (mood == 'glad')}", f"hat-{generator.integers(4)}"] for mood in moods
        ],
        "at": [[1.0, 2.0]] * ROWS,
        "said": [f"word{number} word{number + 1}" for number in generator.integers(2, 17, ROWS)],
        "verdict": [f"{generator.integers(1, 4) if mood == 'glad' else generator.integers(3, 5)}" for mood in moods],
        "mood": moods,
        "age": ages,
        "writer": [f"writer {number}" for number in generator.integers(0, 150, ROWS)],
    }
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    of_texts: dict[str, Any] = {"checkpoint": str(folder / "bert"), "text": "said", "label": "verdict"}
    tasks: dict[str, Any] = {
        "items": SetCompletion(items="items"),
        "set": SetCompletion(items="items", hide="set"),
        "next": SetCompletion(items="items", hide="next", order="at"),
        "labels": task_on_texts(**of_texts),
        "grades": task_on_texts(**of_texts, is_ordinal=True),
        "tags": task_on_texts(checkpoint=str(folder / "bert"), text="said"),
    }
    found: dict[str, Path] = {}
    for name, task in tasks.items():
        recipe = Recipe(
            data=str(table),
            task=task,
            customer="writer",
            exclude=tuple({"items", "at", "said", "verdict"} - {*task.columns}),
            validation=0.35,
            test=0.35,
            leaks="keep",
            field_selection="off",
            model=SIZES if task.has_items else {},
            training={"num_train_epochs": 3, "learning_rate": 0.003, "per_device_train_batch_size": 16},
            device="cpu",
        )
        found[name] = folder / name
        run(recipe, found[name], is_quiet=True)
    return found


@pytest.fixture(scope="module")
def calibrated(finished: dict[str, Path]) -> dict[str, RunCalibration]:
    how: Any = {"coverages": COVERAGES, "min_rows": MIN_ROWS, "field": "mood"}
    return {name: calibrate_run(finished[name], **how) for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_floors_and_temperatures_are_of_the_segments_of_validation(
    calibrated: dict[str, RunCalibration], name: str
) -> None:
    made = calibrated[name].calibration
    assert made.coverages == COVERAGES
    assert set(made.temperatures) == {"glad", "sad"}
    assert set(made.floors[0].shifts["mood"]) == {"glad", "sad"}
    answers = calibrated[name].answers
    assert answers is not None
    assert [len(each.sets) for each in answers.segments] == [2] * len(answers.segments)
    assert {each.feature for each in answers.segments} >= {"mood"}
    assert answers.losses[1].cross_entropy.value == pytest.approx(answers.losses[0].cross_entropy.value, abs=0.2)
    assert "within one point" in answers.to_markdown()


@pytest.mark.parametrize("name", ["labels", "grades"])
def test_the_coverage_of_labels_is_that_of_the_answers(
    finished: dict[str, Path], calibrated: dict[str, RunCalibration], table: Path, name: str
) -> None:
    asked = _test_rows(finished[name], table)
    pipeline = TextPipeline.from_pretrained(finished[name])
    raw: Any = pipeline([{"text": row["said"], "context": _context(row)} for row in asked])
    for number, coverage in enumerate(COVERAGES):
        pipeline.calibrate_by(AppliedCalibration.from_run(finished[name], coverage))
        found: Any = pipeline([{"text": row["said"], "context": _context(row)} for row in asked])
        covered = [row["verdict"] in answer["prediction_set"] for row, answer in zip(asked, found, strict=True)]
        answers: Any = calibrated[name].answers
        assert np.mean(covered) == pytest.approx(answers.sets[number].covered.value, abs=1e-9)
        sizes = [len(answer["prediction_set"]) for answer in found]
        assert np.mean(sizes) == pytest.approx(answers.sets[number].size, abs=1e-9)
        assert found[0]["coverage"] == coverage
        for before, after in zip(raw, found, strict=True):
            assert sum(after["probabilities"].values()) == pytest.approx(1, abs=1e-5)
            assert before["label"] == after["label"] == after["prediction_set"][0]
    labelled = pipeline.label_table(pq.read_table(table).take([row["row"] for row in asked]), text="said").table
    assert labelled["prediction_set"].to_pylist() == [answer["prediction_set"] for answer in found]
    guided: Any = pipeline({"text": "word3", "context": {"mood": "sad"}, "guidance": 2})
    assert OF_GUIDANCE in guided["notes"]


@pytest.mark.parametrize("name", ["items", "set", "next"])
def test_the_coverage_of_items_is_that_of_the_answers(
    finished: dict[str, Path], calibrated: dict[str, RunCalibration], table: Path, name: str
) -> None:
    asked = _test_rows(finished[name], table)
    pipeline = CompletionPipeline.from_pretrained(finished[name])
    pipeline.calibrate_by(AppliedCalibration.from_run(finished[name], 0.7))
    covered: list[bool] = []
    sizes: list[int] = []
    for row in asked:
        hidden = [[place] for place in range(2)] if name == "items" else [[1]] if name == "next" else [[0, 1]]
        for places in hidden:
            kept = ["[MASK]" if place in places else item for place, item in enumerate(row["items"])]
            kept = ["[MASK]"] if name == "set" else kept
            answer: Any = pipeline({"items": kept, "context": _context(row), "repeats": True}, top_k=3)
            slot = answer["slots"][0]
            assert slot["candidates"][0]["item"] == slot["prediction_set"][0]
            assert slot["num_forbidden"] == 0
            assert len(slot["candidates"]) == 3
            covered += [row["items"][place] in slot["prediction_set"] for place in places]
            sizes += [len(slot["prediction_set"])] * len(places)
    answers: Any = calibrated[name].answers
    assert np.mean(covered) == pytest.approx(answers.sets[0].covered.value, abs=1e-9)
    assert np.mean(sizes) == pytest.approx(answers.sets[0].size, abs=1e-9)


def test_tables_have_the_sets_that_queries_have(finished: dict[str, Path], calibrated: Any, tmp_path: Path) -> None:
    run = finished["items"]
    table = pa.table({"items": [["hat-1", "[MASK]"], ["coat-2"]], "mood": ["sad", "glad"], "age": [30.0, 51.0]})
    settings = BulkSettings(constraints={"deny": ["hat-2"]}, coverage=0.9)
    plain = CompletionPipeline.from_pretrained(run)
    with pytest.raises(ConfigurationError, match=r"coverage=0\.9 is not that of the pipeline"):
        complete_table(plain, table, tmp_path / "out", settings=settings)
    pipeline = CompletionPipeline.from_pretrained(run)
    calibrate_by_run(pipeline, run, 0.9)
    complete_table(pipeline, table, tmp_path / "out", settings=settings)
    rows = pq.read_table(tmp_path / "out" / "part-00000.parquet").to_pylist()
    for row, (items, mood, age) in zip(rows, zip(*table.to_pydict().values(), strict=True), strict=True):
        answer: Any = pipeline({"items": items, "context": {"mood": mood, "age": age}, "deny": ["hat-2"]}, top_k=10)
        (slot,) = answer["slots"]
        assert row["prediction_set"] == slot["prediction_set"]
        assert row["num_forbidden"] == slot["num_forbidden"]
        assert row["probabilities"] == pytest.approx([each["probability"] for each in slot["candidates"]], abs=1e-6)
    # A folder of answers without sets, or of another coverage, is another one.
    with pytest.raises(ConfigurationError, match="with another coverage, model"):
        complete_table(plain, table, tmp_path / "out", settings=replace(settings, coverage=None))
    job = CompletionJob(str(run), settings, None).load("cpu")
    assert job.model_digest() == pipeline.model_digest() != plain.model_digest()
    words = ["complete", str(run), "--data", str(tmp_path / "sets.parquet"), "--output", str(tmp_path / "told")]
    pq.write_table(table, tmp_path / "sets.parquet")
    found = CliRunner().invoke(app, [*words, "--coverage", "0.9", "--deny", "hat-2"])
    assert found.exit_code == 0, found.output
    assert pq.read_table(tmp_path / "told" / "part-00000.parquet").to_pylist() == rows


def test_what_a_query_forbids_is_left_out_of_the_set_and_said(finished: dict[str, Path], calibrated: Any) -> None:
    pipeline = CompletionPipeline.from_pretrained(finished["items"])
    pipeline.calibrate_by(AppliedCalibration.from_run(finished["items"], 0.9))
    free: Any = pipeline({"items": ["hat-1", "[MASK]"], "context": {"mood": "sad"}})
    first = free["slots"][0]["prediction_set"][0]
    bound: Any = pipeline({"items": ["hat-1", "[MASK]"], "context": {"mood": "sad"}, "deny": [first]})
    assert bound["slots"][0]["prediction_set"] == free["slots"][0]["prediction_set"][1:]
    assert bound["slots"][0]["num_forbidden"] == free["slots"][0]["num_forbidden"] + 1
    assert sum(each["probability"] for each in bound["slots"][0]["candidates"]) <= 1 + 1e-9
    two: Any = pipeline({"items": ["[MASK]", "[MASK]"], "guidance": 0.5})
    assert {OF_ONE_BLANK, OF_GUIDANCE} <= {*two["notes"]}


def test_evaluate_measures_the_calibration_of_a_run_and_of_no_other_weights(
    finished: dict[str, Path], calibrated: dict[str, RunCalibration], tmp_path: Path
) -> None:
    found = evaluate_run(finished["labels"])
    assert found.calibrated == calibrated["labels"].answers
    assert "Prediction sets" in found.to_markdown()
    path = finished["labels"] / "calibration.json"
    kept = path.read_text()
    path.write_text(replace(calibrated["labels"].calibration, weights="others").to_json())
    with pytest.raises(RunDirectoryError, match="other weights"):
        evaluate_run(finished["labels"])
    path.unlink()
    assert evaluate_run(finished["labels"]).calibrated is None
    with pytest.raises(RunDirectoryError, match="not calibrated"):
        AppliedCalibration.from_run(finished["labels"], 0.9)
    path.write_text(kept)


def test_runs_without_a_choice_are_refused(finished: dict[str, Path]) -> None:
    with pytest.raises(ConfigurationError, match="choose one label"):
        calibrate_run(finished["tags"])
    data = load_evaluation(finished["tags"])
    with pytest.raises(ConfigurationError):
        choices_of(data, data.score(data.dataset))


def test_the_command_line_calibrates_and_answers_with_sets(
    finished: dict[str, Path], calibrated: Any, tmp_path: Path
) -> None:
    directory, output = tmp_path / "grades", tmp_path / "report"
    shutil.copytree(finished["grades"], directory)
    words = ["calibrate", str(directory), "--coverage", "0.7,0.9", "--min-rows", "60", "--output", str(output)]
    found = CliRunner().invoke(app, [*words, "--format", "json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["calibration"]["min_rows"] == 60
    assert {path.name for path in output.iterdir()} == {"calibrated.md", "calibrated.json", "calibrated.png"}
    asked = ["predict", str(directory), "--text", "word3 word4", "--context", '{"mood": "sad"}', "--coverage"]
    answer = CliRunner().invoke(app, [*asked, "0.7", "--format", "json"])
    assert json.loads(answer.stdout)["coverage"] == 0.7
    assert "70% set" in CliRunner().invoke(app, [*asked, "0.7"]).stdout
    wrong = CliRunner().invoke(app, [*asked, "0.75"])
    assert wrong.exit_code != 0
    assert isinstance(wrong.exception, ConfigurationError) or "0.7, 0.9" in wrong.output
    filled = ["complete", str(finished["items"]), "--set", "hat-1,[MASK]", "--coverage", "0.9"]
    assert "90% of the time" in " ".join(CliRunner().invoke(app, filled).output.split())
    joint = CliRunner().invoke(app, [*filled, "--joint"])
    assert "is not for whole sets" in joint.output + str(joint.exception)


def test_clearing_a_run_clears_its_calibration(tmp_path: Path, finished: dict[str, Path], calibrated: Any) -> None:
    for name in ("calibration.json", "recipe.json"):
        (tmp_path / name).write_text((finished["labels"] / name).read_text())
    clear_run(tmp_path)
    assert not [*tmp_path.iterdir()]


def _test_rows(directory: Path, table: Path) -> list[dict[str, Any]]:
    rows = Split.load(directory / "split.json").rows("test").tolist()
    found = pq.read_table(table).take(rows).to_pylist()
    return [{**each, "row": row} for each, row in zip(found, rows, strict=True)]


def _context(row: dict[str, Any]) -> dict[str, Any]:
    return {"mood": row["mood"], "age": row["age"]}
