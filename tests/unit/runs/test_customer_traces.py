"""An id is taken out of the places that hold a feature's values, and of no other."""

import pytest

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.runs.customer_traces import (
    NamedCustomer,
    free_placeholder,
    listing_features,
    without_customer,
    without_lines,
)

SEVEN = NamedCustomer("7", "user", ("user",), "[forgotten 1]")


def test_the_same_text_elsewhere_stays() -> None:
    content = {
        "features": [
            {"name": "user", "kind": "categorical", "values": ["7", "8"]},
            {"name": "floor", "kind": "categorical", "values": ["7", "8"]},
        ],
        "segments": [{"feature": "floor", "value": "7"}, {"feature": "user", "value": "7"}],
        "7": ["7", 7],
        "floors": [{"shifts": {"user": {"7": 0.5, "8": 0.1}, "floor": {"7": 0.2}}}],
        "field": "floor",
        "temperatures": {"7": 1.5},
    }
    assert without_customer(content, SEVEN) == {
        "features": [
            {"name": "user", "kind": "categorical", "values": ["[forgotten 1]", "8"]},
            {"name": "floor", "kind": "categorical", "values": ["7", "8"]},
        ],
        "segments": [{"feature": "floor", "value": "7"}],
        "7": ["7", 7],
        "floors": [{"shifts": {"user": {"8": 0.1}, "floor": {"7": 0.2}}}],
        "field": "floor",
        "temperatures": {"7": 1.5},
    }
    told = "| user | 7 | 72 |\n| user | 8 | 7 |\n| floor | 7 | 9 |\nThe user 7 of 7.\n"
    assert without_lines(told, SEVEN) == "| user | 8 | 7 |\n| floor | 7 | 9 |\nThe user 7 of 7.\n"


@pytest.mark.parametrize(("name", "text", "stands"), [
    ("7", "7", True), ("7", "7 rows", False), ("1042", "of 1042", False), ("anna", "hannah", False),
    ("anna", "by anna.", True), ("c-7", "c-7", True), ("c-10", "the c-10 and", True), ("c-10", "c-101", False),
])  # fmt: skip
def test_short_ids_and_numbers_are_looked_for_as_whole_values(name: str, text: str, stands: bool) -> None:
    assert NamedCustomer(name, "user", (), "").stands_in(text) == stands


def test_two_customers_get_two_placeholders() -> None:
    feature = Categorical(name="who", source="user", values=("[forgotten 1]", "7"))
    schema = ContextSchema(features=(feature, Categorical(name="user", source="other", values=("7",))))
    assert listing_features(schema, "user", ("7",)) == (feature,)
    assert free_placeholder((feature,)) == "[forgotten 2]"
