"""The shop's table beside a vocabulary: what fits, what does not, what is in stock."""

import datetime
import json
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from contextual_bert.context import Vocabulary
from contextual_bert.data import ReadSettings
from contextual_bert.errors import DataError, SchemaError, UnknownNameError
from contextual_bert.inference import Catalogue, catalogue

VOCABULARY = Vocabulary(["coat", "hat", "bag", "17"], reserved=["[PAD]", "[MASK]", "[UNK]"])
COLUMNS: dict[str, list[Any]] = {
    "id": ["17", "kilt", "hat", "coat"],
    "category": ["shoes", "skirt", None, "coats"],
    "price": [40, 60, 20, None],
    "materials": [["leather", "rubber"], ["wool"], [], None],
    "image": ["17.png", "kilt.png", "hat.png", "coat.png"],
}


def shop(**columns: list[Any]) -> Catalogue:
    return Catalogue(pa.table({**COLUMNS, **columns}), VOCABULARY)


def ids(mask: Any) -> list[str]:
    return [VOCABULARY.value_of(index) for index in np.flatnonzero(mask)]


def test_columns_are_aligned_to_the_vocabulary() -> None:
    catalogue = shop()
    assert catalogue.prices.tolist() == pytest.approx([np.nan] * 4 + [20, np.nan, 40], nan_ok=True)
    assert ids(catalogue.is_known) == ["coat", "hat", "17"]
    assert (catalogue.unlisted_items, catalogue.unknown_items) == (("bag",), ("kilt",))
    assert [line.split(" ")[2] for line in catalogue.notes()] == ["has", "lacks", "does"]
    assert catalogue.record("17") == {name: column[0] for name, column in COLUMNS.items()}
    assert catalogue.record("bag") == catalogue.record("kilt") == catalogue.record("[PAD]") == {}


def test_attributes_of_one_and_of_several_values() -> None:
    catalogue = shop()
    category, materials = catalogue.attribute("category"), catalogue.attribute("materials")
    assert ids(category.has_one_of(["coats", "shoes", "none"])) == ["coat", "17"]
    assert ids(category.is_known) == ["coat", "17"]
    assert ids(materials.has_one_of(["rubber"])) == ids(materials.has_one_of(["leather", "rubber"])) == ["17"]
    assert ids(materials.is_known) == ["hat", "17"]  # no material is known to be none
    assert category.numbers is None
    assert catalogue.attribute("price").numbers is not None


def test_a_list_with_a_gap_is_not_known_whole() -> None:
    materials = shop(materials=[["leather", None], [], ["wool"], []]).attribute("materials")
    assert ids(materials.is_known) == ["coat", "hat"]
    assert ids(materials.has_one_of(["leather"])) == ["17"]


def test_numbers_are_spelt_as_everywhere() -> None:
    catalogue = shop(size=[38.0, 39.0, float("nan"), 40.5], sold=[True, True, False, None])
    assert ids(catalogue.attribute("size").has_one_of(["38"])) == ["17"]
    assert ids(catalogue.attribute("size").is_known) == ["coat", "17"]
    assert ids(catalogue.attribute("sold").has_one_of(["true"])) == ["17"]


def test_groups() -> None:
    catalogue = shop(category=["shoes", "skirt", "shoes", None])
    groups = catalogue.groups("category")
    assert groups[4] == groups[6] >= 0
    assert groups[[0, 1, 2, 3, 5]].tolist() == [-1] * 5
    with pytest.raises(SchemaError, match="'materials' holds lists"):
        catalogue.groups("materials")


def test_what_is_asked_again_is_not_computed_again_and_nobody_writes_into_it() -> None:
    catalogue = shop()
    coats = catalogue.attribute("category").has_one_of(["coats", "shoes"])
    assert catalogue.attribute("category").has_one_of(iter(["shoes", "coats"])) is coats
    assert ids(catalogue.attribute("category").has_one_of(["shoes"])) == ["17"]
    assert catalogue.groups("category") is catalogue.groups("category")
    for kept in (coats, catalogue.groups("category")):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = True


