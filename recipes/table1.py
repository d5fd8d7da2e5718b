"""Table 1 of the Contextual BERT paper on open data: the stylist world, where the best possible score is known.

One function a row. What every method shares (sizes, budget, learning rate, masks) is in
`contextual_bert.runs.tasks.outfit_completion`, and how it was found in docs/log.md. Report and runs:
recipes/results/table1-SIZE-WORLD. What a report needs of a run lies beside it, without weights.

    python recipes/table1.py                                                 # small, with interactions: hours
    python recipes/table1.py --world additive --rows none,concat,global_state_update
    python recipes/table1.py --size large --rows global_state_update --seeds 1
    python recipes/table1.py --size paper --rows none,global_state_update --seeds 1 --epochs 4 --dtype float32

A run that is complete is not run again, an interrupted one goes on; --report-only reports on those that are complete.
`contextual-bert benchmark outfit-completion` is the same for a study of one's own.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from contextual_bert.errors import did_you_mean
from contextual_bert.evaluation import write_study
from contextual_bert.runs.tasks.outfit_completion import SIZES, WORLDS, StudyData, prepare_study, run_study
from contextual_bert.training import Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers

# Relative, so that the recipes of the runs name no folder of this machine.
RESULTS = Path(os.path.relpath(Path(__file__).parent / "results"))


def none(data: StudyData) -> Recipe:
    """[None]: BERT, which sees the other items and not the customer."""
    return data.row("none")


def concat(data: StudyData) -> Recipe:
    """[C]: the context's vector joins each item's embedding before the first block."""
    return data.row("concat")


def new_position(data: StudyData) -> Recipe:
    """[NP]: the context is one more position of the sequence."""
    return data.row("new_position")


def global_state(data: StudyData) -> Recipe:
    """[GS]: every block reads the context's state between attention and feed-forward."""
    return data.row("global_state")


def global_state_update(data: StudyData) -> Recipe:
    """[GSU]: as [GS], and the state goes through a map of its own after each block."""
    return data.row("global_state_update")


def state_flow(data: StudyData) -> Recipe:
    """The paper's future work: the state also reads the sequence after each block."""
    return data.row("state_flow")


def film(data: StudyData) -> Recipe:
    """A comparator the paper does not have: scale and shift of each sub-layer's input from the context, from zero."""
    return data.row("film")


def none_wide(data: StudyData) -> Recipe:
    """Control: [None] with as many parameters as [GSU]."""
    return data.row("none_wide")


def new_position_wide(data: StudyData) -> Recipe:
    """Control: [NP] with as many parameters as [GSU]."""
    return data.row("new_position_wide")


def global_state_update_shuffled(data: StudyData) -> Recipe:
    """Control: [GSU] with the context of another customer's outfit, a new one every epoch."""
    return data.row("global_state_update_shuffled")


def popularity(data: StudyData) -> Recipe:
    """Baseline: how often an item occurs."""
    return data.row("popularity")


def context_popularity(data: StudyData) -> Recipe:
    """Baseline: what the context says without the other items."""
    return data.row("context_popularity")


def bag(data: StudyData) -> Recipe:
    """Baseline: what the mean of the other items says."""
    return data.row("bag")


def bag_context(data: StudyData) -> Recipe:
    """Baseline: the mean of the other items and the context."""
    return data.row("bag_context")


ROWS: tuple[Callable[[StudyData], Recipe], ...] = (
    none,
    concat,
    new_position,
    global_state,
    global_state_update,
    state_flow,
    film,
    none_wide,
    new_position_wide,
    global_state_update_shuffled,
    popularity,
    context_popularity,
    bag,
    bag_context,
)


def listed(names: str) -> list[Callable[[StudyData], Recipe]]:
    """The functions of these rows."""
    known = {row.__name__: row for row in ROWS}
    for name in names.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"no row {name!r}. {did_you_mean(name, known)}")
    return [known[name] for name in names.split(",")]


def main() -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--world", choices=WORLDS, default="interactions")
    parser.add_argument("--rows", type=listed, default=[*ROWS], help="separated by commas; all of them if left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="of every method but the baselines (default: those of the size)")
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float32", "auto"),
        default="bfloat16",
        help="float32 where a processor must emulate bfloat16; auto takes the faster one",
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of worlds, runs and reports")
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report on the runs that are complete"
    )
    arguments = parser.parse_args()
    output = arguments.output / f"table1-{arguments.size}-{arguments.world}"
    data = prepare_study(
        output / "world",
        size=arguments.size,
        world=arguments.world,
        epochs=arguments.epochs,
        dtype=arguments.dtype,
    )
    print(*data.preparation.lines(), sep="\n")
    found = run_study(
        data,
        output / "runs",
        rows=[row(data) for row in arguments.rows],
        num_seeds=arguments.seeds,
        is_report_only=arguments.report_only,
    )
    print(*found.texts, *write_study(found, output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
