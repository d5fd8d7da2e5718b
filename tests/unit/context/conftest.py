"""A small table of people and the schema that reads it: every kind of feature, every state."""

import datetime

import pyarrow as pa
import pytest

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.context.dates import MONTHS, WEEKDAYS


@pytest.fixture
def schema() -> ContextSchema:
    return ContextSchema(
        features=(
            Categorical(name="state", values=("CA", "TX")),
            Numerical(name="age", edges=(30, 60)),
            MultiCategorical(name="brands", values=("acme", "hooli", "umbrella")),
            Vector(name="photo", size=2),
            Numerical(name="date_year", edges=(2016, 2017), source="date", part="year"),
            Categorical(name="date_month", values=MONTHS, source="date", part="month"),
            Categorical(name="date_weekday", values=WEEKDAYS, source="date", part="weekday"),
        )
    )


@pytest.fixture
def table() -> pa.Table:
    return pa.table(
        {
            "state": pa.array(["TX", None, "NY", "CA", ""], pa.large_string()),
            "age": pa.array([29.5, 30.0, None, 1000.0, -5.0]),
            "brands": pa.array([["acme", "umbrella"], [], None, ["globex", None, "hooli", "globex"], [None]]),
            "photo": pa.array([[1.0, 2.0], None, [3.0, 4.0], [0.0, 0.0], None], pa.list_(pa.float32())),
            "date": pa.array(
                [
                    datetime.date(2016, 3, 5),
                    None,
                    datetime.date(2015, 12, 31),
                    datetime.date(2030, 1, 1),
                    datetime.date(2017, 1, 1),
                ]
            ),
            "not_context": pa.array([1, 2, 3, 4, 5]),
        }
    )
