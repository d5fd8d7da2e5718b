"""Choose the fields of the context that help to predict an item or label, from the training part, before a training.

A field that says nothing is learned by heart, and costs more than any method gains. Whether a field says something is
estimated in closed form: what the other items of a set do not tell about an item, or a text about its label, is
averaged over the rows of each value, and compared with the same averages of other customers. Paper: not there;
decision 036.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from contextual_bert.context import FeatureLayout
from contextual_bert.context.forms import FORMS
from contextual_bert.data import SequenceDataset, cooccurrence_vectors
from contextual_bert.data.dataset import IGNORED_LABEL
from contextual_bert.errors import ConfigurationError

Floats = NDArray[np.float32]  # accurate enough for means and half of the memory
Places = NDArray[np.int64]

# Below any of these even strong fields are missed, so all fields stay. Of 900 graded texts none of POPQUORN's fields is
# told from chance, though leaving them out costs 0.03 nats; of 2,000 the reader and the age are.
FEWEST_ROWS, FEWEST_ASKED, FEWEST_CLUSTERS = 400, 2_000, 100
LEAST_Z = 3.0  # standard errors that a gain must lie above 0: of two tests, so one field of nothing in 370 does
# A context of sets that tells less than this, in nats of the whole training part and an item, costs more than it gives.
LEAST_GAIN, LEAST_GAIN_AN_ITEM = 130.0, 0.01
ONE_SIDED_Z = 1.645  # standard errors below a gain that lies its lower bound, of 95%
NUM_FOLDS = 5
MOST_ITEMS = 200_000  # or tokens, that are looked at: a choice costs seconds, also on a large table
NUM_DIRECTIONS, NUM_COMMON = 64, 64  # coordinates of an item: of what it occurs with, and of the commonest items
NUM_PAIRED = 16  # coordinates of the item and of the others, whose products say that a field matters beside some items
# Ridge of the regression on the others, in items. A regression that fits a small table closely leaves residuals whose
# means over some sets and over the rest cancel: a field that the others tell well is then lost.
DOUBTED_OTHERS = 5_000.0
DOUBTED = 250.0  # a value seen with fewer items than this is mostly chance, and counts for less
_DOUBTED_ITEM, _SMALLEST, _FURTHEST = 5.0, 1e-6, 3.0


@dataclass(frozen=True)
class FieldGain:
    """Gain of one field on sets, or texts, of other customers, and how far it is from chance.

    Args:
        name: of the field.
        nats: estimated gain in cross-entropy an item, given the other items of the set and no other field; of texts a
            label, given the text.
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
        """Whether the values of the field tell items, or labels, of other customers beyond chance."""
        return self.z > LEAST_Z

    @property
    def lower_bound(self) -> float:
        """Return the nats that the field gains at least, of which 95% can be sure; 0 where it is not useful.

        The gain goes with the square of the agreement between customers, and z with the agreement.
        """
        return self.nats * ((self.z - ONE_SIDED_Z) / self.z) ** 2 if self.is_useful else 0.0


def gain_at_least(gains: Iterable[FieldGain]) -> float:
    """Return the nats an item that the useful fields gain at least; fields that say the same are counted twice.

    Args:
        gains: of the fields.

    Example:
        >>> round(gain_at_least([FieldGain("age", nats=0.02, z=9.0), FieldGain("noise", nats=0.0, z=1.5)]), 4)
        0.0134
    """
    return sum(gain.lower_bound for gain in gains)


def is_too_little(gains: Sequence[FieldGain], num_items: int) -> bool:
    """Return whether a model of sets loses more than it gains by reading these fields, though they tell something.

    Args:
        gains: of the fields.
        num_items: items of the training part.

    Example:
        >>> is_too_little([FieldGain("age", nats=0.002, z=9.0)], 70_000)
        True
        >>> is_too_little([FieldGain("age", nats=0.002, z=9.0)], 200_000)
        False
    """
    nats = gain_at_least(gains)
    return 0 < nats < LEAST_GAIN_AN_ITEM and num_items * nats < LEAST_GAIN


