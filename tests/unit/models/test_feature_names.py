"""Columns may be called anything: what a name means to torch and transformers changes no weight, saved or loaded."""

import itertools
import string
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from contextual_bert.context import Categorical, ContextEncoder, ContextSchema, FeatureLayout
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM

MARKS = [mark for mark in string.printable if mark != "." and not mark.isalnum()]
WORDS = [
    "age (years)",
    "price(EUR)",
    "(",
    "a)",
    "(?P<n>x)",
    "(?P<g0>x",
    r"\1",
    r"c:\new",
    "weight [kg]",
    "[z-a]",
    "x[",
    "a{3,2}",
    "C++*",
    "**",
    "|*",
    "^*",
    "\u00b2",
    "1\u00b2",
    "\u2460",
    "\u0663",
    "gamma",
    "beta",
    "LayerNorm",
]


def _model(names: Sequence[str], conditioning: str = "concat") -> ContextualBertForMaskedLM:
    schema = ContextSchema(features=tuple(Categorical(name=name, values=("p", "q")) for name in names))
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ContextualBertConfig.from_schema(schema, conditioning=conditioning, intermediate_size=8, **sizes)
    return ContextualBertForMaskedLM(config).eval()


def _require_same_when_loaded(model: ContextualBertForMaskedLM, folder: Path) -> None:
    model.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # of a pattern that will mean another thing
        loaded, information = ContextualBertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(information.values()), information
    expected, found = model.state_dict(), loaded.state_dict()
    assert list(expected) == list(found)
    for name, weight in expected.items():
        assert torch.equal(weight, found[name]), name


@pytest.mark.parametrize("conditioning", ["concat", "multi_attribute"])
@pytest.mark.parametrize(
    "names",
    [
        [*string.ascii_letters, *string.digits, *MARKS],
        [f"a{mark}" for mark in MARKS],
        [f"{mark}a" for mark in MARKS],
        [f"a{mark}b" for mark in MARKS],
        ["".join(pair) for pair in itertools.product("()[]{}*+?|^$\\%", repeat=2)],
        WORDS,
    ],
    ids=["alone", "last", "first", "inside", "pairs", "words"],
)
def test_any_name_is_saved_and_loaded(conditioning: str, names: list[str], tmp_path: Path) -> None:
    _require_same_when_loaded(_model(names, conditioning), tmp_path)


def test_no_two_names_are_one_weight(tmp_path: Path) -> None:
    names = ["a(", "a(_", "a%28", "a%28_", "%2828", "type", "type_", "(", "%28", "(_", "$60(", "%2460("]
    for order in (names, names[::-1]):
        model = _model(order)
        keys = [key for key in model.state_dict() if ".features." in key]
        assert len({*keys}) == len(names)
        _require_same_when_loaded(model, tmp_path / order[0].replace("(", "x"))


def test_names_that_always_loaded_are_as_they_were() -> None:
    kept = [
        "age",
        "a b",
        "a%20b",
        "100%",
        "a+b",
        "price $",
        "member?",
        "a|b",
        "^a",
        "a*",
        "a/b",
        "\u00e9",
        "m\u00b2",
        "12",
    ]
    renamed = {"type": "type_", "training": "training_", "_modules": "_modules_"}
    encoder = ContextEncoder([FeatureLayout(name, "categorical", 3, 0, 2) for name in [*kept, *renamed]])
    assert list(encoder.features) == [*kept, *renamed.values()]
