"""The context in words, and the plain BERT that reads them before its text."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
import torch
from transformers import BertConfig, BertModel

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    MultiCategorical,
    Numerical,
    Vector,
    infer_schema,
    record_sentences,
    table_sentences,
)
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.models import ContextualBertConfig
from contextual_bert.models.context_as_text import ContextAsText
from contextual_bert.models.context_words import FIRST_WORD

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 40,
}
CLS, SEP = 2, 3


def said(table: pa.Table, schema: ContextSchema) -> dict[str, list[str | None]]:
    return {name: sentences.to_pylist() for name, sentences in table_sentences(schema, table).items()}


def test_every_kind_of_value_is_said() -> None:
    table = pa.table(
        {
            "age_group": ["35-39", None, " "],
            "height": [1.5, 2.0, float("nan")],
            "year": pa.array(["1790", "NA", "2020"]),
            "brands": [["acme", "hooli"], [], ["acme", None]],
            "tags": ["a;b", None, "c"],
        }
    )
    schema = ContextSchema(
        features=(
            Categorical(name="age_group", values=("18-24",)),
            Numerical(name="height", edges=(1.6,)),
            Numerical(name="year", edges=(1900,)),
            MultiCategorical(name="brands", values=("acme",)),
            MultiCategorical(name="tags", values=("a",), separator=";"),
        )
    )
    assert said(table, schema) == {
        "age_group": ["age group: 35-39.", None, None],
        "height": ["height: 1.5.", "height: 2.", None],
        "year": ["year: 1790.", None, "year: 2020."],
        "brands": ["brands: acme, hooli.", None, "brands: acme."],
        "tags": ["tags: a, b.", None, "tags: c."],
    }
    records = [
        {"age_group": "35-39", "height": 1.5, "year": 1790, "brands": ["acme", "hooli"], "tags": "a;b"},
        {},
        {"age_group": " ", "height": None, "year": "2020", "brands": ["acme"], "tags": ["c"]},
    ]
    assert {name: each.to_pylist() for name, each in record_sentences(schema, records).items()} == {
        **said(table, schema),
        "height": ["height: 1.5.", None, None],
    }


def test_a_date_that_several_features_read_is_said_once() -> None:
    dates = pa.array(["2016-03-05", "2017-04-06", "2016-03-05"]).cast(pa.date32())
    table = pa.table({"date": dates})
    schema = infer_schema(table, overrides={"date": "date"}).schema
    assert len(schema.features) > 1
    assert said(table, schema) == {"date": ["date: 2016-03-05.", "date: 2017-04-06.", "date: 2016-03-05."]}
    stamped = pa.table({"date": dates.cast(pa.timestamp("s"))})
    assert said(stamped, schema) == said(table, schema)
    given = [{"date": "2016-03-05"}, {"date": datetime.datetime(2016, 3, 5, 12)}, {}, {"date": " "}]
    days = ["date: 2016-03-05."] * 2 + [None] * 2
    assert record_sentences(schema, given)["date"].to_pylist() == days
    with pytest.raises(DataError, match=r"row 2.*date_month.*is a part of a date.*Give date"):
        record_sentences(schema, [{}, {"date_month": 3}])


def test_a_value_is_said_alike_wherever_it_comes_from() -> None:
    numbers = ContextSchema(features=(Numerical(name="age", edges=(30.0,)),))
    cells = ["22.0", "NA", "35.50", "+7", " 22 "]
    expected = ["age: 22.", None, "age: 35.5.", "age: 7.", "age: 22."]
    assert table_sentences(numbers, pa.table({"age": cells}))["age"].to_pylist() == expected
    records = [{"age": cell} if cell != "NA" else {} for cell in cells]
    assert record_sentences(numbers, records)["age"].to_pylist() == expected
    lists = ContextSchema(features=(MultiCategorical(name="c", values=("a",), separator=","),))
    assert table_sentences(lists, pa.table({"c": ["a,,b", ",", "a"]}))["c"].to_pylist() == ["c: a, b.", None, "c: a."]
    both = ContextSchema(
        features=(
            Categorical(name="age_group", source="age", values=("22",)),
            Numerical(name="age_years", source="age", edges=(30.0,)),
        )
    )
    given = [{"age_years": 22}, {"age_group": "22"}, {"age": 22}, {}]
    assert record_sentences(both, given)["age"].to_pylist() == [*["age: 22."] * 3, None]


def test_a_vector_has_no_words() -> None:
    schema = ContextSchema(features=(Vector(name="picture", size=2),))
    with pytest.raises(ConfigurationError, match=r"'picture' is a vector.*Leave the column out"):
        table_sentences(schema, pa.table({"picture": [[0.5, 1.0]]}))


@pytest.fixture(scope="module")
def bert() -> BertModel:
    torch.manual_seed(0)
    return BertModel(BertConfig(**SIZES), add_pooling_layer=False).eval()


@pytest.fixture(scope="module")
def model(bert: BertModel) -> ContextAsText:
    config = ContextualBertConfig(
        **SIZES,
        has_context_as_text=True,
        has_position_embeddings=True,
        type_vocab_size=2,
        pad_token_id=0,
        eos_token_id=SEP,
        layer_norm_eps=1e-12,
    )
    model = ContextAsText(config)
    model.load_state_dict(bert.state_dict(), strict=False)
    return model.eval()


def words(*rows: list[int]) -> torch.Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([[number + FIRST_WORD for number in row] + [0] * (width - len(row)) for row in rows])


TEXTS = torch.tensor([[CLS, 10, 11, 12, SEP], [CLS, 13, SEP, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
CONTEXT = {"sex": words([20], [21, 22]), "age": words([], [23])}
# What a user would give BERT by hand.
BY_HAND = ([CLS, 20, SEP, 10, 11, 12, SEP], [CLS, 21, 22, 23, SEP, 13, SEP])


@torch.no_grad()
def test_it_reads_what_one_would_write_by_hand(bert: BertModel, model: ContextAsText) -> None:
    """Row by row and without padding, transformers' BERT gives the same states of [CLS] and the text."""
    hidden = model(TEXTS, MASK, CONTEXT).last_hidden_state
    for row, ids in enumerate(BY_HAND):
        expected = bert(torch.tensor([ids])).last_hidden_state[0]
        num_text = int(MASK[row].sum()) - 1
        torch.testing.assert_close(hidden[row, 0], expected[0])
        torch.testing.assert_close(hidden[row, 1 : num_text + 1], expected[-num_text:])


