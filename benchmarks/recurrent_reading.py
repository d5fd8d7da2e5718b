"""A step of a recurrent layer over rows of many lengths: ours beside torch's packed sequences.

    OMP_NUM_THREADS=1 python benchmarks/recurrent_reading.py

Sentences: 128 of 1 to 24 words, eight of 60; texts: 32 of 10 to 64 words; sets: 256 of 2 to 8 items; layers in both
directions, 128 wide. A step is the states and their gradient. Peer and ours in turn; medians of milliseconds of the
processor. GRUs are read packed here, too: length by length they took longer.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from contextual_bert.recurrent_reading import states_of

WIDTH, NUM_ROUNDS, NUM_STEPS = 128, 7, 4


def lengths() -> dict[str, Tensor]:
    """How many words each row has, by what the rows are."""
    sentences = torch.randint(1, 25, (128,))
    sentences[:8] = 60
    return {"sentences": sentences, "texts": torch.randint(10, 65, (32,)), "sets": torch.randint(2, 9, (256,))}


def packed(network: nn.RNNBase, rows: Tensor, num: Tensor) -> Tensor:
    """The states as a packed sequence gives them."""
    given = pack_padded_sequence(rows, num, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(network(given)[0], batch_first=True)[0]


def milliseconds(read: Callable[..., Tensor], network: nn.RNNBase, rows: Tensor, num: Tensor) -> float:
    """A step's time of the processor."""
    start = time.process_time()
    for _ in range(NUM_STEPS):
        read(network, rows, num).square().sum().backward()
    return 1e3 * (time.process_time() - start) / NUM_STEPS


def main() -> None:
    """Time each kind of rows by each kind of layer, and print the medians."""
    torch.manual_seed(0)
    for kind in (nn.LSTM, nn.GRU):
        for name, num in lengths().items():
            network = kind(WIDTH, WIDTH, batch_first=True, bidirectional=True)
            rows = torch.randn(len(num), int(num.max()), WIDTH, requires_grad=True)
            rounds = [
                [milliseconds(read, network, rows, num) for read in (packed, states_of)] for _ in range(NUM_ROUNDS)
            ]
            theirs, ours = (statistics.median(each) for each in zip(*rounds, strict=True))
            ratio = statistics.median(own / other for other, own in rounds)
            print(f"{kind.__name__:5} {name:10} packed {theirs:6.1f} ms, ours {ours:6.1f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
