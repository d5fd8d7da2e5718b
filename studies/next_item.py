"""The next film of MovieLens 100k: from left to right, from both sides, with and without the user.

All ratings are read as what a user saw, in the order of time. Two tables: the last film of each user is the test and
the one before validation; or the films from a time on are, each with all that its user saw before.

    python -m studies.next_item FOLDER              # with ml-100k.inter and .user; recbole ships them
    python -m studies.next_item FOLDER --split time --rows none,popularity --output by-time
    python -m studies.next_item FOLDER --rows none --time-gaps    # how much time passed before each film is read, too

A run that is complete is not run again, an interrupted one goes on; --report-only reports on those that are complete.
The peer of the same tables is benchmarks/next_item.py.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa

from contextual_bert.data import HistorySettings, write_histories, write_table
from contextual_bert.evaluation import write_study
from contextual_bert.runs import Peers, SetCompletionTask, named_rows, prepare, study
from contextual_bert.runs.registry import as_row
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.cards import TaskCard
from studies.commands import check_kept_report
from studies.real_catalogues import tabs

# Relative, so that the recipes of the runs name no folder of this machine.
RESULTS = Path(os.path.relpath(Path(__file__).parent / "results" / "next-item"))
USER, ITEMS, TIMES, PART = "user", "items", "times", "part"
METHOD, BASELINES = "global_state_update", ("item_knn", "bag", "popularity")
LONGEST = 5_000  # no user has so many
MODEL = {
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "hidden_dropout_prob": 0.5,
    "max_position_embeddings": 100,
}
TRAINING = {
    "num_train_epochs": 60,
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant_with_warmup",
    "metric_for_best_model": "set_ndcg_at_10_percent",
    "greater_is_better": True,
}
PATIENCE = 6
BOTH_SIDES = {"num_train_epochs": 120, "masks_per_set": 20, "one_mask_epochs": 20}  # a fifth of 100 items is hidden
CHOICES = "Settings: chosen on the validation part among eight trainings of one seed, by NDCG@10."


def log_of(source: Path) -> pa.Table:
    """The ratings with what is known of their users."""
    ratings, users = (tabs(source / f"ml-100k.{name}") for name in ("inter", "user"))
    users = users.select(["user_id", "age", "gender", "occupation"])
    log = ratings.append_column("row", pa.array(range(len(ratings)))).join(users, "user_id").sort_by("row")
    seconds = log["timestamp"].cast(pa.int64())
    columns = {"film": log["item_id"], "rated_at": seconds, "rating": log["rating"]}
    return pa.table({USER: log["user_id"], **columns, **{each: log[each] for each in ("age", "gender", "occupation")}})


def prepare_sequences(source: Path, folder: Path, *, split: str, time_gaps: bool = False) -> SetCompletionTask:
    """Write the sequences to a folder, and read them."""
    path = folder / f"{split}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_table(log_of(source), folder / "ratings.parquet")
        settings = HistorySettings(
            user=USER,
            item="film",
            time="rated_at",
            is_sequence=True,
            split=split,  # pyright: ignore[reportArgumentType]
            max_history=LONGEST,
        )
        print(*write_histories(folder / "ratings.parquet", path, settings).lines(), sep="\n")
    recipe = Recipe(
        data=str(path),
        task=SetCompletion(items=ITEMS, order=TIMES, time_gaps=time_gaps, hide="next"),
        customer=USER,
        split_column=PART,
        conditioning=METHOD,
        model=MODEL,
        training=TRAINING,
        patience=PATIENCE,
        field_selection="off",
    )
    return cast(SetCompletionTask, prepare(recipe))


def rows_of(base: Recipe) -> dict[str, Recipe]:
    """Row -> recipe: who is asked known, unknown, and another; read from both sides; the baselines, which read no
    time gaps."""
    none, baselines = replace(base, conditioning="none"), () if base.set_task.time_gaps else BASELINES
    recipes = [
        base,
        none,
        replace(base, is_context_shuffled=True),
        replace(
            none,
            name="both_sides",
            model={**MODEL, "predicts_next": False},
            training={**TRAINING, **BOTH_SIDES},
            patience=None,
        ),
        *(as_row(replace(base, training={}, model={}, patience=None), name) for name in baselines),
    ]
    return {recipe.label: recipe for recipe in recipes}


def card(ready: SetCompletionTask, *, split: str) -> TaskCard:
    """What the task is about."""
    held_out = {
        "last": "the last film of each user is the test, the one before validation",
        "time": "the films of the last tenth of all ratings are the test, those of the tenth before validation",
    }
    return TaskCard(
        name="next-item",
        title=f"MovieLens 100k: the next film of a user, split {'by time' if split == 'time' else 'leave-last-out'}",
        description="Each film is ranked among all of the training part that the user has not seen, given those before "
        "it in the order of time, and the user's age, gender and occupation.",
        context=ready.processor.schema.names if ready.processor.schema is not None else (),
        licence="for research, by GroupLens",
        citation="Harper and Konstan (2015), The MovieLens Datasets: History and Context",
        split=held_out[split],
        main_metric="set_ndcg_at_10_percent",
        data_digest=ready.split.data_digest,
    )


def main() -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of ml-100k.inter and ml-100k.user")
    parser.add_argument("--split", choices=("last", "time"), default="last")
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--time-gaps", action="store_true", help="read how much time passed before each film, too")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="folder of runs and report")
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report on the runs that are complete"
    )
    arguments = parser.parse_args()
    further = "-time-gaps" if arguments.time_gaps else ""
    folder: Path = arguments.output or RESULTS.with_name(f"next-item-{arguments.split}{further}")
    names = arguments.rows.split(",") if arguments.rows else []
    check_kept_report(folder, names)
    ready = prepare_sequences(arguments.source, folder / "runs", split=arguments.split, time_gaps=arguments.time_gaps)
    print(*ready.lines(), sep="\n")
    every = rows_of(ready.recipe)
    rows = named_rows(every, names or [*every])
    about = card(ready, split=arguments.split)
    found = study(
        about.title,
        [row.with_seed(seed) for seed in range(arguments.seeds) for row in rows.values()],
        folder / "runs",
        prepared=ready,
        peers=Peers(reference="none" if "none" in rows else None),
        is_report_only=arguments.report_only,
    )
    found = replace(found, about=(*about.lines()[1:], CHOICES))
    print(*found.texts, *write_study(found, folder), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
