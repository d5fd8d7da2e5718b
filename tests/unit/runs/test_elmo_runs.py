"""Baselines that read the vectors of a language model in both directions, saved and asked by themselves."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from contextual_bert import ContextualBertProcessor, TextPipeline
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference.elmo import elmo_config, load_elmo
from contextual_bert.inference.texts.text_labels import LABEL
from contextual_bert.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig
from contextual_bert.models.word_characters import most_frequent_words
from contextual_bert.runs import evaluate_run, prepare, run
from contextual_bert.runs.registry import as_row, check_kind, check_read
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, Recipe, Tagging, task_on_texts
from contextual_bert_cli.main import app

TRAINING = {"num_train_epochs": 6, "per_device_train_batch_size": 32, "learning_rate": 2e-2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names that are never twice the same, of which the spelling says who they are; and a small language model."""
    folder = tmp_path_factory.mktemp("elmo")
    numbers = np.random.default_rng(0).permutation(400)
    who = ["PER" if number % 2 else "LOC" for number in numbers]
    names = [f"{'Mr' if each == 'PER' else 'Port'}{number}" for each, number in zip(who, numbers, strict=True)]
    words = [["we", "saw", name, "then"] for name in names]
    columns = {
        "words": words,
        "tags": [["O", "O", f"B-{each}", "O"] for each in who],
        "text": [" ".join(each) for each in words],
        "label": who,
        "stars": [1 if each == "PER" else 2 for each in who],
        "sex": ["f", "m"] * 200,
    }
    pq.write_table(pa.table(columns), folder / "table.parquet")
    torch.manual_seed(0)
    vocabulary = most_frequent_words(words, vocab_size=9)
    config = BidirectionalLMConfig(vocabulary, hidden_size=16, filters=[[1, 16], [2, 16]], max_characters=12)
    BidirectionalLM(config).save_pretrained(folder / "model")
    return folder


def recipe(folder: Path, conditioning: str = "bilstm_crf", **fields: Any) -> Recipe:
    task = fields.pop("task", None) or Tagging(text="words", label="tags", elmo=str(folder / "model"))
    data = str(folder / "table.parquet")
    exclude = ("words", "tags", "text", "label", "stars")
    exclude = tuple(name for name in exclude if name not in task.columns)
    return Recipe(data=data, task=task, conditioning=conditioning, exclude=exclude, training=TRAINING, **fields)


def labelled(folder: Path, **fields: Any) -> Classification:
    return Classification(**{"text": "text", "label": "label", "elmo": str(folder / "model"), **fields})


@pytest.fixture(scope="module")
def tagger(folder: Path) -> Path:
    run(recipe(folder), folder / "tagger", is_quiet=True)
    return folder / "tagger"


def metric(directory: Path, name: str) -> float:
    return json.loads((directory / "metrics.json").read_text())["test"]["metrics"][name]["value"]


def test_the_mixture_is_learned_and_the_language_model_stays(folder: Path, tagger: Path) -> None:
    weights, own = load_file(tagger / "model.safetensors"), load_file(folder / "model" / "model.safetensors")
    assert all(torch.equal(weights[f"elmo.model.{name}"], own[name]) for name in own)
    assert (weights["elmo.mixture.weights"] != 0).all() and weights["elmo.mixture.scale"] != 1
    assert weights["states.recurrence.weight_ih_l0"].shape[1] == 128 + 32


def test_spelling_tells_what_words_alone_do_not(folder: Path, tagger: Path) -> None:
    run(as_row(recipe(folder), "bilstm_crf").changed(elmo=None), folder / "alone", is_quiet=True)
    assert metric(tagger, "entity_f1_percent") > 90 > 70 > metric(folder / "alone", "entity_f1_percent")
    assert "model.safetensors" in [each.name for each in (folder / "alone").iterdir()]
    assert ContextualBertProcessor.from_pretrained(folder / "alone").max_characters is None


def test_a_run_answers_by_itself(folder: Path, tagger: Path, tmp_path: Path) -> None:
    """The language model is within the run: the folder that it came from is not asked."""
    shutil.copytree(tagger, tmp_path / "run")
    content = (tmp_path / "run" / "recipe.json").read_text()
    assert str(folder / "model") in content
    moved = folder / "model.moved"
    (folder / "model").rename(moved)
    try:
        pipeline = TextPipeline.from_pretrained(tagger)
        found: Any = pipeline({"text": ["we", "saw", "Mr1234", "then"]})
        assert found["label"] == ["O", "O", "B-PER", "O"]
        report = evaluate_run(tagger, part="test").report
        assert report.metrics["entity_f1_percent"].value == metric(tagger, "entity_f1_percent")
    finally:
        moved.rename(folder / "model")
    before, _ = load_scores(tagger / SCORES_FILE)
    assert report.metrics["cross_entropy_nats"].value == pytest.approx(-before.log_probability.mean(), rel=1e-6)


@pytest.mark.parametrize("name", ["bilstm", "bigru_context", "rnn"])
def test_whole_texts_are_read_beside_too(folder: Path, tmp_path: Path, name: str) -> None:
    run(recipe(folder, name, task=labelled(folder)), tmp_path / "run", is_quiet=True)
    found: Any = TextPipeline.from_pretrained(tmp_path / "run")
    answers = found([{"text": "we saw Mr777 then"}, {"text": "we saw Port778 then"}])
    assert [each["label"] for each in answers] == ["PER", "LOC"] or name == "rnn"
    assert not any("knows no word" in note for each in answers for note in each["notes"])
    assert metric(tmp_path / "run", "accuracy_percent") > 80 or name == "rnn"
    table = found.label_table(pa.table({"text": ["we saw Mr777 then"], "sex": ["f"]})).table
    assert table.column(LABEL).to_pylist() == [answers[0]["label"]] or name == "bigru_context"


