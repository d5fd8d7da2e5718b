"""The queries of ``complete``, ``explain`` and ``similar``: one of the options, or many of a file; their answers."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from contextual_bert_cli.constraint_options import CONSTRAINT_OPTIONS, given_constraints
from contextual_bert_cli.output import show_json
from contextual_bert_cli.records import at_lines, at_options, read_context, read_queries

ITEM_LISTS = ("items", "allow", "deny", "owned", "locked")  # keys of a query
_LIST = re.compile(r"\s*\[\s*[\"']")


@dataclass(frozen=True)
class Subject:
    """What a query of a command is about.

    Args:
        key: of a query.
        option: that gives it.
        line: a line of --input, as an example.
    """

    key: str
    option: str
    line: str

    @property
    def options(self) -> dict[str, str]:
        """Key of a query -> option."""
        constraints = {key: f"--{option}" for option, key in CONSTRAINT_OPTIONS.items()}
        return {**constraints, self.key: self.option, "guidance": "--guidance", "times": "--times"}


SET = Subject("items", "--set", '{"items": [...], "context": {...}, "allow": [...], "max_price": 80}')
ITEM = Subject("item", "--item", '{"item": "coat-17", "context": {...}, "deny": [...]}')


@dataclass(frozen=True)
class AskedQueries:
    """The queries that a command asks.

    Args:
        queries: as the library takes them.
        file: that has them; None: the options do.
        placing: names the option or the line at fault, around what answers the queries.
    """

    queries: list[dict[str, Any]]
    file: Path | None
    placing: AbstractContextManager[None]

    def show(self, answers: Sequence[Any], output_format: str, show_one: Callable[[Any], None]) -> None:
        """Print answers: those of a file as JSON Lines, that of the options as --format says."""
        if self.file is not None:
            show_json(*answers)
        elif output_format == "json":
            show_json(answers[0], indent=1)
        else:
            show_one(answers[0])


def asked_queries(
    choices: Mapping[str, Any],
    subject: Subject,
    own: Mapping[str, Any],
    *,
    everywhere: Mapping[str, Any],
    separator: str,
) -> AskedQueries:
    """Return the query of the options of a command, or those of its --input.

    Args:
        choices: parameter of the command -> what it was given.
        subject: what a query is about.
        own: its part of the query of the options.
        everywhere: what holds for every query that does not say it itself.
        separator: what stands between the items of a text.

    Raises:
        ConfigurationError: an option of one query beside --input; a faulty option or line.
        DataError: --input is no file of queries.
    """
    from contextual_bert.errors import ConfigurationError

    constraints, file = given_constraints(choices, separator=separator), choices.get("queries")
    context, times = choices["context"], choices.get("times")
    if file is None:
        query = {**own, **{CONSTRAINT_OPTIONS[option]: value for option, value in constraints.items()}, **everywhere}
        query |= {"context": read_context(context)} if context is not None else {}
        query |= {"times": times_of(times, separator)} if times is not None else {}
        return AskedQueries([query], None, at_options(subject.options, given={"where": choices["where"] or []}))
    beside = {"context": context, "times": times}
    extra = [*(name for name, value in beside.items() if value is not None), *constraints]
    if extra:
        raise ConfigurationError(
            f"belongs to {subject.option}",
            fix=f"With --input, each line says its own {CONSTRAINT_OPTIONS.get(extra[0], extra[0])}: {subject.line}.",
            setting=f"--{extra[0]}",
        )
    lines, read = read_queries(file)
    numbered = zip(lines, read, strict=True)
    queries = [split_texts(query, separator, place=f"{file}, line {line}") for line, query in numbered]
    return AskedQueries([{**everywhere, **query} for query in queries], file, at_lines(file, lines))


def split_texts(query: dict[str, Any], separator: str, *, place: str) -> dict[str, Any]:
    """A query whose lists of items are lists, where it had them as texts."""
    texts = {key: value for key in ITEM_LISTS if isinstance(value := query.get(key), str)}
    return {**query, **{key: items_of(text, separator, place=f"{place}, {key}") for key, text in texts.items()}}


def items_of(text: str, separator: str, *, place: str = "--set") -> list[str]:
    """The items of a text, which a separator or a JSON list keeps apart; an empty text is the empty set.

    Raises:
        ConfigurationError: nothing between two separators, or a list of something else than texts.

    Example:
        >>> items_of("coat, [MASK]", ","), items_of('["coat", "[MASK]"]', ",")
        (['coat', '[MASK]'], ['coat', '[MASK]'])
    """
    from contextual_bert.errors import ConfigurationError

    if not text.strip():
        return []
    if _LIST.match(text):
        try:
            given = cast(list[object], json.loads(text))
        except (ValueError, RecursionError):
            given = []
        names = [name.strip() for name in given if isinstance(name, str)]
        if not names or len(names) < len(given) or "" in names:
            raise ConfigurationError(
                "looks like a list, and is no JSON list of names",
                setting=place,
                value=text,
                fix=f'Give names with {separator!r} between them, or a list such as \'["coat", "[MASK]"]\'.',
            )
        return names
    items = [part.strip() for part in text.split(separator)]
    if "" in items:
        raise ConfigurationError(
            f"has nothing as item {items.index('') + 1} of {len(items)}",
            setting=place,
            value=text,
            fix=f"Give names with {separator!r} between them, and [MASK] where one is missing.",
        )
    return items


def times_of(text: str, separator: str) -> list[Any]:
    """The times of a text, which a separator or a JSON list keeps apart; None where nothing stands, or null.

    Raises:
        ConfigurationError: what looks like a JSON list is none.

    Example:
        >>> times_of("2016-03-05, 2016-03-07,", ","), times_of("[3, 5, null]", ",")
        (['2016-03-05', '2016-03-07', None], [3, 5, None])
    """
    from contextual_bert.errors import ConfigurationError

    if not text.lstrip().startswith("["):
        return [part.strip() or None for part in text.split(separator)]
    try:
        return cast(list[Any], json.loads(text))
    except (ValueError, RecursionError):
        fix = f"Give times with {separator!r} between them, or a list such as '[\"2016-03-05\", null]'."
        raise ConfigurationError(
            "looks like a list, and is no JSON list of times", setting="--times", value=text, fix=fix
        ) from None
