"""Sets and contexts as batches: padding, order, every position once."""

import numpy as np
import pytest
import torch
from transformers.trainer_utils import RemoveColumnsCollator

from contextual_bert.data import EveryPosition, MaskingCollator, SequenceDataset
from contextual_bert.errors import ConfigurationError, DataError


def dataset(sizes: tuple[int, ...] = (3, 1, 2, 3)) -> SequenceDataset:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    context = {"age": torch.arange(len(sizes)), "brands": torch.arange(2 * len(sizes)).reshape(-1, 2)}
    return SequenceDataset(np.arange(offsets[-1]) + 3, offsets, context=context, example_ids=np.arange(len(sizes)) * 10)


def test_a_batch_is_its_rows_padded() -> None:
    data = dataset()
    batch = data.__getitems__([3, 1])
    assert batch.input_ids.tolist() == [[9, 10, 11], [6, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.example_ids.tolist() == [30, 10]
    assert batch.context["age"].tolist() == [3, 1]
    assert batch.context["brands"].tolist() == [[6, 7], [2, 3]]
    assert (len(batch), len(data), data.sizes.tolist()) == (2, 4, [3, 1, 2, 3])
    assert data.__getitems__([1]).input_ids.shape == (1, 1)


def test_a_row_agrees_with_its_batch() -> None:
    data = dataset()
    for index in range(len(data)):
        row, batch = data[index], data.__getitems__([index])
        assert row["input_ids"].tolist() == batch.input_ids[0].tolist()
        assert row["example_id"] == int(batch.example_ids[0])
        for name, values in batch.context.items():
            own = row["context"][name]
            assert torch.equal(own[: values.shape[1]] if own.dim() else own, values[0])
            assert own.dim() == 0 or not own[values.shape[1] :].any()  # what a batch leaves out is padding
    assert data[-1]["input_ids"].tolist() == [9, 10, 11]
    with pytest.raises(IndexError, match="sequence 4 of 4"):
        data[4]


def test_pieces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="offsets must go from 0 to the number of ids, 3"):
        SequenceDataset([1, 2, 3], [0, 2], context={}, example_ids=[0])
    with pytest.raises(DataError, match="the sequence 1 is empty"):
        SequenceDataset([1, 2], [0, 2, 2], context={}, example_ids=[0, 1])
    with pytest.raises(ConfigurationError, match="'example_ids' has 2 rows for 1 sequences"):
        SequenceDataset([1, 2], [0, 2], context={}, example_ids=[0, 1])
    with pytest.raises(ConfigurationError, match="'age' has 3 rows for 1 sequences"):
        SequenceDataset([1, 2], [0, 2], context={"age": torch.zeros(3)}, example_ids=[0])


def test_every_position_comes_once_ordered_by_length() -> None:
    data = dataset((3, 1, 2, 3, 5, 1))
    every = EveryPosition(data)
    pairs = list(zip(every.set_index.tolist(), every.positions.tolist(), strict=True))
    assert len(every) == len(data.input_ids) == len(set(pairs)) == 15
    assert set(pairs) == {(row, place) for row, size in enumerate(data.sizes) for place in range(size)}
    assert every.sizes.tolist() == sorted(every.sizes)
    batch = every.__getitems__([2, 3, 14])
    assert batch.masked_position is not None
    assert batch.example_ids.tolist() == [data.example_ids[pairs[i][0]] for i in (2, 3, 14)]
    assert batch.masked_position.tolist() == [pairs[i][1] for i in (2, 3, 14)]
    assert every[14]["masked_position"] == pairs[14][1] and every[14]["example_id"] == 40
    with pytest.raises(IndexError, match="row 15 of 15"):
        every[15]


def test_a_batch_pays_for_its_own_longest_list_only() -> None:
    brands = torch.tensor([[4, 5, 6, 7], [4, 0, 0, 0], [5, 6, 0, 0]])
    image = torch.zeros(3, 9)
    data = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={"brands": brands, "image": image}, example_ids=[0, 1, 2])
    batch = data.__getitems__([1, 2])
    assert batch.context["brands"].tolist() == [[4, 0], [5, 6]]
    assert batch.context["image"].shape == (2, 9)
    assert data.__getitems__([0]).context["brands"].tolist() == [[4, 5, 6, 7]]
    texts = SequenceDataset(torch.tensor([2, 3, 2]), torch.tensor([0, 1, 2, 3]), context={"brands": brands})
    assert texts.__getitems__([1]).context["brands"].tolist() == [[4]]
    # Rows that come one by one are as wide as the table's, and can be stacked.
    assert texts.collate_fn([texts[0], texts[1]])["context"]["brands"].tolist() == brands[:2].tolist()


@pytest.mark.parametrize("every", [False, True])
def test_a_trainer_that_looks_for_unused_columns_gets_the_same_batch(every: bool) -> None:
    """As with remove_unused_columns=True, transformers' default."""
    data, collator = dataset(), MaskingCollator(mask_id=1, pad_id=0)
    rows = EveryPosition(data) if every else data
    found = RemoveColumnsCollator(collator, ["input_ids", "labels", "context"])(rows.__getitems__([2, 0]))
    expected = collator(rows.__getitems__([2, 0]))
    assert found.keys() == expected.keys()
    for name in ("input_ids", "labels", "attention_mask"):
        assert torch.equal(found[name], expected[name])


def test_labels_reach_a_trainer_that_looks_for_unused_columns() -> None:
    ids, labels = torch.tensor([2, 5, 3]), torch.tensor([1, 0])
    texts = SequenceDataset(ids, torch.tensor([0, 2, 3]), context={"age": torch.tensor([4, 5])}, labels=labels)
    columns = ["input_ids", "attention_mask", "labels", "context"]
    found = RemoveColumnsCollator(texts.collate_fn, columns)(texts.__getitems__([1, 0]))
    assert found["input_ids"].tolist() == [[3, 0], [2, 5]]
    assert (found["labels"].tolist(), found["context"]["age"].tolist()) == ([0, 1], [5, 4])
    one_by_one = texts.collate_fn([texts[1], texts[0]])
    assert found.keys() == one_by_one.keys()
    assert torch.equal(found["attention_mask"], one_by_one["attention_mask"])


def test_what_is_done_to_a_row_leaves_the_data_set_as_it_is() -> None:
    sets = SequenceDataset([5, 6, 7], [0, 2, 3], context={"age": torch.tensor([1, 2]), "v": torch.zeros(2, 3)})
    for row in (sets[0], sets.__getitems__([0, 1]).inputs(), sets.subset([0]).parts()):
        for value in (row["input_ids"], *row["context"].values()):
            value += 1
    assert sets.input_ids.tolist() == [5, 6, 7]
    assert sets.context["age"].tolist() == [1, 2]
    assert not sets.context["v"].any()
