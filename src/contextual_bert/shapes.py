"""Names of axes and of the tensors that travel between modules.

Legend of axis names:
    batch     rows of a batch: sets of items, or sentences
    length    positions of the longest row, padding included
    masked    masked positions of the whole batch, row after row
    hidden    width of the model (d_model in the paper)
    context   width of the concatenated feature embeddings (d_context in the paper)
    vocabulary  items or word pieces, reserved ids included

The annotations are checked while the tests run (jaxtyping with beartype) and cost nothing otherwise.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

ItemIds = Int[Tensor, "batch length"]
Mask = Bool[Tensor, "batch length"]
Hidden = Float[Tensor, "batch length hidden"]
ContextVector = Float[Tensor, "batch context"]
State = Float[Tensor, "batch hidden"]
