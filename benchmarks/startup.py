"""CPU seconds of short commands over those of ``import torch``: what a user waits for before any work begins.

    python benchmarks/startup.py --rounds 3

Each program runs in a process of its own, in turn, and its CPU seconds are the kernel's. A ratio is taken within a
round, as a busy machine slows all of a round. Tables, run and export are made in a temporary folder first.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results import write_result

BASE = "import torch"
BERT = "import torch and BertModel"
# (what, its program, what its CPU seconds are divided by, the aim). A program is Python where it says so, else options
# of the command line. The folder holds sets.csv, texts.csv, run (of sets) and export (of that run).
PROGRAMS: tuple[tuple[str, str, str, float], ...] = (
    (BASE, "python: import torch", BASE, 1.0),
    (BERT, "python: import torch; from transformers import BertModel", BASE, float("inf")),
    ("--help", "--help", BASE, 0.1),
    ("train --help", "train --help", BASE, 0.3),
    ("a path that is not there", "evaluate no-such-run", BASE, 0.3),
    ("a table that is not there", "train no-such.csv --items items --output new", BASE, 0.3),
    ("a value that is not allowed", "train sets.csv --items items --epochs 0 --output new", BASE, 0.3),
    ("inspect, sets", "inspect sets.csv --items items --customer who --overwrite", BASE, 0.7),
    ("inspect, texts", "inspect texts.csv --text text --label label --customer who --overwrite", BASE, 0.7),
    ("split", "split sets.csv --items items --by who --output split.json --overwrite", BASE, 0.7),
    ("import contextual_bert", "python: import contextual_bert", BASE, 0.3),
    ("complete", "complete run --set coat,[MASK] --context {context}", BERT, 1.2),
    ("complete, an export", "complete export --set coat,[MASK] --context {context}", BASE, 0.7),
    ("serve, an export: its modules", "python: from contextual_bert.server import create_app, serve", BASE, 0.7),
)
MISTAKES = ("a path that is not there", "a table that is not there", "a value that is not allowed")
SETS = "--items items --customer who"
TINY = (
    "--epochs 1 --model hidden_size=16 --model num_hidden_layers=1 --model num_attention_heads=2 "
    "--model intermediate_size=16"
)
CONTEXT = '{"season":"summer"}'


def arguments_of(program: str) -> list[str]:
    """Return the command line of a program."""
    kind, is_python, code = program.partition("python: ")
    if is_python and not kind:
        return [sys.executable, "-c", code]
    options = [CONTEXT if each == "{context}" else each for each in program.split()]
    return [sys.executable, "-m", "contextual_bert_cli.main", *options]


def cpu_seconds(command: Sequence[str], folder: Path, *, code: int = 0) -> float:
    """Run a command in a folder and return its CPU seconds, those of its own processes included.

    Raises:
        SystemExit: it ended with another code.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_files(folder: Path) -> None:
    """Write the tables, train the run and export it."""
    items = ("coat,hat,bag", "coat,shoe", "hat,shoe,bag", "coat,bag")
    rows = [f'{day % 40},"{items[day % 4]}",{"summer" if day % 3 else "winter"}' for day in range(400)]
    (folder / "sets.csv").write_text("\n".join(["who,items,season", *rows]) + "\n", "utf-8")
    texts = [f"{day % 40},the coat is {'fine' if day % 2 else 'poor'} no {day},{day % 2},summer" for day in range(400)]
    (folder / "texts.csv").write_text("\n".join(["who,text,label,season", *texts]) + "\n", "utf-8")
    for options in (
        f"train sets.csv {SETS} {TINY} --output run",
        "export run --output export",
    ):
        cpu_seconds(arguments_of(options), folder)


def measure(*, rounds: int = 3) -> dict[str, Any]:
    """Return CPU seconds and ratios of each program: the median over the rounds."""
    seconds: dict[str, list[float]] = {what: [] for what, *_ in PROGRAMS}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_files(folder)
        for number in range(rounds + 1):
            for what, program, *_ in PROGRAMS:
                used = cpu_seconds(arguments_of(program), folder, code=2 if what in MISTAKES else 0)
                if number:  # the first round reads the files of the libraries from the disk
                    seconds[what].append(used)
    found: dict[str, Any] = {}
    for what, _, base, aim in PROGRAMS:
        ratios = [used / of_base for used, of_base in zip(seconds[what], seconds[base], strict=True)]
        found[what] = {
            "cpu_seconds": round(statistics.median(seconds[what]), 2),
            "over": base,
            "ratio": round(statistics.median(ratios), 2),
            "aim": aim if aim != float("inf") else None,
        }
    return {"rounds": rounds, "programs": found}


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that are counted (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file to write the result to")
    parser.add_argument("--quick", action="store_true", help="one round")
    arguments = parser.parse_args()
    write_result(measure(rounds=1 if arguments.quick else arguments.rounds), arguments.output)


if __name__ == "__main__":
    main()