def test_grades_are_learned_beside(folder: Path, tmp_path: Path) -> None:
    task = labelled(folder, label="stars", is_ordinal=True)
    run(recipe(folder, "bilstm", task=task), tmp_path / "run", is_quiet=True)
    assert metric(tmp_path / "run", "mean_absolute_error") < 0.2


def test_the_pieces_of_a_checkpoint_have_the_vectors_of_their_words(folder: Path, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    miniature_checkpoint(BertForMaskedLM(BertConfig(vocab_size=23, **sizes)), tmp_path / "bert")
    task = Tagging(text="words", label="tags", elmo=str(folder / "model"), checkpoint=str(tmp_path / "bert"))
    run(recipe(folder, "bilstm", task=task), tmp_path / "run", is_quiet=True)
    assert metric(tmp_path / "run", "entity_f1_percent") > 90  # the tokenizer knows none of the words


def test_rows_that_cannot_read_it_go_without_in_a_comparison(folder: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app,
        [
            *("compare", str(folder / "table.parquet"), "--text", "words", "--label", "tags", "--epochs", "1"),
            *("--exclude", "text,label,stars", "--baselines", "hmm,bilstm_crf", "--seeds", "1"),
            *("--elmo", str(folder / "model"), "--output", str(tmp_path / "study")),
        ],
    )
    assert found.exit_code == 0, found.output
    said = " ".join((tmp_path / "study" / "report.md").read_text(encoding="utf-8").split())
    assert "`hmm` does not read the vectors of the language model in both directions (ELMo)" in said
    kept = {name: tmp_path / "study" / name / "seed-0" for name in ("hmm", "bilstm_crf")}
    assert ContextualBertProcessor.from_pretrained(kept["hmm"]).max_characters is None
    assert ContextualBertProcessor.from_pretrained(kept["bilstm_crf"]).max_characters == 12
    assert json.loads((kept["hmm"] / "recipe.json").read_text())["recipe"]["task"]["elmo"] is None


def test_the_command_trains_and_predicts(folder: Path, tmp_path: Path) -> None:
    given = ["train", str(folder / "table.parquet"), "--text", "words", "--label", "tags", "--epochs", "1"]
    given += ["--conditioning", "bilstm_crf", "--elmo", str(folder / "model"), "--output", str(tmp_path / "run")]
    found = CliRunner().invoke(app, [*given, "--exclude", "text,label,stars"])
    assert found.exit_code == 0, found.output
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "the vectors of `model` (ELMo)" in card
    found = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), "--text", "we saw Mr3"])
    assert found.exit_code == 0 and found.output.strip()


def test_another_language_model_is_another_run(folder: Path, tmp_path: Path) -> None:
    def digest(model: Path) -> str:
        task = Tagging(text="words", label="tags", elmo=str(model))
        return prepare(recipe(folder, task=task)).digests["elmo_digest"]

    copied = tmp_path / "model"
    load_elmo(folder / "model").save_pretrained(copied)
    assert digest(copied) == digest(folder / "model")
    torch.manual_seed(1)
    BidirectionalLM(elmo_config(copied)).save_pretrained(copied)
    assert digest(copied) != digest(folder / "model")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--conditioning", "hmm"], "Allowed with it: bilstm, bilstm_context, bilstm_crf"),
        (["--conditioning", "bilstm", "--elmo", "nowhere"], "there is no such folder"),
        (["--conditioning", "bilstm", "--elmo", "TAGGER"], "holds no language model in both directions"),
        (["--conditioning", "bilstm", "--elmo", "TAGGER"], "trained with --objective bidirectional"),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_written(
    folder: Path, tagger: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    given = ["train", str(folder / "table.parquet"), "--text", "words", "--label", "tags", "--output"]
    named = [str(tagger) if each == "TAGGER" else each for each in options]
    elmo = [] if "--elmo" in options else ["--elmo", str(folder / "model")]
    found = CliRunner().invoke(app, [*given, str(tmp_path / "run"), *elmo, *named])
    assert found.exit_code == 2 and said in " ".join(found.output.split())
    assert not (tmp_path / "run").exists()


def test_python_is_told_too(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="recurrent networks over words, and 'cnn' is none"):
        check_kind(recipe(folder, "cnn", task=labelled(folder)))
    with pytest.raises(ConfigurationError, match="Add one of bilstm"):
        base = recipe(folder, "none")
        check_read(base, [as_row(base, "none")])
    with pytest.raises(ConfigurationError, match="single texts"):
        labelled(folder, pair="words")
    with pytest.raises(ConfigurationError, match="none is named"):
        task_on_texts(text="text", checkpoint="bert-base-uncased", elmo="runs/elmo")
    with pytest.raises(RunDirectoryError, match="there is no such folder"):
        prepare(recipe(folder, task=labelled(folder, elmo=str(folder / "none")), conditioning="bilstm"))


def test_a_damaged_language_model_is_named(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "model"
    shutil.copytree(folder / "model", copied)
    (copied / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunDirectoryError, match="damaged"):
        run(recipe(folder, task=Tagging(text="words", label="tags", elmo=str(copied))), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()
