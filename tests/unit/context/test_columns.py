"""Codes that look like numbers: 10.10 is another version than 10.1, at training and at asking."""

import json

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import ContextSchema, Vocabulary, encode_records, encode_table
from contextual_bert.context.columns import spelt_numbers
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.kinds import CATEGORICAL_UNKNOWN, MULTI_UNKNOWN
from contextual_bert.context.rare_values import bucket_of

VERSIONS = ["10.1"] * 160 + ["9.2"] * 160 + ["9.3"] * 68 + ["10.10"] * 5 + ["9.20"] * 5 + ["1.0"] * 2
RARE = ("10.10", "9.20", "1.0")


def _schema(column: pa.Array, **settings: int) -> ContextSchema:
    overrides = {} if pa.types.is_list(column.type) else {"version": "categorical"}
    return infer_features(pa.table({"version": column}), SchemaSettings(overrides=overrides, **settings)).schema  # type: ignore[arg-type]


@pytest.mark.parametrize("hash_buckets", [None, 0, 1000])
@pytest.mark.parametrize("is_list", [False, True])
def test_a_rare_code_never_becomes_another(hash_buckets: int | None, is_list: bool) -> None:
    column = pa.array([[each] for each in VERSIONS] if is_list else VERSIONS)
    schema = _schema(column, hash_buckets=hash_buckets)  # type: ignore[arg-type]
    (feature,) = schema.features
    encoded = encode_table(schema, pa.table({"version": column}))
    ids = dict(zip(VERSIONS, encoded.tensors["version"].flatten().tolist(), strict=True))
    listed = {ids[each] for each in ("10.1", "9.2", "9.3")}
    assert len(listed) == 3
    assert listed.isdisjoint(ids[each] for each in RARE)
    if hash_buckets == 1000:
        assert len({ids[each] for each in RARE}) == 3
        assert encoded.shared == {"version": {"10.10": 5, "9.20": 5, "1.0": 2}}
    else:
        unknown = MULTI_UNKNOWN if is_list else CATEGORICAL_UNKNOWN
        assert {ids[each] for each in RARE} == {unknown}
        assert encoded.unknown == {"version": {"10.10": 5, "9.20": 5, "1.0": 2}}
    for name, index in ids.items():
        record = {"version": [name] if is_list else name}
        assert encode_records(schema, [record]).tensors["version"].flatten().tolist() == [index], name
    assert feature.spelt_numbers == "variously"  # type: ignore[union-attr]
    assert ContextSchema.from_json(schema.to_json()) == schema


def test_a_rare_code_is_not_that_of_a_longer_spelling() -> None:
    column = pa.array(["10.10"] * 90 + ["9.20"] * 90 + ["10.1"] * 3)
    schema = _schema(column)
    assert encode_table(schema, pa.table({"version": column})).tensors["version"].tolist()[-3:] == [1, 1, 1]
    for asked in ("10.1", 10.1, np.float32(10.1)):
        assert encode_records(schema, [{"version": asked}]).tensors["version"].tolist() == [CATEGORICAL_UNKNOWN]
    assert encode_table(schema, pa.table({"version": [10.1]})).tensors["version"].tolist() == [CATEGORICAL_UNKNOWN]


def test_a_number_finds_its_value_where_each_has_one_spelling() -> None:
    schema = _schema(pa.array(["10.50", "9.99", "7"] * 30))
    assert schema.features[0].spelt_numbers == "once"  # type: ignore[union-attr]
    expected = [schema.features[0].vocabulary.id_of(each) for each in ("10.50", "10.50", "7", "7")]  # type: ignore[union-attr]
    asked = [{"version": each} for each in (10.5, np.float32(10.5), 7, 7.0)]
    assert encode_records(schema, asked).tensors["version"].tolist() == expected
    assert encode_table(schema, pa.table({"version": [10.5, 7.0]})).tensors["version"].tolist() == expected[1:3]
    texts = ["10.5", "7.0", "9.990", " 7 "]
    assert encode_records(schema, [{"version": each} for each in texts]).tensors["version"].tolist() == [
        *[CATEGORICAL_UNKNOWN] * 3,
        expected[2],
    ]
    assert encode_table(schema, pa.table({"version": texts})).tensors["version"].tolist()[:3] == [1, 1, 1]


def test_other_columns_and_older_schemas_mean_what_they_meant() -> None:
    assert spelt_numbers(pa.array(["red", None, "007", "2016-03-05", "TRUE"])) is None
    for column in (pa.array(["TRUE", "FALSE"] * 20), pa.array([1.5, 2.0] * 20)):
        assert "spelt_numbers" not in _schema(column).to_json()
    old = {"features": [{"name": "version", "kind": "categorical", "values": ["1.1", "2"]}]}
    schema = ContextSchema.from_json(json.dumps(old))
    assert schema.to_dict() == ContextSchema.from_dict(schema.to_dict()).to_dict()
    assert encode_records(schema, [{"version": "1.10"}]).tensors["version"].tolist() == [2]
    assert Vocabulary(["1.1", "2"]).find(pa.array(["1.10", "2.0", "2"]), is_code=True).tolist() == [-1, -1, 1]
    assert bucket_of("1.10", 1 << 20) == bucket_of("1.1", 1 << 20) == bucket_of("1.1", 1 << 20, is_code=True)
    assert bucket_of("1.10", 1 << 20, is_code=True) != bucket_of("1.1", 1 << 20)
