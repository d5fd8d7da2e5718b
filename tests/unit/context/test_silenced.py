"""A silenced feature: its values are checked, and no model reads them."""

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
from contextual_bert.context.encoding import is_missing
from contextual_bert.context.sentences import record_sentences, table_sentences
from contextual_bert.errors import DataError, SchemaError, UnknownNameError

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
def test_each_kind_has_no_place_in_a_model_and_no_array(name: str) -> None:
    schema = SCHEMA.with_silenced([name])
    others = tuple(each for each in SCHEMA.names if each != name)
    assert tuple(shape.name for shape in schema.layout) == others
    assert schema.context_size == SCHEMA.context_size - SCHEMA.feature(name).layout.embedding_size
    full = encode_records(SCHEMA, [RECORD, RECORD]).arrays
    for encoded in (encode_records(schema, [RECORD, RECORD]), encode_table(schema, pa.Table.from_pylist([RECORD] * 2))):
        assert tuple(encoded.arrays) == others
        assert all((values == full[each]).all() for each, values in encoded.arrays.items())
        assert not encoded.unknown


def test_sizes_are_shared_among_the_features_that_are_read() -> None:
    schema = SCHEMA.with_silenced(["age"]).with_context_size(40)
    assert schema.context_size == sum(shape.embedding_size for shape in schema.layout) == 40
    assert schema.feature("age") == SCHEMA.with_silenced(["age"]).feature("age")


def test_where_all_are_silenced_the_first_is_missing_in_every_row() -> None:
    schema = SCHEMA.with_silenced(SCHEMA.names)
    assert schema.layout == SCHEMA.layout[:1]
    encoded = encode_records(schema, [RECORD])
    assert {name: bool(is_missing(values).all()) for name, values in encoded.arrays.items()} == {"sex": True}
    assert [*encoded.unread] == [*SCHEMA.names]


def test_no_word_is_said_of_it() -> None:
    schema = ContextSchema(features=SCHEMA.features[:3]).with_silenced(["age"])
    record = {name: RECORD[name] for name in schema.names}
    assert tuple(record_sentences(schema, [record])) == ("sex", "brands")
    assert tuple(table_sentences(schema, pa.Table.from_pylist([record]))) == ("sex", "brands")
    said = record_sentences(schema.with_silenced(schema.names), [record])
    assert {name: values.to_pylist() for name, values in said.items()} == {"sex": [None]}


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


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_table_may_lack_its_column(name: str) -> None:
    schema, table = SCHEMA.with_silenced([name]), pa.Table.from_pylist([RECORD, RECORD])
    found, whole = encode_table(schema, table.drop_columns([name])), encode_table(schema, table)
    assert all((values == whole.arrays[each]).all() for each, values in found.arrays.items())
    assert not found.unread[name].any() and whole.unread[name].all()
    other = next(each for each in SCHEMA.names if each != name)
    with pytest.raises(SchemaError, match=f"lacks the context column '{other}'"):
        encode_table(schema, table.drop_columns([name, other]))


@pytest.mark.parametrize("name", SCHEMA.names)
def test_what_a_query_may_hold_says_that_it_is_not_read(name: str) -> None:
    schema = SCHEMA.with_silenced([name])
    about = {each.name: each.query_schema().get("description", "") for each in schema.features}
    assert [each for each, text in about.items() if text.startswith("Checked and not read.")] == [name]
