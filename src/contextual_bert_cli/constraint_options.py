"""The options that say which items may be proposed, and the constraints of a query that they make."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from contextual_bert_cli.option_values import amount_of, condition_of, split_commas

CONSTRAINT_OPTIONS = {  # option -> key of a query
    "allow": "allow", "deny": "deny", "owned": "owned", "in-stock": "in_stock", "where": "where",
    "max-price": "max_price", "budget": "budget", "budget-includes-visible": "budget_includes_visible",
    "one-per": "at_most_one_per",
}  # fmt: skip

Allow = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Propose only these; repeatable or with commas.")]
Deny = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Never propose these; as --allow.")]
Owned = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Never propose these, which the customer has; as --allow.")
]
InStock = Annotated[
    bool, typer.Option("--in-stock", help="Propose only what the catalogue's column in_stock says is there.")
]
MaxPrice = Annotated[str | None, typer.Option(metavar="NUMBER", help="Propose only items of at most this price.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ATTRIBUTE=VALUE",
        help="Propose only items like this: 'category=coat|jacket', 'material!=leather', 'price<=80', 'stock>0', "
        "'since>=2016-03-05'; '0:category=coat' for the first [MASK] alone; repeatable.",
    ),
]
Budget = Annotated[str | None, typer.Option(metavar="NUMBER", help="At most this price for all [MASK] together.")]
BudgetIncludesVisible = Annotated[
    bool, typer.Option("--budget-includes-visible", help="The items of --set count towards --budget.")
]
OnePer = Annotated[
    list[str] | None,
    typer.Option(metavar="ATTRIBUTE", help="At most one item of each value, such as category; repeatable."),
]
Repeats = Annotated[bool, typer.Option("--repeats", help="Propose items again that are in the set already.")]
Guidance = Annotated[
    float | None,
    typer.Option(
        min=0, help="0: what anybody would get, 1: the model as it is (default), above: more personal answers."
    ),
]


def given_constraints(choices: Mapping[str, Any], *, separator: str) -> dict[str, Any]:
    """Return the constraints of the options that were given: option, without its dashes -> value in a query.

    Args:
        choices: parameter of the command -> what it was given; those that it does not have are left out.
        separator: what stands between the items of an option.

    Raises:
        ConfigurationError: --allow without an item, or a price or condition that is none.
    """
    from contextual_bert.errors import ConfigurationError

    allowed = split_items(choices["allow"] or [], separator)
    if choices["allow"] and not allowed:
        raise ConfigurationError(
            "names no item, and nothing may be proposed then", fix="Name some, or leave it out.", setting="--allow"
        )
    decimal = choices["decimal"]
    constraining = {
        "allow": allowed,
        "deny": split_items(choices["deny"] or [], separator),
        "owned": split_items(choices["owned"] or [], separator),
        "in-stock": choices["in_stock"] or None,
        "where": [condition_of(text) for text in choices["where"] or []],
        "max-price": amount_of(choices["max_price"], option="--max-price", decimal=decimal),
        "budget": amount_of(choices.get("budget"), option="--budget", decimal=decimal),
        "budget-includes-visible": choices.get("budget_includes_visible") or None,
        "one-per": list(choices.get("one_per") or []),
    }
    return {option: value for option, value in constraining.items() if value not in (None, [])}


def given_everywhere(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what --repeats and --guidance say of each query that does not say it itself."""
    everywhere: dict[str, Any] = {"repeats": True} if choices["repeats"] else {}
    return everywhere | ({"guidance": choices["guidance"]} if choices["guidance"] is not None else {})


def split_items(values: Sequence[str], separator: str) -> list[str]:
    """Return the items of an option that is repeatable, and may have several at once.

    Example:
        >>> split_items(["coat; hat", "bag"], ";")
        ['coat', 'hat', 'bag']
    """
    if separator == ",":
        return list(split_commas(values))
    return [part.strip() for value in values for part in value.split(separator) if part.strip()]
