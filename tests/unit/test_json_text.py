"""JSON is written in one place, and holds no number that is none."""

import json
import math
from pathlib import Path

import pytest

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.errors import CheckpointError, ContextualBertError, DataError, NonFiniteError, RunDirectoryError
from contextual_bert.json_text import echoed, json_text, parse_json, read_json_object, without_nonfinite
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.training import Recipe
from contextual_bert_cli.records import read_context, read_queries


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (lambda number: number, "the value"),
        (lambda number: {"slots": [{"p": 0.5}, {"p": number}]}, r"slots\[1\]\.p"),
        (lambda number: [1, (2, number)], r"\[1\]\[1\]"),
    ],
)
def test_a_number_that_is_none_is_refused_with_its_path(number, value, path):
    with pytest.raises(NonFiniteError, match=f"^{path} is {number}, which JSON cannot hold") as caught:
        json_text(value(number))
    assert isinstance(caught.value, ContextualBertError)


def test_other_faults_are_not_called_that():
    looped: list[object] = []
    looped.append(looped)
    with pytest.raises(ValueError, match="Circular"):
        json_text(looped)


def test_the_text_is_that_of_the_standard_library():
    value = {"b": [1, 2.5, "é"], "a": None}
    assert json_text(value, indent=1, sort_keys=True) == json.dumps(value, indent=1, sort_keys=True)
    assert json_text(value, ensure_ascii=False, separators=(",", ":")) == '{"b":[1,2.5,"é"],"a":null}'
    assert json_text({1, 2}, default=sorted) == "[1, 2]"


def test_what_is_quoted_shows_the_fault_and_what_is_kept_has_none():
    assert echoed([math.inf]) == "[Infinity]"
    assert json.loads(json_text(without_nonfinite({"low": math.nan, "rows": (1.0, {"x": -math.inf})}))) == {
        "low": None,
        "rows": [1.0, {"x": None}],
    }


# JSON that holds something else than it should: one error, with the file and what is wrong.

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
