"""Lists that a tool printed into cells: what is read, what is refused, and that tables and records agree."""

import pyarrow as pa
import pytest

from contextual_bert.context import (
    Categorical,
    MultiCategorical,
    Vector,
    encode_records,
    encode_table,
    infer_schema,
)
from contextual_bert.context.printed_lists import as_lists, read_bare_list, read_list
from contextual_bert.data import SetPolicy, group_rows, read_sets
from contextual_bert.data.checked_columns import missed_separators
from contextual_bert.errors import DataError
from contextual_bert.inference.attributes import attribute_of


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("['a', 'b']", ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("['a' 'b']", ["a", "b"]),
        ("['a'\n 'b']", ["a", "b"]),
        ("('a', 'b')", ["a", "b"]),
        ("('a',)", ["a"]),
        ("{'a'}", ["a"]),
        ("frozenset({'a'})", ["a"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("[np.str_('a'), np.float64(0.5)]", ["a", 0.5]),
        ("['it\\'s', \"b, c\"]", ["it's", "b, c"]),
        ('["caf\\u00e9"]', ["caf\u00e9"]),
        ("['a', None, nan]", ["a", None, None]),
        ("[1 2]", [1, 2]),
        ("[1, 2.5]", [1, 2.5]),
        ("[1. 2.5 -1e-3]", [1.0, 2.5, -0.001]),
        ("['010101', '1.10']", ["010101", "1.10"]),
        ("[010101 7]", ["010101", 7]),
        ("[1398717875470837207123]", ["1398717875470837207123"]),
        ("[]", []),
        ("set()", []),
    ],
)
def test_what_json_python_and_numpy_print_is_read(text: str, elements: list) -> None:
    assert read_list(text) == elements


@pytest.mark.parametrize(
    "text",
    ["[a, b]", "[MASK]", "[MASK],[MASK]", "[0.1 0.2 ... 0.9]", "['a' 'b', 'c']", "['a''b']", "[['a']]", "{'a': 1}",
     "['a',,'b']", "[,]", "['a", "a", "(20, 30]", "[" * 100_000, "['a'" * 5_000, "__import__('os')", "[1; 2]"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_no_list_or_was_cut_is_none(text: str) -> None:
    assert read_list(text) is None


def test_a_column_is_one_of_lists_or_the_cell_that_is_none_is_named() -> None:
    assert as_lists(pa.array(["['a']", "", None, "[]"])).to_pylist() == [["a"], None, None, []]
    assert as_lists(pa.array(["[1, 2]", "[3]"])).type == pa.list_(pa.int64())
    assert as_lists(pa.array(["(20, 30)", "(30, 40)"])) is None  # bands of a number
    assert as_lists(pa.array(["[redacted]", "a"])) is None
    with pytest.raises(DataError, match=r"t.csv, row 3, column 'x': '\[0.1 ... 0.9\]' is no list"):
        as_lists(pa.array(["[0.1 0.2]", "[0.3 0.4]", "[0.1 ... 0.9]"]), file="t.csv", name="x")


@pytest.mark.parametrize("cells", [["['a', 'b']", "['c']"], ['["a","b"]', '["c"]'], ["['a' 'b']", "['c']"]], ids=str)
def test_items_are_read_from_printed_lists(cells: list[str]) -> None:
    sets = read_sets(pa.table({"items": cells}), items="items", policy=SetPolicy())
    assert (sets.values.to_pylist(), sets.sizes.tolist()) == (["a", "b", "c"], [2, 1])
    long = pa.table({"order": [1, 1], "items": cells})
    assert group_rows(long, ["order"], items="items").table["items"].to_pylist() == [["a", "b", "c"]]


def test_context_is_read_from_printed_lists_at_training_and_at_asking() -> None:
    table = pa.table(
        {
            "brands": ["['a', 'b']", "['a']", "[]", None] * 10,
            "photo": ["[0.5 1. ]", "[0.25 2.5]", None, "[1. 0.]"] * 10,
            "band": ["[20, 30]", "[30, 40]"] * 20,
        }
    )
    schema = infer_schema(table).schema
    brands, photo, band = schema.features
    assert isinstance(brands, MultiCategorical)
    assert isinstance(photo, Vector)
    assert isinstance(band, Categorical)
    assert (brands.values, brands.separator, photo.size, len(band.values)) == (("a", "b"), None, 2, 2)
    first = table.slice(0, 4)
    rows = encode_table(schema, first).tensors
    lists = pa.table({**{n: first[n] for n in first.column_names}, "brands": [["a", "b"], ["a"], [], None]})
    asked = encode_records(schema, first.to_pylist()).tensors
    for name, values in rows.items():
        assert values.tolist() == asked[name].tolist()
    assert encode_table(schema, lists).tensors["brands"].tolist() == rows["brands"].tolist()
    with pytest.raises(DataError, match="is a string, not a vector"):
        encode_records(schema, [{"photo": "[0.1 ... 0.9]"}])


def test_an_override_keeps_a_text_that_looks_like_a_list() -> None:
    found = infer_schema(pa.table({"x": ["['a']", "['b']"] * 10}), overrides={"x": "categorical"}).schema.features[0]
    assert found.values == ("['a']", "['b']")  # pyright: ignore[reportAttributeAccessIssue]


WITHOUT_QUOTES = [
    ["[a, b]", "[c]"],
    ["{a,b}", "{c}"],
    ["(a, b)", "(c,)"],
    ["[ 'a', b]", "[c]"],
    ["[a;b]", "[c]"],
    ['"a","b"', '"c"'],
    ["'a'; 'b'", "'c'"],
]


@pytest.mark.parametrize("cells", WITHOUT_QUOTES, ids=str)
def test_lists_without_quotes_or_brackets_are_read_wherever_lists_are(cells: list[str]) -> None:
    for separator in (",", ";"):
        sets = read_sets(pa.table({"items": cells}), items="items", policy=SetPolicy(separator=separator))
        assert (sets.values.to_pylist(), sets.sizes.tolist()) == (["a", "b", "c"], [2, 1])
    attribute = attribute_of(pa.chunked_array([cells]), "tags")
    assert [attribute.has_one_of([value]).tolist() for value in "ac"] == [[True, False], [False, True]]
    table = pa.table({"tags": cells * 10})
    schema = infer_schema(table).schema
    feature = schema.features[0]
    assert isinstance(feature, MultiCategorical)
    assert (feature.values, feature.separator) == (("a", "b", "c"), None)
    learned = encode_table(schema, table).tensors["tags"].tolist()
    assert learned[:2] == [[4, 5], [6, 0]]
    for cell, ids in zip(cells, learned, strict=False):  # each alone, where nothing else says that it is a list
        filled = [each for each in ids if each]
        assert encode_records(schema, [{"tags": cell}]).tensors["tags"].tolist() == [filled]
        assert encode_table(schema, pa.table({"tags": [cell]})).tensors["tags"].tolist() == [filled]


def test_a_printed_list_is_read_alike_in_a_table_and_a_record_of_a_feature_with_a_separator() -> None:
    schema = infer_schema(pa.table({"tags": ["a,b", "c"] * 10}), overrides={"tags": "multi_categorical"}).schema
    for cell in ("[a, b]", "{a,b}", '"a","b"', "['a', 'b']"):
        asked = encode_records(schema, [{"tags": cell}]).tensors["tags"].tolist()
        assert asked == [[4, 5]] == encode_table(schema, pa.table({"tags": [cell]})).tensors["tags"].tolist()
    with pytest.raises(DataError, match=r"row 2, column 'tags': '\[a, b\]' is a printed list, and most cells are none"):
        encode_table(schema, pa.table({"tags": ["a", "[a, b]", "b,c"]}))


@pytest.mark.parametrize(
    "cell", ["{'a': 1}", '[{"id": "a"}, {"id": "b"}]', "[[a], [b]]", '{"a": {"b": 1}}', "{a=1, b=2}"]
)
def test_objects_are_no_lists(cell: str) -> None:
    with pytest.raises(DataError, match=r"row 2, column 'items': .* is an object or has such"):
        read_sets(pa.table({"items": [None, cell, cell]}), items="items", policy=SetPolicy())
    found = infer_schema(pa.table({"tags": [cell] * 30}))
    assert found.schema.features == ()
    assert "its cells are objects" in found.notes[0].reason
    schema = infer_schema(pa.table({"tags": ["a,b", "c"] * 10}), overrides={"tags": "multi_categorical"}).schema
    with pytest.raises(DataError, match="is an object or has such"):
        encode_table(schema, pa.table({"tags": [cell]}))


def test_words_in_brackets_or_quotes_stay_words_and_that_is_said_of_items() -> None:
    for cells in (["[redacted]", "[open]"] * 10, ['"Heroes"', '"Low"'] * 10, ["(new) hat", "(old) hat"] * 10):
        feature = infer_schema(pa.table({"x": cells})).schema.features[0]
        assert isinstance(feature, Categorical)
        assert set(feature.values) == {*cells}
    assert missed_separators(pa.chunked_array([["[a]", "[b]"]]), separator=",") == [
        "warning: 2 of 2 cells are in brackets, read as a part of an item's name: a printed list?"
    ]
    assert (
        "1 of 2 cells has a piece in quotes"
        in missed_separators(pa.chunked_array([['a,"b c"', "c"]]), separator=",")[0]
    )
    with pytest.raises(DataError, match=r"row 3, column 'items': '\[a, b\]' is a printed list"):
        read_sets(pa.table({"items": ["a", "b", "[a, b]"]}), items="items", policy=SetPolicy())


def test_bands_of_numbers_are_lists_of_items_all_the_same() -> None:
    sets = read_sets(pa.table({"items": ["[1, 2]", "[3, 9]"]}), items="items", policy=SetPolicy())
    assert sets.values.to_pylist() == ["1", "2", "3", "9"]


@pytest.mark.parametrize("text", ["[a, ..., z]", "[a,,b]", "[,]", "[a,]", "{a: 1}", "[a, b", "[a] [b]", "['a'b, c]"])
def test_what_was_cut_or_is_no_list_without_quotes_is_none(text: str) -> None:
    assert read_bare_list(text) is None
