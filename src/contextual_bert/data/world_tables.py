"""The fixed parts of the stylist world: its names, its articles and its outfit templates, drawn from a generator.

Deliberately knows nothing of customers, outfits or probabilities (`world.py` puts those together) nor of any model.
The paper's data are private (section 4); this world has their shape and, unlike them, a known best possible score.
"""

import itertools
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

CATEGORIES = (
    "tshirt", "shirt", "sweater", "blazer", "coat", "trousers", "jeans", "dress", "shoes", "bag", "belt", "hat",
)  # fmt: skip
STYLES = (
    "minimal", "classic", "sporty", "streetwear", "romantic", "bohemian", "preppy", "punk", "grunge", "vintage",
    "glamour", "business", "nautical", "country", "outdoor", "artsy", "gothic", "retro", "scandinavian", "military",
    "festival", "futuristic", "casual", "elegant",
)  # fmt: skip
COLOURS = (
    "black", "white", "grey", "navy", "beige", "brown", "red", "green", "blue", "yellow", "pink", "purple",
)  # fmt: skip
TARGET_GROUPS = ("women", "men", "unisex")
PRICE_TIERS = ("low", "middle", "high", "luxury")
# Euros of an article of the middle tier, one a category, and by what the tiers multiply them.
PRICES = (22.0, 45.0, 55.0, 120.0, 160.0, 65.0, 75.0, 85.0, 90.0, 95.0, 30.0, 28.0)
TIER_FACTORS = (0.5, 1.0, 1.9, 4.5)
CLOTHING_SIZES = ("XS", "S", "M", "L", "XL", "XXL")
OCCASIONS = ("everyday", "work", "party", "wedding", "sport", "travel")
COUNTRIES = ("Austria", "Denmark", "France", "Germany", "Italy", "Norway", "Poland", "Spain")

# A customer may refuse these; the other four are the first template, so nobody is left without an outfit.
REFUSABLE = ("sweater", "blazer", "coat", "jeans", "dress", "bag", "belt", "hat")
BASICS = ("tshirt", "shirt", "trousers", "shoes")
TOPS = ("tshirt", "shirt", "sweater")
BOTTOMS = ("trousers", "jeans", "dress")
WARM = ("sweater", "coat", "hat")
SOBER_COLOURS = ("black", "white", "grey", "navy", "beige", "brown")

# Which of the customer's sizes an article's run of sizes is compared with: none, clothing or shoes.
NO_SIZE, CLOTHING_SIZE, SHOE_SIZE = 0, 1, 2
SIZED_CATEGORIES = {
    "shirt": CLOTHING_SIZE, "blazer": CLOTHING_SIZE, "trousers": CLOTHING_SIZE, "jeans": CLOTHING_SIZE,
    "dress": CLOTHING_SIZE, "shoes": SHOE_SIZE,
}  # fmt: skip

NUM_TEMPLATES = 40
STYLE_VECTOR_SIZE = 16
MIN_ITEMS = 4 * len(CATEGORIES)
MAX_BRANDS = 200
ITEMS_PER_BRAND = 25
TEMPLATE_SIZES = {4: 0.40, 5: 0.34, 6: 0.14, 7: 0.08, 8: 0.04}


