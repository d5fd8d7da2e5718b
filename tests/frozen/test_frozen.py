"""Tiny runs give what they gave: metrics, names of weights, answers to ten queries, OpenAPI, ONNX.

Another number is a change of what users get. Where it is meant, ``python -m tests.frozen.make`` writes the new one.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.frozen.cases import frozen_cases, prepare_inputs
from tests.frozen.make import EXPECTED, rounded

# The instruction sets of one processor (SSE4.2, AVX2, AVX-512) differ by 3e-7 of a value at most.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
CASES = frozen_cases()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    prepare_inputs(folder)
    return folder


def differences(found: Any, expected: Any, place: str = "") -> list[str]:
    """Return the places where two records differ, numbers by more than the tolerance."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lacking = [f"{place}/{key}: only in one" for key in sorted(found.keys() ^ expected.keys())]
        return [*lacking, *(line for key in expected if key in found for line in _of(found, expected, key, place))]
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{place}: {len(found)} values, not {len(expected)}"]
        return [line for key in range(len(expected)) for line in _of(found, expected, key, place)]
    if isinstance(expected, float) and isinstance(found, float | int):
        is_near = found == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE)
        return [] if is_near else [f"{place}: {found}, not {expected}"]
    return [] if found == expected else [f"{place}: {found!r}, not {expected!r}"]


def _of(found: Any, expected: Any, key: Any, place: str) -> list[str]:
    return differences(found[key], expected[key], f"{place}/{key}")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "onnx" else n for n in CASES])
def test_a_run_gives_what_it_gave(name: str, inputs: Path) -> None:
    expected = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(rounded(CASES[name](inputs))))
    assert differences(found, expected) == []


def test_each_kept_file_is_of_a_case() -> None:
    assert {path.stem for path in EXPECTED.glob("*.json")} == {*CASES}


def test_a_change_is_seen() -> None:
    kept = {"a": [0.5, 1.0], "b": "c", "d": 3}
    assert differences(kept, kept) == []
    assert differences({"a": [0.50002, 1.0], "b": "c", "d": 3}, kept) == []
    assert differences({"a": [0.5002, 1.0], "b": "x", "d": 4}, kept) == [
        "/a/0: 0.5002, not 0.5",
        "/b: 'x', not 'c'",
        "/d: 4, not 3",
    ]
    assert differences({"a": [0.5], "b": "c"}, kept) == ["/d: only in one", "/a: 1 values, not 2"]
