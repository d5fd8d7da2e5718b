"""``contextual-bert evaluate``: the numbers of a run on a table, with intervals and by segment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import check_asked_columns
from contextual_bert_cli.option_values import number_or_all, split_commas
from contextual_bert_cli.output import (
    calm_transformers,
    check_output_path,
    next_commands,
    remark,
    show,
    show_json_text,
    show_text,
)
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, evaluation_overrides, use_of

EXAMPLE = """\b
Example:
  contextual-bert evaluate runs/gsu --data test.parquet --output runs/gsu/evaluation
  contextual-bert evaluate runs/gsu --part validation --format json > validation.json
"""


@with_recipe_options(only=READING)
def command(
    directory: options.RunDirectory,
    *,
    data: options.RunData = None,
    split: options.SplitFile = None,
    part: options.RunPart = None,
    items: options.RunItems = None,
    group_by: options.RunGroupBy = None,
    order: options.RunOrder = None,
    customer: options.RunCustomer = None,
    scored_tokens: options.ScoredTokens = None,
    segments: Annotated[int, typer.Option(min=0, help="Segments to show, the worst first; 0 shows none.")] = 10,
    output_format: options.FormatChoice = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", file_okay=False, help="Write report.md, report.json and the plots (PNG) there."
        ),
    ] = None,
    batch_size: options.RunBatchSize = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    given: Mapping[str, Any],
) -> None:
    """Rank each item, masked once, or each label among all: cross-entropy, recall, MRR, with intervals, by segment."""
    calm_transformers()
    check_output_path(output)
    load_arrow()
    from contextual_bert.runs.run_directory import finished_run

    run = finished_run(directory)
    check_reads({**given, "data": data}, ("data",))
    asked = {"data": data, "split": split, "items": items, "order": order, "customer": customer}
    overrides = evaluation_overrides(asked, given, reading=run.recipe.reading, group_by=group_by)
    reading = overrides.get("reading", run.recipe.reading)
    check_asked_columns(data or run.recipe.data, (items, order, customer, *split_commas(group_by)), settings=reading)
    if scored_tokens is not None:
        overrides["scored_tokens"] = number_or_all(scored_tokens, option="--scored-tokens")

    from contextual_bert.runs.evaluation import evaluate_run
    from contextual_bert.training import counting

    with counting("scoring") as progress:
        found = evaluate_run(
            run,
            overrides={**overrides, "device": device, "dtype": dtype},
            part=part,
            batch_size=batch_size,
            progress=progress,
        )
    remark(*found.lines)
    if output_format == "json":
        show_json_text(found.to_json())
    elif output_format == "markdown":
        show_text(found.to_markdown(num_segments=segments))
    else:
        show(found.to_rich(num_segments=segments))
    if output is not None:
        from contextual_bert.runs.report_files import write_report  # draws: not needed without a folder

        remark(f"wrote {', '.join(str(path) for path in write_report(found, output))}")
    next_commands(use_of(run.recipe, directory))
