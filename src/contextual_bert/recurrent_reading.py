"""Reading by recurrent networks that passes over padding, for blocks of a model and for baselines.

It knows tensors alone.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def in_front(is_taken: Tensor) -> tuple[Tensor, Tensor]:
    """The places (batch, longest) of what is taken, in order and in front of the rest, and how many (batch,).

    Gathering by the places makes of any mask one of padding on the right, as short as it can be.

    Example:
        >>> in_front(torch.tensor([[False, True, True], [True, False, False]]))
        (tensor([[1, 2],
                [0, 1]]), tensor([2, 1]))
    """
    lengths = is_taken.sum(dim=1)
    places = (~is_taken).long().argsort(dim=1, stable=True)
    return places[:, : max(1, int(lengths.max()))], lengths


def read_on(network: nn.RNNBase, given: Any, before: Any = None) -> tuple[Any, Any]:
    """Return what a recurrent network finds, and its states behind that, in the precision of its weights.

    Autocast takes float16 for it on CUDA, whatever was asked for, and bfloat16 not every processor can.

    Args:
        network: an LSTM or a GRU.
        given: (batch, length, size), or a packed sequence.
        before: its states; None: it begins.
    """
    weight: Any = network.weight_ih_l0
    dtype = weight.dtype
    before = tuple(each.to(dtype) for each in before) if isinstance(before, tuple) else before
    before = before.to(dtype) if isinstance(before, Tensor) else before
    with torch.autocast(weight.device.type, enabled=False):
        return network(given.to(dtype), before)


def read_lengths(network: nn.RNNBase, embedded: Tensor, lengths: Tensor, before: Any = None) -> tuple[Tensor, Any]:
    """Return the states at each token, 0 behind a row's end, and those behind its last token, without computing
    padding; a row without tokens is read as one token.

    Shapes:
        embedded (batch, length, size), lengths (batch,) -> (batch, longest, states).
    """
    if isinstance(network, nn.LSTM) and embedded.device.type == "cpu" and torch.is_grad_enabled():
        return _read_by_length(network, embedded, lengths.clamp(min=1), before)
    packed = pack_padded_sequence(embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    found, after = read_on(network, packed, before)
    return pad_packed_sequence(found, batch_first=True)[0], after


def _read_by_length(network: nn.LSTM, embedded: Tensor, lengths: Tensor, before: Any) -> tuple[Tensor, Any]:
    """Read the rows of one length at a time.

    The gradient of a packed sequence takes, on a CPU, for each step the time of all: this is up to twice as fast.
    """
    order = lengths.argsort()
    each_length, sizes = (found.tolist() for found in lengths[order].unique_consecutive(return_counts=True))
    longest = each_length[-1]
    given = embedded[order, :longest].split(sizes)
    parts = (
        [None] * len(sizes)
        if before is None
        else [*zip(*(each[:, order].split(sizes, dim=1) for each in before), strict=True)]
    )
    states, after = list[Tensor](), list[tuple[Tensor, Tensor]]()
    for rows, length, state in zip(given, each_length, parts, strict=True):
        found, last = read_on(network, rows[:, :length].contiguous(), state)
        states.append(nn.functional.pad(found, (0, 0, 0, longest - length)))
        after.append(last)
    back = order.argsort()
    hidden, cell = (torch.cat(each, dim=1)[:, back] for each in zip(*after, strict=True))
    return torch.cat(states)[back], (hidden, cell)


def states_of(network: nn.RNNBase, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Return the states of ``read_lengths``.

    Example:
        >>> states_of(nn.LSTM(2, 3, batch_first=True), torch.zeros(2, 5, 2), torch.tensor([4, 0])).shape
        torch.Size([2, 4, 3])
    """
    return read_lengths(network, embedded, lengths)[0]
