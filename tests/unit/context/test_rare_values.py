import hashlib
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import (
    Categorical,
    ContextEncoder,
    ContextSchema,
    MultiCategorical,
    encode_records,
    encode_table,
    infer_schema,
)
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.kinds import CATEGORICAL_UNKNOWN, MISSING
from contextual_bert.context.rare_values import bucket_of, buckets_of, default_buckets
from contextual_bert.errors import ConfigurationError

FREQUENT, RARE = 5, 400


@pytest.fixture(scope="module")
def reviews() -> pa.Table:
    """Five users of thirty rows each and 400 of three."""
    users = [f"u{each}" for each in range(FREQUENT) for _ in range(30)]
    users += [f"rare {each}" for each in range(RARE) for _ in range(3)]
    return pa.table({"user": users, "tags": [[each, "all"] for each in users]})


def test_rare_users_share_vectors_and_the_schema_stores_none_of_them(reviews: pa.Table) -> None:
    inferred = infer_schema(reviews)
    feature = inferred.schema.feature("user")
    assert feature.values == tuple(f"u{each}" for each in range(FREQUENT))
    assert feature.num_buckets == 3 * RARE // 10
    assert "rare 7" not in inferred.schema.to_json()
    encoded = encode_table(inferred.schema, reviews)
    ids = encoded.tensors["user"].numpy()
    assert encoded.unknown == {}
    assert encoded.shared["user"]["rare 7"] == 3
    assert len(set(ids[FREQUENT * 30 :].tolist())) > 100
    assert ids.max() < feature.layout.num_embeddings
    module = ContextEncoder(inferred.schema.layout)
    assert module({name: tensor[:4] for name, tensor in encoded.tensors.items()}).vector.shape[0] == 4


def test_the_note_says_what_share_of_rows_keeps_its_value(reviews: pa.Table) -> None:
    note = infer_schema(reviews.select(["user"])).notes[0]
    own = 150 / 1350
    assert note.reason.startswith("405 values, 5 of their own, 400 rarer ones in ")
    assert note.reason.endswith(f"; {own:.1%} of the rows keep their value, {1 - own:.1%} a bucket")


def test_a_record_gets_the_id_that_its_row_in_a_table_has(reviews: pa.Table) -> None:
    schema = infer_schema(reviews).schema
    in_table = encode_table(schema, reviews).tensors
    for row in (0, 200, 1300):
        record = {name: reviews[name][row].as_py() for name in ("user", "tags")}
        alone = encode_records(schema, [record]).tensors
        assert alone["user"].tolist() == in_table["user"][[row]].tolist()
        assert sorted(alone["tags"][0].tolist()) == sorted(in_table["tags"][row].tolist())


def test_missing_stays_missing_and_old_schemas_have_no_buckets(reviews: pa.Table) -> None:
    schema = infer_schema(reviews.select(["user"])).schema
    assert encode_records(schema, [{}, {"user": " "}]).tensors["user"].tolist() == [MISSING, MISSING]
    old = ContextSchema.from_json('{"features": [{"name": "user", "kind": "categorical", "values": ["u0"]}]}')
    assert "buckets" not in old.to_json()
    assert encode_records(old, [{"user": "u0"}, {"user": "rare 7"}]).tensors["user"].tolist() == [
        2,
        CATEGORICAL_UNKNOWN,
    ]
    assert ContextSchema.from_json(schema.to_json()) == schema


def test_the_hash_is_the_same_in_every_process() -> None:
    expected = int.from_bytes(hashlib.blake2b("José".encode(), digest_size=8).digest(), "little") % 1000
    assert bucket_of("José", 1000) == expected
    code = "from contextual_bert.context.rare_values import bucket_of; print(bucket_of('José', 1000))"
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(found.stdout) == expected
    assert buckets_of(pa.array(["José", "a", "José"]), 1000).tolist() == [expected, bucket_of("a", 1000), expected]


def test_numbers_and_truth_values_share_a_bucket_whatever_held_them() -> None:
    schema = ContextSchema(features=(Categorical(name="shop", values=(1,), num_buckets=1 << 16),))
    for same in ([7, 7.0, "7"], [True, "true", "TRUE"]):
        assert len({*encode_records(schema, [{"shop": each} for each in same]).tensors["shop"].tolist()}) == 1


def test_a_bucket_without_a_vector_is_unknown() -> None:
    taken = bucket_of("hooli", 1000)
    feature = Categorical(name="brand", values=(), num_buckets=1000, buckets=(taken,))
    encoded = encode_records(ContextSchema(features=(feature,)), [{"brand": "hooli"}, {"brand": "acme"}])
    assert encoded.tensors["brand"].tolist() == [2, CATEGORICAL_UNKNOWN]
    assert encoded.unknown == {"brand": {"acme": 1}}
    assert encoded.shared == {"brand": {"hooli": 1}}
    assert feature.layout.num_embeddings == 3


