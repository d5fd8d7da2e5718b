"""The page of the benchmarks is what its results say, and has all of them."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_has_each_result_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    try:
        made = runpy.run_path(str(ROOT / "benchmarks" / "run.py"))
    finally:
        sys.modules.pop("tables", None)
    results = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    known = {*made["BENCHMARKS"], *made["LARGE"], *made["OF_PEERS"]}
    assert {path.stem for path in results} == known
    assert made["page_of"](ROOT / "benchmarks" / "results") == (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert all(json.loads(path.read_text("utf-8"))["circumstances"]["date"][:10] for path in results)
