"""Item vectors from what the items of the training sets come with: a start from which no model has to find it.

No model is known here; `runs.model_factory` puts the vectors where they belong. Paper: not there (docs/decisions/010).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from contextual_bert.context.interactions import ITEM, NO_ITEM, TIMES
from contextual_bert.context.kinds import MULTI_PADDING
from contextual_bert.data.dataset import SequenceDataset

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Of the subspace iteration: directions beside those asked for, and rounds. The leading directions are exact with these;
# the last, which are mostly noise, are some mixture of the rest.
NUM_EXTRA, NUM_ROUNDS = 32, 8
# Where singular values are equal, items of lower ids go first by so little: far above rounding, far below all else.
SMALLEST_STEP = 1e-9
# Vectors multiplied at a time: a product has a row a set, and all vectors at once are mostly traffic of memory.
NUM_COLUMNS = 32
# A value of the context seen in fewer sets than this is mostly chance, and counts for less.
NUM_DOUBTED = 50


def cooccurrence_vectors(
    dataset: SequenceDataset,
    *,
    vocab_size: int,
    size: int,
    seed: int,
    has_context: bool,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Floats, Floats]:
    """Correspondence analysis of what items come with, as a vector an item for the input and one for the output.

    Formula:
        A = D^-1/2 (C - r r^T / n) D^-1/2,  B = F^-1/2 X^T Z / sqrt(m),  [A B] = U S V^T;
        outputs = U S^1/2 R,  inputs = A U S^-1/2 R,  R = (M M^T)^-1/2 M,  M = U^T G

    Symbols:
        X (sets, items) membership; C = X^T X with a zero diagonal: in how many sets two items are together; r its row
        sums, D = diag(r), n their sum; Z (sets, values) the context, a column a value of each feature, standardised
        (a value of few sets by more than its deviation, for it is mostly chance);
        F = diag(number of sets of each item); m number of sets; U, S the ``size`` leading left singular vectors and
        values; G (items, size) normal numbers; R a random rotation, which spreads them over all components. The product
        outputs inputs^T approximates A: positive for items found together more often than chance, negative for those
        that replace each other. The signs of U, and its directions where values of S are equal, are what a processor
        makes them; R turns with U, so neither array depends on them.

    Shapes: two arrays (vocab_size, size); a row is zero where an item never shares a set.

    Args:
        dataset: the training sets with their contexts.
        vocab_size: ids are below it.
        size: components of a vector; where there are fewer items, the rest of the subspace is zero.
        seed: of the rotation; the singular vectors are the same for every seed.
        has_context: False leaves B out: the vectors of a model that sees no context.
        progress: called with the rounds that are done, and with all.

    Reference: Greenacre (1984), Theory and Applications of Correspondence Analysis. Halko, Martinsson and Tropp (2011),
        Finding structure with randomness, for the subspace iteration, which makes neither A nor B: a round multiplies
        by the sparse X and Z^T X.

    Example:
        >>> sets = SequenceDataset([3, 4, 3, 5, 3, 4], [0, 2, 4, 6], context={}, example_ids=[0, 1, 2])
        >>> inputs, outputs = cooccurrence_vectors(sets, vocab_size=6, size=2, seed=0, has_context=False)
        >>> bool(inputs[3] @ outputs[4] > inputs[5] @ outputs[4])
        True
    """
    associations = _Associations.of(dataset, vocab_size, has_context=has_context)
    num_known = int((associations.row_sums > 0).sum())
    if num_known < 2:
        return np.zeros((vocab_size, size)), np.zeros((vocab_size, size))
    rank = min(size, num_known - 1)
    subspace = np.random.default_rng(0).standard_normal((vocab_size, min(rank + NUM_EXTRA, num_known)))
    for done in range(NUM_ROUNDS):
        if progress is not None:
            progress(done, NUM_ROUNDS)
        subspace, _ = np.linalg.qr(_by_columns(associations.squared, subspace))
    with_items, with_context = (_by_columns(times, subspace) for times in (associations.items, associations.context))
    products = with_items.T @ with_items + with_context.T @ with_context
    order = np.linspace(products.trace() * SMALLEST_STEP, 0.0, vocab_size)[:, None]
    squares, coordinates = np.linalg.eigh(products + subspace.T @ (order * subspace))
    leading = coordinates[:, ::-1][:, :rank]
    roots = squares[::-1][:rank].clip(min=np.finfo(np.float64).tiny) ** 0.25  # S^1/2
    vectors = subspace @ leading
    drawn = vectors.T @ np.random.default_rng(seed).standard_normal((vocab_size, size))
    left, _, right = np.linalg.svd(drawn, full_matrices=False)
    rotation = left @ right
    is_known = associations.row_sums[:, None] > 0
    outputs = np.where(is_known, vectors * roots, 0.0) @ rotation
    inputs = np.where(is_known, (with_items @ leading) / roots, 0.0) @ rotation
    return inputs, outputs


@dataclass(frozen=True)
class _Associations:
    """A and B as products with blocks of vectors; neither is ever made."""

    membership: Any  # sparse (sets, items): scipy ships no types
    counts: Floats
    row_sums: Floats
    shared: Any  # sparse (values, items): in how many sets a value of the context comes with an item
    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, dataset: SequenceDataset, vocab_size: int, *, has_context: bool) -> "_Associations":
        membership = _indicators(dataset.input_ids.numpy(), dataset.offsets.numpy(), vocab_size)
        counts = membership.sum(axis=0)
        row_sums = membership.T @ membership.sum(axis=1) - counts
        blocks, means, deviations = [sparse.csr_array((0, vocab_size))], [np.zeros(0)], [np.zeros(0)]
        for tensor in dataset.context.values() if has_context else ():
            columns, mean, deviation = _columns_of(tensor)
            varies = np.flatnonzero(deviation > 0)
            blocks.append(sparse.csr_array(columns.T @ membership)[varies])
            means.append(mean[varies])
            deviations.append(deviation[varies])
        shared = sparse.vstack(blocks, format="csr")
        return cls(membership, counts, row_sums, shared, np.concatenate(means), np.concatenate(deviations))

    def items(self, block: Floats) -> Floats:
        """A times a block: (items, vectors)."""
        scale = _inverse_root(self.row_sums)
        expected = np.sqrt(self.row_sums / self.row_sums.sum())[:, None]
        weighted = scale * block
        together = self.membership.T @ (self.membership @ weighted) - self.counts[:, None] * weighted
        return scale * together - expected * (expected.T @ block)

    def context(self, block: Floats) -> Floats:
        """The transpose of B times a block: (values, vectors)."""
        weighted = _inverse_root(self.counts) * block / np.sqrt(self.membership.shape[0])
        return (self.shared @ weighted - np.outer(self.means, self.counts @ weighted)) / self.deviations[:, None]

    def squared(self, block: Floats) -> Floats:
        """(A A^T + B B^T) times a block: (items, vectors)."""
        values = self.context(block) / self.deviations[:, None]
        with_context = self.shared.T @ values - np.outer(self.counts, self.means @ values)
        scale = _inverse_root(self.counts) / np.sqrt(self.membership.shape[0])
        return self.items(self.items(block)) + scale * with_context


def _by_columns(times: Callable[[Floats], Floats], block: Floats) -> Floats:
    """A product with a block, computed for some of its columns at a time."""
    starts = range(0, block.shape[1], NUM_COLUMNS)
    return np.hstack([times(np.ascontiguousarray(block[:, start : start + NUM_COLUMNS])) for start in starts])


def _columns_of(tensor: Tensor) -> tuple[Any, Floats, Floats]:
    """A feature as (sets, values), a column a value or those of a given vector; their means, deviations."""
    values: Any = tensor.numpy()
    if tensor.is_floating_point():
        return values.astype(np.float64), values.mean(axis=0), values.std(axis=0)
    if values.ndim > 2:  # a history: its different items
        ids = np.where(values[..., TIMES] > 0, values[..., ITEM], NO_ITEM)
        is_real = ids != NO_ITEM
    else:
        ids = values.reshape(len(values), -1)
        is_real = ids != MULTI_PADDING if values.ndim == 2 else np.ones(ids.shape, dtype=np.bool_)
    offsets = np.concatenate([[0], is_real.sum(axis=1).cumsum()])
    columns = _indicators(ids[is_real], offsets, int(ids.max(initial=0)) + 1)
    mean = columns.sum(axis=0) / len(ids)
    return columns, mean, np.sqrt(mean * (1.0 - mean) + (mean > 0) * NUM_DOUBTED / len(ids))


def _indicators(ids: Integers, offsets: Integers, num_ids: int) -> Any:
    """Sparse (rows, ids) of ones: row i has the ids from offsets[i] to offsets[i + 1]."""
    # A copy: what follows sorts and shortens the arrays in place, and they are those of the data set.
    matrix = sparse.csr_array((np.ones(len(ids)), ids, offsets), shape=(len(offsets) - 1, num_ids), copy=True)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def _inverse_root(sums: Floats) -> Floats:
    """1 / sqrt(sums) as a column, zero where a sum is zero."""
    return np.divide(1.0, np.sqrt(sums), out=np.zeros(len(sums)), where=sums > 0)[:, None]
