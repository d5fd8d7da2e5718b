from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import Vocabulary
from contextual_bert.errors import ConfigurationError, SchemaError
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_schema import infer_item_schema, item_feature_lines
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.inference.item_texts import recorded_texts, text_features, words_of_free_text
from contextual_bert.inference.text_vectors import TextVectors
from contextual_bert.models import RESERVED_ITEMS

ITEMS = [f"item-{number}" for number in range(24)]
COLOURS = ["dark blue", "light blue"] * 12
TITLES = [f"word{number % 6} word{number // 6} word{number % 5}" for number in range(24)]


def shop(**columns: object) -> Catalogue:
    table = {"id": [*ITEMS, "new"], "colour": [*COLOURS, "dark blue"], "title": [*TITLES, "word1 word2"], **columns}
    return Catalogue(pa.table(table), Vocabulary(ITEMS, reserved=RESERVED_ITEMS))


def test_free_text_is_left_out_with_the_option_that_reads_it() -> None:
    found = infer_item_schema(shop())
    assert found.schema.names == ("colour",)
    (line,) = [line for line in item_feature_lines(found, num_new=0, num_lacking=0) if "'title'" in line]
    assert "free text, of 3 words" in line
    assert line.spelled(lambda name, value: f"--{name} {value}" if value is not ... else f"--{name}").endswith(
        "--item_kinds {'title': 'text'} with --item_text_encoder reads it by a sentence encoder"
    )


def test_who_says_what_a_column_is_hears_nothing_of_texts() -> None:
    twice = shop(title=[f"word{number // 2} word1" for number in range(25)])
    found = infer_item_schema(twice, kinds={"title": "categorical"})
    assert found.schema.feature("title").kind == "categorical"
    assert infer_item_schema(shop(), kinds={"title": "ignore"}).schema.names == ("colour",)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["dark blue", "light blue"] * 30, 0.0),  # few values
        ([f"B{number}" for number in range(60)], 0.0),  # names of one word
        ([f"brand {number % 22}" for number in range(60)], 0.0),  # many values, each of several items
        ([f"a fine coat {number % 22}" for number in range(60)], 4.0),
        ([f"Film {number} (1995)" for number in range(60)], 3.0),
        ([*(f"coat {number}" for number in range(30)), None, " "], 2.0),
        ([[f"coat {number}"] for number in range(60)], 0.0),
        (list(range(60)), 0.0),
    ],
)
def test_free_text_is_known_by_its_words(values: list, words: float) -> None:
    assert words_of_free_text(pa.array(values)) == words


def test_texts_become_vectors_in_the_order_of_the_ids(checkpoint: Path) -> None:
    texts, catalogue = TextVectors(checkpoint), shop(title=[*TITLES[:-1], None, "word1 word2"])
    found = infer_item_schema(catalogue, kinds={"title": "text"}, texts=texts)
    (feature,) = text_features(found.schema)
    assert (feature.encoder, feature.digest, feature.size) == (str(checkpoint), texts.digest, 32)
    assert [note.reason for note in found.notes if note.column == "title"] == [
        f"24 texts as vectors of 32 numbers, by {checkpoint}"
    ]
    vocabulary = Vocabulary([*reversed(ITEMS), "new", "unlisted"], reserved=RESERVED_ITEMS)
    items = encode_catalogue(catalogue, found.schema, vocabulary, texts)
    vectors = items.vectors["title"].numpy()
    wanted = (texts.of(["word1 word2"])[0] - np.array(feature.center)) / feature.scale
    assert vectors[-2] == pytest.approx(wanted, abs=1e-5)
    assert not vectors[[0, -1]].any()  # blank, and not in the catalogue
    learned = vectors[1:-2]
    assert learned.mean(axis=0) == pytest.approx(np.zeros(32), abs=1e-5)
    assert (learned**2).sum(axis=1).mean() == pytest.approx(1.0, abs=1e-4)
    assert encode_catalogue(catalogue, found.schema, vocabulary).vectors["title"].numpy() == pytest.approx(vectors)


def test_what_is_no_text_is_refused(checkpoint: Path) -> None:
    with pytest.raises(SchemaError, match="a sentence encoder reads text"):
        infer_item_schema(shop(title=[["a", "b"]] * 25), kinds={"title": "text"}, texts=TextVectors(checkpoint))
    with pytest.raises(ConfigurationError, match="item_text_encoder"):
        infer_item_schema(shop(), kinds={"title": "text"})
    with pytest.raises(ConfigurationError, match="no feature of the items is a text"):
        recorded_texts(infer_item_schema(shop()).schema, item_text_encoder=str(checkpoint))
