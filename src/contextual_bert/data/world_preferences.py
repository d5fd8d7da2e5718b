"""Preferences in the stylist world: styles, templates and articles, as probabilities and weights.

The formulas are those of docs/concepts/stylist-world.md. Deliberately knows nothing of drawing outfits or of scoring
them: `world_sampling.py` and `oracle.py` both read these numbers, so that they cannot disagree.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.data.world_customers import Customers
from contextual_bert.data.world_tables import (
    CATEGORIES,
    CLOTHING_SIZE,
    CLOTHING_SIZES,
    COLOURS,
    COUNTRIES,
    NO_SIZE,
    NUM_TEMPLATES,
    OCCASIONS,
    PRICE_TIERS,
    SIZED_CATEGORIES,
    SOBER_COLOURS,
    STYLE_VECTOR_SIZE,
    STYLES,
    WARM,
    Articles,
    Booleans,
    Floats,
    Integers,
    draw_templates,
)

# Log weights: how far one unit of each cause moves an article, a style or a template. Calibrated so that the oracle's
# scores are near those of the design's prototype (docs/concepts/stylist-world.md, "Difficulty").
POPULARITY, AFFINITY, ITEM_STYLE = 0.4, 3.5, 2.0
COLOUR, BRAND, PRICE, SIZE = 2.1, 2.2, 1.2, 0.8
PREFERRED_STYLE = 3.0
COLOUR_GAINS = {  # of a preferred colour, by occasion: (sober colours, bright colours)
    "everyday": (1.0, 1.0), "work": (1.2, -0.6), "party": (0.1, 1.3),
    "wedding": (0.5, 0.5), "sport": (-0.5, 1.2), "travel": (1.0, 0.6),
}  # fmt: skip
PRICE_SHIFTS = {"party": 0.5, "wedding": 1.0, "sport": -0.5}
STYLE_GAINS = {"everyday": 1.0, "work": 0.6, "party": 1.0, "wedding": 0.7, "sport": 0.5, "travel": 0.9}


@dataclass(frozen=True)
class Tendencies:
    """All parameters of a world that are not properties of single articles; log weights unless said otherwise.

    Shapes: templates (templates, categories) membership; *_style (values, styles); age_style (2, styles) for the line
    and the curve; *_template (values, templates); colour_gain (occasions, colours); preferred_style_gain and
    price_shift (occasions,); size_scope (categories,) which size is compared; scales (6,) = popularity, affinity,
    brand, price, size, article's own style among the preferred ones.

    Example:
        >>> Tendencies.draw(np.random.default_rng(0)).templates.sum(axis=1).max() <= 8
        np.True_
    """

    style_vectors: Floats
    style_bias: Floats
    occasion_style: Floats
    gender_style: Floats
    age_style: Floats
    country_style: Floats
    preferred_style_gain: Floats
    templates: Booleans
    template_bias: Floats
    occasion_template: Floats
    country_template: Floats
    colour_gain: Floats
    price_shift: Floats
    size_scope: Integers
    scales: Floats

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Self:
        """Draws a world in which the context must be combined: what a feature means depends on the others."""
        vectors = generator.standard_normal((len(STYLES), STYLE_VECTOR_SIZE))
        templates = draw_templates(generator)
        sober = np.array([colour in SOBER_COLOURS for colour in COLOURS])
        gains = np.array([COLOUR_GAINS[occasion] for occasion in OCCASIONS])
        warmth = templates @ np.array([category in WARM for category in CATEGORIES])
        coldness = np.linspace(-0.6, 0.6, len(COUNTRIES))[generator.permutation(len(COUNTRIES))]
        return cls(
            style_vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
            style_bias=0.4 * generator.standard_normal(len(STYLES)),
            occasion_style=1.2 * generator.standard_normal((len(OCCASIONS), len(STYLES))),
            gender_style=0.6 * generator.standard_normal((2, len(STYLES))),
            age_style=0.8 * generator.standard_normal((2, len(STYLES))),
            country_style=0.5 * generator.standard_normal((len(COUNTRIES), len(STYLES))),
            preferred_style_gain=PREFERRED_STYLE * np.array([STYLE_GAINS[occasion] for occasion in OCCASIONS]),
            templates=templates,
            template_bias=0.5 * generator.standard_normal(NUM_TEMPLATES),
            occasion_template=1.6 * generator.standard_normal((len(OCCASIONS), NUM_TEMPLATES)),
            country_template=coldness[:, None] * (warmth - warmth.mean()),
            colour_gain=COLOUR * np.where(sober, gains[:, :1], gains[:, 1:]),
            price_shift=np.array([PRICE_SHIFTS.get(occasion, 0.0) for occasion in OCCASIONS]),
            size_scope=np.array([SIZED_CATEGORIES.get(category, NO_SIZE) for category in CATEGORIES]),
            scales=np.array([POPULARITY, AFFINITY, BRAND, PRICE, SIZE, 0.0]),
        )

    def without_interactions(self) -> Self:
        """The additive variant: style and template ignore the customer, every preference is one term of its own."""
        zeros = {
            name: np.zeros_like(getattr(self, name))
            for name in ("occasion_style", "gender_style", "age_style", "country_style", "preferred_style_gain",
                         "occasion_template", "country_template", "price_shift")
        }  # fmt: skip
        scales = self.scales.copy()
        scales[-1] = ITEM_STYLE
        colour_gain, scope = np.full_like(self.colour_gain, COLOUR), np.full_like(self.size_scope, CLOTHING_SIZE)
        return replace(self, **zeros, colour_gain=colour_gain, size_scope=scope, scales=scales)

    def style_log_probabilities(self, customers: Customers) -> Floats:
        """log Pr(style | customer): (rows, styles)."""
        line = np.nan_to_num((customers.age - 45.0) / 20.0)
        curve = np.nan_to_num(((customers.age - 45.0) / 20.0) ** 2 - 0.5)
        logits = self.style_bias + self.occasion_style[customers.occasion]
        logits += _or_zero(self.gender_style, customers.gender) + _or_zero(self.country_style, customers.country)
        logits += line[:, None] * self.age_style[0] + curve[:, None] * self.age_style[1]
        logits += self.preferred_style_gain[customers.occasion, None] * customers.preferred_styles
        return log_normalise(logits)

    def template_log_probabilities(self, customers: Customers, has_articles: Booleans) -> Floats:
        """log Pr(template | customer): (rows, templates); -inf where a category is refused or has nothing to offer.

        `has_articles` (genders: female, male, not given; categories) says which categories offer anything.
        """
        impossible = (customers.nogos | ~has_articles[customers.gender]) @ self.templates.T
        logits = self.template_bias + self.occasion_template[customers.occasion]
        logits += _or_zero(self.country_template, customers.country)
        return log_normalise(np.where(impossible, -np.inf, logits))

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays by field name, as they are saved."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> Self:
        """The inverse of `to_arrays`; other keys are ignored."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Preferences:
    """Factors by which each row's customer multiplies the weight of an article, one table a property.

    The weight of article i for row x is the product of its entries in the tables; (rows, values) each, group 0 or 1.

    Example:
        >>> customers = Customers.draw(2, num_brands=8, has_nogos=True, generator=np.random.default_rng(0))
        >>> Preferences.of(customers, Tendencies.draw(np.random.default_rng(0))).colour.shape
        (2, 12)
    """

    group: Floats
    colour: Floats
    price: Floats
    size: Floats
    brand: Floats
    style: Floats

    @classmethod
    def of(cls, customers: Customers, tendencies: Tendencies) -> Self:
        """The tables of these customers in the world with these tendencies."""
        _, _, brand_scale, price_scale, size_scale, style_scale = tendencies.scales
        rows = len(customers)
        colour = tendencies.colour_gain[customers.occasion] * customers.preferred_colours
        wanted = customers.price + tendencies.price_shift[customers.occasion]
        tiers, runs = np.arange(len(PRICE_TIERS)), np.arange(len(CLOTHING_SIZES))
        price = np.nan_to_num(-price_scale * np.abs(tiers - wanted[:, None]))
        clothing = np.nan_to_num(-size_scale * np.abs(runs - customers.clothing_size[:, None]))
        shoe = np.nan_to_num(-size_scale * np.abs(runs - customers.shoe_size[:, None]))
        group = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])[customers.gender]
        return cls(
            group=group,
            colour=np.exp(colour),
            price=np.exp(price),
            size=np.exp(np.concatenate([np.zeros((rows, len(CLOTHING_SIZES))), clothing, shoe], axis=1)),
            brand=np.where(customers.preferred_brands, np.exp(brand_scale), 1.0),
            style=np.where(customers.preferred_styles, np.exp(style_scale), 1.0),
        )

    def dense(self, rows: Integers | slice, articles: Articles, items: Integers | slice, scope: Integers) -> Floats:
        """The weights of the given rows for the given items: (rows, items)."""
        size_column = scope[articles.category[items]] * len(CLOTHING_SIZES) + articles.size_run[items]
        weight = self.brand[rows][:, articles.brand[items]]
        for table, column in (
            (self.group, articles.target_group[items]), (self.colour, articles.colour[items]),
            (self.price, articles.price_tier[items]), (self.size, size_column), (self.style, articles.style[items]),
        ):  # fmt: skip
            weight *= table[rows][:, column]
        return weight


def article_weights(articles: Articles, tendencies: Tendencies) -> Floats:
    """exp(popularity + affinity) of every article for every style, before any customer: (styles, items)."""
    popularity_scale, affinity_scale = tendencies.scales[:2]
    affinity = tendencies.style_vectors @ articles.style_vector.T
    return np.exp(popularity_scale * articles.popularity + affinity_scale * affinity)


def log_normalise(logits: Floats) -> Floats:
    """log softmax of each row; a row may hold -inf but not only -inf."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _or_zero(table: Floats, codes: Integers) -> Floats:
    """The table's rows, and zeros for the code -1: a field left empty moves nothing."""
    return np.concatenate([table, np.zeros((1, table.shape[1]))])[codes]
