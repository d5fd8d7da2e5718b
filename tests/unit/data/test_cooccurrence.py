"""The first item vectors: exactly the analysis that the docstring states, and what they say of items."""

import numpy as np
import pytest

from contextual_bert.data import SetDataset, StylistWorld, cooccurrence_vectors

VOCAB_SIZE = 43


@pytest.fixture(scope="module")
def dataset() -> SetDataset:
    """Forty items, the last of them in no set with others; one set has an item twice."""
    generator = np.random.default_rng(0)
    sets = [generator.choice(np.arange(3, VOCAB_SIZE - 1), size=generator.integers(1, 6)) for _ in range(300)]
    sets += [np.array([5, 5, 6]), np.array([VOCAB_SIZE - 1])]
    offsets = np.cumsum([0, *map(len, sets)])
    return SetDataset(np.concatenate(sets), offsets, context={}, example_ids=np.arange(len(sets)))


def associations(dataset: SetDataset) -> np.ndarray:
    """A of the docstring, by the definition."""
    together = np.zeros((VOCAB_SIZE, VOCAB_SIZE))
    for start, end in zip(dataset.offsets[:-1].tolist(), dataset.offsets[1:].tolist(), strict=True):
        items = sorted(set(dataset.item_ids[start:end].tolist()))
        for one in items:
            for other in items:
                together[one, other] += one != other
    sums = together.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((together - np.outer(sums, sums) / sums.sum()) / np.sqrt(np.outer(sums, sums)))


def test_the_product_is_the_best_approximation(dataset: SetDataset) -> None:
    expected = associations(dataset)
    size = 8
    inputs, outputs = cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=size, seed=0)
    values, vectors = np.linalg.eigh(expected)
    largest = np.argsort(-np.abs(values))[:size]
    best = (vectors[:, largest] * values[largest]) @ vectors[:, largest].T
    np.testing.assert_allclose(outputs @ inputs.T, best, atol=1e-10)
    np.testing.assert_allclose(inputs @ inputs.T, outputs @ outputs.T, atol=1e-10)


def test_items_without_company_and_reserved_ids_are_zero(dataset: SetDataset) -> None:
    inputs, outputs = cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=8, seed=0)
    for vectors in (inputs, outputs):
        assert np.flatnonzero(~vectors.any(axis=1)).tolist() == [0, 1, 2, VOCAB_SIZE - 1]


def test_more_components_than_items(dataset: SetDataset) -> None:
    inputs, outputs = cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=64, seed=0)
    assert inputs.shape == (VOCAB_SIZE, 64)
    np.testing.assert_allclose(outputs @ inputs.T, associations(dataset), atol=1e-6)


def test_a_seed_only_rotates(dataset: SetDataset) -> None:
    first, second = (cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=8, seed=seed) for seed in (0, 1))
    again = cooccurrence_vectors(dataset, vocab_size=VOCAB_SIZE, size=8, seed=0)
    assert (first[0] == again[0]).all() and (first[1] == again[1]).all()
    assert not np.allclose(first[0], second[0])
    np.testing.assert_allclose(first[0] @ first[0].T, second[0] @ second[0].T, atol=1e-10)


def test_nothing_together() -> None:
    alone = SetDataset([3, 4], [0, 1, 2], context={}, example_ids=[0, 1])
    for vectors in cooccurrence_vectors(alone, vocab_size=5, size=4, seed=0):
        assert vectors.shape == (5, 4) and not vectors.any()


def test_items_that_replace_each_other_push_each_other_away() -> None:
    """In the stylist world an outfit has one item of a category: these never meet."""
    world = StylistWorld.generate(60, seed=0)
    sets = world.sample(3_000, seed=1)["items"].to_pylist()
    ids = {item: number for number, item in enumerate(world.items)}
    offsets = np.cumsum([0, *map(len, sets)])
    flat = [ids[item] for items in sets for item in items]
    dataset = SetDataset(flat, offsets, context={}, example_ids=np.arange(len(sets)))
    inputs, outputs = cooccurrence_vectors(dataset, vocab_size=60, size=16, seed=0)
    category = world.articles.category
    is_same = (category[:, None] == category) & ~np.eye(60, dtype=bool)
    product = outputs @ inputs.T
    assert product[is_same].mean() < -0.01 < 0 < product[~is_same].mean()
