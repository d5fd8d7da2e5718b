"""Pairs of sentences: lines and lists, cuts as tokenizers make them, and what is drawn anew in each epoch."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert import encode_texts
from contextual_bert.data import ShuffledContext, TextMaskingCollator
from contextual_bert.data.dataset import SequenceDataset
from contextual_bert.data.neighbour_sentences import neighbours_in
from contextual_bert.data.sentence_pairs import (
    SentencePairs,
    cut_pairs,
    pair_numbers,
    with_pair_numbers,
)
from contextual_bert.errors import DataError
from contextual_bert.testing import miniature_text_processor

CLS, SEP = 3, 4


def pairs_of(sizes: Any, documents: Any) -> SequenceDataset:
    """Return whole pairs whose tokens say which sentence they are of: 10 * (number of the pair + 1) + place, and 5 more
    in the second half."""
    ids, halves, offsets = list[int](), list[int](), [0]
    for number, (first, second) in enumerate(sizes):
        own = 1000 * (number + 1)
        ids += [CLS, *range(own, own + first), SEP, *range(own + 500, own + 500 + second), SEP]
        halves += [0] * (first + 2) + [1] * (second + 1)
        offsets.append(len(ids))
    context = {"who": torch.arange(len(sizes))}
    return SequenceDataset(ids, offsets, context=context, token_type_ids=halves, example_ids=documents)


def drawn(count: int, *, seed: int = 0, longest: int = 40) -> SentencePairs:
    numbers = np.random.default_rng(1)
    documents = np.sort(numbers.integers(0, count // 4, size=count))
    whole = pairs_of(numbers.integers(1, 30, size=(count, 2)), documents)
    return SentencePairs(
        cut_pairs(whole, longest=longest, separators=1), whole, longest=longest, separators=1, seed=seed
    )


@pytest.mark.parametrize(
    "cells",
    [
        ["one. \n\n two\r\nthree", "alone", "  \n", "a\nb"],
        [["one.", "two", "three"], ["alone"], [], ["a", " b "]],
        ['["one.", "two", "three"]', '["alone"]', "[]", '["a", "b"]'],
    ],
)
def test_neighbours_of_lines_and_lists(cells: list[Any]) -> None:
    found = neighbours_in(pa.table({"text": cells}), text="text")
    assert found.rows.tolist() == [0, 0, 3] and found.num_alone == 2
    assert found.first.to_pylist() == ["one.", "two", "a"] and found.second.to_pylist() == ["two", "three", "b"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["a\nb", None], "the cell is missing"),
        ([["a", None], ["b"]], "a sentence of the list is missing"),
        ([1, 2], "the column is of type int64"),
        ([[1], [2]], "the column is of type"),
    ],
)
def test_columns_without_sentences(cells: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        neighbours_in(pa.table({"text": cells}), text="text")
    assert caught.value.column == "text"


@pytest.mark.parametrize("longest", [5, 6, 9, 12, 40])
def test_pairs_are_cut_as_the_tokenizer_cuts_them(longest: int) -> None:
    numbers, processor = np.random.default_rng(0), miniature_text_processor()
    first, second = (
        [" ".join(f"word{word}" for word in numbers.integers(0, 18, size)) for size in numbers.integers(1, 15, 80)]
        for _ in range(2)
    )
    table = pa.table({"first": first, "second": second, "sex": ["f"] * 80})
    whole = encode_texts(table, processor, text="first", pair="second").dataset
    cut = cut_pairs(whole, longest=longest, separators=1)
    wanted = encode_texts(table, processor, text="first", pair="second", max_length=longest).dataset
    for name in ("input_ids", "offsets", "token_type_ids"):
        assert torch.equal(getattr(cut, name), getattr(wanted, name)), name
    theirs: Any = processor.tokenizer
    ids = theirs(first, second, truncation=True, max_length=longest)["input_ids"]
    assert cut.input_ids.tolist() == [token for row in ids for token in row]


def test_half_follow_and_half_are_of_another_document() -> None:
    pairs = drawn(4000)
    index = np.arange(len(pairs))
    second, labels = pairs.seconds(index)
    assert labels.mean() == pytest.approx(0.5, abs=0.03)
    documents = pairs.dataset.example_ids.numpy()
    assert (second[labels == 0] == index[labels == 0]).all()
    assert (documents[second[labels == 1]] != documents[labels == 1]).all()
    hits = np.bincount(second[labels == 1], minlength=len(pairs))
    assert hits.max() <= 6 and 0.55 < (hits > 0).sum() / (labels == 1).sum() < 0.85  # uniform, with repeats
    assert set(second[labels == 1]) >= {0, len(pairs) - 1} or hits[[0, -1]].sum() < 3


def test_a_batch_is_put_together_of_the_halves_that_are_drawn() -> None:
    pairs = drawn(60)
    index = [3, 59, 17, 0]
    second, labels = pairs.seconds(np.array(index))
    batch = pairs.__getitems__(index)
    assert batch.next_sentence_label.tolist() == labels.tolist()  # pyright: ignore[reportOptionalMemberAccess]
    assert batch.context["who"].tolist() == index  # of the first sentence
    for row, (own, other) in enumerate(zip(index, second.tolist(), strict=True)):
        length = int(batch.lengths[row])
        ids = batch.input_ids[row, :length].tolist()
        middle = ids.index(SEP)
        first, last = ids[1:middle], ids[middle + 1 : -1]
        assert (ids[0], ids[-1]) == (CLS, SEP) and length <= 40
        assert first == [1000 * (own + 1) + place for place in range(len(first))]
        assert last == [1000 * (other + 1) + 500 + place for place in range(len(last))]
        halves = batch.token_type_ids[row].tolist()  # pyright: ignore[reportOptionalSubscript]
        assert halves == [0] * (middle + 1) + [1] * (len(last) + 1) + [0] * (len(halves) - length)
        assert bool((batch.input_ids[row, length:] == 0).all())
        whole = pairs.halves
        is_whole = len(first) == whole.num_first[own] and len(last) == whole.num_second[other]
        assert is_whole or length == 40


def test_pairs_are_a_pure_function_of_seed_epoch_and_pair() -> None:
    pairs, again = drawn(200), drawn(200)
    every, some = pairs.__getitems__(range(200)), again.__getitems__([7, 199, 3])
    assert torch.equal(some.next_sentence_label, every.next_sentence_label[[7, 199, 3]])  # pyright: ignore
    width = some.input_ids.shape[1]
    assert torch.equal(some.input_ids, every.input_ids[[7, 199, 3], :width])
    pairs.set_epoch(1)
    assert not torch.equal(pairs.__getitems__(range(200)).next_sentence_label, every.next_sentence_label)  # pyright: ignore
    other = drawn(200, seed=1).__getitems__(range(200))
    assert not torch.equal(other.next_sentence_label, every.next_sentence_label)  # pyright: ignore


def test_pairs_of_one_document_have_masks_of_their_own() -> None:
    whole = pairs_of([(10, 10)] * 6, [4, 4, 4, 4, 9, 9])
    assert len(set(pair_numbers(whole)[0].tolist())) == 6
    pairs = SentencePairs(whole, whole, longest=40, separators=1, seed=0)
    starts = torch.ones(7000, dtype=torch.bool)
    collate = TextMaskingCollator(mask_id=1, pad_id=0, special_ids=(0, 1, 2, 3, 4), is_word_start=starts)
    batch = collate(pairs.__getitems__(range(6)))
    assert len({tuple((row != -100).tolist()) for row in batch["labels"]}) > 3
    assert torch.equal(batch["next_sentence_label"], pairs.__getitems__(range(6)).next_sentence_label)  # pyright: ignore
    rows = collate([pairs[number] for number in range(6)])
    assert torch.equal(rows["next_sentence_label"], batch["next_sentence_label"])
    assert torch.equal(rows["labels"], batch["labels"])
    assert with_pair_numbers(whole).example_ids.tolist() == pairs.example_ids.tolist()


def test_contexts_that_are_dealt_out_anew_stay_with_their_documents() -> None:
    whole = pairs_of([(3, 3)] * 6, [4, 4, 7, 7, 9, 9])
    shuffled = ShuffledContext(whole, seed=0)
    pairs = SentencePairs(shuffled, whole, longest=40, separators=1, seed=0)
    pairs.set_epoch(3)
    assert int(shuffled.epoch) == 3
    who = pairs.__getitems__(range(6)).context["who"].tolist()
    assert who[::2] == who[1::2] and sorted(who[::2]) == [0, 2, 4]


def test_one_document_has_no_other() -> None:
    whole = pairs_of([(3, 3)] * 3, [4, 4, 4])
    with pytest.raises(DataError, match="one text alone has a second sentence"):
        SentencePairs(whole, whole, longest=40, separators=1, seed=0)
    empty = cut_pairs(pairs_of([], []), longest=40, separators=1)
    assert len(empty) == 0
