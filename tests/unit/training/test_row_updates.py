"""Steps of rows: those that were read alone, as a formula says; a gradient that is sparse in part is clipped."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from contextual_bert.errors import ConfigurationError
from contextual_bert.training.row_updates import clip_sparse_and_dense, sparse_weights, update_rows


def model_and_optimiser(kind: Any = torch.optim.AdamW, rule: Any = "adagrad") -> tuple[nn.ModuleList, Any]:
    torch.manual_seed(0)
    model = nn.ModuleList([nn.EmbeddingBag(6, 3, mode="sum", sparse=True), nn.Linear(3, 2)])
    optimiser = kind(model.parameters(), lr=0.1, weight_decay=0.3)
    return model, update_rows(optimiser, sparse_weights(model), rule=rule)


def backward(model: Any, rows: list[list[int]]) -> None:
    model.zero_grad()
    model[1](model[0](torch.tensor(rows))).square().sum().backward()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_rows_have_steps_by_the_formula_and_others_are_not_touched(kind: Any) -> None:
    model, optimiser = model_and_optimiser(kind)
    rows: Any = model[0]
    expected, sums = rows.weight.detach().clone(), torch.zeros(6)
    dense = model[1].weight.detach().clone()
    for batch in ([[1, 1, 4]], [[4, 5, 4]]):
        backward(model, batch)
        gradient = rows.weight.grad.to_dense()
        sums += gradient.square().mean(dim=1)
        expected -= 0.1 * gradient / (sums.sqrt() + 1e-10).unsqueeze(1)
        optimiser.step()
        torch.testing.assert_close(rows.weight.detach(), expected)
    assert not torch.equal(model[1].weight, dense)


def test_rows_have_steps_of_adam_and_the_decay_that_they_missed() -> None:
    model, optimiser = model_and_optimiser(rule="adam")
    rows: Any = model[0]
    expected = rows.weight.detach().clone()
    means, squares, steps, missed = torch.zeros(6, 3), torch.zeros(6), torch.zeros(6), torch.zeros(6)
    for number, batch in enumerate(([[1, 1, 4]], [[4, 5, 4]], [[1, 4, 2]])):
        optimiser.param_groups[-1]["lr"] = rate = 0.1 / (number + 1)
        backward(model, batch)
        gradient = rows.weight.grad.to_dense()
        missed += rate
        for row in set(batch[0]):
            steps[row] += 1
            means[row] = 0.9 * means[row] + 0.1 * gradient[row]
            squares[row] = 0.999 * squares[row] + 0.001 * gradient[row].square().mean()
            length = (squares[row] / (1 - 0.999 ** steps[row])).sqrt() + 1e-8
            expected[row] *= torch.exp(-0.3 * missed[row])
            expected[row] -= rate * means[row] / (1 - 0.9 ** steps[row]) / length
            missed[row] = 0
        optimiser.step()
        torch.testing.assert_close(rows.weight.detach(), expected, rtol=1e-4, atol=1e-6)


def test_adam_by_rows_needs_an_optimiser_with_averages() -> None:
    with pytest.raises(ConfigurationError, match="optim='SGD' has no averages by row"):
        model_and_optimiser(torch.optim.SGD, rule="adam")


@pytest.mark.parametrize("rule", ["adagrad", "adam"])
def test_an_optimiser_goes_on_from_what_was_saved(rule: Any) -> None:
    model, optimiser = model_and_optimiser(rule=rule)
    backward(model, [[1, 2]])
    optimiser.step()
    other, loaded = model_and_optimiser(rule=rule)
    other.load_state_dict(model.state_dict())
    loaded.load_state_dict(deepcopy(optimiser.state_dict()))  # as a file has it: torch shares the tensors
    for each, steps in ((model, optimiser), (other, loaded)):
        backward(each, [[2, 3]])
        steps.step()
    torch.testing.assert_close(other.state_dict(), model.state_dict())


def test_a_rate_of_a_schedule_is_that_of_the_rows() -> None:
    model, optimiser = model_and_optimiser()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.0)
    before = model[0].weight.detach().clone()
    backward(model, [[1, 2]])
    optimiser.step()
    schedule.step()
    torch.testing.assert_close(model[0].weight.detach(), before)


@pytest.mark.parametrize("most", [0.01, float("inf")])
def test_the_norm_is_that_of_the_dense_gradient(most: float) -> None:
    model, _ = model_and_optimiser()
    backward(model, [[1, 1, 4]])
    dense = [weight.grad.to_dense().clone() for weight in model.parameters()]
    expected = torch.cat([each.flatten() for each in dense]).norm()
    torch.testing.assert_close(clip_sparse_and_dense(model, most), expected)
    scale = min(1.0, most / float(expected))
    for weight, gradient in zip(model.parameters(), dense, strict=True):
        torch.testing.assert_close(weight.grad.to_dense(), gradient * scale, rtol=1e-4, atol=1e-7)
