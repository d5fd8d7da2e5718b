"""What a command prints to type next can be pasted, and does what was meant."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from contextual_bert.context import ContextSchema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TINY = ("--device", "cpu", "--epochs", "1")
TINY_MODEL = tuple(part for name, value in SIZES.items() for part in ("--model", f"{name}={value}"))
NUM_ROWS = 120


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without a head."""
    folder = tmp_path_factory.mktemp("no head") / "bert"
    config = BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES)
    miniature_checkpoint(drawn_anew(BertModel(config)), folder)
    return folder


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    lines = ["review;the stars;who;shop"]
    for row in range(NUM_ROWS):
        words = " ".join(f"word{number}" for number in draw.integers(0, 18, size=4))
        lines.append(f"{words};{1 + row % 3};writer {row % 30};{'ab'[row % 2]}")
    path = tmp_path / "my reviews.csv"
    path.write_text("\n".join(lines).replace(";", ",") + "\n", encoding="utf-8")
    return path


@pytest.fixture
def baskets(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    rows = [";".join(f"item, {number}" for number in draw.permutation(12)[:4]) for _ in range(NUM_ROWS)]
    path = tmp_path / "baskets.csv"
    lines = [f'"{items}",{row % 30},{"ab"[row % 2]},{row}' for row, items in enumerate(rows)]
    path.write_text("goods,who,shop,number\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def next_of(result: Any) -> list[list[str]]:
    """The commands below "next:", as a shell would take them apart."""
    assert result.exit_code == 0, (result.output, result.exception)
    lines = result.stderr.split("next:\n")[-1].splitlines() if "next:" in result.stderr else []
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("contextual-bert ")]


def test_a_split_of_labelled_texts_goes_on_to_train_on_the_labels(
    command: Any, reviews: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--text", "review", "--label", "the stars", "--ordinal", "--checkpoint", bert, "--exclude", "shop,who")
    (train,) = next_of(command("split", reviews, "--by", "who", *given))
    assert command(*train, *TINY).exit_code == 0
    recipe = Recipe.load(tmp_path / train[train.index("--output") + 1])
    assert (recipe.text_task.label, recipe.text_task.is_ordinal, recipe.customer) == ("the stars", True, "who")
    assert recipe.conditioning == "none"  # no column is left for a context


def test_a_split_of_texts_without_a_label_says_what_the_command_would_learn(
    command: Any, reviews: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = command("split", reviews, "--by-row", "--text", "review", "--checkpoint", bert)
    assert "learns hidden words, and each other column is context, a label too" in " ".join(made.stderr.split())
    silent = command("split", reviews, "--by-row", "--overwrite")
    assert next_of(silent) == []
    assert "the stars" in silent.stderr


def test_a_split_of_sets_with_another_separator(
    command: Any, baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--items", "goods", "--separator", ";", "--exclude", "number", "--customer", "who")
    (train,) = next_of(command("split", baskets, "--by", "who", *given))
    evaluate, complete = next_of(command(*train, *TINY, *TINY_MODEL))
    recipe = Recipe.load(Path(train[train.index("--output") + 1]))
    assert (recipe.set_task.items, recipe.set_task.policy.separator, recipe.customer) == ("goods", ";", "who")
    assert [feature["name"] for feature in (recipe.schema or {})["features"]] == ["shop"]
    context = json.loads(complete[complete.index("--context") + 1])
    assert context == {"shop": "a"}
    found = json.loads(command(*complete, "--format", "json").stdout)
    assert "unknown_items" not in found or not found["unknown_items"], found
    (again,) = next_of(command(*evaluate))
    assert again == complete
    (train_again,) = next_of(command("split", baskets, "--by-row", *given, "--overwrite"))
    assert train_again[train_again.index("--output") + 1] != train[train.index("--output") + 1]


def test_inspect_goes_on_with_the_columns_it_was_given(
    command: Any, baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--items", "goods", "--separator", ";", "--exclude", "shop", "--time", "number", "--split-by", "time")
    (train,) = next_of(command("inspect", baskets, *given))
    assert command(*train, *TINY, *TINY_MODEL).exit_code == 0
    recipe = Recipe.load(Path(train[train.index("--output") + 1]))
    assert (recipe.time, recipe.split_by) == ("number", "time")


def test_what_was_called_a_leak_is_no_context_of_the_next_command(
    command: Any, baskets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    header, *rows = baskets.read_text(encoding="utf-8").splitlines()
    kept = [row.replace(";", ",", row.count(";") - 1 - number % 2) for number, row in enumerate(rows)]
    lines = [f"{row},{row.count(';') + 1}" for row in kept]
    baskets.write_text("\n".join([f"{header},size", *lines]) + "\n", encoding="utf-8")
    given = ("--items", "goods", "--separator", ";", "--exclude", "number", "--duplicates", "keep")
    result = command("inspect", baskets, *given)
    (train,) = next_of(result)
    assert "left out of the context as leaks: 'size'" in result.output
    assert "Give --leaks keep" in " ".join(result.output.split())
    assert ContextSchema.load(tmp_path / "schema.json").names == ("who", "shop")
    assert train[train.index("--schema") + 1] == "schema.json"
    kept_in = command("inspect", baskets, *given, "--override", "size=numerical", "--overwrite")
    assert "size" in ContextSchema.load(tmp_path / "schema.json").names, kept_in.output
    (train,) = next_of(command("split", baskets, "--by-row", *given[:-2]))
    assert train[train.index("--exclude") + 1] == "number,size"


def test_a_table_that_cannot_be_split_gets_no_command(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("goods,who\n" + "a;b,ann\n" * 30)
    result = command(
        "inspect", path, "--items", "goods", "--separator", ";", "--customer", "who", "--output", tmp_path / "s.json"
    )
    assert "cannot be split" in result.stdout
    assert "next:" not in result.stderr
    assert "give it other shares" in result.stderr


def test_what_is_measured_is_what_is_evaluated_next(command: Any, finished: Path, table: Path) -> None:
    options = ("--data", table, "--part", "validation", "--device", "cpu")
    (evaluate,) = next_of(command("importance", finished, *options))
    assert evaluate[:6] == ["evaluate", str(finished), "--data", str(table), "--part", "validation"]


def test_a_head_that_starts_at_random_is_named(command: Any, reviews: Path, bert: Path, tmp_path: Path) -> None:
    read = ("train", reviews, "--text", "review", "--exclude", "the stars,who", *TINY, "--conditioning", "none")
    result = command(*read, "--checkpoint", bert, "--output", tmp_path / "masked")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert f"{bert} has no head for hidden words: the weights cls.predictions.* are missing" in said
    assert "no longer falls: --epochs 10 --mask-rate 0.4 --set new_weights_learning_rate=0.001." in said
    with_head = tmp_path / "with head"
    config = BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES)
    miniature_checkpoint(drawn_anew(BertForMaskedLM(config)), with_head)
    result = command(*read, "--checkpoint", with_head, "--output", tmp_path / "masked2")
    assert result.exit_code == 0, result.output
    assert "no head" not in result.stderr


def test_a_head_for_other_labels_is_named(command: Any, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "graded"
    config = BertConfig(
        vocab_size=23,
        max_position_embeddings=16,
        id2label={0: "bad", 1: "good"},
        label2id={"bad": 0, "good": 1},
        **SIZES,
    )
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), folder)
    read = ("--text", "review", "--label", "the stars", "--exclude", "who", "--checkpoint", folder, *TINY)
    result = command("train", reviews, *read, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "has a head for the labels bad, good. This run learns 1, 2, 3. Its own starts at random" in said


def test_a_sample_of_the_hidden_tokens_is_scored(command: Any, reviews: Path, bert: Path, tmp_path: Path) -> None:
    read = ("train", reviews, "--text", "review", "--exclude", "the stars,who", *TINY, "--checkpoint", bert)
    few = ("--scored-tokens", 20)
    for name, more in (("a", few), ("b", (*few, "--seed", 1)), ("all", ("--scored-tokens", "all"))):
        result = command(*read, *more, "--output", tmp_path / name)
        assert result.exit_code == 0, result.output
    from contextual_bert.runs.run_directory import load_run

    a, b, whole = (load_run(tmp_path / name, name=name).scores for name in ("a", "b", "all"))
    assert len(a) == 20 < len(whole)
    assert (a.example_id == b.example_id).all()
    assert (a.position == b.position).all()
    result = command("evaluate", tmp_path / "a", "--device", "cpu", "--format", "markdown")
    assert f"Scored 20 of {len(whole)} hidden tokens" in " ".join(result.stdout.split())
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text("utf-8"))["test"]
    assert (metrics["num_rows"], metrics["num_possible_rows"]) == (20, len(whole))
    result = command("evaluate", tmp_path / "a", "--scored-tokens", "all", "--device", "cpu", "--format", "json")
    assert json.loads(result.stdout)["num_rows"] == len(whole)
    refused = command("evaluate", tmp_path / "a", "--scored-tokens", "some")
    assert refused.exit_code == 2
    assert "a whole number of at least 1, or all" in refused.stderr
