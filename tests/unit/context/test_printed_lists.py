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
from contextual_bert.context.printed_lists import as_lists, read_list
from contextual_bert.data import SetPolicy, group_rows, read_sets
from contextual_bert.errors import DataError


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
    with pytest.raises(DataError, match="is a str, not a vector"):
        encode_records(schema, [{"photo": "[0.1 ... 0.9]"}])


def test_an_override_keeps_a_text_that_looks_like_a_list() -> None:
    found = infer_schema(pa.table({"x": ["['a']", "['b']"] * 10}), overrides={"x": "categorical"}).schema.features[0]
    assert found.values == ("['a']", "['b']")  # pyright: ignore[reportAttributeAccessIssue]
