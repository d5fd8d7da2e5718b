"""``contextual-bert inspect-model``: where a model looks and what it says, with a context and without it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.asked_queries import items_of
from contextual_bert_cli.output import (
    calm_transformers,
    check_output_path,
    remark,
    show,
    show_json_text,
    show_text,
)
from contextual_bert_cli.records import OptionPlace, at_options, parse_record, read_context

# Key of a query -> the option that gives it.
QUERY_OPTIONS = {
    "text": "--text",
    "pair": "--pair",
    "question": "--question",
    "items": "--set",
    "versus": "--versus",
}
EXAMPLE = """\b
Example:
  contextual-bert inspect-model runs/verdict --text 'The bar was open all night.' --context '{"age": 20}' \\
      --versus '{"age": 70}' --output bar.html
  contextual-bert inspect-model runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34}' --output coat.html
  contextual-bert inspect-model runs/speeches --text 'My fellow' --context '{"year": 1800}' --format json
"""


def command(
    directory: options.RunDirectory,
    *,
    text: Annotated[
        str | None, typer.Option(help="The text; [MASK] where a token is hidden, the beginning of one to be continued.")
    ] = None,
    pair: Annotated[str | None, typer.Option(help="Its second text, of a run on pairs.")] = None,
    question: Annotated[str | None, typer.Option(help="What is asked about --text, of a run that answers.")] = None,
    items: Annotated[
        str | None,
        typer.Option("--set", metavar="A,B,[MASK]", help="The set, or a JSON list of it, of a run on sets of items."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Who asks: {feature: value}; a feature that is not named is missing."),
    ] = None,
    versus: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Fields of the context that are others in the comparison; left out, the context is taken away.",
        ),
    ] = None,
    has_probes: Annotated[
        bool,
        typer.Option(
            "--probes",
            help="Probe each layer, too: which tells the label, and which tells who asks, on the run's own table.",
        ),
    ] = False,
    data: options.RunData = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write a page there, with a map of each head: .html."),
    ] = None,
    overwrite: options.Overwrite = False,
    output_format: options.FormatChoice = "table",
    device: options.Device = "auto",
) -> None:
    """Show where each layer looks and what the model says, under a context and without it, for one text or set."""
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import trained_sets
    from contextual_bert.places import PathPlace

    calm_transformers()
    check_output_path(output)
    if output is not None and output.suffix.lower() != ".html":
        raise ConfigurationError("does not end with .html", fix="The page is HTML.", place=PathPlace(output))
    if output is not None and output.exists() and not overwrite:
        raise ConfigurationError(
            "exists already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    load_arrow()
    from contextual_bert.runs.run_directory import finished_run

    run = finished_run(directory)
    given: dict[str, Any] = {"text": text, "pair": pair, "question": question}
    if items is not None:
        given["items"] = items_of(items, trained_sets(directory).separator if run.recipe.task.has_items else ",")
    query = {key: value for key, value in given.items() if value is not None}
    record = read_context(context)
    other = parse_record(versus, place=OptionPlace(("versus",), "--versus")) if versus is not None else None
    overrides: dict[str, Any] = {"device": device, **({"data": str(data)} if data is not None else {})}

    from contextual_bert.atomic_files import replacing_file
    from contextual_bert.runs.model_inspection import inspect_model
    from contextual_bert.training import counting

    with counting("asking") as progress, at_options(QUERY_OPTIONS):
        asked = {**query, **({"context": record} if record else {})}
        found = inspect_model(run, asked, versus=other, overrides=overrides, progress=progress)
    if has_probes:
        from dataclasses import replace

        from contextual_bert.runs.probing import probe_run

        with counting("probing") as progress:
            probed = probe_run(run, overrides=overrides, progress=progress)
        found = replace(found, probes=probed.curves, notes=(*found.notes, *probed.notes))
    if output_format == "json":
        show_json_text(found.to_json())
    elif output_format == "markdown":
        show_text(found.to_markdown())
    else:
        show(found.to_rich())
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(output) as partial:
            partial.write_text(found.to_html(), encoding="utf-8")
        remark(f"wrote {output}")
