"""JSON is written in one place, and holds no number that is none."""

import json
import math

import pytest

from contextual_bert.errors import ContextualBertError, NonFiniteError
from contextual_bert.json_text import echoed, json_text, without_nonfinite


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
