"""Own counts, by hand."""

import torch

from contextual_bert.baselines import PTopFreq
from tests.unit.baselines.histories import LAYOUT, encoded, observed


def test_what_was_never_bought_is_tied() -> None:
    model = PTopFreq(8, layout=LAYOUT)
    model.fit(observed([[[3, 4], [3]], [[5]]], [[6], [6]]))
    context = {"before": encoded([[[7, 4], [7]]])}
    found = model.score_masked(torch.tensor([[1]]), context=context, labels=torch.tensor([[7, 4, 3, 6]]))
    assert found.num_better.tolist() == [0, 1, 2, 2]
    assert found.num_tied.tolist() == [1, 1, 3, 3]
