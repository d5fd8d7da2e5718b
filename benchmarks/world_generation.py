"""How fast the stylist world draws outfits and its oracle scores them, and the best possible scores.

    python benchmarks/world_generation.py --items 30000 --outfits 397000 --score 1000

Prints seconds, outfits a second and the peak memory of the process so far.
"""

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import write_result

from contextual_bert.data.oracle import Oracle
from contextual_bert.data.world import StylistWorld

KS = (1, 5, 20, 250)


def measure(*, num_items: int, num_outfits: int, num_scored: int, seed: int, is_additive: bool) -> dict[str, Any]:
    """The result as plain values."""
    world = StylistWorld.generate(num_items, seed=seed, interactions=not is_additive)
    start = time.perf_counter()
    table = world.sample(num_outfits, seed=seed + 1)
    drawing_seconds = time.perf_counter() - start

    num_scored = min(num_scored, num_outfits)
    start = time.perf_counter()
    scores = Oracle(world).score_table(table.slice(0, num_scored))
    scoring_seconds = time.perf_counter() - start
    losses: NDArray[np.float64] = -np.asarray(scores["log_probability"], dtype=np.float64)
    num_better = np.asarray(scores["num_better"], dtype=np.int64)
    return {
        "num_items": num_items,
        "num_outfits": num_outfits,
        "drawing_seconds": drawing_seconds,
        "drawn_outfits_per_second": num_outfits / drawing_seconds,
        "num_scored_outfits": num_scored,
        "scored_outfits_per_second": num_scored / scoring_seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,  # Linux counts in KiB
        "oracle_cross_entropy_nats": float(losses.mean()),
        "oracle_standard_error_nats": float(losses.std() / np.sqrt(num_scored)),
        "oracle_recall": {str(k): float((num_better < k).mean()) for k in KS},
    }


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=30_000, help="articles of the world (default: %(default)s)")
    parser.add_argument("--outfits", type=int, default=62_000, help="outfits drawn (default: %(default)s)")
    parser.add_argument("--score", type=int, default=1000, help="outfits the oracle scores (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the world (default: %(default)s)")
    parser.add_argument("--additive", action="store_true", help="the variant without interactions")
    parser.add_argument("--quick", action="store_true", help="a tenth of the outfits")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    share = 10 if arguments.quick else 1
    result = measure(
        num_items=arguments.items,
        num_outfits=arguments.outfits // share,
        num_scored=arguments.score // share,
        seed=arguments.seed,
        is_additive=arguments.additive,
    )
    write_result(result, arguments.output)


if __name__ == "__main__":
    main()
