"""Tables in memory: whatever people hold their rows in becomes the same table, and says what it cannot be."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import infer_schema
from contextual_bert.context import Categorical, ContextSchema, Numerical, encode_table
from contextual_bert.data import SetPolicy, read_sets, read_table, split_by_customer, table_digest
from contextual_bert.errors import DataError
from contextual_bert.frames import as_table

pd: Any = pytest.importorskip("pandas")
datasets: Any = pytest.importorskip("datasets")
COLUMNS: dict[str, list[Any]] = {
    "items": [["coat", "hat"], ["hat"], ["bag", "coat"]] * 20,
    "customer": ["ann", "bob", "eve"] * 20,
    "age": [34.0, None, 51.0] * 20,
    "sex": ["f", None, "m"] * 20,
}
TABLE = pa.table(COLUMNS)


class Stream:
    """A frame of which nothing is known but the Arrow PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def frames() -> dict[str, Any]:
    frame = pd.DataFrame(COLUMNS)
    return {
        "pandas": frame,
        "filtered pandas": pd.concat([frame.iloc[:1], frame])[1:],
        "datasets": datasets.Dataset.from_dict(COLUMNS),
        "stream": Stream(TABLE),
        "views": Stream(TABLE.set_column(3, "sex", TABLE["sex"].cast(pa.string_view()))),
        "batch": TABLE.combine_chunks().to_batches()[0],
    }


@pytest.mark.parametrize("kind", frames())
def test_every_frame_is_the_same_table(kind: str) -> None:
    frame = frames()[kind]
    assert as_table(frame).to_pydict() == COLUMNS
    assert table_digest(read_table(frame)) == table_digest(frame) == table_digest(TABLE)


@pytest.mark.parametrize("kind", frames())
def test_every_frame_is_taken_where_a_table_is(kind: str) -> None:
    frame = frames()[kind]
    assert infer_schema(frame, exclude=["items"]) == infer_schema(TABLE, exclude=["items"])
    sets = read_sets(frame, items="items", policy=SetPolicy(), customer="customer")
    assert sets.values.to_pylist() == [item for row in COLUMNS["items"] for item in row]
    split = split_by_customer(frame, "customer", validation=0.3, test=0.3, seed=3)
    assert split.digest == split_by_customer(TABLE, "customer", validation=0.3, test=0.3, seed=3).digest
    split.check(frame)
    schema = ContextSchema(features=(Numerical(name="age", edges=(40,)), Categorical(name="sex", values=("f", "m"))))
    assert encode_table(schema, frame).tensors["age"].tolist() == [1, 0, 2] * 20
    assert encode_table(schema, frame).tensors["sex"].tolist() == [2, 0, 3] * 20


def test_polars_is_taken_where_it_is_there() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(COLUMNS)
    assert infer_schema(frame, exclude=["items"]) == infer_schema(TABLE, exclude=["items"])
    with pytest.raises(DataError, match=r"a LazyFrame has not been computed\. .*collect"):
        as_table(frame.lazy())


def test_cells_of_pandas_that_are_arrays_are_lists() -> None:
    frame = pd.DataFrame({"items": [np.array(["a", "b"]), ("c",)], "codes": [np.array([1, 2]), np.array([3])]})
    assert as_table(frame).to_pydict() == {"items": [["a", "b"], ["c"]], "codes": [[1, 2], [3]]}


