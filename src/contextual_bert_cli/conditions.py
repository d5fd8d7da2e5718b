"""``--where``: a condition as one types it becomes the condition of a query."""

import re
from typing import Any

CONDITION = re.compile(r"^(?:(?P<blank>\d+):)?(?P<attribute>[^=!<>]+?)\s*(?P<sign>!=|<=|>=|=)\s*(?P<value>.*)$")
FORMS = "'category=coat|jacket', 'material!=leather', 'price<=80' or '0:category=coat' (of the first [MASK])"


def condition_of(text: str) -> dict[str, Any]:
    """The condition in the words of a query.

    Raises:
        ConfigurationError: it has another form, or a limit is no number.

    Example:
        >>> condition_of("material!=leather|fur")
        {'attribute': 'material', 'not_in': ['leather', 'fur']}
        >>> condition_of("1:price<=80")
        {'attribute': 'price', 'at_most': 80.0, 'blank': 1}
    """
    from contextual_bert.errors import ConfigurationError

    found = CONDITION.match(text.strip())
    if found is None or not found["value"]:
        raise ConfigurationError(f"--where {text!r} is no condition. Give {FORMS}.")
    condition: dict[str, Any] = {"attribute": found["attribute"].strip()}
    if found["sign"] in ("=", "!="):
        condition["in" if found["sign"] == "=" else "not_in"] = [part.strip() for part in found["value"].split("|")]
    else:
        try:
            condition["at_most" if found["sign"] == "<=" else "at_least"] = float(found["value"])
        except ValueError:
            raise ConfigurationError(f"--where {text!r}: {found['value']!r} is no number. Give {FORMS}.") from None
    return condition if found["blank"] is None else {**condition, "blank": int(found["blank"])}
