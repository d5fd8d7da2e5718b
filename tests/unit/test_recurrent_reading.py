"""Rows of many lengths: the states are those of each row alone, in training, too, where LSTMs go length by length."""

from typing import Any

import pytest
import torch
from torch import nn

from contextual_bert.recurrent_reading import read_lengths

LENGTHS = torch.tensor([3, 1, 0, 3, 5])  # a row without tokens is read as one token


@pytest.mark.parametrize("has_gradients", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("is_bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_states_are_those_of_each_row_alone(
    kind: type[nn.LSTM] | type[nn.GRU], is_bidirectional: bool, layers: int, has_gradients: bool
) -> None:
    torch.manual_seed(0)
    network = kind(4, 6, num_layers=layers, batch_first=True, bidirectional=is_bidirectional)
    embedded = torch.randn(5, 7, 4, requires_grad=True)
    hidden = torch.randn(layers * (1 + is_bidirectional), 5, 6)
    before: Any = (hidden, -hidden) if kind is nn.LSTM else hidden
    with torch.set_grad_enabled(has_gradients):
        found, after = read_lengths(network, embedded, LENGTHS, before)
    assert found.shape == (5, 5, 6 * (1 + is_bidirectional))
    alone = torch.zeros_like(found)
    for row, length in enumerate(LENGTHS.clamp(min=1).tolist()):
        state: Any = hidden[:, row : row + 1]
        state = (state, -state) if kind is nn.LSTM else state
        of_row, last = network(embedded[row : row + 1, :length], state)
        alone[row, :length] = of_row[0]
        for one, other in zip(after if kind is nn.LSTM else [after], last if kind is nn.LSTM else [last], strict=True):
            torch.testing.assert_close(one[:, row], other[:, 0])
    torch.testing.assert_close(found, alone)
    if has_gradients:
        weights: list[Any] = [embedded, *network.parameters()]
        for one, other in zip(
            torch.autograd.grad(found.square().sum(), weights),
            torch.autograd.grad(alone.square().sum(), weights),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
