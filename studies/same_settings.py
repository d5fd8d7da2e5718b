"""Is a place in Table 1 one of the settings? The same four for each of its methods, in the small world.

Settings are chosen for all methods alike, and with some of them more than with others. Here each gets a weight decay of
0.1, 0.5 and 1.0 and twice the learning rate, 18 epochs of which 6 with one mask; and the study's 60 epochs with a
weight decay of 0.1, whose 0.5 is Table 1. Report and runs: studies/results/same-settings; what they say: docs/log.md.

    python -m studies.same_settings                                # all of it: 10 minutes a run and core, 25 the long
    python -m studies.same_settings --methods film --seeds 3
    python -m studies.same_settings --size quick                   # a look at it in minutes

A run that is complete is not run again; --report-only reports on those that are complete.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contextual_bert.errors import did_you_mean
from contextual_bert.evaluation import write_study
from contextual_bert.training import Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.outfits import SIZES, StudyData, prepare_study, run_study

# Relative, so that the recipes of the runs name no folder of this machine.
RESULTS = Path(os.path.relpath(Path(__file__).parent / "results"))
METHODS = ("none", "concat", "new_position", "global_state", "global_state_update", "state_flow", "film")
SHORT: Mapping[str, Any] = {"num_train_epochs": 18, "one_mask_epochs": 6}
# What a row is called after -> its fields of ContextualTrainingArguments.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "wd0p1": {**SHORT, "weight_decay": 0.1},
    "wd0p5": {**SHORT, "weight_decay": 0.5},
    "wd1p0": {**SHORT, "weight_decay": 1.0},
    "lr2em3": {**SHORT, "weight_decay": 0.5, "learning_rate": 2e-3},
    "long_wd0p1": {"weight_decay": 0.1},
}


def rows(data: StudyData, methods: Sequence[str] = METHODS) -> list[Recipe]:
    """Each method with each setting."""
    return [
        replace(row, name=f"{row.label}_{name}", training={**row.training, **setting})
        for row in data.rows(methods).values()
        for name, setting in SETTINGS.items()
    ]


def listed(names: str) -> list[str]:
    """These methods."""
    for name in names.split(","):
        if name not in METHODS:
            raise argparse.ArgumentTypeError(f"no method {name!r}. {did_you_mean(name, METHODS)}")
    return names.split(",")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--methods", type=listed, default=METHODS, help="separated by commas; all of them if left out")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dtype", choices=("bfloat16", "float32", "auto"), default="bfloat16")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of world, runs and report")
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report on the runs that are complete"
    )
    chosen = parser.parse_args(arguments)
    output = chosen.output / "same-settings"
    data = prepare_study(output / "world", size=chosen.size, dtype=chosen.dtype)
    found = run_study(
        data,
        output / "runs",
        rows=rows(data, chosen.methods),
        num_seeds=chosen.seeds,
        is_report_only=chosen.report_only,
    )
    found = replace(found, title=f"The same settings for every method: {found.title.rpartition(', ')[0]}", paper={})
    print(*found.texts, *write_study(found, output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
