"""A bag of n-grams: the mean of the vectors of words, of their character n-grams and of word bigrams, as in fastText.

The order of words is seen in bigrams only. It knows no tokenizer: the strings of the vocabulary are read once, when it
is built. Papers: Joulin et al. (2017) for the bag and its bigrams, Bojanowski et al. (2017) for the character n-grams.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.label_model import TextClassifier
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError

NGRAM_SIZES = (3, 4, 5, 6)  # characters; Bojanowski et al. (2017), section 3.2
BIGRAM_FACTOR = 116049371  # fastText's; times a hash of 32 bits it stays below 2^63
FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193  # of 32 bits


class NgramBag(TextClassifier):
    """A text's label from the mean of its words, their character n-grams and its word bigrams.

    Formula:
        v_w = mean(E_w, E_g for g in G_w);  h = mean(v_w of the words, E_b of the bigrams);  logits = W [h ; c] + b

    Symbols:
        E the rows of ``rows``; G_w the character n-grams of <w>, 3 to 6 long; b a pair of neighbours. G_w and b are
        hashed and share ``num_buckets`` rows.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocabulary: the string of each id, in the order of the ids. One that begins with "##" goes on a word and has no
            "<"; whether it ends the word cannot be told, so it has the ">".
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read; a bigram does not reach across one.
        hidden_size: width of the rows and of h.
        num_buckets: rows for the hashed n-grams; fastText's 2 million are for an optimiser that updates single rows.
        dropout: probability of dropping a component of h.

    Raises:
        ConfigurationError: as ``TextHead``; no buckets.

    Relation to its siblings:
        The fastest; ``TextCNN`` sees longer phrases and ``BiLSTM`` the whole order.

    Reference:
        Joulin et al. (2017), "Bag of Tricks for Efficient Text Classification"; Bojanowski et al. (2017), "Enriching
        Word Vectors with Subword Information". fastText takes one mean over all rows of a text, where long words
        count for more; here each word counts once.

    Example:
        >>> bag = NgramBag(["[PAD]", "red", "coat", "##s"], num_labels=2, reserved_ids=[0], num_buckets=50)
        >>> bag(input_ids=torch.tensor([[1, 2, 3], [2, 0, 0]]))["logits"].shape
        torch.Size([2, 2])
    """

    ngram_rows: Tensor
    token_hashes: Tensor

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 100,
        num_buckets: int = 100_000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(
            hidden_size,
            num_labels=num_labels,
            layout=layout,
            conditioning=conditioning,
            reserved_ids=reserved_ids,
            dropout=dropout,
        )
        if num_buckets < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="num_buckets",
                value=num_buckets,
                fix="Give 1 or more, the more the fewer n-grams collide.",
            )
        self.vocab_size, self.num_buckets = len(vocabulary), num_buckets
        self.padding_row = self.vocab_size + num_buckets
        self.rows = nn.Embedding(self.padding_row + 1, hidden_size)
        nn.init.uniform_(self.rows.weight, -1 / hidden_size, 1 / hidden_size)  # as fastText
        self.register_buffer("ngram_rows", torch.from_numpy(self._ngram_rows(vocabulary)))
        self.register_buffer("token_hashes", torch.from_numpy(fnv1a(vocabulary)))

    def _ngram_rows(self, vocabulary: Sequence[str]) -> NDArray[np.int32]:
        """(vocabulary, most rows of an entry): each entry's own row and those of its n-grams, then padding."""
        ngrams = [character_ngrams(text) for text in vocabulary]
        counts = np.array([len(found) for found in ngrams])
        rows = np.full((len(ngrams), 1 + counts.max(initial=0)), self.padding_row, dtype=np.int32)
        rows[:, 0] = np.arange(len(ngrams))
        hashes = fnv1a([ngram for found in ngrams for ngram in found])
        rows[:, 1:][np.arange(rows.shape[1] - 1) < counts[:, None]] = self.vocab_size + hashes % self.num_buckets
        return rows

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        rows = self.ngram_rows[input_ids].flatten(0, 1)
        tokens = functional.embedding_bag(rows, self.rows.weight, mode="mean", padding_idx=self.padding_row)
        bigrams = self.rows(self.bigram_rows(input_ids))
        is_pair = is_read[:, :-1] & is_read[:, 1:]
        total = (tokens.view(*input_ids.shape, -1) * is_read.unsqueeze(2)).sum(dim=1)
        total = total + (bigrams * is_pair.unsqueeze(2)).sum(dim=1)
        return total / (is_read.sum(dim=1) + is_pair.sum(dim=1)).clamp(min=1).unsqueeze(1)

    def bigram_rows(self, input_ids: Tensor) -> Tensor:
        """(batch, length - 1): the row of each token with the next; not the one of the next with the token."""
        hashes = self.token_hashes[input_ids]
        return self.vocab_size + (hashes[:, :-1] * BIGRAM_FACTOR + hashes[:, 1:]) % self.num_buckets


def character_ngrams(text: str) -> list[str]:
    """The n-grams of a word between < and >, or of a piece that goes on a word.

    Example:
        >>> character_ngrams("at"), character_ngrams("##ing")
        (['<at', 'at>', '<at>'], ['ing', 'ng>', 'ing>'])
    """
    marked = f"{text[2:]}>" if text.startswith("##") else f"<{text}>"
    return [marked[start : start + size] for size in NGRAM_SIZES for start in range(len(marked) - size + 1)]


def fnv1a(texts: Sequence[str]) -> NDArray[np.int64]:
    """The FNV-1a hash, 32 bits, of each string in UTF-8: the same in every process, unlike Python's own.

    By Fowler, Noll and Vo. One byte of all strings at a time.

    Example:
        >>> [hex(found) for found in fnv1a(["", "a", "foobar"])]
        ['0x811c9dc5', '0xe40c292c', '0xbf9cf968']
    """
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(content) for content in encoded], dtype=np.int64)
    width = int(lengths.max(initial=1)) or 1
    content = np.array(encoded, dtype=f"S{width}").view(np.uint8).reshape(len(encoded), width)
    hashes = np.full(len(encoded), FNV_OFFSET, dtype=np.int64)
    for place in range(width):
        mixed = ((hashes ^ content[:, place]) * FNV_PRIME) & 0xFFFFFFFF  # below 2^57 before it is cut
        hashes = np.where(place < lengths, mixed, hashes)
    return hashes
