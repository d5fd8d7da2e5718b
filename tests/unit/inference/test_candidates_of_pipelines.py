"""What a set shows has no probability where training never repeats an item: answers, whole sets and exports alike."""

from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.inference import CompletionPipeline, export_onnx
from contextual_bert.inference.exported.onnx_pipeline import OnnxCompletionPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

ITEMS = [f"item{number}" for number in range(9)]
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
SET = ["item0", "item1", "[MASK]"]
REMARK = "repeats changes nothing"


def pipeline_for(softmax_over: str) -> CompletionPipeline:
    torch.manual_seed(0)
    config = ContextualBertConfig(vocab_size=len(ITEMS) + 3, softmax_over=softmax_over, **SIZES)
    model = ContextualBertForMaskedLM(config).eval()
    with torch.no_grad():
        model.get_output_embeddings().bias[3:5] = 9.0  # what is visible: never trained, so it may be anything
    return CompletionPipeline(model, ContextualBertProcessor.from_items(ITEMS))


@pytest.mark.parametrize("is_exported", [False, True])
def test_what_is_excluded_is_counted_among_candidates(is_exported: bool, tmp_path: Path) -> None:
    pipeline = pipeline_for("candidates")
    if is_exported:
        export_onnx(pipeline, tmp_path / "exported", top_k=12)
        pipeline = OnnxCompletionPipeline(tmp_path / "exported")
    plain: Any = pipeline({"items": SET}, top_k=9)["slots"][0]
    assert plain["excluded_probability"] == pytest.approx(0, abs=1e-6)
    shares = {each["item"]: each["probability"] for each in plain["candidates"]}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert not {"item0", "item1"} & {*shares}
    denied: Any = pipeline({"items": SET, "deny": ["item2"]}, top_k=9)["slots"][0]
    assert denied["excluded_probability"] == pytest.approx(shares["item2"], abs=1e-5)


def test_probabilities_are_those_of_the_scores() -> None:
    pipeline = pipeline_for("candidates")
    found: Any = pipeline({"items": SET}, top_k=9)["slots"][0]["candidates"]
    shares = {each["item"]: each["probability"] for each in found}
    ids = pipeline.processor.encode_items([SET])["input_ids"]
    for number, item in enumerate(ITEMS[2:], 5):
        labels = torch.tensor([[-100, -100, number]])
        scores = pipeline.model.score_masked(ids, labels=labels)
        assert float(scores.log_probability.exp()) == pytest.approx(shares[item], rel=1e-4)


def test_repeats_are_proposed_only_where_they_were_learned() -> None:
    for softmax_over, is_proposed in (("candidates", False), ("items", True), ("vocabulary", True)):
        answer: Any = pipeline_for(softmax_over)({"items": SET, "repeats": True}, top_k=9)
        proposed = {each["item"] for each in answer["slots"][0]["candidates"]}
        assert ("item0" in proposed) is is_proposed
        assert any(REMARK in note for note in answer["notes"]) is not is_proposed


def test_whole_sets_share_the_mass_among_candidates() -> None:
    query = {"items": ["item0", "[MASK]", "[MASK]"]}
    found: Any = pipeline_for("candidates").complete_jointly(query, num_completions=100, method="exact")
    assert found["excluded_probability"] == pytest.approx(0, abs=1e-6)
    assert not any("item0" in each["filled"] for each in found["completions"])
    others: Any = pipeline_for("items").complete_jointly(query, num_completions=100, method="exact")
    assert others["excluded_probability"] > 0.5  # a model that may repeat items puts mass on the visible one
