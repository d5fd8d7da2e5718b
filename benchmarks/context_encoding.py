"""How fast a table of raw context values becomes tensors, on one core: prints rows a second.

    python benchmarks/context_encoding.py --rows 200000

The table is generated: six categorical columns, four numerical ones (one of them with every third value missing) and
two multi-valued ones of zero to six values out of a few hundred. The schema is inferred, which is timed apart.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from results import write_result

from contextual_bert.context import encode_table, infer_schema


def make_table(num_rows: int, *, seed: int) -> pa.Table:
    """A table of twelve context columns."""
    generator = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for index, size in enumerate((2, 5, 12, 50, 200, 900)):
        values = pa.array([f"value {number}" for number in range(size)])
        choice = pa.array(generator.integers(size, size=num_rows), mask=generator.random(num_rows) < 0.1)
        columns[f"categorical_{index}"] = values.take(choice)
    columns["age"] = pa.array(generator.integers(16, 90, size=num_rows))
    columns["household"] = pa.array(generator.integers(1, 6, size=num_rows))
    columns["income"] = pa.array(generator.lognormal(10, 1, size=num_rows))
    columns["wage"] = pa.array(generator.lognormal(3, 1, size=num_rows), mask=np.arange(num_rows) % 3 == 0)
    for name, size in (("brands", 300), ("styles", 40)):
        offsets = np.concatenate([[0], np.cumsum(generator.integers(0, 7, size=num_rows))]).astype(np.int32)
        values = pa.array([f"{name} {number}" for number in range(size)])
        elements = values.take(pa.array(generator.integers(size, size=int(offsets[-1]))))
        columns[name] = pa.ListArray.from_arrays(pa.array(offsets), elements)
    return pa.table(columns)


def measure(*, num_rows: int = 200_000, repeats: int = 7, seed: int = 0) -> dict[str, Any]:
    """The result as plain values."""
    pa.set_cpu_count(1)
    torch.set_num_threads(1)
    table = make_table(num_rows, seed=seed)
    start = time.perf_counter()
    schema = infer_schema(table).schema
    inference_seconds = time.perf_counter() - start
    seconds: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        encode_table(schema, table)
        seconds.append(time.perf_counter() - start)
    return {
        "num_rows": num_rows,
        "num_features": len(schema.features),
        "schema_inference_seconds": inference_seconds,
        "rows_per_second_median": num_rows / statistics.median(seconds),
        "rows_per_second_best": num_rows / min(seconds),
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="times the encoding is timed (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the table (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    rows = arguments.rows // 10 if arguments.quick else arguments.rows
    write_result(measure(num_rows=rows, repeats=arguments.repeats, seed=arguments.seed), arguments.output)


if __name__ == "__main__":
    main()
