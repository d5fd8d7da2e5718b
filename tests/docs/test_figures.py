"""The figures of README's tables are those of the reports that they link to: nobody types one that was not measured."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CROSS_ENTROPY = "cross_entropy_nats"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(headings: str) -> list[list[str]]:
    """The lines of the table whose headings start so, headings first, without the rule below them."""
    lines = README.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(headings))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return [cells(line) for number, line in enumerate(lines[start:end]) if number != 1]


def comparison_of(cell: str) -> tuple[dict[str, dict], str]:
    """Row -> what the study beside the report that a cell links to knows of it; and the row it compares with."""
    link = re.search(r"\]\((studies/results/[^)]+)/report\.md\)", cell)
    assert link is not None, cell
    found = json.loads((ROOT / link[1] / "study.json").read_text(encoding="utf-8"))["comparison"]
    return {row["name"]: row for row in found["rows"]}, found["reference"]


def test_which_method() -> None:
    headings, *lines = table("| `conditioning` | [outfits]")
    methods = [line for line in lines if line[0].startswith("`")]
    assert len(methods) == 7
    for column, heading in enumerate(headings[1:], start=1):
        rows, _ = comparison_of(heading)
        for line in methods:
            name = line[0].strip("`")
            if line[column]:
                assert line[column] == f"{rows[name]['metrics'][CROSS_ENTROPY]['mean']:.3f}", (heading, name)
            else:
                assert name not in rows, f"{heading} has {name}"
        (best,) = (line[column] for line in lines if line[0] == "the best possible")
        oracle = rows.get("oracle")
        assert best == (f"{oracle['metrics'][CROSS_ENTROPY]['mean']:.3f}" if oracle else "unknown")


@pytest.mark.parametrize(
    "row", [line for line in table("| data | measure |")[1:] if "report.md" in line[0] and "nats" in line[1]]
)
def test_where_a_context_helps(row: list[str]) -> None:
    rows, reference = comparison_of(row[0])
    without, with_context = (rows[name]["metrics"][CROSS_ENTROPY]["mean"] for name in ("none", "global_state_update"))
    assert row[2:4] == [f"{without:.3f}", f"{with_context:.3f}"]
    if reference != "none":
        return
    gap = rows["global_state_update"]["differences"][CROSS_ENTROPY]["interval"]
    value, low, high = (gap[name] for name in ("value", "low", "high"))
    assert row[4].replace("*", "").startswith(f"{value:+.3f} [{low:+.3f}, {high:+.3f}]")
