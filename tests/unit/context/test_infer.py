import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import Categorical, MultiCategorical, Numerical, encode_table, infer_schema
from contextual_bert.context.binning import quantile_edges
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError

ROWS = 600


@pytest.fixture
def days() -> pa.Table:
    generator = np.random.default_rng(0)
    start = datetime.date(2015, 1, 1)
    dates = [start + datetime.timedelta(days=int(day)) for day in generator.integers(0, 900, ROWS)]
    return pa.table(
        {
            "customer": [f"c{row}" for row in range(ROWS)],
            "order": list(range(ROWS)),
            "state": ["CA", "TX", "NY"] * (ROWS // 3 - 1) + ["CA", "VT", "VT"],
            "member": pa.array([True, False, None] * (ROWS // 3)),
            "income": generator.lognormal(10, 1, ROWS),
            "rooms": pa.array([1, 2, 3, None] * (ROWS // 4)),
            "brands": [["a", "b"], [], ["a"], ["c"], None, ["b"]] * (ROWS // 6),
            "photo": pa.array([[0.5, 1.5]] * ROWS, pa.list_(pa.float32(), 2)),
            "day": pa.array(dates),
            "day_text": [day.isoformat() for day in dates],
            "planet": ["earth"] * ROWS,
            "nothing": pa.nulls(ROWS, pa.string()),
            "account": pa.array([{"id": 1}] * ROWS),
            "user.age": generator.integers(20, 30, ROWS),
            "kind": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
        }
    )


def notes_of(inferred):
    return {note.column: note for note in inferred.notes}


def test_every_column_gets_a_kind_or_the_reason_why_not(days):
    inferred = infer_schema(days, exclude=["customer"])
    notes = notes_of(inferred)
    assert list(notes) == days.column_names
    assert {column: note.kind for column, note in notes.items()} == {
        "customer": None,
        "order": None,
        "state": "categorical",
        "member": "categorical",
        "income": "numerical",
        "rooms": "numerical",
        "brands": "multi_categorical",
        "photo": "vector",
        "day": "date",
        "day_text": "date",
        "planet": None,
        "nothing": None,
        "account": None,
        "user.age": "numerical",
        "kind": "categorical",
    }
    assert "excluded" in notes["customer"].reason
    assert "looks like an id" in notes["order"].reason
    assert "constant" in notes["planet"].reason
    assert "no row has a value" in notes["nothing"].reason
    assert "has no kind of feature" in notes["account"].reason
    assert notes["member"].missing == ROWS // 3
    assert notes["brands"].distinct == 3
    assert inferred.schema.names == (
        "state",
        "member",
        "income",
        "rooms",
        "brands",
        "photo",
        "day_year",
        "day_month",
        "day_weekday",
        "day_text_year",
        "day_text_month",
        "day_text_weekday",
        "user_age",
        "kind",
    )
    assert inferred.schema.feature("user_age").column == "user.age"
    encoded = encode_table(inferred.schema, days)
    assert encoded.unknown == {"state": {"VT": 2}}
    for part in ("year", "month", "weekday"):
        assert encoded.tensors[f"day_{part}"].tolist() == encoded.tensors[f"day_text_{part}"].tolist()


def test_rare_values_are_unknown_so_that_unknown_is_learned(days):
    inferred = infer_schema(days.select(["state"]))
    assert inferred.schema.feature("state").values == ("CA", "NY", "TX")
    assert "1 rarer than 10 rows counts as unknown" in inferred.notes[0].reason
    assert infer_schema(days.select(["state"]), min_count=2).schema.feature("state").values == ("CA", "NY", "TX", "VT")


def test_ids_are_left_out_and_the_most_frequent_categories_kept_unless_asked_for(days):
    notes = notes_of(infer_schema(days))
    assert notes["customer"].kind is None
    assert "looks like an id" in notes["customer"].reason
    many = pa.table({"shop": [f"s{row % 50}" for row in range(ROWS)]})
    most = infer_schema(many, max_categories=49)
    assert len(most.schema.feature("shop").values) == 49
    assert "49 values; 1 rarer" in most.notes[0].reason
    kept = infer_schema(many, max_categories=49, overrides={"shop": "categorical"})
    assert len(kept.schema.feature("shop").values) == 50


def test_few_whole_numbers_have_a_bin_each(days):
    assert infer_schema(days.select(["rooms"])).schema.feature("rooms").edges == (2.0, 3.0)


def test_overrides(days):
    given = Numerical(name="money", source="income", edges=(1000, 10000))
    inferred = infer_schema(
        days.select(["rooms", "income", "photo", "state", "day"]),
        overrides={"rooms": "categorical", "income": given, "photo": "ignore", "day": "categorical"},
        min_count=1,
    )
    assert inferred.schema.feature("rooms") == Categorical(name="rooms", values=("1", "2", "3"))
    assert inferred.schema.feature("money") == given
    assert inferred.schema.names == ("rooms", "money", "state", "day")
    assert notes_of(inferred)["photo"].reason == "ignored: by an override"
    text = pa.table({"size": ["1.5", "2", "", None] * 20, "tags": ["a, b", "b", "", None] * 20})
    asked = infer_schema(text, overrides={"size": "numerical", "tags": "multi_categorical"})
    assert asked.schema.feature("size").edges == (2.0,)
    assert asked.schema.feature("tags").separator == ","
    assert encode_table(asked.schema, text).tensors["tags"][:4].tolist() == [[4, 5], [5, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"exclude": ["custommer"]}, UnknownNameError, "Did you mean 'customer'"),
        ({"overrides": {"incme": "numerical"}}, UnknownNameError, "Did you mean 'income'"),
        ({"overrides": {"income": "numeric"}}, ConfigurationError, "Did you mean 'numerical'"),
        ({"overrides": {"income": Numerical(name="x", edges=())}}, ConfigurationError, "Set its source='income'"),
        ({"overrides": {"state": "numerical"}}, DataError, "row 1, column 'state': 'CA' is not a number"),
        ({"overrides": {"planet": "categorical"}}, SchemaError, "cannot be categorical.*constant"),
        ({"overrides": {"state": "vector"}}, SchemaError, "cannot be vector"),
        ({"overrides": {"state": "categorical"}, "exclude": ["state"]}, ConfigurationError, "'state' is excluded, and"),
        ({"min_count": 0}, ConfigurationError, "min_count=0 is not allowed. Allowed: 1 or more"),
    ],
)
def test_what_cannot_be_inferred_is_an_error(days, settings, error, message):
    with pytest.raises(error, match=message):
        infer_schema(days, **settings)


@pytest.mark.parametrize(
    "cells",
    [[["a", "b"], ["c", "d"]], [[{"a": 1.5}], [{"a": 2.5}]], [[[1.5]], [[2.5]]], [[b"a"], [b"b"]]],
    ids=["words", "objects", "lists", "bytes"],
)
def test_lists_of_something_else_than_numbers_are_no_vectors(cells):
    with pytest.raises(SchemaError, match=r"cannot be vector, which its override asks for: .* no list of numbers"):
        infer_schema(pa.table({"tags": cells * 20}), overrides={"tags": "vector"})


def test_a_column_without_a_name_is_no_feature():
    table = pa.table({"": list(range(40)), "sex": ["f", "m"] * 20})
    inferred = infer_schema(table)
    assert inferred.schema.names == ("sex",)
    assert notes_of(inferred)[""].reason == "has no name: the index of a pandas table?"
    assert notes_of(infer_schema(table, exclude=[""]))[""].reason == "excluded: not context"
    with pytest.raises(SchemaError, match="column '' cannot be numerical, which its override asks for: has no name"):
        infer_schema(table, overrides={"": "numerical"})


@pytest.mark.parametrize("blank", [None, "", " "])
def test_a_value_or_nothing_is_no_constant(blank):
    inferred = infer_schema(pa.table({"news": ["yes", blank] * 20}))
    assert inferred.schema.feature("news").values == ("yes",)
    assert inferred.notes[0].missing == 20


def test_derived_names_make_way_for_columns_of_the_table():
    table = pa.table({"day": ["2015-01-01", "2016-05-06"] * 20, "day_month": ["a", "b"] * 20})
    schema = infer_schema(table, overrides={"day": "date"}).schema
    assert schema.names == ("day_year", "day_month_", "day_weekday", "day_month")
    assert schema.feature("day_month_").column == "day"


def test_lists_of_several_lengths_are_no_vectors():
    inferred = infer_schema(pa.table({"photo": [[1.0], [1.0, 2.0]] * 20}))
    assert inferred.notes[0].kind is None
    assert "1 to 2 numbers" in inferred.notes[0].reason


def test_infinity_is_an_error_and_not_a_bin():
    with pytest.raises(DataError, match="row 2, column 'x'"):
        infer_schema(pa.table({"x": [1.0, float("inf"), 2.0]}))


@pytest.mark.parametrize("num_bins", [2, 7, 16])
def test_bins_hold_about_equally_many_rows(num_bins):
    values = np.sort(np.random.default_rng(0).lognormal(size=20_000))
    edges = quantile_edges(values, np.ones(len(values), int), num_bins=num_bins, min_count=10)
    sizes = np.bincount(np.searchsorted(edges, values, side="right"))
    assert len(sizes) == num_bins
    assert sizes.max() - sizes.min() <= 0.1 * sizes.max()  # an edge moves by 5% of a bin to be a round number


def test_a_number_that_many_rows_share_is_alone_in_its_bin():
    numbers, counts = np.arange(100.0), np.ones(100, int)
    counts[40] = 1000
    edges = quantile_edges(numbers, counts, num_bins=16, min_count=5)
    assert {40.0, 40.5} <= set(edges)  # 41 is the number of one row, and no edge


def test_no_bin_is_rarer_than_the_minimum_count():
    generator = np.random.default_rng(0)
    for _ in range(50):
        counts = generator.geometric(0.1, size=generator.integers(2, 60))
        numbers = np.cumsum(generator.random(len(counts)) + 0.01)
        edges = quantile_edges(numbers, counts, num_bins=16, min_count=10)
        sizes = np.bincount(np.searchsorted(edges, np.repeat(numbers, counts), side="right"))
        assert len(sizes) <= 16
        assert sizes.min() >= min(10, counts.sum())


def test_an_override_of_a_column_without_values_is_refused() -> None:
    table = pa.table({"size": pa.array([None] * 3, pa.string()), "age": [1, 2, 3]})
    with pytest.raises(SchemaError, match=r"'size' cannot be categorical.*no row has a value"):
        infer_schema(table, overrides={"size": "categorical"})
    assert infer_schema(table, exclude=["size"], overrides={"size": "ignore"}).schema.names == ("age",)


def test_another_separator_is_found() -> None:
    cells = pa.table({"brands": ["a|b", "b|c|a", "a", None] * 10, "tags": ["x, y", "y|z", "x", None] * 10})
    inferred = infer_schema(cells, overrides=dict.fromkeys(("brands", "tags"), "multi_categorical"))
    brands, tags = (inferred.schema.feature(name) for name in ("brands", "tags"))
    assert isinstance(brands, MultiCategorical)
    assert isinstance(tags, MultiCategorical)
    assert (brands.separator, brands.values) == ("|", ("a", "b", "c"))
    assert "'|' between them" in notes_of(inferred)["brands"].reason
    assert (tags.separator, tags.values) == (",", ("x", "y", "y|z"))


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        (["17.02.2023 16:00", "1.3.2023", "12.12.2023"], "looks like dates: write 2016-03-05"),
        (["02/16/21", "03/01/21"], "looks like dates: write 2016-03-05"),
        (["166,9", "1.234,5"], "looks like numbers, and is read as categories: give --decimal ','"),
        (["€ 12.50", "€ 3", "€ 1,200.00"], "looks like numbers: write 1234.5"),
        (["12 %", "3%"], "looks like numbers: write 1234.5"),
        (["a1", "b2"], None),
        (["1-2", "3-4"], None),
        (["1.1.1", "1.1.2"], None),
        (["35-39", "40-44"], None),
    ],
)
def test_dates_and_numbers_in_another_spelling_are_named(values: list[str], remark: str | None) -> None:
    (note,) = infer_schema(pa.table({"x": values * 10})).notes
    assert ("looks like" in note.reason) == (remark is not None)
    assert (remark or "") in note.reason


PEOPLE, ROWS_EACH = 40, 30


@pytest.fixture
def purchases() -> pa.Table:
    """30 rows of each of 40 people, who have an e-mail address and a salary of their own, and share cities."""
    generator = np.random.default_rng(0)
    people = np.repeat(np.arange(PEOPLE), ROWS_EACH)
    salaries = np.round(generator.lognormal(10.8, 0.4, PEOPLE), 2)
    return pa.table(
        {
            "customer": [f"p{each}" for each in people],
            "email": [f"p{each}@example.org" for each in people],
            "city": [f"city {each % 3}" if each else "village" for each in people],
            "tags": [[f"t{each % 2}", f"own {each}", f"own {each}"] for each in people],
            "words": [f"w{each % 2};mine {each}" for each in people],
            "salary": salaries[people],
            "grade": pa.array(people % 7 * 1000 + people, pa.int64()),
            "born": [datetime.date(1940 + int(each), 3, 5) for each in people],
        }
    )


def test_values_and_edges_of_single_customers_are_not_in_the_schema(purchases: pa.Table) -> None:
    by_rows = infer_schema(purchases, exclude=["customer"]).schema.to_json()
    assert "p7@example.org" in by_rows and "own 7" in by_rows and "village" in by_rows  # rows alone protect nobody
    inferred = infer_schema(purchases, customers="customer")
    text = inferred.schema.to_json()
    for private in ("example.org", "own 7", "mine 7", "village", "p7"):
        assert private not in text, private
    assert notes_of(inferred)["email"].reason == "no value is that of 10 customers or more"
    assert notes_of(inferred)["city"].reason == (
        "3 values; 1 rarer than 10 customers counts as unknown; 97.5% of the rows keep theirs"
    )
    assert notes_of(inferred)["customer"].reason == "excluded: not context"
    assert inferred.schema.feature("tags").values == ("t0", "t1")
    for name in ("salary", "grade"):
        edges = inferred.schema.feature(name).edges
        values = purchases.column(name).to_numpy()
        assert not {*edges} & {*values.tolist()}
        assert all(len(f"{edge:g}".rstrip("0").replace(".", "")) <= 4 for edge in edges), edges
        ids = encode_table(inferred.schema, purchases).tensors[name].numpy()
        whose = purchases.column("customer").to_numpy(zero_copy_only=False)
        assert len(edges) >= 1
        assert min(len(set(whose[ids == each])) for each in set(ids.tolist())) >= 10


def test_customers_are_given_by_name_or_one_a_row(purchases: pa.Table) -> None:
    named = infer_schema(purchases, customers="customer").schema
    rest = purchases.drop_columns(["customer"])
    for given in (purchases["customer"], purchases["customer"].to_pylist(), purchases["customer"].to_numpy()):
        assert infer_schema(rest, customers=given).schema == named
    with pytest.raises(ConfigurationError, match="customers has 2 values for a table of 1200 rows"):
        infer_schema(rest, customers=["a", "b"])
    with pytest.raises(UnknownNameError, match="Did you mean 'customer'"):
        infer_schema(purchases, customers="custmer")


def test_rows_without_a_customer_are_one_customer() -> None:
    table = pa.table({"sex": ["f", "m"] * 100, "who": [None, "a"] * 100})
    assert infer_schema(table, customers="who").schema.names == ()


def test_the_customers_own_column_is_a_feature_where_it_is_asked_for(purchases: pa.Table) -> None:
    inferred = infer_schema(purchases, customers="customer", overrides={"customer": "categorical"})
    assert len(inferred.schema.feature("customer").values) == PEOPLE
    assert "the schema then holds the ids of customers" in notes_of(inferred)["customer"].reason
    with pytest.raises(SchemaError, match=r"'email' cannot be categorical.*no value is that of 10 customers"):
        infer_schema(purchases, customers="customer", overrides={"email": "categorical"})


def test_each_row_a_customer_is_as_no_customers(days: pa.Table) -> None:
    assert infer_schema(days, customers="customer").schema == infer_schema(days, exclude=["customer"]).schema


@pytest.mark.parametrize("kind", ["lognormal", "dense", "tiny", "negative", "huge"])
def test_no_edge_is_a_number_of_few_customers(kind: str) -> None:
    generator = np.random.default_rng(0)
    draw = {
        "lognormal": lambda size: generator.lognormal(10, 1, size),
        "dense": lambda size: generator.integers(30_000, 31_000, size).astype(float),
        "tiny": lambda size: generator.random(size) * 1e-9,
        "negative": lambda size: -generator.lognormal(3, 1, size),
        "huge": lambda size: generator.random(size) * 1e30,
    }[kind]
    for size in (25, 300, 5000):
        unique, counts = np.unique(draw(size), return_counts=True)
        customers = generator.integers(0, max(12, size // 5), size)
        edges = quantile_edges(unique, counts, num_bins=16, min_count=10, customers=customers)
        numbers = np.repeat(unique, counts)
        own = {number: len(set(customers[numbers == number])) for number in set(edges) & set(unique.tolist())}
        assert all(count >= 10 for count in own.values())
        assert all(left < right for left, right in itertools.pairwise(edges))
        bins = np.searchsorted(edges, numbers, side="right")
        assert min(len(set(customers[bins == each])) for each in set(bins.tolist())) >= min(10, len(set(customers)))
        assert size == 25 or len(edges) >= 3


JANUARY = [f"2019-01-{1 + row % 28:02d}" for row in range(399)]


@pytest.mark.parametrize(
    ("values", "faulty", "date_formats"),
    [
        ([*JANUARY[:5], "2019-02-29", *JANUARY[5:]], 5, ()),
        ([*JANUARY[:5], "2019-02-29 10:30", *JANUARY[5:]], 5, ()),
        ([*JANUARY, "2019-00-00"], 399, ()),
        (["unknown", *JANUARY, "2019/2/30"], 400, ()),
        ([f"{1 + row % 28}.01.2019" for row in range(300)] + ["30.02.2019"], 300, ()),
        ([f"{1 + row % 28}-Jan-2019" for row in range(300)] + ["30-Feb-2019"], 300, ("%d-%b-%Y",)),
    ],
    ids=["text", "with a time", "zeros", "beside a word", "day first", "format given"],
)
def test_a_day_that_no_month_has_is_named(values: list[str], faulty: int, date_formats: tuple[str, ...]) -> None:
    table = pa.table({"day": values})
    with pytest.raises(DataError, match=r"is not a date\. Correct the cell, or leave it empty") as found:
        infer_schema(table, date_formats=date_formats)
    assert (found.value.row, found.value.column) == (faulty, "day")
    assert repr(values[faulty]) in str(found.value)
    with pytest.raises(DataError, match=r"\(withheld\)") as found:
        infer_schema(table, date_formats=date_formats, sensitive=["day"])
    assert values[faulty] not in str(found.value)
    assert infer_schema(table, date_formats=date_formats, overrides={"day": "categorical"}).schema.names == ("day",)
    mended = [None if row == faulty else value for row, value in enumerate(values)]
    inferred = infer_schema(pa.table({"day": mended}), date_formats=date_formats)
    assert inferred.notes[0].kind == "date"


@pytest.mark.parametrize(
    "values", [[f"{1 + row % 12:04d}-{row % 90:02d}-77" for row in range(300)], ["1.2", "13.13", "5.30"] * 100]
)
def test_codes_of_the_shape_of_dates_stay_codes(values: list[str]) -> None:
    assert infer_schema(pa.table({"code": values})).notes[0].kind != "date"


def test_a_date_in_another_spelling_among_dates_is_warned_of() -> None:
    inferred = infer_schema(pa.table({"day": [*JANUARY, "5 March"]}))
    assert "looks like dates, and some cells are none" in inferred.notes[0].warning


@pytest.mark.parametrize(
    ("wanted", "constant"),
    [("month", "month"), ("year,month", "year, month")],
)
def test_an_override_of_a_constant_part_says_so(wanted: str, constant: str) -> None:
    with pytest.raises(
        SchemaError, match=f"column 'day' gives no feature as {wanted!r}: .*the same {constant}. Remove"
    ):
        infer_schema(pa.table({"day": JANUARY}), overrides={"day": wanted})