def test_conditions_on_the_stock_hold_for_what_it_is_now() -> None:
    catalogue = shop(in_stock=[True] * 4)
    assert ids(catalogue.attribute("in_stock").has_one_of(["true"])) == ["coat", "hat", "17"]
    catalogue.set_stock(["hat"], False)
    assert ids(catalogue.attribute("in_stock").has_one_of(["true"])) == ["coat", "17"]
    assert catalogue.groups("in_stock")[3] != catalogue.groups("in_stock")[4]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_files(tmp_path: Path, suffix: str) -> None:
    table = pa.table({name: COLUMNS[name] for name in ("id", "category", "price")})
    path = tmp_path / f"shop{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".csv":
        arrow_csv.write_csv(table, path)
    else:
        path.write_text("\n".join(map(json.dumps, table.to_pylist())), encoding="utf-8")
    assert Catalogue(path, VOCABULARY).prices.tolist() == pytest.approx(shop().prices.tolist(), nan_ok=True)


def test_numbers_as_names_and_another_column_of_names() -> None:
    catalogue = Catalogue(
        pa.table({"sku": [17, 18], "price": [Decimal("9.90"), Decimal("1.00")]}), VOCABULARY, id_column="sku"
    )
    assert ids(catalogue.is_known) == ["17"]
    assert catalogue.prices[6] == pytest.approx(9.9)


def test_without_a_column_of_that_name_the_one_that_holds_the_items_names_them() -> None:
    columns = {"group": ["hat", "hat", "kilts"], "sku": ["hat", "coat", "kilt"], "parts": [["hat"], [], None]}
    catalogue = Catalogue(pa.table(columns | {"price": [17, 18, 19], "note": [None] * 3}), VOCABULARY)
    assert catalogue.id_column == "sku"
    assert ids(catalogue.is_known) == ["coat", "hat"]
    assert catalogue.notes()[:2] == [
        "The column 'sku' names the items of the catalogue.",
        "The catalogue has no column 'in_stock': every item of it counts as in stock.",
    ]
    with pytest.raises(UnknownNameError, match=r"no column 'skus'.*Did you mean 'sku'"):
        Catalogue(pa.table(columns), VOCABULARY, id_column="skus")


FAULTS: list[tuple[dict[str, list[Any]], type[Exception], str]] = [
    (
        {"sku": ["kilt"], "price": [1]},
        UnknownNameError,
        "no column 'id' .* none that holds an item of the model. Known: ",
    ),
    ({"sku": ["hat"], "next": ["coat"]}, SchemaError, "columns sku and next, and one names the items. Leave one out"),
    ({"sku": ["hat", "bag", "hat"]}, DataError, "row 3, column 'sku': 'hat' was in row 1 already"),
    ({"id": ["hat"], "item": ["hat"]}, SchemaError, "columns id and item, and one names the items. Leave one"),
    ({"id": ["hat", "bag", "hat"]}, DataError, "row 3, column 'id': 'hat' was in row 1 already"),
    ({"id": [17.0, 17]}, DataError, "row 2, column 'id': '17' was in row 1"),
    ({"id": ["hat", None]}, DataError, "row 2, column 'id': the item has no name"),
    ({"id": ["kilt"]}, DataError, "none of the 1 items is known to the model, such as 'kilt'; it knows 'coat', 'hat'"),
    ({"id": ["hat", "bag"], "price": [3, -0.5]}, DataError, "row 2, column 'price': -0.5 is not a price"),
    ({"id": ["hat", "bag"], "price": ["3", "cheap"]}, DataError, "row 2, column 'price': 'cheap' is not a price"),
    ({"id": ["hat", "bag"], "price": [1.0, float("inf")]}, DataError, "row 2, column 'price': inf is not a price"),
    ({"id": ["hat"], "price": [True]}, DataError, "row 1, column 'price': True is not a price"),
    ({"id": ["hat"], "in_stock": [3]}, DataError, "column 'in_stock': the type is int64, not a truth value: '3' is"),
    ({"id": ["hat", "bag"], "in_stock": ["yes", "soon"]}, DataError, "row 2, column 'in_stock': 'soon' is neither"),
    ({"id": ["kilt", "hat"], "in_stock": [[1], [0]]}, DataError, "column 'in_stock': the type is list<"),
]


