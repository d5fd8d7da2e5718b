"""Name the items that a softmax goes over. Functions over tensors: `candidates`."""

from typing import Literal

# "vocabulary": all ids, reserved ones included, as in the paper. "items": all but the reserved ids. "candidates": all
# but the reserved ids and the items that the set shows, for sets that hold no item twice.
SoftmaxOver = Literal["vocabulary", "items", "candidates"]
