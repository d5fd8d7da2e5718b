"""Sequences are cut to what a model reads, the last position is asked, and pieces ask for each item once."""

import numpy as np
import pytest
import torch

from contextual_bert.data import LastPosition, MaskingCollator, NextItemCollator, SequenceDataset, ShuffledContext
from contextual_bert.data.dataset import IGNORED_LABEL
from contextual_bert.data.next_items import in_pieces, newest_items, with_shuffled_items
from contextual_bert.data.ragged import offsets_of

SIZES = np.array([7, 1, 3, 12, 4])


def sequences() -> SequenceDataset:
    return SequenceDataset(
        np.arange(SIZES.sum()) + 10,
        offsets_of(SIZES),
        context={"age": torch.arange(len(SIZES))},
        example_ids=np.arange(len(SIZES)) + 100,
    )


def rows_of(dataset: SequenceDataset) -> list[list[int]]:
    return [row.tolist() for row in dataset.input_ids.tensor_split(dataset.offsets[1:-1])]


@pytest.mark.parametrize("longest", [1, 2, 4, 5, 12, 50])
def test_pieces_are_the_sequences_counted_from_their_ends(longest: int) -> None:
    whole, own = sequences(), in_pieces(sequences(), longest, asks_all=True)
    assert own.labels is not None
    pieces, asked = rows_of(own), own.labels.tolist()
    for number, row in enumerate(rows_of(whole)):
        mine = [piece for piece, of in zip(pieces, own.example_ids.tolist(), strict=True) if of == 100 + number]
        assert [item for piece in mine for item in piece] == row
        assert [len(piece) for piece in mine[1:]] == [longest] * (len(mine) - 1)
        assert own.context["age"][own.example_ids == 100 + number].unique().tolist() == [number]
    firsts = {row[0] for row in rows_of(whole)}
    for piece in pieces:
        place = own.input_ids.tolist().index(piece[0])
        assert asked[place] == (piece[0] if piece[0] in firsts else IGNORED_LABEL)
    assert in_pieces(whole, longest, asks_all=False).labels is None
    # A batch has the items of earlier pieces, also where contexts are dealt out anew.
    for dataset in (own, ShuffledContext(own, seed=0)):
        batch = dataset.__getitems__(torch.arange(len(own)))
        for number, piece in enumerate(pieces):
            row = next(row for row in rows_of(whole) if piece[0] in row)
            before = batch.earlier_ids[number].tolist() if batch.earlier_ids is not None else []
            assert [item for item in before if item] == row[: row.index(piece[0])]
    assert (batch.earlier_ids is None) == (len(own) == len(whole))


def test_of_long_sequences_the_newest_items_are_read() -> None:
    assert rows_of(newest_items(sequences(), 3)) == [row[-3:] for row in rows_of(sequences())]
    assert newest_items(sequences(), 3).example_ids.tolist() == sequences().example_ids.tolist()


@pytest.mark.parametrize("longest", [None, 1, 2, 4, 12, 50])
def test_the_order_of_what_is_read_is_permuted_and_nothing_else(longest: int | None) -> None:
    own, orders = rows_of(sequences()), set[tuple[int, ...]]()
    for number in range(8):
        found = rows_of(with_shuffled_items(sequences(), number=number, seed=0, longest=longest))
        for row, other in zip(own, found, strict=True):
            num_before = max(0, len(row) - (longest or 99))
            assert other[:num_before] == row[:num_before]
            assert sorted(other[num_before:-1]) == row[num_before:-1]
            assert other[-1] == row[-1]
        orders.add(tuple(found[3]))
    assert (len(orders) > 1) == (longest not in (1, 2))


@pytest.mark.parametrize("longest", [None, 1, 3, 50])
@pytest.mark.parametrize("collate", [MaskingCollator(mask_id=1, pad_id=0), NextItemCollator(pad_id=0)])
def test_the_last_item_is_asked_for_and_nothing_else(
    longest: int | None, collate: MaskingCollator | NextItemCollator
) -> None:
    own = sequences()
    last = LastPosition(own, longest=longest)
    assert sorted(last.positions.tolist()) == sorted((SIZES - 1).tolist())
    assert np.diff(last.sizes).min() >= 0
    batch = collate(last.__getitems__(torch.arange(len(last))))
    asked = batch["labels"] != IGNORED_LABEL
    assert asked.sum(dim=1).tolist() == [1] * len(last)
    wanted = own.input_ids[own.offsets[1:] - 1][last.set_index]
    assert torch.equal(batch["labels"][asked], wanted)
    if isinstance(collate, MaskingCollator):
        assert (batch["input_ids"][asked] == 1).all()
    earlier = last.__getitems__(torch.arange(len(last))).earlier_ids
    if longest in (None, 50):
        assert earlier is None
    else:
        assert earlier is not None
        for ids, row in zip(earlier.tolist(), last.set_index.tolist(), strict=True):
            assert [each for each in ids if each != own.pad_id] == rows_of(own)[row][: -(longest or 0)]
    one = last[0]
    assert one["input_ids"][one["masked_position"]] == wanted[0]
    assert len(one["input_ids"]) == last.sizes[0]


def test_each_item_is_asked_for_and_no_padding() -> None:
    own = sequences()
    batch = NextItemCollator(pad_id=0)(own.__getitems__([0, 2]))
    assert batch["labels"].tolist() == [
        [10, 11, 12, 13, 14, 15, 16],
        [18, 19, 20, *[IGNORED_LABEL] * 4],
    ]
    assert batch["attention_mask"].sum(dim=1).tolist() == [7, 3]
    # A data set of single items has as many labels as sequences.
    single = in_pieces(SequenceDataset([5, 6], [0, 1, 2], context={}), 3, asks_all=True)
    assert NextItemCollator(pad_id=0)(single.__getitems__([0, 1]))["labels"].tolist() == [[5], [6]]


def test_late_epochs_hide_the_last_item() -> None:
    collate = MaskingCollator(mask_id=1, pad_id=0, masks_per_set=2, one_mask_from_epoch=1, asks_next=True)
    rows = sequences().__getitems__([0, 2, 3])
    assert (collate(rows)["labels"] != IGNORED_LABEL).sum(dim=1).tolist() == [2, 2, 2]
    collate.set_epoch(1)
    asked = collate(rows)["labels"] != IGNORED_LABEL
    assert asked.nonzero()[:, 1].tolist() == [6, 2, 11]
