"""A column of text of a CSV file is text, whatever its cells look like."""

from pathlib import Path

import pyarrow as pa
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.data import read_table, table_digest
from contextual_bert.runs import prepare
from contextual_bert.runs.run_table import read_data
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, QuestionAnswering, Recipe

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
