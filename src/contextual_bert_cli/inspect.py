"""``contextual-bert inspect``: what is in a table, before anything is trained."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.failures import MISTAKE
from contextual_bert_cli.output import calm_transformers, next_commands, remark, show, working
from contextual_bert_cli.recipes import (
    CHECKPOINT,
    check_tables,
    free_folder,
    hidden_words_lines,
    listed,
    method_of,
    recipe_of,
    same_options,
)
from contextual_bert_cli.wording import in_options

EXAMPLE = """\b
Example:
  contextual-bert inspect days.parquet --items items --customer person_id --drop-prefixes 18 --min-count 20 \\
      --min-size 4 --max-size 8 --override state=categorical --output schema.json
  contextual-bert inspect reviews.csv --text review --label stars --checkpoint bert-base-uncased
"""


def command(
    data: options.Data,
    *,
    items: options.ItemsOrText = None,
    text: options.Text = None,
    label: options.Label = None,
    pair: options.Pair = None,
    question: options.Question = None,
    answer: options.AnswerColumn = None,
    answer_start: options.AnswerStart = None,
    checkpoint: options.Checkpoint = None,
    max_length: options.MaxLength = None,
    ordinal: options.Ordinal = False,
    order: options.Order = None,
    group_by: options.GroupBy = None,
    customer: options.Customer = None,
    time: options.Time = None,
    exclude: options.Exclude = None,
    min_customers: options.MinCustomers = 10,
    max_categories: options.MaxCategories = 1000,
    hash_buckets: options.HashBuckets = None,
    leaks: options.Leaks = "drop",
    sensitive: options.Sensitive = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Kind of a column: categorical, multi_categorical, numerical, vector or ignore; of dates also date, "
            "or parts, as date=month,weekday; repeatable.",
        ),
    ] = None,
    drop_items: options.DropItems = None,
    drop_prefixes: options.DropPrefixes = None,
    min_count: options.MinCount = 1,
    min_size: options.MinSize = 1,
    max_size: options.MaxSize = None,
    longer: options.Longer = "drop",
    duplicates: options.Duplicates = "error",
    separator: options.Separator = None,
    delimiter: options.Delimiter = None,
    on_bad_row: options.OnBadRow = "error",
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    missing_value: options.MissingValue = None,
    split: options.SplitFile = None,
    split_column: options.SplitColumn = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    split_by: options.SplitBy = None,
    validation: options.Validation = 0.1,
    test: options.Test = 0.1,
    split_seed: options.SplitSeed = 0,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the schema is written.")] = Path("schema.json"),
    overwrite: options.Overwrite = False,
) -> None:
    """Show what a table of sets or texts holds, its features and their kinds, its faults, and write schema.json."""
    choices = dict(locals())
    from contextual_bert.errors import ConfigurationError

    if output.exists() and not overwrite:
        raise ConfigurationError(f"{output} exists already", fix="Give --overwrite to replace it, or another --output.")
    kinds = dict(kind_of(each) for each in override or ())
    if text is not None and checkpoint is None:
        choices["checkpoint"] = CHECKPOINT
    method = method_of(checkpoint)
    if method is not None and kinds:
        raise ConfigurationError(
            f"--override says what kind a feature is, and {checkpoint} brings the features", fix="Leave it out."
        )
    if method is not None and listed(sensitive):
        raise ConfigurationError(
            f"--sensitive marks features, and {checkpoint} brings them as they are", fix="Leave it out."
        )
    recipe = recipe_of(choices, has_checkpoint=checkpoint is not None)
    check_tables(data, validation_data, test_data)
    calm_transformers()
    with working(f"reading {data}"):
        if recipe.texts is None:
            from contextual_bert.runs.inspection import inspect_table

            found = inspect_table(recipe, overrides=kinds)
        else:
            from contextual_bert.runs.text_inspection import inspect_texts

            found = inspect_texts(recipe, overrides=kinds, has_tokens=checkpoint is not None)
    if found.schema is not None and method is None:
        found.schema.save(output)
        choices["exclude"] = None  # the schema is without these columns
    train = ["train", str(data), *same_options(choices), *_share_options(validation, test, split_seed)]
    name, folder = "none", None
    lines = {name: tuple(map(in_options, getattr(found, name))) for name in ("reading", "basis", "faults")}
    show(replace(found, **lines).to_rich())
    if method is not None:
        remark("", f"{checkpoint} brings its own features and its method: no schema is written")
        name, folder = method, f"{checkpoint}-on"
    elif found.schema is not None:
        remark("", f"wrote {output}: edit it as you like, every feature is one entry")
        train += ["--schema", str(output)]
        name = "global_state_update"
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
    next_commands([*train, "--conditioning", name, "--output", free_folder(folder or f"runs/{name}")])


def _share_options(validation: float, test: float, split_seed: int) -> list[str]:
    """The options of the split that differ from their defaults, for the command that trains."""
    given = {"--validation": (validation, 0.1), "--test": (test, 0.1), "--split-seed": (split_seed, 0)}
    return [part for flag, (value, default) in given.items() if value != default for part in (flag, f"{value:g}")]


def kind_of(text: str) -> tuple[str, str]:
    """COLUMN and KIND of an override."""
    from contextual_bert.errors import ConfigurationError

    column, sign, kind = text.rpartition("=")
    if not sign or not column or not kind:
        fix = "Give COLUMN=KIND, for instance --override state=categorical."
        raise ConfigurationError("is not allowed", setting="--override", value=text, fix=fix)
    return column.strip(), kind.strip()
