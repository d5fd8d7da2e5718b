"""What is said of the context of a new table names no value of a few customers."""

from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical
from contextual_bert.runs.next_table import context_lines

PLACES = {"run": "runs/may", "file": "june.csv", "beside": ("customer",)}
SCHEMA = ContextSchema(
    features=(Categorical(name="mail", values=("web",)), MultiCategorical(name="tags", values=("new",)))
)
TABLE = pa.table(
    {
        "customer": ["c0"] * 30 + [f"c{number}" for number in range(30)],
        "mail": ["ann@x.org"] * 30 + ["Web"] * 30,
        "tags": [["ann-tag", "new"]] * 30 + [["news"]] * 29 + [["rare-tag"]],
    }
)


def test_values_of_few_customers_are_counted_and_not_named() -> None:
    said = context_lines(SCHEMA, TABLE, customers="customer", min_customers=10, **PLACES)
    assert any("(withheld) (30 rows), 'Web' (30 rows, did you mean 'web'?)" in line for line in said)
    assert any("(withheld) (31 rows), 'news' (29 rows" in line for line in said)
    assert "ann" not in " ".join(said)
    assert "rare-tag" not in " ".join(said)


@pytest.mark.parametrize("asked", [{"customers": "customer", "min_customers": 1}, {"min_customers": 10}])
def test_customers_are_counted_as_the_recipe_says(asked: dict[str, Any]) -> None:
    assert "'ann@x.org' (30 rows)" in " ".join(context_lines(SCHEMA, TABLE, **asked, **PLACES))
