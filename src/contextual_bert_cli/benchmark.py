"""``contextual-bert benchmark``: studies of all methods, controls and baselines on open data."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.failures import resumable
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working
from contextual_bert_cli.recipes import listed
from contextual_bert_cli.studies import finish_study, without_weights
from contextual_bert_cli.wording import in_options

OUTFITS_EXAMPLE = """\b
Example:
  contextual-bert benchmark outfit-completion --size quick --seeds 1 --output runs/quick
  contextual-bert benchmark outfit-completion --size small --rows none,global_state_update --output runs/small
  contextual-bert benchmark outfit-completion --size small --world additive --output runs/additive
"""

TEXT_EXAMPLE = """\b
Example:
  contextual-bert benchmark text offensiveness --data DATA --checkpoint bert-base-uncased --output runs/offensiveness
  contextual-bert benchmark text entities --data DATA --checkpoint BERT --rows none,global_state_update --output runs/e
"""

app = typer.Typer(
    help="Studies of all methods, controls and baselines on open data; they go on where they were interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=OUTFITS_EXAMPLE)
def outfit_completion(
    *,
    output: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder of the study: world, runs, table and plots."),
    ],
    size: Annotated[
        str, typer.Option(metavar="quick|small|large|paper", help="Articles, outfits and epochs; see the guide.")
    ] = "small",
    world: Annotated[
        str,
        typer.Option(metavar="interactions|additive", help="Whether context must be combined or need only be added."),
    ] = "interactions",
    rows: Annotated[list[str] | None, typer.Option(metavar="A,B", help="Rows to run; default: all of them.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a row: 0 and the numbers after it.")] = 3,
    reference: Annotated[
        str | None, typer.Option(metavar="ROW", help="What the others are compared with; none, if that is a row.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of every method but the baselines; default: those of the size.")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Train nothing; report on the runs that are complete.")
    ] = False,
    jobs: options.Jobs = 1,
    device: options.Device = "auto",
    dtype: options.Dtype = "bfloat16",
) -> None:
    """Table 1 on open data: methods and controls in the stylist world, beside the best possible score."""
    from contextual_bert.runs.model_factory import has_context
    from contextual_bert.runs.registry import keeps_weights
    from contextual_bert.runs.tasks.outfit_completion import CARD, prepare_study, run_study

    calm_transformers()
    with resumable(output):
        with working("drawing and reading the outfits"):
            data = prepare_study(output / "world", size=size, world=world, epochs=epochs, device=device, dtype=dtype)
        remark(*CARD.lines(), *map(in_options, data.preparation.lines()))
        chosen = [*data.rows(listed(rows)).values()]
        found = run_study(
            data,
            output / "runs",
            rows=chosen,
            num_seeds=seeds,
            reference=reference,
            is_report_only=report_only,
            num_jobs=jobs,
            say=remark,
        )
    finish_study(found, output, runs=output / "runs")
    recipes = {recipe.label: recipe for recipe in chosen}
    best = next((recipes[name] for name in found.ranking() if keeps_weights(recipes[name])), None)
    if best is not None:
        remark(*without_weights(found.ranking()[0], best))
        command = "attribute" if has_context(best) else "evaluate"
        next_commands([command, str(output / "runs" / best.label / "seed-0")])


@app.command(epilog=TEXT_EXAMPLE)
def text(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="offensiveness, offensiveness-readers, entities or addresses.")
    ],
    *,
    data: Annotated[
        Path, typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder of the task's files; see the guide.")
    ],
    checkpoint: Annotated[str, typer.Option(metavar="BERT", help="Folder of a BERT checkpoint, or its Hub name.")],
    output: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder of the study: table, runs, report and plots."),
    ],
    size: Annotated[str, typer.Option(metavar="small|full", help="Rows, tokens and epochs; see the guide.")] = "small",
    rows: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Rows to run; default: all of the size.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a row, but no more than the size gives it.")] = 3,
    reference: Annotated[
        str | None, typer.Option(metavar="ROW", help="What the others are compared with; none, if that is a row.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Of all that starts from the checkpoint, and of a start; default: those of the size."),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Train nothing; report on the runs that are complete.")
    ] = False,
    jobs: options.Jobs = 1,
    device: options.Device = "auto",
    dtype: options.Dtype = "bfloat16",
) -> None:
    """The contextual NLP benchmark: texts that depend on who reads, writes or speaks, with methods and controls."""
    from contextual_bert.runs.registry import keeps_weights
    from contextual_bert.runs.run_directories import is_run
    from contextual_bert.runs.tasks import TEXT_TASKS
    from contextual_bert.runs.tasks.text_benchmark import DATA_FOLDER, prepare_text_study, run_text_study
    from contextual_bert.training import Recipe
    from contextual_bert_cli.choices import checked

    calm_transformers()
    chosen = TEXT_TASKS[checked(task, tuple(TEXT_TASKS), option="TASK")]
    with resumable(output):
        with working("reading the texts"):
            ready = prepare_text_study(
                chosen,
                data,
                output / DATA_FOLDER,
                checkpoint=checkpoint,
                size=size,
                epochs=epochs,
                device=device,
                dtype=dtype,
            )
        remark(*chosen.card.lines(), *map(in_options, ready.preparation.lines()))
        found = run_text_study(
            ready,
            output / "runs",
            rows=listed(rows),
            num_seeds=seeds,
            reference=reference,
            is_report_only=report_only,
            num_jobs=jobs,
            say=remark,
        )
    finish_study(found, output, runs=output / "runs")
    folders = [output / "runs" / name / "seed-0" for name in found.ranking()]
    trained = [Recipe.load(folder) for folder in folders if is_run(folder)]  # a row may be made of several models
    best = next((recipe for recipe in trained if keeps_weights(recipe)), None)
    if best is not None:
        remark(*without_weights(found.ranking()[0], best))
        next_commands(["evaluate", str(output / "runs" / best.label / "seed-0")])
