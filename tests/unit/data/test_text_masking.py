"""Masks for text: the share, whole words and spans, BERT's replacements; a pure function of seed, epoch and example."""

from typing import Any

import numpy as np
import pytest
import torch

from contextual_bert.data import EveryPosition, SequenceDataset, ShuffledContext, TextMaskingCollator
from contextual_bert.errors import ConfigurationError

PAD, MASK, CLS, SEP = 0, 1, 2, 3
SPECIAL = (PAD, MASK, CLS, SEP)
VOCABULARY = 60
STARTS = torch.arange(VOCABULARY) < 40  # ids from 40 on go on with a word


def dataset(num_texts: int = 400, *, seed: int = 0) -> SequenceDataset:
    generator = np.random.default_rng(seed)
    rows = [[CLS, *generator.integers(4, VOCABULARY, generator.integers(1, 60)), SEP] for _ in range(num_texts)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return SequenceDataset(np.concatenate(rows), offsets, context={}, example_ids=np.arange(num_texts))


def collator(**settings: Any) -> TextMaskingCollator:
    return TextMaskingCollator(mask_id=MASK, pad_id=PAD, special_ids=SPECIAL, is_word_start=STARTS, **settings)


def masked(batch: dict[str, Any]) -> torch.Tensor:
    return batch["labels"] != -100


@pytest.mark.parametrize("unit", ["token", "word", "span"])
@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_the_share_is_kept_and_specials_are_not_hidden(unit: Any, rate: float) -> None:
    texts = dataset()
    rows = texts.__getitems__(range(400))
    batch = collator(unit=unit, rate=rate)(rows)
    hidden = masked(batch)
    assert not torch.isin(rows.input_ids[hidden], torch.tensor(SPECIAL)).any()
    assert torch.equal(batch["labels"][hidden], rows.input_ids[hidden])
    assert torch.equal(batch["input_ids"][~hidden], rows.input_ids[~hidden])
    sizes = rows.lengths - 2
    counts, budgets = hidden.sum(dim=1), (rate * sizes).round().clamp(min=1)
    assert bool((counts >= 1).all())
    if unit == "token":
        assert torch.equal(counts.float(), budgets.float())
    else:  # only a first word that is too large goes beyond the budget
        assert float((counts > budgets).float().mean()) < 0.2
        assert 0.95 * rate < float(counts.sum() / sizes.sum()) < 1.1 * rate


@pytest.mark.parametrize(("unit", "spread"), [("word", 0.12), ("span", 0.3)])
def test_units_that_do_not_fit_leave_room_to_others(unit: Any, spread: float) -> None:
    """So that a rate is what it says, wherever in a text a token stands."""
    count, length = 4000, 62
    ids = np.random.default_rng(0).integers(4, VOCABULARY, (count, length))
    ids[:, 0], ids[:, -1] = CLS, SEP
    texts = SequenceDataset(ids.ravel(), np.arange(count + 1) * length, context={}, example_ids=np.arange(count))
    hidden = masked(collator(unit=unit)(texts.__getitems__(range(count)))).float()
    assert hidden.sum(dim=1).mean() == pytest.approx(9, abs=0.15)  # 0.15 of the sixty tokens
    by_place = hidden.mean(dim=0)
    first, middle, last = by_place[1:9].mean(), by_place[26:36].mean(), by_place[-9:-1].mean()
    assert middle == pytest.approx(float(first), rel=spread) and middle == pytest.approx(float(last), rel=spread)


def test_each_text_and_epoch_has_a_share_of_its_own_where_a_largest_is_given() -> None:
    rows = dataset(4000, seed=1).__getitems__(range(4000))
    is_long = rows.lengths - 2 >= 40
    collate = collator(rate=0.2, max_rate=1.0)
    sizes = (rows.lengths - 2)[is_long]
    shares = masked(collate(rows)).sum(dim=1)[is_long] / sizes
    uniform = torch.linspace(0.2, 1.0, len(shares))
    assert float((shares.sort().values - uniform).abs().max()) < 0.04
    collate.set_epoch(1)
    again = masked(collate(rows)).sum(dim=1)[is_long] / sizes
    assert abs(float(torch.corrcoef(torch.stack([shares, again]))[0, 1])) < 0.06
    as_before = collator(rate=0.2, max_rate=0.2)(rows)
    assert torch.equal(as_before["labels"], collator(rate=0.2)(rows)["labels"])


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_are_hidden_whole(unit: Any) -> None:
    rows = dataset().__getitems__(range(400))
    hidden = masked(collator(unit=unit, rate=0.3)(rows))
    goes_on = ~STARTS[rows.input_ids[:, 1:]] & (rows.input_ids[:, :-1] != CLS)
    assert bool(goes_on.any())
    assert torch.equal(hidden[:, 1:][goes_on], hidden[:, :-1][goes_on])


def test_spans_are_runs_of_words() -> None:
    rows = dataset().__getitems__(range(400))

    def runs(unit: Any) -> float:
        hidden = masked(collator(unit=unit, rate=0.3)(rows))
        return float(hidden.sum() / (hidden[:, 1:] & ~hidden[:, :-1]).sum())

    assert runs("token") < runs("word") < runs("span")
    assert runs("span") > 2 * runs("word")


def test_hidden_tokens_become_mask_another_or_stay() -> None:
    rows = dataset(3000).__getitems__(range(3000))
    batch = collator()(rows)
    hidden = masked(batch)
    shown, true = batch["input_ids"][hidden], rows.input_ids[hidden]
    assert float((shown == MASK).float().mean()) == pytest.approx(0.8, abs=0.02)
    assert float((shown == true).float().mean()) == pytest.approx(0.1, abs=0.02)
    others = shown[(shown != MASK) & (shown != true)]
    assert not torch.isin(others, torch.tensor(SPECIAL)).any()
    assert len(others.unique()) > 50


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_masks_are_a_pure_function_of_seed_epoch_and_example(unit: Any) -> None:
    texts, collate = dataset(), collator(unit=unit)
    whole = collate(texts.__getitems__(range(400)))
    some = collate(texts.__getitems__([7, 399, 3]))
    length = some["labels"].shape[1]
    assert torch.equal(some["labels"], whole["labels"][[7, 399, 3], :length])
    assert torch.equal(some["input_ids"], whole["input_ids"][[7, 399, 3], :length])
    collate.set_epoch(1)
    assert not torch.equal(collate(texts.__getitems__(range(400)))["labels"], whole["labels"])
    other = collator(unit=unit, seed=1)(texts.__getitems__(range(400)))
    assert not torch.equal(other["labels"], whole["labels"])


def test_every_position_but_the_special_ones() -> None:
    texts = SequenceDataset([CLS, 5, 6, SEP, CLS, 7, SEP], [0, 4, 7], context={}, example_ids=[0, 1])
    every = EveryPosition(texts, leave_out=SPECIAL)
    assert list(zip(every.set_index.tolist(), every.positions.tolist(), strict=True)) == [(1, 1), (0, 1), (0, 2)]
    batch = collator()(every.__getitems__([0, 2]))
    assert batch["labels"].tolist() == [[-100, 7, -100, -100], [-100, -100, 6, -100]]
    asked = every.__getitems__([0, 1, 2] * 50)
    assert bool((collator()(asked)["input_ids"] == MASK).sum(dim=1).eq(1).all())  # never kept, never another token
    assert every.sizes.tolist() == [3, 4, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0.0}, "rate=0.0 is not allowed: the share"),
        ({"rate": 1.5}, "rate=1.5"),
        ({"unit": "phrase"}, "unit='phrase' is not allowed. Give"),
        ({"max_rate": 0.1}, "max_rate=0.1 is not allowed. Give a share between rate=0.15 and 1"),
        ({"rate": 0.5, "max_rate": 1.1}, "max_rate=1.1 is not allowed. Give a share between rate=0.5 and 1"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        collator(**settings)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_texts_without_a_word_hide_nothing(unit: Any) -> None:
    offsets, ids = np.array([0, 2, 4]), np.array([CLS, SEP, CLS, SEP])
    blank = SequenceDataset(ids, offsets, context={}, example_ids=np.arange(2))
    batch = collator(unit=unit)(blank.__getitems__(range(2)))
    assert not masked(batch).any()
    assert batch["input_ids"].tolist() == [[CLS, SEP]] * 2


@pytest.mark.parametrize("rate", [0.05, 0.15])
def test_a_short_text_is_not_hidden_whole_by_one_span(rate: float) -> None:
    count, length = 2000, 12
    ids = np.random.default_rng(0).integers(4, len(STARTS), (count, length))
    ids[:, 0], ids[:, -1] = CLS, SEP
    words = torch.ones(len(STARTS), dtype=torch.bool)  # each token is a word
    texts = SequenceDataset(ids.ravel(), np.arange(count + 1) * length, context={}, example_ids=np.arange(count))
    collate = TextMaskingCollator(
        mask_id=MASK, pad_id=0, special_ids=SPECIAL, is_word_start=words, unit="span", rate=rate
    )
    hidden = masked(collate(texts.__getitems__(range(count)))).sum(dim=1)
    assert set(hidden.tolist()) == {max(1, round(rate * (length - 2)))}


def with_phrases(texts: SequenceDataset, *, seed: int = 0) -> tuple[SequenceDataset, torch.Tensor]:
    """The texts with phrases of two to five tokens, and the phrase of each token, -1 of none."""
    generator, phrase_of = np.random.default_rng(seed), np.full(len(texts.input_ids), -1)
    number = 0
    for start, end in zip(texts.offsets[:-1].tolist(), texts.offsets[1:].tolist(), strict=True):
        place = start + 1 + int(generator.integers(0, 6))
        while place + 2 < end:
            size = int(generator.integers(2, 6))
            phrase_of[place : min(place + size, end - 1)] = number
            place, number = place + size + int(generator.integers(0, 8)), number + 1
    goes_on = np.zeros(len(phrase_of), dtype=bool)
    goes_on[1:] = (phrase_of[1:] == phrase_of[:-1]) & (phrase_of[1:] >= 0)
    return texts.with_phrases(torch.from_numpy(goes_on)), torch.from_numpy(phrase_of)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_phrases_are_hidden_as_a_whole(unit: Any) -> None:
    texts, phrase_of = with_phrases(dataset())
    rows = texts.__getitems__(range(400))
    hidden = masked(collator(unit=unit, rate=0.3)(rows))
    flat = hidden[rows.is_real]
    assert bool((phrase_of >= 0).any())
    whole = torch.zeros(int(phrase_of.max()) + 1)
    whole.index_add_(0, phrase_of[phrase_of >= 0], flat[phrase_of >= 0].float())
    sizes = torch.bincount(phrase_of[phrase_of >= 0])
    assert set((whole / sizes).tolist()) == {0.0, 1.0}
    share = float(flat.sum() / (rows.lengths - 2).sum())
    assert 0.28 < share < 0.34
    alone = flat[(phrase_of < 0) & ~torch.isin(texts.input_ids, torch.tensor(SPECIAL))].float().mean()
    assert 0.2 < float(alone) < 0.4  # what is in no phrase is hidden as well


def test_only_tokens_of_phrases_are_joined() -> None:
    """With tokens as units, each token outside of a phrase is hidden for itself."""
    ids = [CLS, 5, 45, 6, 7, 8, SEP]  # 45 goes on a word
    texts = SequenceDataset(ids * 500, np.arange(501) * 7, context={}, example_ids=np.arange(500))
    texts = texts.with_phrases(torch.tensor([False, False, False, False, True, False, False] * 500))
    tokens = masked(collator(rate=0.4)(texts.__getitems__(range(500))))[:, 1:-1]
    assert torch.equal(tokens[:, 2], tokens[:, 3]) and bool(tokens[:, 2].any())
    assert not torch.equal(tokens[:, 0], tokens[:, 1]) and not torch.equal(tokens[:, 3], tokens[:, 4])
    words = masked(collator(rate=0.4, unit="word")(texts.__getitems__(range(500))))[:, 1:-1]
    assert torch.equal(words[:, 0], words[:, 1]) and torch.equal(words[:, 2], words[:, 3])


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_special_token_in_a_phrase_is_not_hidden_and_does_not_part_it(unit: Any) -> None:
    texts = SequenceDataset([CLS, 4, PAD, 5, 6, SEP] * 300, np.arange(301) * 6, context={})
    texts = texts.with_phrases(torch.tensor([False, False, True, True, False, False] * 300))  # 4 [UNK] 5
    hidden = masked(collator(unit=unit)(texts.__getitems__(range(300))))
    assert torch.equal(hidden[:, 1], hidden[:, 3]) and not bool(hidden[:, 2].any())
    first = texts.with_phrases(torch.tensor([False, False, False, True, False, False] * 300))  # [UNK] 5
    hidden = masked(collator(unit=unit)(first.__getitems__(range(300))))
    assert not torch.equal(hidden[:, 1], hidden[:, 3])


def test_phrases_stay_with_their_texts() -> None:
    texts, _ = with_phrases(dataset(20))
    flags = texts.__getitems__([3, 7]).goes_on_phrase
    assert flags is not None and bool(flags.any())
    for same in (texts.subset([3, 7]), texts.subset([3, 7]).with_context({"age": torch.tensor([1, 2])})):
        assert torch.equal(same.__getitems__([0, 1]).goes_on_phrase, flags)  # pyright: ignore[reportArgumentType]
    dealt = ShuffledContext(texts.with_context({"age": torch.arange(20)}), seed=0)
    assert torch.equal(dealt.__getitems__([3, 7]).goes_on_phrase, flags)  # pyright: ignore[reportArgumentType]
    collate = collator(rate=0.4)
    one_by_one = collate([texts[3], texts[7]])
    assert torch.equal(one_by_one["labels"], collate(texts.__getitems__([3, 7]))["labels"])
    assert "goes_on_phrase" not in texts.collate_fn([texts[3], texts[7]])
    with pytest.raises(ConfigurationError, match="'goes_on_phrase' has 3 values"):
        texts.with_phrases(torch.zeros(3, dtype=torch.bool))
