"""Windows of long texts: each token but the first of a text is asked once."""

from collections import Counter

import numpy as np
import pytest
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.data.causal_windows import in_windows


@pytest.mark.parametrize("length", [2, 3, 5, 50])
def test_each_token_that_follows_another_is_asked_once(length: int) -> None:
    sizes = np.array([2, 9, 3, 5, 10])
    ids = torch.arange(int(sizes.sum()))  # each token has a name of its own
    offsets = np.concatenate([[0], sizes.cumsum()])
    texts = SequenceDataset(ids, offsets, context={"age": torch.arange(5)}, example_ids=np.arange(5) * 10)
    windows = in_windows(texts, length=length)
    assert windows.sizes.max() <= length and windows.sizes.min() >= 2
    pieces = windows.input_ids.tensor_split(windows.offsets[1:-1])
    assert Counter(int(token) for piece in pieces for token in piece[1:]) == Counter(
        {int(token): 1 for token in ids if int(token) not in offsets[:-1]}
    )
    for piece, row, age in zip(pieces, windows.example_ids.tolist(), windows.context["age"].tolist(), strict=True):
        assert row == age * 10 and offsets[age] <= int(piece[0]) and int(piece[-1]) < offsets[age + 1]
        assert piece.diff().eq(1).all()
