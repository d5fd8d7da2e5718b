"""Runs on texts without a checkpoint: the words of the training texts are the tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from contextual_bert import TextPipeline
from contextual_bert.baselines import fasttext
from contextual_bert.baselines.names import TEXT_BASELINES, WITHOUT_BERT
from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import evaluate_run, inspect_table, prepare, run
from contextual_bert.runs.registry import check_recipe, training_of
from contextual_bert.runs.text_starts import customers_of_texts, frequent_words, word_tokenizer
from contextual_bert.training import Classification, MaskedText, QuestionAnswering, Recipe, task_on_texts

NUM_ROWS = 120


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text is good if it says so; each has a word of its own."""
    numbers = np.random.default_rng(0)
    verdict = numbers.choice(["good", "bad"], size=NUM_ROWS).tolist()
    filler = numbers.choice(["shirt", "coat", "dress"], size=NUM_ROWS)
    words = [[filler[row], "is", each, f"name{row}"] for row, each in enumerate(verdict)]
    columns = {
        "text": [" ".join(row) for row in words],
        "words": words,
        "tags": [["THING", "O", "WORTH", "O"] for _ in words],
        "verdict": verdict,
        "writer": [f"writer {row % 30}" for row in range(NUM_ROWS)],
    }
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def recipe_of(table: Path, conditioning: str, *, exclude: tuple[str, ...] = (), **task: Any) -> Recipe:
    learned = {"text": "text", "label": "verdict"} | task
    hidden = {"text", "words", "tags", "verdict"} - {*learned.values()}
    training = {"num_train_epochs": 3, "learning_rate": 0.03, "per_device_train_batch_size": 16}
    return Recipe(
        data=str(table),
        task=task_on_texts(**learned),
        customer="writer",
        exclude=tuple(sorted(hidden)),
        conditioning=conditioning,
        training=training_of(conditioning, training),
        min_customers=5,
        device="cpu",
    )


def test_words_are_counted_by_customer() -> None:
    texts = ["Schöne coat, COAT", "schöne hat", "schöne " + "x" * 101, "[MASK] x"]
    assert frequent_words(texts, min_customers=1) == ["schöne", ",", "[", "]", "coat", "hat", "mask", "x"]
    assert frequent_words(texts, min_customers=2) == ["schöne"]
    assert frequent_words(texts, min_customers=2, customers=np.array([1, 1, 1, 2])) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A red COAT", ["[UNK]", "red", "coat"]),
        ("schön", ["schön"]),
        ("scho\u0308n", ["schön"]),
        ("schon", ["[UNK]"]),
        ("", []),
    ],
)
def test_a_word_is_a_token(text: str, found: list[str]) -> None:
    tokenizer = word_tokenizer(["red", "coat", "schön"])
    ids = tokenizer(text).input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", *found, "[SEP]"]


def test_the_words_of_few_customers_and_of_other_parts_are_not_kept(table: Path) -> None:
    ready = prepare(recipe_of(table, "ngrams"))
    tokenizer: Any = ready.processor.tokenizer
    assert {*tokenizer.get_vocab()} - {*tokenizer.all_special_tokens} == {"shirt", "coat", "dress", "is", "good", "bad"}
    lines = ready.lines()
    assert "no checkpoint: the tokens are 6 words, each of at least 5 customers" in lines
    assert "test: 25.0% of the words are others, and read as [UNK]" in lines
    assert ready.digests.keys() == {"split_digest"}


@pytest.mark.parametrize("name", ["popularity", "tfidf"])
def test_no_tokens_are_told_of_where_none_are_read(table: Path, name: str) -> None:
    assert not [line for line in prepare(recipe_of(table, name)).lines() if "token" in line or "[UNK]" in line]


def test_a_card_spells_settings_as_the_recipe_does(table: Path, tmp_path: Path) -> None:
    run(recipe_of(table, "bilstm"), tmp_path / "run", is_quiet=True)
    card = (tmp_path / "run/README.md").read_text()
    assert 'without "num_train_epochs": 3 small tables get more' in card
    assert "num_train_epochs=" not in card


def test_a_baseline_trains_without_a_checkpoint(table: Path, tmp_path: Path) -> None:
    report = run(recipe_of(table, "bilstm"), tmp_path / "run")
    assert report is not None
    assert report.metrics["accuracy_percent"].value > 90
    assert Recipe.load(tmp_path / "run").text_task.checkpoint is None
    assert "words of its training texts" in (tmp_path / "run/README.md").read_text()
    again = evaluate_run(tmp_path / "run").report
    assert again.metrics["cross_entropy_nats"].value == pytest.approx(report.metrics["cross_entropy_nats"].value)
    found = TextPipeline.from_pretrained(tmp_path / "run")([{"text": "coat is GOOD"}, {"text": "never seen"}])
    assert found[0]["label"] == "good"


