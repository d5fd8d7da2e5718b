"""``contextual-bert split``: training, validation and test as a file with a hash, and a look for leaks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert.nouns import agreeing, counted
from contextual_bert.options import MAIN, SPLIT
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import checking
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import next_commands, remark, show_text, working
from contextual_bert_cli.recipe_options import with_recipe_options
from contextual_bert_cli.recipes import (
    CHECKPOINT,
    free_folder,
    hidden_words_lines,
    lacks_checkpoint,
    method_of_start,
    reading_of,
    same_options,
    separator_of,
    text_task_of,
)

if TYPE_CHECKING:
    from contextual_bert.data.splits import SplitKind

EXAMPLE = """\b
Example:
  contextual-bert split days.parquet --by person_id --validation 0.1 --test 0.1 --items items --output split.json
  contextual-bert split days.parquet --by-time date --items items
  contextual-bert split days.parquet --by person_id --exclude-customers removed.txt
"""
# Options that say what is read and learned, beside --items and --text.
_LEARNED_OPTIONS = (
    *("label", "pair", "question", "answer", "answer_start", "phrases", "checkpoint", "ordinal", "order"),
    *("group_by", "customer", "schema", "exclude"),
)
_OPTIONS = (
    *("validation", "test", "items", "text", "separator", *_LEARNED_OPTIONS),
    *("delimiter", "on_bad_row", "date_format", "decimal", "encoding"),
)


@with_recipe_options(only=_OPTIONS)
def command(
    data: options.Data,
    *,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MAIN,
            help="Split by this column: all rows of one customer are in one part.",
        ),
    ] = None,
    by_time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MAIN,
            help="Split by time: the past trains, the latest rows are the test.",
        ),
    ] = None,
    by_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MAIN,
            help="Take the parts that a column names: train, validation or test.",
        ),
    ] = None,
    by_row: Annotated[
        bool,
        typer.Option("--by-row", rich_help_panel=MAIN, help="Split row by row, for tables without customers."),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, rich_help_panel=SPLIT, help="Seed of the split by customer or by row.")
    ] = 0,
    exclude_customers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            rich_help_panel=SPLIT,
            help="Customers that are in no part, so that a training leaves them out: one id a line, or a table with "
            f"the column of customers ({options.DATA_FORMATS}).",
        ),
    ] = None,
    cold_items: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            rich_help_panel=SPLIT,
            help="Share of the items to leave out of all training sets, so that a report shows how items that are new "
            "are ranked; needs --items.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="FILE", rich_help_panel=MAIN, help="Where the split is written.")
    ] = Path("split.json"),
    overwrite: options.Overwrite = False,
    given: Mapping[str, Any],
) -> None:
    """Split a table by customer, by time or by row into a file with a hash, and look for leaks.

    Name what train will read and learn, too: leaks are looked for there, and the command to go on with is whole.
    """
    choices = {**given, "data": data}
    items, text, checkpoint, customer = (given[name] for name in ("items", "text", "checkpoint", "customer"))
    validation, test, schema, exclude = (given[name] for name in ("validation", "test", "schema", "exclude"))
    load_arrow()
    import numpy as np

    from contextual_bert.context import ContextSchema
    from contextual_bert.data import (
        SetPolicy,
        audit,
        audit_texts,
        group_rows,
        new_split,
        read_names,
        read_sets,
        read_table,
        reading_lines,
    )
    from contextual_bert.data.audit import same_customer
    from contextual_bert.data.checked_columns import checked_column
    from contextual_bert.data.cold_items import cold_lines, with_cold_items
    from contextual_bert.data.groups import placing, separator_of_cells
    from contextual_bert.data.readers import without_gaps
    from contextual_bert.data.splits import PARTS, check_fractions
    from contextual_bert.data.text_table import with_tag_lists
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.encode import naming
    from contextual_bert.places import PathPlace, SettingsPlace
    from contextual_bert.runs.run_table import audit_of_file

    has_way = any((by is not None, by_time is not None, by_column is not None, by_row))
    if not has_way and customer is not None:
        by, customer = customer, None  # as train splits where a customer is named
    if [by is not None, by_time is not None, by_column is not None, by_row].count(True) != 1:
        raise ConfigurationError(
            "Give one of --by COLUMN (all rows of a customer in one part), --by-time COLUMN (the latest rows "
            "are the test), --by-column COLUMN (it names the part) and --by-row.",
            place=SettingsPlace(("--by", "--by-time", "--by-column", "--by-row")),
        )
    kind: SplitKind = "customer" if by is not None else "time" if by_time is not None else "column"
    kind = "row" if by_row else kind
    if by_column is not None and (validation, test, seed) != (0.1, 0.1, 0):
        raise ConfigurationError(
            "names the part of each row", fix="Leave --validation, --test and --seed out.", setting="--by-column"
        )
    if items is not None and text is not None:
        raise ConfigurationError(
            "names a column of sets and --text one of texts", fix="Give one of them.", setting="--items"
        )
    keys, between = split_commas(given["group_by"]), separator_of(choices)
    if keys and items is None:
        raise ConfigurationError(
            "puts the items of a set together", fix="Name their column, too, with --items.", setting="--group-by"
        )
    misplaced = next((name for name in _LEARNED_OPTIONS if choices[name] and items is None and text is None), None)
    if items is None and given["separator"] is not None:
        misplaced = "separator"
    if exclude_customers is not None and not (customer or by):
        raise ConfigurationError(
            "needs the column of customers", fix="Name it with --customer COLUMN.", setting="--exclude-customers"
        )
    if cold_items is not None and items is None:
        raise ConfigurationError(
            "leaves out items", fix="Name their column with --items.", setting="--cold-items", value=cold_items
        )
    if misplaced == "customer":
        misplaced = None  # who is in two parts is seen without items, and it names whose rows are left out
    if misplaced is not None:
        raise ConfigurationError(
            "is for the look for leaks and the command to go on with",
            fix="Name the column of items, too, with --items, or that of texts with --text.",
            setting=f"--{misplaced.replace('_', '-')}",
        )
    if lacks_checkpoint(choices):
        choices["checkpoint"] = CHECKPOINT
    task = text_task_of(choices)
    features = ContextSchema.load(schema) if schema is not None else None
    if features is not None and split_commas(exclude):
        raise ConfigurationError(
            "names the features, and --exclude leaves columns out", fix="Give one of them.", setting="--schema"
        )
    if by_time is not None and seed:
        raise ConfigurationError(
            "draws nothing, the latest rows are the test", fix="Leave --seed out.", setting="--by-time"
        )
    check_fractions(validation, test)
    if validation + test == 0:
        raise ConfigurationError(
            "and --test 0 split nothing", fix="Give one of them a share above 0.", setting="--validation", value=0
        )
    if output.exists() and not overwrite:
        raise ConfigurationError(
            "exists already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    if given["date_format"] and by_time is None:
        raise ConfigurationError(
            "says how times are written", fix="Name their column with --by-time.", setting="--date-format"
        )
    reading = reading_of(choices)
    with working(f"reading {data}"):
        texts = (text, task.second if task is not None else None)
        label = task.label if task is not None else None
        codes = (by, customer, items, label, *(features.code_columns if features is not None else ()))
        table = read_table(data, text_columns=(*texts, *keys), code_columns=codes, settings=reading)
        # Not of times: a train with this split file does not know their column, and has to see the same rows.
        for name in split_commas(exclude):
            checked_column(table, name, file=str(data))
        complete = [name for name in (*keys, customer or by, *texts, label) if name is not None]
        table = without_gaps(table, complete, reading, file=str(data))
        if task is not None and task.label is not None:
            with naming(str(data)):
                table = with_tag_lists(table, text=task.text, label=task.label)
        groups = None
        if keys:
            needed = [name for name in (by, by_time, by_column, customer) if name is not None]
            inside = separator_of_cells(between)
            groups = group_rows(
                table,
                keys,
                items=str(items),
                separator=inside,
                needed=needed,
                file=str(data),
                on_bad_row=reading.on_bad_row,
            )
            table = groups.table
        learned = task.columns if task is not None else (items,)
        used = {*learned, customer or by, by_column, *(keys if len(keys) == 1 else ()), *split_commas(exclude)}
        context = features.columns if features is not None else [c for c in table.column_names if c not in used]
        with placing(groups):
            made = new_split(
                table,
                kind,
                next((name for name in (by, by_time, by_column) if name is not None), None),
                shares=(validation, test),
                seed=seed,
                reading=reading,
                group_by=keys,
                file=str(data),
            )
            left = list[str]()
            if num_out := int((made.assignment == len(PARTS)).sum()):
                left.append(f"rows in no part as broken: {num_out:,} without a value of {by_time!r}")
            if exclude_customers is not None:
                whose = str(customer or by)
                left_out = read_names(exclude_customers, column=whose)
                made, num_rows = made.without_customers(table, whose, left_out, file=str(data))
                left += [
                    f"left out: {counted(len({*left_out}), 'customer')} with {counted(num_rows, 'row')}, in no part"
                ]
            found, repeated, remarks = None, 0, list[str]()
            if items is not None:
                policy = SetPolicy(duplicates="keep", separator=between)
                sets = read_sets(
                    table,
                    items=items,
                    policy=policy,
                    file=str(data),
                    customer=customer or by,
                    on_bad_row=reading.on_bad_row,
                )
                if cold_items is not None:
                    made = with_cold_items(made, sets.values.unique(), cold_items, seed=seed)
                    left += cold_lines(made, sets)
                remarks = [*(groups.lines() if groups is not None else []), *sets.report.remarks]
                found, repeated = audit_of_file(audit(made, sets), groups), sets.report.repeated_items
            if task is not None:
                for name in task.columns:
                    checked_column(table, name, file=str(data))
                found = audit_texts(
                    made,
                    table,
                    text=task.text,
                    pair=task.second,
                    label=task.label,
                    customer=customer or by,
                    columns=[name for name in context if name in table.column_names],
                )
    made.save(output)
    leaks = found.lines() if found is not None else []
    if found is None and (customer or by) is not None:
        with placing(groups):
            shared = same_customer(
                table, made.assignment.astype(np.int64), str(customer or by), by=made.by, rows=np.arange(table.num_rows)
            )
        told = [f"{fault.severity}: {fault.message}" for fault in shared]
        leaks = told or [f"no customer (column {str(customer or by)!r}) is in two parts"]
    show_text("\n".join([*reading_lines(table), *remarks, *made.lines(), *left, *leaks]))
    if found is None:
        remark("no look for leaks in columns and sets: name the column of items with --items, or of texts with --text")
    remark(f"wrote {output}")
    if items is None and text is None:
        remark(
            "",
            "To get the command that trains on this split, name what it reads: --items COLUMN of sets, or "
            f"--text COLUMN and --label COLUMN. The columns are {', '.join(table.column_names)}.",
        )
        return
    method = method_of_start(checkpoint)
    leaking = [name for name in found.leaking_columns if name in context] if found is not None and not features else []
    name = method or ("global_state_update" if len(context) > len(leaking) else "none")
    conditioned = [] if method is not None else ["--conditioning", name]
    folder = free_folder(f"{checkpoint}-on" if method is not None else f"runs/{name}")
    remark(*hidden_words_lines(choices, command="split"))
    if choices["checkpoint"] != checkpoint:
        remark("", f"the command below names {CHECKPOINT}: put your checkpoint there")
    if repeated:
        items_twice = f"{counted(repeated, 'item')} {agreeing('stand', repeated)} twice in a set"
        remark("", f"{items_twice}: the command below drops the second one")
        choices["duplicates"] = "drop"
    if leaking and method is None:
        remark("", f"the command below leaves out what was called a leak: {', '.join(leaking)}")
    if schema is None and (by_column is not None or leaking):
        choices["exclude"] = [*(exclude or ()), *([by_column] if by_column is not None else []), *leaking]
    of_split = dict.fromkeys(("validation", "test"))  # they are in the split file
    read = same_options({**choices, **of_split, "customer": customer or by})
    next_commands(["train", str(data), *read, "--split", str(output), *conditioned, "--output", folder])
