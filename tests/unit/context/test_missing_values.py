"""Numbers and days that stand for a missing value: told of, and missing where they are named."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import ContextSchema, encode_records, encode_table, infer_schema, table_sentences
from contextual_bert.context.hints import placeholder_hint
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.data import ReadSettings
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
from contextual_bert.runs.run_schema import check_missing_values
from contextual_bert.training import Recipe, SetCompletion

DRAWS = np.random.default_rng(0)
AGES = DRAWS.integers(18, 90, 600)
AGES[::20], AGES[5::30] = 999, -1
BORN = [datetime.date(1950, 1, 1) + datetime.timedelta(days=int(day)) for day in DRAWS.integers(0, 18_000, 600)]
BORN[::15], BORN[1::25] = [datetime.date(1900, 1, 1)] * 40, [datetime.date(9999, 12, 31)] * 24
TABLE = pa.table({"age": AGES, "born": BORN, "kids": DRAWS.poisson(1.2, 600)})
NAMED = ("age=999", "age=-1", "born=1900-01-01", "9999-12-31")


def warnings(numbers: Any) -> str:
    unique, counts = np.unique(np.asarray(numbers, np.float64), return_counts=True)
    return placeholder_hint("n", unique, counts)


def test_placeholders_are_told_of_with_what_to_give() -> None:
    assert infer_schema(TABLE).warnings() == [
        "warning: column 'age': -1, 999 may stand for a missing number: give --missing-value age=-1 --missing-value "
        "age=999",
        "warning: column 'born': 1900-01-01 and 9999-12-31 may stand for a missing date: give --missing-value "
        "born=1900-01-01 --missing-value born=9999-12-31",
    ]


@pytest.mark.parametrize(
    ("numbers", "mark"),
    [
        ([-9] * 5 + [*range(40)] * 5, "-9"),
        ([0] * 5 + [*range(1940, 2000)] * 5, "0"),
        ([99] * 5 + [*range(40)] * 5, "99"),
        ([-99] * 20 + [*np.random.default_rng(1).normal(0, 30, 400).clip(-98)], "-99"),
        ([99] * 60 + [*range(99)] * 5, "99"),
        ([8888] * 5 + [*range(300)] * 5, "8888"),
        ([99] * 5 + [*range(99)] * 5, None),
        ([-1, *range(-40, 40)] * 5, None),
        ([999, *range(18, 90)], None),
        ([*np.round(np.exp(np.random.default_rng(1).normal(3, 2, 2000)), 1)], None),
        ([*np.random.default_rng(1).poisson(2, 2000)], None),
        ([1, 2, 3, 4, 5, 9] * 50, None),
    ],
)
def test_what_is_apart_as_a_mark_is(numbers: list[float], mark: str | None) -> None:
    assert warnings(numbers).partition(" ")[0] == (mark or "")


def test_named_values_are_missing_at_training_and_at_asking() -> None:
    found = infer_features(TABLE, SchemaSettings(missing_values=NAMED))
    assert found.warnings() == []
    missing = {note.column: note.missing for note in found.notes}
    assert missing == {"age": 50, "born": 64 - sum(row % 15 == 0 and row % 25 == 1 for row in range(600)), "kids": 0}
    schema = ContextSchema.from_json(found.schema.to_json())
    assert set(schema.names) == {"age", "born_year", "born_month", "born_weekday", "kids"}
    cells = [999, -1, 40, 998]
    days = ["1900-01-01", "9999-12-31", "1960-05-05", "1900-01-02"]
    records = [{"age": age, "born": day} for age, day in zip(cells, days, strict=True)]
    asked = encode_records(schema, records).tensors
    assert asked["age"].eq(0).tolist() == asked["born_month"].eq(0).tolist() == [True, True, False, False]
    texts = encode_records(schema, [{"age": str(age)} for age in cells]).tensors["age"]
    assert texts.tolist() == asked["age"].tolist()
    own = pa.table({"age": pa.array(cells, pa.float32()), "born": [*map(datetime.date.fromisoformat, days)]})
    own = own.append_column("kids", pa.array([0] * 4))
    table = encode_table(schema, own).tensors
    assert table["age"].tolist() == asked["age"].tolist()
    assert table["born_year"].tolist() == asked["born_year"].tolist()
    assert table_sentences(schema, own)["age"].to_pylist() == [None, None, "age: 40.", "age: 998."]


def test_a_named_value_of_a_category_is_missing_and_of_a_list_is_refused() -> None:
    table = pa.table({"city": ["rome", "oslo", "?", "?"] * 20, "tags": [["a"], ["b"], ["a", "b"], []] * 20})
    found = infer_features(table, SchemaSettings(missing_values=("city=?", "?")))
    assert {note.column: note.missing for note in found.notes} == {"city": 40, "tags": 0}
    assert encode_records(found.schema, [{"city": "?"}, {"city": " rome"}]).tensors["city"].tolist()[0] == 0
    with pytest.raises(SchemaError, match=r"'tags' is multi_categorical, which has no missing_values"):
        infer_features(table, SchemaSettings(missing_values=("tags=a",)))


def test_a_named_value_that_no_cell_has_is_told() -> None:
    table = pa.table({"city": ["rome", "oslo", "?", None] * 20, "age": [20, 30, 999, 40] * 20, "id": ["zz", "?"] * 40})
    named = ("city=?", "age=999", "999", "zz", "city=rom", "age=-1")
    found = infer_features(table, SchemaSettings(exclude=("id",), missing_values=named))
    assert found.absent == ("zz", "city=rom", "age=-1")
    (told,) = (line for line in found.warnings() if "missing_values" in line)
    assert told == "warning: missing_values names 'zz', 'city=rom', 'age=-1', which no given cell of the context has"
    assert infer_features(table, SchemaSettings(missing_values=("city=?", "999"))).absent == ()


def test_a_schema_that_does_not_know_a_named_value_is_refused() -> None:
    schema = infer_features(TABLE, SchemaSettings(missing_values=("age=999",))).schema
    for values, is_known in ((("age=999", "?"), True), (("age=-1",), False)):
        recipe = Recipe(data="days.csv", task=SetCompletion(items="items"), reading=ReadSettings(missing_values=values))
        if is_known:
            check_missing_values(schema, recipe, columns=["age"])
            continue
        with pytest.raises(ConfigurationError, match=r"'age=-1'.* is not under 'missing'"):
            check_missing_values(schema, recipe, columns=["age"])
    with pytest.raises(DataError, match="not a number"):
        encode_records(schema, [{"age": "n. n."}])
    with pytest.raises(ConfigurationError, match="Give a tuple of texts"):
        ReadSettings(missing_values="age=999")  # pyright: ignore[reportArgumentType]


def test_a_value_that_names_a_column_the_table_lacks_is_refused() -> None:
    wrong = ("agee=999", "?")
    with pytest.raises(UnknownNameError, match=r"'agee=999'.*names no column of the table.*age"):
        infer_features(TABLE, SchemaSettings(missing_values=wrong))
    schema = infer_features(TABLE, SchemaSettings(missing_values=("age=999",))).schema
    recipe = Recipe(data="days.csv", task=SetCompletion(items="items"), reading=ReadSettings(missing_values=wrong))
    with pytest.raises(UnknownNameError, match="names no column of the table"):
        check_missing_values(schema, recipe, columns=TABLE.column_names)
