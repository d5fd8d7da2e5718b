"""Answers of the pipelines as one flat table: a row a candidate, a label or an answer.

Answers are nested records. A table of them is one call, and of pandas it is ``to_table(answers).to_pandas()``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from contextual_bert.errors import DataError
from contextual_bert.inference.queries import MASK

_OF_SLOTS = pa.schema(
    [
        ("query", pa.int64()),
        ("position", pa.int64()),
        ("rank", pa.int64()),
        ("item", pa.string()),
        ("probability", pa.float64()),
        ("num_permitted", pa.int64()),
        ("excluded_probability", pa.float64()),
        ("reason", pa.string()),
    ]
)
_OF_COMPLETIONS = pa.schema(
    [
        ("query", pa.int64()),
        ("rank", pa.int64()),
        ("position", pa.int64()),
        ("item", pa.string()),
        ("log_probability", pa.float64()),
        ("probability", pa.float64()),
        ("pseudo_log_likelihood", pa.float64()),
        ("price", pa.float64()),
    ]
)
_IS_NEW = pa.field("is_new", pa.bool_())  # of both, where the run knows features of items
_OF_LABELS = pa.schema(
    [
        ("query", pa.int64()),
        ("position", pa.int64()),
        ("rank", pa.int64()),
        ("label", pa.string()),
        ("probability", pa.float64()),
        ("number", pa.float64()),
    ]
)
_OF_SPANS = pa.schema(
    [
        ("query", pa.int64()),
        ("answer", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("probability", pa.float64()),
        ("no_answer_probability", pa.float64()),
    ]
)


def to_table(answers: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the answers of a pipeline as a flat table.

    Args:
        answers: what ``CompletionPipeline``, ``OnnxCompletionPipeline``, ``complete_jointly``, ``TextPipeline`` or
            ``QuestionAnsweringPipeline`` returned: one answer or a list of them.

    Returns:
        A table with the number of the query, from 0, in the column ``query``. Of completions there is a row a
        candidate, with the ``position`` of its [MASK] in the set and its ``rank`` from 1. A [MASK] without a candidate
        has one row, with its ``reason``. Of whole sets there is a row a filled [MASK]. Of texts there is a row a label,
        the likeliest first; of words one row, with the word's ``position``; of numbers one row with the ``number``. Of
        questions there is a row an answer. Answers of a run whose items have features have the column ``is_new``, too:
        whether no set of training held the item.

    Raises:
        DataError: an object that is no answer; answers of several kinds.

    Example:
        >>> slot = {"position": 1, "candidates": [{"item": "coat", "probability": 0.75}], "num_permitted": 2}
        >>> slot |= {"excluded_probability": 0.0, "reason": None}
        >>> to_table({"items": ["hat", "[MASK]"], "slots": [slot]}).select(["query", "rank", "item"]).to_pylist()
        [{'query': 0, 'rank': 1, 'item': 'coat'}]
    """
    given = [answers] if isinstance(answers, Mapping) else list(answers)
    kinds = [_kind(answer, number) for number, answer in enumerate(given)]
    if len({*kinds}) > 1:
        raise DataError(f"the answers are of several kinds ({', '.join(dict.fromkeys(kinds))})", fix="Give one kind.")
    schema, rows_of = _KINDS[kinds[0] if kinds else "slots"]
    rows = [{"query": number, **row} for number, answer in enumerate(given) for row in rows_of(answer)]
    return pa.Table.from_pylist(rows, schema=schema.append(_IS_NEW) if any("is_new" in row for row in rows) else schema)


def _kind(answer: object, number: int) -> str:
    if isinstance(answer, Mapping):
        found = next((key for key in _KINDS if key in answer), None)
        if found is not None:
            return found
    fix = "Give what a pipeline returned."
    raise DataError(f"{' '.join(repr(answer).split()):.80} is no answer", row=number, fix=fix)


def _slot_rows(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for slot in answer["slots"]:
        same = {name: slot[name] for name in ("position", "num_permitted", "excluded_probability", "reason")}
        for rank, each in enumerate(slot["candidates"], 1):
            yield {**same, "rank": rank, **each}
        if not slot["candidates"]:
            yield same


def _completion_rows(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    blanks = [position for position, item in enumerate(answer["items"]) if item == MASK]
    for rank, each in enumerate(answer["completions"], 1):
        for position, item in zip(blanks, each["filled"], strict=True):
            is_new = {"is_new": item in each["new_items"]} if "new_items" in each else {}
            yield {**each, "rank": rank, "position": position, "item": item, **is_new}


def _label_rows(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    label, shares = answer["label"], answer["probabilities"]
    if isinstance(shares, list):  # of words
        tags = cast("list[str | None]", label)
        for position, (tag, share) in enumerate(zip(tags, shares, strict=True)):
            yield {"position": position, "rank": 1, "label": tag, "probability": share}
    elif shares:
        ranked = sorted(cast("dict[str, float]", shares).items(), key=lambda entry: -entry[1])
        for rank, (name, share) in enumerate(ranked, 1):
            yield {"rank": rank, "label": name, "probability": share}
    else:
        numbers = cast("list[float]", label) if isinstance(label, list) else [label]
        for position, number in enumerate(numbers):
            yield {"position": position if len(numbers) > 1 else None, "number": number}


def _span_rows(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {name: answer[name] for name in _OF_SPANS.names if name in answer}


# Key by which an answer is told -> the columns, and the rows of an answer.
_KINDS: dict[str, tuple[pa.Schema, Any]] = {
    "slots": (_OF_SLOTS, _slot_rows),
    "completions": (_OF_COMPLETIONS, _completion_rows),
    "label": (_OF_LABELS, _label_rows),
    "answer": (_OF_SPANS, _span_rows),
}
