from pathlib import Path

import pyarrow as pa
import pytest

from contextual_bert.context import Vocabulary
from contextual_bert.errors import DataError, SchemaError, UnknownNameError
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_schema import infer_item_schema, item_feature_lines
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.models import RESERVED_ITEMS

ITEMS = ["coat", "hat", "bag", "belt"]


def shop(tmp_path: Path | None = None, **columns: object) -> Catalogue:
    table = {
        "id": ["belt", "kilt", "hat", "coat", "bag"],
        "colour": ["red", "red", "blue", "red", "blue"],
        "tags": [["a"], ["a", "b"], ["b"], ["a", "b"], ["a"]],
        "in_stock": [True, False, True, True, True],
        "url": ["u1", "u2", "u3", "u4", "u5"],
        **columns,
    }
    return Catalogue(pa.table(table), Vocabulary(ITEMS, reserved=RESERVED_ITEMS))


def test_columns_become_features_but_names_stock_and_what_differs_everywhere() -> None:
    found = infer_item_schema(shop())
    assert found.schema.names == ("colour", "tags")
    lines = "\n".join(item_feature_lines(found, num_new=1, num_lacking=0))
    assert "'url' is no feature" in lines
    assert "in_stock" not in lines
    assert "by their features alone: 1 of the catalogue" in lines


def test_features_are_those_of_the_rows_in_the_order_of_the_ids() -> None:
    catalogue = shop()
    schema = infer_item_schema(catalogue).schema
    vocabulary = Vocabulary([*ITEMS, "kilt", "scarf"], reserved=RESERVED_ITEMS)
    items = encode_catalogue(catalogue, schema, vocabulary)
    colour = schema.feature("colour")
    values = items.value_ids[:, 0].tolist()
    assert values[0] == values[3] == values[4] != values[1] == values[2]
    assert values[5] == 0  # the catalogue lacks it: missing
    assert len({*values}) == 3 <= colour.layout.num_embeddings
    tags = [
        sorted(zip(*pair, strict=True))
        for pair in zip(items.value_ids[:, 1:].tolist(), items.value_weights[:, 1:].tolist(), strict=True)
    ]
    assert tags[0] == tags[4]  # coat and kilt have both, each by half
    assert items.value_weights[:, 1:].sum(dim=1).tolist() == [1.0] * 6


def test_a_value_that_only_new_items_have_is_unknown() -> None:
    catalogue = shop(colour=["red", "green", "blue", "red", "blue"])
    schema = infer_item_schema(catalogue).schema
    vocabulary = Vocabulary([*ITEMS, "kilt"], reserved=RESERVED_ITEMS)
    items = encode_catalogue(catalogue, schema, vocabulary)
    assert int(items.value_ids[4, 0]) == schema.feature("colour").layout.unknown_id


def test_kinds_and_columns_can_be_chosen() -> None:
    catalogue = shop(price=[1.0, 2.0, 3.0, 1.0, 2.0], size=[36, 38, 36, 38, 36])
    assert infer_item_schema(catalogue, exclude=["tags"]).schema.names == ("colour", "price", "size")
    chosen = infer_item_schema(catalogue, kinds={"size": "categorical", "price": "ignore"}).schema
    assert chosen.feature("size").kind == "categorical"
    assert "price" not in chosen.names
    with pytest.raises(UnknownNameError, match="colr"):
        infer_item_schema(catalogue, exclude=["colr"])


def test_a_catalogue_of_names_alone_is_refused() -> None:
    names = Catalogue(pa.table({"id": ITEMS}), Vocabulary(ITEMS, reserved=RESERVED_ITEMS))
    with pytest.raises(SchemaError, match="no column says something of an item"):
        infer_item_schema(names)


def test_a_vector_of_another_length_is_told_with_its_row(tmp_path) -> None:
    catalogue = shop(picture=[[1.0, 2.0]] * 5)
    schema = infer_item_schema(catalogue).schema
    other = shop(picture=[[1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(DataError) as caught:
        encode_catalogue(other, schema, other.vocabulary)
    assert caught.value.place.row == 1
    assert caught.value.place.column == "picture"


def test_a_catalogue_that_lacks_a_column_of_the_schema_is_refused() -> None:
    schema = infer_item_schema(shop()).schema
    table = pa.table({"id": ITEMS, "colour": ["red", "blue", "red", "blue"]})
    with pytest.raises(SchemaError, match="tags"):
        encode_catalogue(Catalogue(table, Vocabulary(ITEMS, reserved=RESERVED_ITEMS)), schema, shop().vocabulary)