@pytest.mark.parametrize(("columns", "kind", "message"), FAULTS)
def test_a_faulty_catalogue(columns: dict[str, list[Any]], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Catalogue(pa.table({name: _array(values) for name, values in columns.items()}), VOCABULARY)


def _array(values: list[Any]) -> pa.Array:
    return pa.array([float(v) for v in values]) if any(isinstance(v, float) for v in values) else pa.array(values)


def test_a_price_that_is_text_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("id,price\nhat,3\nbag,cheap\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"shop.csv, line 3, column 'price': 'cheap' is not a price"):
        Catalogue(path, VOCABULARY)


def test_an_attribute_that_does_not_exist() -> None:
    with pytest.raises(UnknownNameError, match=r"no attribute 'categry'. Did you mean 'category'"):
        shop().attribute("categry")
    with pytest.raises(UnknownNameError, match="no attribute 'price'"):
        assert len(Catalogue(pa.table({"id": ["hat"]}), VOCABULARY).prices) == 0


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.float64()])
def test_prices_that_are_all_unknown(kind: pa.DataType) -> None:
    table = pa.table({"id": ["hat"], "price": pa.array([None], kind)})
    assert np.isnan(Catalogue(table, VOCABULARY).prices).all()


def test_prices_may_be_categories() -> None:
    table = pa.table({"id": ["hat", "bag"], "price": pa.array([3.5, 3.5]).dictionary_encode()})
    assert np.nansum(Catalogue(table, VOCABULARY).prices) == 7


def test_stock_is_replaced_and_never_written_into() -> None:
    catalogue = shop()
    before = catalogue.in_stock
    assert ids(before) == ["coat", "hat", "17"]
    assert catalogue.set_stock([17, "kilt", "[MASK]"], False) == ("kilt", "[MASK]")
    assert catalogue.set_stock(["bag"], True) == ()
    assert ids(before) == ["coat", "hat", "17"]
    assert ids(catalogue.in_stock) == ["coat", "hat", "bag"]
    with pytest.raises(ValueError, match="read-only"):
        catalogue.in_stock[3] = False


def test_stock_of_the_table() -> None:
    assert ids(shop(in_stock=[True, True, None, False]).in_stock) == ["17"]


def test_stock_set_by_many_threads_loses_nothing() -> None:
    names = [f"item-{number}" for number in range(400)]
    catalogue = Catalogue(pa.table({"id": names}), Vocabulary(names, reserved=["[PAD]"]))
    threads = [
        threading.Thread(target=lambda part: [catalogue.set_stock([name], False) for name in part], args=(names[k::8],))
        for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not catalogue.in_stock.any()


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.float32()])
def test_a_price_is_the_number_that_it_is_spelt_like(kind: pa.DataType) -> None:
    prices = [Decimal("6.39"), Decimal("59.90"), Decimal("16.99"), None]
    column = pa.array([None if price is None else float(price) for price in prices]).cast(kind)
    table = pa.table({**COLUMNS, "price": column})
    catalogue = Catalogue(table, VOCABULARY)
    numbers = catalogue.attribute("price").numbers
    assert numbers is not None
    assert ids(numbers <= 6.39) == ["17"]
    assert ids(numbers == 16.99) == ["hat"]
    assert catalogue.price_of_unknown_item("kilt") == 59.9


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 0, None, 1]),
        pa.array([1.0, 0.0, float("nan"), 1.0], from_pandas=False),
        pa.array(["yes", "no", "", "YES"]),
        pa.array(["Y", "n", " ", "y"]),
        pa.array(["true", "FALSE", None, "True"]).dictionary_encode(),
        pa.array(["1", "0", None, " 1 "], pa.large_string()),
    ],
)
def test_truth_values_as_tables_have_them(cells: pa.Array) -> None:
    table = pa.table({"id": ["17", "hat", "bag", "coat"], "in_stock": cells})
    catalogue = Catalogue(table, VOCABULARY)
    assert ids(catalogue.in_stock) == ["coat", "17"]
    assert ids(catalogue.attribute("in_stock").has_one_of(["yes"])) == ["coat", "17"]


