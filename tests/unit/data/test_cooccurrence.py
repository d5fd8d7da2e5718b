"""The first item vectors: exactly the analysis that the docstring states, and what they say of items."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset, StylistWorld, cooccurrence_vectors
from contextual_bert.data import cooccurrence as module

VOCAB_SIZE = 43


def vectors_of(
    dataset: SequenceDataset, *, size: int = 8, seed: int = 0, has_context: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=size, seed=seed, has_context=has_context)


@pytest.fixture(scope="module")
def dataset() -> SequenceDataset:
    """Forty items, the last of them in no set with others; one set has an item twice."""
    generator = np.random.default_rng(0)
    sets = [generator.choice(np.arange(3, VOCAB_SIZE - 1), size=generator.integers(1, 6)) for _ in range(300)]
    sets += [np.array([5, 5, 6]), np.array([VOCAB_SIZE - 1])]
    offsets, count = np.cumsum([0, *map(len, sets)]), len(sets)
    context = {
        "occasion": torch.from_numpy(generator.integers(0, 3, count)),
        "never varies": torch.ones(count, dtype=torch.int64),
        "brands": torch.from_numpy(np.sort(generator.integers(0, 5, (count, 2)), axis=1)),  # 0 is padding
        "picture": torch.from_numpy(generator.standard_normal((count, 4))).float(),
    }
    return SequenceDataset(np.concatenate(sets), offsets, context=context, example_ids=np.arange(count))


def columns(tensor: Tensor) -> np.ndarray:
    """Z of the docstring before it is standardised, a column a value."""
    if tensor.is_floating_point():
        return tensor.double().numpy()
    ids = tensor.numpy().reshape(len(tensor), -1)
    values = range(1, ids.max() + 1) if tensor.ndim == 2 else range(ids.max() + 1)
    return np.stack([(ids == value).any(axis=1) for value in values], axis=1).astype(float)


def associations_with_context(dataset: SequenceDataset) -> np.ndarray:
    """B of the docstring, by the definition: (items, values)."""
    count = len(dataset)
    membership = np.zeros((count, VOCAB_SIZE))
    for row, (start, end) in enumerate(zip(dataset.offsets[:-1].tolist(), dataset.offsets[1:].tolist(), strict=True)):
        membership[row, dataset.input_ids[start:end]] = 1
    values = np.concatenate([columns(tensor) for tensor in dataset.context.values()], axis=1)
    values = values[:, values.std(axis=0) > 0]
    is_indicator = np.isin(values, [0, 1]).all(axis=0)
    doubt = np.where(is_indicator, module.NUM_DOUBTED / count, 0)
    standardised = (values - values.mean(axis=0)) / np.sqrt(values.var(axis=0) + doubt)
    with np.errstate(divide="ignore"):
        scale = np.nan_to_num(1 / np.sqrt(membership.sum(axis=0)), posinf=0.0)
    return scale[:, None] * (membership.T @ standardised) / np.sqrt(count)


def associations(dataset: SequenceDataset) -> np.ndarray:
    """A of the docstring, by the definition."""
    together = np.zeros((VOCAB_SIZE, VOCAB_SIZE))
    for start, end in zip(dataset.offsets[:-1].tolist(), dataset.offsets[1:].tolist(), strict=True):
        items = sorted(set(dataset.input_ids[start:end].tolist()))
        for one in items:
            for other in items:
                together[one, other] += one != other
    sums = together.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((together - np.outer(sums, sums) / sums.sum()) / np.sqrt(np.outer(sums, sums)))


def test_the_product_is_the_best_approximation(dataset: SequenceDataset) -> None:
    expected = associations(dataset)
    size = 8
    inputs, outputs = vectors_of(dataset, size=size)
    values, vectors = np.linalg.eigh(expected)
    largest = np.argsort(-np.abs(values))[:size]
    best = (vectors[:, largest] * values[largest]) @ vectors[:, largest].T
    np.testing.assert_allclose(outputs @ inputs.T, best, atol=1e-8)
    np.testing.assert_allclose(inputs @ inputs.T, outputs @ outputs.T, atol=1e-8)


def test_the_context_decides_with_the_items_which_directions_count(dataset: SequenceDataset) -> None:
    items, values, size = associations(dataset), associations_with_context(dataset), 8
    directions, strengths, _ = np.linalg.svd(np.concatenate([items, values], axis=1))
    leading = directions[:, :size]
    inputs, outputs = vectors_of(dataset, size=size, has_context=True)
    is_known = items.any(axis=1)
    expected = leading @ leading.T @ items
    np.testing.assert_allclose((outputs @ inputs.T)[is_known], expected[is_known], atol=1e-8)
    expected = (leading * strengths[:size]) @ leading.T
    np.testing.assert_allclose(
        (outputs @ outputs.T)[np.ix_(is_known, is_known)], expected[np.ix_(is_known, is_known)], atol=1e-8
    )
    without, _ = vectors_of(dataset, size=size)
    assert not np.allclose(inputs, without)


def test_items_without_company_and_reserved_ids_are_zero(dataset: SequenceDataset) -> None:
    inputs, outputs = vectors_of(dataset)
    for vectors in (inputs, outputs):
        assert np.flatnonzero(~vectors.any(axis=1)).tolist() == [0, 1, 2, VOCAB_SIZE - 1]


def test_more_components_than_items(dataset: SequenceDataset) -> None:
    inputs, outputs = vectors_of(dataset, size=64)
    assert inputs.shape == (VOCAB_SIZE, 64)
    np.testing.assert_allclose(outputs @ inputs.T, associations(dataset), atol=1e-6)


def test_a_seed_only_rotates(dataset: SequenceDataset) -> None:
    first, second = (vectors_of(dataset, seed=seed) for seed in (0, 1))
    again = vectors_of(dataset)
    assert (first[0] == again[0]).all() and (first[1] == again[1]).all()
    assert not np.allclose(first[0], second[0])
    np.testing.assert_allclose(first[0] @ first[0].T, second[0] @ second[0].T, atol=1e-10)


def test_nothing_together() -> None:
    alone = SequenceDataset([3, 4], [0, 1, 2], context={}, example_ids=[0, 1])
    for vectors in cooccurrence_vectors(alone, vocab_size=5, size=4, seed=0, has_context=True):
        assert vectors.shape == (5, 4) and not vectors.any()


def test_items_that_replace_each_other_push_each_other_away() -> None:
    """In the stylist world an outfit has one item of a category: these never meet."""
    world = StylistWorld.generate(60, seed=0)
    sets = world.sample(3_000, seed=1)["items"].to_pylist()
    ids = {item: number for number, item in enumerate(world.items)}
    offsets = np.cumsum([0, *map(len, sets)])
    flat = [ids[item] for items in sets for item in items]
    dataset = SequenceDataset(flat, offsets, context={}, example_ids=np.arange(len(sets)))
    inputs, outputs = cooccurrence_vectors(dataset, vocab_size=60, size=16, seed=0, has_context=False)
    category = world.articles.category
    is_same = (category[:, None] == category) & ~np.eye(60, dtype=bool)
    product = outputs @ inputs.T
    assert product[is_same].mean() < -0.01 < 0 < product[~is_same].mean()


def test_the_sets_stay_as_they_are() -> None:
    """Items that come twice, and in which order, are for whoever trains on the sets."""
    sets = SequenceDataset([9, 3, 9, 7, 4, 4], [0, 3, 6], context={}, example_ids=[0, 1])
    vectors_of(sets)
    assert sets.input_ids.tolist() == [9, 3, 9, 7, 4, 4]
    assert sets.offsets.tolist() == [0, 3, 6]


@pytest.mark.parametrize("has_context", [False, True])
def test_signs_that_a_processor_chooses_change_nothing(
    dataset: SequenceDataset, has_context: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = vectors_of(dataset, has_context=has_context)
    eigh, qr, signs = np.linalg.eigh, np.linalg.qr, np.random.default_rng(1)

    def turned(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        return vectors * signs.choice([-1.0, 1.0], vectors.shape[1])

    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (eigh(matrix)[0], turned(eigh(matrix)[1])))
    monkeypatch.setattr(np.linalg, "qr", lambda matrix: (turned(qr(matrix)[0]), None))
    for there, before in zip(vectors_of(dataset, has_context=has_context), here, strict=True):
        assert there == pytest.approx(before, abs=1e-7)


def test_directions_of_equal_singular_values_are_the_same_in_any_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = SequenceDataset(list(range(3, 11)) * 3, list(range(0, 25, 2)), context={}, example_ids=range(12))
    here = vectors_of(pairs, size=4)
    qr, generator = np.linalg.qr, np.random.default_rng(1)

    def turned(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], None]:
        size = matrix.shape[1]
        return qr(matrix)[0] @ qr(generator.standard_normal((size, size)))[0], None

    monkeypatch.setattr(np.linalg, "qr", turned)
    for there, before in zip(vectors_of(pairs, size=4), here, strict=True):
        assert there == pytest.approx(before, abs=1e-5)
