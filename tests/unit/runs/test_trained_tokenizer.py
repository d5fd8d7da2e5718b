"""Tokenizers that the training texts teach: every text can be read, and no word of a single customer is a piece."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.runs.trained_tokenizer import trained_tokenizer

TEXTS = pa.chunked_array([["the red coat of Zebedee", "the red hat", "a red Zebedee", "the coat"] * 3])
WRITERS = np.array([0, 1, 0, 2] * 3)


@pytest.mark.parametrize(
    "text", ["the red coat", "Ünïcödé – 北京 🙂", "  two  spaces\n\nand lines ", "<|endoftext|> inside"]
)
def test_every_text_is_read_and_written_back(text: str) -> None:
    tokenizer = trained_tokenizer(TEXTS, vocab_size=300, min_customers=2)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer.decode(ids) == text
    whole = tokenizer(text).input_ids
    assert whole == [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]


def test_a_word_of_a_single_customer_is_no_piece() -> None:
    of_rows = trained_tokenizer(TEXTS, vocab_size=400, min_customers=2).get_vocab()
    assert "ĠZebedee" in of_rows and "Ġred" in of_rows
    of_writers = trained_tokenizer(TEXTS, vocab_size=400, min_customers=2, customers=WRITERS).get_vocab()
    assert "Ġred" in of_writers and not any("Zeb" in piece for piece in of_writers)


def test_it_has_no_more_tokens_than_asked() -> None:
    assert len(trained_tokenizer(TEXTS, vocab_size=262, min_customers=1)) == 262
