"""Marks by which a tokenizer knows words and halves, whichever family it is of.

It knows no model, and imports no torch and no transformers: exports of texts are asked without.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SPACE_MARKS = {"ByteLevel": "Ġ", "Metaspace": "▁"}  # decoder -> how a token begins that begins a word


def num_separators(tokenizer: Any) -> int:
    """Return how many [SEP] stand between two texts: 1 as in BERT, or 2 as in RoBERTa.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> num_separators(miniature_text_processor().tokenizer)
        1
    """
    added = [tokenizer.num_special_tokens_to_add(pair=has_pair) for has_pair in (True, False)]
    return max(1, added[0] - added[1])


def with_space(words: pa.Array, tokenizer: Any) -> pa.Array:
    """The words of a text with a space before each, where it is by the space that a tokenizer knows a word.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> with_space(pa.array(["word1", None]), miniature_text_processor().tokenizer).to_pylist()
        ['word1', None]
    """
    if space_mark(tokenizer) != SPACE_MARKS["ByteLevel"]:
        return words
    return pc.binary_join_element_wise("", words, " ")


def space_mark(tokenizer: Any) -> str | None:
    """Return how tokens begin that begin a word, None where others are marked, or none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    return next((SPACE_MARKS[kind] for kind in _kinds(decoder, "decoders") if kind in SPACE_MARKS), None)


def _kinds(part: Any, listed: str) -> list[str]:
    return [found["type"] for found in part_states(part, listed)] if part is not None else []


def part_states(part: Any, listed: str = "processors") -> list[dict[str, Any]]:
    """Return what a part of a tokenizer consists of, as its file says it."""
    state: dict[str, Any] = json.loads(part.__getstate__())
    return state[listed] if state["type"] == "Sequence" else [state]
