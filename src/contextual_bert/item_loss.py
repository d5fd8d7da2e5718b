"""Name the losses of masked items. Functions over tensors: `models.losses`."""

from typing import Literal

# Exact over all items; over the items of a batch and some that are drawn, corrected for how often each is drawn; a
# binary cross-entropy of each target and of the drawn items.
ItemLoss = Literal["cross_entropy", "sampled_softmax", "gbce"]
NUM_NEGATIVES = 4096  # items that are drawn for a batch, where nobody says how many
