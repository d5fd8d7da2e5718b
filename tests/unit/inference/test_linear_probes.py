"""Linear probes: they read what is there, call noise noise, and the mixture weighs the layer that knows."""

import pytest
import torch

from contextual_bert.inference.linear_probes import fit_probes


def drawn(seed: int = 0, num_rows: int = 300, width: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Three layers of noise, the second of which has the class in one of its components."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(3, num_rows, width, generator=generator)
    classes = torch.randint(0, 4, (num_rows,), generator=generator)
    states[1, :, 7] = 3 * classes + 5 + 0.5 * torch.randn(num_rows, generator=generator)
    return states, classes


def test_a_probe_reads_what_a_layer_holds_and_no_more() -> None:
    states, classes = drawn()
    others, wanted = drawn(seed=1)
    found = fit_probes(states, classes, others)
    accuracy = (found.layers == wanted).float().mean(dim=1)
    assert float(accuracy[1]) > 0.7
    assert accuracy[[0, 2]].tolist() == pytest.approx([0.25, 0.25], abs=0.08)
    assert float((found.mixture == wanted).float().mean()) > 0.7
    assert float(found.weights[1]) > 0.9 and float(found.weights.sum()) == pytest.approx(1)


def test_many_components_and_few_rows_do_not_beat_the_most_common_class_down() -> None:
    generator = torch.Generator().manual_seed(0)
    states, others = torch.randn(2, 1, 200, 400, generator=generator)
    targets = (torch.rand(200, generator=generator) < 0.1).long()
    found = fit_probes(states, targets, others)
    assert float((found.layers == 0).float().mean()) > 0.95  # the strength that does not learn noise by heart


def test_a_component_that_never_changes_is_no_trouble_and_the_same_rows_give_the_same() -> None:
    states, classes = drawn()
    states[..., 0] = 7.0
    first, second = (fit_probes(states, classes, states) for _ in range(2))
    assert torch.equal(first.layers, second.layers) and torch.equal(first.weights, second.weights)
    assert bool(first.weights.isfinite().all())
