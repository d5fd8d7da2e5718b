"""Runs all benchmarks, one after the other and each in a process of its own, and writes what they found.

    python benchmarks/run.py              # half an hour on two cores: benchmarks/results, docs/benchmarks.md
    python benchmarks/run.py --quick      # cut down: a temporary folder and the screen, nothing of the repository
    python benchmarks/run.py --render     # docs/benchmarks.md again, from the results as they stand

docs/benchmarks.md is made from the JSON files alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tables import markdown

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
# glibc gives large blocks back to the system, which clears them anew each time; here it keeps them, in huge pages.
KEEP_MEMORY = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
# Name of the result -> script, and what is set for it.
BENCHMARKS: dict[str, tuple[str, dict[str, str]]] = {
    "training_step": ("training_step", {}),
    "training_step_keeping_memory": ("training_step", {"GLIBC_TUNABLES": KEEP_MEMORY}),
    "fine_tuning": ("fine_tuning", {}),
    "generation": ("generation", {}),
    "item_features": ("item_features", {}),
    "many_items": ("many_items", {}),
    "precision": ("precision", {}),
    "evaluation_memory": ("evaluation_memory", {}),
    "inference": ("inference", {}),
    "context_encoding": ("context_encoding", {}),
    "world_generation": ("world_generation", {}),
    "histories": ("histories", {}),
    "serving": ("serving", {}),
    "startup": ("startup", {}),
}


# On the page, and not run with the others, for they take long and much of the disk:
# python benchmarks/histories.py --rows 10000000 --rounds 1 --contenders ours duckdb
#     --output benchmarks/results/histories_10m.json, and the same with 100000000 rows.
LARGE = ("histories_10m", "histories_100m")
# Nor these, whose peer has an environment of its own: benchmarks/README.md says how they are run.
OF_PEERS = ("next_item_last", "next_item_time")


def run(name: str, folder: Path, *, quick: bool, threads: int) -> bool:
    """Run one benchmark; whether it succeeded."""
    script, special = BENCHMARKS[name]
    # Threads that spin while they wait take the core from each other where others run as well.
    settings = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", **special}
    command = [sys.executable, str(HERE / f"{script}.py"), "--output", str(folder / f"{name}.json")]
    print(f"{name} ...", file=sys.stderr, flush=True)
    start = time.perf_counter()
    done = subprocess.run(
        command + ["--quick"] * quick, env=os.environ | settings, stdout=subprocess.DEVNULL, check=False
    )
    outcome = "done" if done.returncode == 0 else f"failed with exit code {done.returncode}"
    print(f"{name}: {outcome} after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return done.returncode == 0


def page_of(folder: Path) -> str:
    """The Markdown page of the results in a folder."""
    paths = [folder / f"{name}.json" for name in (*BENCHMARKS, *LARGE, *OF_PEERS)]
    return markdown({path.stem: json.loads(path.read_text("utf-8")) for path in paths if path.exists()})


def main() -> int:
    """Run what was asked for; 1 if a benchmark failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing of the repository is written")
    parser.add_argument("--render", action="store_true", help="run nothing, write docs/benchmarks.md from the results")
    parser.add_argument("--only", choices=BENCHMARKS, nargs="+", default=[*BENCHMARKS], help="some of the benchmarks")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of torch (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.quick and arguments.render:
        parser.error("--render needs the results of a full run: leave out --quick.")
    succeeded = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if arguments.quick else RESULTS
        folder.mkdir(exist_ok=True)
        if not arguments.render:
            done = [run(name, folder, quick=arguments.quick, threads=arguments.threads) for name in arguments.only]
            succeeded = all(done)
        page = page_of(folder)
    if arguments.quick:
        print(page)
    else:
        PAGE.write_text(page, encoding="utf-8")
        print(f"Wrote {PAGE}.")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
