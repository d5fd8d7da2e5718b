"""``contextual-bert similar``: the items that a run treats most like an item, for anybody or for who asks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import constraint_options, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.asked_queries import ITEM, asked_queries
from contextual_bert_cli.inputs import checking, one_of
from contextual_bert_cli.output import calm_transformers, remark, remark_unknown, show, working
from contextual_bert_cli.pipelines import load_with_notes
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of

if TYPE_CHECKING:
    from contextual_bert.inference import SimilarAnswer

EXAMPLE = """\b
Example:
  contextual-bert similar runs/gsu --item coat-17
  contextual-bert similar runs/gsu --item coat-17 --context '{"age": 34}' --catalogue shop.csv --in-stock
  contextual-bert similar runs/gsu --item coat-17 --catalogue shop.csv --where 'category=coat' --where 'price<=80'
  contextual-bert similar runs/gsu --input queries.jsonl > answers.jsonl
  where a line of queries.jsonl is {"item": "coat-17", "context": {"age": 34}, "deny": ["coat-18"]}
"""


@with_recipe_options(only=READING)
def command(
    directory: options.RunOfSets,
    *,
    item: Annotated[str | None, typer.Option(metavar="ITEM", help="The item whose neighbours are looked for.")] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Who asks: {feature: value}; left out, the neighbours are those for anybody."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Neighbours an item.")] = 10,
    allow: constraint_options.Allow = None,
    deny: constraint_options.Deny = None,
    owned: constraint_options.Owned = None,
    guidance: Annotated[
        float | None,
        typer.Option(min=0, help="With --context: as that of complete, above 1 for more personal answers (default 1)."),
    ] = None,
    similarity_weight: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --context: how much the similarity counts beside the person, 0 for not at all (default 16).",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(help="What stands between the items of --allow, --deny and --owned; left out, as in training."),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"The shop's table, one row an item, for the options below: {options.DATA_FORMATS}.",
        ),
    ] = None,
    in_stock: constraint_options.InStock = False,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE=VALUE",
            help="Name only items like this: 'category=coat|jacket', 'material!=leather', 'price<=80'; repeatable.",
        ),
    ] = None,
    max_price: constraint_options.MaxPrice = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            callback=checking("file"),
            help="Many items, one JSON object a line; answers are JSON Lines.",
        ),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", **one_of(("table", "json")), help="How to print the answer to one query.")
    ] = "table",
    batch_size: Annotated[int, typer.Option(min=1, help="Items a product of matrices.")] = 256,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Name the items that the model treats most like an item, for anybody or for the person who asks."""
    choices = {**locals(), **given}
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import trained_sets
    from contextual_bert.places import SettingsPlace

    calm_transformers()
    if (item is None) == (queries is None):
        raise ConfigurationError(
            "Give one of --item NAME for one item, --input FILE.jsonl for many.",
            place=SettingsPlace(("--item", "--input")),
        )
    if item is not None and context is None:
        lost = [
            name for name, value in {"--guidance": guidance, "--similarity-weight": similarity_weight}.items() if value
        ]
        if lost:
            raise ConfigurationError("is for --context", setting=lost[0], fix="Give that, or leave it out.")
    load_arrow()
    check_reads(choices, ("catalogue",))
    own = {"item": item} if item is not None else {}
    everywhere = {"guidance": guidance} if guidance is not None else {}
    between = separator or trained_sets(directory).separator
    asked = asked_queries(choices, ITEM, own, everywhere=everywhere, separator=between)
    pipeline: Any = load_with_notes(
        directory, device=device, catalogue=catalogue, reading=reading_of(choices), is_exact=True
    )
    from contextual_bert.inference import similar_items

    with working(f"looking for what is like {counted(len(asked.queries), 'item')}"), asked.placing:
        weight = {} if similarity_weight is None else {"similarity_weight": similarity_weight}
        answers: Any = similar_items(pipeline, asked.queries, top_k=top, batch_size=batch_size, **weight)
    asked.show(answers, output_format, show_similar)


def show_similar(answer: "SimilarAnswer") -> None:
    """A table of neighbours, then in words what the model did not know."""
    from contextual_bert.evaluation.tables import Table

    found = answer["similar"]
    columns = {
        "rank": [str(rank) for rank in range(1, len(found) + 1)],
        "item": [each["item"] for each in found],
        "similarity": [f"{each['similarity']:.3f}" for each in found],
    }
    if any("probability" in each for each in found):
        columns["probability"] = [f"{each.get('probability', 0.0):.2%}" for each in found]
    if any(each.get("is_new") for each in found):
        columns[""] = ["new" if each.get("is_new") else "" for each in found]
    title = f"{answer['item']}: the nearest {len(found)} of {counted(answer['num_permitted'], 'item')}"
    show(Table(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), num_label_columns=2))
    remark(*([answer["reason"]] if answer["reason"] else []))
    remark_unknown(answer["unknown_context"])
    remark(*answer["notes"])
