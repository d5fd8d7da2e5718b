"""``contextual-bert embed``: texts and contexts in, vectors out; of documents, too, which are for everybody."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from contextual_bert_cli import clusters, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import check_asked_columns, checking
from contextual_bert_cli.output import calm_transformers, show_json, working
from contextual_bert_cli.pipelines import load_text_with_notes
from contextual_bert_cli.predict import check_output, predict_rows
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of_trained, reading_over
from contextual_bert_cli.records import at_options, read_context

if TYPE_CHECKING:
    from contextual_bert.inference import TextVector

EXAMPLE = """\b
Example:
  contextual-bert embed runs/search --data documents.parquet --documents --output vectors.parquet
  contextual-bert embed runs/search --data queries.parquet --output asked.parquet
  contextual-bert embed runs/search --text 'where to eat' --context '{"city": "oslo"}'
"""


@with_recipe_options(only=READING)
def command(
    directory: options.ModelOfVectors,
    *,
    text: Annotated[str | None, typer.Option(help="One text; without --context it is read as a document.")] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Who asks: {feature: value}; a feature that is not named is missing."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"All rows of a table, with their contexts: {options.DATA_FORMATS}.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of texts of --data; left out, as the run was trained."),
    ] = None,
    documents: Annotated[
        bool,
        typer.Option("--documents", help="The rows of --data are documents, which are read without a context."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the table is written, with its vectors: .parquet or .jsonl; or a folder of files, where a run "
            "that was interrupted goes on.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    shard_size: clusters.ShardSize = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts a forward pass.")] = 64,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Make a vector of a text, or of each row of a table, for whoever asks; the nearest document answers best."""
    from contextual_bert.errors import ConfigurationError, SchemaError, UnknownNameError
    from contextual_bert.inference.saved_files import trained_texts
    from contextual_bert.places import SettingsPlace

    calm_transformers()
    load_arrow()
    if (text is None) == (data is None):
        raise ConfigurationError(
            "Give either --text 'a text' for one text or --data FILE with --output FILE for many.",
            place=SettingsPlace(("--text", "--data")),
        )
    check_reads({**given, "data": data}, ("data",))
    of_data = {"--output": output, "--text-column": text_column, "--documents": documents or None}
    of_data |= {"--shard-size": shard_size}
    misplaced = [
        name for name, value in ({"--context": context} if text is None else of_data).items() if value is not None
    ]
    if misplaced:
        raise ConfigurationError(
            f"belongs to {'--text' if text is None else '--data'}", setting=misplaced[0], fix="Leave it out."
        )
    if data is not None and output is None:
        raise ConfigurationError("needs --output FILE, where the table is written with its vectors.", setting="--data")
    if output is not None:
        check_output(output, overwrite=overwrite, is_sharded=shard_size is not None)
    if text is not None and not text.strip():
        raise ConfigurationError(f"is {text!r}, in which there is nothing to read", fix="Give words.", setting="--text")
    learned, own = trained_texts(directory), read_context(context)
    column = text_column or (learned.pair if documents else learned.text) or "text"
    reading = reading_over(reading_of_trained(learned, directory), given)
    if data is not None:
        try:
            check_asked_columns(data, (column,), settings=reading)
        except UnknownNameError as error:
            raise error.further("Name the right one with --text-column.") from error
    if data is None or output is None:
        pipeline: Any = load_text_with_notes(directory, device=device, kind="contrastive_text")
        with working("embedding"), at_options({"text": "--text"}):
            show_json(cast("TextVector", pipeline({"text": text, "context": own})))
        return
    from contextual_bert.inference.tables.text_tables import PredictionSettings

    settings = PredictionSettings(text=column, is_document=documents, batch_size=batch_size, reading=reading)
    try:
        predict_rows(directory, data, output, settings=settings, shard_size=shard_size, device=device, cluster=None)
    except SchemaError as error:
        advice = "For documents, which are for everybody, give --documents."
        raise error.further(advice) from error.__cause__
