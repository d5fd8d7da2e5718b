"""Runs on questions: from a table and a checkpoint to a directory that answers, with the metrics of SQuAD."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import QuestionAnsweringPipeline, encode_questions
from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.data import ShuffledContext
from contextual_bert.errors import CheckpointError, ConfigurationError, DataError, UnknownNameError
from contextual_bert.evaluation import AnswerPredictions
from contextual_bert.inference import score_answers
from contextual_bert.runs import TextModelTask, evaluate_run, inspect_table, load_run, prepare, run, study
from contextual_bert.runs.inspection import Inspection
from contextual_bert.runs.permutation_importance import donor_of, permute_features
from contextual_bert.runs.run_directory import SCORES_FILE, last_checkpoint, load_scores, trainer_state
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe, task_on_texts

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TRAINING = {"num_train_epochs": 4, "per_device_train_batch_size": 16, "learning_rate": 3e-3}
COLUMNS = {"text": "passage", "question": "question", "answer": "answer", "answer_start": "start"}


def checkpoint_of(folder: Path, **fields: Any) -> Path:
    config = BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=40, **SIZES, **fields)
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint_of(tmp_path_factory.mktemp("bert") / "checkpoint")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """She wants the first word, he the last one; every eighth text has no answer. Some texts have windows."""
    numbers = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {name: [] for name in (*COLUMNS.values(), "sex", "reader")}
    for row in range(160):
        words = [f"word{number}" for number in numbers.integers(2, 18, numbers.integers(3, 24))]
        sex, has_none = str(numbers.choice(["f", "m"])), row % 8 == 0
        answer = None if has_none else words[0] if sex == "f" else words[-1]
        start = None if has_none else 0 if sex == "f" else len(" ".join(words)) - len(words[-1])
        values = (" ".join(words), "word0" if has_none else "word1", answer, start, sex, f"reader {row % 40}")
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    path = tmp_path_factory.mktemp("questions") / "questions.parquet"
    pq.write_table(pa.table(rows), path)
    return path


@pytest.fixture(scope="module")
def recipe(checkpoint: Path, table: Path) -> Recipe:
    return Recipe(
        data=str(table),
        task=task_on_texts(checkpoint=str(checkpoint), max_length=16, **COLUMNS),
        customer="reader",
        conditioning="global_state_update",
        validation=0.2,
        test=0.2,
        training=TRAINING,
        device="cpu",
    )


@pytest.fixture(scope="module")
def ready(recipe: Recipe) -> TextModelTask:
    return prepare(recipe)


@pytest.fixture(scope="module")
def finished(recipe: Recipe, ready: TextModelTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "answers"
    run(recipe, folder, prepared=ready, is_quiet=True)
    return folder


def test_what_is_learned_follows_from_the_columns(ready: TextModelTask) -> None:
    assert (ready.head, ready.labels) == ("question_answering", ())
    assert ready.processor.schema is not None
    assert ready.processor.schema.names == ("sex",)
    assert any(line.startswith("train: ") and "questions in" in line for line in ready.lines())
    assert any(line.endswith("questions have no answer") for line in ready.lines())
    dataset = ready.datasets["test"]
    rows = ready.split.rows("test")
    assert len(dataset) > len(rows) == len(set(dataset.example_ids.tolist()))  # windows
    readers = ready.examples.table.column("reader").to_pylist()
    assert ready.customers("test").tolist() == [readers[row] for row in dataset.example_ids.tolist()]  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(("answer", "named"), [(None, "(none)"), ("word1", "word1")])
def test_a_part_with_one_answer_is_named(recipe: Recipe, table: Path, answer: str | None, named: str) -> None:
    read = pq.read_table(table)
    changed = {
        "passage": pa.array([f"word1 {text}" for text in read["passage"].to_pylist()]),
        "answer": pa.array([answer] * read.num_rows, pa.string()),
        "start": pa.array([None if answer is None else 0] * read.num_rows, pa.int64()),
    }
    one = pa.table({name: changed.get(name, read[name]) for name in read.column_names})
    told = [line for line in prepare(recipe, source=one).lines() if "is the one answer" in line]
    assert len(told) == 3
    assert f"column 'answer': {named!r} is the one answer of the training part, of " in told[0]


@pytest.mark.usefixtures("cells_of_one")
def test_the_metrics_are_those_of_the_answers_that_the_pipeline_gives(ready: TextModelTask, finished: Path) -> None:
    test = ready.examples.table.take(pa.array(ready.split.rows("test")))
    pipeline = QuestionAnsweringPipeline.from_pretrained(finished)
    found = pipeline.answer_table(test, question="question", text="passage", batch_size=7).table.to_pylist()
    queries = [{"question": row["question"], "text": row["passage"], "context": {"sex": row["sex"]}} for row in found]
    for row, span in zip(found, cast(Any, pipeline(queries)), strict=True):
        same = {"predicted_answer": "answer", "predicted_start": "start", "predicted_end": "end"}
        assert all(row[name] == span[key] for name, key in same.items())
        assert row["probability"] == pytest.approx(span["probability"], rel=1e-4)
    given = ["" if row["no_answer_probability"] > row["probability"] else row["predicted_answer"] for row in found]
    right = [each == (row["answer"] or "") for each, row in zip(given, found, strict=True)]
    evaluated = evaluate_run(finished).report
    assert evaluated.num_sets == len(found)
    assert evaluated.metrics["exact_match_percent"].value == pytest.approx(100 * np.mean(right))
    assert {(each.feature, each.value) for each in evaluated.segments} >= {
        ("sex", "f"),
        ("sex", "m"),
        ("true answer", "an answer"),
        ("true answer", "no answer"),
    }
    assert any("SQuAD" in note for note in evaluated.notes())
    assert [table.title for table in evaluated.tables()] == ["Metrics", "Segments"]
    rows = load_scores(finished / SCORES_FILE)[0].predictions
    assert isinstance(rows, AnswerPredictions)
    assert rows.example_id.tolist() == ready.split.rows("test").tolist()
    assert rows.exact_match.tolist() == [float(each) for each in right]
    assert rows.true.tolist() == [int(row["answer"] is not None) for row in found]


def test_the_best_epoch_is_chosen_by_the_answers(recipe: Recipe, ready: TextModelTask, tmp_path: Path) -> None:
    chosen = recipe.changed(training={**TRAINING, "num_train_epochs": 3, "metric_for_best_model": "answer_f1"})
    report = run(chosen, tmp_path / "run", prepared=ready, is_quiet=True)
    assert report is not None
    last = last_checkpoint(tmp_path / "run")
    assert last is not None
    history = [each for each in trainer_state(last)["log_history"] if "eval_answer_f1_percent" in each]
    assert len(history) == 3
    best = max(history, key=lambda each: each["eval_answer_f1_percent"])
    evaluated = evaluate_run(tmp_path / "run", part="validation").report
    for key in ("answer_f1_percent", "exact_match_percent", "cross_entropy_nats"):
        assert evaluated.metrics[key].value == pytest.approx(best[f"eval_{key}"], rel=1e-4)


def test_a_metric_of_labels_chooses_no_epoch_of_answers(recipe: Recipe) -> None:
    with pytest.raises(UnknownNameError, match="metric_for_best_model='accuracy' is unknown") as failure:
        recipe.changed(training={**TRAINING, "metric_for_best_model": "accuracy"})
    assert "answer_f1_percent" in failure.value.allowed


@pytest.mark.usefixtures("cells_of_one")
def test_both_ends_are_ranked_among_the_places_of_their_window(ready: TextModelTask, finished: Path) -> None:
    pipeline = QuestionAnsweringPipeline.from_pretrained(finished)
    dataset, encoded = ready.datasets["test"], cast(Any, ready.texts["test"])
    scores = load_run(finished, name="x").scores
    assert len(scores) == 2 * len(dataset)
    expected: list[float] = []
    for window in range(len(dataset)):
        inputs = dataset.__getitems__([window]).inputs()
        places = slice(*dataset.offsets[window : window + 2].tolist())
        is_allowed = torch.from_numpy(encoded.characters[places, 0] >= 0)
        is_allowed[0] = True
        with torch.no_grad():
            outputs = pipeline.model(**inputs)
        for logits, true in ((outputs.start_logits, "start_positions"), (outputs.end_logits, "end_positions")):
            shares = logits[0].masked_fill(~is_allowed, -torch.inf).log_softmax(dim=0)
            expected.append(float(shares[int(inputs[true])]))
    np.testing.assert_allclose(scores.log_probability, expected, rtol=1e-4, atol=1e-6)
    metrics = json.loads((finished / "metrics.json").read_text("utf-8"))
    assert metrics["test"]["metrics"]["cross_entropy_nats"]["value"] == pytest.approx(-np.mean(expected), rel=1e-5)
    # The best epoch was chosen by the same number of the validation part.
    history = json.loads((finished / "history.json").read_text("utf-8"))["points"]
    best = min(each["validation_cross_entropy_nats"] for each in history)
    assert metrics["validation"]["metrics"]["cross_entropy_nats"]["value"] == pytest.approx(best, rel=1e-4)
    assert json.loads(evaluate_run(finished).report.to_json())["metrics"] == metrics["test"]["metrics"]
    again = evaluate_run(finished).report
    assert {each.value for each in again.segments if each.feature == "true answer"} == {"an answer", "no answer"}


def test_methods_are_compared_by_how_well_they_answer(recipe: Recipe, ready: TextModelTask, tmp_path: Path) -> None:
    short = {**TRAINING, "num_train_epochs": 1}
    rows = [
        replace(recipe, conditioning="none", training=short),
        replace(recipe, conditioning=CONTEXT_AS_TEXT, training=short),
        replace(recipe, is_context_shuffled=True, training=short),
    ]
    found = study("Answers", rows, tmp_path / "study", prepared=ready)
    assert found.comparison.main == "answer_f1_percent"
    assert [row.name for row in found.comparison.rows] == ["none", CONTEXT_AS_TEXT, "global_state_update_shuffled"]
    assert found.comparison.num_clusters == len({*ready.customers("test")})  # pyright: ignore[reportGeneralTypeIssues]
    assert not found.comparison.classes
    assert any("answer F1" in text for text in found.texts)
    assert len({row.metrics["answer_f1_percent"].mean for row in found.comparison.rows}) > 1


def test_windows_of_a_question_share_the_context_of_another(ready: TextModelTask, finished: Path) -> None:
    own = ready.datasets["train"]
    ids = own.example_ids
    distinct = own.with_context({"row": ids})
    shuffled = ShuffledContext(distinct, seed=0)
    for epoch in (0, 1):
        shuffled.set_epoch(epoch)
        batch = shuffled.__getitems__(range(len(own))).inputs()
        donors = {(int(own), int(other)) for own, other in zip(ids, batch["context"]["row"], strict=True)}
        assert len(donors) == len(set(ids.tolist())) == len({other for _, other in donors})
        assert batch["start_positions"].tolist() == own.spans[:, 0].tolist()
    places = donor_of(ids.numpy(), feature="sex", number=0, seed=0)
    donors = {(int(own), int(ids[place])) for own, place in zip(ids, places, strict=True)}
    assert len(donors) == len(set(ids.tolist())) == len({other for _, other in donors})
    attributed = permute_features(finished)
    assert [each.feature for each in attributed.importances.rows][1:] == ["sex"]


def test_a_run_on_another_table_says_what_it_lacks(finished: Path, table: Path) -> None:
    read = pq.read_table(table)
    everything = evaluate_run(finished, source=read.slice(0, 30), part="all")
    assert everything.report.num_sets == 30
    with pytest.raises(UnknownNameError, match="no column 'answer'"):
        evaluate_run(finished, source=read.drop(["answer"]))
    wrong = read.set_column(read.column_names.index("answer"), "answer", pa.array(["nowhere"] * len(read)))
    with pytest.raises(DataError, match=r"row 1, column 'answer': the answer 'nowhere' is not in its text"):
        evaluate_run(finished, source=wrong.slice(0, 9), part="all")
    taken = read.append_column("predicted_start", read["start"])
    with pytest.raises(DataError, match=r"column 'predicted_start': the table has this column"):
        QuestionAnsweringPipeline.from_pretrained(finished).answer_table(taken, text="passage")


def inspected(recipe: Recipe, table: pa.Table) -> Inspection:
    return inspect_table(recipe, source=table)


def test_a_look_counts_what_training_would_stop_at(recipe: Recipe, ready: TextModelTask, table: Path) -> None:
    read = pq.read_table(table)
    found = inspected(recipe, read)
    assert "140 of 160 questions have an answer in 'answer'" in found.reading
    assert any(line.startswith("160 questions in ") for line in found.reading)
    assert not [fault for fault in found.faults if fault.startswith("error")]
    answers = read["answer"].to_pylist()
    answers[1:3] = ["nowhere", "nowhere else"]
    wrong = read.set_column(read.column_names.index("answer"), "answer", pa.array(answers))
    assert any(
        "2 answers in 'answer' without a place in the text (the first in row 2)" in fault
        for fault in inspected(recipe, wrong).faults
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": None}, r"question='question' needs a column of answers .*answer="),
        ({"question": None}, r"answer='answer' needs a column of questions .*question="),
        ({"label": "sex"}, r"label='sex' is not allowed: answers to questions are learned without"),
        ({"pair": "sex"}, r"pair='sex' is not allowed: answers to questions are learned without"),
        ({"question": "passage"}, "are one column"),
        ({"mask_rate": 0.3}, r"mask_rate=0.3 is for hidden tokens, and answer='answer'"),
        ({"truncation": "head_tail"}, "read in windows, and nothing is cut"),
    ],
)
def test_columns_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        task_on_texts(**{"checkpoint": "bert", **COLUMNS, **changes})


def test_what_cannot_answer_says_so(recipe: Recipe, ready: TextModelTask, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"'cnn' is no baseline for answers to questions"):
        replace(recipe, conditioning="cnn")
    with pytest.raises(ConfigurationError, match=r"these texts have answers\. Leave it out"):
        ready.build_model(replace(recipe, model={"classifier_pooling": "mean"}))
    single = checkpoint_of(tmp_path / "single", type_vocab_size=1)
    other = recipe.changed(checkpoint=str(single))
    with pytest.raises(CheckpointError, match=r"type_vocab_size=1, and .* Give a BERT with two segments"):
        prepare(other).build_model(other)


def test_what_has_no_answers_is_not_scored(ready: TextModelTask, finished: Path) -> None:
    model = QuestionAnsweringPipeline.from_pretrained(finished).model
    unanswered = encode_questions(
        ready.examples.table, ready.processor, question="question", text="passage", max_length=16
    )
    with pytest.raises(DataError, match="no question with an answer to score"):
        score_answers(model, unanswered)
