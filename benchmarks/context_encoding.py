"""How fast a table of raw context values becomes tensors, on one core: prints rows a second.

    python benchmarks/context_encoding.py --rows 200000

The table is generated: six categorical columns, four numerical ones (one of them with every third value missing) and
two multi-valued ones of zero to six values out of a few hundred. The schema is inferred, which is timed apart.
"""

import argparse
import statistics
import time

import numpy as np
import pyarrow as pa
import torch

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


def main() -> None:
    """Time the encoding and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="times the encoding is timed (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the table (default: %(default)s)")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    torch.set_num_threads(1)
    table = make_table(arguments.rows, seed=arguments.seed)

    start = time.perf_counter()
    schema = infer_schema(table).schema
    print(
        f"inferred {len(schema.features)} features from {table.num_rows:,} rows in {time.perf_counter() - start:.2f} s"
    )
    seconds: list[float] = []
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        encode_table(schema, table)
        seconds.append(time.perf_counter() - start)
    median, best = statistics.median(seconds), min(seconds)
    print(f"encoded on one core: {table.num_rows / median:,.0f} rows/s (median), {table.num_rows / best:,.0f} (best)")


if __name__ == "__main__":
    main()
