"""Nouns and verbs beside counts."""

import ast
import re
from pathlib import Path

import pytest

import contextual_bert
from contextual_bert.nouns import agreeing, counted

SOURCE = Path(contextual_bert.__file__).parents[1]
VERBS = "are|were|have|do|lack|hold|need|stand|lie|occur|share|stay|belong|differ|begin|count|read|fall|come|keep"
FAULT = re.compile(rf"#[^.:;,(#]*(#[^.:;,(#]*)?(?<!to )(?<!that )\b({VERBS})\b")


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [
        (1, "epoch", "1 epoch"),
        (1.0, "epoch", "1 epoch"),
        (0.5, "epoch", "0.5 epochs"),
        (0, "other column", "0 other columns"),
        (1, "other column", "1 other column"),
        (1200, "company", "1,200 companies"),
    ],
)
def test_a_noun_is_in_the_singular_beside_one_alone(number: float, noun: str, shown: str) -> None:
    assert counted(number, noun) == shown


@pytest.mark.parametrize(
    ("verb", "of_one"), [("are", "is"), ("were", "was"), ("have", "has"), ("do", "does"), ("stand", "stands")]
)
def test_a_verb_goes_with_the_number_of_those_who_do_it(verb: str, of_one: str) -> None:
    assert [agreeing(verb, number) for number in (0, 1, 2)] == [verb, of_one, verb]


def test_no_message_has_a_verb_in_the_plural_behind_a_count_that_may_be_1() -> None:
    # "1 rows have", "1 of 12 items are": a message takes such a verb from ``agreeing``.
    found: list[str] = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr) and FAULT.search(text := _told(node)):
                found.append(f"{file.relative_to(SOURCE)}, line {node.lineno}: {text}")
    assert found == []


def test_such_a_verb_is_found() -> None:
    for text, is_fault in (
        ('f"{count:,} rows have it"', True),
        ('f"{len(gone):,} of {len(names):,} items of {run} are not there"', True),
        ("f\"{counted(number, 'set')} with {item} lack it\"", True),
        ('f"{count:,} {customers} of the {part} part are new"', True),
        ("f\"{counted(number, 'set')} {agreeing('lack', number)} it, and they have others\"", False),
        ('f"{name} and {other} are one number"', False),
        ('f"{count:,} items: the others are new"', False),
    ):
        (node,) = [
            each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.JoinedStr) and len(each.values) > 1
        ]
        assert bool(FAULT.search(_told(node))) == is_fault, text


def _told(node: ast.JoinedStr) -> str:
    """Return an f-string as a text: a count as #, ``agreeing`` as a full stop, other values as X."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else _mark(part) for part in node.values)


def _mark(part: ast.expr) -> str:
    code = ast.unparse(part)
    is_count = "counted(" in code or code.startswith(("f'{len(", "f'{int(")) or ":,}" in code
    return "." if "agreeing(" in code else "#" if is_count else "X"
