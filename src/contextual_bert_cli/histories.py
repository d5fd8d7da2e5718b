"""``contextual-bert histories``: a transaction log, one row an item, to sets with what the same user had before."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert.options import CONTEXT, MAIN, SETS, SPLIT
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import checking, one_of
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import check_output_path, next_commands, remark, show_text
from contextual_bert_cli.recipe_options import READING_OF_LOGS, with_recipe_options
from contextual_bert_cli.recipes import reading_of

EXAMPLE = """\b
Example:
  contextual-bert histories --log transactions.parquet --user customer --item article --time date \\
      --output sets.parquet
  contextual-bert histories --log orders/ --user customer --item article --time ordered_at --basket order \\
      --split time --validation 0.1 --test 0.1 --max-history 30 --output sets.parquet
  contextual-bert histories --log plays.csv --user listener --item track --time played_at --session-gap 30 \\
      --on-bad-row drop --output sessions.parquet
  contextual-bert histories --log ratings.csv --user user --item film --time rated_at --sequences \\
      --output sequences.parquet
"""
SECONDS_BEFORE_BAR = 2.0


@with_recipe_options(only=READING_OF_LOGS)
def command(
    *,
    log: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            rich_help_panel=MAIN,
            help=f"The log, one row an item: {options.DATA_FORMATS}; or a folder of such files.",
        ),
    ],
    user: Annotated[
        str, typer.Option(metavar="COLUMN", rich_help_panel=MAIN, help="Column of those whose history it is.")
    ],
    item: Annotated[str, typer.Option(metavar="COLUMN", rich_help_panel=MAIN, help="Column of the items.")],
    time: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MAIN,
            help="Column of the times: dates, times, text that is one, or numbers such as seconds since 1970.",
        ),
    ],
    basket: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MAIN,
            help="Column that names a row's basket, such as the order; left out, a basket is what a user has at one "
            "time, or on one day where the times are dates.",
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(metavar="FILE", rich_help_panel=MAIN, help="Where the sets are written: .parquet, or .jsonl."),
    ],
    overwrite: options.Overwrite = False,
    session_gap: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            rich_help_panel=SETS,
            help="A longer gap between two rows of a user begins another basket: for sessions and playlists.",
        ),
    ] = None,
    sequences: Annotated[
        bool,
        typer.Option(
            "--sequences",
            rich_help_panel=SETS,
            help="Make one row of all that a user has, item by item, for --order and --hide next; the item that is "
            "asked for is the last.",
        ),
    ] = False,
    max_history: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=SETS,
            help="Keep the newest so many earlier baskets, with --sequences items; default: 50 baskets, 200 items.",
        ),
    ] = None,
    min_items: Annotated[
        int, typer.Option(rich_help_panel=SETS, help="Make no row of baskets with fewer items; histories keep them.")
    ] = 1,
    min_history: Annotated[
        int, typer.Option(rich_help_panel=SETS, help="Make no row of baskets with fewer earlier ones.")
    ] = 0,
    targets: Annotated[
        str,
        typer.Option(
            **one_of(("all", "last"), setting="targets"),
            rich_help_panel=SETS,
            help="Make a row of all baskets, or of the last one of each user and part.",
        ),
    ] = "all",
    days_ago: Annotated[
        bool,
        typer.Option(
            "--days-ago",
            rich_help_panel=SETS,
            help="Write each basket of a history as an object of its items and the days before the set.",
        ),
    ] = False,
    keep_counts: Annotated[
        bool,
        typer.Option(
            "--keep-counts",
            rich_help_panel=SETS,
            help="Write how often each item stands in its basket, too: columns counts and history_counts.",
        ),
    ] = False,
    quantity: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=SETS,
            help="Column that says how many of the item there are; rows with 0 or less are left out as returned.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            rich_help_panel=CONTEXT,
            help="Columns to carry along as context, or '' for none; left out, all that do not vary within a basket.",
        ),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            **one_of(("last", "time", "none"), setting="split"),
            rich_help_panel=SPLIT,
            help="The column part: a user's newest basket is the test and the one before validation (last); the "
            "newest baskets of all users are (time); or no such column (none).",
        ),
    ] = "last",
    validation: Annotated[
        float | None,
        typer.Option(rich_help_panel=SPLIT, help="Share of the sets for validation, of --split time; default: 0.1."),
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(rich_help_panel=SPLIT, help="Share of the sets for the test, of --split time; default: 0.1."),
    ] = None,
    given: Mapping[str, Any],
) -> None:
    """Make sets with histories of a transaction log: one row a basket, with the earlier baskets of the same user.

    The log may be larger than the memory. A history has nothing of the basket's own time, and nothing later.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import PathPlace

    if output.exists() and not overwrite:
        raise ConfigurationError(
            "exists already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    for option, share in (("--validation", validation), ("--test", test)):
        if share is not None and split != "time":
            raise ConfigurationError(
                "is a share of a split by time", setting=option, value=share, fix="Give --split time, or leave it out."
            )
    check_output_path(output)
    load_arrow()
    from contextual_bert.data import write_histories
    from contextual_bert.data.logs.log_settings import ITEM_TIMES, HistorySettings
    from contextual_bert.runs.sigterm import ending_at_sigterm
    from contextual_bert.training.progress import counting

    settings = HistorySettings(
        user=user,
        item=item,
        time=time,
        basket=basket,
        session_gap=session_gap,
        is_sequence=sequences,
        quantity=quantity,
        keep=split_commas(keep) if keep is not None else None,
        max_history=max_history,
        min_items=min_items,
        min_history=min_history,
        targets=targets,  # pyright: ignore[reportArgumentType]
        split=split,  # pyright: ignore[reportArgumentType]
        validation=0.1 if validation is None else validation,
        test=0.1 if test is None else test,
        has_days=days_ago,
        has_counts=keep_counts,
    )
    stage = partial(counting, seconds_before=SECONDS_BEFORE_BAR, unit="part")
    with ending_at_sigterm("Stopped by SIGTERM. Nothing half written was left."):
        found = write_histories(log, output, settings, reading=reading_of(given), stage=stage)
    show_text("\n".join(found.lines()))
    remark(f"wrote {output}: columns {', '.join(found.columns)}")
    if output.suffix.lower() == ".parquet":
        parts = ["--split-column", "part"] if split != "none" else []
        order = ["--order", ITEM_TIMES] if sequences else []
        order += ["--duplicates", "keep"] if found.counts.get("repeating") else []
        next_commands(["inspect", str(output), "--items", "items", *order, "--customer", user, *parts])
