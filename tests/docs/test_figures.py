"""Tables of README and guides have the figures of the reports that they link to."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
METHODS = ROOT / "docs" / "guides" / "compare-methods.md"
MEASURES = {"cross-entropy, nats": ("cross_entropy_nats", 3), "entity F1, %": ("entity_f1_percent", 1)}
CROSS_ENTROPY = "cross_entropy_nats"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(page: Path, headings: str) -> list[list[str]]:
    """The lines of the table whose headings start so, headings first, without the rule below them."""
    lines = page.read_text(encoding="utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(headings))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return [cells(line) for number, line in enumerate(lines[start:end]) if number != 1]


def study_of(page: Path, cell: str) -> dict[str, Any]:
    """The figures beside the report that a cell links to."""
    link = re.search(r"\]\(([^)]*studies/results/[^)]+)/report\.md\)", cell)
    assert link is not None, cell
    return json.loads((page.parent / link[1] / "study.json").read_text(encoding="utf-8"))


def rows_of(study: dict[str, Any], part: str = "comparison") -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in study[part]["rows"]}


def test_which_method() -> None:
    headings, *lines = table(METHODS, "| `conditioning` | [outfits]")
    methods = [line for line in lines if line[0].startswith("`")]
    assert len(methods) == 7
    for column, heading in enumerate(headings[1:], start=1):
        rows = rows_of(study_of(METHODS, heading))
        for line in methods:
            name = line[0].strip("`")
            if line[column]:
                assert line[column] == f"{rows[name]['metrics'][CROSS_ENTROPY]['mean']:.3f}", (heading, name)
            else:
                assert name not in rows, f"{heading} has {name}"
        (best,) = (line[column] for line in lines if line[0] == "the best possible")
        oracle = rows.get("oracle")
        assert best == (f"{oracle['metrics'][CROSS_ENTROPY]['mean']:.3f}" if oracle else "unknown")


@pytest.mark.parametrize("row", table(README, "| data | measure |")[1:], ids=lambda row: row[0].split("]")[0])
def test_where_a_context_helps(row: list[str]) -> None:
    metric, digits = MEASURES[row[1]]
    study = study_of(README, row[0])
    part = "comparison" if metric == CROSS_ENTROPY else "labels"
    rows = rows_of(study, part)
    without, with_context = (rows[name] for name in ("none", "global_state_update"))
    figures = [each["metrics"][metric]["mean"] for each in (without, with_context)]
    assert row[2:4] == [f"{figure:.{digits}f}" for figure in figures]
    assert len(with_context["seeds"]) == (2 if "offensiveness-full/" in row[0] else 3)
    if study[part]["reference"] == "none":
        gap = with_context["differences"][metric]["interval"]
        value, low, high = (round(gap[name], digits + (digits == 1)) for name in ("value", "low", "high"))
        form = f"+.{digits + (digits == 1)}f"
        assert row[4].replace("*", "").startswith(f"{value:{form}} [{low:{form}}, {high:{form}}]")
        assert ("not separated" in row[4]) == (gap["low"] <= 0 <= gap["high"] or "p = " in row[4])
    else:
        assert row[4].startswith(f"{figures[1] - figures[0]:+.{digits}f} [")


@pytest.mark.parametrize(("name", "most"), [("README.md", 900)])
def test_a_page_is_read_in_minutes(name: str, most: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").split()) <= most


def test_the_changelog_has_a_line_for_each_capability() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 90
    assert [line for line in lines if len(line) > 200] == []


def test_an_entry_of_the_log_is_short() -> None:
    text = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    long: list[str] = []
    for entry in text.split("\n## ")[1:]:
        title, *lines = entry.split("\n")
        prose = " ".join(line for line in lines if not line.startswith("|"))
        if len(prose.split()) > 120:
            long.append(title)
    assert long == [], "the conclusion in at most 120 words, the numbers in a table"