@pytest.mark.parametrize("separator", [";", "; ", "|", " | "])
def test_a_cell_of_several_values_has_each_of_them(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    labels = {"coat": f"bio{separator}sale", "hat": "bio", "bag": f"new{separator}sale", "17": ""}
    path.write_text("\n".join(["id,labels", *(f"{item},{cell}" for item, cell in labels.items())]))
    catalogue = Catalogue(path, VOCABULARY)
    found = catalogue.attribute("labels")
    assert ids(found.has_one_of(["bio"])) == ["coat", "hat"]
    assert ids(found.has_one_of(["sale"])) == ["coat", "bag"]
    assert ids(found.has_one_of([f"bio{separator}sale"])) == ["coat"]  # the whole cell, as before
    assert ids(found.is_known) == ["coat", "hat", "bag"]
    assert found.known_among(["bio", "cheap"]) == {"bio"}
    assert f"'labels' hold several values with {separator.strip()!r} between them" in catalogue.notes()[1]


def test_a_comma_separates_values_that_come_again_and_again() -> None:
    again = shop(category=["red, blue", "blue, red", "red, blue", "blue,red"]).attribute("category")
    assert ids(again.has_one_of(["red"])) == ["coat", "hat", "17"]
    prose = shop(category=["A coat, warm", "A kilt, light", "A hat", "Shoes, for rain"])
    assert prose.attribute("category").parts is None
    assert not any("several values" in line for line in prose.notes())


LIMITS: list[tuple[Any, str, Any, list[str]]] = [
    ([1, 2, 10, None], "above", 1, ["hat"]),
    ([1, 2, 10, None], "at_least", "1", ["hat", "17"]),
    ([1, 2, 10, None], "below", 10.0, ["17"]),
    ([Decimal("1.1"), Decimal("2"), Decimal("10"), None], "at_most", 1.1, ["17"]),
    (["1", "2", "10", None], "above", 9, ["hat"]),  # text that spells numbers
    (["1", "2", "10", None], "above", "9", ["hat"]),
    ([datetime.date(2016, 3, 5), None, datetime.date(2016, 3, 7), None], "above", "2016-03-05", ["hat"]),
    ([datetime.date(2016, 3, 5), None, datetime.date(2016, 3, 7), None], "at_most", "2016-03-05", ["17"]),
    (["2016-03-05", None, "2016-03-07", None], "below", "2016-03-07", ["17"]),
    ([datetime.datetime(2016, 3, 5, 10), None, datetime.datetime(2016, 3, 6), None], "at_most", "2016-03-05", ["17"]),
    ([datetime.datetime(2016, 3, 5, 10), None, datetime.datetime(2016, 3, 6), None], "above", "2016-03-05", ["hat"]),
    ([datetime.datetime(2016, 3, 5, 10), None, None, None], "above", "2016-03-05T09:30", ["17"]),
    (["L", "M", "S", None], "above", "L", ["hat"]),
    ([[38, 40], [39], [44], None], "above", 40, ["hat"]),
    (["38;40", "39", "44", None], "at_least", 40, ["hat", "17"]),
]


@pytest.mark.parametrize(("cells", "test", "limit", "expected"), LIMITS)
def test_limits_on_numbers_dates_and_text(cells: list[Any], test: str, limit: Any, expected: list[str]) -> None:
    assert ids(shop(category=cells).attribute("category").within(test, limit)) == expected


def test_limits_on_times_with_a_zone() -> None:
    times = pa.array([datetime.datetime(2016, 3, 5, 10, tzinfo=datetime.UTC), None, None, None])
    attribute = Catalogue(pa.table({"id": COLUMNS["id"], "since": times}), VOCABULARY).attribute("since")
    assert ids(attribute.within("at_most", "2016-03-05T11:00+01:00")) == ["17"]
    assert ids(attribute.within("below", "2016-03-05T11:00+01:00")) == []
    assert ids(attribute.within("at_least", "2016-03-05T09:00")) == ["17"]  # in UTC


@pytest.mark.parametrize(
    ("cells", "limit", "said"),
    [
        (["coat", "10", "11", None], 9.0, "holds no numbers but text such as 'coat'"),
        ([1, None, None, None], "cheap", "holds numbers such as '1', and 'cheap' is none"),
        ([True, False, None, None], 1.0, "holds no numbers but truth values"),
        ([datetime.date(2016, 3, 5), None, None, None], 2016.0, "holds times such as '2016-03-05'"),
        ([datetime.date(2016, 3, 5), None, None, None], "5 March", "cannot be compared with '5 March'"),
        ([datetime.datetime(2016, 3, 5, 9), None, None, None], "2016-03-05T10:00+01:00", "cannot be compared"),
    ],
)
def test_a_limit_of_another_kind_is_refused(cells: list[Any], limit: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        shop(category=cells).attribute("category").within("above", limit)


def test_numbers_are_equal_however_they_are_spelt() -> None:
    catalogue = shop(category=["1.10", "1.1", "2", "x"])
    assert ids(catalogue.attribute("price").has_one_of(["20.0"])) == ids(
        catalogue.attribute("price").has_one_of(["20"])
    )
    assert ids(catalogue.attribute("category").has_one_of(["1.10"])) == ["17"]  # codes stay what they are


def test_prices_that_are_text() -> None:
    catalogue = shop(price=["40", " 60.5 ", "", None])
    assert catalogue.prices.tolist() == pytest.approx([np.nan] * 6 + [40], nan_ok=True)


def test_a_catalogue_of_pandas() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    assert Catalogue(frame, VOCABULARY).notes() == shop().notes()
    assert Catalogue(frame, VOCABULARY).prices.tolist() == pytest.approx(shop().prices.tolist(), nan_ok=True)


def test_an_attribute_may_be_a_number_that_could_name_nothing() -> None:
    table = pa.table({"id": ["hat", "bag"], "volume": [1e17, 2.5]})
    attribute = Catalogue(table, Vocabulary(["hat", "bag"])).attribute("volume")
    assert attribute.values.to_pylist() == ["1e+17", "2.5"]
    assert attribute.within("at_least", 3.0).tolist() == [True, False]


GERMAN = """id;Preis;price;seit;bestand
hat;70,46;70,46;05.03.2016;k.A.
bag;1.009,99;9,99;25.12.2015;3
coat;9,5;0;01.02.2017;12
"""


def test_a_catalogue_is_read_with_the_options_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_bytes(GERMAN.replace("bestand", "Größe").encode("cp1252"))
    with pytest.raises(DataError, match="encoding cp1252"):
        Catalogue(path, VOCABULARY)
    reading = ReadSettings(
        decimal=",", encoding="cp1252", date_formats=("%d.%m.%Y",), missing_values=("price=0", "k.A.")
    )
    catalogue = Catalogue(path, VOCABULARY, reading=reading)
    assert catalogue.prices.tolist() == pytest.approx([np.nan] * 4 + [70.46, 9.99, np.nan], nan_ok=True)
    assert ids(catalogue.attribute("Preis").within("at_most", 80.0)) == ["coat", "hat"]
    assert ids(catalogue.attribute("seit").within("at_least", "2016-01-01")) == ["coat", "hat"]
    assert ids(catalogue.attribute("Größe").within("above", 2.0)) == ["coat", "bag"]
    assert ids(catalogue.attribute("Größe").is_known) == ["coat", "bag"]
    assert not [line for line in catalogue.notes() if "looks like" in line]
    frame = pa.table({"id": ["hat"], "price": ["1.070,46"], "seit": ["05.03.2016"]})
    same = Catalogue(frame, VOCABULARY, reading=reading)
    assert same.prices[4] == 1070.46
    assert ids(same.attribute("seit").within("below", "2016-03-06")) == ["hat"]


def test_a_catalogue_in_another_spelling_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(GERMAN.replace(";price;", ";cost;"), encoding="utf-8")
    catalogue = Catalogue(path, VOCABULARY)
    told = " ".join(catalogue.notes())
    assert "The column 'Preis' looks like numbers, and is read as text: give --decimal ','" in told
    assert "The column 'seit' looks like dates: write 2016-03-05, or give --date-format '%d.%m.%Y'" in told
    with pytest.raises(DataError, match="give --decimal ','"):
        catalogue.attribute("Preis").within("at_most", 80.0)
    with pytest.raises(DataError, match=r"cannot be compared with the date '2016-01-01'.*--date-format '%d.%m.%Y'"):
        catalogue.attribute("seit").within("at_least", "2016-01-01")  # letter by letter all days would be before it
    path.write_text(GERMAN, encoding="utf-8")
    with pytest.raises(DataError, match=r"'70,46' is not a price. Give --decimal ','"):
        Catalogue(path, VOCABULARY)
    with pytest.raises(UnknownNameError, match=r"no attribute 'price'. Did you mean 'Preis'"):
        Catalogue(pa.table({"id": ["hat"], "Preis": [3.5]}), VOCABULARY).attribute("price")
    stock = Catalogue(pa.table({"id": ["hat"], "In Stock": ["yes"]}), VOCABULARY)
    assert "Rename 'In Stock' where that is it." in " ".join(stock.notes())


def test_days_with_slashes_are_dates() -> None:
    catalogue = shop(since=["2016/03/05", "2015/01/01", None, "2017/02/01"])
    assert ids(catalogue.attribute("since").within("at_least", "2016-04-01")) == ["coat"]
    times = shop(since=["2016-03-05 10:00", "2015-01-01 09:30", None, "2017-02-01 08:00"])
    assert ids(times.attribute("since").within("at_least", "2016-03-05 09:00")) == ["coat", "17"]


def test_printed_lists_beside_plain_values_are_lists() -> None:
    catalogue = shop(colour=["['red', 'blue']", "green", "red", "blue"])
    colour = catalogue.attribute("colour")
    assert ids(colour.has_one_of(["red"])) == ["hat", "17"]
    assert ids(colour.has_one_of(["blue"])) == ["coat", "17"]
    assert sorted(colour.values.to_pylist()) == ["blue", "red"]
    names = shop(colour=["(new) red", "[sic", "red", "blue"]).attribute("colour")
    assert "(new) red" in names.values.to_pylist()


def test_a_file_that_is_written_to_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("id,price\ncoat,3\n", encoding="utf-8")
    read = catalogue.read_table

    def read_amid_a_write(source: Any, **settings: Any) -> Any:
        found = read(source, **settings)
        path.write_text("id,price\ncoat,3\nhat,4\n", encoding="utf-8")
        return found

    vocabulary = Vocabulary(["coat", "hat"], reserved=["[PAD]"])
    with monkeypatch.context() as patch, pytest.raises(DataError, match=r"changed while it was read.*rename it"):
        patch.setattr(catalogue, "read_table", read_amid_a_write)
        Catalogue(path, vocabulary)
    assert Catalogue(path, vocabulary).known_items == ("coat", "hat")


@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("times", [1, catalogue.MOST_READINGS - 1, catalogue.MOST_READINGS])
def test_a_file_that_another_takes_the_place_of_is_read_again(
    times: int, is_torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("id,price\ncoat,3\n", encoding="utf-8")
    read, left = catalogue.read_table, times

    def read_amid_a_renaming(source: Any, **settings: Any) -> Any:
        nonlocal left
        found = read(source, **settings)
        if not left:
            return found
        left -= 1
        beside = path.with_suffix(f".{left}")
        beside.write_text(f"id,price\ncoat,3\nhat,{left + 4}\n", encoding="utf-8")
        beside.replace(path)
        if is_torn:
            raise DataError("half of one and half of another", file=str(path))
        return found

    vocabulary = Vocabulary(["coat", "hat"], reserved=["[PAD]"])
    monkeypatch.setattr(catalogue, "read_table", read_amid_a_renaming)
    if times < catalogue.MOST_READINGS:
        assert Catalogue(path, vocabulary).prices.tolist()[1:] == [3, 4]
    else:
        with pytest.raises(DataError, match="changed while it was read"):
            Catalogue(path, vocabulary)
