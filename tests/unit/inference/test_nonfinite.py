"""A model that gives no numbers is refused when it answers; a context far from training is clipped and said."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert import CompletionPipeline, QuestionAnsweringPipeline, TextPipeline, TextSampling, sample_texts
from contextual_bert.context import ContextSchema, Vector
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError, NonFiniteError
from contextual_bert.inference import BulkSettings, complete_table, explain, export_onnx, score, score_labels
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.scoring import check_finite, nonfinite_error
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_model, miniature_processor, miniature_text_processor

NONSENSE = {"style": [1e30, -1e300], "age": 1e30}
QUERY = {"items": ["item-1", "[MASK]", "[MASK]"], "context": NONSENSE}
TOLD = {"context_dropout": 0.1, "field_dropout": 0.1}
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
TEXT = {"has_position_embeddings": True, "reserved_token_ids": [0, 1, 2, 3, 4], "vocab_size": 23, "type_vocab_size": 2}


def broken(model: Any, value: float = math.nan) -> Any:
    with torch.no_grad():
        next(model.parameters()).fill_(value)
    return model


def pipeline_of(method: str = "global_state", *, value: float | None = None) -> CompletionPipeline:
    model = miniature_model(method, **TOLD)
    return CompletionPipeline(model if value is None else broken(model, value), miniature_processor())


def text_processor() -> ContextualBertProcessor:
    schema = ContextSchema(features=(Vector(name="style", size=2, largest=2.0),))
    tokenizer: Any = miniature_text_processor().tokenizer
    return ContextualBertProcessor(ContextFeatureExtractor(schema.to_dict()), tokenizer)


def text_model(model_class: Any) -> Any:
    features = [asdict(feature) for feature in text_processor().schema.layout]  # pyright: ignore[reportOptionalMemberAccess]
    return model_class(ContextualBertConfig(conditioning="global_state", context_features=features, **TEXT, **SIZES))


def is_valid(answer: Any) -> bool:
    return bool(json.dumps(answer, allow_nan=False))


@pytest.mark.parametrize("method", ["global_state", "global_state_update", "concat", "film", "new_position"])
def test_a_context_far_from_training_gives_numbers_and_a_remark(method: str) -> None:
    pipeline = pipeline_of(method)
    for answer in (pipeline(QUERY), pipeline([{**QUERY, "guidance": 100}])[0], pipeline.complete_jointly(QUERY)):
        assert is_valid(answer)
        assert [note.split(" ", 3)[1] for note in answer["notes"][:2]] == ["'age':", "'style':"]
    assert pipeline([{"items": ["item-1"]}, QUERY])[0]["notes"] == []


def test_a_query_of_a_model_without_a_context_has_no_such_remark() -> None:
    assert len(pipeline_of("none")(QUERY)["notes"]) == 1  # that the context was not used


def test_an_explanation_of_such_a_context_has_the_remark() -> None:
    found = explain(pipeline_of(), QUERY)
    assert is_valid(json.loads(found.to_json()))
    assert "far outside of the bins" in found.notes[0]


def test_rows_of_a_table_are_completed_and_reported_by_row(tmp_path: Path) -> None:
    rows = {"items": [["item-1"], ["item-2"]], "style": [[0.5, 0.5], [0.5, 3.4e38]], "age": [30, 30]}
    table = pa.table({**rows, "sex": ["f", "m"], "brands": [["a"], ["b"]]})
    report = complete_table(pipeline_of(), table, tmp_path / "out", settings=BulkSettings())
    assert report.unknown == ("context 'style', row 2: 3.4e+38 is beyond 1e+12, and is read as that",)
    with pytest.raises(NonFiniteError, match="its weights hold NaN"):
        complete_table(pipeline_of(value=math.nan), table, tmp_path / "none", settings=BulkSettings())
    assert [path.suffix for path in (tmp_path / "none").iterdir()] == [".json"]  # the manifest, and no answers


@pytest.mark.parametrize(("value", "why"), [(math.nan, "hold NaN"), (math.inf, "hold NaN"), (1e38, "as large as")])
def test_a_model_without_numbers_is_refused_by_its_weights(value: float, why: str, tmp_path: Path) -> None:
    pipeline = pipeline_of(value=value)
    for ask in (pipeline, pipeline.complete_jointly, lambda query: explain(pipeline, query)):
        with pytest.raises(NonFiniteError, match=f"The model gives no numbers, because its weights .*{why}"):
            ask({"items": ["item-1", "[MASK]"], "context": {"age": 30}})


@pytest.mark.slow
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("matrix", ["float32", "int8"])
def test_an_export_certifies_no_model_without_numbers(value: float, matrix: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(NonFiniteError, match="its weights"):
        export_onnx(pipeline_of(value=value), tmp_path / "onnx", output_matrix=matrix)
    assert not [*tmp_path.glob("onnx/*")]


def test_scores_say_whether_weights_or_inputs_are_to_blame() -> None:
    sets = SequenceDataset([3, 4, 5, 6], [0, 2, 4], context={}, example_ids=np.array([17, 23]))
    with pytest.raises(NonFiniteError, match=r"its weights hold NaN or infinity: bert\.embeddings"):
        score(pipeline_of("none", value=math.nan).model, sets)

    class Sick:
        device = torch.device("cpu")

        def score_masked(self, labels: torch.Tensor, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = torch.zeros((labels >= 0).sum())
            return torch.where(torch.arange(len(found)) > 1, torch.nan, found - 1), found, found + 1, found + 0.5

    with pytest.raises(NonFiniteError, match=r"for the inputs of row 24 \(1 in all\), though its weights are finite"):
        score(Sick(), sets)


def test_texts_and_questions_alike() -> None:
    context = {"style": [1e30, 0.0]}
    for model_class in (ContextualBertForSequenceClassification, ContextualBertForTokenClassification):
        model = text_model(model_class)
        answer: Any = TextPipeline(model, text_processor())({"text": "word1 word2", "context": context})
        assert is_valid(answer)
        assert answer["notes"] == [
            "context 'style': 1e+30 is more than 100 times the largest number of training (2), and is read as that."
        ]
        with pytest.raises(NonFiniteError, match="its weights hold NaN"):
            TextPipeline(broken(model), text_processor())({"text": "word1 word2"})
    model = text_model(ContextualBertForQuestionAnswering)
    asked = {"question": "word1", "text": "word2 word3", "context": context}
    found: Any = QuestionAnsweringPipeline(model, text_processor())(asked)
    assert is_valid(found)
    assert len(found["notes"]) == 1
    with pytest.raises(NonFiniteError, match="its weights hold NaN"):
        QuestionAnsweringPipeline(broken(model), text_processor())(asked)
    with pytest.raises(NonFiniteError, match="its weights hold NaN"):
        sample_texts(broken(text_model(ContextualBertForMaskedLM)), text_processor(), prompt=3)


@pytest.mark.parametrize("temperature", [5e-324, 1e-30, 1e6])
def test_temperatures_that_are_allowed_draw_texts(temperature: float) -> None:
    model, processor = text_model(ContextualBertForMaskedLM), text_processor()
    drawn = sample_texts(model, processor, prompt=3, sampling=TextSampling(num_sweeps=1, temperature=temperature))
    assert len(drawn) == 4


@pytest.mark.parametrize("temperature", [1e300, math.inf, math.nan, 0.0, -1.0])
def test_other_temperatures_are_refused(temperature: float) -> None:
    message = re.escape(f"temperature={temperature} is not allowed. Give a number above 0, at most 1e")
    with pytest.raises(ConfigurationError, match=message):
        TextSampling(temperature=temperature)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_seeds_that_no_generator_takes_are_refused(seed: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"seed={seed} is not allowed. Give a whole number between 0"):
        pipeline_of().complete_jointly(QUERY, seed=seed)
    with pytest.raises(ConfigurationError, match=f"seed={seed}"):
        explain(pipeline_of(), QUERY, seed=seed)
    with pytest.raises(ConfigurationError, match=f"seed={seed}"):
        sample_texts(text_model(ContextualBertForMaskedLM), text_processor(), prompt=3, seed=seed)


def test_a_price_that_no_number_holds_is_none() -> None:
    processor = miniature_processor()
    prices = pa.table({"item": list(processor.items.values), "price": [1e308] * len(processor.items.values)})
    pipeline = CompletionPipeline(miniature_model("none"), processor, catalogue=Catalogue(prices, processor.items))
    answer: Any = pipeline.complete_jointly({"items": ["[MASK]", "[MASK]"]})
    assert {each["price"] for each in answer["completions"]} == {None}
    assert is_valid(answer)


@pytest.mark.parametrize("logits", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]])
def test_logits_that_are_no_distribution_are_refused(logits: list[float]) -> None:
    with pytest.raises(NonFiniteError, match="though its weights are finite"):
        check_finite(torch.tensor([[0.0, 1.0], logits]), torch.nn.Linear(2, 2))
    check_finite(torch.empty(0, 2), torch.nn.Linear(2, 2))
    assert "inputs of row 4, 6 (2 in all)" in str(nonfinite_error(None, rows=[3, 5]))


def test_labels_are_scored_by_numbers() -> None:
    model = broken(text_model(ContextualBertForSequenceClassification))
    context = text_processor().encode_context(None, num_rows=1)
    assert context is not None
    ids, offsets, labels = (torch.tensor(each) for each in ([3, 6, 4], [0, 3], [1]))
    texts = SequenceDataset(ids, offsets, context=context.tensors, labels=labels)
    with pytest.raises(NonFiniteError, match="its weights hold NaN"):
        score_labels(model, texts, names=("bad", "good"))
