"""A tokenizer that the training texts teach: pieces of bytes, so that every text can be read and written.

A word that fewer than ``min_customers`` customers wrote teaches nothing: the pieces are saved with the run, and are to
hold nothing of single persons (docs/decisions/024-values-of-single-customers.md).
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from contextual_bert.models.tokenization import mark_ends
from contextual_bert.runs.text_starts import customers_of_words

DEFAULT_VOCAB_SIZE = 8_000
DEFAULT_LENGTH = 256
END = "<|endoftext|>"


def trained_tokenizer(
    column: pa.ChunkedArray,
    *,
    vocab_size: int,
    min_customers: int,
    customers: NDArray[np.int64] | None = None,
    max_length: int = DEFAULT_LENGTH,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer on texts: byte-level byte-pair encoding, as GPT-2's.

    Args:
        column: the texts.
        vocab_size: tokens at most.
        min_customers: the fewest customers of a word that teaches pieces.
        customers: (texts,) number of the customer of each text; None: each text is one of its own.
        max_length: tokens that a model reads at once.

    Reference:
        Sennrich et al. (2016), "Neural Machine Translation of Rare Words with Subword Units"; Radford et al. (2019).

    Example:
        >>> texts = pa.chunked_array([["a red coat", "a red hat"]])
        >>> tokenizer = trained_tokenizer(texts, vocab_size=270, min_customers=2)
        >>> tokenizer.decode(tokenizer("a red scarf").input_ids, skip_special_tokens=True)
        'a red scarf'
    """
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    rows = [[word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)] for text in column.to_pylist()]
    several = customers_of_words([{*words} for words in rows], customers)
    counts = Counter(word for words in rows for word in words if several[word] >= min_customers)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.pre_tokenizer = pre_tokenizers.Split("\n", behavior="removed")  # the words are cut already
    backend.train_from_iterator(_repeated(counts), trainer)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=END, eos_token=END, unk_token=END, model_max_length=max_length
    )
    mark_ends(tokenizer)
    return tokenizer


def _repeated(counts: Counter[str]) -> Iterator[str]:
    """Return the words as often as they occur, a hundred a line."""
    for word in sorted(counts):
        times = counts[word]
        while times:
            some = min(times, 100)
            yield "\n".join([word] * some)
            times -= some
