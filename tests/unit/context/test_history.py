"""A history in any spelling becomes the same numbers; what is no history is refused with its row."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    History,
    Vocabulary,
    encode_records,
    encode_table,
    infer_schema,
)
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.kinds.history import history_items
from contextual_bert.errors import DataError, SchemaError

ITEMS = Vocabulary(["coat", "hat", "shoe"], reserved=["[PAD]", "[MASK]", "[UNK]"])
COAT, HAT, SHOE, UNKNOWN = 3, 4, 5, 2
CELLS: list[Any] = [[["hat"], ["coat", "hat"]], [], None, [["tent"], ["shoe"]]]
ENCODED = [
    [[COAT, 0, 1, -1], [HAT, 0, 2, -1], [HAT, 1, 0, -1]],
    [[0, 0, 0, 0]] * 3,
    [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    [[SHOE, 0, 1, -1], [UNKNOWN, 1, 1, -1], [0, 0, 0, 0]],
]


def feature(**settings: Any) -> History:
    return History(name="before", **settings).for_items(ITEMS)


def schema(**settings: Any) -> ContextSchema:
    return ContextSchema(features=(History(name="before", **settings),)).for_items(ITEMS)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(CELLS),
        pa.array([None if cell is None else json.dumps(cell) for cell in CELLS]),
        pa.array([None if cell is None else [{"items": each} for each in cell] for cell in CELLS]),
    ],
    ids=["lists", "JSON", "objects"],
)
def test_each_spelling_of_a_history_gives_the_same_numbers(column: pa.Array) -> None:
    found = feature().encode(column)
    assert found.values.tolist() == ENCODED
    assert found.unknown == {"tent": 1}


def test_a_record_and_a_row_of_a_table_give_the_same_numbers() -> None:
    of_records = encode_records(schema(), [{} if cell is None else {"before": cell} for cell in CELLS])
    of_table = encode_table(schema(), pa.table({"before": CELLS}))
    assert of_records.arrays["before"].tolist() == of_table.arrays["before"].tolist() == ENCODED


def test_items_alone_are_baskets_of_their_own() -> None:
    flat, nested = (
        feature().encode(pa.array([cell])).values.tolist() for cell in (["hat", "coat"], [["hat"], ["coat"]])
    )
    assert flat == nested == [[[COAT, 0, 1, -1], [HAT, 1, 1, -1]]]


def test_days_stand_beside_each_basket() -> None:
    cell = [{"items": ["hat", "coat"], "days_ago": 30.4}, {"items": ["hat"], "days_ago": None}]
    assert feature().encode(pa.array([cell])).values.tolist() == [[[HAT, 0, 2, -1], [COAT, 1, 1, 30], [HAT, 1, 0, 30]]]


def test_empty_baskets_and_nulls_are_none_and_repeats_count_once() -> None:
    found = feature().encode(pa.array([[["hat", "hat", None], [], ["coat"]]])).values
    assert found.tolist() == [[[COAT, 0, 1, -1], [HAT, 1, 1, -1]]]


def test_the_newest_are_read_of_a_long_history() -> None:
    long = pa.array([[["shoe"], ["hat"], ["coat"]]])
    assert feature(max_baskets=2).encode(long).values[0, :, 0].tolist() == [COAT, HAT]
    assert feature(max_interactions=1).encode(long).values[0, :, 0].tolist() == [COAT]


@pytest.mark.parametrize(
    ("cell", "wrong"),
    [
        ([{"items": ["hat"], "days_ago": -1}], "lies in the future"),
        ([{"item": "hat"}], "no basket"),
        ("hat", "no history"),
        ({"items": ["hat"]}, "not a history"),
        ([[["hat"]]], "not a single value"),
    ],
)
def test_what_is_no_history_is_refused_with_its_row(cell: Any, wrong: str) -> None:
    with pytest.raises(DataError, match=wrong) as caught:
        encode_records(schema(), [{}, {"before": cell}])
    assert caught.value.row == 1


@pytest.mark.parametrize("word", ["null", "NULL", " None ", "NaN"])
def test_text_that_says_null_is_missing_in_a_table_as_in_a_query(word: str) -> None:
    of_table = encode_table(schema(), pa.table({"before": ['[["hat"]]', word]}))
    of_records = encode_records(schema(), [{"before": '[["hat"]]'}, {"before": word}])
    assert of_table.arrays["before"].tolist() == of_records.arrays["before"].tolist()
    assert of_table.arrays["before"][1, 0].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text", ["[[\"hat's\"], ['coat']]", r"[['hat\'s'], ['coat']]", "[['hat\\'s', None], (\"coat\",)]"]
)
def test_quotes_of_both_kinds_are_those_of_python(text: str) -> None:
    read = History(name="before").read_value(text)
    assert read is not None
    assert [[name for name in basket["items"] if name] for basket in read] == [["hat's"], ["coat"]]


@pytest.mark.parametrize(
    "cell",
    [[["hat"], None, ["coat"]], ["hat", None, "coat"], [{"items": ["hat"]}, {"items": None}], [["hat"], None]],
    ids=["between baskets", "between items alone", "of an object", "at the end"],
)
def test_null_in_place_of_a_basket_is_refused_wherever_it_stands(cell: list[Any]) -> None:
    told: list[str] = []
    for encode in (
        lambda: encode_table(schema(), pa.table({"before": [cell[:1], cell]}), file="sets.parquet"),
        lambda: encode_table(schema(), pa.table({"before": [json.dumps(each) for each in (cell[:1], cell)]})),
        lambda: encode_records(schema(), [{"before": cell[:1]}, {"before": cell}]),
        lambda: encode_records(schema(), [{}, {"before": json.dumps(cell)}]),
    ):
        with pytest.raises(DataError) as caught:
            encode()
        assert (caught.value.row, caught.value.column) == (1, "before")
        told.append(caught.value.problem)
    assert {*told} == {"basket 2 of the history is null"}


def test_the_json_schema_has_null_where_a_query_may_give_it() -> None:
    history, missing = feature().json_schema()["anyOf"]
    _, items, basket = history["items"]["anyOf"]
    assert missing == {"type": "null"} not in history["items"]["anyOf"]
    assert {"type": "null"} in items["items"]["anyOf"] and basket["properties"]["items"] == items
    allowed: list[Any] = [None, [], ["hat"], [["hat", None], []], [{"items": ["hat", None], "days_ago": None}]]
    for cell in allowed:
        assert len(encode_records(schema(), [{"before": cell}]).arrays["before"]) == 1


def test_a_basket_of_the_future_is_refused_in_a_table_too() -> None:
    column = pa.array([[], [{"items": ["hat"], "days_ago": 1.0}, {"items": ["hat"], "days_ago": -2.0}]])
    with pytest.raises(DataError, match="future") as caught:
        feature().encode(column, file="sets.parquet")
    assert caught.value.row == 1


def test_fields_that_mean_nothing_are_named() -> None:
    with pytest.raises(SchemaError, match="items, price"):
        feature().encode(pa.array([[{"items": ["hat"], "price": 3}]]))


def test_a_history_needs_the_items() -> None:
    with pytest.raises(SchemaError, match="no vocabulary"):
        History(name="before").encode(pa.array([["hat"]]))


def table() -> pa.Table:
    return pa.table(
        {
            "before": [[["hat"], ["coat"]]] * 20,
            "bought": [["hat", "coat"], ["shoe"]] * 10,
            "brands": [["acme", "hooli"], ["acme"]] * 10,
        }
    )


def test_histories_are_found_beside_lists_of_other_values() -> None:
    found = infer_features(table(), SchemaSettings(min_count=1, items=pa.array(["coat", "hat", "shoe"])))
    assert {each.name: each.kind for each in found.schema.features} == {
        "before": "history",
        "bought": "history",
        "brands": "multi_categorical",
    }


def test_text_of_json_is_found_as_the_lists_that_it_says_are() -> None:
    texts = [json.dumps([["hat"], ["coat", str(number)]]) for number in range(39)]
    columns = {"before": pa.array([*texts, ""]), "band": pa.array(["[20, 30]", "[30, 40]"] * 20)}
    found = infer_features(pa.table(columns), SchemaSettings(min_count=1, items=pa.array(["coat", "hat"])))
    assert {each.name: each.kind for each in found.schema.features} == {"before": "history", "band": "categorical"}
    assert "with days" not in next(note.reason for note in found.notes if note.column == "before")


def texts_with(cell: str) -> pa.Table:
    return pa.table({"before": [*[json.dumps([["hat"], ["coat", str(number)]]) for number in range(38)], "[]", cell]})


def test_text_that_says_null_is_counted_as_missing() -> None:
    found = infer_features(texts_with("null"), SchemaSettings(min_count=1, items=pa.array(["coat", "hat"])))
    (note,) = found.notes
    assert (note.kind, note.missing) == ("history", 1) and "1 cell says null, which is missing" in note.reason


@pytest.mark.parametrize("cell", ["[['hat'", '[["hat"], null]', "tent"])
def test_one_cell_that_is_no_history_is_named_where_the_others_are(cell: str) -> None:
    with pytest.raises(DataError) as caught:
        infer_features(texts_with(cell), SchemaSettings(min_count=1, items=pa.array(["coat", "hat"])))
    assert (caught.value.row, caught.value.column) == (39, "before")


def test_lists_of_lists_that_hold_no_items_are_no_fault() -> None:
    columns = {"outline": [[["1", "2"], None]] * 3, "notes": ['[["x"], null]', '[["y"]]', '[["z"]]']}
    found = infer_features(pa.table(columns), SchemaSettings(min_count=1, items=pa.array(["coat", "hat"])))
    assert [note.kind for note in found.notes] == [None, None]


def test_a_blank_cell_of_a_column_of_categories_is_missing_too() -> None:
    column = pa.array(['[["hat"]]', None, " "]).dictionary_encode()
    assert (
        feature().encode(column).values[:, 0, 0].tolist()
        == feature().encode(column.cast(pa.string())).values[:, 0, 0].tolist()
    )


def test_days_that_are_no_number_are_named_with_their_row() -> None:
    column = pa.array([[], [{"items": ["hat"], "days_ago": "2"}, {"items": ["hat"], "days_ago": "soon"}]])
    with pytest.raises(DataError, match="soon") as caught:
        feature().encode(column, file="sets.parquet")
    assert caught.value.row == 1


def test_a_blank_item_is_none_in_a_table_as_in_a_query() -> None:
    lists = feature().encode(pa.array([[["hat", " "], [""]]])).values.tolist()
    assert lists == feature().encode(pa.array(['[["hat", " "], [""]]'])).values.tolist()


def test_without_sets_of_items_there_is_no_history() -> None:
    found = infer_schema(table(), min_count=1)
    assert {each.name: each.kind for each in found.schema.features} == {
        "bought": "multi_categorical",
        "brands": "multi_categorical",
    }


def test_a_schema_with_a_history_is_the_same_when_read_again() -> None:
    own = schema(max_baskets=7)
    assert ContextSchema.from_json(own.to_json()) == own
    assert own.history_columns == ("before",)
    assert own.without_histories().features == ()


def test_items_of_histories_are_counted_by_rows() -> None:
    rows = pa.table({"before": [[["hat"], ["hat", "tent"]], [["hat"]], None]})
    assert history_items(rows, ["before"], least=1) == ["hat", "tent"]
    assert history_items(rows, ["before"], least=2) == ["hat"]


def test_reports_name_histories_by_their_length() -> None:
    values = feature().encode(pa.array(CELLS)).values
    assert feature().names(values).tolist() == ["1 to 5 items", "none", "(missing)", "1 to 5 items"]
    assert isinstance(values, np.ndarray)


def test_a_history_is_told_in_words() -> None:
    values = feature().encode(
        pa.array([[{"items": ["hat"], "days_ago": 9.0}, {"items": ["coat", "hat"]}, {"items": ["shoe"]}]])
    )
    own = feature()
    assert own.said_of(values.values[0], "hat") == "hat in 2 of 3 baskets, the last 1 basket before the newest"
    assert own.said_of(values.values[0], "shoe") == "shoe in 1 of 3 baskets, the last one"
    assert own.said_of(values.values[0][:1], "coat") == "coat is not among 1 item before"
    assert own.said_of(own.encode(pa.array([[]], pa.list_(pa.string()))).values[0], "coat") == "nothing before"
    assert own.said_of(own.encode(pa.array([[{"items": ["hat"], "days_ago": 9.0}]])).values[0], "hat").endswith(
        "9 days ago"
    )


def test_a_schema_that_was_read_is_bound_and_parted_anew() -> None:
    read = ContextSchema(features=(Categorical(name="sex", values=("f",)), History(name="before")))
    assert [feature.name for feature in read.read_features] == ["sex", "before"]  # which the schema remembers
    assert [feature.name for feature in read.without_histories().read_features] == ["sex"]
    table = pa.table({"sex": ["f"], "before": [[["coat"]]]})
    assert encode_table(read.for_items(ITEMS), table).arrays["before"].tolist() == [[[COAT, 0, 1, -1]]]