@pytest.mark.parametrize(("name", "fewest"), [("fasttext", 3), ("fasttext_context", 2)])  # 2: a hierarchical softmax
def test_fasttext_answers_as_it_did_when_it_was_trained(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fewest: int
) -> None:
    monkeypatch.setattr(fasttext, "HIERARCHICAL_FROM", fewest)
    with_place = pq.read_table(table)
    with_place = with_place.append_column("place", pa.array(["north", "south"] * (NUM_ROWS // 2)))
    pq.write_table(with_place, tmp_path / "texts.parquet")
    recipe = recipe_of(tmp_path / "texts.parquet", name)
    report = run(recipe.changed(training={**recipe.training, "learning_rate": 0.1}), tmp_path / "run", is_quiet=True)
    assert report is not None
    assert report.metrics["accuracy_percent"].value > 90
    assert ("head.output.parents" in load_file(tmp_path / "run/model.safetensors")) == (fewest == 2)
    again = evaluate_run(tmp_path / "run").report
    assert again.metrics["cross_entropy_nats"].value == pytest.approx(report.metrics["cross_entropy_nats"].value)
    pipeline = TextPipeline.from_pretrained(tmp_path / "run")
    found = pipeline([{"text": "coat is GOOD"}, {"text": "never seen"}])
    assert found[0]["label"] == "good"
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize("fewest", [2, 3])
def test_fasttext_starts_at_the_shares_of_training(table: Path, monkeypatch: pytest.MonkeyPatch, fewest: int) -> None:
    monkeypatch.setattr(fasttext, "HIERARCHICAL_FROM", fewest)
    ready = prepare(recipe_of(table, "fasttext"))
    counts = ready.label_counts.double() + 0.5
    found = ready.build_model(ready.recipe).eval()(**ready.datasets["test"].__getitems__(torch.arange(3)).inputs())
    shares = (counts / counts.sum()).float().expand(3, -1)
    torch.testing.assert_close(found["logits"].softmax(dim=-1), shares, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["popularity", "tfidf"])
def test_what_is_fitted_needs_no_checkpoint(table: Path, tmp_path: Path, name: str) -> None:
    report = run(recipe_of(table, name), tmp_path / "run")
    assert report is not None
    assert (report.metrics["accuracy_percent"].value > 90) == (name == "tfidf")


def test_words_are_tagged_without_a_checkpoint(table: Path) -> None:
    recipe = recipe_of(table, "bilstm_crf", text="words", label="tags")
    ready = prepare(recipe)
    model = ready.build_model(ready.resolve(recipe))
    texts = ready.datasets["test"]
    assert ready.labels == ("O", "THING", "WORTH")
    assert model(input_ids=texts.input_ids[None, :6])["logits"].shape == (1, 6, 3)


@pytest.mark.parametrize("name", ["none", "global_state_update", *sorted({*TEXT_BASELINES} - {*WITHOUT_BERT})])
def test_what_reads_a_bert_needs_one(table: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"checkpoint is missing, and '{name}' needs a BERT") as failure:
        check_recipe(recipe_of(table, name))
    assert "popularity, context_popularity, tfidf" in failure.value.allowed


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        (MaskedText, {"text": "text"}),
        (QuestionAnswering, {"text": "text", "question": "asked", "answer": "found"}),
        (Classification, {"text": "text", "label": "verdict", "is_from_scratch": True}),
    ],
)
def test_a_task_that_no_baseline_learns_needs_a_checkpoint(task: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="none is named"):
        task(**settings)


def test_no_frequent_word_is_said(table: Path) -> None:
    ready = prepare(recipe_of(table, "ngrams").changed(min_customers=1000))
    assert any(line.startswith("warning: no word is left") for line in ready.lines())


def test_a_look_at_texts_needs_no_checkpoint(table: Path) -> None:
    found = inspect_table(recipe_of(table, "ngrams"))
    assert any(line.startswith("words a text: 4 to 4") for line in found.reading)


def test_a_customer_in_two_spellings_is_one(table: Path) -> None:
    ready = prepare(recipe_of(table, "ngrams"))
    names = ["Zo\u00eb", "Zoe\u0308", "7", None, None]
    texts = pa.table({"text": ["a", "b", "c", "d", "e"], "writer": names})
    found = customers_of_texts(replace(ready.recipe, customer="writer"), texts, ready.split)
    assert found is not None
    assert found[0] == found[1] != found[2] and found[3] == found[4] not in found[:3]
