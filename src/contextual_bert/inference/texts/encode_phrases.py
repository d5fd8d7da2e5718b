"""From a table with a column of text and one of phrases to token ids, and which tokens are masked together.

The tokenizer says which characters each token is of. Knows no model.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from contextual_bert.data import read_table
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.data.phrases import Phrases, read_phrases
from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import ConfigurationError
from contextual_bert.frames import Frame
from contextual_bert.inference.queries import check_count
from contextual_bert.inference.texts.encode_texts import EncodedTexts, encoded_layout
from contextual_bert.inference.texts.text_layout import Layout, Tokens, num_special, token_limit
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.models.truncation import Truncation, check_truncation

_SLICE = 10_000  # texts whose tokens a tokenizer holds as objects of its own at once


def encode_phrases(
    table: Frame,
    processor: ContextualBertProcessor,
    *,
    text: str,
    phrases: str,
    max_length: int | None = None,
    truncation: Truncation | None = None,
) -> EncodedTexts:
    """Encode texts with phrases, as names of entities, that ``TextMaskingCollator`` masks as a whole.

    A token is of the first phrase that has a character of it. Of a phrase behind the cut nothing is kept.

    Args:
        table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
        processor: for text; its schema says which columns are the context.
        text: name of the column of texts.
        phrases: name of the column of phrases: lists of pairs of characters [start, end), counted from 0, or text that
            spells them as JSON does: ``[[0, 5], [9, 20]]``. A missing or empty cell has none.
        max_length: tokens kept of a text, [CLS] and [SEP] included; None: as many as the tokenizer allows.
        truncation: what is kept of a longer text: its "head", or the first quarter and the end ("head_tail"); None: as
            the processor says.

    Raises:
        UnknownNameError: no such column.
        DataError: a cell that is missing or no text; a phrase that is none, see ``read_phrases``.
        ConfigurationError: a tokenizer that does not say which characters a token is of; more tokens than the model
            reads.

    Reference:
        Sun et al. (2019), "ERNIE: Enhanced Representation through Knowledge Integration", section 3.2.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> table = pa.table({"text": ["word1 word2 word3"], "names": [[[0, 11]]], "sex": ["f"]})
        >>> encoded = encode_phrases(table, miniature_text_processor(), text="text", phrases="names")
        >>> encoded.dataset.goes_on_phrase.tolist(), encoded.report.lines()[1]
        ([False, False, True, False, False], '1 phrase to mask as a whole')
    """
    kept = processor.truncation if truncation is None else truncation
    check_truncation(kept)
    tokenizer: Any = processor.tokenizer
    if not tokenizer.is_fast:
        raise ConfigurationError(
            f"needs a tokenizer that says which characters a token is of, and a {type(tokenizer).__name__} does not",
            setting="phrases",
            value=phrases,
            fix="Give a checkpoint with a fast tokenizer (tokenizer.json), or leave the phrases out.",
        )
    if not isinstance(table, pa.Table):
        table = read_table(table, text_columns=(text,), code_columns=processor.code_columns)
    if max_length is not None:
        check_count("max_length", max_length)
    limit = token_limit(tokenizer, max_length)
    if limit <= num_special():
        raise ConfigurationError(
            "leaves no room for a text beside [CLS] and [SEP]", setting="max_length", value=limit, fix="Give more."
        )
    checked_column(table, text, complete=True)
    found = read_phrases(table, text=text, name=phrases)
    tokens = _tokenized(text_column(table.column(text), text), tokenizer, found)
    layout = Layout(tokens, None, room=limit - num_special(), separators=0, truncation=kept)
    encoded = encoded_layout(table, processor, layout, limit=limit)
    phrase_of: Any = layout.phrases()
    goes_on = np.zeros(len(phrase_of), dtype=np.bool_)
    goes_on[1:] = (phrase_of[1:] == phrase_of[:-1]) & (phrase_of[1:] >= 0)
    num_read = len(np.unique(phrase_of[phrase_of >= 0]))
    return replace(
        encoded,
        dataset=encoded.dataset.with_phrases(torch.from_numpy(goes_on)),
        report=replace(encoded.report, num_phrases=len(found), num_unread_phrases=len(found) - num_read),
    )


def _tokenized(column: pa.ChunkedArray, tokenizer: Any, phrases: Phrases) -> Tokens:
    """The tokens of texts, and the phrase that each is of."""
    wanted = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    values, places, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(column), _SLICE):
        texts = column.slice(start, _SLICE).to_pylist()
        found = tokenizer(texts, verbose=False, return_offsets_mapping=True, **wanted)  # a long text is cut later
        sizes.append(np.array([len(row) for row in found["input_ids"]], dtype=np.int64))
        count = int(sizes[-1].sum())
        values.append(np.fromiter(chain.from_iterable(found["input_ids"]), dtype=np.int64, count=count))
        ends = chain.from_iterable(chain.from_iterable(found["offset_mapping"]))
        places.append(np.fromiter(ends, dtype=np.int64, count=2 * count).reshape(-1, 2))
    lengths = np.concatenate(sizes)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    phrase_of = phrases.of_tokens(np.concatenate(places), rows)
    return Tokens(np.concatenate(values), offsets_of(lengths), phrase_of=phrase_of)
