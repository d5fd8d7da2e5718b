"""Item vectors from which items occur together in the training sets: a start from which no model has to find it.

Deliberately knows no model; `benchmark.building` puts the vectors where they belong. Paper: not there
(docs/decisions/010).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from contextual_bert.data.dataset import SetDataset

Floats = NDArray[np.float64]
# Of the subspace iteration: directions beside those asked for, and rounds. The leading directions are exact with these;
# the last, which are mostly noise, are some mixture of the rest.
NUM_EXTRA, NUM_ROUNDS = 32, 8


def cooccurrence_vectors(dataset: SetDataset, *, vocab_size: int, size: int, seed: int) -> tuple[Floats, Floats]:
    """Correspondence analysis of which items share a set, as a vector an item for the input and one for the output.

    Formula:
        A = D^-1/2 (C - r r^T / n) D^-1/2 = U L U^T;  inputs = U |L|^1/2 R,  outputs = U sign(L) |L|^1/2 R

    Symbols:
        C (items, items) in how many sets two items are together, its diagonal zero; r its row sums, D = diag(r), n
        their sum; U, L the ``size`` eigenvectors with the largest |eigenvalue|; R a random rotation, which spreads them
        over all components. The product outputs inputs^T is the best approximation of A of that rank: positive for
        items found together more often than chance, negative for those that replace each other.

    Shapes: two arrays (vocab_size, size); a row is zero where an item never shares a set.

    Args:
        dataset: the training sets.
        vocab_size: ids are below it.
        size: components of a vector; where there are fewer items, the rest of the subspace is zero.
        seed: of the rotation; the eigenvectors are the same for every seed.

    Reference: Halko, Martinsson and Tropp (2011), Finding structure with randomness, for the subspace iteration, which
        never makes A: each round multiplies by the sparse sets-by-items matrix twice. Greenacre (1984), Theory and
        Applications of Correspondence Analysis; negative eigenvalues are kept here.

    Example:
        >>> sets = SetDataset([3, 4, 3, 5, 3, 4], [0, 2, 4, 6], context={}, example_ids=[0, 1, 2])
        >>> inputs, outputs = cooccurrence_vectors(sets, vocab_size=6, size=2, seed=0)
        >>> bool(inputs[3] @ outputs[4] > inputs[5] @ outputs[4])
        True
    """
    item_ids, offsets = dataset.item_ids.numpy(), dataset.offsets.numpy()
    ones, shape = np.ones(len(item_ids)), (len(offsets) - 1, vocab_size)
    membership = sparse.csr_array((ones, item_ids, offsets), shape=shape)
    membership.sum_duplicates()
    membership.data[:] = 1.0
    counts = membership.sum(axis=0)
    row_sums = membership.T @ membership.sum(axis=1) - counts
    total = row_sums.sum()
    scale = np.divide(1.0, np.sqrt(row_sums), out=np.zeros(vocab_size), where=row_sums > 0)
    num_known = int((row_sums > 0).sum())
    if num_known < 2:
        return np.zeros((vocab_size, size)), np.zeros((vocab_size, size))
    expected = np.sqrt(row_sums / total)[:, None]

    def associations(block: Floats) -> Floats:
        weighted = scale[:, None] * block
        together = membership.T @ (membership @ weighted) - counts[:, None] * weighted
        return scale[:, None] * together - expected * (expected.T @ block)

    rank = min(size, num_known - 1)
    subspace = np.random.default_rng(0).standard_normal((vocab_size, min(rank + NUM_EXTRA, num_known)))
    for _ in range(NUM_ROUNDS):
        subspace, _ = np.linalg.qr(associations(subspace))
    values, coordinates = np.linalg.eigh(subspace.T @ associations(subspace))
    largest = np.argsort(-np.abs(values))[:rank]
    values, vectors = values[largest], subspace @ coordinates[:, largest]
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    scaled = np.where(row_sums[:, None] > 0, vectors * np.sqrt(np.abs(values)), 0.0)
    return scaled @ rotation[:rank], (scaled * np.sign(values)) @ rotation[:rank]
