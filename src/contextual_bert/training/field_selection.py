"""Choose the fields of the context that help to predict an item, from the training part, before a training.

A field that says nothing is learned by heart, and costs more than any method gains. Whether a field says something is
estimated in closed form: what the other items of a set do not tell about an item is averaged over the sets of each
value, and compared with the same averages of other customers. Paper: not there; decision 036.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from contextual_bert.context import FeatureLayout
from contextual_bert.context.forms import FORMS
from contextual_bert.data import SequenceDataset, cooccurrence_vectors
from contextual_bert.errors import ConfigurationError

Floats = NDArray[np.float32]  # accurate enough for means and half of the memory
Places = NDArray[np.int64]

FEWEST_SETS, FEWEST_CLUSTERS = 400, 100  # below either even strong fields are missed: all fields stay
LEAST_Z = 3.0  # standard errors that a gain must lie above 0: of two tests, so one field of nothing in 370 does
NUM_FOLDS = 5
MOST_ITEMS = 200_000  # that are looked at: a choice costs seconds, also on a large table
NUM_DIRECTIONS, NUM_COMMON = 64, 64  # coordinates of an item: of what it occurs with, and of the commonest items
NUM_PAIRED = 16  # coordinates of the item and of the others, whose products say that a field matters beside some items
# Ridge of the regression on the others, in items. A regression that fits a small table closely leaves residuals whose
# means over some sets and over the rest cancel: a field that the others tell well is then lost.
DOUBTED_OTHERS = 5_000.0
DOUBTED = 250.0  # a value seen with fewer items than this is mostly chance, and counts for less
_DOUBTED_ITEM, _SMALLEST, _FURTHEST = 5.0, 1e-6, 3.0


@dataclass(frozen=True)
class FieldGain:
    """Gain of one field on sets of other customers, and how far it is from chance.

    Args:
        name: of the field.
        nats: estimated gain in cross-entropy an item, given the other items of the set and no other field.
        z: standard errors, over customers, that the agreement between customers lies above 0.

    Example:
        >>> FieldGain("age", nats=0.02, z=9.0).is_useful
        True
        >>> FieldGain("noise", nats=0.0001, z=1.5).is_useful
        False
    """

    name: str
    nats: float
    z: float

    @property
    def is_useful(self) -> bool:
        """Whether the values of the field tell items of other customers beyond chance."""
        return self.z > LEAST_Z


def folds_by_cluster(clusters: NDArray[np.int64], *, num_folds: int = NUM_FOLDS, seed: int = 0) -> list[Places]:
    """Return the places of the sets of each fold; the sets of one cluster stay together.

    Args:
        clusters: number of the customer of each set.
        num_folds: how many.
        seed: of the draw.

    Example:
        >>> folds = folds_by_cluster(np.array([0, 0, 1, 2]), num_folds=2)
        >>> sorted(np.concatenate(folds))
        [np.int64(0), np.int64(1), np.int64(2), np.int64(3)]
    """
    numbers, owners = np.unique(clusters, return_inverse=True)
    fold_of = np.random.default_rng(seed).permutation(len(numbers))[owners] % num_folds
    return [np.flatnonzero(fold_of == number) for number in range(num_folds)]


def can_select(num_sets: int, num_clusters: int) -> bool:
    """Return whether there are enough sets, and customers, to tell a useful field from chance."""
    return num_sets >= FEWEST_SETS and num_clusters >= FEWEST_CLUSTERS


def field_gains(
    dataset: SequenceDataset,
    layout: Sequence[FeatureLayout],
    folds: Sequence[Places],
    clusters: NDArray[np.int64],
    *,
    vocab_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[FieldGain]:
    """Estimate what each field of the context helps to predict an item beside the others of its set.

    Formula:
        e_ij = y(w_ij) - W mean_k(y(w_ik), k != j);  F_i = sum_j [e_ij, e_ij (x) u_ij];
        B_t = sum_i z_it F_i / (sum_i n_i z_it^2 + kappa), over the sets that are fitted to;
        gain = c^2 / (2 q n),  c = sum_i <F_i, z_i B>,  q = sum_i n_i |z_i B|^2, over the n items that are asked about

    Symbols:
        w_ij item j of set i, of n_i items; y(w) coordinates of an item, of mean 0 and covariance 1 over all items; W a
        ridge regression on the mean of the other items; u_ij that mean with covariance 1; (x) the outer product of the
        leading coordinates; z_i what the field's value adds up in a linear model (a 1 for a category, the components of
        a vector), less its mean; kappa ``DOUBTED``.

    e and e (x) u have a test each, and the larger z counts. A field that matters only beside certain items leaves the
    mean of e as it is, but not that of e (x) u. No value of a field enters e or u. So the z of a field that is
    independent of the sets has mean 0 and variance 1 at most, whatever the coordinates are. Coordinates are scaled by
    the items' shares. Half a squared distance of two means is then a Kullback-Leibler divergence to second order, so
    the gain of a small effect is in nats.

    Args:
        dataset: the training sets.
        layout: the fields, in any order.
        folds: places of the sets that are asked about, after fitting to all others: of ``folds_by_cluster``, or the
            later half alone.
        clusters: number of the customer of each set; standard errors are over customers.
        vocab_size: ids are below it.
        progress: called with (parts done, parts in all).

    Raises:
        ConfigurationError: a fold has no set to fit to, or none to ask about.

    Reference: Greenacre (1984), Theory and Applications of Correspondence Analysis, for the coordinates.
    """
    if any(not 0 < len(fold) < len(dataset) for fold in folds):
        raise ConfigurationError("A fold has no set on one side. Give more sets, or more customers.")

    def told(done: int) -> None:
        if progress is not None:
            progress(done, 1 + len(layout))

    rows = _sample(dataset.sizes, MOST_ITEMS)
    residuals = _residuals(dataset, rows, _coordinates(dataset, vocab_size))
    inside = [np.flatnonzero(np.isin(rows, fold)) for fold in folds]
    owners = np.unique(clusters[rows], return_inverse=True)[1]
    told(1)
    gains: list[FieldGain] = []
    for number, shape in enumerate(layout):
        terms = _terms(shape, dataset.context[shape.name][torch.from_numpy(rows)])
        gains.append(_gain(shape.name, terms, residuals, inside, owners))
        told(number + 2)
    return gains


class _Residuals(NamedTuple):
    """What the other items do not tell, added up over each set, and the number of items of each set.

    Shapes: sums (sets, coordinates and products); sizes (sets,). The first ``num_coordinates`` are of an item.
    """

    sums: Floats
    sizes: Floats
    num_coordinates: int


def _sample(sizes: NDArray[np.int64], most_items: int) -> NDArray[np.int64]:
    """Return the places of as many sets, drawn at random, as have this number of items, but of the fewest at least."""
    order = np.random.default_rng(0).permutation(len(sizes))
    num_sets = int(np.searchsorted(np.cumsum(sizes[order]), most_items, side="right"))
    return np.sort(order[: max(FEWEST_SETS, num_sets)])


def _coordinates(dataset: SequenceDataset, vocab_size: int) -> Floats:
    """Return coordinates of each item, with mean 0 and covariance 1 over the items of all sets: (vocab_size, size)."""
    counts = np.bincount(dataset.input_ids.numpy(), minlength=vocab_size).astype(np.float64)
    shares = counts / counts.sum()
    num_real = int((counts > 0).sum())
    vectors = cooccurrence_vectors(
        dataset, vocab_size=vocab_size, size=min(NUM_DIRECTIONS, num_real), seed=0, has_context=False
    )[1]
    common = np.argsort(-counts, kind="stable")[: min(NUM_COMMON, num_real)]
    indicators = np.zeros((vocab_size, len(common)))
    indicators[common, np.arange(len(common))] = 1.0
    raw = np.concatenate([vectors / np.sqrt(counts + _DOUBTED_ITEM)[:, None], indicators], axis=1)
    raw = np.sqrt(shares)[:, None] * (raw - shares @ raw)
    lengths = np.linalg.norm(raw, axis=0)
    basis, upper = np.linalg.qr(raw[:, lengths > 1e-12] / lengths[lengths > 1e-12])
    basis = basis[:, np.abs(np.diag(upper)) > 1e-6]  # a column that others make up adds none
    scaled = basis / np.sqrt(np.maximum(shares, 1e-300))[:, None] * (shares > 0)[:, None]
    return scaled.astype(np.float32)


def _residuals(dataset: SequenceDataset, rows: NDArray[np.int64], coordinates: Floats) -> _Residuals:
    """Return what the others of a set do not tell of its items, of the sets in these rows."""
    sizes = dataset.sizes[rows]
    of_set = np.repeat(np.arange(len(rows)), sizes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(of_set)) - starts[of_set] + dataset.offsets.numpy()[rows][of_set]
    own = coordinates[dataset.input_ids.numpy()[places]]
    num_others = np.maximum(sizes - 1, 1)[of_set, None].astype(np.float32)
    others = (np.add.reduceat(own, starts, axis=0)[of_set] - own) / num_others
    gram = others.T @ others
    gram[np.diag_indices_from(gram)] += max(DOUBTED_OTHERS / len(own) * np.trace(gram) / max(len(gram), 1), _SMALLEST)
    told = others @ np.linalg.solve(gram, others.T @ own)
    left = (own - told).astype(np.float32, copy=False)
    beside = _clipped(_whitened(others[:, :NUM_PAIRED]))
    leading = _clipped(left[:, :NUM_PAIRED])
    paired = [np.add.reduceat(leading * beside[:, [column]], starts, axis=0) for column in range(beside.shape[1])]
    sums = np.concatenate([np.add.reduceat(left, starts, axis=0), *paired], axis=1)
    weights = sizes.astype(np.float32)
    return _Residuals(sums - np.outer(weights, sums.sum(axis=0) / weights.sum()), weights, left.shape[1])


def _whitened(values: Floats) -> Floats:
    eigenvalues, directions = np.linalg.eigh(values.T @ values / len(values))
    scales = 1 / np.sqrt(np.maximum(eigenvalues, _SMALLEST * max(eigenvalues.max(initial=0.0), _SMALLEST)))
    return (values @ (directions * scales) @ directions.T).astype(np.float32, copy=False)


def _clipped(values: Floats) -> Floats:
    """Return the values with the far ones nearer: a product of two rare items would outweigh all others."""
    return np.clip(values, -_FURTHEST, _FURTHEST)


def _terms(shape: FeatureLayout, values: torch.Tensor) -> sparse.csr_matrix:
    """Return what the values of a field add up in a linear model: (sets, terms)."""
    form = FORMS[shape.form]
    places, amounts = form.terms(shape, values)
    rows = np.repeat(np.arange(len(places)), places.shape[1])
    shape_of_matrix = (len(places), form.num_terms(shape))
    return sparse.csr_matrix((amounts.double().numpy().ravel(), (rows, places.numpy().ravel())), shape=shape_of_matrix)


def _gain(
    name: str, terms: sparse.csr_matrix, residuals: _Residuals, folds: Sequence[Places], owners: NDArray[np.int64]
) -> FieldGain:
    """Return the gain of one field, whose terms these are."""
    # Two sets of different folds are compared twice, once from each side: the variance of the sum is twice the sum of
    # the variances.
    times_compared = 2.0 if len(folds) > 1 else 1.0
    sums, sizes = residuals.sums, residuals.sizes
    moments, totals = terms.T @ sums, sums.sum(axis=0)
    counts, squares = terms.T @ sizes, terms.multiply(terms).T @ sizes
    tests = [slice(residuals.num_coordinates), slice(residuals.num_coordinates, sums.shape[1])]
    agreement, variance, square, num_items = np.zeros(2), np.zeros(2), np.zeros(2), 0.0
    for fold in folds:
        own, own_sums, own_sizes = terms[fold], sums[fold], sizes[fold]
        num_fitted = sizes.sum() - own_sizes.sum()
        mean = (counts - own.T @ own_sizes) / num_fitted
        fitted = moments - own.T @ own_sums - np.outer(mean, totals - own_sums.sum(axis=0))
        spread = squares - own.multiply(own).T @ own_sizes - num_fitted * mean**2
        effects = fitted / (np.maximum(spread, 0.0) + DOUBTED)[:, None]
        predicted = own @ effects - mean @ effects
        num_items += float(own_sizes.sum())
        for number, test in enumerate(tests):
            products = (own_sums[:, test] * predicted[:, test]).sum(axis=1, dtype=np.float64)
            centred = products - own_sizes * (products.sum() / own_sizes.sum())
            agreement[number] += products.sum()
            variance[number] += (np.bincount(owners[fold], weights=centred) ** 2).sum()
            square[number] += (own_sizes * (predicted[:, test] ** 2).sum(axis=1)).sum()
    z = agreement / np.sqrt(np.maximum(times_compared * variance, 1e-30))
    nats = np.maximum(agreement, 0.0) ** 2 / np.maximum(2 * square * num_items, 1e-30)
    return FieldGain(name, nats=float(nats[z > LEAST_Z].sum()), z=float(z.max()))
