"""Output of texts that a model wrote under one context or several: beside each other, or as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contextual_bert_cli.output import remark_unknown, show_json, show_text


@dataclass(frozen=True)
class WrittenTexts:
    """The texts of each context.

    Args:
        records: the contexts.
        texts: of each.
        unknown_values: of each, those that the model does not know.
    """

    records: Sequence[dict[str, Any]]
    texts: Sequence[Sequence[str]]
    unknown_values: Sequence[Any]


def show_written(written: WrittenTexts, *, has_contexts: bool, output_format: str) -> None:
    """Print the texts, and remarks on values that the model does not know.

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


def context_text(record: dict[str, Any]) -> str:
    """A context as it was typed."""
    from contextual_bert.json_text import json_text

    return json_text(record, ensure_ascii=False)
