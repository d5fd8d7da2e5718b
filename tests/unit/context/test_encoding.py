import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import torch

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


def of(*features) -> ContextSchema:
    return ContextSchema(features=features)


def test_missing_unknown_and_empty_have_ids_of_their_own(schema, table):
    encoded = encode_table(schema, table)
    tensors = encoded.tensors
    assert tensors["state"].tolist() == [3, 0, 1, 2, 0]
    assert tensors["age"].tolist() == [1, 2, 0, 3, 1]
    assert tensors["brands"].tolist() == [[4, 6, 0], [3, 0, 0], [1, 0, 0], [2, 5, 2], [1, 0, 0]]
    assert tensors["photo"].tolist() == [[1, 2, 0], [0, 0, 1], [3, 4, 0], [0, 0, 0], [0, 0, 1]]
    assert tensors["date_year"].tolist() == [2, 0, 1, 3, 3]
    assert tensors["date_month"].tolist() == [4, 0, 13, 2, 2]
    assert tensors["date_weekday"].tolist() == [7, 0, 5, 3, 8]
    assert encoded.unknown == {"state": {"NY": 1}, "brands": {"globex": 2}}
    assert encoded.num_rows == 5
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        name: torch.float32 if name == "photo" else torch.int64 for name in schema.names
    }


def test_records_get_the_ids_of_the_same_rows_of_a_table(schema, table):
    of_table = encode_table(schema, table)
    of_records = encode_records(schema, table.select(schema.columns).to_pylist())
    assert of_records.tensors.keys() == of_table.tensors.keys()
    for name, tensor in of_table.tensors.items():
        assert torch.equal(tensor, of_records.tensors[name]), name
    assert of_records.unknown == of_table.unknown


def test_chunks_and_slices_change_nothing(schema, table):
    whole = encode_table(schema, table)
    chunked = encode_table(schema, pa.concat_tables([table.slice(0, 2), table.slice(2)]))
    part = encode_table(schema, table.slice(1, 3))
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, chunked.tensors[name]), name
        assert torch.equal(tensor[1:4, ...], part.tensors[name]), name


@pytest.mark.parametrize("values", [["3", None, "4"], [3, None, 4], [3.0, float("nan"), 4.0], [3.0, None, 4.0]])
def test_a_category_is_the_same_whatever_the_type_of_the_column(values):
    encoded = encode_table(of(Categorical(name="floor", values=("3",))), pa.table({"floor": values}))
    assert encoded.tensors["floor"].tolist() == [2, 0, 1]
    assert encoded.unknown == {"floor": {"4": 1}}


def test_lists_of_numbers_are_categories_too():
    schema = of(MultiCategorical(name="sizes", values=("3", "4")))
    for kind in (pa.int64(), pa.float64()):
        encoded = encode_table(schema, pa.table({"sizes": pa.array([[4, 3], [3]], pa.list_(kind))}))
        assert encoded.tensors["sizes"].tolist() == [[5, 4], [4, 0]]


def test_lists_of_one_length_are_lists_too():
    schema = of(MultiCategorical(name="brands", values=("a", "b")), Vector(name="photo", size=2))
    table = pa.table(
        {
            "brands": pa.array([["a", "b"], None, ["b", "c"]], pa.list_(pa.string(), 2)),
            "photo": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
        }
    )
    tensors = encode_table(schema, table.slice(1)).tensors
    assert tensors["brands"].tolist() == [[1, 0], [5, 2]]
    assert tensors["photo"].tolist() == [[0, 0, 1], [3, 4, 0]]


