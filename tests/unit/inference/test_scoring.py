"""Scoring: the same as a full softmax by hand, whatever the blocks and batches."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.baselines import BagOfItems, ItemKNN, ItemPopularity, PTopFreq
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.context.interactions import Interactions, arranged
from contextual_bert.context.kinds.history import History
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import DataError
from contextual_bert.evaluation import SetPredictions
from contextual_bert.inference import (
    encode_texts,
    score,
    score_new_items,
    score_next_items,
    score_whole_sets,
    set_index,
    whole_rows,
)
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
    masked_lm,
)
from contextual_bert.testing import miniature_text_processor

NUM_ITEMS = 40
SCHEMA = ContextSchema(features=(Categorical(name="gender", values=("female", "male")),))


def model_for(conditioning: str) -> Any:
    torch.manual_seed(0)
    if conditioning == "bag":
        return BagOfItems(NUM_ITEMS + 3, layout=SCHEMA.layout, hidden_size=16).eval()
    config = ContextualBertConfig.from_schema(
        SCHEMA,
        conditioning=conditioning,
        vocab_size=NUM_ITEMS + 3,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
    )
    return ContextualBertForMaskedLM(config).eval()


def dataset(*, num_sets: int = 30, unknown: bool = False) -> SequenceDataset:
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 7, num_sets)
    items = generator.integers(3, NUM_ITEMS + 3, sizes.sum())
    if unknown:
        items[::4] = 2
    return SequenceDataset(
        items,
        np.concatenate([[0], sizes.cumsum()]),
        context={"gender": torch.from_numpy(generator.integers(0, 4, num_sets))},
        example_ids=generator.permutation(1000)[:num_sets],
    )


def by_hand(model: Any, sets: SequenceDataset) -> dict[tuple[int, int], tuple[float, int, int, float]]:
    """One set and position at a time, with all logits."""
    rows: dict[tuple[int, int], tuple[float, int, int, float]] = {}
    for index in range(len(sets)):
        example = sets[index]
        for position, target in enumerate(example["input_ids"].tolist()):
            if target < 3:
                continue
            masked = example["input_ids"].clone()
            masked[position] = 1
            context = {name: value[None] for name, value in example["context"].items()}
            with torch.no_grad():
                output = model(input_ids=masked[None], context=context)
            logits = output["logits"][(masked == 1).nonzero().flatten().tolist().index(position)].double()
            probabilities = logits.softmax(dim=0)
            items = logits[3:]
            rows[example["example_id"], position] = (
                float(probabilities[target].log()),
                int((items > logits[target]).sum()),
                int((items == logits[target]).sum()),
                float(probabilities[3:].max()),
            )
    return rows


@pytest.mark.parametrize("conditioning", ["none", "global_state_update", "bag"])
def test_it_equals_a_softmax_by_hand(conditioning: str) -> None:
    model, sets = model_for(conditioning), dataset()
    scores = score(model, sets, batch_size=16)
    expected = by_hand(model, sets)
    places = list(zip(scores.example_id.tolist(), scores.position.tolist(), strict=True))
    assert places == sorted(expected)
    for row, place in enumerate(places):
        log_probability, num_better, num_tied, confidence = expected[place]
        assert scores.log_probability[row] == pytest.approx(log_probability, abs=1e-4)
        assert (scores.num_better[row], scores.num_tied[row]) == (num_better, num_tied)
        assert scores.confidence[row] == pytest.approx(confidence, abs=1e-4)


@pytest.mark.parametrize("conditioning", ["global_state_update", "bag"])
def test_unknown_targets_are_counted_and_left_out(conditioning: str) -> None:
    model, sets = model_for(conditioning), dataset(unknown=True)
    result = score(model, sets, batch_size=16)
    assert result.num_unknown_targets == int((sets.input_ids == 2).sum()) > 10
    expected = by_hand(model, sets)
    places = list(zip(result.example_id.tolist(), result.position.tolist(), strict=True))
    assert places == sorted(expected)
    np.testing.assert_allclose(result.log_probability, [expected[place][0] for place in places], atol=1e-4)


def test_batches_change_nothing_but_the_last_digits() -> None:
    model, sets = model_for("global_state_update"), dataset()
    whole = score(model, sets, batch_size=1024)
    for batch_size in (1, 7):
        scores = score(model, sets, batch_size=batch_size)
        np.testing.assert_allclose(scores.log_probability, whole.log_probability, atol=1e-5)
        np.testing.assert_array_equal(scores.num_better, whole.num_better)


def test_no_matrix_of_rows_and_items_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    model, sets = model_for("global_state_update"), dataset()
    whole = score(model, sets)
    shapes: list[tuple[int, ...]] = []
    model.cls.register_forward_hook(lambda *args: shapes.append(tuple(args[-1].shape)))
    score(model, sets)
    assert len(shapes) == 1
    shapes.clear()
    limit = 5 * (NUM_ITEMS + 3) + 1
    monkeypatch.setattr(masked_lm, "MAX_SCORE_ELEMENTS", limit)
    blocks = score(model, sets)
    assert len(shapes) > 10
    assert max(rows * items for rows, items in shapes) <= limit
    for name, column in whole.as_arrays().items():
        np.testing.assert_allclose(blocks.as_arrays()[name], column, atol=1e-5, err_msg=name)


def test_ties_are_exact_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, sets = model_for("none"), dataset()
    with torch.no_grad():
        model.cls.predictions.decoder.weight.zero_()
    monkeypatch.setattr(masked_lm, "MAX_SCORE_ELEMENTS", 1)
    scores = score(model, sets)
    assert set(scores.num_better.tolist()) == {0}
    assert set(scores.num_tied.tolist()) == {NUM_ITEMS}


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    sets = dataset()
    score(model_for("none"), sets, batch_size=50, progress=lambda done, total: seen.append((done, total)))
    total = len(sets.input_ids)
    assert seen == [(min(done, total), total) for done in range(50, total + 50, 50)]


def test_bfloat16_is_close() -> None:
    model, sets = model_for("none"), dataset()
    exact = score(model, sets).log_probability
    rounded = score(model, sets, dtype=torch.bfloat16).log_probability
    assert (exact != rounded).any()
    assert np.abs(exact - rounded).mean() < 0.1


def test_no_set() -> None:
    empty = SequenceDataset([], [0], context={}, example_ids=[])
    with pytest.raises(DataError, match="no set to score"):
        score(model_for("none"), empty)


def without_context(processor: ContextualBertProcessor) -> ContextualBertProcessor:
    return ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)


def test_words_that_the_tokenizer_does_not_know_are_counted() -> None:
    processor = miniature_text_processor()
    table = pa.table({"text": ["word1 pizza word2", "word3 pasta pizza"]})
    own = encode_texts(table, without_context(processor), text="text").dataset
    sets = SequenceDataset(own.input_ids, own.offsets, context={}, example_ids=np.arange(2))
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = ContextualBertConfig(vocab_size=23, has_position_embeddings=True, **sizes)
    model = ContextualBertForMaskedLM(config).eval()
    found = score(model, sets, batch_size=4, tokenizer=processor.tokenizer)
    assert (len(found), found.num_unknown_targets) == (3, 3)


def whole_sets() -> SequenceDataset:
    """Sets, one with an item twice and two unknown ones; whose it is had item 5 twice, the last history is missing."""
    found = Interactions(*(np.array(each) for each in ([0, 0, 0], [5, 5, 9], [0, 1, 1], [-1, -1, -1])))
    history = arranged(found, num_rows=3)
    history[2, 0, 0] = 1  # missing
    return SequenceDataset(
        [5, 6, 5, 2, 2, 7, 2],
        [0, 5, 6, 7],
        context={"before": torch.from_numpy(history)},
        example_ids=[4, 9, 2],
    )


def test_whole_sets_know_their_sizes_and_what_was_had_before() -> None:
    model = PTopFreq(12, layout=[History(name="before").layout])
    found = score_whole_sets(model, whole_sets(), batch_size=2, item_counts=np.arange(9))
    predictions = found.predictions
    assert isinstance(predictions, SetPredictions)
    assert list(zip(found.example_id.tolist(), found.position.tolist(), strict=True)) == [(4, 0), (4, 1), (9, 0)]
    assert predictions.set_size.tolist() == [4, 4, 1]  # 5, 6 and two unknown ones
    assert predictions.times_before.tolist() == [2, 0, 0]
    assert found.num_unknown_targets == 3
    # 5 was bought twice, 9 once; the seven others are tied behind.
    assert found.num_better.tolist() == [0, 2, 0]
    assert found.num_tied.tolist() == [1, 7, 9]
    lists = dict(zip(predictions.list_id.tolist(), predictions.lists.tolist(), strict=True))
    assert lists[4][:2] == [2, 6]
    assert sorted(lists) == [2, 4, 9]
    assert predictions.lists.shape == (3, 9)


@pytest.mark.parametrize("kind", ["popularity", "item_knn", "bag", "model"])
def test_the_first_proposed_items_are_those_with_the_highest_logits(kind: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(whole_rows, "_ROW_ELEMENTS", 100)
    sets = dataset()
    model: Any = {
        "popularity": ItemPopularity(NUM_ITEMS + 3, layout=()),
        "item_knn": ItemKNN(NUM_ITEMS + 3),
        "bag": model_for("bag"),
        "model": model_for("global_state"),
    }[kind]
    if kind in ("popularity", "item_knn"):
        rows = torch.repeat_interleave(torch.arange(len(sets)), sets.offsets.diff())
        model.fit(Observations(sets.input_ids, rows, {}))
    found = score_whole_sets(model, sets, item_counts=np.ones(NUM_ITEMS, dtype=np.int64))
    predictions = found.predictions
    assert isinstance(predictions, SetPredictions)
    assert predictions.times_before.max() == -1
    row_of = {example: row for row, example in enumerate(predictions.list_id.tolist())}
    items = sets.input_ids.numpy()[sets.offsets.numpy()[set_index(sets, found.example_id)] + found.position] - 3
    for example, item, better, tied in zip(found.example_id, items, found.num_better, found.num_tied, strict=True):
        places = np.flatnonzero(predictions.lists[row_of[int(example)]] == item)
        if tied == 1:
            assert places.tolist() == ([better] if better < whole_rows.NUM_PROPOSED else [])


def test_whole_sets_without_known_counts_keep_no_lists() -> None:
    found = score_whole_sets(model_for("bag"), dataset())
    assert isinstance(found.predictions, SetPredictions)
    assert not found.predictions.lists.size


@pytest.mark.parametrize("hide", ["items", "set", "next"])
@pytest.mark.parametrize("over", ["vocabulary", "items", "candidates", "bag"])
def test_the_share_of_new_items_is_their_probabilities_sum(hide: Any, over: Any) -> None:
    model = model_for("bag" if over == "bag" else "global_state")
    if over == "bag":
        over = model.softmax_over
    else:
        model.config.softmax_over = over
    sets, is_new = dataset(unknown=hide == "items"), torch.arange(NUM_ITEMS + 3) % 5 == 4
    scorer = {"items": score, "set": score_whole_sets, "next": score_next_items}[hide]
    scores = scorer(model, sets, batch_size=7)
    found = score_new_items(model, sets, scores, is_new, hide=hide, batch_size=4)
    assert found.shape == (len(scores),)
    for row, place, share in zip(scores.example_id.tolist(), scores.position.tolist(), found, strict=True):
        example = sets[int(set_index(sets, np.array([row]))[0])]
        shown = torch.tensor([1]) if hide == "set" else example["input_ids"].clone()
        if hide != "set":
            shown[place if hide == "items" else -1] = 1
        context = {name: value[None] for name, value in example["context"].items()}
        with torch.no_grad():
            output = model(input_ids=shown[None], context=context)
        logits = output["logits"].double()[0 if len(output["logits"]) == 1 else (shown == 1).nonzero()[-1]].flatten()
        if over != "vocabulary":
            logits[:3] = -torch.inf
        if over == "candidates":
            logits[shown] = -torch.inf
        assert share == pytest.approx(float(logits.softmax(dim=0)[is_new].sum()), abs=1e-6)
