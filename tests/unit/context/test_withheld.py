"""A sensitive feature: marked in the schema, and its values in no message."""

from typing import Any

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
    infer_schema,
    unknown_values,
)
from contextual_bert.errors import DataError, SchemaError, UnknownNameError

PLAIN = ContextSchema(
    features=(
        Categorical(name="faith", values=("a", "b")),
        MultiCategorical(name="tags", values=("x",), separator=","),
        Numerical(name="salary", edges=(10,)),
        Vector(name="face", size=2),
        Numerical(name="born_year", source="born", part="year", edges=(1980,)),
    )
)
SCHEMA = PLAIN.with_sensitive(["faith", "tags", "salary", "face", "born"])


def test_the_mark_is_kept_and_changes_no_other_schema() -> None:
    assert "sensitive" not in PLAIN.to_json()
    assert PLAIN.digest == ContextSchema.from_json(PLAIN.to_json()).digest
    assert all(feature.sensitive for feature in SCHEMA.features)
    assert ContextSchema.from_json(SCHEMA.to_json()) == SCHEMA
    assert SCHEMA.digest != PLAIN.digest
    assert SCHEMA.with_context_size(30).feature("faith").sensitive
    assert Categorical(name="x", values=("a",), sensitive=True).model_dump()["sensitive"] is True
    with pytest.raises(UnknownNameError, match="Did you mean 'faith'"):
        PLAIN.with_sensitive(["fait"])
    with pytest.raises(SchemaError, match="sensitive"):
        Categorical(name="x", values=("a",), sensitive="perhaps")  # pyright: ignore[reportArgumentType]


def test_inference_marks_the_features_of_a_column() -> None:
    table = pa.table({"faith": ["a", "b"] * 20, "born": ["2015-01-01", "2016-05-06"] * 20, "sex": ["f", "m"] * 20})
    schema = infer_schema(table, sensitive=["faith", "born"], overrides={"born": "date"}).schema
    assert {feature.name: feature.sensitive for feature in schema.features} == {
        "faith": True,
        "born_year": True,
        "born_month": True,
        "born_weekday": True,
        "sex": False,
    }
    with pytest.raises(UnknownNameError, match="Did you mean 'faith'"):
        infer_schema(table, sensitive=["fath"])


@pytest.mark.parametrize(
    "column",
    [{"salary": ["secret"]}, {"born": ["secret"]}, {"born": ["2015-02-31 secret"]}],
)
def test_errors_of_tables_name_the_place_and_not_the_value(column: dict[str, Any]) -> None:
    whole = {"faith": ["a"], "tags": ["x"], "salary": ["1"], "face": [[1.0, 2.0]], "born": ["2015-02-03"]}
    with pytest.raises(DataError, match=r"row 1, column .*: the value \(withheld\) is not allowed") as caught:
        encode_table(SCHEMA, pa.table({**whole, **column}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "record",
    [
        {"faith": {"secret": 1}},
        {"tags": {"secret": 1}},
        {"salary": "secret"},
        {"face": "secret"},
        {"face": ["secret", 1]},
        {"born": "secret"},
    ],
)
def test_errors_of_records_name_the_place_and_not_the_value(record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"row 2, column .*: the value \(withheld\) is not allowed") as caught:
        encode_records(SCHEMA, [{}, record])
    assert "secret" not in str(caught.value)


def test_unknown_values_are_counted() -> None:
    encoded = encode_records(SCHEMA, [{"faith": "secret"}, {"faith": "other"}, {"tags": "x,secret"}])
    assert encoded.unknown == {"faith": {"(withheld)": 2}, "tags": {"(withheld)": 1}}
    assert encoded.tensors["faith"].tolist() == [1, 1, 0]
    assert unknown_values(SCHEMA, {"faith": "secret"}) == {"faith": ["(withheld)"]}
    assert encode_records(SCHEMA, [{"faith": "a"}]).unknown == {}


@pytest.mark.parametrize("is_kept", [True, False])
def test_no_note_names_a_value(*, is_kept: bool) -> None:
    ages = [str(20 + row % 60) for row in range(600)]
    cells = {
        "age": [*ages, "hospice"] if is_kept else [*ages, "hospice 12"],
        "pay": [float(1000 + row % 60) for row in range(600)] + [9.87e14],
        "born": [f"19{row % 60 + 20}-01-0{row % 9 + 1}" for row in range(600)] + ["exile"],
    }
    open_notes = infer_schema(pa.table(cells)).notes
    assert all(word in str(open_notes) for word in ("hospice", "9.87e+14", "exile"))
    found = infer_schema(pa.table(cells), sensitive=list(cells))
    assert [note.kind for note in found.notes] == [note.kind for note in open_notes]
    for word in ("hospice", "9.87e+14", "exile", "1000", "20 to", "1920"):
        assert word not in str(found.notes) + str(found.warnings()), word
    assert "(withheld)" in found.notes[0].reason


def test_a_number_far_from_training_is_remarked_without_it() -> None:
    encoded = encode_table(
        SCHEMA,
        pa.table({"faith": ["a"], "tags": ["x"], "salary": [9.8e14], "face": [[1e35, 0.0]], "born": ["1990-01-01"]}),
    )
    notes = [each.note(0, name=name) for name, each in encoded.outside.items()]
    assert [note.split(" is ")[0] for note in notes if note] == [
        "context 'salary': (withheld)",
        "context 'face': (withheld)",
    ]
    lines = [each.line(name=name) for name, each in encoded.outside.items()]
    assert not any("e+" in text and "9.8" in text for text in (*map(str, notes), *lines))


def test_the_range_of_training_is_withheld_too() -> None:
    features = (
        Numerical(name="salary", edges=(111052, 111782), sensitive=True),
        Vector(name="face", size=1, largest=32768, sensitive=True),
    )
    table = pa.table({"salary": [9.8e14], "face": [[1e35]]})
    outside = encode_table(ContextSchema(features=features), table).outside
    told = [text for name, each in outside.items() for text in (each.line(name=name), str(each.note(0, name=name)))]
    assert len(told) == 4
    assert not [text for text in told if "111" in text or "32768" in text]
