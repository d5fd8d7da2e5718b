"""A column of text of a CSV file is text, whatever its cells look like."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification
from typer.testing import CliRunner, Result

from contextual_bert.data import read_table, table_digest
from contextual_bert.runs import prepare
from contextual_bert.runs.run_table import read_data
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, QuestionAnswering, Recipe
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def test_what_is_read_as_text_is_spelt_as_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,pair,verdict,age\n2019,1.50,TRUE,7\n2020,TRUE,FALSE,8\n")
    task = Classification(checkpoint="bert-base-uncased", pair="pair", label="verdict")
    table = read_data(Recipe(data=str(path), task=task)).table
    expected = {"text": ["2019", "2020"], "pair": ["1.50", "TRUE"], "verdict": [True, False], "age": [7, 8]}
    assert table.to_pydict() == expected
    asked = QuestionAnswering(checkpoint="bert-base-uncased", text="pair", question="text", answer="age")
    table = read_data(Recipe(data=str(path), task=asked)).table
    assert table.to_pydict() == expected
    assert read_data(Recipe(data="t.csv", task=task), pa.table({"text": [1]})).table.to_pydict() == {"text": [1]}


def test_answers_that_are_numbers_leave_the_table_its_hash(tmp_path: Path) -> None:
    """So that a split of it, and a run on it, are still of this table."""
    path = tmp_path / "a.csv"
    path.write_text("question,text,answer\nhow many,there are 7,7\nhow few,there are 2,2\n")
    asked = QuestionAnswering(checkpoint="bert-base-uncased", text="text", question="question", answer="answer")
    assert table_digest(read_data(Recipe(data=str(path), task=asked)).table) == table_digest(read_table(path))


def test_texts_and_labels_that_look_like_numbers_are_prepared(tmp_path: Path) -> None:
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(bert, tmp_path / "bert")
    path = tmp_path / "a.csv"
    path.write_text("text,stars\n" + "2019,1.0\n2020,10.0\n2021,2.0\n" * 20)
    task = Classification(checkpoint=str(tmp_path / "bert"), label="stars", is_ordinal=True)
    ready = prepare(Recipe(data=str(path), task=task, conditioning="none", split_by="row"))
    assert ready.labels == ("1", "2", "10")
    assert ready.examples.table["text"].to_pylist() == ["2019", "2020", "2021"] * 20
    found = ready.texts["train"].dataset.labels
    assert found is not None and set(found.tolist()) == {0, 1, 2}


PARTS = ["train"] * 40 + ["validation"] * 20 + ["test"] * 20
TASKS: dict[str, tuple[str, ...]] = {
    "label": ("--label", "stars"),
    "hidden words": (),
    "what follows": ("--objective", "causal", "--max-length", "8", *(f"--model={key}={SIZES[key]}" for key in SIZES)),
}


def trained(folder: Path, texts: list[str], *options: str, bert: str = "", **columns: Any) -> Result:
    """Run ``train`` on such texts, a tiny BERT unless they are to be continued."""
    if not (folder / "bert").exists():
        plain = BertForSequenceClassification(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
        miniature_checkpoint(plain, folder / "bert")
    table = folder / "texts.parquet"
    stars = [f"{row % 2}" for row in range(len(texts))]
    pq.write_table(pa.table({"text": texts, "stars": stars, "part": PARTS, **columns}), table)
    start = () if "causal" in options else ("--checkpoint", bert or str(folder / "bert"))
    arguments = ("train", table, "--text", "text", "--split-column", "part", *start, *options)
    more = ("--epochs", "1", "--device", "cpu", "--conditioning", "none", "--output", folder / "run")
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(each) for each in (*arguments, *more)])


@pytest.mark.parametrize("part", ["train", "validation", "test"])
@pytest.mark.parametrize("task", TASKS)
def test_a_part_without_a_word_is_refused_before_training(task: str, part: str, tmp_path: Path) -> None:
    blank = "" if task == "what follows" else "  "  # whose blanks are tokens
    texts = [blank if each == part else f"word{row % 4}" for row, each in enumerate(PARTS)]
    found = trained(tmp_path, texts, *TASKS[task])
    assert found.exit_code == 2, found.output
    assert f"texts.parquet, column 'text': in the {part} part each text is empty" in found.stderr
    assert not (tmp_path / "run").exists()


def test_texts_without_a_word_are_counted_and_none_but_such_are_not_scored(tmp_path: Path) -> None:
    found = trained(tmp_path, ["", *[f"word{row % 4}" for row in range(79)]], *TASKS["label"])
    assert found.exit_code == 0, found.output
    assert "train: 1 empty text: nothing to read there" in found.stderr
    table = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"text": [""] * 30, "stars": ["0", "1"] * 15}), table)
    again = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), "--data", str(table)])
    assert again.exit_code == 2, again.output
    assert "each text is empty" in again.stderr


def test_questions_without_an_answer_are_refused(tmp_path: Path) -> None:
    asked = {"asked": ["word1"] * 80, "answer": [""] * 80}
    found = trained(tmp_path, ["word2 word3"] * 80, "--question", "asked", "--answer", "answer", **asked)
    assert found.exit_code == 2, found.output
    assert "column 'answer': in the train part no question has an answer in its text" in found.stderr


def test_a_tokenizer_that_knows_no_word_is_refused_and_one_that_knows_few_is_named(tmp_path: Path) -> None:
    found = trained(tmp_path, ["Wörter einer anderen Sprache"] * 80, *TASKS["label"])
    assert found.exit_code == 2, found.output
    assert "bert: its tokenizer does not know 100.0% of the tokens of the training part" in found.stderr
    found = trained(tmp_path, ["word1 Sprache"] * 80, *TASKS["label"])
    assert found.exit_code == 0, found.output
    assert "warning: train: the tokenizer does not know 50.0% of the tokens and reads them as [UNK]" in found.stderr


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vocab_size": 20}, "its tokenizer has 23 tokens and its model embeddings for 20"),
        ({"vocab_size": 500}, "its tokenizer has 23 tokens and its model embeddings for 500"),
        ({"vocab_size": 23, "pad_token_id": 4}, "its tokenizer has '[PAD]' as token 0 and its config has 4 for it"),
    ],
)
def test_the_tokenizer_of_another_model_is_refused(fields: dict[str, int], said: str, tmp_path: Path) -> None:
    plain = BertForSequenceClassification(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(plain, tmp_path / "tokens")
    other = BertForSequenceClassification(BertConfig(max_position_embeddings=16, **fields, **SIZES))
    other.save_pretrained(tmp_path / "other")
    for file in (tmp_path / "tokens").glob("tok*"):
        (tmp_path / "other" / file.name).write_bytes(file.read_bytes())
    found = trained(tmp_path, ["word1"] * 80, *TASKS["label"], bert=str(tmp_path / "other"))
    assert found.exit_code == 2, found.output
    assert said in found.stderr
    assert not (tmp_path / "run").exists()


def test_what_reads_in_both_directions_is_told_to_leave_out_the_objective(tmp_path: Path) -> None:
    plain = BertForSequenceClassification(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(plain, tmp_path / "bert")
    found = trained(tmp_path, ["word1"] * 80, "--objective", "causal", "--checkpoint", str(tmp_path / "bert"))
    assert found.exit_code == 2, found.output
    assert "Allowed: gpt2. Give one of these, or leave out --objective causal." in found.stderr
