"""``contextual-bert calibrate``: temperatures and prediction sets from the validation part of a run."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.option_values import read_share, split_commas
from contextual_bert_cli.output import (
    calm_transformers,
    check_output_path,
    next_commands,
    remark,
    show_numbers,
)
from contextual_bert_cli.recipes import evaluation_overrides, use_of

EXAMPLE = """\b
Example:
  contextual-bert calibrate runs/gsu
  contextual-bert calibrate runs/gsu --coverage 0.8,0.95 --by gender --output runs/gsu/calibration
"""


def command(
    directory: options.RunDirectory,
    *,
    coverage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SHARE",
            help="How often prediction sets are to hold the true item or label, between 0 and 1; repeatable or with "
            "commas between (default: 0.8,0.9).",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field of the context whose values get temperatures of their own."),
    ] = None,
    min_rows: Annotated[
        int, typer.Option(min=1, help="Fewest validation rows of a value with a temperature or a floor of its own.")
    ] = 200,
    data: options.RunData = None,
    split: options.SplitFile = None,
    output_format: options.FormatChoice = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", file_okay=False, help="Write calibrated.md, calibrated.json and calibrated.png there."
        ),
    ] = None,
    batch_size: options.RunBatchSize = None,
    device: options.Device = "auto",
) -> None:
    """Choose temperatures and prediction sets on the validation part, keep them with the run, test them on the rest."""
    calm_transformers()
    check_output_path(output)
    coverages = tuple(read_share(each, option="--coverage") for each in split_commas(coverage))
    load_arrow()
    from contextual_bert.runs.run_directory import finished_run

    run = finished_run(directory)
    overrides = evaluation_overrides({"data": data, "split": split}, {}, reading=run.recipe.reading, group_by=None)

    from contextual_bert.evaluation.answer_calibration import DEFAULT_COVERAGES
    from contextual_bert.runs.calibrating import calibrate_run
    from contextual_bert.training import counting

    with counting("calibrating") as progress:
        found = calibrate_run(
            run,
            field=by,
            coverages=coverages or DEFAULT_COVERAGES,
            min_rows=min_rows,
            overrides={**overrides, "device": device},
            batch_size=batch_size,
            progress=progress,
        )
    remark(*found.lines, f"wrote {found.path}")
    if found.answers is None:
        remark("nothing of a test part: what this gives was not measured")
    else:
        show_numbers(found.answers, output_format)
    if output is not None and found.answers is not None:
        from contextual_bert.runs.report_files import write_calibrated

        remark(f"wrote {', '.join(str(path) for path in write_calibrated(found.answers, output))}")
    next_commands([*use_of(run.recipe, directory), "--coverage", f"{found.calibration.coverages[-1]:g}"])
