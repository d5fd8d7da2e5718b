"""Runs whose items have titles, from a catalogue and a sentence encoder to answers without it."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from transformers import BertConfig, BertForMaskedLM
from typer.testing import CliRunner

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline, change_catalogue
from contextual_bert.runs import run
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion
from contextual_bert_cli.main import app

COLOURS = ("red", "green", "blue", "black")
MODEL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
BERT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTUAL_BERT_CACHE", str(tmp_path / "cache"))


def title(name: str) -> str:
    """The colour and the number of an item, as words that the encoder has learned."""
    colour, number = name.split("-")
    word = COLOURS.index(colour)
    return f"word{word} word{word} word{word} word{6 + int(number)}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of one colour each, a catalogue with titles, and a sentence encoder."""
    folder, generator = tmp_path_factory.mktemp("shop"), np.random.default_rng(0)
    sets = [
        {"items": [f"{COLOURS[row % 4]}-{item}" for item in generator.choice(6, 3, replace=False)]}
        for row in range(400)
    ]
    parquet.write_table(pa.Table.from_pylist(sets), folder / "sets.parquet")
    names = [f"{colour}-{number}" for colour in COLOURS for number in range(6)]
    write_catalogue(folder / "items.parquet", names)
    write_catalogue(folder / "new.parquet", ["green-7", "green-0"])
    config = BertConfig(vocab_size=23, max_position_embeddings=16, **BERT)
    miniature_checkpoint(drawn_anew(BertForMaskedLM(config)), folder / "encoder")
    return folder


def write_catalogue(path: Path, names: list[str]) -> None:
    sizes = ["s" if index % 2 else "l" for index in range(len(names))]
    parquet.write_table(pa.table({"id": names, "title": [title(name) for name in names], "size": sizes}), path)


def recipe(data: Path, **task: object) -> Recipe:
    task = {"item_kinds": {"title": "text"}, "item_text_encoder": str(data / "encoder"), **task}
    return Recipe(
        data=str(data / "sets.parquet"),
        task=SetCompletion(items="items", catalogue=str(data / "items.parquet"), **task),
        model=MODEL,
        training={"num_train_epochs": 25},
        validation=0.1,
        test=0.1,
        device="cpu",
        conditioning="none",
        dtype="float32",
    )


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "with"
    run(recipe(data), output, is_quiet=True)
    return output


@pytest.fixture
def finished(data: Path, trained: Path) -> Path:
    """The run, beside an encoder that may be taken away."""
    yield trained
    if (data / "away").is_dir():
        shutil.rmtree(data / "encoder", ignore_errors=True)
        (data / "away").rename(data / "encoder")


def without_encoder(data: Path) -> None:
    (data / "encoder").rename(data / "away")


def best(folder: Path, **settings: object) -> list[str]:
    pipeline = CompletionPipeline.from_pretrained(folder, device="cpu", **settings)
    slot = pipeline({"items": ["green-0", "green-1", "[MASK]"]}, top_k=5)["slots"][0]
    return [each["item"] for each in slot["candidates"]]


def test_a_new_item_is_known_by_its_title_and_the_encoder_is_needed_no_more(
    data: Path, finished: Path, tmp_path: Path
) -> None:
    change = change_catalogue(finished, tmp_path / "next", action="add", catalogue=data / "new.parquet")
    assert (change.added, change.kept) == (("green-7",), 1)
    shutil.rmtree(tmp_path / "cache")
    without_encoder(data)
    assert "green-7" in best(tmp_path / "next")
    assert "green-7" in best(tmp_path / "next", catalogue=data / "new.parquet")  # of known items no text is read
    assert all(each.startswith("green") for each in best(finished)[:4])


def test_a_new_text_without_its_encoder_is_one_error_that_says_what_to_do(
    data: Path, finished: Path, tmp_path: Path
) -> None:
    without_encoder(data)
    asked = ["catalogue", "add", str(finished), "--catalogue", str(data / "new.parquet")]
    asked += ["--output", str(tmp_path / "next")]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2, result.output
    told = " ".join(result.output.split())
    assert "--item-text-encoder" in told
    assert "Traceback" not in told
    assert not (tmp_path / "next").exists()
    with pytest.raises(ConfigurationError, match="catalogue add"):
        CompletionPipeline.from_pretrained(finished, device="cpu", catalogue=data / "new.parquet")
    other = BertConfig(vocab_size=23, max_position_embeddings=16, **{**BERT, "intermediate_size": 16})
    miniature_checkpoint(drawn_anew(BertForMaskedLM(other)), data / "encoder")
    result = CliRunner().invoke(app, asked)
    assert "another sentence encoder" in " ".join(result.output.split())
    result = CliRunner().invoke(app, [*asked, "--item-text-encoder", str(data / "away")])
    assert result.exit_code == 0, result.output
    assert "green-7" in best(tmp_path / "next")


def test_updated_titles_are_read_anew(data: Path, finished: Path, tmp_path: Path) -> None:
    table = pa.table({"id": ["red-5"], "title": [title("green-5")], "size": ["s"]})
    parquet.write_table(table, tmp_path / "items.parquet")
    change = change_catalogue(finished, tmp_path / "next", action="update", catalogue=tmp_path / "items.parquet")
    assert change.updated == ("red-5",)
    rows = [
        CompletionPipeline.from_pretrained(folder, device="cpu").model.bert.embeddings.attributes.vectors[0]
        for folder in (finished, tmp_path / "next")
    ]
    ids = CompletionPipeline.from_pretrained(finished, device="cpu").processor.items
    red, green = ids.id_of("red-5"), ids.id_of("green-5")
    assert (rows[1][red] == rows[0][green]).all()
    assert (rows[1][green] == rows[0][green]).all()


def test_a_later_training_goes_on_with_the_texts(data: Path, finished: Path, tmp_path: Path) -> None:
    later = Recipe(
        data=str(data / "sets.parquet"),
        task=SetCompletion(items="items", catalogue=str(data / "new.parquet"), init_from=str(finished)),
        training={"num_train_epochs": 1},
        validation=0.1,
        test=0.1,
        device="cpu",
        conditioning="none",
        dtype="float32",
    )
    run(later, tmp_path / "later", is_quiet=True)
    assert "green-7" in best(tmp_path / "later")


def test_inspect_says_what_became_of_the_texts(data: Path) -> None:
    found = inspect_table(recipe(data))
    assert found.items is not None
    reasons = {note.column: note.reason for note in found.items.notes}
    assert reasons["title"] == f"24 texts as vectors of 32 numbers, by {data / 'encoder'}"


def test_settings_that_do_not_go_together_are_refused(data: Path, finished: Path) -> None:
    for task in ({"item_text_encoder": None}, {"item_kinds": {}}):
        with pytest.raises(ConfigurationError, match="item_text_encoder"):
            recipe(data, **task)
    with pytest.raises(ConfigurationError, match="removed"):
        change_catalogue(finished, "next", action="remove", items=["red-0"], item_text_encoder=data / "encoder")
