"""``contextual-bert explain``: which fields of the context, and which items, made a proposal what it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert_cli import constraint_options, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.asked_queries import SET, asked_queries, items_of
from contextual_bert_cli.constraint_options import given_everywhere
from contextual_bert_cli.inputs import checking
from contextual_bert_cli.output import calm_transformers, next_commands, show, show_json_text, show_text, working
from contextual_bert_cli.pipelines import load_with_notes
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of

EXAMPLE = """\b
Example:
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34, "gender": "female"}'
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34}' --item hat-3 --format json
  contextual-bert explain runs/gsu --set '[MASK]' --context '{"age": 34}' --item coat-new --catalogue shop.csv
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34}' --catalogue shop.csv --in-stock
"""


@with_recipe_options(only=READING)
def command(
    directory: options.RunOfSets,
    *,
    items: Annotated[
        str,
        typer.Option(
            "--set",
            metavar="A,B,[MASK]",
            help="The set, or a JSON list of it; without a [MASK] one more item is proposed.",
        ),
    ],
    context: Annotated[
        str, typer.Option(metavar="JSON", help="Who asks: {feature: value}; a feature that is not named is missing.")
    ],
    times: options.Times = None,
    item: Annotated[str | None, typer.Option(metavar="ITEM", help="What to explain; left out, the best item.")] = None,
    slot: Annotated[int, typer.Option(min=1, help="Which [MASK] of the set, the first is 1.")] = 1,
    allow: constraint_options.Allow = None,
    deny: constraint_options.Deny = None,
    owned: constraint_options.Owned = None,
    repeats: constraint_options.Repeats = False,
    guidance: constraint_options.Guidance = None,
    separator: Annotated[
        str | None,
        typer.Option(
            help="What stands between the items of --set, --allow, --deny and --owned; left out, as the run was "
            "trained."
        ),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help="The shop's table, one row an item, for the options below; of a run whose items have features, its "
            f"new items are known by theirs. {options.DATA_FORMATS}.",
        ),
    ] = None,
    in_stock: constraint_options.InStock = False,
    where: constraint_options.Where = None,
    max_price: constraint_options.MaxPrice = None,
    budget: constraint_options.Budget = None,
    budget_includes_visible: constraint_options.BudgetIncludesVisible = False,
    one_per: constraint_options.OnePer = None,
    pairs: Annotated[
        int,
        typer.Option(min=2, help="With more than 12 fields: orders drawn and taken both ways; more is less chance."),
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of these orders.")] = 0,
    output_format: options.FormatChoice = "table",
    batch_size: Annotated[int, typer.Option(min=1, help="Questions a forward pass.")] = 256,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Say which fields of the context made an item as probable as it is, which items, and what others would get."""
    choices = {**locals(), **given}
    from contextual_bert.inference.saved_files import trained_sets

    load_arrow()
    calm_transformers()
    check_reads(choices, ("catalogue",))
    between = separator or trained_sets(directory).separator
    own = {"items": items_of(items, between)}
    asked = asked_queries(choices, SET, own, everywhere=given_everywhere(choices), separator=between)
    [query] = asked.queries

    from contextual_bert.runs.run_directory import load_recipe

    load_recipe(directory)
    from contextual_bert import explain

    pipeline: Any = load_with_notes(
        directory, device=device, catalogue=catalogue, reading=reading_of(choices), is_exact=True
    )
    with working("asking with fewer fields"), asked.placing:
        found = explain(pipeline, query, item=item, slot=slot - 1, num_pairs=pairs, seed=seed, batch_size=batch_size)
    if output_format == "json":
        show_json_text(found.to_json())
    elif output_format == "markdown":
        show_text(found.to_markdown())
    else:
        show(found.to_rich())
    next_commands(["importance", str(directory)])
