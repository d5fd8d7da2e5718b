"""``contextual-bert inspect``: what is in a table, before anything is trained."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert.options import CONTEXT, MAIN
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.failures import MISTAKE
from contextual_bert_cli.output import calm_transformers, next_commands, remark, show, working
from contextual_bert_cli.recipe_options import READING_OF_LOGS, data_options, typed, with_recipe_options
from contextual_bert_cli.recipes import (
    CHECKPOINT,
    free_folder,
    hidden_words_lines,
    lacks_checkpoint,
    method_of_start,
    recipe_of,
    same_options,
)
from contextual_bert_cli.wording import in_options

if TYPE_CHECKING:
    from contextual_bert.runs.log_columns import LogColumns

EXAMPLE = """\b
Example:
  contextual-bert inspect days.parquet --items items --customer person_id --drop-prefixes 18 --min-count 20 \\
      --min-size 4 --max-size 8 --override state=categorical --output schema.json
  contextual-bert inspect reviews.csv --text review --label stars --checkpoint bert-base-uncased
"""


@with_recipe_options(only=data_options(), without=("schema",))
def command(
    data: options.Data,
    *,
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            rich_help_panel=CONTEXT,
            help="Kind of a column: categorical, multi_categorical, numerical, vector or ignore; of dates also date, "
            "or parts, as date=month,weekday; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="FILE", rich_help_panel=MAIN, help="Where the schema is written.")
    ] = Path("schema.json"),
    overwrite: options.Overwrite = False,
    given: Mapping[str, Any],
) -> None:
    """Show what a table of sets or texts holds, its features and their kinds, its faults, and write schema.json."""
    choices, checkpoint = {**given, "data": data}, given["checkpoint"]
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import PathPlace

    if output.exists() and not overwrite:
        raise ConfigurationError(
            "exists already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    kinds = dict(kind_override(each) for each in override or ())
    if lacks_checkpoint(given):
        choices["checkpoint"] = CHECKPOINT
    method = method_of_start(checkpoint)
    if method is not None and kinds:
        raise ConfigurationError(
            f"says what kind a feature is, and {checkpoint} brings the features",
            fix="Leave it out.",
            setting="--override",
        )
    if method is not None and given["sensitive"]:
        raise ConfigurationError(
            f"marks features, and {checkpoint} brings them as they are", fix="Leave it out.", setting="--sensitive"
        )
    load_arrow()
    recipe = recipe_of(choices, has_checkpoint=checkpoint is not None)
    calm_transformers()
    with working(f"reading {data}"):
        from contextual_bert.runs.inspection import inspect_table

        found = inspect_table(recipe, overrides=kinds, has_tokens=checkpoint is not None)
    if found.schema is not None and method is None:
        found.schema.save(output)
        choices["exclude"] = None  # the schema is without these columns
    if found.order is not None:
        choices["order"] = [found.order]
    train = ["train", str(data), *same_options(choices)]
    name, folder = "none", None
    lines = {name: tuple(map(in_options, getattr(found, name))) for name in ("reading", "basis", "faults")}
    show(replace(found, **lines).to_rich())
    if not found.is_whole and found.log is not None:
        remark("", "no schema is written. Inspect the sets that the command below makes, or name a set with --group-by")
        next_commands(log_command(data, found.log, choices))
        return
    if method is not None:
        remark("", f"{checkpoint} brings its own features and its method: no schema is written")
        name, folder = method, f"{checkpoint}-on"
    elif found.schema is not None:
        remark("", f"wrote {output}: edit it as you like, every feature is one entry")
        train += ["--schema", str(output)]
        name = "global_state_update" if recipe.task.reads_context else "none"
        if found.schema.history_columns and not choices["order"]:
            train += ["--hide", "set"]
    if choices["order"] and choices["text"] is None:
        train += ["--hide", "next"]
    if choices["checkpoint"] != checkpoint:
        remark(
            "", f"without --checkpoint no tokens were counted; the command below names {CHECKPOINT}: put yours there"
        )
    if any(fault.startswith("error:") for fault in found.faults):
        remark("", "mend what is marked as an error first: train stops there")
        raise typer.Exit(MISTAKE)
    if not found.is_split:
        remark("", "train stops where inspect says that the table cannot be split: give it other shares, or more rows")
        return
    remark(*hidden_words_lines(choices, command="inspect"))
    log = [log_command(data, found.log, choices)] if found.log is not None else []
    next_commands(*log, [*train, "--conditioning", name, "--output", free_folder(folder or f"runs/{name}")])


def log_command(data: Path, log: "LogColumns", choices: Mapping[str, Any]) -> list[str]:
    """Return the command that makes sets with histories of a log, which is read as it was here."""
    read = typed(READING_OF_LOGS, choices)
    return ["histories", "--log", str(data), *log.options(), *read, "--output", "sets.parquet"]


def kind_override(text: str) -> tuple[str, str]:
    """COLUMN and KIND of an override."""
    from contextual_bert.errors import ConfigurationError

    column, sign, kind = text.rpartition("=")
    if not sign or not column or not kind:
        fix = "Give COLUMN=KIND, for instance --override state=categorical."
        raise ConfigurationError("is not allowed", setting="--override", value=text, fix=fix)
    return column.strip(), kind.strip()
