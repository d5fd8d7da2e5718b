"""Explanations of labels against what the pipeline itself answers to the questions that they are made of."""

import json
import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
import torch
from rich.console import Console

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical
from contextual_bert.errors import ConfigurationError, QueryError, UnknownNameError
from contextual_bert.inference import TextExplanation, TextPipeline, explain_text
from contextual_bert.inference.explain.text_question import TextQuestion
from contextual_bert.inference.explain.text_words import TextWord, read_words
from contextual_bert.inference.texts.text_layout import lay_out_texts
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing.miniature import drawn_anew, miniature_tokenizer

SCHEMA = ContextSchema(
    features=(
        Categorical(name="guest", values=("student", "family")),
        Numerical(name="age", edges=(30, 60)),
        MultiCategorical(name="tastes", values=("vegan", "spicy")),
    )
)
CONTEXT: dict[str, Any] = {"guest": "student", "age": 34, "tastes": ["vegan"]}
QUERY: dict[str, Any] = {"text": "word1 word2, word9", "context": CONTEXT}


def pipeline_for(
    *,
    model: Any = ContextualBertForSequenceClassification,
    schema: ContextSchema = SCHEMA,
    has_words: bool = False,
    **fields: Any,
) -> TextPipeline:
    sizes: dict[str, Any] = {
        "conditioning": "global_state_update",
        "vocab_size": 23,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "has_position_embeddings": True,
        "type_vocab_size": 2,
        "max_position_embeddings": 12,
        "id2label": {0: "low", 1: "middle", 2: "high"},
        "initializer_range": 0.5,
        "context_dropout": 0.1,
        "field_dropout": 0.2,
    }
    torch.manual_seed(0)
    extractor = ContextFeatureExtractor(schema.to_dict())
    processor = ContextualBertProcessor(extractor, miniature_tokenizer(), has_context_as_text=has_words)
    made: Any = drawn_anew(model(ContextualBertConfig.from_schema(schema, **{**sizes, **fields})))
    return TextPipeline(made, processor)


KINDS: dict[str, dict[str, Any]] = {
    "label": {},
    "grades": {"is_ordinal": True},
    "labels": {"problem_type": "multi_label_classification"},
    "state": {"conditioning": "new_position"},
}


@pytest.fixture(scope="module")
def pipelines() -> dict[str, TextPipeline]:
    return {kind: pipeline_for(**fields) for kind, fields in KINDS.items()}


@pytest.fixture(scope="module")
def pipeline(pipelines: dict[str, TextPipeline]) -> TextPipeline:
    return pipelines["label"]


def log_odds(pipeline: TextPipeline, query: dict[str, Any], label: str) -> float:
    answer: Any = pipeline(query)
    probability = answer["probabilities"][label]
    return math.log(probability / (1 - probability))


def by_definition(worth: Callable[[frozenset[str]], float], names: list[str]) -> dict[str, float]:
    """The mean over all orders of what each field adds."""
    orders = list(permutations(names))
    known = {each: worth(each) for each in {frozenset(order[:size]) for order in orders for size in range(4)}}
    return {
        name: sum(
            known[frozenset(order[: order.index(name) + 1])] - known[frozenset(order[: order.index(name)])]
            for order in orders
        )
        / len(orders)
        for name in names
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("label", "guidance"), [(None, 1.0), ("high", 1.0), ("middle", 2.5)])
def test_the_fields_contribute_what_the_definition_says(
    pipelines: dict[str, TextPipeline], kind: str, label: str | None, guidance: float
) -> None:
    pipeline, query = pipelines[kind], {**QUERY, "guidance": guidance}
    found = explain_text(pipeline, query, label=label)
    answer: Any = pipeline(query)
    shares = answer["probabilities"]
    assert found.best_label == max(shares, key=lambda name: shares[name])
    assert found.label == (label or found.best_label)

    def worth(names: frozenset[str]) -> float:
        return log_odds(pipeline, {**query, "context": {name: CONTEXT[name] for name in names}}, found.label)

    expected = by_definition(worth, list(CONTEXT))
    assert {each.field: each.log_odds for each in found.fields} == pytest.approx(expected, abs=1e-4)
    assert found.probability == pytest.approx(shares[found.label], abs=1e-5)
    assert found.full_log_odds == pytest.approx(worth(frozenset(CONTEXT)), abs=1e-4)
    assert found.base_log_odds == pytest.approx(worth(frozenset()), abs=1e-4)
    gain = found.full_log_odds - found.base_log_odds
    assert sum(each.log_odds for each in found.fields) == pytest.approx(gain, abs=1e-12)
    assert found.is_exact and found.num_subsets == 8
    assert max(abs(value) for value in expected.values()) > 1e-3


