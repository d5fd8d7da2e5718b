"""score_masked against a ranking of the full logits, written with plain loops."""

import math
from typing import Any

import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import IGNORED_LABEL, ContextualBertForMaskedLM, masked_lm
from contextual_bert.testing import miniature_batch, miniature_model

RESERVED = (0, 1, 2)


@pytest.fixture
def batch() -> dict[str, Any]:
    batch = miniature_batch()
    batch["labels"] = torch.where(batch["attention_mask"].bool(), (batch["input_ids"] * 7) % 20 + 3, IGNORED_LABEL)
    return batch


@pytest.fixture
def model() -> ContextualBertForMaskedLM:
    """With ties: items 8 to 12 share one row of an untied output matrix."""
    model = miniature_model("global_state", tie_word_embeddings=False)
    decoder = model.get_output_embeddings()
    with torch.no_grad():
        decoder.weight[8:13] = decoder.weight[8]
        decoder.bias[8:13] = decoder.bias[8]
        decoder.bias[2] = 50.0  # a reserved id that would win everywhere
    return model


def test_against_a_plain_ranking(model: ContextualBertForMaskedLM, batch: dict[str, Any]) -> None:
    scores = model.score_masked(**batch)
    labels = batch["labels"]
    with torch.no_grad():
        logits = model(**{**batch, "labels": None}, logits_at="all").logits[labels != IGNORED_LABEL].tolist()
    targets = labels[labels != IGNORED_LABEL].tolist()
    assert len(scores.num_better) == len(targets) == 17
    for row, (values, target) in enumerate(zip(logits, targets, strict=True)):
        items = [value for item, value in enumerate(values) if item not in RESERVED]
        total = sum(math.exp(value) for value in values)
        assert int(scores.num_better[row]) == sum(value > values[target] + 1e-5 for value in items)
        assert int(scores.num_tied[row]) == sum(abs(value - values[target]) <= 1e-5 for value in items)
        assert float(scores.log_probability[row]) == pytest.approx(values[target] - math.log(total), abs=1e-4)
        assert float(scores.confidence[row]) == pytest.approx(math.exp(max(items)) / total, rel=1e-3)
    assert 5 in scores.num_tied.tolist(), "the ties were asked for"


def test_other_reserved_ids(batch: dict[str, Any]) -> None:
    few = miniature_model("none").score_masked(**batch)
    none = miniature_model("none", reserved_token_ids=()).score_masked(**batch)
    assert bool((none.num_better >= few.num_better).all())
    assert int(none.num_better.sum()) > int(few.num_better.sum())
    assert torch.equal(none.log_probability, few.log_probability)


def test_a_constant_scorer_ties_with_every_item(batch: dict[str, Any]) -> None:
    model = miniature_model("none", tie_word_embeddings=False)
    with torch.no_grad():
        for weight in model.get_output_embeddings().parameters():
            weight.zero_()
    scores = model.score_masked(**batch)
    assert set(scores.num_better.tolist()) == {0}
    assert set(scores.num_tied.tolist()) == {20}


def test_a_true_item_that_is_reserved_ties_with_itself(batch: dict[str, Any]) -> None:
    model = miniature_model("none")
    expected = model(**batch, logits_at="all").logits[0, 0]
    batch["labels"][0, 0] = 2
    scores = model.score_masked(**batch)
    assert int(scores.num_tied[0]) == 1
    assert int(scores.num_better[0]) == int((expected[3:] > expected[2]).sum())


def test_nothing_to_score(batch: dict[str, Any]) -> None:
    batch["labels"].fill_(IGNORED_LABEL)
    scores = miniature_model("none").score_masked(**batch)
    assert [tuple(values.shape) for values in scores] == [(0,)] * 4


@pytest.mark.parametrize("rows_at_once", [1, 4])
def test_blocks_change_nothing(
    model: ContextualBertForMaskedLM, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    whole = model.score_masked(**batch)
    sizes: list[int] = []
    model.get_output_embeddings().register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    monkeypatch.setattr(masked_lm, "MAX_SCORE_ELEMENTS", rows_at_once * 23)
    blocked = model.score_masked(**batch)
    assert max(sizes) == rows_at_once
    assert sum(sizes) == 17
    for name, values in whole._asdict().items():
        torch.testing.assert_close(getattr(blocked, name), values, rtol=1e-4, atol=1e-5)


def test_a_vocabulary_larger_than_a_block_is_scored_row_by_row(
    model: ContextualBertForMaskedLM, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masked_lm, "MAX_SCORE_ELEMENTS", 1)
    assert len(model.score_masked(**batch).confidence) == 17


def test_labels_are_needed(batch: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Scoring needs labels"):
        miniature_model("none").score_masked(**(batch | {"labels": None}))


def test_scoring_leaves_no_gradient(model: ContextualBertForMaskedLM, batch: dict[str, Any]) -> None:
    assert not model.score_masked(**batch).log_probability.requires_grad


def test_under_autocast_the_scores_are_float32(model: ContextualBertForMaskedLM, batch: dict[str, Any]) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model.score_masked(**batch)
    assert scores.log_probability.dtype == torch.float32
    torch.testing.assert_close(scores.log_probability, model.score_masked(**batch).log_probability, rtol=0.05, atol=0.3)
