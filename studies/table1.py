"""Table 1 of the Contextual BERT paper on open data: the stylist world, where the best possible score is known.

What every method shares (sizes, budget, learning rate, masks) is in ``studies.outfits``, and how it was found in
docs/log.md. Report: studies/results/table1-SIZE-WORLD.

    python -m studies.table1                                                 # small, with interactions: hours
    python -m studies.table1 --world additive --rows none,concat,global_state_update
    python -m studies.table1 --size large --rows global_state_update --seeds 1
    python -m studies.table1 --size paper --rows none,global_state_update --seeds 1 --epochs 4 --dtype float32
    python -m studies.table1 --rows bag,bag_context --softmax-over vocabulary --output bags      # as the kept rows are

A run that is complete is not run again, an interrupted one goes on; --report-only reports on those that are complete.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import keeps_weights
from contextual_bert_cli import options
from contextual_bert_cli.failures import resumable
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working
from contextual_bert_cli.studies import finish_study, without_weights
from contextual_bert_cli.wording import in_options
from studies.commands import RESULTS, Epochs, Reference, ReportOnly, Rows, check_kept_report, run_command
from studies.outfits import CARD, prepare_study, run_study

if TYPE_CHECKING:
    from contextual_bert.softmax_over import SoftmaxOver
    from contextual_bert.training.recipe import Device, Dtype


def command(
    *,
    size: Annotated[
        str, typer.Option(metavar="quick|small|large|paper", help="Number of articles, outfits and epochs.")
    ] = "small",
    world: Annotated[
        str,
        typer.Option(metavar="interactions|additive", help="Whether context must be combined or need only be added."),
    ] = "interactions",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            help="Folder for world, runs, table and plots; default: studies/results/table1-SIZE-WORLD.",
        ),
    ] = None,
    rows: Rows = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a row: 0 and the numbers after it.")] = 3,
    reference: Reference = None,
    epochs: Epochs = None,
    report_only: ReportOnly = False,
    jobs: options.Jobs = 1,
    device: options.Device = "auto",
    dtype: options.Dtype = "bfloat16",
    softmax_over: Annotated[
        str | None,
        typer.Option(
            metavar="vocabulary|items|candidates",
            help="What loss and scores go over. Default: candidates, the items that can be asked. vocabulary: all, as "
            "the kept rows of the methods.",
        ),
    ] = None,
) -> None:
    """Table 1 on open data: methods, controls and baselines in the stylist world, beside the best possible score."""
    calm_transformers()
    folder = output or RESULTS / f"table1-{size}-{world}"
    check_kept_report(folder, split_commas(rows))
    with resumable(folder):
        with working("drawing and reading the outfits"):
            data = prepare_study(
                folder / "world",
                size=size,
                world=world,
                epochs=epochs,
                device=cast("Device", device),
                dtype=cast("Dtype", dtype),
                softmax_over=cast("SoftmaxOver | None", softmax_over),
            )
        remark(*CARD.lines(), *map(in_options, data.prepared.lines()))
        chosen = [*data.rows(split_commas(rows)).values()]
        found = run_study(
            data,
            folder / "runs",
            rows=chosen,
            num_seeds=seeds,
            reference=reference,
            is_report_only=report_only,
            num_jobs=jobs,
            say=lambda line: remark(in_options(line)),
        )
    finish_study(found, folder, runs=folder / "runs")
    recipes = {recipe.label: recipe for recipe in chosen}
    best = next((recipes[name] for name in found.ranking() if keeps_weights(recipes[name])), None)
    if best is not None:
        remark(*without_weights(found.ranking()[0], best))
        next_commands(["importance" if has_context(best) else "evaluate", str(folder / "runs" / best.label / "seed-0")])


if __name__ == "__main__":
    run_command(command)
