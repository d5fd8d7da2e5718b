"""What is read from all logits of a row, beside the rank of its true answer: the first items, the share of new ones,
sums over tempered probabilities, and what changes under another context.

`scoring.collect` goes through each. No matrix of rows and choices is stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.candidates import exclude
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.set_predictions import NO_ITEM
from contextual_bert.models import RESERVED_ITEMS

NUM_PROPOSED = 20  # items of a list that is kept of each hidden set
_ROW_ELEMENTS = 2**24  # logits that are held at once


class ChoiceRows(Protocol):
    """Protocol of what is scored with one choice a row: single items, last items, whole sets, or labels of texts."""

    @property
    def order(self) -> Tensor: ...

    def inputs(self, numbers: Tensor) -> dict[str, Any]: ...

    def choice_logits(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the logits of all choices, (rows, choices); -inf for what cannot be chosen."""
        ...

    def sequences(self, numbers: Tensor) -> Tensor:
        """Return the number of the set, or text, of each of these rows."""
        ...

    def rows_of(self, scores: Scores) -> NDArray[np.int64]:
        """Return the number of the row that each scored row is about."""
        ...


class _WholeRows:
    """What goes through the rows of others and reads all their logits."""

    def __init__(self, targets: ChoiceRows, num_items: int) -> None:
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
        own, numbers = {name: value for name, value in inputs.items() if name != "labels"}, inputs["labels"]
        size = max(1, _ROW_ELEMENTS // self.num_items)
        rows = torch.arange(len(numbers))
        return torch.cat([self.look(model, _part_of(own, part), numbers[part].cpu()) for part in rows.split(size)])

    def look(self, model: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return what is kept of a block of rows: (rows, n)."""
        return self.read(self.targets.choice_logits(model, inputs))

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

    def __init__(self, targets: ChoiceRows, is_new: Tensor) -> None:
        super().__init__(targets, len(is_new))
        self.is_new = is_new

    def read(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)[:, self.is_new.to(logits.device)].sum(dim=1, keepdim=True)


class TemperedRows(_WholeRows):
    """Sums over the tempered probabilities of every row, and how many choices are at least as probable as its floors.

    Formula: sum of t = log of the sum over choices of exp(log Pr(choice) / t); size = number of choices whose log Pr /
        t - sum of t, t the first temperature, is at least the smaller one of the floor and the largest of them.

    Shapes: temperatures (sequences, t), floors (sequences, f) -> (rows, t + f).

    Args:
        targets: whose rows are read.
        num_choices: how many there are.
        temperatures: of each sequence.
        floors: log-probabilities under the first temperature.
    """

    def __init__(self, targets: ChoiceRows, num_choices: int, temperatures: Tensor, floors: Tensor) -> None:
        super().__init__(targets, num_choices)
        self.temperatures, self.floors = temperatures, floors

    def look(self, model: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        shares = self.targets.choice_logits(model, inputs).log_softmax(dim=1)
        rows = self.targets.sequences(numbers)
        temperatures = self.temperatures[rows].to(shares)
        # A column at a time: all of them at once would be as many matrices.
        sums = [(shares / column[:, None]).logsumexp(dim=1) for column in temperatures.T]
        tempered = shares / temperatures[:, :1] - sums[0][:, None]
        best = tempered.amax(dim=1)
        floors = self.floors[rows].to(shares)
        sizes = [(tempered >= torch.minimum(floor, best)[:, None]).sum(dim=1) for floor in floors.T]
        return torch.stack([*sums, *(each.to(sums[0]) for each in sizes)], dim=1)


class FlippedRows(_WholeRows):
    """What changes in every row when one field of its context says something else.

    Shapes: -> (rows, 1 + 2 values): the best choice, then under each value the best one and the total variation
        distance.

    Args:
        targets: whose rows are read.
        num_choices: how many there are.
        field: of the context.
        values: encoded, a row each; every row gets each.
    """

    def __init__(self, targets: ChoiceRows, num_choices: int, field: str, values: Sequence[Tensor]) -> None:
        super().__init__(targets, num_choices)
        self.field, self.values = field, values

    def look(self, model: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        own = self.targets.choice_logits(model, dict(inputs)).softmax(dim=1)
        best = own.argmax(dim=1)
        columns = [best.to(own)]
        for value in self.values:
            repeated = value.to(own.device).expand(len(own), *value.shape[1:])
            context = {**inputs["context"], self.field: repeated}
            other = self.targets.choice_logits(model, {**inputs, "context": context}).softmax(dim=1)
            columns += [other.argmax(dim=1).to(own), (other - own).abs().sum(dim=1) / 2]
        return torch.stack(columns, dim=1)


def item_logits(model: Any, inputs: dict[str, Any]) -> Tensor:
    """Return the logits of the items at each [MASK], -inf for what the model's softmax does not go over."""
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
