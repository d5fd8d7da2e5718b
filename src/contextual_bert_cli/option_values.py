"""Values of options: words of a fixed list, lists with commas, NAME=VALUE pairs, and the conditions of ``--where``."""

import math
import re
from collections.abc import Sequence
from typing import Any

# Option that takes NAME=VALUE -> an example.
_EXAMPLES = {"--set": "weight_decay=0.1", "--model": "hidden_size=256", "--lora": "rank=4"}

SIGNS = {"<=": "at_most", ">=": "at_least", "<": "below", ">": "above", "==": "in", "=": "in", "!=": "not_in"}
CONDITION = re.compile(
    r"^(?:(?P<blank>\d+)\s*:)?\s*(?P<attribute>[^=!<>]+?)\s*(?P<sign>[=!<>]=|[=<>])\s*(?P<value>[^=!<>\s].*)$"
)
WORDS = re.compile(
    r"^(?:(?P<blank>\d+)\s*:)?\s*(?P<attribute>[^=!<>]+?)\s+(?P<sign>(?:not\s+)?in)\s+(?P<value>[^=!<>]+)$",
    re.IGNORECASE,
)
PRICE = "price"  # the attribute that holds numbers in every catalogue
FORMS = (
    "'category=coat|jacket', 'category in coat, jacket', 'material!=leather', 'price<=80', 'stock>0', "
    "'since>=2016-03-05' or '0:category=coat' (of the first [MASK])"
)


def number_or_all(value: str | None, *, option: str) -> int | str | None:
    """Return the number that an option gives, or "all".

    Raises:
        ConfigurationError: something else.
    """
    from contextual_bert.errors import ConfigurationError

    if value is None or value == "all":
        return value
    if not value.isascii() or not value.isdigit() or len(value) > 15 or int(value) < 1:
        fix = "Give a whole number of at least 1, or all."
        raise ConfigurationError("is not allowed", setting=option, value=value, fix=fix)
    return int(value)


def amount_of(value: str | None, *, option: str, decimal: str | None) -> float | None:
    """Return the amount that an option gives, None where it gives none.

    Args:
        value: as it was typed.
        option: that it was typed for.
        decimal: the mark before the decimals, as --decimal says; None: a point, and nothing between thousands.

    Raises:
        ConfigurationError: it is no number.
    """
    if value is None:
        return None
    from contextual_bert.context.raw_values import number_of
    from contextual_bert.errors import ConfigurationError, DataError

    try:
        return number_of(value, decimal=decimal if decimal in (".", ",") else None)
    except DataError as error:
        fix = "Give one such as 70.46." if decimal != "," else "Give one such as 70,46, as --decimal ',' says."
        if decimal is None and "," in value:
            fix = "Give one such as 70.46, or --decimal ',' for 70,46."
        raise ConfigurationError("is no number", setting=option, value=value, fix=fix) from error


def split_commas(values: Sequence[str] | None) -> tuple[str, ...]:
    """The parts of repeatable options whose values may hold commas.

    Example:
        >>> split_commas(["a,b", "c"])
        ('a', 'b', 'c')
    """
    return tuple(part for value in values or () for part in (piece.strip() for piece in value.split(",")) if part)


def read_share(text: str, *, option: str) -> float:
    """Return a share, a number between 0 and 1, from its text.

    Raises:
        ConfigurationError: it is none.

    Example:
        >>> read_share("0.9", option="--coverage")
        0.9
    """
    from contextual_bert.errors import ConfigurationError

    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise ConfigurationError("is no share between 0 and 1", setting=option, value=text, fix="Give one such as 0.9.")
    return share


def assigned(settings: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is read as JSON (3, 0.1, true, null, [1]) and otherwise as text.

    Raises:
        ConfigurationError: no "=", or a name twice.

    Example:
        >>> assigned(["hidden_size=256", "lr_scheduler_type=linear"], option="--set")
        {'hidden_size': 256, 'lr_scheduler_type': 'linear'}
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.json_text import spelled_value

    found: dict[str, Any] = {}
    for setting in settings or ():
        name, sign, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not sign or not name:
            example = _EXAMPLES[option]
            fix = f"Give NAME=VALUE, for instance {option} {example}."
            raise ConfigurationError("is not allowed", setting=option, value=setting, fix=fix)
        if name in found:
            raise ConfigurationError(f"names {name!r} twice", fix="Give it once.", setting=option)
        found[name] = spelled_value(text, setting=option)
    return found


def condition_of(text: str) -> dict[str, Any]:
    """The condition in the words of a query.

    Raises:
        ConfigurationError: it has another form, or a price is no number.

    Example:
        >>> condition_of("material!=leather|fur")
        {'attribute': 'material', 'not_in': ['leather', 'fur']}
        >>> condition_of("1:price<=80"), condition_of("stock > 0")
        ({'attribute': 'price', 'at_most': 80.0, 'blank': 1}, {'attribute': 'stock', 'above': 0.0})
        >>> condition_of("category in [coat, hat]"), condition_of("since >= 2016-03-05")
        ({'attribute': 'category', 'in': ['coat', 'hat']}, {'attribute': 'since', 'at_least': '2016-03-05'})
    """
    from contextual_bert.errors import ConfigurationError

    found = CONDITION.match(text.strip()) or WORDS.match(text.strip())
    if found is None:
        raise ConfigurationError("is no condition", setting="--where", value=text, fix=f"Give {FORMS}.")
    condition: dict[str, Any] = {"attribute": found["attribute"].strip()}
    sign, value = found["sign"].lower(), found["value"].strip()
    if sign in SIGNS:
        test = SIGNS[sign]
        condition[test] = _values(value, "|") if test in ("in", "not_in") else _limit(value, condition, text)
    else:
        value = value[1:-1] if (value[0], value[-1]) in (("[", "]"), ("(", ")")) else value
        condition["in" if sign == "in" else "not_in"] = _values(value, "|" if "|" in value else ",")
    if not all(condition.get("in", condition.get("not_in", [True]))):
        raise ConfigurationError("names an empty value", setting="--where", value=text, fix=f"Give {FORMS}.")
    return condition if found["blank"] is None else {**condition, "blank": int(found["blank"])}


def _values(value: str, separator: str) -> list[str]:
    return [_unquoted(part.strip()) for part in value.split(separator)]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _limit(value: str, condition: dict[str, Any], text: str) -> float | str:
    """A number where the text spells one: what else it may be, the attribute decides."""
    from contextual_bert.context.raw_values import number_of
    from contextual_bert.errors import ConfigurationError, DataError

    try:
        return number_of(value)
    except DataError:
        if condition["attribute"] == PRICE:
            raise ConfigurationError(
                f"has {value!r}, which is no number", setting="--where", value=text, fix=f"Give {FORMS}."
            ) from None
        return value
