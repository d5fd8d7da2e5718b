"""Shared parts of the studies' commands: options, how errors are told, and the command of a study on texts."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.study_files import STUDY_FILE
from contextual_bert.runs.registry import keeps_weights
from contextual_bert.runs.run_directory import is_complete, is_run
from contextual_bert.training import Recipe
from contextual_bert_cli import options
from contextual_bert_cli.failures import in_words, resumable
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working
from contextual_bert_cli.studies import finish_study, without_weights
from contextual_bert_cli.wording import in_options
from studies.text_study import DATA_FOLDER, TextBenchmark, prepare_text_study, run_text_study

RESULTS = Path("studies") / "results"
Rows = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Rows to run; default: all of the size.")]
Reference = Annotated[
    str | None, typer.Option(metavar="ROW", help="What the others are compared with; default: none, if that is a row.")
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Epochs of every method but the baselines; default: those of the size.")
]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Train nothing. Report on the runs that are complete.")]


def check_kept_report(output: Path, rows: Sequence[str]) -> None:
    """Raise unless a report on these rows may stand where ``output`` has one already.

    The repository keeps reports without their runs. A report on other rows would replace what nobody can report again.

    Args:
        output: folder of the study.
        rows: what is asked for; none means all rows of the study.

    Raises:
        ConfigurationError: the report that is there has rows that are not asked for and have no complete run.
    """
    if not rows or not (output / STUDY_FILE).is_file():
        return
    kept = json.loads((output / STUDY_FILE).read_text(encoding="utf-8"))["comparison"]["rows"]
    lost = [
        row["name"]
        for row in kept
        if row["role"] != "oracle"
        and row["name"] not in rows
        and not any(is_complete(folder) for folder in (output / "runs" / row["name"]).glob("seed-*"))
    ]
    if lost:
        raise ConfigurationError(
            f"The report in {output} has rows whose runs are not there: {', '.join(lost)}. A report on "
            f"{', '.join(rows)} would replace it",
            fix="Give another folder with --output.",
        )


def run_command(command: Callable[..., None]) -> None:
    """Run a study's command. Tell its errors as ``contextual-bert`` does: one paragraph and exit code 2."""

    @functools.wraps(command)
    def told(*arguments: Any, **values: Any) -> None:
        with in_words():
            command(*arguments, **values)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=command.__doc__)(told)
    app()


def text_command(task: TextBenchmark) -> Callable[..., None]:
    """Return the command that trains and compares the rows of a study on texts."""

    def command(
        *,
        data: Annotated[Path, typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder of the study's files.")],
        checkpoint: Annotated[str, typer.Option(metavar="BERT", help="Folder of a BERT checkpoint, or its Hub name.")],
        output: Annotated[
            Path, typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder for table, runs, report and plots.")
        ],
        size: Annotated[str, typer.Option(metavar="small|full", help="Rows, tokens and epochs.")] = "small",
        rows: Rows = None,
        seeds: Annotated[int, typer.Option(min=1, help="Seeds a row, but no more than the size gives it.")] = 3,
        reference: Reference = None,
        epochs: Epochs = None,
        report_only: ReportOnly = False,
        jobs: options.Jobs = 1,
        device: options.Device = "auto",
        dtype: options.Dtype = "bfloat16",
    ) -> None:
        calm_transformers()
        check_kept_report(output, split_commas(rows))
        with resumable(output):
            with working("reading the texts"):
                ready = prepare_text_study(
                    task,
                    data,
                    output / DATA_FOLDER,
                    checkpoint=checkpoint,
                    size=size,
                    epochs=epochs,
                    device=device,
                    dtype=dtype,
                )
            remark(*task.card.lines(), *map(in_options, ready.prepared.lines()))
            found = run_text_study(
                ready,
                output / "runs",
                rows=split_commas(rows),
                num_seeds=seeds,
                reference=reference,
                is_report_only=report_only,
                num_jobs=jobs,
                say=lambda line: remark(in_options(line)),
            )
        finish_study(found, output, runs=output / "runs")
        folders = [output / "runs" / name / "seed-0" for name in found.ranking()]
        trained = [Recipe.load(folder) for folder in folders if is_run(folder)]  # a row may be made of several models
        best = next((recipe for recipe in trained if keeps_weights(recipe)), None)
        if best is not None:
            remark(*without_weights(found.ranking()[0], best))
            next_commands(["evaluate", str(output / "runs" / best.label / "seed-0")])

    command.__doc__ = f"{task.card.title}. {task.card.description} A study goes on where it was interrupted."
    return command
