"""A context as ids of the tokens of its sentences, for models that read it as words before the text.

It knows neither columns nor a model, and imports no torch: exports are asked without.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context.kinds import MULTI_RESERVED
from contextual_bert.models.token_marks import with_space

FIRST_WORD = len(MULTI_RESERVED)  # token t of a vocabulary is the value t + FIRST_WORD of a list


def word_ids(sentences: Mapping[str, pa.Array], tokenizer: Any) -> dict[str, NDArray[np.int64]]:
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


def _ids(said: pa.Array, tokenizer: Any) -> NDArray[np.int64]:
    distinct = said.dictionary_encode()
    sentences = with_space(distinct.dictionary, tokenizer).to_pylist()
    tokens: list[list[int]] = tokenizer(sentences, add_special_tokens=False)["input_ids"] if sentences else []
    sizes = np.array([*map(len, tokens), 1], np.int64)  # the last row: nothing is known
    ids = np.zeros((len(sizes), int(sizes.max())), np.int64)
    ids[:-1][np.arange(ids.shape[1]) < sizes[:-1, None]] = [token + FIRST_WORD for token in chain.from_iterable(tokens)]
    return ids[distinct.indices.fill_null(len(sentences)).to_numpy()]