def test_a_separator_splits_text():
    schema = of(MultiCategorical(name="brands", values=("acme", "hooli"), separator=","))
    table = pa.table({"brands": ["hooli, acme", "acme", "", None, "globex"]})
    encoded = encode_table(schema, table)
    assert encoded.tensors["brands"].tolist() == [[5, 4], [4, 0], [1, 0], [1, 0], [2, 0]]
    assert torch.equal(encoded.tensors["brands"], encode_records(schema, table.to_pylist()).tensors["brands"])
    with pytest.raises(SchemaError, match="set the feature's separator"):
        encode_table(of(MultiCategorical(name="brands", values=("acme",))), table)


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (pa.array([12, 15, None]), [[4], [5], [1]]),
        (pa.array([12.0, 15.0, None]), [[4], [5], [1]]),
        (pa.array(["12,15", "15", None]).dictionary_encode(), [[4, 5], [5, 0], [1, 0]]),
        (pa.array([12, 16, 15]).dictionary_encode(), [[4], [2], [5]]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_separator_does_without_text(column, ids):
    schema = of(MultiCategorical(name="brands", values=("12", "15"), separator=","))
    assert encode_table(schema, pa.table({"brands": column})).tensors["brands"].tolist() == ids
    assert encode_records(schema, [{"brands": value} for value in column.to_pylist()]).tensors["brands"].tolist() == ids


NUMBERS = [number / 100 for number in range(1, 200)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(NUMBERS),
        pa.array(NUMBERS, pa.float32()),
        pa.array([Decimal(str(number)) for number in NUMBERS], pa.decimal128(6, 2)),
        pa.array([Decimal(str(number)) for number in NUMBERS], pa.decimal256(50, 20)),
        pa.array([str(number) for number in NUMBERS]),
        pa.array(NUMBERS, pa.float32()).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_a_number_falls_into_its_bin_whatever_held_it(column):
    schema = ContextSchema(features=(Numerical(name="x", edges=tuple(NUMBERS[1:])),))
    ids = list(range(1, len(NUMBERS) + 1))
    assert encode_table(schema, pa.table({"x": column})).tensors["x"].tolist() == ids
    for kind in (float, str, np.float32, lambda number: Decimal(str(number))):
        assert encode_records(schema, [{"x": kind(number)} for number in NUMBERS]).tensors["x"].tolist() == ids


def test_marks_of_a_missing_number_or_date_are_missing_where_no_cell_has_one(schema):
    marks = ["NA", "NaN", "null", "", None]
    schema = of(*(feature for feature in schema.features if feature.column in ("age", "date")))
    for kind in (pa.string(), pa.large_string()):
        tensors = encode_table(schema, pa.table({name: pa.array(marks, kind) for name in ("age", "date")})).tensors
        assert {name: tensor.tolist() for name, tensor in tensors.items()} == {name: [0] * 5 for name in schema.names}


@pytest.mark.parametrize(
    "dates",
    [
        pa.array(["2016-03-05", None, "2016-03-06T23:59:00"]),
        pa.array([datetime.datetime(2016, 3, 5, 1), None, datetime.datetime(2016, 3, 6, 23)], pa.timestamp("ns")),
        pa.array([datetime.date(2016, 3, 5), None, datetime.date(2016, 3, 6)]),
        pa.array(["2016-03-05", "", "2016-03-06"]).dictionary_encode(),
    ],
)
def test_dates_are_read_from_every_type(schema, dates):
    part = ContextSchema(features=schema.features[-3:])
    tensors = encode_table(part, pa.table({"date": dates})).tensors
    assert tensors["date_year"].tolist() == [2, 0, 2]
    assert tensors["date_month"].tolist() == [4, 0, 4]
    assert tensors["date_weekday"].tolist() == [7, 0, 8]


def test_a_timestamp_counts_in_its_own_time_zone(schema):
    late = datetime.datetime(2016, 3, 6, 3, tzinfo=datetime.UTC)
    table = pa.table({"date": pa.array([late], pa.timestamp("us", tz="America/New_York"))})
    assert encode_table(ContextSchema(features=schema.features[-1:]), table).tensors["date_weekday"].tolist() == [7]


@pytest.mark.parametrize(
    ("feature", "column", "message"),
    [
        (Numerical(name="x", edges=(1,)), [1.0, float("inf")], "days.csv, row 2, column 'x': inf is not a finite"),
        (Numerical(name="x", edges=(1,)), [1.0, -float("inf")], "row 2, column 'x': -inf"),
        (Numerical(name="x", edges=(1,)), ["1", "abc"], "row 2, column 'x': 'abc' is not a number"),
        (Numerical(name="x", edges=(1,)), ["1", "NAN"], "row 2, column 'x': 'NAN' is not a number"),
        (Numerical(name="x", edges=(1,)), ["1", "inf"], "row 2, column 'x': inf"),
        (Categorical(name="x", values=("1",)), [1.0, float("inf")], "row 2, column 'x': inf"),
        (MultiCategorical(name="x", values=("1",)), [[], [1.0, 2.0], [float("inf")]], "row 3, column 'x': inf"),
        (Vector(name="x", size=2), [[1.0, 2.0], None, [1.0]], "row 3, column 'x': the vector has 1 components, not 2"),
        (Vector(name="x", size=2), [None, [1.0, 2.0], [1.0, float("nan")]], "row 3, column 'x': .*not finite"),
        (Vector(name="x", size=2), [[1.0, None]], "row 1, column 'x': .*missing"),
        (Categorical(name="m", values=("1",), source="x", part="month"), ["2016-03-05", "5.3.16"], "row 2.*'5.3.16'"),
        (Categorical(name="m", values=("1",), source="x", part="month"), ["2016-03-05", "2016-13-05"], "row 2.*13-05"),
    ],
)
def test_a_faulty_value_names_file_row_and_column(feature, column, message):
    with pytest.raises(DataError, match=message) as caught:
        encode_table(of(feature), pa.table({"x": column}), file="days.csv")
    assert str(caught.value).startswith("days.csv, row")


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (Numerical(name="x", edges=(1,)), [True]),
        (Numerical(name="x", edges=(1,)), [["a"]]),
        (Categorical(name="x", values=("a",)), [["a"]]),
        (MultiCategorical(name="x", values=("a",)), [3]),
        (Vector(name="x", size=2), [1.0]),
        (Vector(name="x", size=1), [["a"]]),
        (Categorical(name="m", values=("1",), source="x", part="month"), [3]),
    ],
)
def test_a_column_of_the_wrong_type_does_not_fit_the_schema(feature, column):
    with pytest.raises(SchemaError, match="column 'x' has"):
        encode_table(of(feature), pa.table({"x": column}))


