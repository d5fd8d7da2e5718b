"""Texts that a model writes under one context or several, for ``sample`` and ``generate``: from records to output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from contextual_bert_cli.output import remark, remark_unknown, show_json, show_text, working
from contextual_bert_cli.records import at_options, read_context


@dataclass(frozen=True)
class WrittenTexts:
    """The texts of each context.

    Args:
        records: the contexts.
        texts: of each.
        unknown_values: of each, those that the model does not know.
        is_context_read: whether the model reads one.
    """

    records: Sequence[dict[str, Any]]
    texts: Sequence[Sequence[str]]
    unknown_values: Sequence[Any]
    is_context_read: bool


def contexts_of(typed: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the records of options ``--context``, one that is empty where none was given."""
    return [read_context(text) for text in typed or ["{}"]]


def write_under(
    records: Sequence[dict[str, Any]],
    write: Callable[[dict[str, Any] | None], list[str]],
    *,
    model: Any,
    processor: Any,
    doing: str,
) -> WrittenTexts:
    """Write texts under each context; a value of a wrong type is found before any is written.

    Args:
        records: the contexts.
        write: the texts of a context, None for a model that reads none.
        model: with a ``config``.
        processor: its own.
        doing: what is shown meanwhile, such as "drawing 4 texts".
    """
    from contextual_bert.inference.queries import in_queries

    with at_options({}), in_queries("context"):
        unknown_values = [processor.unknown_values(record) for record in records]
    is_read, texts = bool(model.config.reads_context), list[list[str]]()
    for record in records:
        with working(f"{doing} under {context_text(record)}"), at_options({}), in_queries("context"):
            texts.append(write(record if is_read else None))
    return WrittenTexts(records, texts, unknown_values, is_context_read=is_read)


def show_written(written: WrittenTexts, *, has_contexts: bool, output_format: str) -> None:
    """Print the texts, and remarks on values that the model does not know and on contexts that it does not read.

    Args:
        written: the texts.
        has_contexts: whether a context was given, under which its texts stand.
        output_format: "text" or "json".
    """
    if output_format == "json":
        parts = zip(written.records, written.texts, written.unknown_values, strict=True)
        answers = [dict(zip(("context", "texts", "unknown_context"), each, strict=True)) for each in parts]
        show_json(answers, indent=1)
    elif has_contexts:
        blocks = zip(written.records, written.texts, strict=True)
        show_text("\n\n".join("\n  ".join([context_text(record), *texts]) for record, texts in blocks))
    else:
        show_text("\n".join(written.texts[0]))
    for unknown in written.unknown_values:
        remark_unknown(unknown)
    if any(written.records) and not written.is_context_read:
        from contextual_bert.inference.queries import UNUSED_CONTEXT

        remark(UNUSED_CONTEXT)


def context_text(record: dict[str, Any]) -> str:
    """A context as it was typed."""
    from contextual_bert.json_text import json_text

    return json_text(record, ensure_ascii=False)
