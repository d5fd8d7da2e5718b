"""What an index of the items is worth: completions among very many items, by the index and by all logits.

    contextual-bert world generate --items 1000000 --outfits 400000 --customers 50000 --output world
    contextual-bert train world/outfits.parquet --items items --customer customer_id --epochs 2 --field-selection off \
        --set per_device_train_batch_size=256 --output run
    contextual-bert index run
    OMP_NUM_THREADS=1 python benchmarks/indexed_completion.py run world/outfits.parquet --output indexed.json

Queries are sets of the table with one item missing, asked one by one, each by the index and by all logits in turn: of
anything, of a hundredth of the items drawn at random (`where` on a catalogue), and of a category, whose items lie
together. Recall is of the ten best by all logits. Milliseconds are medians, of the wall and of the processor.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from results import write_result

from contextual_bert.data import read_table
from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.item_index import index_of

TOP_K, NUM_SHELVES = 10, 100


def catalogue_of(pipeline: CompletionPipeline) -> pa.Table:
    """Each item on one of a hundred shelves, at random; its category is the start of its name."""
    names = pipeline.processor.items.array
    shelves = np.random.default_rng(0).integers(NUM_SHELVES, size=len(names))
    kinds = [name.rpartition("-")[0] for name in names.to_pylist()]
    return pa.table({"id": names, "shelf": [f"shelf {number}" for number in shelves], "kind": kinds})


def queries_of(table: pa.Table, num: int) -> list[dict[str, Any]]:
    """Sets without their last item, and who asks."""
    rows = table.take(np.random.default_rng(1).choice(table.num_rows, num, replace=False)).to_pylist()
    left = ("items", "customer_id")
    return [
        {"items": [*row["items"][:-1], "[MASK]"], "context": {k: v for k, v in row.items() if k not in left}}
        for row in rows
    ]


def constraints(queries: list[dict[str, Any]], table: pa.Table) -> dict[str, Callable[[int], dict[str, Any]]]:
    """What each kind of query asks for beside its set."""
    kinds = [items[-1].rpartition("-")[0] for items in table.column("items").slice(0, len(queries)).to_pylist()]
    return {
        "anything": lambda _: {},
        "a hundredth": lambda row: {"where": [{"attribute": "shelf", "equals": f"shelf {row % NUM_SHELVES}"}]},
        "a category": lambda row: {"where": [{"attribute": "kind", "equals": kinds[row % len(kinds)]}]},
    }


def timed(pipeline: CompletionPipeline, query: dict[str, Any]) -> tuple[Any, float, float]:
    """The answer, and seconds of the wall and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    answer = pipeline(query, top_k=TOP_K)
    return answer, time.perf_counter() - wall, time.process_time() - processor


def measure(run: Path, data: Path, *, num: int) -> dict[str, Any]:
    """The result as plain values."""
    index, _ = index_of(run)
    if index is None:
        raise SystemExit(f"{run} has no index of its own: contextual-bert index {run}")
    exact = CompletionPipeline.from_pretrained(run, device="cpu", is_exact=True)
    exact = CompletionPipeline.from_pretrained(run, device="cpu", is_exact=True, catalogue=catalogue_of(exact))
    indexed = CompletionPipeline(exact.model, exact.processor, catalogue=exact.catalogue)
    indexed.rank_by(index)
    table = read_table(data)
    queries, rows = queries_of(table, num), list[dict[str, Any]]()
    for kind, further in constraints(queries, table).items():
        hits, permitted, errors, deviations = 0, [], [], []
        seconds: dict[str, list[tuple[float, float]]] = {"index": [], "all": []}
        for number, query in enumerate([queries[0], *queries]):
            asked = {**query, **further(number)}
            answers = {}
            for name, pipeline in (("index", indexed), ("all", exact)):
                answers[name], *taken = timed(pipeline, asked)
                seconds[name].append((taken[0], taken[1]))
            found, best = (
                {each["item"]: each["probability"] for each in answers[name]["slots"][0]["candidates"]}
                for name in ("index", "all")
            )
            hits += len(found.keys() & best.keys()) / len(best)
            slot = answers["index"]["slots"][0]
            permitted.append(slot["num_permitted"])
            errors.append(slot.get("probability_error", 0.0))
            deviations += [found[item] / best[item] - 1 for item in found.keys() & best.keys() if best[item] > 0]
        medians = {
            f"{clock} ms, {name}": 1e3 * statistics.median(each[place] for each in seconds[name][1:])
            for name in seconds
            for place, clock in enumerate(("wall", "processor"))
        }
        rows.append(
            {
                "asked for": kind,
                "permitted": statistics.median(permitted),
                "recall": hits / (len(queries) + 1),
                "stated error": float(np.mean(errors)),
                "error": float(np.sqrt(np.mean(np.square(deviations)))),
                **medians,
            }
        )
    return {"num_items": len(exact.processor.items.values), "num_queries": len(queries), "rows": rows}


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run with an index of its items")
    parser.add_argument("data", type=Path, help="the table that it was trained with")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    write_result(measure(arguments.run, arguments.data, num=arguments.queries), arguments.output)


if __name__ == "__main__":
    main()
