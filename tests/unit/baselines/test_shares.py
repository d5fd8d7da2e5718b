"""Shares are counted, weights of a context fitted to convergence; both are compared with what is worked out here."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn import functional

from contextual_bert.baselines import ItemPopularity, LabelShares
from contextual_bert.baselines.shares import Observations, ShareModel
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical
from contextual_bert.context.kinds import FeatureLayout
from contextual_bert.errors import ConfigurationError, DataError

SEX = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),)).layout
FEMALE, MALE = 2, 3


def observed(targets: list[int], rows: list[int] | None = None, **context: Any) -> Observations:
    return Observations(torch.tensor(targets), torch.tensor(rows) if rows else torch.arange(len(targets)), context)


def test_shares_are_counts_plus_a_prior() -> None:
    model = ShareModel(6, layout=(), num_reserved=3)
    model.fit(observed([3, 3, 3, 4]), prior=0.5)
    expected = torch.tensor([0.0, 0.0, 0.0, 3.5 / 5.5, 1.5 / 5.5, 0.5 / 5.5])
    torch.testing.assert_close(model({}, num_rows=2).exp(), expected.expand(2, -1))


def test_the_prior_is_the_best_on_the_validation() -> None:
    generator = np.random.default_rng(0)
    shares = generator.dirichlet(np.full(50, 0.3))
    training, validation = (observed(generator.choice(50, size, p=shares).tolist()) for size in (80, 500))
    model = ShareModel(50, layout=())
    model.fit(training, validation)

    def cross_entropy(prior: float) -> float:
        other = ShareModel(50, layout=())
        other.fit(training, prior=prior)
        return -float(other({}, num_rows=1)[0, validation.targets].mean())

    best = cross_entropy(model.settings["prior_count"])
    assert all(best <= cross_entropy(float(prior)) + 1e-6 for prior in np.geomspace(1e-3, 1e3, 61))


def test_without_a_validation_part_each_target_is_left_out_once() -> None:
    counts = torch.tensor([5, 2, 1, 0])
    model = ShareModel(4, layout=())
    model.fit(observed(torch.repeat_interleave(torch.arange(4), counts).tolist()))

    def left_out(prior: float) -> float:
        return -sum(count * math.log((count - 1 + prior) / (7 + 4 * prior)) for count in counts.tolist() if count)

    best = left_out(model.settings["prior_count"])
    assert all(best <= left_out(float(prior)) + 1e-4 for prior in np.geomspace(1e-2, 1e2, 201))


def test_weights_are_those_of_a_general_optimiser() -> None:
    generator = np.random.default_rng(1)
    sex = generator.integers(2, 4, 200)
    targets = np.where(sex == FEMALE, generator.choice(3, 200, p=[0.7, 0.2, 0.1]), generator.choice(3, 200))
    model = ShareModel(3, layout=SEX)
    training = observed(targets.tolist(), sex=torch.from_numpy(sex))
    model.fit(training, prior=1.0, strength=2.0)
    base = model.log_shares.double().numpy()

    def objective(flat: np.ndarray) -> float:
        weight = flat.reshape(4, 3)
        logits = base + weight[sex]
        losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(200), targets]
        return float(losses.sum() + (weight**2).sum())

    expected = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-6}).x.reshape(4, 3)
    assert model.weight is not None
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=2e-3)
    assert np.abs(expected[FEMALE]).max() > 0.3  # there was something to learn


def test_what_the_set_shows_is_out_of_the_softmax_of_the_fit() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = [int(each) for _ in range(40) for each in torch.randperm(5, generator=generator)[:3]]
    rows = [row for row in range(40) for _ in range(3)]
    sex = torch.tensor([FEMALE, MALE] * 20)
    popularity = ItemPopularity(8, layout=SEX, softmax_over="candidates")
    training = observed([3 + each for each in targets], rows, sex=sex)
    popularity.shares.fit(training, prior=1.0, strength=1.0, is_without_visible=True)
    weight = popularity.shares.weight
    assert weight is not None
    total = float(weight.square().sum()) / 2
    for row in range(40):
        items = torch.tensor([3 + targets[3 * row + place] for place in range(3)])
        for place in range(3):
            inputs, labels = items.clone(), torch.full((3,), -100)
            inputs[place], labels[place] = 1, items[place]
            context = {"sex": sex[row : row + 1]}
            scores = popularity.score_masked(inputs[None], context=context, labels=labels[None])
            total -= float(scores.log_probability)
    grouped_total = _objective(popularity.shares, training)
    assert total == pytest.approx(grouped_total, rel=1e-5)
    # It is the least: a step in any direction makes it larger.
    for _ in range(20):
        step = 0.05 * torch.randn(weight.shape, generator=generator)
        weight.add_(step)
        assert _objective(popularity.shares, training) > grouped_total
        weight.sub_(step)


def _objective(shares: ShareModel, training: Observations) -> float:
    assert shares.weight is not None
    losses = shares._loss(shares._blocks(training), is_without_visible=True)
    return losses + float(shares.weight.square().sum()) / 2


def test_a_context_that_says_nothing_costs_nothing() -> None:
    generator = np.random.default_rng(2)
    layout = ContextSchema(
        features=(Categorical(name="noise", values=tuple(f"v{number}" for number in range(30))),)
    ).layout

    def part(size: int) -> Observations:
        noise = torch.from_numpy(generator.integers(2, 32, size))
        return observed(generator.choice(20, size, p=np.arange(1, 21) / 210).tolist(), noise=noise)

    training, validation, test = part(1500), part(300), part(3000)
    plain, fitted = ShareModel(20, layout=()), ShareModel(20, layout=layout)
    losses: list[float] = []
    for model in (plain, fitted):
        model.fit(training, validation)
        found = model(test.context, num_rows=len(test.targets)).log_softmax(-1)
        losses.append(-float(found[torch.arange(len(test.targets)), test.targets].mean()))
    assert losses[1] < losses[0] + 0.01


def test_the_gradient_is_that_of_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextual_bert.baselines.shares.BLOCK_ELEMENTS", 20)  # several blocks
    layout = ContextSchema(
        features=(Categorical(name="sex", values=("f", "m")), MultiCategorical(name="brands", values=("a", "b")))
    ).layout
    generator = torch.Generator().manual_seed(0)
    context = {
        "sex": torch.randint(0, 4, (30,), generator=generator),
        "brands": torch.tensor([[4, 5], [5, 0], [1, 0]] * 10),
    }
    training = Observations(torch.randint(0, 5, (30,), generator=generator), torch.arange(30), context)
    model = ShareModel(5, layout=layout)
    weight = model.weight
    assert weight is not None
    weight.copy_(torch.randn(weight.shape, generator=generator))
    found = torch.zeros_like(weight)
    blocks = model._blocks(training)
    loss = model._loss(blocks, is_without_visible=False, gradient=found)
    weight.requires_grad_(True)
    expected = functional.cross_entropy(model(context, num_rows=30), training.targets, reduction="sum")
    expected.backward()
    assert len(blocks) > 2
    assert loss == pytest.approx(float(expected), rel=1e-5)
    torch.testing.assert_close(found, weight.grad)


def test_every_kind_of_feature_is_read() -> None:
    layout = (
        *ContextSchema(features=(MultiCategorical(name="brands", values=("a", "b")),)).layout,
        FeatureLayout("face", "vector", 0, 2, 4),
    )
    context = {
        "brands": torch.tensor([[4, 5], [4, 0], [1, 0]]),
        "face": torch.tensor([[1.0, -2.0, 0.0], [0.5, 0.0, 0.0], [7.0, 7.0, 1.0]]),
    }
    model = ShareModel(2, layout=layout)
    assert model.weight is not None
    with torch.no_grad():
        model.weight.copy_(torch.arange(2 * len(model.weight), dtype=torch.float).view(-1, 2))
    weight, start = model.weight, model.starts["face"]
    found = model(context, num_rows=3) - model.log_shares
    torch.testing.assert_close(found[0], (weight[4] + weight[5]) / 2 + weight[start] - 2 * weight[start + 1])
    torch.testing.assert_close(found[1], weight[4] + 0.5 * weight[start])
    torch.testing.assert_close(found[2], weight[1] + weight[start + 2])  # missing, whatever the numbers are
    torch.testing.assert_close(
        model(None, num_rows=1), model({name: rows[2:] for name, rows in context.items()}, num_rows=1)
    )


def test_popularity_sees_no_items() -> None:
    popularity = ItemPopularity(12, layout=SEX)
    popularity.fit(observed([3, 3, 4, 5], sex=torch.tensor([FEMALE, FEMALE, MALE, MALE])))
    labels = torch.tensor([[-100, 4], [-100, 4]])
    context = {"sex": torch.tensor([FEMALE, MALE])}
    scores = popularity.score_masked(torch.tensor([[9, 1], [9, 1]]), labels=labels, context=context)
    others = popularity.score_masked(torch.tensor([[10, 1], [11, 1]]), labels=labels, context=context)
    assert torch.equal(scores.log_probability, others.log_probability)
    assert scores.log_probability[1] > scores.log_probability[0]


def test_labels_have_shares_too() -> None:
    shares = LabelShares(num_labels=3)
    shares.fit(observed([0, 0, 0, 2]), observed([0, 1]))
    logits = shares(torch.tensor([[5, 6]]))["logits"]
    assert float(logits.exp().sum()) == pytest.approx(1)
    assert logits.argmax().item() == 0


def test_what_cannot_be_counted() -> None:
    with pytest.raises(DataError, match="nothing to count"):
        ShareModel(3, layout=()).fit(observed([]))
    with pytest.raises(ConfigurationError, match="num_labels=1"):
        LabelShares(num_labels=1)
    wide = (FeatureLayout("user", "categorical", 2_000_000, 2, 4),)
    with pytest.raises(ConfigurationError, match=r"weights, more than .*exclude="):
        ShareModel(1000, layout=wide)
