"""Draws outfits of the stylist world: style, template, then one article a category, exactly and vectorised.

An article is drawn by rejection: propose from popularity x affinity x colour, whose sums are known beforehand, and
accept by brand, price and size; the few rows left over are drawn from their full list of weights. Both are exact, so
the cost does not grow with the number of items. Deliberately knows nothing of tables, files or scoring.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from contextual_bert.data.world_customers import Customers
from contextual_bert.data.world_preferences import Preferences, Tendencies
from contextual_bert.data.world_tables import (
    CATEGORIES,
    CLOTHING_SIZES,
    COLOURS,
    STYLES,
    Articles,
    Booleans,
    Floats,
    Integers,
)

REJECTION_ROUNDS = 160
DENSE_ROWS = 256  # rows whose full weights are held at once


@dataclass(frozen=True)
class ArticleSampler:
    """Draws one article for each slot (row, category, style) with probability proportional to its weight.

    Args:
        articles: of the world.
        tendencies: of the world.
        weights: `article_weights` of the two.
    """

    articles: Articles
    tendencies: Tendencies
    weights: Floats

    @cached_property
    def _by_colour(self) -> Integers:
        """The articles, sorted by category and then by colour."""
        return np.lexsort((self.articles.colour, self.articles.category))

    @cached_property
    def _cells(self) -> Integers:
        """Return the start of each (category, colour) in `_by_colour`, and the number of items at the end."""
        key = (self.articles.category * len(COLOURS) + self.articles.colour)[self._by_colour]
        return np.searchsorted(key, np.arange(len(CATEGORIES) * len(COLOURS) + 1))

    def draw(
        self,
        customers: Customers,
        *,
        row: Integers,
        category: Integers,
        style: Integers,
        generator: np.random.Generator,
    ) -> Integers:
        """The articles of the slots, (slots,); slots of one style and gender share their proposal's sums."""
        preferences = Preferences.of(customers, self.tendencies)
        chosen = np.empty(len(row), dtype=np.int64)
        key = style * 3 + customers.gender[row] + 1
        order = np.argsort(key, kind="stable")
        bounds = np.searchsorted(key[order], np.arange(3 * len(STYLES) + 1))
        for start, stop in itertools.pairwise(bounds.tolist()):
            slots = order[start:stop]
            if len(slots):
                chosen[slots] = self._draw_group(
                    preferences, row[slots], category[slots], style=int(style[slots[0]]), generator=generator
                )
        return chosen

    def _draw_group(
        self, preferences: Preferences, row: Integers, category: Integers, *, style: int, generator: np.random.Generator
    ) -> Integers:
        articles, by_colour, cells = self.articles, self._by_colour, self._cells
        is_offered = preferences.group[row[0], articles.target_group[by_colour]]
        sums = np.concatenate([[0.0], np.cumsum(self.weights[style, by_colour] * is_offered)])
        mass = np.diff(sums[cells]).reshape(-1, len(COLOURS))
        colour_sums = np.ascontiguousarray(np.cumsum(mass[category] * preferences.colour[row], axis=1).T)
        bound = preferences.price.max(axis=1) * preferences.brand.max(axis=1) * preferences.style.max(axis=1)
        chosen, pending = np.full(len(row), -1), np.arange(len(row))
        for _ in range(REJECTION_ROUNDS):
            uniform = generator.random((3, len(pending)))
            colour_sum = colour_sums[:, pending]
            colour = (colour_sum <= uniform[0] * colour_sum[-1]).sum(axis=0)
            cell = category[pending] * len(COLOURS) + np.minimum(colour, len(COLOURS) - 1)
            low, high = sums[cells[cell]], sums[cells[cell + 1]]
            place = np.searchsorted(sums, low + uniform[1] * (high - low), side="right") - 1
            item = by_colour[np.clip(place, cells[cell], np.maximum(cells[cell + 1] - 1, cells[cell]))]
            who = row[pending]
            size_column = self.tendencies.size_scope[category[pending]] * len(CLOTHING_SIZES) + articles.size_run[item]
            weight = (
                preferences.price[who, articles.price_tier[item]] * preferences.size[who, size_column]
                * preferences.brand[who, articles.brand[item]] * preferences.style[who, articles.style[item]]
            ) * preferences.group[who, articles.target_group[item]]  # fmt: skip
            is_accepted = uniform[2] * bound[who] < weight
            chosen[pending[is_accepted]] = item[is_accepted]
            pending = pending[~is_accepted]
            if not len(pending):
                return chosen
        for number in range(len(articles.starts) - 1):
            slots = pending[category[pending] == number]
            items = np.arange(articles.starts[number], articles.starts[number + 1])
            for block in np.split(slots, range(DENSE_ROWS, len(slots), DENSE_ROWS)):
                weight = preferences.dense(row[block], articles, items, self.tendencies.size_scope)
                total = np.cumsum(weight * self.weights[style, items], axis=1)
                aim = generator.random((len(block), 1)) * total[:, -1:]
                chosen[block] = items[(total <= aim).sum(axis=1)]
        return chosen


def draw_outfits(
    sampler: ArticleSampler, customers: Customers, has_articles: Booleans, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """(row, item) of every slot of the customers' outfits, rows in order, items of a row in random order."""
    tendencies = sampler.tendencies
    style = _draw_index(tendencies.style_log_probabilities(customers), generator)
    template = _draw_index(tendencies.template_log_probabilities(customers, has_articles), generator)
    row, category = np.nonzero(tendencies.templates[template])
    item = sampler.draw(customers, row=row, category=category, style=style[row], generator=generator)
    order = np.lexsort((generator.random(len(row)), row))
    return row, item[order]


def _draw_index(log_probabilities: Floats, generator: np.random.Generator) -> Integers:
    sums = np.cumsum(np.exp(log_probabilities), axis=1)
    aim = generator.random((len(sums), 1)) * sums[:, -1:]
    return (sums <= aim).sum(axis=1)
