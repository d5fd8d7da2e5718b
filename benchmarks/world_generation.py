"""How fast the stylist world draws outfits and its oracle scores them, and the best possible scores.

    python benchmarks/world_generation.py --items 30000 --outfits 397000 --score 1000

Prints seconds, outfits a second and the peak memory of the process so far.
"""

import argparse
import resource
import time

import numpy as np

from contextual_bert.data.oracle import Oracle
from contextual_bert.data.world import StylistWorld


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--outfits", type=int, default=62_000)
    parser.add_argument("--score", type=int, default=2000, help="how many of the outfits the oracle scores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--additive", action="store_true", help="the variant without interactions")
    arguments = parser.parse_args()

    world = StylistWorld.generate(arguments.items, seed=arguments.seed, interactions=not arguments.additive)
    start = time.perf_counter()
    table = world.sample(arguments.outfits, seed=arguments.seed + 1)
    _report("drew", arguments.outfits, time.perf_counter() - start)

    start = time.perf_counter()
    scores = Oracle(world).score_table(table.slice(0, arguments.score))
    _report("scored", min(arguments.score, arguments.outfits), time.perf_counter() - start)
    losses = -scores["log_probability"]
    recalls = ", ".join(f"recall@{k} {(scores['num_better'] < k).mean():.2%}" for k in (1, 5, 20, 250))
    print(f"oracle: {losses.mean():.3f} nats (standard error {losses.std() / np.sqrt(arguments.score):.3f}), {recalls}")


def _report(verb: str, outfits: int, seconds: float) -> None:
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    rate = outfits / seconds
    print(f"{verb} {outfits:,} outfits in {seconds:.1f} s: {rate:,.0f} a second, peak memory {peak_gib:.2f} GiB")


if __name__ == "__main__":
    main()
