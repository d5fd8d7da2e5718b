"""Own counts, then popularity, by hand."""

import torch

from contextual_bert.baselines import GPTopFreq
from tests.unit.baselines.histories import LAYOUT, encoded, observed


def test_popularity_orders_ties_and_the_rest() -> None:
    model = GPTopFreq(8, layout=LAYOUT)
    model.fit(
        observed([[[3, 4], [3]], [[3, 5], [5, 6]]], [[5], [3]])
    )  # 3 four times, 5 three times, 4, 6 once, 7 never
    context = {"before": encoded([[[7, 4], [7], [5]]])}
    found = model.score_masked(torch.tensor([[1]]), context=context, labels=torch.tensor([[7, 5, 4, 3, 6]]))
    assert found.num_better.tolist() == [0, 1, 2, 3, 4]
    assert found.num_tied.tolist() == [1, 1, 1, 1, 1]
    context = {"before": encoded([[[4, 6]]])}
    found = model.score_masked(torch.tensor([[1]]), context=context, labels=torch.tensor([[6, 7]]))
    assert found.num_better.tolist() == [0, 4]
    assert found.num_tied.tolist() == [2, 1]
