"""Small histories for the tests of the baselines that count them."""

import torch
from torch import Tensor

from contextual_bert.baselines.shares import Observations
from contextual_bert.context import FeatureLayout, History

Baskets = list[list[int]]
LAYOUT = [FeatureLayout("age", "categorical", 4, 0, 8), History(name="before").layout]


def encoded(histories: list[Baskets | None]) -> Tensor:
    """Encode baskets, the oldest first: [item, baskets ago, times, days ago]; None is missing."""
    table: list[list[list[int]]] = []
    for baskets in histories:
        if baskets is None:
            table.append([[1, 0, 0, -1]])
            continue
        ago: dict[int, list[int]] = {}
        for number, basket in enumerate(reversed(baskets)):
            for item in basket:
                ago.setdefault(item, []).append(number)
        newest = sorted(ago, key=lambda item: (ago[item][0], item))
        rows = [[item, ago[item][0], len(ago[item]), -1] for item in newest]
        table.append(rows + [[item, number, 0, -1] for item in newest for number in ago[item][1:]])
    width = max(1, *map(len, table))
    return torch.tensor([rows + (width - len(rows)) * [[0, 0, 0, 0]] for rows in table])


def observed(histories: list[Baskets | None], sets: list[list[int]]) -> Observations:
    """Return sets with the histories before them."""
    rows = [row for row, items in enumerate(sets) for _ in items]
    items = [item for own in sets for item in own]
    return Observations(
        torch.tensor(items, dtype=torch.int64), torch.tensor(rows, dtype=torch.int64), {"before": encoded(histories)}
    )
