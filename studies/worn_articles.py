"""Retrieval that knows who asks: which article of a kind a customer of the stylist world wears.

A text asks for a kind of article and an occasion ("coat for work"), a document describes an article. The right one is
what the customer wears in an outfit of the world: 72 texts, a thousand documents, customers of the test in no other
part. Rows: vectors without a context, under it, and under the contexts of others; a BERT that reads the context as
words before the text; words that are shared; counted documents, for anybody and by the context. All weights are new.
Who wears what is a rule of a drawn world: the figures say what can be learned, and nothing of real searches. Results:
studies/results/worn-articles; what they say: docs/guides/sentence-vectors.md.

    python -m studies.worn_articles              # half an hour on one core, most of it the context as words
    python -m studies.worn_articles --epochs 2   # a look at it

Paper: not there. The loss: van den Oord et al. (2018); the pooling: Reimers and Gurevych (2019).
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contextual_bert.atomic_files import replacing_file
from contextual_bert.data import StylistWorld
from contextual_bert.evaluation import write_study
from contextual_bert.runs import named_rows, prepare
from contextual_bert.runs.registry import as_row
from contextual_bert.runs.study_report import study
from contextual_bert.training import ContrastiveText, Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers

RESULTS = Path(__file__).parent / "results" / "worn-articles"
NUM_PAIRS, EPOCHS, METHOD = 10_000, 8, "global_state_update"
BASELINES = ("bert_context_as_text", "tfidf", "popularity", "context_popularity")


def described(article: Mapping[str, object]) -> str:
    """Return an article in words.

    Example:
        >>> words = ("colour", "style", "category", "target_group", "brand", "price_tier")
        >>> described(dict(zip(words, ("red", "sporty", "coat", "women", "brand-003", "high"))))
        'red sporty coat for women by brand-003, price high'
    """
    told = "{colour} {style} {category} for {target_group} by {brand}, price {price_tier}"
    return told.format(**article)


def worn(world: StylistWorld, *, num_pairs: int, seed: int = 0) -> pa.Table:
    """Return a row an outfit: a text, the description of one of its articles, and the columns of the customer.

    Args:
        world: has the articles and the customers.
        num_pairs: outfits.
        seed: of the outfits, and of the articles that are chosen.
    """
    outfits, numbers = world.sample(num_pairs, seed=seed), np.random.default_rng(seed)
    articles = {row["item"]: row for row in world.articles.to_table().to_pylist()}
    chosen = [articles[str(numbers.choice(items))] for items in outfits.column("items").to_pylist()]
    occasions = [each or "any day" for each in outfits.column("occasion").to_pylist()]
    texts = [f"{article['category']} for {each}" for article, each in zip(chosen, occasions, strict=True)]
    table = outfits.drop_columns(["items", "occasion"]).append_column("text", pa.array(texts))
    return table.append_column("document", pa.array([*map(described, chosen)]))


def rows(table: Path, *, epochs: int) -> dict[str, Recipe]:
    """Row -> recipe: without a context, under it, under the contexts of others, and the baselines."""
    task = ContrastiveText(text="text", pair="document")
    settings = {"num_train_epochs": epochs}
    base = Recipe(data=str(table), task=task, customer="customer_id", conditioning=METHOD, training=settings)
    every = (
        base.changed(conditioning="none"),
        base,
        base.changed(is_context_shuffled=True),
        *(as_row(base, name) for name in BASELINES),
    )
    return {recipe.label: recipe for recipe in every}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--pairs", type=int, default=NUM_PAIRS, help="outfits in all")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each row that is trained")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of data, runs and report")
    chosen = parser.parse_args(arguments)
    path = chosen.output / "data" / "pairs.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as partial:
        pq.write_table(worn(StylistWorld.generate(), num_pairs=chosen.pairs), partial)
    every = rows(path, epochs=chosen.epochs)
    recipes = [*named_rows(every, chosen.rows.split(",") if chosen.rows else [*every]).values()]
    seeded = [
        replace(recipe, seed=seed)
        for recipe in recipes
        for seed in range(1 if recipe.conditioning in BASELINES else chosen.seeds)
    ]
    found = study("What a customer wears", seeded, chosen.output / "runs", prepared=prepare(recipes[0]))
    write_study(found, chosen.output)


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
