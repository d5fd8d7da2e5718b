"""``--where``: a condition as one types it becomes the condition of a query."""

import re
from typing import Any

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
        raise ConfigurationError(f"--where {text!r} is no condition", fix=f"Give {FORMS}.")
    condition: dict[str, Any] = {"attribute": found["attribute"].strip()}
    sign, value = found["sign"].lower(), found["value"].strip()
    if sign in SIGNS:
        test = SIGNS[sign]
        condition[test] = _values(value, "|") if test in ("in", "not_in") else _limit(value, condition, text)
    else:
        value = value[1:-1] if (value[0], value[-1]) in (("[", "]"), ("(", ")")) else value
        condition["in" if sign == "in" else "not_in"] = _values(value, "|" if "|" in value else ",")
    if not all(condition.get("in", condition.get("not_in", [True]))):
        raise ConfigurationError(f"--where {text!r} names an empty value", fix=f"Give {FORMS}.")
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
            raise ConfigurationError(f"--where {text!r}: {value!r} is no number", fix=f"Give {FORMS}.") from None
        return value
