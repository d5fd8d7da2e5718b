"""What a customer's earlier outfits are worth beside what she says of herself, in the stylist world.

Customers of the world come back, and each outfit is drawn from all of her preferences. Models are told all of them, the
person and the occasion but no preference, or the occasion alone; each once with her earlier outfits and once without.
Who has told everything is known: given that, the outfits are independent, so the oracle stays exact and earlier outfits
can add nothing. Who has told less leaves an oracle that is a bound: what she did not say would have to be summed over.

    python -m studies.returning_customers                # half an hour on two cores
    python -m studies.returning_customers --size quick   # minutes

Customers of the test part are in no other part. Paper: not there.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from contextual_bert.data import Oracle, StylistWorld, read_table
from contextual_bert.data.world_customers import CONTEXT_TYPES
from contextual_bert.evaluation import bootstrap, metric_of, paired_bootstrap
from contextual_bert.evaluation.tables import Table, difference_cell, render_markdown
from contextual_bert.runs import prepare
from contextual_bert.runs.provenance import environment
from contextual_bert.runs.run_directory import load_run
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.cold_items import CE, METHOD, RECALL, RESULTS, cell, figures, trained, write_report

CUSTOMER, HISTORY = "customer_id", "earlier_outfits"
MOST_BEFORE, MANY = 10, 5
PREFERENCES = (
    *("preferred_styles", "preferred_colours", "preferred_brands", "nogo_types", "clothing_size", "shoe_size"),
    "price_preference",
)
NOISE = ("hair_colour", "newsletter", "account_age_days")  # mean nothing in this world
TOLD: Mapping[str, tuple[str, ...]] = {
    "everything": tuple(name for name in CONTEXT_TYPES if name not in NOISE),
    "the person and the occasion": tuple(name for name in CONTEXT_TYPES if name not in (*NOISE, *PREFERENCES)),
    "the occasion": ("occasion",),
}
MODEL = {"hidden_size": 128, "num_hidden_layers": 2, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclass(frozen=True)
class Size:
    """How much is drawn, and how long it is trained on."""

    num_items: int
    num_outfits: int
    num_customers: int
    num_epochs: int


SIZES = {"quick": Size(100, 3_000, 500, 2), "small": Size(400, 24_000, 3_000, 8)}


def outfits(world: StylistWorld, size: Size) -> pa.Table:
    """Outfits with those that the same customer had before, the oldest first."""
    table = world.sample(size.num_outfits, seed=1, num_customers=size.num_customers)
    before: dict[str, list[list[str]]] = {}
    histories: list[list[list[str]]] = []
    for customer, items in zip(table[CUSTOMER].to_pylist(), table["items"].to_pylist(), strict=True):
        own = before.setdefault(customer, [])
        histories.append(own[-MOST_BEFORE:])
        own.append(items)
    return table.append_column(HISTORY, pa.array(histories, pa.list_(pa.list_(pa.string()))))


def recipes_of(data: Path, split: Path, *, size: Size) -> dict[str, Recipe]:
    """Row -> recipe: what is told, with and without the earlier outfits."""
    epochs = size.num_epochs
    found: dict[str, Recipe] = {}
    for told, fields in TOLD.items():
        for has_history in (False, True):
            kept = {*fields, *((HISTORY,) if has_history else ())}
            name = f"{told}, and earlier outfits" if has_history else told
            found[name] = Recipe(
                name=name.replace(", and ", "-with-").replace(" ", "-"),
                data=str(data),
                task=SetCompletion(items="items"),
                customer=CUSTOMER,
                split=str(split),
                exclude=tuple(column for column in (*CONTEXT_TYPES, HISTORY) if column not in kept),
                conditioning=METHOD,
                model=MODEL,
                training={"num_train_epochs": epochs, "masks_per_set": 2, "one_mask_epochs": epochs // 2},
                field_selection="off",
            )
    return found


def measure(world: StylistWorld, data: Path, runs: Mapping[str, Path]) -> dict[str, Any]:
    """All numbers: of all test outfits, and of those with many before."""
    table = read_table(data)
    scores = {name: load_run(directory, name=name).scores for name, directory in runs.items()}
    first = next(iter(scores.values()))
    for each in scores.values():
        if not (np.array_equal(each.example_id, first.example_id) and np.array_equal(each.position, first.position)):
            raise AssertionError("the runs were not asked the same")
    rows = np.unique(first.example_id)
    asked = table.take(pa.array(rows))
    oracle = figures(Oracle(world).score_table(asked, example_ids=rows))
    owners = np.asarray(table[CUSTOMER].to_pylist())[first.example_id]
    num_before = np.array([len(each) for each in table[HISTORY].to_pylist()])[first.example_id]
    values = {"oracle, told everything": oracle, **{name: figures(each) for name, each in scores.items()}}
    kinds: Mapping[str, NDArray[Any]] = {
        "all": np.ones(len(owners), np.bool_),
        "none before": num_before == 0,
        f"{MANY} or more before": num_before >= MANY,
    }
    found = [
        {
            "row": name,
            "outfits": kind,
            "num_rows": int(chosen.sum()),
            **{key: asdict(bootstrap(each[key][chosen], owners[chosen])) for key in (CE, RECALL)},
        }
        for name, each in values.items()
        for kind, chosen in kinds.items()
    ]
    gains = [
        {
            "told": told,
            "outfits": kind,
            "difference": paired_bootstrap(
                values[f"{told}, and earlier outfits"][CE][chosen], values[told][CE][chosen], owners[chosen]
            ),
        }
        for told in TOLD
        for kind, chosen in kinds.items()
    ]
    return {"figures": found, "gains": gains, "kinds": [*kinds], "provenance": environment()}


def markdown(found: Mapping[str, Any], *, size: str) -> str:
    """The report."""
    cells = {(each["row"], each["outfits"]): each for each in found["figures"]}
    gains = {(each["told"], each["outfits"]): each["difference"] for each in found["gains"]}
    kinds, rows = found["kinds"], dict.fromkeys(each["row"] for each in found["figures"])
    headings = tuple(f"{kind}: {metric_of(CE).heading}" for kind in kinds)
    nats = Table(
        "By what is told, and how many outfits a customer had before",
        ("told", *headings, f"all: {metric_of(RECALL).heading}"),
        tuple(
            (name, *(cell(cells[name, kind][CE], CE) for kind in kinds), cell(cells[name, "all"][RECALL], RECALL))
            for name in rows
        ),
    )
    worth = Table(
        "What the earlier outfits add, nats",
        ("told", *kinds),
        tuple(
            (told, *(difference_cell(gains[told, kind], metric_of(CE), num_resamples=2000) for kind in kinds))
            for told in TOLD
        ),
    )
    own, where = SIZES[size], found["provenance"]
    notes = (
        f"{METHOD}, {own.num_epochs} epochs, one seed; {own.num_items:,} articles, {own.num_outfits:,} outfits of "
        f"{own.num_customers:,} customers. Of each, at most {MOST_BEFORE} earlier outfits are read.",
        "Earlier outfits say nothing beyond what is told where everything is: what the models find there is chance, or "
        "fields that are read the better for them. The oracle is told everything, so it is a bound for all rows.",
        "95% intervals, bootstrap over customers, who were not seen in training; differences are paired.",
        f"Commit {where['commit']}, {where['hardware']}; python -m studies.returning_customers --size {size}.",
    )
    return render_markdown("What a history is worth beside what is told", [worth, nats], notes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, measure, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of data and models")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args(arguments)
    folder, size = chosen.runs / f"returning-customers-{chosen.size}", SIZES[chosen.size]
    folder.mkdir(parents=True, exist_ok=True)
    world = StylistWorld.generate(size.num_items, seed=0)
    data, split = folder / "outfits.parquet", folder / "split.json"
    if not data.exists():
        parquet.write_table(outfits(world, size), data)
    if not split.exists():
        whole = Recipe(data=str(data), task=SetCompletion(items="items"), customer=CUSTOMER, exclude=(HISTORY,))
        prepare(whole).split.save(split)
    recipes = recipes_of(data, split, size=size)
    runs = {name: directory for name, [directory] in trained(recipes, folder / "models").items()}
    found = measure(world, data, runs)
    text = markdown(found, size=chosen.size)
    kept = {**found, "gains": [{**each, "difference": asdict(each["difference"])} for each in found["gains"]]}
    write_report(chosen.output or RESULTS / "returning-customers", kept, text)


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