def test_a_word_counts_by_what_is_missing_when_it_is_hidden(pipeline: TextPipeline) -> None:
    found = explain_text(pipeline, QUERY)
    assert [(each.word, each.start, each.end) for each in found.words] == [
        ("word1", 0, 5),
        ("word2", 6, 11),
        (",", 11, 12),
        ("word9", 13, 18),
    ]
    assert found.hidden_as == "[MASK]"
    for each in found.words:
        hidden = f"{QUERY['text'][: each.start]}[MASK]{QUERY['text'][each.end :]}"
        without = log_odds(pipeline, {**QUERY, "text": hidden}, found.label)
        assert each.log_odds == pytest.approx(found.full_log_odds - without, abs=1e-4)
    assert max(abs(each.log_odds) for each in found.words) > 0.01


def test_words_of_a_pair_and_words_that_are_not_read(pipeline: TextPipeline) -> None:
    found = explain_text(pipeline, {**QUERY, "pair": "word4 word5"})
    assert [(each.key, each.word) for each in found.words][-2:] == [("pair", "word4"), ("pair", "word5")]
    hidden = log_odds(pipeline, {**QUERY, "pair": "word4 [MASK]"}, found.label)
    assert found.words[-1].log_odds == pytest.approx(found.full_log_odds - hidden, abs=1e-4)
    long = explain_text(pipeline, {"text": "word3 " * 30, "context": CONTEXT})
    assert len(long.words) == 10  # 12 positions, [CLS] and [SEP]
    assert long.notes[0].startswith("The text is longer than the model reads")
    assert "The 12 largest" not in long.to_markdown()


def test_a_word_of_several_tokens_is_hidden_whole() -> None:
    tokenizer = miniature_tokenizer()
    text = "word1 \u00a0 word77, word2"
    layout = lay_out_texts(
        pa.table({"text": [text]}), tokenizer, text="text", pair=None, limit=12, truncation="head_tail"
    )
    found = read_words({"text": text}, layout, tokenizer)
    assert [text[each.start : each.end] for each in found.words] == ["word1", "word77", ",", "word2"]
    short = lay_out_texts(
        pa.table({"text": [text]}), tokenizer, text="text", pair=None, limit=4, truncation="head_tail"
    )
    kept = read_words({"text": text}, short, tokenizer)
    assert kept.words[0] == TextWord("text", 0, 5) and kept.words[-1].end == len(text)
    assert kept.word_at.tolist() == [-1, 0, 1, -1]


