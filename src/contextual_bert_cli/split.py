"""``contextual-bert split``: training, validation and test as a file with a hash, and a look for leaks."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.output import next_commands, remark, show_text, working
from contextual_bert_cli.recipes import CHECKPOINT

EXAMPLE = """\b
Example:
  contextual-bert split days.parquet --by person_id --validation 0.1 --test 0.1 --items items --output split.json
  contextual-bert split days.parquet --by-time date --items items
  contextual-bert split days.parquet --by person_id --exclude-customers removed.txt
"""


def command(
    data: options.Data,
    *,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Split by this column: all rows of one customer are in one part."),
    ] = None,
    by_time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Split by time: the past trains, the latest rows are the test."),
    ] = None,
    by_row: Annotated[bool, typer.Option("--by-row", help="Split row by row, for tables without customers.")] = False,
    validation: options.Validation = 0.1,
    test: options.Test = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split by customer or by row.")] = 0,
    items: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of items: look for leaks between the parts and from the columns."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of texts, in place of --items: look for equal ones.")
    ] = None,
    customer: options.Customer = None,
    separator: options.Separator = ",",
    exclude_customers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Customers that are in no part, so that a training leaves them out: one id a line, or a table with "
            f"the column of customers ({options.DATA_FORMATS}).",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the split is written.")] = Path("split.json"),
    overwrite: options.Overwrite = False,
) -> None:
    """Split a table by customer, by time or by row into a file with a hash, and look for leaks."""
    from contextual_bert.data import (
        SetPolicy,
        audit,
        audit_texts,
        read_names,
        read_sets,
        read_table,
        split_by_customer,
        split_by_row,
        split_by_time,
    )
    from contextual_bert.errors import ConfigurationError

    if [by is not None, by_time is not None, by_row].count(True) != 1:
        raise ConfigurationError(
            "Give one of --by COLUMN (all rows of a customer in one part), --by-time COLUMN (the latest rows are the "
            "test) and --by-row."
        )
    if items is not None and text is not None:
        raise ConfigurationError("--items names a column of sets and --text one of texts. Give one of them.")
    if items is None and separator != ",":
        raise ConfigurationError("--separator is for the look for leaks: name the column of items, too, with --items.")
    if exclude_customers is not None and not (customer or by):
        raise ConfigurationError("--exclude-customers needs the column of customers: name it with --customer COLUMN.")
    if items is None and text is None and customer is not None and exclude_customers is None:
        raise ConfigurationError(
            "--customer is for the look for leaks: name the column of items, too, with --items, or that of texts with "
            "--text."
        )
    if by_time is not None and seed:
        raise ConfigurationError("--by-time draws nothing, the latest rows are the test. Leave --seed out.")
    if output.exists() and not overwrite:
        raise ConfigurationError(f"{output} exists already. Give --overwrite to replace it, or another --output.")
    with working(f"reading {data}"):
        table = read_table(data, text_columns=(text,))
        if by is not None:
            made = split_by_customer(table, by, validation=validation, test=test, seed=seed, file=str(data))
        elif by_time is not None:
            made = split_by_time(table, by_time, validation=validation, test=test, file=str(data))
        else:
            made = split_by_row(table, validation=validation, test=test, seed=seed, file=str(data))
        excluded = None
        if exclude_customers is not None:
            whose = str(customer or by)
            left_out = read_names(exclude_customers, column=whose)
            made, num_rows = made.without_customers(table, whose, left_out, file=str(data))
            excluded = f"left out: {len({*left_out}):,} customers with {num_rows:,} rows, which are in no part"
        found = None
        if items is not None:
            policy = SetPolicy(duplicates="keep", separator=separator)
            sets = read_sets(table, items=items, policy=policy, file=str(data), customer=customer or by)
            found = audit(made, sets)
        if text is not None:
            found = audit_texts(made, table, text=text, customer=customer or by)
    made.save(output)
    left = [excluded] if excluded is not None else []
    show_text("\n".join([*made.lines(), *left, *(found.lines() if found is not None else ())]))
    if found is None:
        remark("no look for leaks: name the column of items with --items, or of texts with --text")
    remark(f"wrote {output}")
    named = ["--customer", customer or by] if customer or by else []
    read = ["--items", items or "items"] if text is None else ["--text", text, "--checkpoint", CHECKPOINT]
    next_commands(["train", str(data), *read, *named, "--split", str(output), "--output", "runs/gsu"])
