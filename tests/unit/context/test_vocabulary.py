import copy
import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import Vocabulary, canonical, canonical_array, spelt
from contextual_bert.context.vocabulary import normal_form
from contextual_bert.data import read_table
from contextual_bert.errors import ConfigurationError, DataError, SchemaError


def test_ids_are_reserved_names_first_then_values_in_order():
    vocabulary = Vocabulary(["b", "a"], reserved=["[PAD]", "[MASK]"])
    assert [vocabulary.value_of(index) for index in range(len(vocabulary))] == ["[PAD]", "[MASK]", "b", "a"]
    assert vocabulary.id_of("a") == 3
    assert vocabulary.id_of("[MASK]") == 1
    assert vocabulary.id_of("c") is None
    assert "b" in vocabulary
    assert "c" not in vocabulary


def test_a_copy_of_what_holds_a_vocabulary_shares_it():
    vocabulary = Vocabulary(["b", "a"], reserved=["[PAD]"])
    assert copy.deepcopy({"items": vocabulary})["items"] is vocabulary
    assert vocabulary.array.to_pylist() == ["b", "a"]


@pytest.mark.parametrize("make", [pa.array, lambda values: pa.chunked_array([values[:1], values[1:]])])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_lookup_tells_unknown_from_null_and_never_finds_a_reserved_name(make, kind):
    vocabulary = Vocabulary(["b", "a"], reserved=["[PAD]"])
    column = make(["a", None, "c", "[PAD]", "b"])
    ids = vocabulary.lookup(column.cast(kind) if kind != column.type else column)
    assert ids.dtype == np.int64
    assert ids.tolist() == [2, -2, -1, -1, 1]


def test_a_repeated_value_is_an_error_that_names_it():
    with pytest.raises(ConfigurationError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(ConfigurationError, match=r"'\[PAD\]' occurs twice"):
        Vocabulary(["[PAD]"], reserved=["[PAD]"])
    with pytest.raises(ConfigurationError, match="Values are strings"):
        Vocabulary([3])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="0 to 0"):
        Vocabulary(["a"]).value_of(1)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ("3", "3"),
        (3, "3"),
        (3.0, "3"),
        (np.int32(3), "3"),
        (np.float32(0.1), "0.1"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (10**20, "100000000000000000000"),
        (Decimal("2.50"), "2.5"),
        (True, "true"),
        (np.bool_(False), "false"),
        ("True", "True"),
        (datetime.date(2016, 3, 5), "2016-03-05"),
        (datetime.datetime(2016, 3, 5), "2016-03-05"),
        (datetime.datetime(2016, 3, 5, 12), "2016-03-05T12:00:00"),
        (np.datetime64("2016-03-05"), "2016-03-05"),
        (np.datetime64("2016-03-05T12", "ns"), "2016-03-05T12:00:00"),
    ],
)
def test_canonical_spelling(value, spelling):
    assert canonical(value) == spelling


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, [1], {"a": 1}])
def test_what_is_no_single_value_is_an_error(value):
    with pytest.raises(DataError, match="not a"):
        canonical(value)


def test_a_time_that_is_none_is_an_error():
    pandas = pytest.importorskip("pandas")
    for value in (pandas.NaT, np.datetime64("NaT"), np.datetime64("NaT", "ns")):
        with pytest.raises(DataError, match="not a"):
            canonical(value)


