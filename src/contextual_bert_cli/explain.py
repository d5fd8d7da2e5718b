"""``contextual-bert explain``: which fields of the context, and which items or words, made an answer what it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert_cli import constraint_options, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.asked_queries import SET, asked_queries, items_of
from contextual_bert_cli.constraint_options import given_everywhere
from contextual_bert_cli.inputs import checking
from contextual_bert_cli.output import calm_transformers, next_commands, show, show_json_text, show_text, working
from contextual_bert_cli.pipelines import load_text_with_notes, load_with_notes
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of
from contextual_bert_cli.records import at_options, read_context

if TYPE_CHECKING:
    from contextual_bert.inference import Explanation, TextExplanation

EXAMPLE = """\b
Example:
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34, "gender": "female"}'
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34}' --item hat-3 --format json
  contextual-bert explain runs/gsu --set '[MASK]' --context '{"age": 34}' --item coat-new --catalogue shop.csv
  contextual-bert explain runs/gsu --set 'coat-17,[MASK]' --context '{"age": 34}' --catalogue shop.csv --in-stock
  contextual-bert explain runs/verdict --text 'The bar was open all night.' --context '{"guest": "student"}' --label bad
"""
# Key of a query about a text -> the option that gives it.
QUERY_OPTIONS = {"text": "--text", "pair": "--pair", "guidance": "--guidance"}
OF_TEXTS = ("pair", "label")
OF_SETS = (
    *("times", "item", "slot", "allow", "deny", "owned", "repeats", "separator", "catalogue", "in_stock", "where"),
    *("max_price", "budget", "budget_includes_visible", "one_per"),
)


@with_recipe_options(only=READING)
def command(
    directory: options.ExplainedRun,
    *,
    items: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="A,B,[MASK]",
            help="Of a run of sets: the set, or a JSON list of it; without a [MASK] one more item is proposed.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Of a run on labels: the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text of --text, of a run on pairs.")] = None,
    context: Annotated[
        str, typer.Option(metavar="JSON", help="Who asks: {feature: value}; a feature that is not named is missing.")
    ],
    label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="What to explain of --text; left out, the likeliest label.")
    ] = None,
    times: options.Times = None,
    item: Annotated[
        str | None, typer.Option(metavar="ITEM", help="What to explain of --set; left out, the best item.")
    ] = None,
    slot: Annotated[int | None, typer.Option(min=1, help="Which [MASK] of the set; left out, the first, 1.")] = None,
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
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Questions a forward pass; left out, 256 about a set and 64 about a text."),
    ] = None,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Say which fields of the context made an item or a label as probable as it is, what else did, and for others."""
    choices = {**locals(), **given}
    from contextual_bert.inference.saved_files import trained_sets

    load_arrow()
    calm_transformers()
    check_subject(choices, directory)
    check_reads(choices, ("catalogue",))
    how = {"num_pairs": pairs, "seed": seed} | ({"batch_size": batch_size} if batch_size is not None else {})
    if text is not None:
        query = {"text": text, "pair": pair, "context": read_context(context), "guidance": guidance}
        show_explanation(explained_text(directory, query, label=label, device=device, **how), output_format)
        next_commands(["importance", str(directory)])
        return
    between = separator or trained_sets(directory).separator
    own = {"items": items_of(items or "", between)}
    asked = asked_queries(choices, SET, own, everywhere=given_everywhere(choices), separator=between)
    [query] = asked.queries

    from contextual_bert.runs.run_directory import load_recipe

    load_recipe(directory)
    from contextual_bert import explain

    pipeline: Any = load_with_notes(
        directory, device=device, catalogue=catalogue, reading=reading_of(choices), is_exact=True
    )
    with working("asking with fewer fields"), asked.placing:
        found = explain(pipeline, query, item=item, slot=(slot or 1) - 1, **how)
    show_explanation(found, output_format)
    next_commands(["importance", str(directory)])


def check_subject(choices: Mapping[str, Any], directory: Path) -> None:
    """Raise ConfigurationError unless the options ask about one set, or one text, as the run takes it.

    Args:
        choices: parameter of the command -> what it was given.
        directory: of the run.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import learned_kind
    from contextual_bert.places import SettingsPlace
    from contextual_bert.training.tasks import TASK_SETTINGS

    task = TASK_SETTINGS.get(learned_kind(directory) or "")
    has_text, has_set = choices["text"] is not None, choices["items"] is not None
    if has_text == has_set:
        raise ConfigurationError(
            "Give either --set 'coat-17,[MASK]' of a run of sets or --text 'a text' of a run on labels.",
            place=SettingsPlace(("--set", "--text")),
        )
    if task is not None and has_text != (task.command == "predict"):
        option, other = ("--text", "--set") if has_text else ("--set", "--text")
        raise ConfigurationError(
            f"does not go with a run on {task.noun}", setting=option, fix=f"Give {other} in its place."
        )
    names = [name for name in (OF_SETS if has_text else OF_TEXTS) if choices[name] not in (None, False, [])]
    if names:
        raise ConfigurationError(
            f"belongs to {'--set' if has_text else '--text'}",
            setting=f"--{names[0].replace('_', '-')}",
            fix="Leave it out.",
        )


def explained_text(
    directory: Path, query: Mapping[str, Any], *, label: str | None, device: str, **how: int
) -> "TextExplanation":
    """Return the explanation of a label of a text.

    Args:
        directory: of the run.
        query: about the text.
        label: what to explain; None: the likeliest one.
        device: where to run.
        **how: it is asked, as ``explain_text`` takes it.
    """
    from contextual_bert.inference.saved_files import learned_kind

    pipeline: Any = load_text_with_notes(directory, device=device, kind=learned_kind(directory))

    from contextual_bert.inference import explain_text

    asked = {key: value for key, value in query.items() if value is not None}
    with working("asking with fewer fields"), at_options(QUERY_OPTIONS):
        return explain_text(pipeline, asked, label=label, **how)


def show_explanation(found: "Explanation | TextExplanation", output_format: str) -> None:
    """Print an explanation."""
    if output_format == "json":
        show_json_text(found.to_json())
    elif output_format == "markdown":
        show_text(found.to_markdown())
    else:
        show(found.to_rich())
