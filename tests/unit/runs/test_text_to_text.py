"""Runs that write one text from another: from a table to exact matches and written texts; faulty targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertModel

from contextual_bert import TextToTextPipeline
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import TextPredictions
from contextual_bert.runs import evaluate_run, prepare, run
from contextual_bert.runs.model_inspection import inspect_model
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Recipe, TextToText, task_on_texts

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
WORDS = {"1": "one", "2": "two", "3": "six"}
SPELT = {"f": str.lower, "m": str.upper}


def table_of(folder: Path, *, fault: str | None = "") -> Path:
    """How a number is spelt depends on who reads it."""
    numbers = np.random.default_rng(0)
    sex = numbers.choice(["f", "m"], size=240).tolist()
    texts = ["".join(numbers.choice([*WORDS], size=2)) for _ in sex]
    targets = [SPELT[who](" ".join(WORDS[each] for each in text)) for text, who in zip(texts, sex, strict=True)]
    path = folder / "pairs.parquet"
    pq.write_table(
        pa.table({"number": texts, "words": [*targets[:7], fault or targets[7], *targets[8:]], "sex": sex}), path
    )
    return path


def recipe(table: Path, **fields: Any) -> Recipe:
    task = {"text": "number", "target": "words", "vocab_size": 257, "max_length": 16, **fields.pop("task", {})}
    training = {"max_steps": 150, "per_device_train_batch_size": 32, "learning_rate": 1e-2}
    model = {**SIZES, "decoder_type": "gru_luong", **fields.pop("model", {})}
    return Recipe(data=str(table), task=task_on_texts(**task), model=model, training=training, **fields)


def test_a_run_writes_texts_as_the_context_asks(tmp_path: Path) -> None:
    table, folder = table_of(tmp_path), tmp_path / "run"
    run(recipe(table, conditioning="global_state_update"), folder)
    scores = load_scores(folder / SCORES_FILE)[0]
    assert isinstance(scores.predictions, TextPredictions)
    assert scores.predictions.exact_text.mean() > 0.9
    evaluated = evaluate_run(folder, part="test")
    assert evaluated is not None
    writer = TextToTextPipeline.from_pretrained(folder)
    asked = [{"text": "31", "context": {"sex": "f"}}, {"text": "31", "context": {"sex": "m"}}]
    answers: Any = writer(asked)
    assert [each["written"] for each in answers] == ["six one", "SIX ONE"]
    found = writer.write_table(pq.read_table(table), text="number", batch_size=100).table
    same = np.mean(np.array(found["predicted_text"].to_pylist()) == np.array(found["words"].to_pylist()))
    assert same > 0.9
    inside = inspect_model(folder, asked[0])
    assert "".join(inside.cross_maps.rows).startswith("six") if inside.cross_maps and inside.cross_maps.rows else False
    assert inside.cross_maps is not None
    (weights,) = inside.cross_maps.layers
    assert weights.shape == (1, len(inside.cross_maps.rows or ()), len(inside.maps.tokens))
    assert np.allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert all(each.probability > 0.3 for each in inside.predictions[:3])
    page = inside.to_html()
    assert "Attention of what is written" in page and page.count('id="written-layer-0"') == 1
    assert inside.cross_maps.to_png().startswith(b"\x89PNG")


def test_what_is_written_is_looked_at_on_a_recurrent_encoder(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    for decoder in ("gru_luong", "gru"):
        model = {"backbone": "bigru", "decoder_type": decoder}
        run(recipe(table, conditioning="film", model=model).changed(training={"max_steps": 2}), tmp_path / decoder)
    asked = {"text": "31", "context": {"sex": "f"}}
    inside = inspect_model(tmp_path / "gru_luong", asked)
    assert inside.maps.layers == () and inside.cross_maps is not None
    page = inside.to_html()
    assert 'id="written-layer-0"' in page and 'id="attention-layer-0"' not in page
    assert next(each.title for each in inside.tables()) == "Prediction"
    with pytest.raises(ConfigurationError, match="there is no attention"):
        inspect_model(tmp_path / "gru", asked)


def test_an_encoder_starts_from_a_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bert = BertModel(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(bert, tmp_path / "bert")
    numbers = np.random.default_rng(1)
    words = [[f"word{each}" for each in numbers.integers(0, 9, size=3)] for _ in range(120)]
    texts, first = [" ".join(each) for each in words], [each[0] for each in words]
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"number": texts, "words": first, "sex": ["f", "m"] * 60}), path)
    task = task_on_texts(text="number", target="words", checkpoint=str(tmp_path / "bert"), max_length=8)
    training = {"max_steps": 60, "learning_rate": 1e-3, "new_weights_learning_rate": 1e-2}
    run(Recipe(data=str(path), task=task, conditioning="state_flow", training=training), tmp_path / "run")
    writer = TextToTextPipeline.from_pretrained(tmp_path / "run")
    found: Any = writer({"text": "word3 word1 word2", "context": {"sex": "m"}})
    assert found["written"] == "word3"
    before = bert.state_dict()["encoder.layer.0.attention.self.query.weight"]
    after = writer.model.state_dict()["bert.encoder.layer.0.attention.self.query.weight"]
    assert 0 < (before - after).abs().max() < 0.1


@pytest.mark.slow
def test_a_run_goes_on_with_its_decoder(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    model = {"backbone": "bigru", "decoder_type": "gru_bahdanau"}
    run(recipe(table, conditioning="film", model=model), tmp_path / "first")
    task = task_on_texts(text="number", target="words", checkpoint=str(tmp_path / "first"), max_length=16)
    run(Recipe(data=str(table), task=task, conditioning="film", training={"max_steps": 9}), tmp_path / "second")
    writers = [TextToTextPipeline.from_pretrained(tmp_path / name) for name in ("first", "second")]
    assert writers[1].model.config.decoder_type == "gru_bahdanau"
    found: list[Any] = [writer({"text": "31"}) for writer in writers]
    assert found[0]["written"].lower() == found[1]["written"].lower() == "six one"
    weights = [writer.model.state_dict() for writer in writers]
    steps = {name: float((weights[1][name] - weight).abs().max()) for name, weight in weights[0].items()}
    assert max(steps.values()) < 0.1 and steps["decoder.blocks.query.weight"] > 0


def test_what_a_run_that_writes_cannot_teach_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    run(recipe(table, conditioning="film").changed(training={"max_steps": 1}), tmp_path / "run")
    hidden = Recipe(data=str(table), task=task_on_texts(text="number", checkpoint=str(tmp_path / "run")))
    ready = prepare(hidden.changed(conditioning="film"))
    with pytest.raises(ConfigurationError, match=r"checkpoint=.* brings a tokenizer without a \[MASK\].*causal"):
        ready.check(ready.recipe)
    with pytest.raises(ConfigurationError, match=r"trained_weights='lora'.*there is none"):
        recipe(table, trained_weights="lora")


@pytest.mark.parametrize("fault", ["  ", "\n"])
def test_an_empty_target_is_named_by_row_and_column(fault: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the target is empty \(1 such row\)") as error:
        prepare(recipe(table_of(tmp_path, fault=fault), conditioning="none"))
    assert (error.value.row, error.value.column) == (7, "words")


def test_settings_of_two_tasks_are_refused() -> None:
    assert isinstance(task_on_texts(text="a", target="b"), TextToText)
    for other in ({"label": "c"}, {"question": "c", "answer": "d"}, {"objective": "causal"}, {"pair": "c"}):
        with pytest.raises(ConfigurationError):
            task_on_texts(text="a", target="b", **other)
    with pytest.raises(ConfigurationError, match="vocab_size"):
        task_on_texts(text="a", target="b", vocab_size=300, checkpoint="bert-base-uncased")
