"""``contextual-bert world``: the stylist world, the only place where the best possible score is known."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.inputs import PARTS, checking, one_of
from contextual_bert_cli.output import next_commands, remark, show, show_json_text, show_text, working

OUTFITS_FILE = "outfits.parquet"  # as in contextual_bert.runs.world_files
GENERATE_EXAMPLE = """\b
Example:
  contextual-bert world generate --items 1000 --outfits 62000 --seed 0 --output world
"""
ORACLE_EXAMPLE = """\b
Example:
  contextual-bert world oracle world --limit 2000
  contextual-bert world oracle world --split runs/gsu/split.json --part test --output oracle.json
"""

app = typer.Typer(
    help="Generate outfits of a stylist world, and compute the best score that is possible there.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=GENERATE_EXAMPLE)
def generate(
    *,
    output: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder for outfits.parquet and the world's files."),
    ],
    items: Annotated[int, typer.Option(help="Number of articles.")] = 1000,
    outfits: Annotated[int, typer.Option(min=1, help="Number of outfits: rows of outfits.parquet.")] = 62_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the world and of its outfits.")] = 0,
    customers: Annotated[
        int | None, typer.Option(min=1, help="Number of customers; default: a third of the outfits.")
    ] = None,
    additive: Annotated[
        bool, typer.Option("--additive", help="A world without interactions: context need only be added.")
    ] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Generate a world of articles and customers, and draw outfits from it."""
    from contextual_bert.data import StylistWorld
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import PathPlace
    from contextual_bert.runs.world_files import write_world

    if (output / OUTFITS_FILE).exists() and not overwrite:
        raise ConfigurationError(
            "holds a world already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    with working(f"drawing {outfits:,} outfits of {items:,} articles"):
        world = StylistWorld.generate(items, seed=seed, interactions=not additive)
        table = world.sample(outfits, seed=seed, num_customers=customers)
        write_world(world, table, output)
    remark(
        f"wrote {output / OUTFITS_FILE}: {outfits:,} outfits of {world.num_items:,} articles, columns "
        f"{', '.join(table.column_names)}"
    )
    columns = ["--items", "items", "--customer", "customer_id"]
    schema = output / "schema.json"
    replacing = ["--overwrite"] if schema.exists() else []
    next_commands(
        ["inspect", str(output / OUTFITS_FILE), *columns, "--output", str(schema), *replacing],
        ["world", "oracle", str(output), "--limit", "2000"],
    )


@app.command(epilog=ORACLE_EXAMPLE)
def oracle(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", file_okay=False, help="The --output of world generate.")
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=checking("table"), help="Outfits of this world; default: its outfits.parquet."
        ),
    ] = None,
    split: options.SplitFile = None,
    part: Annotated[str | None, typer.Option(**one_of(PARTS), help="Part of --split; default: test.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Score only the first so many outfits.")] = None,
    output_format: options.FormatChoice = "table",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON there.")] = None,
) -> None:
    """Compute the best possible cross-entropy and recall on outfits of a world, with intervals."""
    from contextual_bert.atomic_files import replacing_file
    from contextual_bert.data import Split, StylistWorld, read_table
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.runs.evaluation import evaluate_oracle
    from contextual_bert.training import counting

    world = StylistWorld.load(directory)
    source = data or directory / OUTFITS_FILE
    table = read_table(source)
    if split is not None:
        chosen = Split.load(split)
        chosen.check(table, file=str(source))
        table = table if part == "all" else table.take(chosen.rows(part or "test"))
    elif part not in (None, "all"):
        raise ConfigurationError("needs a split", setting="--part", value=part, fix="Name its file with --split.")
    table = table if limit is None else table.slice(0, limit)
    with counting("scoring") as progress:
        found = evaluate_oracle(world, table, progress=progress)
    remark(*found.lines)
    if output_format == "json":
        show_json_text(found.report.to_json())
    elif output_format == "markdown":
        show_text(found.report.to_markdown())
    else:
        show(found.report.to_rich())
    if output is not None:
        with replacing_file(output) as partial:
            partial.write_text(found.report.to_json() + "\n", encoding="utf-8")
        remark(f"wrote {output}")
