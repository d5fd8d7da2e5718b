"""Runs that learn to write: from a table of texts to perplexities and texts, with a checkpoint and without."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from contextual_bert import (
    ContextualBertForCausalLM,
    ContextualBertProcessor,
    TextGeneration,
    generate_texts,
)
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models import IGNORED_LABEL
from contextual_bert.runs import evaluate_run, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import CausalText, Recipe, task_on_texts
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TRAINING = {"max_steps": 250, "per_device_train_batch_size": 16, "learning_rate": 3e-3}
SAYS = {"f": "red coat red coat red coat", "m": "blue hat blue hat blue hat"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What follows the first word depends on who writes alone."""
    numbers = np.random.default_rng(0)
    sex = numbers.choice(["f", "m"], size=200).tolist()
    first = numbers.choice(["so", "well", "now"], size=200).tolist()
    texts = [f"{word} {SAYS[who]}" for word, who in zip(first, sex, strict=True)]
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table({"text": texts, "sex": sex}), path)
    return path


def recipe(table: Path, **fields: Any) -> Recipe:
    task = {"text": "text", "objective": "causal", "vocab_size": 300, "max_length": 12, **fields.pop("task", {})}
    model = fields.pop("model", SIZES)
    return Recipe(data=str(table), task=task_on_texts(**task), model=model, training=TRAINING, **fields)


