"""Numbers that are finite and still nonsense: refused where a schema is learned, else clipped with a remark."""

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    Numerical,
    Vector,
    encode_records,
    encode_table,
    infer_schema,
    outside_lines,
    outside_notes,
)
from contextual_bert.context.ranges import stray_threshold
from contextual_bert.errors import DataError, SchemaError

ROWS = 50


def vectors(*strays: list[float] | None, kind: pa.DataType | None = None) -> pa.Array:
    """Ordinary vectors of two numbers with these among them, from row 7 on."""
    rows = np.random.default_rng(0).normal(size=(ROWS, 2)).tolist()
    rows[7 : 7 + len(strays)] = list(strays)
    return pa.array(rows, kind or pa.list_(pa.float64()))


def photo(**settings: float) -> ContextSchema:
    return ContextSchema(features=(Vector(name="photo", size=2, **settings),))


def test_a_schema_remembers_the_largest_component_and_no_exact_one():
    schema = infer_schema(pa.table({"photo": vectors([0.5, -5.3])})).schema
    assert schema.feature("photo") == Vector(name="photo", size=2, largest=8.0)
    assert ContextSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("mark", [1e30, -9999.0, -999.0, 3.4e38])
@pytest.mark.parametrize("has_fixed_size", [True, False])
def test_a_no_data_mark_is_refused_where_a_schema_is_learned(kind, mark, has_fixed_size):
    column = vectors([mark, mark], None, [0.0, mark], kind=pa.list_(kind, 2) if has_fixed_size else pa.list_(kind))
    with pytest.raises(DataError, match=r"2 of 49 vectors are so\. Give null for the whole vector") as caught:
        infer_schema(pa.table({"photo": column}))
    assert (caught.value.row, caught.value.column) == (7, "photo")
    assert f"a component of {mark:g}" in str(caught.value)


def test_what_most_rows_hold_is_a_mark_too_where_it_is_always_the_same():
    column = pa.array([[-9999.0, -9999.0]] * 60 + [[1.0, 2.0]] * 40)
    with pytest.raises(DataError, match="60 of 100 vectors"):
        infer_schema(pa.table({"photo": column}))


@pytest.mark.parametrize(
    "magnitudes",
    [
        np.random.default_rng(0).lognormal(sigma=3, size=2000),  # a long tail has no gap
        np.array([1e-9] * 60 + [1.0, 2.0] * 20),  # vectors that are all but zero
        np.array([0.0] * 90 + [5e4] * 10),
        np.array([1.6e9, 1.7e9, 1.5e9] * 10),  # seconds since 1970
        np.array([3.0]),
        np.array([]),
    ],
)
def test_ordinary_vectors_do_not_stand_out(magnitudes):
    assert stray_threshold(magnitudes) == np.inf


def test_a_schema_that_is_given_learns_its_range_or_holds_to_it():
    learned = Vector(name="photo", size=2).with_range(vectors([0.5, -5.3]))
    assert learned.largest == 8.0
    assert learned.with_range(vectors([700.0, 1.0])) == learned
    with pytest.raises(DataError, match=r"row 8, column 'photo': 900 is more than 100 times .*\(8\)"):
        learned.with_range(vectors([900.0, 1.0]))
    assert Vector(name="photo", size=2).with_range(pa.array([[0.0, 0.0], None])).largest is None


@pytest.mark.parametrize("largest", [0, -1, float("inf"), 1e13])
def test_a_range_that_cannot_be_is_refused(largest):
    with pytest.raises(SchemaError, match="largest"):
        photo(largest=largest)


@pytest.mark.parametrize("number", [1e30, 3.4e38, 1e300, 801, 2**70])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_vector_far_from_training_is_clipped_with_a_remark(number, sign):
    schema = photo(largest=8.0)
    records = encode_records(schema, [{"photo": [0.5, 1]}, {}, {"photo": [sign * number, 800]}])
    table = encode_table(schema, pa.table({"photo": vectors([sign * float(number), 800.0])}))
    assert records.tensors["photo"].tolist()[2] == [sign * 8, 800, 0]
    assert table.tensors["photo"].tolist()[7] == [sign * 8, 800, 0]
    note = f"context 'photo': {sign * float(number):g} is more than 100 times the largest number of training (8)"
    assert [outside_notes(records.outside, row) for row in (0, 1)] == [[], []]
    assert outside_notes(records.outside, 2) == [f"{note}, and is read as that."]
    [line] = outside_lines({name: each.at(np.arange(100, 100 + ROWS)) for name, each in table.outside.items()})
    assert "context 'photo', row 108: " in line


def test_without_a_known_range_only_what_no_model_can_compute_is_clipped():
    encoded = encode_records(photo(), [{"photo": [1e11, -1e300]}])
    assert encoded.tensors["photo"].tolist() == [[pytest.approx(1e11), pytest.approx(-1e12), 0]]
    assert outside_notes(encoded.outside, 0) == ["context 'photo': -1e+300 is beyond 1e+12, and is read as that."]


@pytest.mark.parametrize("number", [1e30, -1e308, 4501, 5e-324])
def test_a_number_far_from_the_bins_falls_into_the_last_one_with_a_remark(number):
    schema = ContextSchema(features=(Numerical(name="age", edges=(25, 45)),))
    records = encode_records(schema, [{"age": 44}, {"age": number}])
    table = encode_table(schema, pa.table({"age": [44, number]}))
    assert records.tensors["age"].tolist() == table.tensors["age"].tolist() == [2, 3 if number > 45 else 1]
    notes = outside_notes(records.outside, 1)
    assert len(notes) == (number != 5e-324) == len(outside_lines(table.outside))
    assert all("far outside of the bins, 25 to 45," in note for note in notes)


def test_a_year_far_from_training_gets_a_remark():
    year = Numerical(name="day_year", source="day", edges=(2016, 2019), part="year")
    month = Categorical(name="day_month", source="day", values=("12",), part="month")
    schema = ContextSchema(features=(year, month))
    encoded = encode_records(schema, [{"day": "2024-12-01"}, {"day": "9999-12-31"}, {"day_year": 1700}])
    assert [len(outside_notes(encoded.outside, row)) for row in range(3)] == [0, 1, 1]
    assert encoded.tensors["day_year"].tolist() == [3, 3, 1]


def test_what_is_missing_is_not_outside():
    schema = ContextSchema(features=(Numerical(name="age", edges=(25, 45)), Vector(name="photo", size=2, largest=1)))
    table = pa.table({"age": [None, float("nan")], "photo": pa.array([None, None], pa.list_(pa.float64()))})
    assert encode_table(schema, table).outside == {} == encode_records(schema, [{}, {"age": None}]).outside
    assert encode_table(schema, table.slice(0, 0)).outside == {}


def test_a_mark_among_numbers_is_told_and_has_a_bin_of_its_own():
    table = pa.table({"age": [-9999.0] * 20 + [20.0 + row % 50 for row in range(180)]})
    [note] = infer_schema(table).notes
    assert note.reason.count("-9999") == 3, "a number and two parts of one remark"
    assert "; -9999 may stand for a missing number: give --missing-value age=-9999" in note.reason
    asked = pa.table({"age": [20.0, -1e9, -1e9]})
    [line] = outside_lines(encode_table(infer_schema(table).schema, asked).outside)
    assert line.startswith("context 'age', row 2: -1e+09 is far outside of the bins")
    assert line.endswith("(2 such rows)")
    [note] = infer_schema(table.slice(20)).notes
    assert "stands out" not in note.reason