def folds_by_cluster(clusters: NDArray[np.int64], *, num_folds: int = NUM_FOLDS, seed: int = 0) -> list[Places]:
    """Return the places of the rows of each fold; the rows of one cluster stay together.

    Args:
        clusters: number of the customer of each set or text.
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


def can_select(dataset: SequenceDataset, num_clusters: int) -> bool:
    """Return whether there are enough sets or texts, items or labels, and customers to tell a useful field from chance.

    Args:
        dataset: the training sets or texts.
        num_clusters: customers whose they are.
    """
    labels = dataset.labels
    num_asked = len(dataset.input_ids) if labels is None else int((labels != IGNORED_LABEL).sum())
    return len(dataset) >= FEWEST_ROWS and num_asked >= FEWEST_ASKED and num_clusters >= FEWEST_CLUSTERS


def field_gains(
    dataset: SequenceDataset,
    layout: Sequence[FeatureLayout],
    folds: Sequence[Places],
    clusters: NDArray[np.int64],
    *,
    vocab_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[FieldGain]:
    """Estimate what each field of the context helps to predict an item beside the others of its set, or a label beside
    its text.

    Formula:
        e_ij = y(w_ij) - W x_ij;  F_i = sum_j [e_ij, e_ij (x) u_ij];
        B_t = sum_i z_it F_i / (sum_i n_i z_it^2 + kappa), over the rows that are fitted to;
        gain = c^2 / (2 q n),  c = sum_i <F_i, z_i B>,  q = sum_i n_i |z_i B|^2, over the n items that are asked about

    Symbols:
        w_ij item j of set i, of n_i items, or a label: a text has one, or one for each of its words; y(w) coordinates
        of an item or label, of mean 0 and covariance 1 over all of them; x_ij the mean of y over the other items; of a
        text that over its tokens, before which the tag of a word has that of the word; W a ridge regression; u_ij the
        first part of x_ij with covariance 1; (x) the outer product of the leading coordinates; z_i what the field's
        value adds up in a linear model (a 1 for a category, the components of a vector), less its mean; kappa
        ``DOUBTED``.

    e and e (x) u have a test each, and the larger z counts. A field that matters only beside certain items or words
    leaves the mean of e as it is, but not that of e (x) u. No value of a field enters e or u. So the z of a field that
    is independent of the rows has mean 0 and variance 1 at most, whatever the coordinates are. Coordinates are scaled
    by the shares of the items or labels. Half a squared distance of two means is then a Kullback-Leibler divergence to
    second order, so the gain of a small effect is in nats.

    Args:
        dataset: the training sets or texts. Without labels each item, or token, is asked about.
        layout: the fields, in any order.
        folds: places of the rows that are asked about, after fitting to all others: of ``folds_by_cluster``, or the
            later half alone.
        clusters: number of the customer of each row; standard errors are over customers.
        vocab_size: ids of items or tokens are below it.
        progress: called with (parts done, parts in all).

    Raises:
        ConfigurationError: a fold has no row to fit to, or none to ask about.

    Reference: Greenacre (1984), Theory and Applications of Correspondence Analysis, for the coordinates.
    """
    if any(not 0 < len(fold) < len(dataset) for fold in folds):
        raise ConfigurationError("A fold has no row on one side. Give more rows, or more customers.")

    def told(done: int) -> None:
        if progress is not None:
            progress(done, 1 + len(layout))

    rows = _sample(dataset.sizes, MOST_ITEMS)
    rows, residuals = _residuals(dataset, rows, _coordinates(dataset, vocab_size))
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
    """What the other items, or the text, do not tell, added up over each row, and the number of items or labels there.

    Shapes: sums (rows, coordinates and products); sizes (rows,). The first ``num_coordinates`` are of an item or label.
    """

    sums: Floats
    sizes: Floats
    num_coordinates: int


def _sample(sizes: NDArray[np.int64], most_items: int) -> NDArray[np.int64]:
    """Return the places of as many rows, drawn at random, as have this number of items, but of the fewest at least."""
    order = np.random.default_rng(0).permutation(len(sizes))
    num_rows = int(np.searchsorted(np.cumsum(sizes[order]), most_items, side="right"))
    return np.sort(order[: max(FEWEST_ROWS, num_rows)])


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
    vectors = vectors / np.sqrt(counts + _DOUBTED_ITEM)[:, None]
    return _standardised(np.concatenate([vectors, indicators], axis=1), shares)


def _standardised(raw: NDArray[np.float64], shares: NDArray[np.float64]) -> Floats:
    """Return columns that span the same, with mean 0 and covariance 1 under these shares; rows of share 0 are 0."""
    raw = np.sqrt(shares)[:, None] * (raw - shares @ raw)
    lengths = np.linalg.norm(raw, axis=0)
    basis, upper = np.linalg.qr(raw[:, lengths > 1e-12] / lengths[lengths > 1e-12])
    basis = basis[:, np.abs(np.diag(upper)) > 1e-6]  # a column that others make up adds none
    scaled = basis / np.sqrt(np.maximum(shares, 1e-300))[:, None] * (shares > 0)[:, None]
    return scaled.astype(np.float32)


def _residuals(
    dataset: SequenceDataset, rows: NDArray[np.int64], coordinates: Floats
) -> tuple[NDArray[np.int64], _Residuals]:
    """Return those of these rows that have an item or a label to ask about, and what the rest does not tell of it."""
    sizes = dataset.sizes[rows]
    of_row = np.repeat(np.arange(len(rows)), sizes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(of_row)) - starts[of_row] + dataset.offsets.numpy()[rows][of_row]
    own = coordinates[dataset.input_ids.numpy()[places]]
    sums = np.add.reduceat(own, starts, axis=0)
    if dataset.labels is None:
        others = (sums[of_row] - own) / np.maximum(sizes - 1, 1)[of_row, None].astype(np.float32)
        return rows, _summed(own, others, sizes)
    texts = (sums / sizes[:, None]).astype(np.float32)
    labels = dataset.labels.numpy()[places if dataset.has_label_per_token else rows]
    is_asked = labels != IGNORED_LABEL
    told = np.concatenate([own, texts[of_row]], axis=1) if dataset.has_label_per_token else texts
    asked_of = (of_row if dataset.has_label_per_token else np.arange(len(rows)))[is_asked]
    kept, num_labels = np.unique(asked_of, return_counts=True)
    targets = _label_coordinates(labels[is_asked])
    return rows[kept], _summed(targets, told[is_asked], num_labels)


def _label_coordinates(labels: NDArray[np.int64]) -> Floats:
    """Return coordinates of the label of each row, with mean 0 and covariance 1 over these rows."""
    seen, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return _standardised(np.eye(len(seen)), counts / counts.sum())[places]


def _summed(own: Floats, others: Floats, sizes: NDArray[np.int64]) -> _Residuals:
    """Return what ``others`` do not tell of ``own``, added up over rows of these numbers of items or labels."""
    starts = np.cumsum(sizes) - sizes
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