def test_a_table_without_a_column_does_not_fit_the_schema(schema, table):
    renamed = table.rename_columns(["State", *table.column_names[1:]])
    with pytest.raises(
        SchemaError, match=r"days.csv: the table lacks the context column 'state'.*Did you mean 'State'"
    ):
        encode_table(schema, renamed, file="days.csv")


def test_a_column_without_any_value_is_missing_in_every_row(schema):
    table = pa.table({column: pa.nulls(2) for column in schema.columns})
    tensors = encode_table(schema, table).tensors
    assert tensors["brands"].tolist() == [[1], [1]]
    assert tensors["photo"].tolist() == [[0, 0, 1], [0, 0, 1]]
    for name in ("state", "age", "date_year", "date_month", "date_weekday"):
        assert tensors[name].tolist() == [0, 0], name
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in encode_records(schema, [{}, {}]).tensors.items())


def test_no_rows_give_empty_tensors(schema, table):
    for encoded in (encode_table(schema, table.slice(0, 0)), encode_records(schema, [])):
        assert encoded.num_rows == 0
        assert encoded.tensors["brands"].shape == (0, 1)
        assert encoded.tensors["photo"].shape == (0, 3)


def test_rows_are_chosen_by_number_mask_or_slice(schema, table):
    encoded = encode_table(schema, table)
    for index in (torch.tensor([3, 1]), np.array([3, 1])):
        assert encoded.rows(index)["age"].tolist() == [3, 2]
    assert encoded.rows(np.array([True, False, False, False, True]))["state"].tolist() == [3, 0]
    assert encoded.rows(slice(1, 3))["brands"].tolist() == [[3, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"age": "old"}, "row 2, column 'age': 'old' is a string, not a number"),
        ({"age": True}, "row 2, column 'age': True is a truth value, not a number"),
        ({"age": [3]}, "row 2, column 'age'"),
        ({"age": float("inf")}, "row 2, column 'age': inf is not a finite number"),
        ({"state": ["CA"]}, "row 2, column 'state': .*not a single value"),
        ({"brands": "acme"}, "row 2, column 'brands': 'acme' is a string, not a list"),
        ({"brands": [["acme"]]}, "row 2, column 'brands': .*not a single value"),
        ({"brands": {"acme": 1}}, "row 2, column 'brands': .*not a list"),
        ({"photo": [1.0]}, r"row 2, column 'photo': the vector has shape \(1,\), not \(2,\)"),
        ({"photo": [1.0, None]}, "row 2, column 'photo'"),
        ({"photo": "1,2"}, "row 2, column 'photo': .*not a vector"),
        ({"date": "yesterday"}, "row 2, column 'date': 'yesterday' is not a date"),
        ({"date": 20160305}, "row 2, column 'date'"),
    ],
)
def test_a_faulty_record_names_row_feature_value_and_what_is_allowed(schema, record, message):
    with pytest.raises(DataError, match=message) as caught:
        encode_records(schema, [{}, record])
    assert caught.value.fix


