"""Numbers of 16 and 32 bits: the same bin and the same category, in whatever way they come at asking."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import encode_records, encode_table, infer_schema
from contextual_bert.context.infer import SchemaSettings, infer_features

WAYS: dict[str, Callable[[np.floating], object]] = {
    "numpy": lambda value: value,
    "widened": float,  # as pandas' to_dict and pyarrow's to_pylist have it
    "widened text": lambda value: repr(float(value)),
    "as a column is spelt": lambda value: str(np.float32(value)),
}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("num_values", [12, 3000])
def test_a_number_has_one_bin(kind: type[np.floating], num_values: int) -> None:
    values = np.sort(np.random.default_rng(0).choice(40_000, num_values, replace=False) / 70).astype(kind)
    table = pa.table({"pay": np.tile(values, 30)})
    schema = infer_schema(table).schema
    learned = encode_table(schema, table).tensors["pay"].tolist()[: len(values)]
    assert len(schema.features[0].edges) > 10  # pyright: ignore[reportAttributeAccessIssue]
    for name, way in WAYS.items():
        if name == "as a column is spelt" and kind == np.float64:
            continue
        assert encode_records(schema, [{"pay": way(each)} for each in values]).tensors["pay"].tolist() == learned, name
    wide = pa.table({"pay": values.astype(np.float64)})
    assert encode_table(schema, wide).tensors["pay"].tolist() == learned


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_number_that_is_a_category_has_one_name(kind: type[np.floating]) -> None:
    values = (np.arange(1, 40) ** 2 / 7).astype(kind)
    table = pa.table({"size": np.tile(values, 10)})
    schema = infer_schema(table, overrides={"size": "categorical"}).schema
    learned = encode_table(schema, table).tensors["size"].tolist()[: len(values)]
    assert len(set(learned)) == len(values)
    assert min(learned) > 1
    for name, way in WAYS.items():
        if name == "as a column is spelt" and kind == np.float64:
            continue
        assert encode_records(schema, [{"size": way(each)} for each in values]).tensors["size"].tolist() == learned
    wide = pa.table({"size": values.astype(np.float64)})
    assert encode_table(schema, wide).tensors["size"].tolist() == learned


def test_a_number_near_a_category_is_another_one() -> None:
    schema = infer_schema(pa.table({"size": ["0.1", "0.5"] * 20}), overrides={"size": "categorical"}).schema
    asked = encode_records(schema, [{"size": each} for each in (0.1, 0.1001, 0.10000000149011612, 0.100000001)])
    assert [each > 1 for each in asked.tensors["size"].tolist()] == [True, False, True, False]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_number_has_one_bucket(kind: type[np.floating]) -> None:
    values = (np.arange(1, 150) / 10).astype(kind)
    table = pa.table({"size": np.tile(values, 3)})
    settings = SchemaSettings(overrides={"size": "categorical"}, max_categories=1, hash_buckets=1000)
    schema = infer_features(table, settings).schema
    learned = encode_table(schema, table).tensors["size"].tolist()[: len(values)]
    assert len(set(learned)) > 100
    for name, way in WAYS.items():
        if name == "as a column is spelt" and kind == np.float64:
            continue
        asked = [{"size": way(each)} for each in values]
        assert encode_records(schema, asked).tensors["size"].tolist() == learned, name
    wide = pa.table({"size": values.astype(np.float64)})
    assert encode_table(schema, wide).tensors["size"].tolist() == learned
