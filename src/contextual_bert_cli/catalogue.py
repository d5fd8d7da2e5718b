"""``contextual-bert catalogue``: items that a finished run learns of, or no longer proposes, without training."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import checking
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import calm_transformers, check_output_path, next_commands, remark, working
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import reading_of

if TYPE_CHECKING:
    from contextual_bert.data import ReadSettings
    from contextual_bert.inference.item_updates import CatalogueChange

ADD_EXAMPLE = """\b
Example:
  contextual-bert catalogue add runs/gsu --catalogue spring.parquet --output runs/gsu-spring
"""
UPDATE_EXAMPLE = """\b
Example:
  contextual-bert catalogue update runs/gsu --catalogue items.parquet --output runs/gsu-mended
"""
REMOVE_EXAMPLE = """\b
Example:
  contextual-bert catalogue remove runs/gsu --item coat-17,coat-18 --output runs/gsu-sale
  contextual-bert catalogue remove runs/gsu --catalogue sold-out.csv --output runs/gsu-sale
"""

app = typer.Typer(
    help="Make new items known to a finished run, read features anew, or propose items no more, without training.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Output = Annotated[
    Path, typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder of the new run; RUN stays as it is.")
]
CatalogueFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        callback=checking("table"),
        help=f"Table of the items, one row an item: {options.DATA_FORMATS}; --delimiter to --missing-value say how it "
        "is written.",
    ),
]


Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        callback=checking("checkpoint"),
        help="Where the sentence encoder of the run lies now, if not where it lay in training. It reads texts that are "
        "new.",
    ),
]


@app.command(epilog=ADD_EXAMPLE)
@with_recipe_options(only=READING)
def add(
    directory: options.RunOfSets,
    *,
    catalogue: CatalogueFile,
    item_text_encoder: Encoder = None,
    output: Output,
    given: Mapping[str, Any],
) -> None:
    """Make the items of a catalogue known to a run by their features; those that it knows stay as they are."""
    _change(directory, output, "add", catalogue, reading=reading_of(given), item_text_encoder=item_text_encoder)


@app.command(epilog=UPDATE_EXAMPLE)
@with_recipe_options(only=READING)
def update(
    directory: options.RunOfSets,
    *,
    catalogue: CatalogueFile,
    item_text_encoder: Encoder = None,
    output: Output,
    given: Mapping[str, Any],
) -> None:
    """Read the features of all items of a catalogue anew, and make new items known."""
    _change(directory, output, "update", catalogue, reading=reading_of(given), item_text_encoder=item_text_encoder)


@app.command(epilog=REMOVE_EXAMPLE)
@with_recipe_options(only=READING)
def remove(
    directory: options.RunOfSets,
    *,
    catalogue: Annotated[
        Path | None, typer.Option(metavar="FILE", callback=checking("table"), help="Table of the items to remove.")
    ] = None,
    item: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Items to remove, by name; repeatable or with commas.")
    ] = None,
    output: Output,
    given: Mapping[str, Any],
) -> None:
    """Never propose these items any more; in a set they are understood as before."""
    items = split_commas(item)
    if (catalogue is None) == (not items):
        from contextual_bert.errors import ConfigurationError

        raise ConfigurationError(
            "One of --item and --catalogue says which items are removed", fix="Give one of them, not both."
        )
    _change(directory, output, "remove", catalogue, items=items, reading=reading_of(given))


def _change(
    directory: Path,
    output: Path,
    action: Any,
    catalogue: Path | None,
    *,
    reading: "ReadSettings",
    items: tuple[str, ...] = (),
    item_text_encoder: str | None = None,
) -> None:
    check_output_path(output)
    load_arrow()
    calm_transformers()
    from contextual_bert.inference.item_updates import change_catalogue
    from contextual_bert.inference.text_vectors import READING_TEXTS
    from contextual_bert.training.progress import counting

    with working(f"changing the items of {directory}") as end_sign:

        def showing() -> "AbstractContextManager[Callable[[int, int], None] | None]":
            end_sign()
            return counting(READING_TEXTS)

        change: CatalogueChange = change_catalogue(
            directory,
            output,
            action=action,
            catalogue=catalogue,
            items=items,
            reading=reading,
            item_text_encoder=item_text_encoder,
            showing=showing,
        )
    remark(*change.lines(), f"wrote {output}; {directory} is as it was. Exports of it are made anew with export.")
    shop = ["--catalogue", str(catalogue)] if catalogue is not None and action != "remove" else []
    next_commands(["serve", str(output), *shop], ["export", str(output)])