@pytest.fixture(scope="module")
def runs(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    found = {
        "none": recipe(table, conditioning="none"),
        "context": recipe(table, conditioning="global_state_update"),
        "shuffled": recipe(table, conditioning="global_state_update", is_context_shuffled=True),
    }
    for name, each in found.items():
        run(each, folder / name)
    return {name: folder / name for name in found}


def nats(directory: Path) -> float:
    return json.loads((directory / "metrics.json").read_text())["test"]["metrics"]["cross_entropy_nats"]["value"]


def test_the_context_lowers_the_perplexity_and_one_that_is_shuffled_does_not(runs: dict[str, Path]) -> None:
    found = {name: nats(directory) for name, directory in runs.items()}
    saved = math.log(2) / 8  # one bit in a text of about eight tokens, of which only one is open
    assert found["none"] - found["context"] > saved / 2
    assert abs(found["shuffled"] - found["none"]) < saved / 2


def test_texts_are_written_under_a_context(runs: dict[str, Path]) -> None:
    model = ContextualBertForCausalLM.from_pretrained(runs["context"])
    processor = ContextualBertProcessor.from_pretrained(runs["context"])
    short = TextGeneration(max_new_tokens=9, temperature=0.3)
    for sex, word in (("f", "coat"), ("m", "hat")):
        texts = generate_texts(model, processor, context={"sex": sex}, prompt="so", num_samples=32, generation=short)
        assert len(texts) == 32 and all(text.startswith("so") for text in texts)
        assert sum(word in text for text in texts) >= 28
    again = generate_texts(model, processor, context={"sex": "m"}, prompt="so", num_samples=32, generation=short)
    assert again == texts
    beams = TextGeneration(max_new_tokens=9, num_beams=3)
    assert "hat" in generate_texts(model, processor, context={"sex": "m"}, num_samples=1, generation=beams)[0]


def test_scores_are_those_of_the_model_on_whole_texts(runs: dict[str, Path], table: Path) -> None:
    ready = prepare(recipe(table, conditioning="global_state_update"))
    loaded: Any = ContextualBertForCausalLM.from_pretrained(runs["context"]).eval()
    dataset = ready.datasets["test"]
    scores = ready.score_dataset(loaded, dataset, "test")
    batch = dataset.__getitems__(range(len(dataset))).inputs()
    with torch.no_grad():
        loss = loaded(**batch).loss
    assert math.isclose(-scores.log_probability.mean(), float(loss), rel_tol=1e-5)
    asked = int((batch["labels"][:, 1:] != IGNORED_LABEL).sum())
    assert (
        len(scores.log_probability)
        == asked
        == int(ready.texts["test"].dataset.sizes.sum()) - len(ready.texts["test"].dataset)
    )


def test_a_kept_run_is_evaluated_to_the_same_digits(runs: dict[str, Path]) -> None:
    before, _ = load_scores(runs["context"] / SCORES_FILE)
    report = evaluate_run(runs["context"], part="test").report
    assert report.metrics["cross_entropy_nats"].value == pytest.approx(-before.log_probability.mean(), rel=1e-6)
    assert any("Perplexity" in line for line in report.notes())


def test_long_texts_are_read_in_windows_and_nothing_is_cut(table: Path) -> None:
    ready = prepare(recipe(table, conditioning="none", task={"max_length": 5}))
    dataset, whole = ready.datasets["train"], ready.texts["train"].dataset
    assert dataset.sizes.max() <= 5 and len(dataset) > len(whole)
    assert int(dataset.sizes.sum()) - len(dataset) == int(whole.sizes.sum()) - len(whole)
    assert any("read in" in line and "windows of at most 5 tokens" in line for line in ready.own_lines())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    plain = GPT2LMHeadModel(GPT2Config(vocab_size=23, n_embd=32, n_layer=2, n_head=2, n_positions=16))
    miniature_checkpoint(drawn_anew(plain), folder)
    return folder


def test_a_checkpoint_of_gpt2_is_gone_on_from(table: Path, checkpoint: Path, tmp_path: Path) -> None:
    task = {"checkpoint": str(checkpoint), "vocab_size": None, "max_length": None}
    known = {word: f"word{number}" for number, word in enumerate(("so", "well", "now", "red", "coat", "blue", "hat"))}
    own = pq.read_table(table).to_pydict()
    own["text"] = [" ".join(known[word] for word in text.split()) for text in own["text"]]
    pq.write_table(pa.table(own), tmp_path / "texts.parquet")
    chosen = recipe(tmp_path / "texts.parquet", conditioning="film", task=task, model={})
    run(chosen, tmp_path / "run")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    assert type(model) is ContextualBertForCausalLM and model.config.max_position_embeddings == 16


def test_a_checkpoint_that_reads_both_ways_is_refused_and_the_reverse(
    table: Path, checkpoint: Path, tmp_path: Path
) -> None:
    bert = BertForMaskedLM(BertConfig(vocab_size=23, **SIZES))
    miniature_checkpoint(bert, tmp_path / "bert")
    task = {"checkpoint": str(tmp_path / "bert"), "vocab_size": None, "max_length": None}
    with pytest.raises(CheckpointError, match=r"'bert', which reads in both directions.*Allowed: gpt2"):
        prepare(recipe(table, conditioning="film", task=task, model={}))
    for label in (None, "sex"):
        task = task_on_texts(text="text", checkpoint=str(checkpoint), label=label)
        masked = Recipe(data=str(table), task=task, conditioning="none")
        with pytest.raises(CheckpointError, match="'gpt2', which reads from left to right"):
            prepare(masked)


def test_state_flow_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a position would see those that follow it"):
        run(recipe(table, conditioning="state_flow"), tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"label": "sex"}, "objective='causal' is for the texts themselves, and label='sex' is learned"),
        ({"mask_rate": 0.4}, "mask_rate=0.4 is for hidden tokens, and objective='causal' is learned"),
        ({"vocab_size": 900, "checkpoint": "gpt2"}, "vocab_size=900 is for a tokenizer that is trained"),
    ],
)
def test_settings_of_other_objectives_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        task_on_texts(text="text", objective="causal", **given)
    assert said in str(refused.value)


