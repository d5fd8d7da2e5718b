"""The spelling of each token's word, beside its id: for models that read the characters of words.

It knows numbers alone: which characters they mean is for who made them.
"""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor


@dataclass(frozen=True, eq=False)
class SpeltTokens:
    """The word of each token of all texts, by its spelling.

    Shapes:
        numbers (tokens,), spellings (words, places).

    Args:
        numbers: of the spelling of each token's word; 0 where a token goes on the word of the one before it.
        spellings: the characters of each word; the first has none, only 0.

    Example:
        >>> import torch
        >>> spelt = SpeltTokens(torch.tensor([1, 0, 2]), torch.tensor([[0, 0], [7, 8], [9, 0]]))
        >>> spelt.characters(torch.tensor([[2, 2]]), torch.tensor([[True, False]])).tolist()
        [[[9, 0], [0, 0]]]
    """

    numbers: Tensor
    spellings: Tensor

    def at(self, places: Tensor) -> Self:
        """Return the spellings of the tokens at these places."""
        return replace(self, numbers=self.numbers[places])

    def characters(self, places: Tensor, is_real: Tensor) -> Tensor:
        """Return the characters of the tokens at places of any shape, (..., places); 0 where a token is not real."""
        return self.spellings[self.numbers[places] * is_real].long()
