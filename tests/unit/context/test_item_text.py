import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import ContextSchema, infer_schema
from contextual_bert.context.kinds import ItemText
from contextual_bert.errors import SchemaError

VECTORS = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0]], np.float32)


def title(vectors: np.ndarray = VECTORS) -> ItemText:
    return ItemText.of_vectors(("title", None), vectors, encoder="minilm", digest="0" * 64)


def test_vectors_of_learned_items_are_centred_and_of_the_length_of_a_category() -> None:
    found = title().encode_values(pa.array([*VECTORS.tolist(), None]))
    assert found.values[-1].tolist() == [0.0, 0.0, 1.0]  # missing is a state, and no mean
    given = found.values[:-1, :-1]
    assert given.mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-6)
    assert (given**2).sum(axis=1).mean() == pytest.approx(1.0)


def test_it_travels_as_json_with_the_digest_of_its_encoder() -> None:
    schema = ContextSchema(features=(title(),))
    assert ContextSchema.from_json(schema.to_json()) == schema
    other = title().model_copy(update={"digest": "1" * 64})
    assert ContextSchema(features=(other,)).digest != schema.digest


def test_texts_that_say_nothing_are_refused() -> None:
    with pytest.raises(SchemaError, match="the same text"):
        title(VECTORS[:1])
    with pytest.raises(SchemaError, match="have none"):
        title(VECTORS[:0])
    with pytest.raises(SchemaError, match="center has 1 numbers"):
        ItemText(name="title", size=2, encoder="minilm", digest="0" * 64, center=(0.0,), scale=1.0)


def test_a_context_reads_no_texts() -> None:
    with pytest.raises(SchemaError, match="only texts of items"):
        infer_schema(
            pa.table({"bio": [f"I live in house {number}" for number in range(50)]}), overrides={"bio": "text"}
        )
    with pytest.raises(SchemaError, match="holds texts"):
        title().encode_values(pa.array(["a coat"]))
