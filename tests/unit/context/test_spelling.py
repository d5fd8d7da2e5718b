"""The one spelling of a value: in columns and one by one, in vocabularies."""

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    MultiCategorical,
    Vocabulary,
    alike_warning,
    canonical,
    canonical_array,
    encode_records,
    encode_table,
    infer_schema,
    spelt,
)
from contextual_bert.context.spelling import alike, check_rule
from contextual_bert.errors import ConfigurationError, SchemaError

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
SAME = ["work", " work", "work ", "\u00a0work", "work\u200b", "\ufeffwork", "\twork\n", "\u200ework", "\u3000work"]


@pytest.mark.parametrize("text", SAME, ids=ascii)
def test_blanks_and_invisible_marks_at_the_ends_make_no_difference(text: str) -> None:
    assert canonical(text) == "work"
    assert canonical_array(pa.array([text, None])).to_pylist() == ["work", None]
    assert canonical_array(pa.array([text]).dictionary_encode()).to_pylist() == ["work"]
    assert canonical_array(pa.array([text], pa.large_string())).to_pylist() == ["work"]


def test_a_composed_and_a_decomposed_letter_are_one() -> None:
    assert canonical(DECOMPOSED) == COMPOSED
    assert canonical_array(pa.array([COMPOSED, DECOMPOSED])).unique().to_pylist() == [COMPOSED]


@pytest.mark.parametrize(
    "text", ["Work", "new york", "new\u00a0york", "0\u200d", "\U0001f3f4\U000e0067\U000e007f", "a-"]
)
def test_what_can_be_seen_is_left_as_it_is(text: str) -> None:
    assert canonical(text) == text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), max_size=4))
def test_a_column_is_spelt_as_its_cells(texts: list[str]) -> None:
    assert canonical_array(pa.array(texts, pa.string())).to_pylist() == [spelt(text) for text in texts]
    assert [spelt(spelt(text)) for text in texts] == [spelt(text) for text in texts]
    assert all(unicodedata.is_normalized("NFC", spelt(text)) for text in texts)


def test_wide_letters_look_alike() -> None:
    assert alike(["A", "\uff21", "b", "\ufb01n", "fin"]) == [["A", "\uff21"], ["\ufb01n", "fin"]]


def test_training_and_asking_spell_alike() -> None:
    table = pa.table({"occasion": [*SAME[:4], "party"] * 10, "likes": [[COMPOSED, " tea"], [DECOMPOSED]] * 25})
    schema = infer_schema(table).schema
    occasion, likes = schema.features
    assert isinstance(occasion, Categorical)
    assert isinstance(likes, MultiCategorical)
    assert (occasion.values, likes.values) == (("party", "work"), (COMPOSED, "tea"))
    encoded = encode_table(schema, pa.table({"occasion": ["work", "work \u00a0"], "likes": [[DECOMPOSED], ["tea "]]}))
    asked = encode_records(schema, [{"occasion": "work\ufeff", "likes": [COMPOSED]}, {"occasion": "\twork"}])
    assert encoded.tensors["occasion"].tolist() == asked.tensors["occasion"].tolist() == [3, 3]
    assert encoded.tensors["likes"].tolist() == [[4], [5]]
    assert encoded.unknown == asked.unknown == {}


def test_text_of_blanks_alone_is_missing() -> None:
    schema = ContextSchema(features=(Categorical(name="occasion", values=("work",)),))
    blank = ["\u200b", "\u00a0 ", ""]
    assert encode_table(schema, pa.table({"occasion": blank})).tensors["occasion"].tolist() == [0, 0, 0]
    assert encode_records(schema, [{"occasion": each} for each in blank]).tensors["occasion"].tolist() == [0, 0, 0]


def test_values_that_are_one_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"the value ' work' occurs twice as 'work', in another spelling"):
        Vocabulary([" work", "work", "play"], reserved=["[PAD]"])
    with pytest.raises(ConfigurationError, match="occurs twice"):
        Vocabulary([DECOMPOSED, COMPOSED])
    with pytest.raises(SchemaError, match=r"feature 'when'.*the value 'work' occurs twice in a vocabulary"):
        ContextSchema.from_dict({"features": [{"kind": "categorical", "name": "when", "values": [" work", "work"]}]})
    found = Vocabulary([" work", DECOMPOSED], reserved=["[PAD]"])
    assert (found.id_of("work"), found.id_of(COMPOSED), found.id_of("rest")) == (1, 2, None)
    assert found.lookup(pa.array(["work ", COMPOSED, "rest", None])).tolist() == [1, 2, -1, -2]


def test_an_unknown_rule_is_refused() -> None:
    check_rule("nfc-trimmed")
    with pytest.raises(ConfigurationError, match="'nfkc-folded', which this version does not have"):
        check_rule("nfkc-folded")


def test_values_that_differ_in_capitals_are_warned_of_and_kept_apart() -> None:
    assert alike(["Party", "party", "PARTY", "work", "new york", "new\u00a0york", "ne\u200bw york"]) == [
        ["Party", "party", "PARTY"],
        ["new york", "new\u00a0york", "ne\u200bw york"],
    ]
    found = alike_warning(
        [f"{letter}{number}" for number in range(5) for letter in "aA"], what="the items", each="an item"
    )
    assert found[0].count(" and ") == 5
    assert "2 more such" in found[0]
    assert alike_warning(["a", "b"], what="the items", each="an item") == []


def test_a_column_of_many_texts_is_spelt_quickly() -> None:
    names = np.array([f"caf\u00e9 {number}" for number in range(20_000)])
    column = pa.array(np.tile(names, 50))
    assert canonical_array(column).to_pylist()[:2] == names[:2].tolist()
