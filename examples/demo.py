"""The main job in five minutes: a stylist world, a model that knows the customer and one that does not.

Run it with ``make demo``. Everything is written below ./demo.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contextual_bert.runs.processes import start_imports

if __name__ == "__main__":
    start_imports()  # those of the two trainings, on the second core, while this process does its own

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Column, Table

from contextual_bert import CompletionPipeline
from contextual_bert.data import StylistWorld
from contextual_bert.evaluation import Comparison, metric_of, write_study
from contextual_bert.runs import Peers, SetCompletionTask, oracle_run, prepare, study
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers

NUM_ITEMS, NUM_OUTFITS, SEED = 200, 16_000, 0
COLUMNS = ("cross_entropy_nats", "recall_at_1_percent", "recall_at_5_percent")
KEYS = ("customer_id", "items")
CONSOLE = Console()


def recipe(conditioning: str, folder: Path) -> Recipe:
    """One row of the demo's table; a model with a context also learns what to say when it is told less."""
    dropped = {} if conditioning == "none" else {"context_dropout": 0.1, "field_dropout": 0.1}
    return Recipe(
        data=str(folder / "world" / "outfits.parquet"),
        task=SetCompletion(items="items"),
        customer="customer_id",
        conditioning=conditioning,
        dtype="auto",
        model={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        training={"num_train_epochs": 10, "per_device_train_batch_size": 128, "masks_per_set": 1} | dropped,
        seed=SEED,
    )


def main(folder: Path = Path("demo")) -> None:
    """Generate, train, compare, complete."""
    started = time.perf_counter()
    CONSOLE.rule("1. A stylist world")
    world = StylistWorld.generate(NUM_ITEMS, seed=SEED)
    outfits = world.sample(NUM_OUTFITS, seed=SEED + 1)
    world.save(folder / "world")
    pq.write_table(outfits, folder / "world" / "outfits.parquet")
    CONSOLE.print(
        f"{NUM_OUTFITS:,} outfits of {world.num_items} articles, each styled for a customer -> {folder / 'world'}"
    )

    CONSOLE.rule("2. Two models: one that sees the outfit, one that also knows the customer")
    recipes = [recipe(name, folder) for name in ("none", "global_state_update")]
    ready = prepare(recipes[0], source=outfits)
    found = study(
        f"Outfits of {NUM_ITEMS} articles, with and without the customer",
        recipes,
        folder / "runs",
        prepared=ready,
        peers=Peers(extra=[oracle_run(world, ready)]),
        # Each model has a core: on two cores both are trained in the time of one.
        num_jobs=min(len(recipes), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1),
        say=CONSOLE.print,
    )
    comparison = found.comparison

    CONSOLE.rule("3. How good they are on outfits of customers they never saw")
    CONSOLE.print(summary(comparison))
    gain = comparison.rows[1].differences["cross_entropy_nats"].interval
    CONSOLE.print(
        f"Knowing the customer changes the cross-entropy by {gain.value:+.3f} nats (95% interval {gain.low:+.3f} to "
        f"{gain.high:+.3f}, paired bootstrap over {gain.num_clusters:,} customers). The oracle is the best possible."
    )
    write_study(found, folder)

    CONSOLE.rule("4. One outfit, two customers")
    show_completions(
        CompletionPipeline.from_pretrained(folder / "runs" / "global_state_update" / f"seed-{SEED}"), ready
    )

    CONSOLE.rule("5. What next")
    run = folder / "runs" / "global_state_update" / f"seed-{SEED}"
    seconds = time.perf_counter() - started
    CONSOLE.print(f"report: {folder / 'report.html'}     model card: {run / 'README.md'}     {seconds:.0f} s in all")
    columns = "--items items --customer customer_id"
    for command in (
        f"contextual-bert inspect {folder}/world/outfits.parquet {columns} --output {folder}/schema.json",
        f"contextual-bert evaluate {run} --part test --output {folder}/evaluation",
        f"""contextual-bert complete {run} --set 'coat-1,[MASK]' --context '{{"age": 34, "occasion": "work"}}'""",
        f"""contextual-bert explain {run} --set 'coat-1,[MASK]' --context '{{"age": 34, "occasion": "work"}}'""",
        f"contextual-bert world oracle {folder}/world",
        f"contextual-bert train YOUR.parquet {columns} --output runs/mine",
    ):
        CONSOLE.print(f"  .venv/bin/{command}", highlight=False, soft_wrap=True)
    CONSOLE.print("Or play with it in a browser: start this, then open http://127.0.0.1:8000")
    shop = folder / "world" / "articles.parquet"
    CONSOLE.print(f"  .venv/bin/contextual-bert serve {run} --catalogue {shop}", highlight=False, soft_wrap=True)


def summary(comparison: Comparison) -> Table:
    """Method against cross-entropy and recall, with the interval over customers."""
    table = Table(Column("method", no_wrap=True), *(metric_of(key).heading for key in COLUMNS))
    for row in comparison.rows:
        cells = [row.intervals[key] for key in COLUMNS]
        table.add_row(row.label, *(f"{cell.value:.2f} \\[{cell.low:.2f}, {cell.high:.2f}]" for cell in cells))
    return table


def show_completions(pipeline: CompletionPipeline, ready: SetCompletionTask) -> None:
    """The same outfit completed for the two of its possible customers whose answers differ most."""
    test = ready.split.select(ready.examples, "test").table
    outfit = max(test.slice(0, 200).to_pylist(), key=lambda row: len(row["items"]))["items"]
    visible = [*outfit[:-1], "[MASK]"]
    worn = {item.rpartition("-")[0] for item in outfit}
    rows = test.slice(0, 300).to_pylist()
    contexts = [without(row) for row in rows if worn.isdisjoint(row["nogo_types"])]
    answers = pipeline(
        [{"items": visible, "context": context} for context in contexts], top_k=ready.examples.report.num_distinct
    )
    names = ready.processor.items.values
    ranks = [{each["item"]: each["probability"] for each in answer["slots"][0]["candidates"]} for answer in answers]
    probabilities = np.array([[rank.get(name, 0.0) for name in names] for rank in ranks])
    distance = np.abs(probabilities[:, None] - probabilities[None]).sum(axis=-1) / 2
    pair = np.unravel_index(distance.argmax(), distance.shape)
    CONSOLE.print(f"The outfit: {', '.join(visible)}")
    table = Table("", *(f"customer {letter}" for letter in "AB"))
    for place in range(3):
        cells = [answers[index]["slots"][0]["candidates"][place] for index in pair]
        table.add_row(f"proposal {place + 1}", *(f"{cell['item']}  {cell['probability']:.1%}" for cell in cells))
    table.add_section()
    for name in contexts[0]:
        values = [contexts[index][name] for index in pair]
        if values[0] != values[1]:
            table.add_row(name, *(text(value) for value in values))
    CONSOLE.print(table)
    CONSOLE.print("Below the line: the features in which the two differ.")


def without(row: Mapping[str, Any]) -> dict[str, Any]:
    """The context of a row of outfits."""
    return {name: value for name, value in row.items() if name not in KEYS}


def text(value: Any) -> str:
    """A value for people."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    return "(missing)" if value is None else str(value)


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
