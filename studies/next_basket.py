"""The next basket of shoppers of Ta-Feng, from what they bought before: the public benchmark of next baskets.

Baskets, parts and figures of "A Next Basket Recommendation Reality Check" (Li et al. 2023): a model learns from the
histories of all customers and the next baskets of `train`, is chosen on `validation`, and each item is ranked among all
products. The published baskets are in no order. The next baskets that the benchmark holds out are not in the file.

    python -m studies.next_basket PATH/next_basket.parquet
    python -m studies.next_basket PATH/next_basket.parquet --rows gp_top_freq,tifu_knn --output counted
    python -m studies.next_basket PATH/next_basket.parquet --exclude age_group,area --output history-alone

A run that is complete is not run again, an interrupted one goes on; --report-only reports on those that are complete.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from contextual_bert.data import read_table, write_table
from contextual_bert.evaluation import write_study
from contextual_bert.runs import Peers, SetCompletionTask, named_rows, prepare, study
from contextual_bert.runs.registry import as_row
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.cards import TaskCard
from studies.commands import check_kept_report

# Relative, so that the recipes of the runs name no folder of this machine.
RESULTS = Path(os.path.relpath(Path(__file__).parent / "results" / "next-basket"))
CUSTOMER, HISTORY, ITEMS, PART = "customer", "history", "items", "part"
METHOD = "global_state_update"
BASELINES = ("g_top_freq", "p_top_freq", "gp_top_freq", "up_cf", "tifu_knn", "bag_context")
MODEL = {
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.3,
}
TRAINING = {
    "num_train_epochs": 6,
    "per_device_train_batch_size": 256,
    "learning_rate": 2e-3,
    "weight_decay": 0.1,
}
CHOICES = (
    "Settings: chosen on the validation part, which the figures are of, among six trainings of one seed; the settings "
    "of the counted baselines too."
)


def sets_of(table: pa.Table) -> pa.Table:
    """Return the benchmark as sets with histories: the next baskets, and one basket of who has none in training.

    Args:
        table: a row a customer, with the columns of the published file.
    """
    rows: list[dict[str, Any]] = []
    for row in table.to_pylist():
        before = [_named(basket) for basket in row["baskets"]]
        person = {CUSTOMER: str(row["user_id"]), "age_group": str(row["age_group"]), "area": str(row["area"])}
        if row["next_basket"] is not None:
            rows.append({**person, HISTORY: before, ITEMS: _named(row["next_basket"]), PART: row["part"]})
        if row["part"] != "train" and len(before) > 1:
            rows.append({**person, HISTORY: before[:-1], ITEMS: before[-1], PART: "train"})
    return pa.Table.from_pylist(rows)


def _named(basket: list[int]) -> list[str]:
    return [f"product {number}" for number in sorted({*basket})]


def prepare_baskets(data: Path, folder: Path, *, exclude: Sequence[str] = ()) -> SetCompletionTask:
    """Write the sets to a folder, and read them, without the columns that are left out."""
    path = folder / "sets.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_table(sets_of(read_table(data)), path)
    recipe = Recipe(
        data=str(path),
        task=SetCompletion(items=ITEMS, hide="set", history_baskets="any"),
        customer=CUSTOMER,
        split_column=PART,
        conditioning=METHOD,
        model=MODEL,
        training=TRAINING,
        exclude=tuple(exclude),
    )
    return cast(SetCompletionTask, prepare(recipe))


def rows_of(base: Recipe) -> dict[str, Recipe]:
    """Row -> recipe: the method with all it knows, with the history alone, with contexts of others, the baselines."""
    recipes = [
        base,
        replace(base, is_context_shuffled=True),
        *(as_row(replace(base, training={}, model={}), name) for name in BASELINES),
    ]
    return {recipe.label: recipe for recipe in recipes}


def card(ready: SetCompletionTask) -> TaskCard:
    """What the task is about."""
    return TaskCard(
        name="next-basket",
        title="Ta-Feng: the next basket of a shopper, from her baskets before",
        description="All items of the next basket are hidden and ranked among all products, given the baskets before, "
        "the age group and the area.",
        context=ready.processor.schema.names if ready.processor.schema is not None else (),
        licence="public research data",
        citation="Li, Jullien, Ariannezhad and de Rijke (2023), A Next Basket Recommendation Reality Check",
        split="as published: a customer's other baskets are learned from, her next one is not",
        main_metric="cross_entropy_nats",
        data_digest=ready.split.data_digest,
    )


def main() -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="next_basket.parquet")
    parser.add_argument("--exclude", default="", help="columns that are not read, separated by commas")
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of runs and report")
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report on the runs that are complete"
    )
    arguments = parser.parse_args()
    names = arguments.rows.split(",") if arguments.rows else []
    check_kept_report(arguments.output, names)
    excluded = [name for name in arguments.exclude.split(",") if name]
    ready = prepare_baskets(arguments.data, arguments.output / "runs", exclude=excluded)
    print(*ready.lines(), sep="\n")
    every = rows_of(ready.recipe)
    rows = named_rows(every, names or [*every])
    about = card(ready)
    found = study(
        about.title,
        [row.with_seed(seed) for seed in range(arguments.seeds) for row in rows.values()],
        arguments.output / "runs",
        prepared=ready,
        peers=Peers(reference="tifu_knn" if "tifu_knn" in rows else None),
        is_report_only=arguments.report_only,
    )
    found = replace(found, about=(*about.lines()[1:], CHOICES))
    print(*found.texts, *write_study(found, arguments.output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
