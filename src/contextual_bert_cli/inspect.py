"""``contextual-bert inspect``: what is in a table, before anything is trained."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.output import next_commands, remark, show, working
from contextual_bert_cli.recipes import listed, recipe_of

EXAMPLE = """\b
Example:
  contextual-bert inspect days.parquet --items items --customer person_id --drop-prefixes 18 --min-count 20 \\
      --min-size 4 --max-size 8 --override state=categorical --output schema.json
"""


def command(
    data: options.Data,
    *,
    items: options.Items,
    customer: options.Customer = None,
    time: options.Time = None,
    exclude: options.Exclude = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Kind of a column: categorical, multi_categorical, numerical, vector or ignore; repeatable.",
        ),
    ] = None,
    drop_items: options.DropItems = None,
    drop_prefixes: options.DropPrefixes = None,
    min_count: options.MinCount = 1,
    min_size: options.MinSize = 1,
    max_size: options.MaxSize = None,
    longer: options.Longer = "drop",
    duplicates: options.Duplicates = "error",
    separator: options.Separator = ",",
    split: options.SplitFile = None,
    split_by: options.SplitBy = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the schema is written.")] = Path("schema.json"),
    overwrite: options.Overwrite = False,
) -> None:
    """Show sizes, features and their kinds, missing values and faults of a table, and write schema.json."""
    choices = dict(locals())
    from contextual_bert.benchmark.inspection import inspect_table
    from contextual_bert.errors import ConfigurationError

    if output.exists() and not overwrite:
        raise ConfigurationError(f"{output} exists already. Give --overwrite to replace it, or another --output.")
    kinds = dict(pair(each) for each in override or ())
    recipe = recipe_of(choices)
    with working(f"reading {data}"):
        found = inspect_table(recipe, overrides=kinds)
    filters = _filters(choices)
    train = ["train", str(data), "--items", items, *filters]
    name = "none"
    if found.schema is not None:
        found.schema.save(output)
    show(found.to_rich())
    if found.schema is not None:
        remark("", f"wrote {output}: edit it as you like, every feature is one entry")
        train += ["--schema", str(output)]
        name = "global_state_update"
    next_commands([*train, "--conditioning", name, "--output", f"runs/{name}"])


def pair(text: str) -> tuple[str, str]:
    """COLUMN and KIND of an override."""
    from contextual_bert.errors import ConfigurationError

    column, sign, kind = text.rpartition("=")
    if not sign or not column or not kind:
        raise ConfigurationError(f"--override {text!r}: give COLUMN=KIND, for instance --override state=categorical.")
    return column.strip(), kind.strip()


def _filters(choices: dict[str, object]) -> list[str]:
    """The options that ``train`` must be given too, so that it reads the same sets."""
    defaults = {"min_count": 1, "min_size": 1, "longer": "drop", "duplicates": "error", "separator": ","}
    names = ("customer", "time", "exclude", "drop_items", "drop_prefixes", "min_count", "min_size", "max_size")
    chosen: list[str] = []
    for name in (*names, "longer", "duplicates", "separator", "split", "split_by"):
        value = choices[name]
        if value is not None and value != defaults.get(name):
            text = ",".join(listed(value)) if isinstance(value, list) else str(value)
            chosen += [f"--{name.replace('_', '-')}", text]
    return chosen
