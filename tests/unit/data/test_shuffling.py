"""The context that says nothing: dealt out anew each epoch, a pure function of seed, epoch and place."""

import torch

from contextual_bert.data import EveryPosition, SequenceDataset, ShuffledContext

COUNT = 500


def own_sets() -> SequenceDataset:
    sizes = torch.arange(COUNT) % 3 + 1
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    context = {"age": torch.arange(COUNT), "brands": torch.arange(2 * COUNT).view(COUNT, 2)}
    items = torch.arange(int(sizes.sum())) + 3
    return SequenceDataset(items, offsets, context=context, example_ids=torch.arange(COUNT) * 7, pad_id=0)


def ages(dataset: SequenceDataset, places: list[int] | None = None) -> list[int]:
    return dataset.__getitems__(list(range(COUNT)) if places is None else places).context["age"].tolist()


def test_every_context_is_dealt_once_and_few_stay_where_they_were() -> None:
    dealt = ages(ShuffledContext(own_sets(), seed=0))
    assert sorted(dealt) == list(range(COUNT))
    assert sum(place == age for place, age in enumerate(dealt)) < 10  # one in the mean


def test_the_features_of_one_context_stay_together() -> None:
    batch = ShuffledContext(own_sets(), seed=0).__getitems__([5, 80, 3])
    assert torch.equal(batch.context["brands"][:, 0], 2 * batch.context["age"])


def test_items_masks_and_the_sets_own_contexts_stay() -> None:
    own, shuffled = own_sets(), ShuffledContext(own_sets(), seed=0)
    mine, theirs = own.__getitems__([9, 4]), shuffled.__getitems__([9, 4])
    assert torch.equal(mine.input_ids, theirs.input_ids)
    assert torch.equal(mine.example_ids, theirs.example_ids)
    assert torch.equal(own.context["age"], shuffled.context["age"])


def test_it_is_a_pure_function_of_seed_epoch_and_place() -> None:
    first, second, other_seed = (ShuffledContext(own_sets(), seed=seed) for seed in (0, 0, 1))
    places = [400, 2, 77]
    start = ages(first)
    assert ages(second, places) == [start[place] for place in places]
    assert [second[place]["context"]["age"].item() for place in places] == [start[place] for place in places]
    assert ages(other_seed) != start
    first.set_epoch(1)
    assert ages(first) != start
    first.set_epoch(0)
    assert ages(first) == start


def test_evaluation_gives_all_positions_of_a_set_the_same_context() -> None:
    shuffled = ShuffledContext(own_sets(), seed=0)
    every = EveryPosition(shuffled)
    batch = every.__getitems__(list(range(len(every))))
    expected = [ages(shuffled)[place] for place in every.set_index.tolist()]
    assert batch.context["age"].tolist() == expected


def test_texts_one_by_one_have_the_contexts_of_their_batch() -> None:
    offsets, ages = torch.arange(41) * 2, torch.arange(40)
    own = SequenceDataset(torch.arange(80), offsets, context={"age": ages, "brands": torch.arange(80).view(40, 2)})
    shuffled = ShuffledContext(own, seed=0)
    batch = shuffled.__getitems__(range(40)).context
    assert not torch.equal(batch["age"], ages)
    for index in (0, 7, 39):
        assert torch.equal(shuffled[index]["context"]["age"], batch["age"][index])
        assert torch.equal(shuffled[index]["context"]["brands"], batch["brands"][index])
    assert torch.equal(shuffled[-1]["context"]["age"], batch["age"][39])
    assert ShuffledContext(SequenceDataset(torch.arange(80), offsets, context={}), seed=0)[0]["context"] == {}