def test_an_unknown_key_gets_a_suggestion(schema):
    with pytest.raises(UnknownNameError, match=r"the context has no feature 'stat'\. Did you mean 'state'") as caught:
        encode_records(schema, [{"stat": "CA"}])
    assert caught.value.location == (0, "stat")
    with pytest.raises(DataError, match="not a mapping"):
        encode_records(schema, ["CA"])  # type: ignore[list-item]


def test_a_part_of_a_date_may_be_given_by_its_own_name_which_wins(schema):
    records = [
        {"date": "2016-03-05"},
        {"date": datetime.datetime(2016, 3, 5, 23)},
        {"date_year": 2016, "date_month": 3, "date_weekday": "Saturday"},
        {"date": "2016-03-05", "date_month": 4},
    ]
    tensors = encode_records(schema, records).tensors
    assert tensors["date_year"].tolist() == [2, 2, 2, 2]
    assert tensors["date_month"].tolist() == [4, 4, 4, 5]
    assert tensors["date_weekday"].tolist() == [7, 7, 7, 7]


def test_records_take_numpy_values_sets_and_numbers_as_text(schema):
    tensors = encode_records(
        schema,
        [{"age": np.float32(31), "brands": {"hooli"}, "photo": np.array([1, 2])}, {"age": "31", "brands": ("hooli",)}],
    ).tensors
    assert tensors["age"].tolist() == [2, 2]
    assert tensors["brands"].tolist() == [[5], [5]]
    assert tensors["photo"].tolist() == [[1, 2, 0], [0, 0, 1]]


def test_records_take_times_of_pandas_and_numpy(schema):
    pandas = pytest.importorskip("pandas")
    nowhen = (pandas.NaT, np.datetime64("NaT"), np.datetime64("NaT", "ns"))
    for when in (pandas.Timestamp("2016-03-05"), np.datetime64("2016-03-05"), np.datetime64("2016-03-05", "ns")):
        tensors = encode_records(schema, [{"date": when}, *({"date": none} for none in nowhen)]).tensors
        assert tensors["date_month"].tolist() == [4, 0, 0, 0]
        category = of(
            Categorical(name="day", values=("2016-03-05",)), MultiCategorical(name="days", values=("2016-03-05",))
        )
        records = [{"day": when, "days": days} for days in ([when, pandas.NaT], np.array([when], "datetime64[ns]"))]
        tensors = encode_records(category, [*records, *({"day": none, "days": [none]} for none in nowhen)]).tensors
        assert tensors["day"].tolist() == [2, 2, 0, 0, 0]
        assert tensors["days"].tolist() == [[4], [4], [1], [1], [1]]
    assert encode_records(of(Numerical(name="x", edges=(1,))), [{"x": pandas.NaT}]).tensors["x"].tolist() == [0]


def test_a_part_of_a_date_that_is_named_like_its_column_is_read_from_the_date(schema):
    month = of(schema.feature("date_month").model_copy(update={"name": "date"}))
    for date in ("2016-03-05", datetime.date(2016, 3, 5)):
        assert encode_table(month, pa.table({"date": [date]})).tensors["date"].tolist() == [4]
        assert encode_records(month, [{"date": date}]).tensors["date"].tolist() == [4]
    with pytest.raises(DataError, match="row 1, column 'date': 'March' is not a date"):
        encode_records(month, [{"date": "March"}])


def test_unknown_values_of_a_record(schema):
    record = {"state": "NY", "brands": ["acme", "globex", "initech"], "age": 1e9}
    assert unknown_values(schema, record) == {"state": ["NY"], "brands": ["globex", "initech"]}
    assert unknown_values(schema, {"state": "CA"}) == {}


