"""The commands on a table of questions: look, train, evaluate, compare, predict; and a folder saved in Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import (
    ContextualBertConfig,
    ContextualBertForQuestionAnswering,
    QuestionAnsweringPipeline,
)
from contextual_bert.data import read_table, write_table
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ASKED = ("--text", "menu", "--question", "question", "--answer", "answer")
QUERY = ("--question", "word1", "--text", "word2 word3 word4 word5", "--context", '{"sex": "f"}')


@pytest.fixture(scope="module")
def menus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and a table as CSV, in which some texts have no answer."""
    folder = tmp_path_factory.mktemp("menus")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, max_position_embeddings=32, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    numbers = np.random.default_rng(0)
    texts = [" ".join(f"word{number}" for number in numbers.integers(2, 18, 6)) for _ in range(80)]
    answers = [text.split()[0] if row % 5 else None for row, text in enumerate(texts)]
    sex = numbers.choice(["f", "m"], 80).tolist()
    write_table(pa.table({"menu": texts, "question": ["word1"] * 80, "answer": answers, "sex": sex}), folder / "m.csv")
    return folder


@pytest.fixture(scope="module")
def trained(command: Any, menus: Path) -> Path:
    settings = ("--checkpoint", menus / "bert", "--epochs", 1, "--device", "cpu", "--test", 0.3)
    result = ok(command("train", menus / "m.csv", *ASKED, *settings, "--output", menus / "run"))
    assert "questions have no answer" in result.stderr
    assert "predict" in result.stderr
    assert "--question" in result.stderr
    return menus / "run"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without a recipe."""
    folder, processor = tmp_path_factory.mktemp("saved"), miniature_text_processor()
    tokens: dict[str, Any] = {"vocab_size": 23, "type_vocab_size": 2, "has_position_embeddings": True}
    config = ContextualBertConfig.from_schema(processor.schema, conditioning="global_state", **tokens, **SIZES)
    drawn_anew(ContextualBertForQuestionAnswering(config)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.mark.parametrize("folder", ["trained", "saved"])
def test_one_answer_in_json_is_what_the_pipeline_says(
    command: Any, folder: str, request: pytest.FixtureRequest
) -> None:
    directory = request.getfixturevalue(folder)
    found = json.loads(ok(command("predict", directory, *QUERY, "--format", "json")).stdout)
    query = {"question": "word1", "text": "word2 word3 word4 word5", "context": {"sex": "f"}}
    assert found == QuestionAnsweringPipeline.from_pretrained(directory)(query)


def test_one_answer_for_people(command: Any, trained: Path) -> None:
    result = ok(command("predict", trained, *QUERY[:4], "--context", '{"sex": "x"}'))
    query = {"question": "word1", "text": QUERY[3], "context": {"sex": "x"}}
    span: Any = QuestionAnsweringPipeline.from_pretrained(trained)(query)
    lines = [line.split() for line in result.stdout.splitlines() if "%" in line]
    assert lines[0] == [*span["answer"].split(), f"{span['probability']:.2%}"]
    assert lines[1] == ["no", "answer", f"{span['no_answer_probability']:.2%}"]
    start, end = span["start"], span["end"]
    assert f"{QUERY[3][:start]}[{span['answer']}]{QUERY[3][end:]}" in result.stderr
    assert "unknown values of sex" in result.stderr


@pytest.mark.parametrize(("folder", "columns"), [("trained", ()), ("saved", ("--text-column", "menu"))])
def test_a_table_gets_its_answers(
    command: Any, menus: Path, tmp_path: Path, folder: str, columns: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    directory, output = request.getfixturevalue(folder), tmp_path / "out.jsonl"
    columns = (*columns, "--question-column", "question") if folder == "saved" else columns
    result = ok(command("predict", directory, "--data", menus / "m.csv", *columns, "--output", output))
    assert "80 questions in " in result.stderr
    found, given = read_table(output), read_table(menus / "m.csv")
    assert found.column_names[:4] == given.column_names
    queries = [
        {"question": row["question"], "text": row["menu"], "context": {"sex": row["sex"]}} for row in given.to_pylist()
    ]
    spans: Any = QuestionAnsweringPipeline.from_pretrained(directory)(queries)
    for row, span in zip(found.to_pylist(), spans, strict=True):
        assert (row["predicted_answer"], row["predicted_start"], row["predicted_end"]) == (
            span["answer"],
            span["start"],
            span["end"],
        )
        assert row["probability"] == pytest.approx(span["probability"], abs=1e-5)


@pytest.mark.usefixtures("cells_of_one")
def test_a_run_is_evaluated_and_compared(command: Any, menus: Path, trained: Path, tmp_path: Path) -> None:
    report = ok(command("evaluate", trained, "--format", "markdown")).stdout
    assert "exact match (%)" in report
    assert "answer F1 (%)" in report
    assert "| true answer | no answer * |" in report
    settings = ("--checkpoint", menus / "bert", "--epochs", 1, "--device", "cpu", "--seeds", 1)
    methods = ("--conditioning", "none,film")
    ok(command("compare", menus / "m.csv", *ASKED, *settings, *methods, "--output", tmp_path / "study"))
    written = (tmp_path / "study" / "report.md").read_text("utf-8")
    assert "By answer F1" in written
    assert "Answer F1 (%) by sex" in written


def test_a_look_says_what_to_train(command: Any, menus: Path, tmp_path: Path) -> None:
    settings = ("--checkpoint", menus / "bert", "--output", tmp_path / "schema.json")
    result = ok(command("inspect", menus / "m.csv", *ASKED, *settings))
    assert "64 of 80 questions have an answer in 'answer'" in result.stdout
    last = result.stderr.splitlines()[-1]
    assert all(option in last for option in ("--text menu", "--question question", "--answer answer"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "word1"), "--question is missing: the run answers questions about texts. Give one."),
        ((*QUERY, "--pair", "word2"), "--pair is not for questions"),
        ((*QUERY, "--truncation", "head"), "--truncation is not for questions"),
        (("--text", "word1", "--question", "word2", "--question-column", "question"), "--question-column belongs to"),
    ],
)
def test_what_does_not_go_together_is_said(command: Any, trained: Path, options: tuple[str, ...], message: str) -> None:
    result = command("predict", trained, *options)
    assert result.exit_code == 2
    assert message in result.output


def test_a_run_of_labels_answers_nothing(command: Any, text_runs: Path, menus: Path, tmp_path: Path) -> None:
    result = command("predict", text_runs / "labels", "--question", "word1", "--text", "word2")
    assert result.exit_code != 0
    assert "--question is for runs that answer questions, and this one does not" in result.output
    result = command("predict", text_runs / "labels", "--question-column", "q", "--text", "word2")
    assert "--question-column belongs to --data" in result.output
    alone = ("--text", "menu", "--answer", "answer", "--checkpoint", menus / "bert", "--output", tmp_path / "run")
    result = command("train", menus / "m.csv", *alone)
    assert result.exit_code == 2
    assert "needs a column of questions" in result.output
    result = command("train", menus / "m.csv", "--items", "menu", "--answer", "answer", "--output", tmp_path / "run")
    assert "--answer is for texts" in result.output
