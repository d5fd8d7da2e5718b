"""Classifier-free guidance: logits moved away from those without a context.

It knows logits with and without the context, no items and no labels. Paper: not there. Reference: Ho and Salimans
(2021), "Classifier-free diffusion guidance", equation 6, with w = 1 + their w.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from contextual_bert.context import missing_like
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.scoring import check_finite, to_device
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertPreTrainedModel
from contextual_bert.models.output_states import OutputStates, output_states
from contextual_bert.models.repeat_scores import AddedLogits


def guided_logits(
    model: ContextualBertPreTrainedModel, inputs: Mapping[str, Any], guidance: Sequence[float], *, rows: Tensor
) -> Tensor:
    """The logits of a batch, each row as personal as it asks for; a second forward pass for those that ask.

    Formula: logits = without + w (with - without): w = 0 is the prediction for somebody of whom nothing is known, 1 the
    model's own, bit for bit, and above 1 what sets this context apart counts for more.

    Args:
        model: in ``eval()`` mode, with logits of any shape.
        inputs: what its ``forward`` takes, on any device.
        guidance: w, one a row of the inputs.
        rows: of which row of the inputs each row of the logits is.

    Returns:
        float32 logits, on the model's device.

    Raises:
        ConfigurationError: a guidance with what was made of a context, which cannot be left out any more.
        NonFiniteError: the model gives no numbers.
    """

    def logits_of(given: Mapping[str, Any]) -> Tensor:
        return model(**given).logits.float()

    return _guided(logits_of, model, inputs, guidance, rows=rows)


def guided_states(
    model: ContextualBertForMaskedLM, inputs: Mapping[str, Any], guidance: Sequence[float], *, rows: Tensor
) -> OutputStates:
    """What the output matrix reads at each [MASK] of a batch, each row as personal as it asks for.

    The logits are linear in it, so these give the logits of ``guided_logits``: its formula holds for the states, too.

    Args:
        model, inputs, guidance, rows: as for ``guided_logits``.
    """
    found: list[AddedLogits | None] = []

    def read_of(given: Mapping[str, Any]) -> Tensor:
        states = output_states(model, given)
        found.append(states.added)
        return states.read

    read = _guided(read_of, model, inputs, guidance, rows=rows)
    added = found[0]
    if added is not None:  # of somebody of whom nothing is known, histories add nothing
        weights = torch.tensor(guidance, device=model.device)[rows.to(model.device)]
        added = AddedLogits(added.items, added.scores * weights[:, None])
    return OutputStates(read, added)


def _guided(
    scored: Callable[[Mapping[str, Any]], Tensor],
    model: ContextualBertPreTrainedModel,
    inputs: Mapping[str, Any],
    guidance: Sequence[float],
    *,
    rows: Tensor,
) -> Tensor:
    """Return what ``scored`` gives for inputs, moved away from what it gives without their context."""
    inputs = to_device(inputs, model.device)
    weights = torch.tensor(guidance, device=model.device)
    with torch.inference_mode():
        logits = scored(inputs)
        asked = (weights != 1).nonzero()[:, 0]
        if not len(asked) or "context" not in inputs:
            check_finite(logits, model)
            return logits
        if not isinstance(inputs["context"], Mapping):
            raise ConfigurationError("guidance asks for an answer without the context", fix="Give the context itself.")
        chosen = {name: value[asked] for name, value in inputs.items() if name != "context"}
        chosen["context"] = {name: missing_like(value[asked]) for name, value in inputs["context"].items()}
        without = scored(chosen)
        rows = rows.to(model.device)
        is_guided = torch.isin(rows, asked)
        weight = weights[rows[is_guided]].view(-1, *(1,) * (logits.ndim - 1))
        logits[is_guided] = without + weight * (logits[is_guided] - without)
        check_finite(logits, model)
    return logits
