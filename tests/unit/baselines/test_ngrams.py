"""The bag of n-grams: its formula, a string and a row at a time, and hashes that every process agrees on."""

import hashlib
from itertools import pairwise

import pytest
import torch

from contextual_bert.baselines import NgramBag
from contextual_bert.baselines.ngrams import character_ngrams, fnv1a
from contextual_bert.errors import ConfigurationError

VOCABULARY = ["[PAD]", "[CLS]", "play", "##ing", "übermäßig", "a", "##s", "", "coat", "coats"]
NUM_BUCKETS = 40


def bag_for() -> NgramBag:
    torch.manual_seed(0)
    fields = {"reserved_ids": (0, 1), "hidden_size": 6, "num_buckets": NUM_BUCKETS}
    return NgramBag(VOCABULARY, num_labels=2, **fields).eval()


def plain_hash(text: str) -> int:
    found = 2166136261
    for byte in text.encode():
        found = ((found ^ byte) * 16777619) % 2**32
    return found


def plain_ngrams(text: str) -> list[str]:
    marked = text[2:] + ">" if text.startswith("##") else "<" + text + ">"
    return [marked[i:j] for i in range(len(marked)) for j in range(i + 3, min(i + 6, len(marked)) + 1)]


def plain_vector(bag: NgramBag, ids: list[int]) -> torch.Tensor:
    """The mean over words and bigrams of one text without reserved ids."""
    rows, size = bag.rows.weight, len(VOCABULARY)
    vectors = []
    for token in ids:
        grams = [size + plain_hash(gram) % NUM_BUCKETS for gram in plain_ngrams(VOCABULARY[token])]
        vectors.append(rows[[token, *grams]].mean(0))
    for one, other in pairwise(ids):
        pair = plain_hash(VOCABULARY[one]) * 116049371 + plain_hash(VOCABULARY[other])
        vectors.append(rows[size + pair % NUM_BUCKETS])
    return torch.stack(vectors).mean(0)


def test_it_is_the_formula() -> None:
    bag = bag_for()
    texts = [[2, 3, 4, 5, 6], [8], [9, 7, 2]]
    inputs = torch.tensor([[1, *text, *[0] * (6 - len(text))] for text in texts])
    found = bag.text_vectors(inputs, inputs > 1)
    torch.testing.assert_close(found, torch.stack([plain_vector(bag, text) for text in texts]))
    torch.testing.assert_close(bag(inputs)["logits"], bag.head.output(found))


def test_a_bigram_does_not_reach_across_a_reserved_id() -> None:
    bag = bag_for()
    apart, together = torch.tensor([[2, 1, 3]]), torch.tensor([[2, 3]])
    tokens = torch.stack([plain_vector(bag, [2]), plain_vector(bag, [3])]).mean(0, keepdim=True)
    torch.testing.assert_close(bag.text_vectors(apart, apart > 1), tokens)
    assert not torch.allclose(bag.text_vectors(together, together > 1), tokens)


def test_the_order_matters_to_neighbours_only() -> None:
    bag = bag_for()
    inputs = torch.tensor([[2, 3], [3, 2]])
    first, second = bag.text_vectors(inputs, inputs > 1)
    assert not torch.allclose(first, second)
    with torch.no_grad():
        bag.rows.weight[len(VOCABULARY) :] = 0
    torch.testing.assert_close(*bag.text_vectors(inputs, inputs > 1))


def test_words_that_share_letters_share_rows() -> None:
    bag = bag_for()
    rows = [set(found.tolist()) - {bag.padding_row} for found in bag.ngram_rows]
    assert len(rows[8] & rows[9]) >= 5  # <coat>, <coats>: <co, coa, oat, <coa, coat, ...
    assert rows[7] == {7}  # "" has no n-gram of three


def test_ngrams_are_of_characters_and_not_of_bytes() -> None:
    assert character_ngrams("äö") == ["<äö", "äö>", "<äö>"]
    assert sorted(character_ngrams("übermäßig")) == sorted(plain_ngrams("übermäßig"))
    assert fnv1a(["äö", "a\0", "a"]).tolist() == [plain_hash("äö"), plain_hash("a\0"), plain_hash("a")]
    assert fnv1a([]).tolist() == []


def test_hashes_are_the_same_everywhere() -> None:
    """In another process, on another machine: a saved bag is read by the hashes it was trained with."""
    bag = bag_for()
    found = hashlib.sha256(bag.ngram_rows.numpy().tobytes() + bag.token_hashes.numpy().tobytes()).hexdigest()
    assert found == "c9f69676a82fef80e9685a8901ecfaad46bb605322017dd99dce7b471638c053"


def test_no_buckets() -> None:
    with pytest.raises(ConfigurationError, match="num_buckets=0"):
        NgramBag(VOCABULARY, num_labels=2, num_buckets=0)