def test_missing_values_of_pandas_are_null() -> None:
    cells: dict[str, Any] = {
        "nan": [1.5, float("nan")],
        "na": pd.array([1, None], dtype="Int64"),
        "nat": [pd.Timestamp("2016-03-05"), pd.NaT],
        "mixed": [pd.NA, "x"],
        "none": [None, "x"],
    }
    assert [column.null_count for column in as_table(pd.DataFrame(cells)).columns] == [1] * len(cells)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (pd.Index(["ann", "bob"], name="customer"), "the index 'customer' is no column"),
        (pd.Index([7, 8], name="customer"), "the index 'customer' is no column"),
        (pd.Index(["ann", "bob"]), "the index of .* is no column"),
        (pd.date_range("2016-03-05", periods=2), "the index of datetime64.* is no column"),
        (pd.MultiIndex.from_tuples([("ann", 1), ("bob", 2)], names=["who", "n"]), "the index 'who', 'n' is no column"),
    ],
)
def test_an_index_that_says_something_neither_vanishes_nor_becomes_a_feature(index: Any, said: str) -> None:
    frame = pd.DataFrame({"age": [34, 51]}, index=index)
    with pytest.raises(DataError, match=rf"{said}.*reset_index\(\).*drop=True"):
        infer_schema(frame)
    assert as_table(frame.reset_index(drop=True)).column_names == ["age"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            [1, 2, "unknown", 4],
            r"row 3, column 'age': 'unknown' is of type str, and the rows before hold int\. .*astype",
        ),
        (["a", None, 7], "row 3, column 'age': 7 is of type int, and the rows before hold str"),
        ([None, ["a"], "b"], "row 3, column 'age': 'b' is of type str, and the rows before hold list"),
        ([1, 2**70], "row 2, column 'age': 1180591620717411303424 is of type int"),
        ([object(), 2], "row 1, column 'age': <object"),
        ([1 + 2j, 2], "row 1, column 'age'"),
    ],
)
def test_a_column_of_several_kinds_names_its_first_such_row(cells: list[Any], said: str) -> None:
    frame = pd.DataFrame({"size": range(len(cells)), "age": pd.Series(cells, dtype=object)})
    with pytest.raises(DataError, match=said):
        read_table(frame)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pd.Series([1, 2], name="age"), "a Series is one column, not a table"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "column 'age': the column occurs more than once"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("age", "x")])), "the columns have names of 2 parts"),
        ([{"age": 34}], "a list is not a table"),
        (None, "a NoneType is not a table"),
    ],
)
def test_what_is_no_table_says_so(given: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        infer_schema(given)


def test_a_stream_of_rows_is_no_table() -> None:
    rows = datasets.Dataset.from_dict({"age": [34]})
    with pytest.raises(DataError, match=r"IterableDataset is a stream of rows\. Give a datasets\.Dataset"):
        as_table(rows.to_iterable_dataset())
    with pytest.raises(DataError, match=r"Choose one of them, such as dataset\['train'\]"):
        as_table(datasets.DatasetDict({"train": rows}))


def test_a_selection_of_a_dataset_is_what_is_read() -> None:
    rows = datasets.Dataset.from_dict({"age": [34, 51, 28]})
    assert as_table(rows.select([2, 0])).to_pydict() == {"age": [28, 34]}


def test_names_of_classes_stand_in_place_of_their_numbers_in_an_inferred_schema() -> None:
    features = datasets.Features({"mood": datasets.ClassLabel(names=["calm", "glad"]), "age": datasets.Value("int64")})
    data = datasets.Dataset.from_dict({"mood": [0, 1] * 20, "age": [30, 40] * 20}, features=features)
    mood = infer_schema(data, min_count=1).schema.feature("mood")
    assert isinstance(mood, Categorical)
    assert mood.values == ("calm", "glad")


def test_sparse_columns_of_pandas_are_read() -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.get_dummies(pandas.DataFrame({"size": ["s", "m", "s"]}), sparse=True)
    assert as_table(frame).to_pydict() == {"size_m": [False, True, False], "size_s": [True, False, True]}


def test_a_time_beyond_the_calendar_is_an_error_of_its_row() -> None:
    frame = pd.DataFrame({"until": np.array(["2016-03-05", "20000-01-01"], "datetime64[s]")})
    with pytest.raises(DataError, match="beyond the years 1 to 9999") as caught:
        as_table(frame)
    assert (caught.value.row, caught.value.column) == (1, "until")


def test_a_column_that_arrow_does_not_know_is_said() -> None:
    polars: Any = pytest.importorskip("polars")
    with pytest.raises(DataError, match="cannot become a table of Arrow"):
        as_table(polars.DataFrame({"n": polars.Series([2**100], dtype=polars.Int128)}))
