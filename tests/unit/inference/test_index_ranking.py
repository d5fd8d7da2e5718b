"""Ranking with an index: the exact best items, and probabilities whose stated error holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.index_ranking import FEW, NUM_SAMPLED, AddedScores, IndexRanker
from contextual_bert.inference.item_index import INDEX_FILE, INDEX_RECORD_FILE, ItemIndex
from contextual_bert.inference.output_rows import OutputRows

NUM, SIZE, FIRST = 40_000, 16, 3


def draw(num: int, *, seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(200, SIZE))
    drawn = centres[generator.integers(200, size=num)] + 0.7 * generator.normal(size=(num, SIZE))
    return drawn.astype(np.float32), generator.normal(size=num).astype(np.float32)


ROWS = OutputRows(*draw(NUM, seed=1))
STATES = 0.3 * draw(40, seed=2)[0]


@pytest.fixture(scope="module")
def index() -> ItemIndex:
    return ItemIndex.build(ROWS, first_id=FIRST, states=STATES, files={})


def exact(
    logits: NDArray[np.float64], permitted: NDArray[np.bool_], is_counted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """The best ids in order, the probability of each id among the permitted, and what all others have."""
    shares = np.exp(logits - logits.max())
    inside = shares[permitted].sum()
    order = np.flatnonzero(permitted)[np.argsort(-logits[permitted], kind="stable")]
    return order, shares / inside, 1 - inside / shares[is_counted].sum()


def masks() -> dict[str, NDArray[np.bool_]]:
    generator = np.random.default_rng(3)
    items = np.arange(NUM) >= FIRST
    # As a category would: all of one kind, most of them far from what the model asks for.
    kind = ROWS.weight[:, 0] > 0.4
    few = np.zeros(NUM, np.bool_)
    few[[7, 11, 30_000]] = True
    all_but = items.copy()
    all_but[[50, 51]] = False
    return {
        "all": items,
        "all but two": all_but,
        "half": items & (generator.random(NUM) < 0.5),
        "one of a hundred": items & (generator.random(NUM) < 0.01),
        "of a kind": items & kind,
        "three": few,
    }


@pytest.mark.parametrize("name", masks())
def test_what_an_index_ranks_is_the_exact_order_with_an_error_that_holds(index: ItemIndex, name: str) -> None:
    permitted, items = masks()[name], np.arange(NUM) >= FIRST
    ranker, hits, deviations, errors = IndexRanker(index, ROWS), 0, [], []
    top_k = min(10, int(permitted.sum()))
    for state in STATES:
        logits = (ROWS.weight @ state + ROWS.bias).astype(np.float64)
        order, probabilities, excluded = exact(logits, permitted, items)
        found = ranker.rank(state, permitted, top_k=top_k)
        assert permitted[found.ids].all() and (np.diff(logits[found.ids]) <= 1e-6).all()
        hits += len(np.intersect1d(found.ids, order[:top_k]))
        ratio = found.probabilities / probabilities[found.ids]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)  # one denominator for all
        deviations.append(ratio[0] - 1)
        errors.append(found.error)
        assert found.excluded == pytest.approx(excluded, abs=0.05)
    assert hits / (top_k * len(STATES)) >= 0.99
    if permitted.sum() <= FEW:
        assert errors == [0.0] * len(STATES)
        np.testing.assert_allclose(deviations, 0, atol=1e-4)
    else:
        standardised = np.abs(deviations) / errors
        assert 0 < np.mean(errors) < 0.05
        assert np.mean(standardised < 1.96) >= 0.85 and np.mean(standardised) < 1.5


def test_the_whole_sample_is_exact() -> None:
    """Of fewer items than are sampled, nothing is estimated."""
    rows = OutputRows(ROWS.weight[: NUM_SAMPLED // 2], ROWS.bias[: NUM_SAMPLED // 2])
    index = ItemIndex.build(rows, first_id=FIRST, states=STATES, files={})
    permitted = np.arange(len(rows.bias)) >= FIRST
    found = IndexRanker(index, rows).rank(STATES[0], permitted, top_k=3)
    logits = (rows.weight @ STATES[0] + rows.bias).astype(np.float64)
    order, probabilities, _ = exact(logits, permitted, permitted)
    assert found.error == 0 and found.ids.tolist() == order[:3].tolist()
    np.testing.assert_allclose(found.probabilities, probabilities[order[:3]], rtol=1e-5)


def test_what_is_added_to_logits_counts_wherever_the_item_is(index: ItemIndex) -> None:
    """An item that no list near the state holds is proposed first, as bought before."""
    permitted = np.arange(NUM) >= FIRST
    logits = ROWS.weight @ STATES[0] + ROWS.bias
    worst = int(np.argmin(np.where(permitted, logits, np.inf)))
    lift = float(logits.max() - logits[worst]) / 2 + 1
    added = AddedScores.summed(np.array([worst, 1, worst]), np.array([lift, 9.0, lift], np.float32))
    found = IndexRanker(index, ROWS).rank(STATES[0], permitted, top_k=2, added=added)
    assert found.ids[0] == worst and found.ids[1] == int(np.argmax(np.where(permitted, logits, -np.inf)))
    changed = logits.astype(np.float64)
    changed[worst] += 2 * lift
    changed[:FIRST] = -np.inf
    share = np.exp(changed[worst] - changed.max()) / np.exp(changed - changed.max()).sum()
    assert found.probabilities[0] == pytest.approx(share, rel=5 * found.error)


def test_items_that_came_after_the_index_are_ranked_too(index: ItemIndex) -> None:
    state = STATES[0]
    more = OutputRows(np.concatenate([ROWS.weight, 9 * state[None]]), np.append(ROWS.bias, np.float32(0)))
    found = IndexRanker(index, more).rank(state, np.arange(NUM + 1) >= FIRST, top_k=2)
    assert found.ids[0] == NUM


def test_what_no_probability_is_known_of_counts_nowhere(index: ItemIndex) -> None:
    permitted = np.arange(NUM) >= FIRST
    logits = (ROWS.weight @ STATES[0] + ROWS.bias).astype(np.float64)
    logits[:FIRST] = -np.inf
    best = int(np.argmax(logits))
    permitted[best] = False
    counted = permitted.copy()
    ranker = IndexRanker(index, ROWS)
    apart = ranker.rank(STATES[0], permitted, top_k=1, left_out=np.array([0, 1, best]))
    assert apart.excluded == pytest.approx(exact(logits, permitted, counted)[2], abs=1e-6) == 0
    counted[best] = True
    outside = ranker.rank(STATES[0], permitted, top_k=1).excluded
    assert outside == pytest.approx(exact(logits, permitted, counted)[2], rel=0.2) and outside > 0.01


def test_nothing_permitted_gives_nothing(index: ItemIndex) -> None:
    found = IndexRanker(index, ROWS).rank(STATES[0], np.zeros(NUM, np.bool_), top_k=3)
    assert not len(found.ids) and found.excluded == 1


def test_an_index_is_read_as_it_was_written(index: ItemIndex, tmp_path: Path) -> None:
    index.save(tmp_path)
    read = ItemIndex.load(tmp_path)
    assert read.record == index.record
    assert sorted(read.search(STATES[3])) == sorted(index.search(STATES[3]))
    mask = masks()["of a kind"]
    assert sorted(read.search(STATES[3], mask)) == sorted(index.search(STATES[3], mask))


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        (INDEX_FILE, lambda path: path.unlink(), "is missing or damaged"),
        (INDEX_FILE, lambda path: path.write_bytes(path.read_bytes()[:500]), "is missing or damaged"),
        (INDEX_RECORD_FILE, lambda path: path.write_text("{}"), "is damaged: files"),
        (INDEX_RECORD_FILE, lambda path: path.write_text(path.read_text().replace("39997", "7")), "holds 39,997 items"),
    ],
)
def test_a_damaged_index_is_refused(index: ItemIndex, tmp_path: Path, name: str, change: Any, expected: str) -> None:
    index.save(tmp_path)
    change(tmp_path / name)
    with pytest.raises(RunDirectoryError, match=expected):
        ItemIndex.load(tmp_path)