def test_others_get_what_the_pipeline_gives_them(pipeline: TextPipeline) -> None:
    found = explain_text(pipeline, QUERY, label="high")
    raw: dict[str, dict[str, Any]] = {
        "guest": {"family": "family"},
        "age": {"below 30": 10, "60 and above": 70},  # 34 is what was given
    }
    assert [(each.field, each.value) for each in found.counterfactuals] == [
        (field, value) for field, values in raw.items() for value in values
    ]
    for each in found.counterfactuals:
        context = {**CONTEXT, each.field: raw[each.field][each.value]}
        answer: Any = pipeline({**QUERY, "context": context})
        assert each.label == answer["label"]
        assert each.probability == pytest.approx(answer["probabilities"][each.label], abs=1e-5)
        assert each.explained_probability == pytest.approx(answer["probabilities"]["high"], abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_batches_change_nothing_but_the_last_digits(pipeline: TextPipeline, batch_size: int) -> None:
    found, again = explain_text(pipeline, QUERY), explain_text(pipeline, QUERY, batch_size=batch_size)
    for left, right in zip((*found.fields, *found.words), (*again.fields, *again.words), strict=True):
        assert left.log_odds == pytest.approx(right.log_odds, abs=1e-5)
    assert [each.label for each in again.counterfactuals] == [each.label for each in found.counterfactuals]


def test_sampled_contributions_are_near_the_exact_ones(pipeline: TextPipeline) -> None:
    exact = {each.field: each.log_odds for each in explain_text(pipeline, QUERY).fields}
    sampled = explain_text(pipeline, QUERY, max_exact_fields=2, num_pairs=200, seed=1)
    assert not sampled.is_exact and "±" in sampled.to_markdown()
    for each in sampled.fields:
        assert each.log_odds == pytest.approx(exact[each.field], abs=4 * each.standard_error + 1e-5)


def test_notes_say_what_is_not_known_and_what_is_not_given(pipeline: TextPipeline) -> None:
    context = {"guest": "nobody", "age": 34}
    found = explain_text(pipeline, {**QUERY, "context": context})
    assert {each.field: each.value for each in found.fields} == {"guest": "(unknown)", "age": "30 to below 60"}
    assert "Unknown values of guest, treated as unknown: nobody." in found.notes
    assert "Not given, so without a contribution: tastes." in found.notes
    nothing = explain_text(pipeline, {"text": "strange"})
    assert nothing.fields == () and nothing.full_log_odds == nothing.base_log_odds
    assert nothing.notes[0].startswith("The tokenizer knows no word of the text")
    blank = explain_text(pipeline, {"text": " ", "context": CONTEXT})
    assert blank.words == () and blank.hidden_as is None and len(blank.fields) == 3


def test_a_field_that_the_report_could_not_tell_from_nothing_is_marked() -> None:
    pipeline = pipeline_for()
    pipeline.verdicts = FieldVerdicts("validation", {"age": (0.02, 0.001), "guest": (0.0, 0.9)})
    found = explain_text(pipeline, QUERY)
    told = {each.field: each.is_told_apart for each in found.fields}
    assert told == {"age": True, "guest": False, "tastes": None}
    assert "guest (?)" in found.to_markdown() and found.notes[0].startswith("guest: could not be told from nothing")


def test_sensitive_values_are_withheld() -> None:
    [guest, *others] = SCHEMA.features
    hidden = ContextSchema(features=(guest.model_copy(update={"sensitive": True}), *others))
    found = explain_text(pipeline_for(schema=hidden), QUERY)
    assert "student" not in found.to_json() and "family" not in found.to_json()
    assert not any(each.field == "guest" for each in found.counterfactuals)


def test_a_context_that_is_read_as_words_is_explained_by_field() -> None:
    fields: dict[str, Any] = {"conditioning": "none", "has_context_as_text": True, "max_position_embeddings": 40}
    fields["eos_token_id"] = miniature_tokenizer().sep_token_id
    pipeline = pipeline_for(has_words=True, **fields)
    found = explain_text(pipeline, QUERY)
    assert {each.field for each in found.fields} == set(CONTEXT)
    for each in found.fields:
        assert each.value
    without = log_odds(pipeline, {**QUERY, "context": {}}, found.label)
    assert found.base_log_odds == pytest.approx(without, abs=1e-4)
    assert found.counterfactuals == ()
    assert "The context is read as words, so what others would get was not asked." in found.notes


def test_what_was_never_learned_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="trained without field_dropout"):
        explain_text(pipeline_for(field_dropout=0.0), QUERY)
    with pytest.raises(ConfigurationError, match="reads no context"):
        explain_text(pipeline_for(conditioning="none"), QUERY)
    with pytest.raises(ConfigurationError, match="this run gives tags of words"):
        explain_text(pipeline_for(model=ContextualBertForTokenClassification), QUERY)
    with pytest.raises(ConfigurationError, match="this run gives numbers"):
        explain_text(pipeline_for(id2label={0: "value"}), QUERY)
    notes = explain_text(pipeline_for(context_dropout=0.0), QUERY).notes
    assert notes[-1].startswith("Trained without context_dropout")


def test_faulty_questions_are_named(pipeline: TextPipeline) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'middle'"):
        explain_text(pipeline, QUERY, label="midle")
    with pytest.raises(UnknownNameError, match="Give one of 'low', 'middle', 'high'"):
        explain_text(pipeline, QUERY, label="?")
    with pytest.raises(QueryError):
        explain_text(pipeline, {"text": 3, "context": CONTEXT})
    with pytest.raises(ConfigurationError, match="batch_size"):
        explain_text(pipeline, QUERY, batch_size=0)


def test_it_is_read_by_people_and_programs(pipeline: TextPipeline) -> None:
    found = explain_text(pipeline, QUERY)
    assert TextExplanation.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["words"][0]["word"] == "word1"
    console = Console(width=100, record=True)
    console.print(found.to_rich())
    said = console.export_text()
    for part in ("What is known of the person", "What the words do", "What others would get", "hidden as [MASK]"):
        assert part in said


def test_nothing_hides_a_word_of_a_tokenizer_without_mask_and_unknown(pipeline: TextPipeline) -> None:
    asked = TextQuestion(pipeline, QUERY, batch_size=8)
    tokenizer: Any = asked.pipeline.processor.tokenizer
    assert asked.hiding_token == tokenizer.mask_token_id
