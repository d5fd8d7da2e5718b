"""Activations of a model: the attention weights and the hidden states of each layer, recorded while it answers.

It knows no query and no table.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from contextual_bert.inference.scoring import to_device
from contextual_bert.models import ContextualBertPreTrainedModel

RECORDING = "eager"  # the one implementation that gives the weights it computes


@contextmanager
def recording_attention(model: ContextualBertPreTrainedModel) -> Generator[None]:
    """Let a model compute its attention in a way that gives the weights, and then as before."""
    before: Any = model.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
    model.set_attn_implementation(RECORDING)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def record_activations(model: ContextualBertPreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Return the output of a model with its ``attentions`` and ``hidden_states``.

    Shapes:
        attentions: (batch, heads, length, length) a layer, from each position to each; ``length`` counts what the
        method puts in front, and ``multi_attribute`` has a group of heads for each feature of the context.
        hidden_states: (batch, length, hidden) of the input and of each layer.

    Args:
        model: in ``eval()`` mode, of any backbone and method.
        inputs: what its ``forward`` takes, on any device.

    Example:
        >>> from contextual_bert.testing import miniature_batch, miniature_model
        >>> outputs = record_activations(miniature_model("new_position"), miniature_batch())
        >>> outputs.attentions[0].shape, outputs.hidden_states[0].shape
        (torch.Size([4, 4, 6, 6]), torch.Size([4, 5, 32]))
    """
    with recording_attention(model), torch.inference_mode():
        return model(**to_device(inputs, model.device), output_attentions=True, output_hidden_states=True)
