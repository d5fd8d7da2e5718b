"""Classifier-free guidance: logits moved away from those without a context.

It knows logits with and without the context, no items and no labels. Paper: not there. Reference: Ho and Salimans
(2021), "Classifier-free diffusion guidance", equation 6, with w = 1 + their w.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from contextual_bert.context import missing_like
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.scoring import check_finite, to_device
from contextual_bert.models import ContextualBertPreTrainedModel


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
    inputs = to_device(inputs, model.device)
    weights = torch.tensor(guidance, device=model.device)
    with torch.inference_mode():
        logits: Tensor = model(**inputs).logits.float()
        asked = (weights != 1).nonzero()[:, 0]
        if not len(asked) or "context" not in inputs:
            check_finite(logits, model)
            return logits
        if not isinstance(inputs["context"], Mapping):
            raise ConfigurationError("guidance asks for an answer without the context", fix="Give the context itself.")
        chosen = {name: value[asked] for name, value in inputs.items() if name != "context"}
        chosen["context"] = {name: missing_like(value[asked]) for name, value in inputs["context"].items()}
        without: Tensor = model(**chosen).logits.float()
        rows = rows.to(model.device)
        is_guided = torch.isin(rows, asked)
        weight = weights[rows[is_guided]].view(-1, *(1,) * (logits.ndim - 1))
        logits[is_guided] = without + weight * (logits[is_guided] - without)
        check_finite(logits, model)
    return logits
