"""The chain against sums and maxima over all label sequences, one by one."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from contextual_bert.baselines import LinearChainCRF
from contextual_bert.baselines.crf import log_product
from contextual_bert.errors import ConfigurationError

NUM_LABELS = 3
LABELS = torch.tensor([[-100, 2, 0, -100, 1, 1, -100], [0, -100, -100, 2, -100, -100, -100], [1, 0, 2, 2, 0, 1, 1]])


def crf_for(seed: int = 0) -> LinearChainCRF:
    crf, generator = LinearChainCRF(NUM_LABELS), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in crf.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return crf


def emissions_for(seed: int = 1) -> Tensor:
    return torch.randn(*LABELS.shape, NUM_LABELS, generator=torch.Generator().manual_seed(seed))


def score(crf: LinearChainCRF, emissions: Tensor, labels: tuple[int, ...]) -> Tensor:
    """s of one sequence; emissions (positions of the chain, labels)."""
    total = crf.start[labels[0]] + crf.end[labels[-1]]
    for place, label in enumerate(labels):
        total = total + emissions[place, label]
    for before, after in pairwise(labels):
        total = total + crf.transitions[before, after]
    return total


def all_scores(crf: LinearChainCRF, emissions: Tensor) -> dict[tuple[int, ...], Tensor]:
    return {labels: score(crf, emissions, labels) for labels in product(range(NUM_LABELS), repeat=len(emissions))}


def test_the_likelihood_is_that_of_all_sequences_one_by_one() -> None:
    crf, emissions = crf_for(), emissions_for()
    found = crf(emissions, LABELS)
    for row, labels in enumerate(LABELS):
        asked = labels != -100
        scores = all_scores(crf, emissions[row, asked])
        expected = scores[tuple(labels[asked].tolist())] - torch.stack(list(scores.values())).logsumexp(0)
        torch.testing.assert_close(found[row], expected)


def test_the_gradients_are_those_of_all_sequences_one_by_one() -> None:
    crf, emissions = crf_for(), emissions_for().requires_grad_()
    weights = [*crf.parameters(), emissions]
    found = torch.autograd.grad(crf(emissions, LABELS).sum(), weights)
    total = torch.zeros(())
    for row, labels in enumerate(LABELS):
        asked = labels != -100
        scores = all_scores(crf, emissions[row, asked])
        total = total + scores[tuple(labels[asked].tolist())] - torch.stack(list(scores.values())).logsumexp(0)
    for gradient, expected in zip(found, torch.autograd.grad(total, weights), strict=True):
        torch.testing.assert_close(gradient, expected)
    assert not found[-1][LABELS == -100].any()


@pytest.mark.parametrize("seed", range(5))
def test_the_decoded_sequence_is_the_best_of_all(seed: int) -> None:
    crf, emissions = crf_for(seed), emissions_for(seed + 1)
    is_in_chain = LABELS != -100
    found = crf.decode(emissions, is_in_chain)
    assert torch.equal(found == -100, ~is_in_chain)
    for row, asked in enumerate(is_in_chain):
        scores = all_scores(crf, emissions[row, asked])
        assert tuple(found[row, asked].tolist()) == max(scores, key=lambda labels: scores[labels].item())


@pytest.mark.parametrize("seed", range(3))
def test_the_marginals_are_sums_over_all_sequences(seed: int) -> None:
    crf, emissions = crf_for(seed), emissions_for(seed + 1)
    is_in_chain = LABELS != -100
    found = crf.marginals(emissions, is_in_chain)
    assert not found[~is_in_chain].any()
    for row, asked in enumerate(is_in_chain):
        scores = all_scores(crf, emissions[row, asked])
        whole = torch.stack(list(scores.values())).logsumexp(0)
        for place in range(int(asked.sum())):
            for label in range(NUM_LABELS):
                own = torch.stack([each for labels, each in scores.items() if labels[place] == label]).logsumexp(0)
                torch.testing.assert_close(found[row, asked][place, label], own - whole)


def test_the_marginals_are_the_gradient_of_the_normaliser_and_finite_where_it_vanishes() -> None:
    crf, labels = crf_for(), torch.zeros(1, 300, dtype=torch.int64)
    emissions = torch.randn(1, 300, NUM_LABELS, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gradient = torch.autograd.grad(crf(emissions, labels).sum(), emissions)[0]
    found = crf.marginals(emissions, labels == 0)
    expected = torch.nn.functional.one_hot(labels, NUM_LABELS) - gradient
    torch.testing.assert_close(found.exp(), expected, rtol=1e-4, atol=1e-5)
    sure = torch.tensor([[[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]]])
    shares = crf.marginals(sure, torch.tensor([[True, True]]))
    assert shares.isfinite().all()
    assert (shares < -150).sum() == 4, "too small for a probability, not for its logarithm"


def test_a_row_outside_every_chain_has_no_marginals() -> None:
    is_in_chain = torch.tensor([[False] * 7, [True] * 7, [False] * 7])
    found = crf_for().marginals(emissions_for(), is_in_chain)
    assert found[[0, 2]].eq(0).all()
    torch.testing.assert_close(found[1].exp().sum(-1), torch.ones(7))


def test_the_chain_and_not_the_position_decides() -> None:
    crf = LinearChainCRF(2)
    with torch.no_grad():
        crf.transitions[0, 1] = -10.0
    emissions = torch.tensor([[[1.0, 0.0], [0.0, 5.0]]])
    assert crf.decode(emissions, torch.tensor([[True, True]])).tolist() == [[1, 1]]
    assert emissions.argmax(-1).tolist() == [[0, 1]]


def test_at_the_start_every_position_is_by_itself() -> None:
    emissions = emissions_for()
    asked = LABELS != -100
    expected = emissions.log_softmax(-1).gather(2, LABELS.clamp(min=0).unsqueeze(2)).squeeze(2).masked_fill(~asked, 0)
    torch.testing.assert_close(LinearChainCRF(NUM_LABELS)(emissions, LABELS), expected.sum(1))


def test_a_row_without_labels_counts_for_nothing() -> None:
    crf, emissions = crf_for(), emissions_for()
    labels = LABELS.clone()
    labels[1] = -100
    found = crf(emissions, labels)
    assert found[1] == 0
    torch.testing.assert_close(found[[0, 2]], crf(emissions, LABELS)[[0, 2]])
    assert crf.decode(emissions, labels != -100)[1].tolist() == [-100] * 7
    nothing = crf(emissions, torch.full_like(labels, -100))
    nothing.sum().backward()
    assert not nothing.any()
    assert all(weight.grad is not None and not weight.grad.any() for weight in crf.parameters())


def test_long_chains_in_half_precision_stay_exact() -> None:
    crf = crf_for()
    emissions = torch.randn(1, 600, NUM_LABELS, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels = torch.zeros(1, 600, dtype=torch.int64)
    torch.testing.assert_close(crf(emissions, labels), crf.double()(emissions.double(), labels).float())


def test_one_label_is_no_chain() -> None:
    with pytest.raises(ConfigurationError, match="num_labels=1"):
        LinearChainCRF(1)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_a_product_of_exponentials_is_their_sum(scale: float) -> None:
    torch.manual_seed(0)
    scores = (scale * torch.randn(5, 7)).requires_grad_()
    matrix = torch.randn(7, 4, requires_grad=True)
    expected = (scores.unsqueeze(2) + matrix).logsumexp(dim=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = log_product(scores, matrix)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(found.sum(), (scores, matrix)),
        torch.autograd.grad(expected.sum(), (scores, matrix)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_a_product_of_exponentials_far_apart_is_a_number() -> None:
    scores = torch.tensor([[0.0, -1e4]], requires_grad=True)
    found = log_product(scores, torch.tensor([[-1e4, 0.0], [0.0, 0.0]]))
    found.sum().backward()
    assert found.isfinite().all() and scores.grad is not None and scores.grad.isfinite().all()
