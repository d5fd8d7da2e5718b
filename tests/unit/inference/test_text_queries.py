"""Queries about texts are read as each kind of run takes them, and faults are named where they stand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contextual_bert.errors import DataError, UnknownNameError
from contextual_bert.inference.saved_files import trained_pairs
from contextual_bert.inference.texts.text_queries import (
    TextQueryForm,
    TextRequest,
    read_text_request,
    text_query_model,
)

LABEL, TAGS, ANSWER, WRITTEN = (TextQueryForm(gives) for gives in ("label", "tags", "answer", "text"))
PAIRS, SOME_PAIRS = TextQueryForm("label", "required"), TextQueryForm("label", "optional")


@pytest.mark.parametrize(
    ("form", "keys"),
    [
        (LABEL, ("text", "context", "guidance")),
        (PAIRS, ("text", "pair", "context", "guidance")),
        (SOME_PAIRS, ("text", "pair", "context", "guidance")),
        (TAGS, ("text", "context", "guidance")),
        (ANSWER, ("question", "text", "context")),
        (WRITTEN, ("text", "context")),
    ],
)
def test_a_form_has_its_keys_and_its_model_the_same(form: TextQueryForm, keys: tuple[str, ...]) -> None:
    assert form.keys == keys
    assert {*text_query_model(form).model_json_schema()["properties"]} == {*keys}
    assert all(f'"{key}"' in form.fix for key in form.texts if form.pair != "optional" or key != "pair")


def test_a_query_is_read_once() -> None:
    query = {"text": "word1", "pair": "", "context": {"age": 3}, "guidance": np.float32(2)}
    found = read_text_request(query, row=0, form=PAIRS)
    assert found == TextRequest("word1", {"age": 3}, pair="", guidance=2.0)
    assert read_text_request(found, row=3, form=LABEL) is found
    assert found.sizes == {"text": 5, "pair": 0}
    assert read_text_request({"text": ("a", "bc")}, row=0, form=TAGS).sizes == {"text": 5}
    nothing: dict[str, Any] = {"text": "word1", "context": float("nan"), "guidance": None, "pair": None}
    assert read_text_request(nothing, row=0, form=SOME_PAIRS) == TextRequest("word1")


@pytest.mark.parametrize(
    ("form", "query", "location", "words"),
    [
        (LABEL, {}, (2, "text"), 'None is no text. Give {"text": "...", "context": {...}}'),
        (LABEL, {"text": ""}, (2, "text"), "'' is no text"),
        (LABEL, {"text": ["word1"]}, (2, "text"), "is no text"),
        (LABEL, {"text": "word1", "pair": "word2"}, (2, "pair"), "unknown key 'pair'"),
        (PAIRS, {"text": "word1"}, (2,), "the key 'pair' is missing. Give"),
        (PAIRS, {"text": "word1", "pair": 3}, (2, "pair"), "3 is no second text"),
        (SOME_PAIRS, {"text": "word1", "pair": "\udc00"}, (2, "pair"), "half of a character"),
        (TAGS, {"text": []}, (2, "text"), "[] is no text"),
        (TAGS, {"text": " "}, (2, "text"), "' ' is no text"),
        (TAGS, {"text": {"a": 1}}, (2, "text"), "is no text"),
        (TAGS, {"text": ["a", 3]}, (2, "text", 1), "3 is no word"),
        (TAGS, {"text": ["a", "b\ud800"]}, (2, "text", 1), "half of a character"),
        (ANSWER, {"text": "word1"}, (2, "question"), "None is no text"),
        (ANSWER, {"text": " ", "question": "who"}, (2, "text"), "' ' is no text"),
        (ANSWER, {"text": "word1", "question": "who", "guidance": 2}, (2, "guidance"), "unknown key 'guidance'"),
        (WRITTEN, {"text": "word1", "txt": 1}, (2, "txt"), "Did you mean 'text'"),
        (LABEL, {"text": "word1", "context": 5}, (2, "context"), "5 is not a record"),
        (LABEL, {"text": "word1", "guidance": -1}, (2, "guidance"), "-1 is no number between 0 and 100"),
        (LABEL, "word1", (2,), "'word1' is not a query"),
    ],
)
def test_faults_are_named_where_they_stand(form: TextQueryForm, query: Any, location: Any, words: str) -> None:
    with pytest.raises((DataError, UnknownNameError)) as found:
        read_text_request(query, row=2, form=form)
    assert found.value.location == location
    assert words in str(found.value)


def test_a_recipe_says_whether_texts_are_pairs(tmp_path: Path) -> None:
    assert trained_pairs(tmp_path) == "optional"
    for task, pair in (
        ({"text": "mail", "pair": None}, "none"),
        ({"text": "mail", "pair": "reply"}, "required"),
        ("damaged", "optional"),
    ):
        (tmp_path / "recipe.json").write_text(json.dumps({"recipe": {"task": task}}), encoding="utf-8")
        assert trained_pairs(tmp_path) == pair
    (tmp_path / "recipe.json").write_text("{", encoding="utf-8")
    assert trained_pairs(tmp_path) == "optional"