@dataclass(frozen=True)
class Articles:
    """All articles of a world, sorted by category; one array a property.

    Shapes: every array is (num_items,) except style_vector (num_items, STYLE_VECTOR_SIZE).

    Args:
        category: index into CATEGORIES, never falling.
        brand: index into the world's brands.
        colour: index into COLOURS.
        price_tier: index into PRICE_TIERS.
        target_group: index into TARGET_GROUPS.
        size_run: index into CLOTHING_SIZES of the size the article is cut best for (for shoes: the same scale).
        style: index into STYLES of the style the article was designed in.
        popularity: log weight before anything about the customer is known.
        style_vector: unit vector; its product with a style's vector is the affinity.

    Example:
        >>> articles = draw_articles(60, np.eye(24, 16), np.random.default_rng(0))
        >>> articles.names[0], len(articles.names), len(articles.brand_names)
        ('tshirt-0', 60, 8)
    """

    category: Integers
    brand: Integers
    colour: Integers
    price_tier: Integers
    target_group: Integers
    size_run: Integers
    style: Integers
    popularity: Floats
    style_vector: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """Readable names such as 'coat-17': the category and a number within it."""
        numbers = np.arange(len(self.category)) - self.starts[self.category]
        return tuple(f"{CATEGORIES[c]}-{n}" for c, n in zip(self.category.tolist(), numbers.tolist(), strict=True))

    @property
    def starts(self) -> Integers:
        """Return the start of each category, and the number of items at the end: (num_categories + 1,)."""
        return np.searchsorted(self.category, np.arange(len(CATEGORIES) + 1)).astype(np.int64)

    @property
    def brand_names(self) -> tuple[str, ...]:
        """'brand-000' and so on: as many as `num_brands` says for this number of items."""
        return tuple(f"brand-{index:03d}" for index in range(num_brands(len(self.category))))

    @property
    def prices(self) -> Floats:
        """Euros, by category and price tier, and up to a fifth more or less from article to article.

        Outfits depend on the tier alone: prices are there for budgets.
        """
        spread = 1 + 0.2 * np.sin(np.arange(len(self.category)))
        return np.round(np.array(PRICES)[self.category] * np.array(TIER_FACTORS)[self.price_tier] * spread) - 0.1

    def to_table(self) -> pa.Table:
        """A table for people, and a catalogue: names where the arrays hold indices, and no style vectors."""
        worded = {
            "category": (CATEGORIES, self.category), "brand": (self.brand_names, self.brand),
            "colour": (COLOURS, self.colour), "price_tier": (PRICE_TIERS, self.price_tier),
            "target_group": (TARGET_GROUPS, self.target_group), "size_run": (CLOTHING_SIZES, self.size_run),
            "style": (STYLES, self.style),
        }  # fmt: skip
        columns = {name: pa.array(words).take(pa.array(index)) for name, (words, index) in worded.items()}
        return pa.table({"item": pa.array(self.names), **columns, "price": self.prices, "popularity": self.popularity})

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays under 'article_<field>', as they are saved."""
        return {f"article_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> Self:
        """The inverse of `to_arrays`; other keys are ignored."""
        return cls(**{field.name: arrays[f"article_{field.name}"] for field in fields(cls)})  # pyright: ignore[reportArgumentType]


def num_brands(num_items: int) -> int:
    """Return the number of brands for this number of items. Each needs enough articles to be worth preferring."""
    return int(np.clip(num_items // ITEMS_PER_BRAND, 8, MAX_BRANDS))


def draw_articles(num_items: int, style_vectors: Floats, generator: np.random.Generator) -> Articles:
    """Draws the articles; every category has at least one article for everybody except 'dress', which is women's."""
    if num_items < MIN_ITEMS:
        raise ConfigurationError(
            f"is too small for a stylist world: it needs at least {MIN_ITEMS}, four articles for each of "
            f"{len(CATEGORIES)} categories",
            setting="num_items",
            value=num_items,
            fix=f"Ask for {MIN_ITEMS} items or more.",
        )
    category = np.sort(np.arange(num_items) % len(CATEGORIES))
    starts = np.searchsorted(category, np.arange(len(CATEGORIES) + 1))
    target_group = generator.choice(3, num_items, p=[0.42, 0.36, 0.22])
    target_group[starts[:-1]] = TARGET_GROUPS.index("unisex")
    target_group[category == CATEGORIES.index("dress")] = TARGET_GROUPS.index("women")

    style = generator.integers(len(style_vectors), size=num_items)
    noise = generator.standard_normal((num_items, style_vectors.shape[1])) / np.sqrt(style_vectors.shape[1])
    style_vector = style_vectors[style] + 0.5 * noise
    style_vector /= np.linalg.norm(style_vector, axis=1, keepdims=True)

    # A Zipf curve within each category, in random order: a few articles that everybody buys and a long tail.
    popularity = np.empty(num_items)
    for start, stop in itertools.pairwise(starts.tolist()):
        popularity[start:stop] = generator.permutation(-np.log(np.arange(stop - start) + 2.0))
    brands = num_brands(num_items)
    brand_weight = 1.0 / (np.arange(brands) + 10.0)
    return Articles(
        category=category.astype(np.int64),
        brand=generator.choice(brands, num_items, p=brand_weight / brand_weight.sum()).astype(np.int64),
        colour=generator.integers(len(COLOURS), size=num_items),
        price_tier=generator.choice(len(PRICE_TIERS), num_items, p=[0.35, 0.35, 0.2, 0.1]).astype(np.int64),
        target_group=target_group.astype(np.int64),
        size_run=generator.integers(len(CLOTHING_SIZES), size=num_items),
        style=style,
        popularity=popularity,
        style_vector=style_vector,
    )


def draw_templates(generator: np.random.Generator) -> Booleans:
    """Draws NUM_TEMPLATES different sets of 4 to 8 categories, (templates, categories); the first is BASICS.

    Every template has shoes and exactly one bottom, and at least one top unless the bottom is a dress.
    """
    sizes, shares = np.array(list(TEMPLATE_SIZES)), np.array(list(TEMPLATE_SIZES.values()))
    templates: list[frozenset[str]] = [frozenset(BASICS)]
    while len(templates) < NUM_TEMPLATES:
        bottom = str(generator.choice(BOTTOMS, p=[0.45, 0.35, 0.2]))
        chosen = {"shoes", bottom} if bottom == "dress" else {"shoes", bottom, str(generator.choice(TOPS))}
        rest = [name for name in CATEGORIES if name not in chosen and name not in BOTTOMS]
        size = int(generator.choice(sizes, p=shares))
        chosen |= {str(name) for name in generator.choice(rest, size - len(chosen), replace=False)}
        if frozenset(chosen) not in templates:
            templates.append(frozenset(chosen))
    return np.array([[category in template for category in CATEGORIES] for template in templates])
