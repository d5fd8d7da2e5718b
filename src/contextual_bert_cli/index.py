"""``contextual-bert index``: an index of a run's items, with which completions among very many of them are fast."""

from typing import Annotated

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working

EXAMPLE = """\b
Example:
  contextual-bert index runs/gsu
  contextual-bert complete runs/gsu --set 'coat-1,[MASK]'
  contextual-bert complete runs/gsu --set 'coat-1,[MASK]' --exact
"""


def command(
    directory: options.RunOfSets,
    *,
    recall: Annotated[
        float, typer.Option(help="How many of the ten best items a search is to find, in the mean: above 0, at most 1.")
    ] = 0.99,
) -> None:
    """Index the items of a run: complete and serve then rank very many of them without reading all, on the CPU.

    The index lies in RUN/index. It is measured on the validation part of the table that the run was trained with.
    """
    calm_transformers()
    load_arrow()
    from contextual_bert.runs.item_indexing import index_items

    with working(f"loading {directory}") as end_sign:

        def told(sentence: str) -> None:
            end_sign()
            remark(f"{sentence} ...")

        record = index_items(directory, recall=recall, progress=told)
    times, shares = record.milliseconds, record.recall
    beside = ", ".join(
        f"{found:.1%} where {float(share):.0%} are permitted" for share, found in shares.items() if share != "1"
    )
    remark(
        f"wrote {directory / 'index'}: {counted(record.num_items, 'item')}",
        f"a search reads {record.num_scanned:,} of them and finds {shares['1']:.1%} of the ten best ({beside})",
        f"it takes {times['search']:.2g} ms, a product with all items {times['product']:.2g} ms; measured on "
        f"{counted(record.num_states, 'set')}",
    )
    next_commands(("complete", str(directory), "--set", "ITEM,[MASK]"))
