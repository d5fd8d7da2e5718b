"""The stylist world: a seeded generator of outfits in the paper's shape, for which the best possible score is known.

Generative story: customer -> style and template -> one article a category (docs/concepts/stylist-world.md).
Deliberately knows nothing of models, masks or metrics; `oracle.py` scores what this draws. Paper: section 4 (data).
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from contextual_bert.atomic_files import replacing_file
from contextual_bert.data.world_customers import Customers, draw_occasions
from contextual_bert.data.world_preferences import Tendencies, article_weights
from contextual_bert.data.world_sampling import ArticleSampler, draw_outfits
from contextual_bert.data.world_tables import (
    CATEGORIES,
    COLOURS,
    OCCASIONS,
    STYLES,
    TARGET_GROUPS,
    Articles,
    Booleans,
    Floats,
    Integers,
    draw_articles,
)
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.json_text import json_text, reason_of, unreadable

FORMAT = 1
OUTFITS_PER_CUSTOMER = 3
BLOCK_ROWS = 32_768
WORLD_FILE, ARRAYS_FILE, ARTICLES_FILE = "world.json", "world.safetensors", "articles.parquet"


@dataclass(frozen=True)
class StylistWorld:
    """A world of articles and tendencies from which outfits of customers are drawn.

    Formula:
        Pr(outfit | x) = sum over style s, template t of Pr(s | x) Pr(t | x) prod over categories c in t of
        Pr(item_c | c, s, x), with Pr(i | c, s, x) = weight[s, i] preference[x, i] / (their sum over the items of c).

    Symbols: x context (the paper's c), s latent style, t template, i item.

    Shapes: weights (styles, items).

    Args:
        articles: all items, sorted by category.
        tendencies: every other parameter.
        seed: the seed it was generated from.
        has_interactions: False in the additive variant.

    Relation to its siblings: `Oracle` computes Pr(item | others, context) of this world exactly.

    Reference: Denk and Peleteiro Ramallo (2020), section 4, for the shape of the data; the world itself is ours.

    Example:
        >>> world = StylistWorld.generate(60, seed=0)
        >>> table = world.sample(5, seed=1)
        >>> table.num_rows, table.column_names[:3]
        (5, ['customer_id', 'items', 'gender'])
    """

    articles: Articles
    tendencies: Tendencies
    seed: int
    has_interactions: bool = True

    @classmethod
    def generate(cls, num_items: int = 1000, *, seed: int = 0, interactions: bool = True) -> Self:
        """Draws a world; `interactions=False` gives the additive variant, without no-gos."""
        generator = np.random.default_rng(_checked_seed(seed))
        tendencies = Tendencies.draw(generator)
        articles = draw_articles(num_items, tendencies.style_vectors, generator)
        if not interactions:
            tendencies = tendencies.without_interactions()
            is_dress = articles.category == CATEGORIES.index("dress")
            group = np.where(is_dress, TARGET_GROUPS.index("unisex"), articles.target_group)
            articles = replace(articles, target_group=group)  # or a man's template would depend on his gender
        return cls(articles=articles, tendencies=tendencies, seed=seed, has_interactions=interactions)

    @property
    def num_items(self) -> int:
        """The number of articles."""
        return len(self.articles.category)

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The articles' names; an item's index here is its index everywhere in the world and its oracle."""
        return self.articles.names

    @cached_property
    def brands(self) -> tuple[str, ...]:
        """The brands' names."""
        return self.articles.brand_names

    @cached_property
    def weights(self) -> Floats:
        """exp(popularity + affinity): (styles, items)."""
        return article_weights(self.articles, self.tendencies)

    @cached_property
    def has_articles(self) -> Booleans:
        """(female, male, not given; categories): whether the category offers that customer anything."""
        group, category = self.articles.target_group, self.articles.category
        offered = [group != TARGET_GROUPS.index("men"), group != TARGET_GROUPS.index("women"), group >= 0]
        return np.array([np.bincount(category[mask], minlength=len(CATEGORIES)) > 0 for mask in offered])

    def sample(self, num_outfits: int, *, seed: int, num_customers: int | None = None) -> pa.Table:
        """Draws outfits: columns customer_id, items and CONTEXT_TYPES; the same seed gives the same table.

        Customers of different seeds are different people. The occasion is drawn for each outfit, all else once for a
        customer. By default about a third as many customers as outfits, so that customers come back.
        """
        if num_outfits < 1:
            raise ConfigurationError(
                "draws nothing", setting="num_outfits", value=num_outfits, fix="Ask for 1 outfit or more."
            )
        if num_customers is None:
            num_customers = max(1, num_outfits // OUTFITS_PER_CUSTOMER)
        if not 1 <= num_customers <= num_outfits:
            raise ConfigurationError(
                f"does not fit num_outfits={num_outfits}: every customer has at least one outfit",
                setting="num_customers",
                value=num_customers,
                fix=f"Give a number from 1 to {num_outfits}, or leave it out.",
            )
        generator = np.random.default_rng([_checked_seed(seed), self.seed])
        people = Customers.draw(
            num_customers, num_brands=len(self.brands), has_nogos=self.has_interactions, generator=generator
        )
        eagerness = generator.gamma(2.0, size=num_customers)
        returning = generator.choice(num_customers, num_outfits - num_customers, p=eagerness / eagerness.sum())
        who = generator.permutation(np.concatenate([np.arange(num_customers), returning]))
        occasion = draw_occasions(num_outfits, generator)
        ids = pa.array([f"customer-{seed}-{number:06d}" for number in range(num_customers)])
        columns = {"customer_id": ids} | people.to_columns(self.brands, generator)
        table = pa.table({name: column.take(pa.array(who)) for name, column in columns.items()})
        occasions = pa.array(OCCASIONS).take(pa.array(occasion))
        table = table.set_column(table.column_names.index("occasion"), "occasion", occasions)
        row, item = self._draw_items(people, who, occasion, generator)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_outfits))]).astype(np.int32)
        items = pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.items).take(pa.array(item)))
        return table.add_column(1, "items", items)

    def _draw_items(
        self, people: Customers, who: Integers, occasion: Integers, generator: np.random.Generator
    ) -> tuple[Integers, Integers]:
        sampler = ArticleSampler(self.articles, self.tendencies, self.weights)
        rows: list[Integers] = []
        items: list[Integers] = []
        for start in range(0, len(who), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            customers = people.take(who[block]).replace_occasion(occasion[block])
            row, item = draw_outfits(sampler, customers, self.has_articles, generator)
            rows.append(row + start)
            items.append(item)
        return np.concatenate(rows), np.concatenate(items)

    def save(self, directory: str | Path) -> None:
        """Writes the world; world.json comes last, with a hash, so that a half written world is noticed."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[np.generic]] = self.tendencies.to_arrays() | self.articles.to_arrays()
        with replacing_file(folder / ARRAYS_FILE) as path:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with replacing_file(folder / ARTICLES_FILE) as path:
            pq.write_table(self.articles.to_table(), path)
        about = {
            "format": FORMAT, "num_items": self.num_items, "seed": self.seed,
            "has_interactions": self.has_interactions, "arrays_sha256": digest, "num_brands": len(self.brands),
            "categories": CATEGORIES, "styles": STYLES, "colours": COLOURS,
        }  # fmt: skip
        with replacing_file(folder / WORLD_FILE) as path:
            path.write_text(json_text(about, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Reads a saved world; it draws the same outfits as the one that was saved."""
        folder = Path(directory)
        try:
            about = json.loads((folder / WORLD_FILE).read_text(encoding="utf-8"))
            data = (folder / ARRAYS_FILE).read_bytes()
        except FileNotFoundError as error:
            raise DataError(
                "is missing",
                file=str(error.filename),
                fix="Write a world there with StylistWorld.generate(...).save().",
            ) from error
        except PermissionError as error:
            raise unreadable(folder, error, error=DataError) from error
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"is not valid JSON ({reason_of(error)})",
                file=str(folder / WORLD_FILE),
                fix="Generate the world again.",
            ) from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            found = about.get("format") if isinstance(about, dict) else about
            raise DataError(
                f"has format {found!r}", file=str(folder / WORLD_FILE), fix=f"This version reads format {FORMAT}."
            )
        if hashlib.sha256(data).hexdigest() != about.get("arrays_sha256"):
            raise DataError(
                "does not fit world.json: it was changed or half written",
                file=str(folder / ARRAYS_FILE), fix="Generate the world again.",
            )  # fmt: skip
        arrays = load_file(folder / ARRAYS_FILE)
        return cls(
            articles=Articles.from_arrays(arrays),
            tendencies=Tendencies.from_arrays(arrays),
            seed=about["seed"],
            has_interactions=about["has_interactions"],
        )


def _checked_seed(seed: int) -> int:
    if seed < 0:
        raise ConfigurationError("is negative", setting="seed", value=seed, fix="Give an integer of 0 or more.")
    return seed
