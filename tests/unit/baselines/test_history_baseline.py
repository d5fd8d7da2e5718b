"""What all baselines of histories share: settings, probabilities, and ranks that these leave as they are."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from contextual_bert.baselines import TIFUKNN, UPCF, GPTopFreq, GTopFreq, HistoryBaseline, PTopFreq
from contextual_bert.baselines.purchases import Purchases
from contextual_bert.context import History
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.set_ranks import SetRanks
from tests.unit.baselines.histories import LAYOUT, encoded, observed

EVERY = (GTopFreq, PTopFreq, GPTopFreq, TIFUKNN, UPCF)
NUM_ITEMS = 30


def drawn(seed: int, num_rows: int = 60) -> Any:
    """Customers who buy again what they bought, and what is popular."""
    generator = np.random.default_rng(seed)
    shares = 1 / np.arange(1, NUM_ITEMS + 1)
    histories: Any = []
    sets = []
    for _ in range(num_rows):
        usual = generator.choice(NUM_ITEMS, 4, replace=False)
        baskets = []
        for _ in range(int(generator.integers(1, 9))):
            popular = generator.choice(NUM_ITEMS, 2, replace=False, p=shares / shares.sum())
            baskets.append(sorted({int(item) + 3 for item in (*generator.choice(usual, 2), *popular)}))
        histories.append(baskets[:-1])
        sets.append(baskets[-1])
    return observed(histories, sets)


@pytest.fixture(scope="module", params=EVERY, ids=lambda kind: kind.__name__)
def fitted(request: pytest.FixtureRequest) -> HistoryBaseline:
    model = request.param(NUM_ITEMS + 3, layout=LAYOUT)
    model.fit(drawn(0), drawn(1))
    return model


def test_probabilities_are_over_all_items_and_keep_the_order(fitted: HistoryBaseline) -> None:
    history = drawn(2).context["before"]
    logits = fitted.logits(history)
    assert logits.dtype == torch.float64
    assert torch.isneginf(logits[:, :3]).all()
    preferences = fitted.preferences(Purchases.of(history, num_reserved=3))[:, 3:]
    better = preferences[:, None, :] > preferences[:, :, None]
    assert np.array_equal(better, (logits[:, None, 3:] > logits[:, 3:, None]).numpy())


def test_scores_are_those_of_the_logits_whatever_the_set_shows(fitted: HistoryBaseline) -> None:
    asked = drawn(2, num_rows=5)
    labels = torch.full((5, 6), -100)
    for row in range(5):
        own = asked.targets[asked.rows == row]
        labels[row, : len(own)] = own
    found = fitted.score_masked(torch.ones(5, 1, dtype=torch.int64), context=asked.context, labels=labels)
    logits = fitted.logits(asked.context["before"])[asked.rows]
    own = logits.gather(1, asked.targets[:, None])
    torch.testing.assert_close(found.log_probability, (own.squeeze(1) - logits.logsumexp(1)))
    assert torch.equal(found.num_better, (logits > own).sum(1))
    assert torch.equal(found.num_tied, (logits == own).sum(1))


def test_the_fitted_probabilities_are_better_than_equal_ones(fitted: HistoryBaseline) -> None:
    asked = drawn(1)
    log_probabilities = fitted.logits(asked.context["before"]).log_softmax(1)[asked.rows, asked.targets]
    assert -float(log_probabilities.mean()) < np.log(NUM_ITEMS) - 0.1


def test_the_settings_are_of_the_grid_and_reported(fitted: HistoryBaseline) -> None:
    again = type(fitted)(NUM_ITEMS + 3, layout=LAYOUT)
    settings = again.fit(drawn(0), drawn(1))
    assert settings == {**fitted.settings, "prior": fitted.prior, "exponent": fitted.exponent}
    for name, values in fitted.choices.items():
        assert settings[name] in (*values, fitted.usual[name])


def test_without_validation_a_tenth_of_the_rows_chooses() -> None:
    model = PTopFreq(NUM_ITEMS + 3, layout=LAYOUT)
    model.fit(drawn(0))
    assert model.prior < 1.0
    few = TIFUKNN(NUM_ITEMS + 3, layout=LAYOUT)
    few.fit(drawn(0, num_rows=5))
    assert few.settings == few.usual


def test_a_setting_is_taken_where_it_ranks_better() -> None:
    # Only the training sets have item 4.
    histories: Any = [[[3]]] * 20
    model = GTopFreq(6, layout=LAYOUT)
    settings = model.fit(observed(histories, [[4]] * 20), observed(histories, [[3]] * 5))
    assert settings["counts_sets"] is False
    settings = model.fit(observed(histories, [[4]] * 20), observed(histories, [[4]] * 5))
    assert settings["counts_sets"] is True


def test_who_has_no_history_gets_what_all_buy() -> None:
    training = drawn(0)
    for kind in (GTopFreq, GPTopFreq, TIFUKNN, UPCF):
        model = kind(NUM_ITEMS + 3, layout=LAYOUT)
        model.fit(training, drawn(1))
        order = model.logits(encoded([None, [], [[2]]]))[:, 3:].argsort(dim=1, descending=True, stable=True)
        expected = torch.from_numpy(model.popularity[3:]).argsort(descending=True, stable=True)
        assert (order == expected).all(), kind


def test_without_a_history_there_is_no_such_baseline() -> None:
    with pytest.raises(ConfigurationError, match="TIFUKNN counts one history, and no feature of the context is one"):
        TIFUKNN(9, layout=LAYOUT[:1])
    with pytest.raises(ConfigurationError, match=r"there are 2 \(before, then\)"):
        UPCF(9, layout=[LAYOUT[1], History(name="then").layout])


def test_a_batch_without_the_history_is_refused() -> None:
    model = PTopFreq(9, layout=LAYOUT)
    with pytest.raises(ConfigurationError, match="PTopFreq reads the history 'before', and none came"):
        model.score_masked(torch.ones(1, 1, dtype=torch.int64), context={}, labels=torch.tensor([[3]]))


def test_nothing_to_count_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing to count"):
        GTopFreq(9, layout=LAYOUT).fit(observed([[[3]]], [[]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        (GTopFreq, {"counts_sets": False}, (0.0775, 0.0846, 0.2381)),
        # Ties are expectations here, and .1130, .1034 and .3652 where the first items of the file come first.
        (PTopFreq, {}, (0.1163, 0.1001, 0.3769)),
        (GPTopFreq, {"counts_sets": False, "popularity_weight": 0.9}, (0.1444, 0.1235, 0.4427)),
        (
            TIFUKNN,
            {"num_neighbours": 900, "own_weight": 0.3, "num_groups": 7, "group_decay": 0.9, "within_decay": 1.0},
            (0.1580, 0.1324, 0.4563),
        ),
        (UPCF, {"recency": 1, "asymmetry": 0.75, "locality": 3}, (0.1538, 0.1184, 0.4283)),
    ],
)
def test_the_figures_of_ta_feng(kind: Any, settings: dict[str, Any], expected: tuple[float, ...]) -> None:
    """Recall@10, NDCG@10 and PHR@10 of the validation part, measured beside the benchmark's own code."""
    folder = os.environ.get("CONTEXTUAL_BERT_DATA")
    if folder is None or not (Path(folder) / "tafeng" / "next_basket.parquet").is_file():
        pytest.skip("CONTEXTUAL_BERT_DATA names no folder of data sets")
    rows = parquet.read_table(Path(folder) / "tafeng" / "next_basket.parquet").to_pylist()
    parts = {part: [row for row in rows if row["part"] == part] for part in ("train", "validation")}
    histories: Any = {
        part: [[[item + 3 for item in basket] for basket in row["baskets"]] for row in own]
        for part, own in parts.items()
    }
    model = kind(11_997 + 3, layout=LAYOUT)
    model.settings = {"counts_sets": False, **settings}
    pool = Purchases.of(encoded(histories["train"]), num_reserved=3)
    model.popularity = model._shares(pool.counts(model.vocab_size))
    model.learn(pool)
    sets = [(row, item + 3) for row, each in enumerate(parts["validation"]) for item in each["next_basket"]]
    set_of, items = np.array(sets).T
    preferences = model.preferences(Purchases.of(encoded(histories["validation"]), num_reserved=3))
    found = []
    for rows_of_block in np.array_split(np.arange(len(sets)), 50):
        own = preferences[set_of[rows_of_block], items[rows_of_block]][:, None]
        every = preferences[set_of[rows_of_block], 3:]
        found.append(((every > own).sum(axis=1), (every == own).sum(axis=1)))
    better, tied = (np.concatenate(column) for column in zip(*found, strict=True))
    ranks = SetRanks.of(set_of, better, tied, np.bincount(set_of))
    measured = [float(measure(10).mean()) for measure in (ranks.recall, ranks.ndcg, ranks.hit_rate)]
    assert measured == pytest.approx(expected, abs=0.003)