def test_where_customers_are_named_each_bucket_has_ten_of_them() -> None:
    generator = np.random.default_rng(0)
    customers = np.repeat(np.arange(1500), 2)
    products = np.where(generator.random(3000) < 0.3, 0, generator.integers(1, 700, 3000))
    table = pa.table({"customer": customers, "product": [f"p{each}" for each in products]})
    schema = infer_schema(table, customers="customer").schema
    feature = schema.feature("product")
    assert feature.num_shared >= 8
    ids = encode_table(schema, table).tensors["product"].numpy()
    for index in range(CATEGORICAL_UNKNOWN + 1, feature.layout.num_embeddings):
        assert len(set(customers[ids == index])) >= 10


def test_a_column_whose_values_are_one_customers_each_is_still_left_out() -> None:
    people = np.repeat(np.arange(200), 4)
    table = pa.table({"customer": people, "email": [f"p{each}@example.org" for each in people]})
    inferred = infer_schema(table, customers="customer")
    assert inferred.schema.names == ()
    assert "no value is that of 10 customers" in inferred.notes[1].reason


def test_the_settings_say_how_many_buckets_and_values(reviews: pa.Table) -> None:
    def feature(**settings: int) -> Categorical:
        return infer_features(reviews.select(["user"]), SchemaSettings(**settings)).schema.feature("user")  # type: ignore[arg-type, return-value]

    assert feature(hash_buckets=0).num_buckets is None
    assert feature(hash_buckets=7).num_shared == 7
    assert feature(max_categories=2).values == ("u0", "u1")
    assert feature(min_count=1).num_buckets is None
    with pytest.raises(ConfigurationError, match="hash_buckets=-1 is not allowed"):
        feature(hash_buckets=-1)


def test_sensitive_values_are_counted_and_not_repeated(reviews: pa.Table) -> None:
    schema = infer_schema(reviews.select(["user"]), sensitive=["user"]).schema
    encoded = encode_table(schema, reviews)
    assert encoded.shared == {"user": {"(withheld)": 3 * RARE}}
    assert "rare" not in json.dumps(schema.to_dict())


def test_few_rare_values_stay_unknown() -> None:
    table = pa.table({"city": ["a"] * 50 + ["b"] * 3 + ["c"] * 2})
    feature = infer_schema(table).schema.feature("city")
    assert feature.num_buckets is None
    assert default_buckets(79, 10) == 0


def test_elements_of_lists_share_vectors_too() -> None:
    feature = MultiCategorical(name="tags", values=("all",), num_buckets=50)
    encoded = encode_records(ContextSchema(features=(feature,)), [{"tags": ["all", "x", "y"]}, {"tags": []}])
    assert torch.equal(encoded.tensors["tags"][1], torch.tensor([3, 0, 0]))
    assert (encoded.tensors["tags"][0] >= 4).all()


@pytest.mark.parametrize("hash_buckets", [1, 50, 1 << 20])
def test_a_number_of_buckets_does_not_undo_the_count_of_customers(hash_buckets: int) -> None:
    people = np.repeat(np.arange(40), 10)
    table = pa.table({"customer": people, "mail": [f"u{each}@example.org" for each in people]})
    settings = SchemaSettings(customers="customer", hash_buckets=hash_buckets)
    features = infer_features(table, settings).schema.features
    if hash_buckets > 1:
        assert features == ()
    else:  # one bucket of forty people names nobody
        assert features[0].num_shared == 1  # type: ignore[union-attr]
    feature = infer_features(
        table.select(["mail"]), SchemaSettings(hash_buckets=1 << 20, min_count=11)
    ).schema.features[0]
    assert feature.num_shared == 40  # type: ignore[union-attr]


def test_every_bucket_has_its_customers_however_many_are_asked_for() -> None:
    generator = np.random.default_rng(0)
    customers, products = generator.integers(0, 100, 3000), generator.integers(0, 700, 3000)
    table = pa.table({"customer": customers, "product": [f"p{each}" for each in products]})
    for hash_buckets in (20, 300, 700):
        schema = infer_features(table, SchemaSettings(customers="customer", hash_buckets=hash_buckets)).schema
        if not schema.features:
            continue
        feature, ids = schema.features[0], encode_table(schema, table).tensors["product"].numpy()
        for index in range(CATEGORICAL_UNKNOWN + 1, feature.layout.num_embeddings):
            assert len(set(customers[ids == index])) >= 10
    assert infer_features(table, SchemaSettings(customers="customer", hash_buckets=20)).schema.features
