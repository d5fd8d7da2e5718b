"""studies/concat_or_state.py: [C] with one layer and with two beside [GSU], trained alike."""

import json
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import studies.concat_or_state
from contextual_bert.conditioning import METHODS, Sizes
from contextual_bert.context.encoder import ContextEmbedding
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.testing import miniature_schema


@pytest.fixture(scope="module")
def concat_or_state(tiny_study: None) -> Generator[ModuleType]:
    studies.concat_or_state.register_methods()
    yield studies.concat_or_state
    for name in ("concat_one_layer", "concat_from_identity"):
        METHODS.pop(name)


def test_one_layer_is_one_matrix_over_item_and_context(concat_or_state: ModuleType) -> None:
    sizes = Sizes(
        hidden_size=6, context_size=4, feature_sizes=(4,), intermediate_size=8, num_layers=2, num_heads=2, dropout=0.0,
        layer_norm_eps=1e-12,
    )  # fmt: skip
    one_layer = METHODS["concat_one_layer"]().input(sizes)
    assert one_layer is not None
    items, vector = torch.randn(3, 5, 6), torch.randn(3, 4)
    found, mask = one_layer(items, None, ContextEmbedding(vector, (vector,)))
    weights = dict(one_layer.named_parameters())
    whole = torch.cat([weights["items.weight"], weights["context.weight"]], dim=1)
    joined = torch.cat([items, vector.unsqueeze(1).expand(-1, 5, -1)], dim=2)
    torch.testing.assert_close(found, joined @ whole.T + weights["context.bias"])
    assert mask is None
    assert sum(weight.numel() for weight in weights.values()) == 6 * (6 + 4) + 6


def test_the_identity_leaves_the_items_as_they_are(concat_or_state: ModuleType) -> None:
    schema = miniature_schema()
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(schema, conditioning="concat_from_identity", vocab_size=23, **sizes)
    slot: Any = ContextualBertForMaskedLM(config).bert.conditioning
    nothing = torch.zeros(3, config.context_size)
    items = torch.randn(3, 5, 16).clamp(-4, 4)
    torch.testing.assert_close(slot(items, None, ContextEmbedding(nothing, ()))[0], items, atol=1e-6, rtol=0)
    moved = slot(items, None, ContextEmbedding(torch.ones_like(nothing), ()))[0]
    assert not torch.allclose(moved, items, atol=1e-2)


@pytest.mark.slow
def test_all_are_trained_alike(concat_or_state: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--size", "tiny", "--epochs", "1", "--world", "additive", "--output", str(tmp_path)]
    concat_or_state.main([*tiny, "--start", "prototype"])
    output = tmp_path / "concat-or-state-additive-prototype"
    names = ["concat", "concat_one_layer", "concat_from_identity", "global_state_update"]
    recipe = json.loads((output / "runs" / "concat" / "seed-0" / "recipe.json").read_text("utf-8"))["recipe"]
    assert recipe["model"]["initializer_range"] == 0.02
    assert (recipe["item_vectors"], recipe["training"]["weight_decay"]) == ("random", 0.01)
    assert "masks_per_set" not in recipe["training"]
    assert {path.name for path in (output / "runs").iterdir()} == set(names)
    study = json.loads((output / "study.json").read_text("utf-8"))
    sizes = {row["name"]: row["cost"]["parameters"] for row in study["comparison"]["rows"]}
    assert sizes["concat"] - sizes["concat_one_layer"] == 128 * 128 + 128
    assert sizes["concat"] == sizes["concat_from_identity"]
    page = (output / "report.md").read_text("utf-8")
    assert all(f"| {name} |" in page for name in names)
    assert "By cross-entropy" in capsys.readouterr().out