def test_a_tokenizer_is_trained_for_texts_that_are_written_alone() -> None:
    with pytest.raises(ConfigurationError, match="is for a tokenizer that is trained, and objective='masked' is"):
        task_on_texts(text="text", checkpoint="bert", vocab_size=900)
    with pytest.raises(ConfigurationError, match="objective='masked' is not what this task learns"):
        CausalText(text="text", objective="masked")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 is not allowed. Give a number from 0"),
        ({"top_p": 0.0}, "top_p=0.0 is not allowed. Give a number above 0, at most 1"),
        ({"guidance": -1.0}, "guidance=-1.0 is not allowed"),
        ({"num_beams": 0}, "num_beams=0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"num_beams": 2, "temperature": 0.5}, "temperature=0.5 is for drawn texts, and num_beams=2 searches"),
    ],
)
def test_settings_of_texts_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        TextGeneration(**settings)
    assert said in str(refused.value)


def test_prompts_and_contexts_that_cannot_be_read_are_refused(runs: dict[str, Path]) -> None:
    model = ContextualBertForCausalLM.from_pretrained(runs["context"])
    processor = ContextualBertProcessor.from_pretrained(runs["context"])
    with pytest.raises(ConfigurationError, match=r"prompt='so red red.*the model reads 12: nothing can be written"):
        generate_texts(model, processor, prompt="so" + " red" * 30)
    with pytest.raises(ConfigurationError, match=r"max_new_tokens=12 is more than there is room.*Give 10 or fewer"):
        generate_texts(model, processor, prompt="so", generation=TextGeneration(max_new_tokens=12))
    with pytest.raises(ConfigurationError, match="guidance=2 starts from what the model says when nothing is known"):
        generate_texts(model, processor, generation=TextGeneration(max_new_tokens=3, guidance=2.0))
    with pytest.raises(ConfigurationError, match="num_samples=3 is more than num_beams=2"):
        generate_texts(model, processor, num_samples=3, generation=TextGeneration(max_new_tokens=3, num_beams=2))
    plain = ContextualBertForCausalLM.from_pretrained(runs["none"])
    own = ContextualBertProcessor.from_pretrained(runs["none"])
    with pytest.raises(ConfigurationError, match="conditioning='none' takes none"):
        generate_texts(plain, own, context={"sex": "f"})


def test_the_command_writes_under_each_context(runs: dict[str, Path]) -> None:
    asked = ["generate", str(runs["context"]), "--prompt", "well", "--max-new-tokens", "8", "--temperature", "0.2"]
    contexts = ["--context", '{"sex": "f"}', "--context", '{"sex": "m"}']
    result = CliRunner().invoke(app, [*asked, *contexts, "--num-samples", "2", "--format", "json"])
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)
    assert first["context"] == {"sex": "f"} and len(first["texts"]) == 2
    assert "coat" in first["texts"][0] and "hat" in second["texts"][0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-new-tokens", "300"], "--max-new-tokens 300"),
        (["--top-p", "2"], "--top-p 2"),
        (["--num-beams", "2", "--temperature", "0.5"], "--num-beams 2"),
        (["--context", '{"age": 3}'], "age"),
        (["--guidance", "3"], "guidance=3"),
    ],
)
def test_the_command_says_in_options_what_cannot_work(runs: dict[str, Path], options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["generate", str(runs["context"]), *options])
    assert result.exit_code == 2 and said in result.stderr, result.output


def test_a_run_that_writes_is_no_run_of_hidden_words(runs: dict[str, Path]) -> None:
    for command, asked in (("sample", []), ("predict", ["--text", "a"])):
        result = CliRunner().invoke(app, [command, str(runs["none"]), *asked])
        assert result.exit_code == 2 and "contextual-bert generate" in result.stderr


def test_the_epochs_of_a_new_model_follow_from_its_own_batch(table: Path) -> None:
    new = replace(recipe(table, conditioning="none"), training={})
    ready = prepare(new)
    chosen, steps = ready.default_training(new), len(ready.datasets["train"]) / 16
    assert chosen["per_device_train_batch_size"] == 16
    assert chosen["num_train_epochs"] == math.ceil(200 / math.ceil(steps))  # the 200 steps of a small table, no more
