"""What a new model starts with: items that are together in training sets have vectors that say so."""

from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from contextual_bert.baselines import BagOfItems
from contextual_bert.data import SetPolicy, cooccurrence_vectors
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask, as_row, prepare
from contextual_bert.runs.model_factory import attention_for, build_model, loss_candidates
from contextual_bert.training import Recipe, SetCompletion


def item_weights(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Of the input and of the output."""
    if isinstance(model, BagOfItems):
        return model.items.weight, model.output.weight
    assert isinstance(model, ContextualBertForMaskedLM)
    return model.bert.embeddings.word_embeddings.weight, model.cls.predictions.decoder.weight


def test_what_the_softmax_goes_over(tiny_recipe: Recipe, tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    for name in ("none", "bag", "popularity"):
        model: Any = build_model(as_row(tiny_recipe, name), tiny_data)
        assert getattr(model, "softmax_over", None) or model.config.softmax_over == "candidates"
        paper: Any = build_model(replace(as_row(tiny_recipe, name), model={"softmax_over": "vocabulary"}), tiny_data)
        assert (paper.config if name == "none" else paper).softmax_over == "vocabulary"
    path = tmp_path / "repeated.parquet"
    pq.write_table(pa.table({"items": [["a", "b", "a"], ["a", "c"], ["b", "c"], ["c", "a"]] * 20}), path)
    repeated = prepare(
        Recipe(
            data=str(path), task=SetCompletion(items="items", policy=SetPolicy(duplicates="keep")), conditioning="none"
        )
    )
    assert loss_candidates(repeated) == "items"
    dropped = prepare(repeated.recipe.changed(policy=SetPolicy(duplicates="drop"), schema=None))
    assert loss_candidates(dropped) == "candidates"
    with pytest.raises(ConfigurationError, match=r"softmax_over='all'"):
        Recipe(data="days.parquet", task=SetCompletion(items="items"), model={"softmax_over": "all"})


@pytest.mark.parametrize("name", ["none", "global_state_update", "bag", "bag_context"])
def test_item_vectors(name: str, tiny_recipe: Recipe, tiny_data: SetCompletionTask) -> None:
    recipe = as_row(tiny_recipe, name)
    torch.manual_seed(0)
    drawn = build_model(replace(recipe, item_vectors="random"), tiny_data)
    torch.manual_seed(0)
    started = build_model(recipe, tiny_data)
    vocab_size, size = item_weights(started)[0].shape
    sees_context = name not in ("none", "bag")
    analysed = cooccurrence_vectors(
        tiny_data.datasets["train"], vocab_size=vocab_size, size=size, seed=recipe.seed, has_context=sees_context
    )
    for before, after, vectors in zip(item_weights(drawn), item_weights(started), analysed, strict=True):
        direction = torch.from_numpy(vectors).float()
        has_company = direction.any(dim=1)
        assert has_company[3:].all() and not has_company[:3].any()
        torch.testing.assert_close(after[3:] / after[3:].norm(), direction[3:] / direction[3:].norm())
        assert torch.equal(after[:3], before[:3])
        assert float(after[3:].detach().std()) == pytest.approx(float(before.detach().std()), rel=1e-2)
    others = {
        key: weight
        for key, weight in started.state_dict().items()
        if all(weight.data_ptr() != one.data_ptr() for one in item_weights(started))
    }
    assert others
    assert all(torch.equal(weight, drawn.state_dict()[key]) for key, weight in others.items())


def test_a_shuffled_context_is_not_looked_at(tiny_recipe: Recipe, tiny_data: SetCompletionTask) -> None:
    """Else the control would know whose context a set has."""
    recipe = replace(tiny_recipe, conditioning="global_state_update")
    blind, _ = item_weights(build_model(replace(recipe, conditioning="none"), tiny_data))
    shuffled, _ = item_weights(build_model(replace(recipe, is_context_shuffled=True), tiny_data))
    seeing, _ = item_weights(build_model(recipe, tiny_data))
    torch.testing.assert_close(shuffled[3:] / shuffled[3:].norm(), blind[3:] / blind[3:].norm())
    assert not torch.allclose(seeing[3:] / seeing[3:].norm(), blind[3:] / blind[3:].norm(), atol=1e-3)


def test_a_tied_matrix_gets_the_vectors_of_the_input(tiny_recipe: Recipe, tiny_data: SetCompletionTask) -> None:
    recipe = replace(tiny_recipe, model={**tiny_recipe.model, "tie_word_embeddings": True})
    inputs, outputs = item_weights(build_model(recipe, tiny_data))
    assert inputs is outputs
    vectors, _ = cooccurrence_vectors(
        tiny_data.datasets["train"],
        vocab_size=inputs.shape[0],
        size=inputs.shape[1],
        seed=recipe.seed,
        has_context=True,
    )
    direction = torch.from_numpy(vectors).float()
    torch.testing.assert_close(inputs[3:] / inputs[3:].norm(), direction[3:] / direction[3:].norm())


@pytest.mark.parametrize(
    ("dtype", "longest", "attention"),
    [("float32", 32, "eager"), ("float32", 33, "sdpa"), ("bfloat16", 192, "eager"), ("bfloat16", 193, "sdpa")],
)
def test_short_sets_take_plain_attention_on_a_processor(
    dtype: str, longest: int, attention: str, tiny_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(tiny_recipe, dtype=dtype, device="cpu")
    ready: Any = SimpleNamespace(datasets={"train": SimpleNamespace(sizes=np.array([2, longest, 3]))})
    assert attention_for(recipe, ready) == attention
    monkeypatch.setattr("contextual_bert.runs.model_factory.chosen_device", lambda _: torch.device("cuda"))
    assert attention_for(recipe, ready) == "sdpa"


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_model_is_built_with_the_attention_chosen(
    attention: str, tiny_recipe: Recipe, tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contextual_bert.runs.model_factory.attention_for", lambda *_: attention)
    new = build_model(tiny_recipe, tiny_data)
    assert isinstance(new, ContextualBertForMaskedLM)
    new.save_pretrained(tmp_path)
    continued = build_model(tiny_recipe.changed(init_from=str(tmp_path)), tiny_data)
    assert isinstance(continued, ContextualBertForMaskedLM)
    assert new.config._attn_implementation == continued.config._attn_implementation == attention


def test_what_cannot_be_asked_for(tiny_recipe: Recipe) -> None:
    with pytest.raises(ConfigurationError, match=r"item_vectors='coocurrence'.*cooccurrence"):
        replace(tiny_recipe, item_vectors="coocurrence")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="this one starts from runs/a, whose vectors are kept"):
        tiny_recipe.changed(item_vectors="random", init_from="runs/a")


def test_the_ids_of_training_survive_the_start_of_spawned_workers(tiny_recipe: Recipe) -> None:
    ready = prepare(tiny_recipe)
    expected, kept = ready.datasets["train"].input_ids.tolist(), ready.training_ids
    assert kept is not None
    assert not np.shares_memory(kept, ready.datasets["train"].input_ids.numpy())
    ForkingPickler.dumps(ready.datasets["train"])  # what a data loader does that spawns: it moves the tensors
    assert kept.tolist() == expected
