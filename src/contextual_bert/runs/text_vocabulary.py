"""The words of the training texts as tokens, where a run on texts starts from no checkpoint.

A word that fewer than ``min_customers`` customers wrote is [UNK]: the vocabulary is saved with the run, and it is to
hold nothing of single persons (docs/decisions/024-values-of-single-customers.md).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFC, BertNormalizer
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import PreTrainedTokenizerFast

from contextual_bert.context import ContextSchema
from contextual_bert.models import ContextFeatureExtractor, ContextualBertProcessor

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST_TOKENS = 512  # of a text, as BERT reads
MOST_WORDS = 50_000
LONGEST_WORD = 100  # letters; longer ones are [UNK], as BERT's tokenizer has it


def words_of(text: str) -> list[str]:
    """Return the words of a text: small letters, accents kept, each punctuation mark a word of its own.

    Example:
        >>> words_of("Sehr schön, gern!")
        ['sehr', 'schön', ',', 'gern', '!']
    """
    normalizer, splitter = _preparation()
    return [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]


def frequent_words(
    texts: Iterable[str], *, min_customers: int, customers: NDArray[np.int64] | None = None
) -> list[str]:
    """Return the words of texts that enough customers wrote, the most frequent first, at most ``MOST_WORDS``.

    Args:
        texts: of the training part.
        min_customers: the fewest customers of a word.
        customers: (texts,) number of the customer of each text; None: each text is one of its own.

    Example:
        >>> frequent_words(["Red coat", "red hat", "a red scarf"], min_customers=2)
        ['red']
        >>> frequent_words(["Red coat", "red hat"], min_customers=2, customers=np.array([7, 7]))
        []
    """
    rows = [{*words_of(text)} for text in texts]
    if customers is not None:
        of_customers: dict[int, set[str]] = {}
        for customer, words in zip(customers.tolist(), rows, strict=True):
            of_customers.setdefault(customer, set()).update(words)
        rows = list(of_customers.values())
    counts = Counter(word for words in rows for word in words if len(word) <= LONGEST_WORD)
    kept = [word for word, count in counts.items() if count >= min_customers and word not in SPECIAL_TOKENS]
    return sorted(kept, key=lambda word: (-counts[word], word))[:MOST_WORDS]


def word_tokenizer(words: Sequence[str], *, max_length: int = MOST_TOKENS) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are whole words; each other word is [UNK].

    Args:
        words: as ``words_of`` spells them, each once.
        max_length: tokens of a text, [CLS] and [SEP] included.

    Example:
        >>> tokenizer = word_tokenizer(["red", "coat"])
        >>> tokenizer.convert_ids_to_tokens(tokenizer("A red COAT").input_ids)
        ['[CLS]', '[UNK]', 'red', 'coat', '[SEP]']
    """
    ids = {word: number for number, word in enumerate((*SPECIAL_TOKENS, *words))}
    backend: Any = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD))
    backend.normalizer, backend.pre_tokenizer = _preparation()
    backend.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL_TOKENS}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=max_length, **names)


def processor_of_words(
    columns: Sequence[pa.ChunkedArray],
    schema: ContextSchema | None,
    *,
    min_customers: int,
    customers: pa.ChunkedArray | None = None,
) -> ContextualBertProcessor:
    """Return a processor whose tokens are the frequent words of training texts.

    Args:
        columns: the texts, or lists of words, and second texts.
        schema: the features of the context.
        min_customers: the fewest customers of a word.
        customers: of each text; None: each is one of its own.
    """
    codes: Any = None
    if customers is not None:
        codes = customers.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    texts = [" ".join(map(_text, cells)) for cells in zip(*(each.to_pylist() for each in columns), strict=True)]
    words = frequent_words(texts, min_customers=min_customers, customers=codes)
    extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
    return ContextualBertProcessor(extractor, word_tokenizer(words))


def _text(cell: str | Sequence[str | None]) -> str:
    """Return a text, or the words of a list as one. A word that is missing is found when the list is encoded."""
    return cell if isinstance(cell, str) else " ".join(filter(None, cell))


@cache
def _preparation() -> tuple[Any, Any]:
    """Return how a text is normalised and how it is cut into words."""
    # Letters keep their accents: "schon" and "schön" are two words.
    return Normalizers([NFC(), BertNormalizer(lowercase=True, strip_accents=False)]), BertPreTokenizer()
