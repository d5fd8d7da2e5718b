"""Positions of tokens: a learned table, or sines and cosines."""

from typing import Any

import torch
from torch import Tensor, nn

POSITION_EMBEDDINGS = ("learned", "sinusoidal")


class SinusoidalPositions(nn.Module):
    """Fixed vectors of positions: sines and cosines of many wave lengths.

    Formula:
        p_(i, 2k) = a sin(i / 10000^(2k / d)), p_(i, 2k + 1) = a cos(i / 10000^(2k / d)), with a = sqrt(2) times the
        standard deviation of a new learned table, so that both have one scale

    Shapes:
        ids (...,); the vectors (..., size).

    Args:
        size: d.
        scale: standard deviation of a new learned table.

    Reference:
        Vaswani et al. (2017), "Attention Is All You Need", section 3.5.

    Example:
        >>> SinusoidalPositions(4, scale=0.5**0.5)(torch.tensor([0])).tolist()
        [[0.0, 1.0, 0.0, 1.0]]
    """

    def __init__(self, size: int, *, scale: float) -> None:
        super().__init__()
        self.size, self.scale = size, scale

    def forward(self, ids: Tensor) -> Tensor:
        even = torch.arange(0, self.size, 2, device=ids.device, dtype=torch.float32)
        angles = ids[..., None].float() * 10_000 ** (-even / self.size)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.size]
        return 2**0.5 * self.scale * waves


def position_table(config: Any, size: int) -> nn.Module | None:
    """Return what makes vectors of positions, None where the embeddings know none.

    Args:
        config: a ContextualBertConfig.
        size: of the vectors.
    """
    return new_position_table(config, size) if config.has_position_table else None


def new_position_table(config: Any, size: int) -> nn.Module:
    """Return what makes vectors of positions, whatever the blocks of the encoder know of them.

    Args:
        config: a ContextualBertConfig.
        size: of the vectors.
    """
    if config.position_embedding == "sinusoidal":
        return SinusoidalPositions(size, scale=config.initializer_range)
    return nn.Embedding(config.max_position_embeddings, size)