@pytest.mark.parametrize(
    ("values", "column", "ids", "unknown"),
    [
        (("TRUE", "FALSE", "n/a"), [True, None, False], [2, 0, 3], {}),
        ((True, False), ["TRUE", "n/a", "False"], [2, 1, 3], {"n/a": 1}),
        (("1.50", "beta"), [1.5, 2.5, 2.5], [2, 1, 1], {"2.5": 2}),
        ((1.5, 2.0), ["1.50", "2.0", "beta"], [2, 3, 1], {"beta": 1}),
        (("1", "1.0", "beta"), ["1", "1.00", "1.0"], [2, 1, 3], {"1.00": 1}),
        (("007", "beta"), [7, 7], [1, 1], {"7": 2}),
    ],
)
def test_a_category_is_the_same_whatever_else_its_file_has(values, column, ids, unknown):
    schema = of(Categorical(name="c", values=values), MultiCategorical(name="several", values=values))
    table = pa.table({"c": column, "several": [[value] for value in column]})
    of_table, of_records = encode_table(schema, table), encode_records(schema, table.to_pylist())
    for encoded in (of_table, of_records):
        assert encoded.tensors["c"].tolist() == ids
        assert encoded.tensors["several"].tolist() == [[{0: 1, 1: 2}.get(each, each + 2)] for each in ids]
        assert encoded.unknown == ({"c": unknown, "several": unknown} if unknown else {})
    assert [bool(unknown_values(schema, record)) for record in table.to_pylist()] == [each == 1 for each in ids]


def test_string_views_encode_as_strings() -> None:
    plain = pa.table(
        {
            "city": ["Oslo", "Bergen", None, ""] * 10,
            "size": ["S", "M", "L", "M"] * 10,
            "born": ["1990-01-02", "", "1991-03-04", None] * 10,
            "likes": [["a", "b"], None, [], ["b"]] * 10,
            "brands": ["a|b", "", "b", None] * 10,
        }
    )
    kinds = {"likes": pa.list_(pa.string_view())}
    sizes = plain["size"].combine_chunks().dictionary_encode()
    coded = pa.DictionaryArray.from_arrays(sizes.indices.cast(pa.uint32()), sizes.dictionary.cast(pa.string_view()))
    views = pa.table(
        {
            name: coded if name == "size" else pa.array(plain[name].to_pylist(), kinds.get(name, pa.string_view()))
            for name in plain.column_names
        }
    )
    overrides = {"brands": "multi_categorical"}
    schema = infer_schema(plain, overrides=overrides, min_count=2).schema
    assert infer_schema(views, overrides=overrides, min_count=2).schema == schema
    assert {"city", "size", "likes", "brands"} < set(schema.names)
    expected, found = encode_table(schema, plain), encode_table(schema, views)
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())


def test_what_pandas_leaves_in_records_is_missing(schema):
    pd = pytest.importorskip("pandas")
    nothing = encode_records(schema, [{}])
    for missing in (None, float("nan"), np.float32("nan"), Decimal("NaN"), pd.NA, pd.NaT, np.datetime64("NaT")):
        record = dict.fromkeys(("state", "age", "brands", "photo", "date"), missing)
        encoded = encode_records(schema, [record])
        assert {name: tensor.tolist() for name, tensor in encoded.tensors.items()} == {
            name: tensor.tolist() for name, tensor in nothing.tensors.items()
        }
        assert encoded.unknown == {}


def test_a_row_of_pandas_is_the_record_of_its_values(schema):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"state": ["CA", None], "age": [34.0, float("nan")], "brands": [["acme"], ["acme", "hooli"]]})
    frame["date"] = pd.to_datetime(["2016-03-05", None])
    rows = [row for _, row in frame.iterrows()]
    expected = encode_records(schema, [{"state": "CA", "age": 34, "brands": ["acme"], "date": "2016-03-05"}, {}])
    for records in (rows, frame.to_dict("records")):
        encoded = encode_records(schema, records)
        for name in ("state", "age"):
            assert encoded.tensors[name].tolist() == expected.tensors[name].tolist()
        assert encoded.tensors["date_month"][0] == expected.tensors["date_month"][0]
    with pytest.raises(DataError, match=r"row 1: .*is not a mapping"):
        encode_records(schema, [frame])


@pytest.mark.parametrize("text", ["1_0", "1_000.5", "１２", "१२", "0x10", "1 000"])
def test_what_no_table_takes_for_a_number_is_none_at_asking(text: str) -> None:
    schema = ContextSchema(features=(Numerical(name="age", edges=(5, 15)),))
    for encode in (
        lambda: encode_records(schema, [{"age": text}]),
        lambda: encode_table(schema, pa.table({"age": [text]})),
    ):
        with pytest.raises(DataError, match="not a number"):
            encode()
