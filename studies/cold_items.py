"""What features of items are worth: for items that training knows, and for items that it never saw.

Outfits of Table 1's small world. A tenth of the articles is left out of all training sets. Models read the articles'
seven attributes, or know articles by their numbers alone; beside them stand the oracle, which knows each article, and
an oracle that knows of the left-out articles their attributes alone. Results: studies/results/cold-items-SIZE.

    python -m studies.cold_items                     # small, 60 epochs: hours
    python -m studies.cold_items --epochs 8          # a look at it
    python -m studies.cold_items --size quick        # minutes

Paper: not there.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.data import Oracle, Split, StylistWorld, read_table
from contextual_bert.data.cold_items import with_cold_items
from contextual_bert.data.world import ARTICLES_FILE
from contextual_bert.evaluation import Interval, Scores, bootstrap, metric_of
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert.nouns import counted
from contextual_bert.runs import is_complete, run
from contextual_bert.runs.provenance import environment
from contextual_bert.runs.run_directory import load_run
from contextual_bert.runs.sweep import run_directory
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert.training.recipe import SPLIT_FIELDS
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.outfits import SIZES, TRAINING, StudyData, prepare_study

RESULTS = Path(__file__).parent / "results"
COLD_SHARE, COLD_SEED = 0.1, 0
LEFT_OUT_COLUMNS = ("price", "popularity")  # the price says the tier, and nobody knows a new article's popularity
METHOD = "global_state_update"
OWN_DECAY = 6.0  # of own vectors, in weight decays of the others
CE, RECALL = "cross_entropy_nats", "recall_at_10_percent"
KNOWN, NEW = "known", "new"
COLUMNS = tuple((kind, key) for kind in (KNOWN, NEW) for key in (CE, RECALL))


def rows(data: StudyData, folder: Path, *, epochs: int | None) -> dict[str, Recipe]:
    """The runs: with and without features, with all articles known and with a tenth left out.

    ``output``: the context is added at the output; ``decay``: own vectors have a weight decay of their own, too.
    """
    own = data.row(METHOD)
    training = {
        **own.training,
        **({"num_train_epochs": epochs, "one_mask_epochs": round(0.6 * epochs)} if epochs else {}),
    }
    articles = str(folder / "world" / ARTICLES_FILE)
    featured = SetCompletion(items="items", catalogue=articles, item_exclude=LEFT_OUT_COLUMNS)
    network = replace(featured, item_encoder="mlp", item_dropout=0.3)  # a network learns features by heart sooner
    plain = replace(own, training=training, split=str(folder / "split.json"), **SPLIT_FIELDS)
    cold = replace(plain, split=str(folder / "cold-split.json"))
    with_output = {"model": {**own.model, "has_context_at_output": True}}
    decay = OWN_DECAY * training.get("weight_decay", TRAINING["weight_decay"])
    decayed = {"training": {**training, "item_weight_decay": decay}, **with_output}
    return {
        "ids": replace(plain, name="ids"),
        "features": replace(plain, name="features", task=featured),
        "features_cold": replace(cold, name="features_cold", task=featured),
        "features_cold_mlp": replace(cold, name="features_cold_mlp", task=network),
        "ids_output": replace(plain, name="ids_output", **with_output),
        "features_output": replace(plain, name="features_output", task=featured, **with_output),
        "features_cold_output": replace(cold, name="features_cold_output", task=featured, **with_output),
        "features_decay": replace(plain, name="features_decay", task=featured, **decayed),
        "features_cold_decay": replace(cold, name="features_cold_decay", task=featured, **decayed),
        "features_cold_output_no_dropout": replace(
            cold, name="features_cold_output_no_dropout", task=replace(featured, item_dropout=0.0), **with_output
        ),
        "features_cold_mlp_output": replace(cold, name="features_cold_mlp_output", task=network, **with_output),
        **{
            f"{row}_features_cold": replace(
                data.row(baseline),
                name=f"{row}_features_cold",
                task=featured,
                split=str(folder / "cold-split.json"),
                **SPLIT_FIELDS,
            )
            for row, baseline in (("bag", "bag_context"), ("item_knn", "item_knn"))
        },
    }


def write_splits(data: StudyData, folder: Path) -> Split:
    """Write the split of the study twice, as it is and with a tenth of the articles left out; return the latter."""
    split = data.prepared.split
    cold = with_cold_items(split, pa.array(data.world.items), COLD_SHARE, seed=COLD_SEED)
    split.save(folder / "split.json")
    cold.save(folder / "cold-split.json")
    return cold


def without_identity(world: StylistWorld, cold: Sequence[str]) -> StylistWorld:
    """The world in which these articles are what an article with their attributes is on average.

    Popularity: the mean weight of the known articles. Style vector: the vector of the style that it was designed in.
    """
    articles = world.articles
    is_cold = np.isin(world.items, cold)
    popularity = articles.popularity.copy()
    popularity[is_cold] = np.log(np.exp(popularity[~is_cold]).mean())
    vectors = articles.style_vector.copy()
    vectors[is_cold] = world.tendencies.style_vectors[articles.style[is_cold]]
    return replace(world, articles=replace(articles, popularity=popularity, style_vector=vectors))


def figures(scores: Mapping[str, NDArray[Any]] | Scores) -> dict[str, NDArray[Any]]:
    """Cross-entropy and recall@10 of each scored position; a tie counts as its expected share."""
    get = scores.__getitem__ if isinstance(scores, Mapping) else lambda name: getattr(scores, name)
    inside = np.clip((10 - get("num_better")) / get("num_tied"), 0, 1)
    return {CE: -get("log_probability"), RECALL: 100 * inside}


def measure(data: StudyData, runs: Mapping[str, Sequence[Path]], cold: Sequence[str]) -> dict[str, Any]:
    """All numbers: by row, of known and of new articles."""
    asked = Asked.of(data.prepared.recipe.data, data.prepared.split, cold, owner="customer_id")
    found: list[dict[str, Any]] = []
    for name, world in (("oracle", data.world), ("oracle_of_attributes", without_identity(data.world, cold))):
        found += _by_kind(name, figures(Oracle(world).score_table(asked.table)), asked.is_new, asked.owners)
    return {"figures": found + figures_of_runs(runs, asked), "provenance": environment()}


class Asked(NamedTuple):
    """The items that the test part asks for: in its order, each of them once."""

    table: pa.Table
    starts: Mapping[int, int]  # row of the data -> its first item
    is_new: NDArray[np.bool_]
    owners: NDArray[Any]

    @classmethod
    def of(cls, data: str, split: Split, cold: Sequence[str], *, owner: str) -> "Asked":
        """Read them; the owner is the customer over whom intervals are drawn."""
        test = split.rows("test")
        table = read_table(data).take(pa.array(test))
        sets = table["items"].to_pylist()
        sizes = np.array([len(each) for each in sets])
        starts = {int(row): int(start) for row, start in zip(test, np.cumsum(sizes) - sizes, strict=True)}
        owners = np.repeat(np.asarray(table[owner].to_pylist()), sizes)
        return cls(table, starts, np.isin(np.concatenate([np.asarray(each) for each in sets]), cold), owners)


def figures_of_runs(runs: Mapping[str, Sequence[Path]], asked: Asked) -> list[dict[str, Any]]:
    """The numbers of finished runs, of known and of new items: of what all of them scored, the mean over their seeds.

    A run by ids does not score an item that no set of its training part has.
    """
    values: dict[str, list[dict[str, NDArray[Any]]]] = {}
    common = np.ones(len(asked.is_new), np.bool_)
    for name, directories in runs.items():
        for directory in directories:
            scores = load_run(directory, name=name).scores
            places = np.array([asked.starts[int(row)] for row in scores.example_id]) + scores.position
            common &= np.isin(np.arange(len(common)), places)
            of_run = {key: np.zeros(len(common)) for key in (CE, RECALL)}
            for key, each in figures(scores).items():
                of_run[key][places] = each
            values.setdefault(name, []).append(of_run)
    found: list[dict[str, Any]] = []
    for name, seeds in values.items():
        means = {key: np.mean([each[key][common] for each in seeds], axis=0) for key in (CE, RECALL)}
        rows = _by_kind(name, means, asked.is_new[common], asked.owners[common])
        for row, kind in zip(rows, (~asked.is_new[common], asked.is_new[common]), strict=True):
            row["seeds"] = {key: [float(each[key][common][kind].mean()) for each in seeds] for key in (CE, RECALL)}
        found += rows
    return found


def _by_kind(
    name: str, values: Mapping[str, NDArray[Any]], is_new: NDArray[np.bool_], owners: NDArray[Any]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind, chosen in ((KNOWN, ~is_new), (NEW, is_new)):
        intervals = {key: asdict(bootstrap(values[key][chosen], owners[chosen])) for key in (CE, RECALL)}
        found.append({"row": name, "articles": kind, "num_rows": int(chosen.sum()), **intervals})
    return found


def markdown(found: Mapping[str, Any], *, size: str, epochs: int) -> str:
    """The report."""
    table = table_of(found["figures"], "Articles that are left out of training, and all others")
    where = found["provenance"]
    numbers = {each["row"]: len(each["seeds"][CE]) for each in found["figures"] if "seeds" in each}
    seeds = ", ".join(f"{row} {counted(number, 'seed')}" for row, number in numbers.items())
    command = f"python -m studies.cold_items --size {size} --epochs {epochs} --seeds {max(numbers.values(), default=1)}"
    notes = (
        f"{METHOD}, {epochs} epochs. {seeds}. ids, features: no article is left out of training. ..._cold: a tenth is, "
        "and the columns 'new' are of these. ..._output: the context is added at the output. ..._decay: so it is, and "
        f"own vectors have {OWN_DECAY:g} times the weight decay.",
        "features: category, brand, colour, price tier, target group, size run and style of each article.",
        "oracle: the true probabilities. oracle_of_attributes: of left-out articles it knows their attributes alone, "
        "with the mean popularity of the others and the vector of their style.",
        "Figures of new articles alone can be bought by proposing all of them more often, at a price in the others.",
        "95% intervals, bootstrap over customers, who were not seen in training.",
        f"Commit {where['commit']}, {where['hardware']}; {command}.",
    )
    return render_markdown("Features of items", [table], notes)


def table_of(found: Sequence[Mapping[str, Any]], caption: str) -> Table:
    """A row a run, and its figures of known and of new items."""
    cells = {(each["row"], each["articles"]): each for each in found}
    return Table(
        caption,
        ("row", *(f"{kind}, {metric_of(key).heading}" for kind, key in COLUMNS)),
        tuple(
            (name, *(cell(cells[name, kind][key], key) for kind, key in COLUMNS))
            for name in dict.fromkeys(each["row"] for each in found)
        ),
    )


def trained(recipes: Mapping[str, Recipe], folder: Path, *, num_seeds: int = 1) -> dict[str, list[Path]]:
    """Train what is missing, and return where the runs of each row are, one a seed."""
    found: dict[str, list[Path]] = {name: [] for name in recipes}
    for seed in range(num_seeds):
        for name, recipe in recipes.items():
            own = replace(recipe, seed=seed)
            directory = run_directory(folder, own)
            if not is_complete(directory):
                run(own, directory, is_resumed=True)
            found[name].append(directory)
    return found


def write_report(output: Path, found: Mapping[str, Any], text: str) -> None:
    """Write the numbers and the report, and print the latter."""
    with replacing_directory(output) as folder:
        (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (folder / "report.md").write_text(text, encoding="utf-8")
    print(text)


def cell(interval: Mapping[str, Any], key: str) -> str:
    """A number with its interval."""
    return interval_cell(Interval(**interval), metric_of(key))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, measure, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0 on")
    parser.add_argument("--rows", default="", help="names of rows with commas; default: all")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of world and models")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args(arguments)
    folder = chosen.runs / f"cold-items-{chosen.size}"
    data = prepare_study(folder / "world", size=chosen.size)
    cold = write_splits(data, folder)
    wanted = [name for name in chosen.rows.split(",") if name]
    recipes = {
        name: recipe
        for name, recipe in rows(data, folder, epochs=chosen.epochs).items()
        if not wanted or name in wanted
    }
    directories = trained(recipes, folder / f"runs-{chosen.epochs or 'all'}", num_seeds=chosen.seeds)
    found = measure(data, directories, cold.cold_items)
    epochs = chosen.epochs or data.size.training["num_train_epochs"]
    text = markdown(found, size=chosen.size, epochs=epochs)
    write_report(chosen.output or RESULTS / f"cold-items-{chosen.size}", found, text)


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
