"""Runs of language models in both directions: perplexities, a resumed run, what is read, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from contextual_bert.errors import CheckpointError, ConfigurationError, DataError
from contextual_bert.models.bidirectional_lm import BidirectionalLM
from contextual_bert.models.word_characters import encode_words
from contextual_bert.runs import evaluate_run, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, check_text_start, load_scores
from contextual_bert.runs.text_starts import split_words
from contextual_bert.training import BidirectionalText, Recipe
from contextual_bert.training.objectives import BothWaysObjective
from contextual_bert_cli.main import app

SIZES = {"hidden_size": 12, "filters": [[1, 4], [2, 8]], "max_characters": 9}
TRAINING = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences with a name that is rarely the same, in texts and in lists of words."""
    numbers = np.random.default_rng(0)
    names, places = numbers.integers(400, size=240), numbers.choice(["Rome", "Oslo"], size=240)
    words = [["We", "met", f"Bob{name}", "in", place, "."] for name, place in zip(names, places, strict=True)]
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    columns = {"text": [" ".join(each) for each in words], "words": words, "sex": ["f", "m"] * 120}
    pq.write_table(pa.table(columns), path)
    return path


def recipe(table: Path, **fields: Any) -> Recipe:
    given: dict[str, Any] = {"text": "text", **fields.pop("task", {})}
    task = BidirectionalText(**given)
    training = {**TRAINING, **fields.pop("training", {})}
    model: Any = fields.pop("model", SIZES)
    return Recipe(data=str(table), task=task, conditioning="none", training=training, model=model, **fields)


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "elmo"
    run(recipe(table), folder)
    return folder


def nats(directory: Path, part: str = "test") -> float:
    return json.loads((directory / "metrics.json").read_text())[part]["metrics"]["cross_entropy_nats"]["value"]


def test_the_perplexity_is_that_of_both_directions_by_hand(finished: Path, table: Path) -> None:
    model: Any = BidirectionalLM.from_pretrained(finished).eval()
    ready = prepare(recipe(table))
    rows = ready.split.rows("test")
    texts = pq.read_table(table).column("text").to_pylist()
    losses: list[float] = []
    for row in rows:
        words = split_words(texts[row], is_cased=True)
        batch = encode_words([words], vocabulary=model.config.vocabulary, max_characters=9)
        with torch.no_grad():
            forward, backward = model(**batch).hidden_states[-1][0].chunk(2, dim=1)
            labels = batch["labels"][0]
            before = model.softmax.log_prob(forward[:-1])[range(len(words) + 1), labels[1:]]
            behind = model.softmax.log_prob(backward[1:])[range(len(words) + 1), labels[:-1]]
        losses += [*(-before).tolist(), *(-behind).tolist()]
    assert len(losses) == 2 * 7 * len(rows)
    assert math.isclose(nats(finished), np.mean(losses), rel_tol=1e-5)
    report = evaluate_run(finished, part="test").report
    assert report.metrics["cross_entropy_nats"].value == pytest.approx(nats(finished), rel=1e-6)
    assert any(f"{math.exp(nats(finished)):.2f}"[:4] in line for line in report.notes() if "Perplexity" in line)
    assert {each.feature for each in report.segments} >= {"direction"}


def test_what_repeats_is_learned(finished: Path, table: Path) -> None:
    ready: Any = prepare(recipe(table))
    shares = -ready.log_shares(is_without_visible=False)
    assert nats(finished) < float(np.log(len(shares)))
    curve = json.loads((finished / "history.json").read_text())
    assert len(curve["points"]) == 3


