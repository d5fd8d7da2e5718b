"""Griffe extension: docstring sections of this project as Markdown.

The Google style knows Args, Returns, Raises and Examples. The other sections become paragraphs under a bold heading:
formulas and shapes keep the layout that was typed, and a simple table of symbols becomes a table.
"""

import re
import textwrap
from typing import Any

import griffe

HEADINGS = {
    "Formula": "Formula",
    "Symbols": "Symbols",
    "Shapes": "Shapes",
    "Relation": "Relation",
    "Relation to its siblings": "Relation",
    "Reference": "Reference",
}
SECTION = re.compile(rf"^(?P<name>{'|'.join(HEADINGS)}):\n(?P<body>(?:[ \t]+\S.*\n|[ \t]*\n)+)", re.MULTILINE)
RULE = re.compile(r"^=+(?:  =+)+$")


class ProjectSections(griffe.Extension):
    """Rewrite the docstring of each object before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Return a docstring whose sections the Google style knows, or Markdown shows as they were meant."""
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return SECTION.sub(_section, text + "\n").rstrip()


def _section(match: re.Match[str]) -> str:
    body = textwrap.dedent(match["body"]).strip("\n")
    lines = body.split("\n")
    if RULE.match(lines[0]):
        body = "\n".join(_table(lines))
    elif match["name"] in ("Formula", "Shapes"):
        body = f"```text\n{body}\n```"
    return f"**{HEADINGS[match['name']]}**\n\n{body}\n\n"


def _table(lines: list[str]) -> list[str]:
    """Turn a simple table, with rules of equals signs, into one of Markdown."""
    starts = [match.start() for match in re.finditer(r"=+", lines[0])]
    ends: list[int | None] = [*starts[1:], None]
    rows = [
        [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        for line in lines
        if line.strip() and not RULE.match(line)
    ]
    table = [f"| {' | '.join(cells)} |" for cells in rows]
    return [table[0], f"|{'---|' * len(starts)}", *table[1:]]
