"""The names of labels: whole numbers of any type are classes, fractions are not."""

import pyarrow as pa
import pytest

from contextual_bert.data import read_table
from contextual_bert.errors import DataError, in_message
from contextual_bert.runs.label_names import label_names, label_values, label_warnings


def column(values: list[object], kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize("is_ordinal", [False, True])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64()], ids=str)
def test_whole_numbers_are_labels_whatever_their_type(kind: pa.DataType, is_ordinal: bool) -> None:
    values = column([3, 1, None, 2, 10], kind)
    names = label_names(values, "t.csv", "stars", is_ordinal=is_ordinal)
    assert names == ("1", "2", "3", "10")
    assert label_values(values).to_pylist() == values.to_pylist()


def test_whole_numbers_of_a_csv_file_with_a_gap_are_labels(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,stars\na,1.0\nb,\nc,2.0\nd,nan\n")
    table = read_table(path)
    assert label_names(table["stars"], str(path), "stars") == ("1", "2")


def test_what_is_no_number_is_missing() -> None:
    values = column([1.0, float("nan"), 2.0, None])
    assert label_values(values).to_pylist() == [1.0, None, 2.0, None]
    assert label_names(values, "t.csv", "stars") == ("1", "2")
    assert label_names(column([[1.0, float("nan")], [2.0]]), "t.csv", "tags") == ("1", "2")


@pytest.mark.parametrize(("value", "kind"), [(2.5, pa.float64()), (2.5, pa.float32()), (float("inf"), pa.float64())])
def test_a_number_with_a_fraction_is_no_label(value: float, kind: pa.DataType) -> None:
    words = f"row 3, column .price.: the label {value} is no whole number.*Give whole numbers or names, .*is_regression"
    with pytest.raises(DataError, match=words) as caught:
        label_names(column([1.0, None, value, 3.0], kind), "t.csv", "price")
    assert (caught.value.file, caught.value.row) == ("t.csv", 2)
    with pytest.raises(DataError, match="no whole number") as caught:
        label_names(column([[1.0, 3.0], [value]], pa.list_(kind)), "t.csv", "price")
    assert caught.value.row is None


def test_zero_has_one_sign() -> None:
    assert label_names(pa.chunked_array([[0.0, -0.0, 1.0]]), "a.parquet", "label") == ("0", "1")


def test_labels_that_a_person_would_read_as_one() -> None:
    table = pa.table({"verdict": ["Good", "bad", "good ", "so so", "So  so", "fine"]})
    names = label_names(table["verdict"], "t.csv", "verdict")
    assert label_warnings(table, names, "verdict", None) == [
        "warning: the labels 'Good' and 'good' differ in blanks or capitals alone, and each is a class of its own",
        "warning: the labels 'So  so' and 'so so' differ in blanks or capitals alone, and each is a class of its own",
    ]
    assert label_warnings(table, ["B-Person", "I-Person", "O"], "verdict", None) == []


@pytest.mark.parametrize(
    "values", [[2.5, 1.0, 10.0, 1.5, 9.0, None], ["2.5", "1", "10", "1.5", "9", None]], ids=["float", "text"]
)
def test_half_grades_are_grades_in_the_order_of_the_numbers(values: list[object]) -> None:
    found = label_names(column(values * 3), "t.csv", "stars", is_ordinal=True)
    assert found == ("1", "1.5", "2.5", "9", "10")
    assert set(label_names(column(values * 3), "t.csv", "stars")) == {*found}


@pytest.mark.parametrize("values", [[1.2, 1.0, 3.0], ["1.2", "1", "3"]], ids=["float", "text"])
def test_fractions_that_are_no_halves_are_grades_where_that_is_said(values: list[object]) -> None:
    assert label_names(column(values * 3), "t.csv", "stars", is_ordinal=True) == ("1", "1.2", "3")
    with pytest.raises(DataError, match=r"no half grade.*or is_ordinal where they are grades of one scale;") as caught:
        label_names(column(values * 3), "t.csv", "stars")
    assert "or --ordinal where" in in_message(caught.value).spelled(lambda name, value: "--ordinal")


@pytest.mark.parametrize(
    ("cells", "spelt"),
    [
        (["0.5", "1.0", "1.5"], ("0.5", "1.0", "1.5", "2")),
        ([0.5, 1.0, 1.5], ("0.5", "1", "1.5", "2")),
    ],
    ids=["text", "float"],
)
def test_an_order_of_numbers_names_grades_as_the_cells_spell_them(cells: list[object], spelt: tuple[str, ...]) -> None:
    order = ("0.5", "1", "1.50", "2")
    found = label_names(column(cells * 2), "t.csv", "stars", is_ordinal=True, order=order)
    assert found == spelt
    with pytest.raises(DataError, match=r"'1' and '1.0' are one number, and two grades"):
        label_names(column(["1", "1.0", "2"]), "t.csv", "stars", is_ordinal=True, order=order)
    codes = ("10.1", "10.10")
    assert label_names(column([*codes]), "t.csv", "code", is_ordinal=True, order=codes) == codes


def test_numbers_that_hardly_occur_twice_are_no_grades() -> None:
    prices = column([0.5 + number for number in range(50)])
    told = r"50 numbers, such as 0.5, are no grades: hardly one occurs twice.*is_regression=True"
    with pytest.raises(DataError, match=told):
        label_names(prices, "t.csv", "price", is_ordinal=True)
    with pytest.raises(DataError, match="the label inf is no whole number"):
        label_names(column([1.0, float("inf")] * 9), "t.csv", "price", is_ordinal=True)


def test_words_are_grades_in_the_order_that_is_given() -> None:
    order = ("bad", "fair", "good", "best")
    values = column(["good", "bad ", "fair", None, "bad"])
    assert label_names(values, "t.csv", "verdict", is_ordinal=True, order=order) == order
    assert label_names(column([3, 1, 2, 1]), "t.csv", "rank", is_ordinal=True, order=("3", "2", "1")) == ("3", "2", "1")
    with pytest.raises(
        DataError, match=r"the label 'ok' is not in the order bad, fair, good, best\. Name it"
    ) as caught:
        label_names(column(["good", None, "bad", "ok", "ok"]), "t.csv", "verdict", is_ordinal=True, order=order)
    assert (caught.value.file, caught.value.row, caught.value.column) == ("t.csv", 3, "verdict")
    with pytest.raises(DataError, match=r"the label '1.5' is not in the order 1, 2"):
        label_names(column([1.0, 1.5, 2.0]), "t.csv", "stars", is_ordinal=True, order=("1", "2"))
    with pytest.raises(DataError, match=r"only the label \['good'\] occurs"):
        label_names(column(["good", "good"]), "t.csv", "verdict", is_ordinal=True, order=order)
    with pytest.raises(DataError, match=r"tags of words.*Leave order out"):
        label_names(column([["bad"], ["good"]]), "t.csv", "verdict", is_ordinal=True, order=order)


@pytest.mark.parametrize(
    "values",
    [pa.array([b"a", b"b"]), pa.array([[b"a"], [b"b"]]), pa.array([{"a": 1}, {"a": 2}]), pa.array([[[1]], [[2]]])],
    ids=["bytes", "lists of bytes", "objects", "lists of lists"],
)
def test_a_column_that_says_no_label_is_named(values: pa.Array) -> None:
    with pytest.raises(DataError, match=r"column 'label': the column is of type .*, which says no label"):
        label_names(pa.chunked_array([values]), "t.parquet", "label")


def test_a_decimal_comma_is_one_where_no_label_has_a_point() -> None:
    with pytest.raises(DataError, match=r"row 2, column 'price': the label 27,05 is no whole number"):
        label_names(column(["12", "27,05", "31,9"]), "t.csv", "price")
    assert label_names(column(["1,5", "2", "1,5", "2"]), "t.csv", "stars") == ("1,5", "2")
    assert label_names(column(["1.2", "1,2"]), "t.csv", "code") == ("1,2", "1.2")
