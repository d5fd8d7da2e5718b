"""Intervals: coverage on simulated customers, pairing, Holm by hand, scipy as the oracle."""

import math
import time

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import (
    ClusterBootstrap,
    EvaluationSettings,
    Interval,
    Scores,
    bootstrap,
    cluster_interval,
    evaluate_scores,
    holm,
    paired_bootstrap,
    seed_mean,
)
from contextual_bert.evaluation.intervals import bounded, cluster_codes


def simulate(generator: np.random.Generator, num_customers: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of customers with a taste of their own; the true mean is 0."""
    sizes = generator.integers(1, 9, num_customers)
    customers = np.repeat(np.arange(num_customers), sizes)
    return generator.normal(size=num_customers)[customers] + generator.normal(size=len(customers)), customers


@pytest.mark.parametrize("method", ["bootstrap", "closed form", "rows as customers"])
def test_coverage_is_nominal_only_when_customers_are_the_clusters(method):
    generator, hits, trials = np.random.default_rng(0), 0, 300
    for _ in range(trials):
        values, customers = simulate(generator, 100)
        if method == "closed form":
            interval = cluster_interval(values, customers)
        else:
            clusters = customers if method == "bootstrap" else np.arange(len(values))
            interval = bootstrap(values, clusters, num_resamples=300)
        hits += not interval.excludes(0.0)
    assert hits / trials < 0.8 if method == "rows as customers" else 0.91 <= hits / trials <= 0.98


def test_bootstrap_and_closed_form_agree():
    values, customers = simulate(np.random.default_rng(1), 2000)
    one, other = bootstrap(values, customers), cluster_interval(values, customers)
    assert one.value == other.value == pytest.approx(values.mean())
    assert one.standard_error == pytest.approx(other.standard_error, rel=0.06)
    assert one.low == pytest.approx(other.low, abs=0.15 * other.standard_error)
    assert (one.num_rows, one.num_clusters) == (len(values), 2000)


def test_a_resample_is_a_ratio_of_sums_over_drawn_customers():
    values, customers = np.array([1.0, 2.0, 30.0]), ["a", "a", "b"]
    means = ClusterBootstrap(customers, num_resamples=500).resampled_means(values[:, None])[:, 0]
    assert set(means.tolist()) == {1.5, 11.0, 30.0}
    assert np.mean(means == 11.0) == pytest.approx(0.5, abs=0.08)


def test_all_columns_share_the_same_draws():
    values, customers = simulate(np.random.default_rng(2), 50)
    draws = ClusterBootstrap(customers, num_resamples=200, seed=5)
    means = draws.resampled_means(np.stack([values, 2 * values + 1], axis=1))
    assert np.allclose(2 * means[:, 0] + 1, means[:, 1])
    assert np.array_equal(means, draws.resampled_means(np.stack([values, 2 * values + 1], axis=1)))
    other = ClusterBootstrap(customers, num_resamples=200, seed=6).resampled_means(values[:, None])
    assert not np.allclose(means[:, :1], other)


def test_rows_in_any_order_give_the_same_digits():
    values, customers = simulate(np.random.default_rng(3), 200)
    order = np.random.default_rng(4).permutation(len(values))
    assert bootstrap(values, customers) == bootstrap(values[order], customers[order])
    assert cluster_interval(values, customers) == cluster_interval(values[order], customers[order])
    assert paired_bootstrap(values, 0 * values, customers) == paired_bootstrap(
        values[order], 0 * values, customers[order]
    )


def test_other_columns_and_other_blocks_never_change_a_digit(monkeypatch):
    values, customers = simulate(np.random.default_rng(7), 500)
    draws = ClusterBootstrap(customers, num_resamples=300)
    alone = draws.resampled_means(values[:, None])[:, 0]
    monkeypatch.setattr("contextual_bert.evaluation.intervals._BLOCK_CELLS", 3500)
    wide = np.random.default_rng(8).normal(size=(len(values), 13))
    wide[:, 6] = values
    beside = draws.resampled_means(wide)[:, 6]
    assert np.array_equal(alone, beside)


def test_pairing_sees_what_two_intervals_cannot():
    generator = np.random.default_rng(5)
    base, customers = simulate(generator, 300)
    better = base - 0.05 + 0.1 * generator.normal(size=len(base))
    difference = paired_bootstrap(better, base, customers)
    assert difference.interval.excludes(0.0)
    assert difference.p_value < 0.01
    assert not bootstrap(better, customers).excludes(bootstrap(base, customers).value)
    with pytest.raises(ConfigurationError, match="rows must be the same"):
        paired_bootstrap(better, base[:-1], customers)


def test_the_p_value_is_uniform_without_a_difference():
    generator, p_values = np.random.default_rng(6), []
    for _ in range(200):
        values, customers = simulate(generator, 80)
        p_values.append(paired_bootstrap(values, 0 * values, customers, num_resamples=300).p_value)
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.001
    assert paired_bootstrap([1.0, 2.0], [1.0, 2.0], ["a", "b"]).p_value == 1.0


def test_holm_by_hand_and_bounded():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()
    with pytest.raises(ConfigurationError, match=r"p-value 1.5 is not between 0 and 1"):
        holm([0.1, 1.5])


def test_no_difference_of_three_seeds_is_exactly_none():
    """Means of thirds do not cancel in float64: what is left must count for both sides."""
    generator = np.random.default_rng(0)
    hits = 100.0 * generator.integers(0, 2, size=(2, 3, 60))
    gap = np.mean(hits[0], axis=0) - np.mean(hits[1], axis=0)
    draws = ClusterBootstrap(np.arange(60), num_resamples=2000)
    exact = draws.resampled_means((hits[0].sum(axis=0) - hits[1].sum(axis=0))[:, None])[:, 0]
    found = draws.difference(float(gap.mean()), draws.resampled_means(gap[:, None])[:, 0])
    below, above = int((exact <= 0).sum()), int((exact >= 0).sum())
    assert below + above > 2000  # some resamples are exactly 0
    assert found.p_value == 2 * (1 + min(below, above)) / 2001


@pytest.mark.parametrize("num_customers", [2, 3, 5])
def test_few_customers_prove_no_more_than_an_exact_test_would(num_customers):
    ones = np.ones(num_customers)
    exact = scipy.stats.permutation_test(
        (ones, 0 * ones), lambda a, b, axis: np.mean(a - b, axis=axis), vectorized=True, permutation_type="samples"
    ).pvalue
    found = paired_bootstrap(ones, 0 * ones, np.arange(num_customers))
    assert found.p_value == exact == 2.0 ** (1 - num_customers)
    assert paired_bootstrap(np.ones(40), np.zeros(40), np.arange(40)).p_value < 0.001


def test_seed_mean_against_scipy():
    values = [4.75, 4.74, 4.79]
    found = seed_mean(values)
    assert (found.mean, found.standard_error) == pytest.approx((np.mean(values), scipy.stats.sem(values)))
    assert math.isnan(seed_mean([1.0]).standard_error)
    with pytest.raises(ConfigurationError, match="No seeds"):
        seed_mean([])


def test_no_hit_among_thirty_customers_is_no_proof_of_zero():
    none = cluster_interval(np.zeros(60), np.repeat(np.arange(30), 2))
    exact = scipy.stats.binomtest(0, 30).proportion_ci(0.95, method="exact")
    assert bounded(none, within=(0.0, 100.0)).high == pytest.approx(100 * exact.high)
    every = cluster_interval(np.full(60, 100.0), np.repeat(np.arange(30), 2))
    assert bounded(every, within=(0.0, 100.0)).low == pytest.approx(100 * (1 - exact.high))
    half = Interval(99.0, 97.0, 101.0, 1.0, 60, 30)
    assert (bounded(half, within=(0.0, 100.0)).low, bounded(half, within=(0.0, 100.0)).high) == (97.0, 100.0)


def test_one_cluster_leaves_the_interval_unknown():
    for interval in (bootstrap([1.0, 3.0], ["a", "a"]), cluster_interval([1.0, 3.0], ["a", "a"])):
        assert interval.value == 2.0
        assert math.isnan(interval.low)
        assert math.isnan(interval.standard_error)
        assert not interval.excludes(100.0)
    assert math.isnan(paired_bootstrap([1.0], [0.0], ["a"]).p_value)


def test_cluster_labels_of_any_kind_are_numbered_in_sorted_order():
    assert cluster_codes(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert cluster_codes(np.array(["b", "a", 3], dtype=object)).tolist() == [2, 1, 0]
    assert cluster_codes(np.array([5, 5, -1])).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "missing",
    [
        ["a", None, "b"],
        ["a", math.nan, "b"],
        [1.0, math.nan, 2.0],
        np.array(["a", math.nan, "b"], dtype=object),
        np.array([1.0, math.nan, 2.0]),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
    ],
)
def test_a_missing_customer_is_named(missing):
    with pytest.raises(DataError, match=r"row 2, column 'clusters': no customer.*example id"):
        bootstrap([1.0, 2.0, 3.0], missing)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"num_resamples": 10}, "at least 100"), ({"level": 95}, "level=95.*0.95"), ({"level": 0.0}, "between 0 and 1")],
)
def test_settings_that_cannot_work_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        bootstrap([1.0, 2.0], ["a", "b"], **options)


def test_values_that_have_no_mean_are_refused():
    with pytest.raises(DataError, match="row 2: inf has no mean"):
        bootstrap([1.0, math.inf], ["a", "b"])
    with pytest.raises(ConfigurationError, match="at least one row"):
        bootstrap([], [])
    with pytest.raises(ConfigurationError, match=r"Give \(2, number of columns\)"):
        ClusterBootstrap(["a", "b"]).resampled_means(np.ones(2))


def test_seventeen_thousand_customers_take_seconds():
    generator = np.random.default_rng(0)
    columns, customers = generator.normal(size=(85_000, 7)), generator.integers(0, 17_000, 85_000)
    start = time.process_time()
    means = ClusterBootstrap(customers, num_resamples=2000).resampled_means(columns)
    assert time.process_time() - start < 8
    assert means.std(axis=0) == pytest.approx(np.full(7, 85_000**-0.5), rel=0.1)


def test_the_mean_reciprocal_rank_ends_where_the_last_of_all_is():
    """Of two labels it is (1 + recall) / 2, and so are its limits."""
    ranks = {"log_probability": np.log(np.full(17, 0.4)), "num_tied": np.ones(17), "confidence": np.full(17, 0.6)}
    for num_better, value in ((np.ones(17), 0.5), (np.zeros(17), 1.0)):
        scores = Scores(np.arange(17), np.zeros(17), num_better=num_better, **ranks)
        found = evaluate_scores(scores, num_items=2, settings=EvaluationSettings(ks=(1,))).metrics
        recall, mean_rank = found["recall_at_1_percent"], found["mean_reciprocal_rank"]
        assert mean_rank.value == value
        assert mean_rank.low == pytest.approx((1 + recall.low / 100) / 2)
        assert mean_rank.high == pytest.approx((1 + recall.high / 100) / 2)


def test_resamples_without_a_row_of_the_statistic_are_left_out():
    draws = ClusterBootstrap(np.arange(30), num_resamples=300, seed=0)
    replicates = np.linspace(0.0, 1.0, 300)
    holes = np.concatenate([np.full(100, np.nan), replicates[:200]])
    known = draws.interval(0.3, replicates[:200])
    assert draws.interval(0.3, holes) == known
    assert draws.difference(0.3, holes).p_value == draws.difference(0.3, replicates[:200]).p_value
    almost_none = np.concatenate([np.full(250, np.nan), replicates[:50]])
    assert np.isnan(draws.interval(0.3, almost_none).low)
    assert np.isnan(draws.difference(0.3, almost_none).p_value)