def test_positions_tell_the_word_and_the_direction(finished: Path, table: Path) -> None:
    scores, _ = load_scores(finished / SCORES_FILE)
    assert sorted(scores.position[scores.example_id == scores.example_id[0]].tolist()) == [1, *range(2, 14), 14]
    ready: Any = prepare(recipe(table))
    vocabulary, targets = np.array(ready.vocabulary), ready.targets("test", scores)
    of_first = {pos: vocabulary[word] for pos, word in zip(scores.position[:14].tolist(), targets[:14], strict=True)}
    assert (of_first[1], of_first[2], of_first[3], of_first[6], of_first[14]) == ("<s>", "We", "We", "<unk>", "</s>")


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(
    finished: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    rank = BothWaysObjective.rank

    def ranked(self: BothWaysObjective, *args: Any) -> Any:
        steps.append(1)
        if len(steps) == 2:  # in the evaluation behind the second epoch
            raise KeyboardInterrupt
        return rank(self, *args)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(BothWaysObjective, "rank", ranked)
        run(recipe(table), tmp_path / "run", is_quiet=True)
    assert list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    run(recipe(table), tmp_path / "run", is_resumed=True)
    straight, resumed = (BidirectionalLM.from_pretrained(each).state_dict() for each in (finished, tmp_path / "run"))
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    assert nats(tmp_path / "run") == nats(finished)


def test_lists_of_words_are_read_as_they_are(table: Path) -> None:
    lists, texts = (prepare(recipe(table, task={"text": name})) for name in ("words", "text"))
    for part in ("train", "test"):
        own, other = lists.datasets[part], texts.datasets[part]
        assert torch.equal(own.input_ids, other.input_ids)
        assert torch.equal(own.__getitems__([0]).characters, other.__getitems__([0]).characters)


def test_a_word_of_few_texts_is_read_and_not_predicted(table: Path) -> None:
    ready: Any = prepare(recipe(table, min_customers=5))
    assert set(ready.vocabulary) == {"<unk>", "<s>", "</s>", "We", "met", "in", "Rome", "Oslo", "."}
    assert any("16.7% of the words are others" in line for line in ready.own_lines())
    characters = ready.datasets["train"].__getitems__([0]).characters[0, 3]
    assert characters[:4].tolist() == [259, *(byte + 1 for byte in b"Bob")]


def test_long_texts_are_read_in_windows_and_each_word_once(table: Path, tmp_path: Path) -> None:
    short = recipe(table, task={"max_length": 4}, training={"num_train_epochs": 1})
    ready = prepare(short)
    assert ready.datasets["train"].sizes.max() == 4
    assert any("windows of at most 4 tokens" in line for line in ready.own_lines())
    run(short, tmp_path / "run", prepared=ready)
    scores, _ = load_scores(tmp_path / "run" / SCORES_FILE)
    pairs = list(zip(scores.example_id.tolist(), scores.position.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) == 14 * len(ready.split.rows("test"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpoint", "bert-base-uncased"], "all weights are new"),
        (["--conditioning", "concat"], "Give --conditioning none"),
        (["--phrases", "sex"], "is for hidden tokens, and --objective bidirectional is learned"),
        (["--target", "sex"], "--target sex is learned"),
        (["--model", "num_attention_heads=2"], "no field of a model's config"),
        (["--model", "hidden_size=0"], "--model hidden_size=0 is not allowed"),
        (["--model", "max_characters=2"], "--model max_characters=2 is not allowed"),
        (["--min-customers", "1000"], "Give a smaller --min-customers"),
        (["--text", "sex", "--exclude", "text", "--min-customers", "1000"], "no word of the training part"),
    ],
)
def test_what_does_not_go_together_is_said_and_nothing_is_written(
    table: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    given = ["train", str(table), "--objective", "bidirectional", "--output", str(tmp_path / "run")]
    text = [] if "--text" in options else ["--text", "text"]
    found = CliRunner().invoke(app, [*given, *text, *options])
    assert found.exit_code == 2 and said in " ".join(found.output.split())
    assert not (tmp_path / "run").exists()


def test_the_command_trains_evaluates_and_says_what_comes_next(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elmo"
    given = ["--text", "text", "--objective", "bidirectional", "--model", "hidden_size=8", "--epochs", "1"]
    found = CliRunner().invoke(app, ["train", str(table), *given, "--output", str(folder)])
    assert found.exit_code == 0, found.output
    assert f"--elmo {folder}" in " ".join(found.output.split())
    assert BidirectionalLM.from_pretrained(folder).config.hidden_size == 8
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "(ELMo)" in card and "BidirectionalLM.from_pretrained" in card
    found = CliRunner().invoke(app, ["evaluate", str(folder)])
    assert found.exit_code == 0 and "Perplexity, e to the CE" in " ".join(found.output.split())
    found = CliRunner().invoke(app, ["predict", str(folder), str(table), "--output", str(tmp_path / "out.parquet")])
    assert found.exit_code == 2 and "train ... --elmo" in " ".join(found.output.split())


def test_a_table_without_words_is_named(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": [""] * 30}), path)
    with pytest.raises(DataError, match="no word of the training part"):
        prepare(recipe(path))


def test_python_is_told_too(table: Path, finished: Path) -> None:
    with pytest.raises(ConfigurationError, match="no model of words from both sides does"):
        Recipe(data=str(table), task=BidirectionalText(text="text"))
    with pytest.raises(ConfigurationError, match="Take MaskedText"):
        BidirectionalText(text="text", objective="causal")
    with pytest.raises(CheckpointError, match="language models in both directions"):
        check_text_start(finished)
