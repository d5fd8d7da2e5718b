"""Windows of texts between a start and an end: each word is in one of them, and false ends are not asked."""

import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.data.dataset import IGNORED_LABEL
from contextual_bert.data.marked_windows import in_marked_windows
from contextual_bert.data.spelt_tokens import SpeltTokens


def texts() -> SequenceDataset:
    spelt = SpeltTokens(torch.tensor([1, 3, 4, 3, 5, 2, 1, 2, 1, 6, 2]), torch.arange(14).view(7, 2))
    ids = [1, 7, 8, 7, 9, 2, 1, 2, 1, 5, 2]
    made = SequenceDataset(
        ids, [0, 6, 8, 11], context={"age": torch.tensor([3, 4, 5])}, example_ids=[9, 4, 6], pad_id=2
    )
    return made.with_spelling(spelt)


def test_every_word_and_every_true_end_is_asked_once() -> None:
    for length in (3, 4, 5, 6, 99):
        windows = in_marked_windows(texts(), length=length)
        assert windows.sizes.max() <= length and windows.labels is not None
        asked = windows.labels[windows.labels != IGNORED_LABEL]
        assert asked.tolist() == texts().input_ids.tolist()
        for row in windows.input_ids.tensor_split(windows.offsets[1:-1]):
            assert row[0] == 1 and row[-1] == 2


def test_windows_keep_context_rows_and_spelling() -> None:
    windows = in_marked_windows(texts(), length=4)
    assert windows.example_ids.tolist() == [9, 9, 4, 6]
    assert windows.context["age"].tolist() == [3, 3, 4, 5]
    batch = windows.__getitems__([1, 2])
    assert batch.characters is not None
    assert batch.characters[:, :, 0].tolist() == [[2, 6, 10, 4], [2, 4, 0, 0]]
    assert windows.with_context({}).spelt is not None
    alone = windows.subset([3]).__getitems__([0]).characters
    assert alone is not None and alone[0, :, 0].tolist() == [2, 12, 4]