@pytest.mark.parametrize(
    ("array", "spellings"),
    [
        (pa.array([3, None], pa.int8()), ["3", None]),
        (pa.array([3.0, 0.1, float("nan"), None]), ["3", "0.1", None, None]),
        (pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([datetime.date(2016, 3, 5)]), ["2016-03-05"]),
        (pa.array([datetime.date(2016, 3, 5)], pa.date64()), ["2016-03-05"]),
        (pa.array([datetime.datetime(2016, 3, 5)], pa.timestamp("ns")), ["2016-03-05"]),
        (pa.array([Decimal("2.50")]), ["2.5"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.chunked_array([["a"], ["b"]], pa.large_string()), ["a", "b"]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_canonical_array_agrees_with_canonical(array, spellings):
    result = canonical_array(array)
    assert result.type == pa.string()
    assert result.to_pylist() == spellings


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("TRUE", "true"),
        ("False", "false"),
        ("tRUE", "tRUE"),
        ("1.50", "1.5"),
        ("2.0", "2"),
        ("-0", "0"),
        ("-0.0", "0"),
        (".5", "0.5"),
        ("2.", "2"),
        ("1e3", "1e3"),
        ("9007199254740993", "9007199254740993"),
        ("007", "007"),
        ("00.5", "00.5"),
        ("+1", "+1"),
        ("1,5", "1,5"),
        (" 1.0", "1"),
        ("1.0\n", "1"),
        ("-", "-"),
        (".", "."),
        ("e5", "e5"),
        ("inf", "inf"),
        ("1e999", "1e999"),
        ("NaN", "NaN"),
        ("", ""),
        ("2016-03-05", "2016-03-05"),
        ("2016-03-05 10:00", "2016-03-05T10:00:00"),
        ("2016-03-05T00:00", "2016-03-05"),
        ("2016-02-30 10:00", "2016-02-30 10:00"),
        ("beta", "beta"),
    ],
)
def test_the_normal_form_is_that_of_the_type_that_a_csv_file_would_have(text, form, tmp_path):
    assert normal_form(text) == form
    assert normal_form(form) == form
    (tmp_path / "a.csv").write_text(f'cell\n"{text}"\n', newline="")
    if text not in ("NaN", "inf", "1e3", "1e999", ""):  # missing, no category, and what may be a code
        assert canonical_array(read_table(tmp_path / "a.csv")["cell"]).to_pylist() == [spelt(form)]


def test_a_moment_is_found_however_its_zone_is_written():
    vocabulary = Vocabulary(["2019-01-01T10:00:00+00:00", "2019-01-02T10:00:00+02:00", "2019-01-03 10:00:00"])
    asked = ["2019-01-01T10:00:00Z", "2019-01-01 10:00Z", "2019-01-01T12:00:00+02:00", "2019-01-02 08:00:00+0000"]
    assert vocabulary.find(pa.array(asked)).tolist() == [0, 0, 0, 1]
    assert vocabulary.find(pa.array(["2019-01-01T10:00:00", "2019-01-03T10:00:00Z"])).tolist() == [-1, -1]
    two = Vocabulary(["2019-01-01T10:00:00Z", "2019-01-01T10:00:00+00:00"])
    assert two.find(pa.array(["2019-01-01T10:00:00Z", "2019-01-01 10:00:00Z"])).tolist() == [0, -1]


def test_what_is_not_there_is_found_by_its_normal_form_if_that_is_of_one_value():
    vocabulary = Vocabulary(["TRUE", "1.50", "2", "2.0", "3.00", "beta", "007"], reserved=["[missing]"])
    sought = ["true", "True", "1.5", "2", "2.0", "2.00", "3", "beta", "7", None, "true", "[missing]"]
    found = vocabulary.find(pa.chunked_array([sought[:5], sought[5:]]))
    assert found.dtype == np.int64
    assert found.tolist() == [1, -1, 2, 3, 4, -1, 5, 6, -1, -2, 1, -1]
    assert vocabulary.lookup(pa.array(sought)).tolist() == [-1, -1, -1, 3, 4, -1, -1, 6, -1, -2, -1, -1]
    assert vocabulary.find(pa.array([True, None])).tolist() == [1, -2]
    assert vocabulary.find(pa.array([1.5, 3.0])).tolist() == [2, 5]
    assert Vocabulary([]).find(pa.array(["1.0"])).tolist() == [-1]
    assert Vocabulary(["1.1", "2"]).find(pa.array(["1.10", "2.0", "v2"])).tolist() == [0, 1, -1]
    assert Vocabulary(["1.1", "beta"]).find(pa.array(["1.10"])).tolist() == [-1]
    assert Vocabulary(["1E5"]).find(pa.array(["100000", "1e5"])).tolist() == [-1, -1]


def test_normal_forms_are_made_only_of_distinct_values_that_are_not_there(monkeypatch):
    made = []
    monkeypatch.setattr("contextual_bert.context.vocabulary.normal_form", lambda text: made.append(text) or text)
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.find(pa.array(["a", "b", None] * 10)).tolist() == [0, 1, -2] * 10
    assert made == []
    vocabulary.find(pa.array(["a", "c", "d"] * 10))
    vocabulary.find(pa.array(["c"]))
    assert sorted(made) == ["a", "b", "c", "c", "d"]


def test_an_infinity_in_a_column_names_file_row_and_column():
    with pytest.raises(DataError, match=r"days\.csv, row 2, column 'size': inf is not a finite number"):
        canonical_array(pa.array([1.0, float("inf")]), file="days.csv", column="size")


def test_a_column_without_single_values_is_an_error():
    with pytest.raises(SchemaError, match="no single value a row"):
        canonical_array(pa.array([["a"]]), column="brands")
