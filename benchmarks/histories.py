"""A transaction log to sets with histories: seconds and peak memory, beside DuckDB and Polars on the same log.

    python benchmarks/histories.py --rows 3000000 --rounds 3
    python benchmarks/histories.py --rows 100000000 --rounds 1 --contenders ours duckdb

The log is drawn: customers who come 10 times in the mean, baskets of 1 to 9 articles, rows in the order of time. Each
contender groups rows to baskets, sorts each customer's by time, and writes one row a basket with the last 50 before
it, as Parquet. They take turns, each in a process of its own; a contender that is not installed is left out.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LONGEST = 50
NUM_ITEMS = 100_000
ROWS_A_CUSTOMER, ROWS_A_BASKET = 50, 5
START, SECONDS = 1_577_836_800, 63_072_000  # two years from 2020 on
BASKETS_AT_ONCE = 200_000
MEMORY = "4GB"  # that DuckDB is allowed
CONTENDERS = ("ours", "duckdb", "polars")


def draw_log(path: Path, num_rows: int, *, seed: int) -> int:
    """Write a log and return how many rows it has."""
    generator = np.random.default_rng(seed)
    num_users = max(100, num_rows // ROWS_A_CUSTOMER)
    users = pa.array([f"c{number}" for number in generator.permutation(num_users)])
    items = pa.array([f"article-{number}" for number in range(NUM_ITEMS)])
    schema = pa.schema([("customer", pa.string()), ("article", pa.string()), ("ordered_at", pa.timestamp("s"))])
    done, start = 0, START
    with pq.ParquetWriter(path, schema) as writer:
        while done < num_rows:
            num_baskets = min(BASKETS_AT_ONCE, (num_rows - done) // ROWS_A_BASKET + 1)
            sizes = generator.integers(1, 2 * ROWS_A_BASKET, num_baskets)
            span = int(SECONDS * num_baskets * ROWS_A_BASKET / num_rows)
            times = start + np.sort(generator.integers(0, span, num_baskets))
            owners = (num_users * generator.random(num_baskets) ** 2).astype(np.int64)
            codes = (NUM_ITEMS * generator.random(int(sizes.sum())) ** 4).astype(np.int64)
            columns = [
                users.take(pa.array(np.repeat(owners, sizes))),
                items.take(pa.array(codes)),
                pa.array(np.repeat(times, sizes)).cast(pa.timestamp("s")),
            ]
            writer.write_table(pa.table(columns, schema=schema))
            done, start = done + len(codes), start + span
    return done


def ours(log: Path, output: Path) -> None:
    """Write the sets with the product's own function."""
    from contextual_bert.data import HistorySettings, write_histories

    settings = HistorySettings(user="customer", item="article", time="ordered_at", split="none", max_history=LONGEST)
    write_histories(log, output, settings)


def duckdb(log: Path, output: Path) -> None:
    """Write the sets with DuckDB, in the memory that it is allowed."""
    import duckdb as database

    connection = database.connect()
    connection.execute(f"SET memory_limit='{MEMORY}'; SET temp_directory='{output.parent}'")
    connection.execute(
        f"""COPY (
        WITH baskets AS (
            SELECT customer, ordered_at, list(DISTINCT article) AS items FROM '{log}' GROUP BY customer, ordered_at)
        SELECT *, list(items) OVER earlier AS history, list(ordered_at) OVER earlier AS history_times FROM baskets
        WINDOW earlier AS (
            PARTITION BY customer ORDER BY ordered_at ROWS BETWEEN {LONGEST} PRECEDING AND 1 PRECEDING)
        ) TO '{output}' (FORMAT parquet)"""
    )


def polars(log: Path, output: Path) -> None:
    """Write the sets with Polars."""
    import polars as pl

    keys = ("customer", "ordered_at")
    baskets = (
        pl.scan_parquet(log)
        .group_by(keys)
        .agg(pl.col("article").unique(maintain_order=True).alias("items"))
        .sort(keys)
        .with_columns(pl.int_range(pl.len()).over("customer").alias("place"))
    )
    window = {"period": f"{LONGEST}i", "offset": f"-{LONGEST + 1}i", "group_by": "customer"}
    earlier = baskets.rolling("place", **window).agg(
        pl.col("items").alias("history"), pl.col("ordered_at").alias("history_times")
    )
    baskets.join(earlier, on=["customer", "place"], how="left").drop("place").collect(engine="streaming").write_parquet(
        output
    )


def peak_mib() -> float:
    """Return the largest memory of this process. ``getrusage`` begins with that of the process that started it."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:"))


def figures_of(output: Path) -> dict[str, int]:
    """Return what all contenders have to agree on."""
    found = {"sets": 0, "items_of_histories": 0}
    for batch in pq.ParquetFile(output).iter_batches(100_000, columns=["history"]):
        found["sets"] += batch.num_rows
        found["items_of_histories"] += len(pc.list_flatten(pc.list_flatten(batch.column(0))))
    return found


def measured(contender: str, log: Path, folder: Path) -> dict[str, Any]:
    """Return seconds and peak memory of one contender in a process of its own, and what it wrote."""
    output = folder / f"{contender}.parquet"
    command = [sys.executable, __file__, "--contender", contender, "--log", str(log), "--output", str(output)]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else str(done.returncode)}
    figures = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "bytes": output.stat().st_size, **figures_of(output)}


def measure(num_rows: int, *, rounds: int, contenders: list[str], folder: Path) -> dict[str, Any]:
    """Return the figures of all contenders, and their ratios to ours within a round."""
    log = folder / "log.parquet"
    num_rows = draw_log(log, num_rows, seed=0)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in contenders:
            runs[name].append(measured(name, log, folder))
    found: dict[str, Any] = {}
    for name, each in runs.items():
        if any("failed" in run for run in each):
            found[name] = {"failed": next(run["failed"] for run in each if "failed" in run)}
            continue
        found[name] = {
            **{key: median(run[key] for run in each) for key in ("seconds", "processor_seconds")},
            "peak_mib": max(run["peak_mib"] for run in each),
            **{key: each[0][key] for key in ("bytes", "sets", "items_of_histories")},
            "ratio": median(run["seconds"] / own["seconds"] for run, own in zip(each, runs["ours"], strict=True)),
        }
    return {
        "num_rows": num_rows,
        "rounds": rounds,
        "niceness": os.nice(0),
        "log_bytes": log.stat().st_size,
        "contenders": found,
    }


def main() -> None:
    """Measure all contenders, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000, help="rows of the log (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns (default: %(default)s)")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    parser.add_argument("--folder", type=Path, help="for the log and what is written; default: a temporary one")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contender is not None:
        start = time.perf_counter()
        globals()[given.contender](given.log, given.output)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        figures = {
            "seconds": time.perf_counter() - start,
            "processor_seconds": usage.ru_utime + usage.ru_stime,
            "peak_mib": peak_mib(),
        }
        print(json.dumps(figures))
        return
    from results import write_result  # loads torch, which no contender needs

    there = [name for name in given.contenders if name == "ours" or importlib.util.find_spec(name) is not None]
    num_rows, rounds = (given.rows // 10, 1) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        result = measure(num_rows, rounds=rounds, contenders=there, folder=Path(temporary))
    write_result(result, given.output)


if __name__ == "__main__":
    main()
