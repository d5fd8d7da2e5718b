"""Sentences that say a context -> the ids of their tokens, as ``ContextAsText`` reads them. It knows no column."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from contextual_bert.models.context_as_text import FIRST_WORD


def word_ids(sentences: Mapping[str, pa.Array], tokenizer: Any) -> dict[str, Tensor]:
    """Column -> (rows, width) ids of the tokens of its sentences, padded with 0.

    Args:
        sentences: a sentence a row, null where nothing is said.
        tokenizer: of the model that reads them; each sentence is tokenised once.

    Returns:
        Ids ``FIRST_WORD`` higher than the tokenizer's.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> tokenizer = miniature_text_processor().tokenizer
        >>> words = word_ids({"word1": pa.array(["word1 word2", None])}, tokenizer)["word1"]
        >>> tokenizer.decode(words[0] - FIRST_WORD), words[1].tolist()
        ('word1 word2', [0, 0])
    """
    return {name: _ids(said, tokenizer) for name, said in sentences.items()}


def _ids(said: pa.Array, tokenizer: Any) -> Tensor:
    distinct = said.dictionary_encode()
    sentences = distinct.dictionary.to_pylist()
    tokens: list[list[int]] = tokenizer(sentences, add_special_tokens=False)["input_ids"] if sentences else []
    nothing = torch.zeros(1, dtype=torch.int64)  # the last row: nothing is known
    ids = pad_sequence([*(torch.tensor(row) + FIRST_WORD for row in tokens), nothing], batch_first=True)
    return ids[torch.from_numpy(distinct.indices.fill_null(len(sentences)).to_numpy().astype("int64"))]