@torch.no_grad()
def test_some_rows_are_those_of_all_positions(model: ContextAsText) -> None:
    hidden = model(TEXTS, MASK, CONTEXT).last_hidden_state
    rows = torch.tensor([0, 3, 5, 6])
    chosen = model(TEXTS, MASK, CONTEXT, rows=rows).last_hidden_state
    torch.testing.assert_close(chosen, hidden.flatten(0, 1)[rows])


@torch.no_grad()
def test_second_texts_keep_their_segment(bert: BertModel, model: ContextAsText) -> None:
    segments = torch.tensor([[0, 0, 0, 1, 1]])
    found = model(TEXTS[:1], MASK[:1], {"sex": words([20])}, token_type_ids=segments).last_hidden_state
    by_hand = torch.tensor([[0, 0, 0, 0, 0, 1, 1]])
    expected = bert(torch.tensor(BY_HAND[:1]), token_type_ids=by_hand).last_hidden_state[0]
    torch.testing.assert_close(found[0, 1:], expected[3:])


@torch.no_grad()
def test_a_feature_that_is_left_out_has_no_words(model: ContextAsText) -> None:
    """1 in the first place is what dropping a field leaves of a list."""
    without = {"sex": CONTEXT["sex"], "age": torch.tensor([[0], [1]])}
    found = model(TEXTS, MASK, without).last_hidden_state
    expected = model(TEXTS, MASK, {"sex": CONTEXT["sex"]}).last_hidden_state
    torch.testing.assert_close(found[:, :3], expected[:, :3])
    nothing = model(TEXTS, MASK, {"sex": torch.tensor([[0], [1]])}).last_hidden_state
    torch.testing.assert_close(model(TEXTS, MASK).last_hidden_state[:, :3], nothing[:, :3])


@pytest.mark.parametrize(
    "inputs",
    [
        {"input_ids": TEXTS, "context": {"sex": torch.tensor([2, 3])}},
        {"input_ids": TEXTS, "context": {"sex": torch.tensor([[0.1], [0.2]])}},
        {"input_ids": TEXTS, "context": {"sex": CONTEXT["sex"][:1]}},
        {"input_ids": TEXTS, "context": {"sex": torch.full((2, 600), 30)}},
        {"input_ids": TEXTS, "context": CONTEXT, "position_ids": torch.arange(5)[None]},
        {"inputs_embeds": torch.zeros(2, 5, 16), "context": CONTEXT},
    ],
)
def test_what_it_cannot_read_is_refused(model: ContextAsText, inputs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        model(**inputs)
