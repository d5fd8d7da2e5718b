"""The spelling of each token beside its id: in batches, row by row, and where only some texts are taken."""

from typing import Any

import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.data.spelt_tokens import SpeltTokens

SPELT = SpeltTokens(torch.tensor([1, 2, 0, 1, 1]), torch.tensor([[0, 0], [5, 6], [7, 0]], dtype=torch.int16))


def texts() -> SequenceDataset:
    return SequenceDataset([3, 4, 5, 3, 3], [0, 3, 5], context={}, labels=torch.tensor([0, 1])).with_spelling(SPELT)


def test_a_batch_has_the_characters_of_each_token_and_none_for_padding() -> None:
    found = texts().__getitems__([1, 0]).inputs()["characters"]
    assert found.dtype == torch.int64
    assert found.tolist() == [[[5, 6], [5, 6], [0, 0]], [[5, 6], [7, 0], [0, 0]]]


def test_rows_one_by_one_are_put_together_to_the_same_batch() -> None:
    rows: Any = [texts()[0], texts()[1]]
    together, batch = texts().collate_fn(rows), texts().__getitems__([0, 1]).inputs()
    assert torch.equal(together["characters"], batch["characters"])


def test_without_spelling_a_batch_has_ids_alone() -> None:
    assert "characters" not in texts().with_spelling(None).__getitems__([0]).inputs()
    assert texts().spelt is SPELT
