"""A silenced feature: its values are checked, and read as missing."""

import pyarrow as pa
import pytest

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    MultiCategorical,
    Numerical,
    Vector,
    encode_records,
    encode_table,
)
from contextual_bert.context.absence import is_missing
from contextual_bert.errors import DataError, UnknownNameError

SCHEMA = ContextSchema(
    features=(
        Categorical(name="sex", values=("f", "m")),
        Numerical(name="age", edges=(30.0, 60.0)),
        MultiCategorical(name="brands", values=("acme", "hooli")),
        Vector(name="photo", size=2),
    )
)
RECORD = {"sex": "m", "age": 45, "brands": ["hooli"], "photo": [0.5, 1.0]}


@pytest.mark.parametrize("name", SCHEMA.names)
def test_each_kind_is_missing_in_every_row_and_the_others_are_not(name: str) -> None:
    schema = SCHEMA.with_silenced([name])
    arrays = encode_records(schema, [RECORD, RECORD]).arrays
    assert {each: is_missing(values).tolist() for each, values in arrays.items()} == {
        each: [each == name] * 2 for each in SCHEMA.names
    }
    table = pa.Table.from_pylist([RECORD])
    encoded = encode_table(schema, table)
    assert is_missing(encoded.arrays[name]).all()
    assert not encoded.unknown


def test_a_faulty_value_is_still_named() -> None:
    with pytest.raises(DataError, match="age"):
        encode_records(SCHEMA.with_silenced(["age"]), [{"age": "old"}])


def test_an_unknown_value_is_no_news() -> None:
    assert encode_records(SCHEMA.with_silenced(["sex"]), [{"sex": "x"}]).unknown == {}


@pytest.mark.parametrize("name", SCHEMA.names)
def test_the_rows_whose_value_is_not_read_are_known(name: str) -> None:
    encoded = encode_records(SCHEMA.with_silenced([name]), [RECORD, {}])
    assert {each: rows.tolist() for each, rows in encoded.unread.items()} == {name: [True, False]}
    assert encode_records(SCHEMA, [RECORD]).unread == {}


def test_it_travels_as_json_and_changes_the_digest() -> None:
    silenced = SCHEMA.with_silenced(["age"])
    assert ContextSchema.from_json(silenced.to_json()) == silenced
    assert silenced.digest != SCHEMA.digest
    assert silenced.silenced_names == ("age",)
    assert silenced.with_silenced([]) == SCHEMA
    assert "silenced" not in SCHEMA.to_json()  # the digest of a schema depends on what is set


def test_a_name_that_is_no_feature_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'agx'"):
        SCHEMA.with_silenced(["agx"])
