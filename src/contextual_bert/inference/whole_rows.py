"""What is read from all logits of a row, beside the rank of its true item: the first items, and the share of new ones.

`scoring.collect` goes through both. No matrix of rows and items is stored.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from contextual_bert.candidates import exclude
from contextual_bert.evaluation.set_predictions import NO_ITEM
from contextual_bert.models import RESERVED_ITEMS

NUM_PROPOSED = 20  # items of a list that is kept of each hidden set
_ROW_ELEMENTS = 2**24  # logits that are held at once


class MaskedRows(Protocol):
    """Protocol of what is scored with one mask a row: single items, last items, or whole sets."""

    @property
    def order(self) -> Tensor: ...

    def inputs(self, numbers: Tensor) -> dict[str, Any]: ...


class _WholeRows:
    """What goes through the rows of others and reads all their logits."""

    def __init__(self, targets: MaskedRows, num_items: int) -> None:
        self.targets, self.num_items = targets, num_items

    @property
    def order(self) -> Tensor:
        return self.targets.order

    @property
    def num_results(self) -> int:
        return len(self.targets.order)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return {**self.targets.inputs(numbers), "labels": numbers}

    def forward(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        own = {name: value for name, value in inputs.items() if name != "labels"}
        size = max(1, _ROW_ELEMENTS // self.num_items)
        rows = torch.arange(len(inputs["labels"]))
        return torch.cat([self.read(_logits(model, _part_of(own, chosen))) for chosen in rows.split(size)])

    def read(self, logits: Tensor) -> Tensor:
        """Return what is kept of a block of logits: (rows, vocabulary) -> (rows, n)."""
        raise NotImplementedError

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return the number of each row and what is kept of it."""
        return torch.cat([numbers[:, None].double(), outputs.cpu().double()], dim=1)


class ProposedItems(_WholeRows):
    """The first items for every row: a result each, its number and the items' numbers.

    Example:
        >>> logits = torch.tensor([[0.1, 0.5, -torch.inf]])
        >>> ProposedItems(None, 6).read(torch.nn.functional.pad(logits, (3, 0))).tolist()
        [[1, 0, -1]]
    """

    def read(self, logits: Tensor) -> Tensor:
        logits = logits[:, len(RESERVED_ITEMS) :]
        found = logits.topk(min(NUM_PROPOSED, logits.shape[1]), dim=1)
        return found.indices.masked_fill(found.values == -torch.inf, NO_ITEM)


class NewItemShares(_WholeRows):
    """The probability of all new items together, for every row.

    Args:
        targets: whose rows are read.
        is_new: (vocabulary,), True for items that training never saw.

    Example:
        >>> is_new = torch.tensor([False, False, False, True, False])
        >>> logits = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, 0.0, 0.0]])
        >>> NewItemShares(None, is_new).read(logits).tolist()
        [[0.5]]
    """

    def __init__(self, targets: MaskedRows, is_new: Tensor) -> None:
        super().__init__(targets, len(is_new))
        self.is_new = is_new

    def read(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)[:, self.is_new.to(logits.device)].sum(dim=1, keepdim=True)


def _logits(model: Any, inputs: dict[str, Any]) -> Tensor:
    earlier = inputs.pop("earlier_ids", None)
    shown = inputs["input_ids"] if earlier is None else torch.cat([inputs["input_ids"], earlier], dim=1)
    logits = model(**inputs)["logits"].float()
    over = model.softmax_over if hasattr(model, "softmax_over") else model.config.softmax_over
    logits = exclude(logits, shown if over == "candidates" else None)
    if over != "vocabulary":
        logits[:, : len(RESERVED_ITEMS)] = -torch.inf
    return logits


def _part_of(inputs: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    return {
        name: {feature: values[rows] for feature, values in value.items()}
        if isinstance(value, Mapping)
        else value[rows]
        for name, value in inputs.items()
    }
