"""JSON that holds something else than it should: one error, with the file and what is wrong."""

from pathlib import Path

import pytest

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.errors import CheckpointError, ContextualBertError, DataError, RunDirectoryError
from contextual_bert.json_text import parse_json, read_json_object
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.training import Recipe
from contextual_bert_cli.records import read_context, read_queries

DEEP = "[" * 100_000
LONG = '{"a": ' + "9" * 5_000 + "}"
FAULTS = {"deep": DEEP, "long": LONG, "null": "null", "list": "[]", "number": "3", "cut": '{"a": ', "empty": ""}


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_whatever_is_in_a_file_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(RunDirectoryError, match=r"config\.json .*Train again\.") as raised:
        read_json_object(path)
    assert len(str(raised.value)) < 300


def load_recipe(path: Path) -> Recipe:
    return Recipe.load(path.parent)


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_each_file_of_a_run_is_one_error(tmp_path: Path, text: str) -> None:
    loaders = {"recipe.json": load_recipe, "split.json": Split.load, "schema.json": ContextSchema.load}
    for name, load in loaders.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(ContextualBertError, match=name.replace(".", r"\.")):
            load(path)


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_options_are_one_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ContextualBertError, match="--context"):
        read_context(text)
    path = tmp_path / "queries.jsonl"
    path.write_text(text)
    with pytest.raises(ContextualBertError, match=r"queries\.jsonl"):
        read_queries(path)


def test_a_key_that_stands_twice_is_refused_where_it_matters() -> None:
    text = '{"model": {"vocab": {"coat": 3, "coat": 4}}}'
    assert parse_json(text, place="tokenizer.json")["model"]["vocab"] == {"coat": 4}
    with pytest.raises(RunDirectoryError, match=r"tokenizer\.json has the key 'coat' twice"):
        parse_json(text, place="tokenizer.json", has_unique_keys=True)


def test_other_trouble_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_json_object(tmp_path / "absent.json", error=DataError)
    (tmp_path / "latin.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(RunDirectoryError, match="is not UTF-8"):
        read_json_object(tmp_path / "latin.json")
    with pytest.raises(RunDirectoryError, match="Is a directory"):
        read_json_object(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_each_file_of_a_checkpoint_is_one_error(checkpoint: Path, name: str, text: str) -> None:
    (checkpoint / name).write_text(text)
    with pytest.raises(CheckpointError):
        ContextualBertForSequenceClassification.from_checkpoint(checkpoint, conditioning="none")
