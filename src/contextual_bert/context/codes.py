"""Codes: text that looks like numbers, such as the versions 10.1 and 10.10, which are two values and one number.

A column of text keeps what it is spelt like. Its schema says so, for the listed values alone do not tell such a column
from one of numbers. Strings only: no schema, no tensor. Not in the paper; docs/decisions/003.
"""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_list, is_text, value_type
from contextual_bert.context.cells import FLOAT, INTEGER
from contextual_bert.context.vocabulary import normal_form

SpeltNumbers = Literal["once", "variously"]


def spelt_numbers(strings: pa.Array) -> SpeltNumbers | None:
    """Return how a column of text spells its numbers; None where it has none.

    Args:
        strings: the values in their canonical spelling.

    Returns:
        "once": each number has one spelling, so that a number finds its value. "variously": some number has several
        spellings, so that only the spelling tells the values apart.

    Example:
        >>> spelt_numbers(pa.array(["10.50", "9.99"])), spelt_numbers(pa.array(["10.1", "10.10"]))
        ('once', 'variously')
        >>> spelt_numbers(pa.array(["red", "blue"]))
    """
    distinct = pc.unique(pc.drop_null(strings))
    numbers = distinct.filter(pc.match_substring_regex(distinct, f"{INTEGER}|{FLOAT}")).to_pylist()
    if not numbers:
        return None
    return "once" if len({*map(normal_form, numbers)}) == len(numbers) else "variously"


def holds_text(array: pa.Array) -> bool:
    """Return whether the values of a column, or the elements of its lists, are text.

    Example:
        >>> holds_text(pa.array(["10.1"])), holds_text(pa.array([["a"], []])), holds_text(pa.array([10.1]))
        (True, True, False)
    """
    kind = value_type(array.type)
    return is_text(value_type(kind.value_type) if is_list(kind) else kind)
