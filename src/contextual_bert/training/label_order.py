"""The order of labels that are grades: all of them, from the lowest to the highest."""

from typing import Any

from contextual_bert import context
from contextual_bert.errors import ConfigurationError


def checked_order(given: Any) -> tuple[str, ...]:
    """Return the names of grades as they are spelt; none where no order is given.

    Args:
        given: the names, the lowest first.

    Raises:
        ConfigurationError: something else than texts, a name twice, one name alone.

    Example:
        >>> checked_order(["bad", " fair", "good"])
        ('bad', 'fair', 'good')
    """
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise ConfigurationError(
            "is not allowed",
            setting="order",
            value=given,
            fix="Give the labels as text, in a list, the lowest first.",
        )
    order = tuple(context.canonical(each) for each in given)
    twice = [name for number, name in enumerate(order) if name in order[:number]]
    if twice:
        raise ConfigurationError(
            f"names {twice[0]!r} twice", setting="order", value=list(order), fix="Name each label once."
        )
    if len(order) == 1:
        raise ConfigurationError(
            "names one label", setting="order", value=list(order), fix="Name two labels or more, the lowest first."
        )
    return order
