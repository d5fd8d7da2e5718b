"""Context dropout in both trainers: what is left out in training, nothing in evaluation; the config remembers it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import set_seed

from contextual_bert.context import FeatureLayout, missing_like, unknown_like
from contextual_bert.data import DroppedContext, SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
)
from contextual_bert.runs import SetCompletionTask, run
from contextual_bert.training import ContextualBertTrainer, Recipe, SetCompletion, training_arguments

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
BRIEF = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False, "report_to": []}


def trainer_for(data: SetCompletionTask, folder: Path, *, seed: int = 0, **settings: Any) -> ContextualBertTrainer:
    set_seed(0)
    config = ContextualBertConfig.from_schema(
        data.processor.schema, conditioning="global_state", vocab_size=len(data.processor.items), **SIZES
    )
    arguments = training_arguments(
        folder, device="cpu", seed=seed, disable_tqdm=True, num_train_epochs=2, **BRIEF, **settings
    )
    return ContextualBertTrainer(
        ContextualBertForMaskedLM(config),
        arguments,
        train_dataset=data.datasets["train"],
        eval_dataset=data.datasets["validation"],
        processor=data.processor,
    )


def contexts_seen(model: torch.nn.Module) -> list[dict[str, torch.Tensor]]:
    """What the context encoder of the model gets from now on."""
    seen: list[dict[str, torch.Tensor]] = []
    encoder: Any = next(module for name, module in model.named_modules() if name.endswith("context_encoder"))
    encoder.register_forward_pre_hook(lambda _, inputs: seen.append(dict(inputs[0])))
    return seen


def shares_left_out(seen: list[dict[str, torch.Tensor]], layout: Sequence[FeatureLayout]) -> tuple[float, float, float]:
    """The share of rows in which all is missing, of fields that are missing or unknown, and that are unknown."""

    def share(blank: Callable[[torch.Tensor, FeatureLayout], torch.Tensor]) -> torch.Tensor:
        return torch.cat(
            [
                torch.stack([(v == blank(v, one)).reshape(len(v), -1).all(dim=1) for v, one in columns], dim=1)
                for columns in [[(context[one.name], one) for one in layout] for context in seen]
            ]
        )

    missing = share(lambda values, _: missing_like(values))
    has_unknown = [one.unknown_id is not None for one in layout]
    unknown = share(unknown_like) & torch.tensor(has_unknown)
    shares = missing.all(dim=1), missing | unknown, unknown[:, torch.tensor(has_unknown)]
    whole, single, by_value = (float(each.float().mean()) for each in shares)
    return whole, single, by_value


def test_training_lacks_what_it_should_and_evaluation_nothing(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    trainer = trainer_for(tiny_data, tmp_path, context_dropout=0.3, field_dropout=0.2)
    plain = trainer_for(tiny_data, tmp_path)
    for each in (trainer, plain):
        each.seen = contexts_seen(each.model)  # pyright: ignore
        each.train()
    layout = tiny_data.processor.schema.layout
    whole, single, unknown = shares_left_out(trainer.seen, layout)  # pyright: ignore
    own_whole, own_single, own_unknown = shares_left_out(plain.seen, layout)  # pyright: ignore
    assert own_whole == 0
    assert whole == pytest.approx(0.3, abs=0.1)
    assert single == pytest.approx(1 - (1 - own_single) * 0.7 * 0.8, abs=0.05)
    assert unknown == pytest.approx(own_unknown * 0.7 * 0.8 + 0.7 * 0.1, abs=0.03)
    evaluated: list[list[dict[str, torch.Tensor]]] = []
    for each in (trainer, plain):
        each.seen.clear()  # pyright: ignore
        each.evaluate()
        evaluated.append(each.seen)  # pyright: ignore
    assert len(evaluated[0]) == len(evaluated[1]) > 0
    for left, right in zip(*evaluated, strict=True):
        assert all(torch.equal(left[name], right[name]) for name in left)


def test_every_epoch_and_seed_leaves_out_others(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    trainer = trainer_for(tiny_data, tmp_path, field_dropout=0.3, train_sampling_strategy="sequential")
    seen = contexts_seen(trainer.model)
    trainer.train()
    first, second = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert any(not torch.equal(a["age"], b["age"]) for a, b in zip(first, second, strict=True))
    dataset: Any = trainer.train_dataset
    assert isinstance(dataset, DroppedContext)
    other: Any = trainer_for(tiny_data, tmp_path, field_dropout=0.3, seed=1).train_dataset
    ids = tiny_data.datasets["train"].example_ids
    other.set_epoch(1)
    assert not torch.equal(other.absent(ids), dataset.absent(ids))


def test_the_order_of_the_batches_is_that_without_dropout(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    orders = [
        list(trainer_for(tiny_data, tmp_path, **settings)._get_train_sampler() or ())
        for settings in ({}, {"field_dropout": 0.5})
    ]
    assert orders[0] == orders[1]


def test_the_config_remembers_and_a_pipeline_reads_it(tiny_recipe: Recipe, tmp_path: Path) -> None:
    settings = {**tiny_recipe.training, "num_train_epochs": 1, "context_dropout": 0.25, "field_dropout": 0.125}
    recipe = Recipe(**{**vars(tiny_recipe), "training": settings, "conditioning": "global_state"})
    run(recipe, tmp_path / "run", is_quiet=True)
    model = CompletionPipeline.from_pretrained(tmp_path / "run").model
    assert (model.config.context_dropout, model.config.field_dropout) == (0.25, 0.125)
    assert model.has_learned_anonymous and model.has_learned_absent_fields
    run(Recipe(**{**vars(recipe), "training": tiny_recipe.training}), tmp_path / "plain", is_quiet=True)
    plain = CompletionPipeline.from_pretrained(tmp_path / "plain").model
    assert not plain.has_learned_anonymous and not plain.has_learned_absent_fields


@pytest.mark.parametrize(("context_dropout", "field_dropout"), [(0.1, 0.0), (0.0, 0.1)])
def test_the_two_rates_say_different_things(
    tiny_data: SetCompletionTask, context_dropout: float, field_dropout: float
) -> None:
    config = ContextualBertConfig.from_schema(
        tiny_data.processor.schema,
        conditioning="concat",
        vocab_size=9,
        context_dropout=context_dropout,
        field_dropout=field_dropout,
        **SIZES,
    )
    model = ContextualBertForMaskedLM(ContextualBertConfig.from_dict(config.to_dict()))
    assert model.has_learned_anonymous is (context_dropout > 0)
    assert model.has_learned_absent_fields is (field_dropout > 0)


def test_a_trainer_that_only_evaluates_leaves_the_config_alone(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    model: Any = trainer_for(tiny_data, tmp_path, context_dropout=0.5).model
    arguments = training_arguments(tmp_path, device="cpu", **BRIEF)
    ContextualBertTrainer(
        model, arguments, eval_dataset=tiny_data.datasets["validation"], processor=tiny_data.processor
    )
    assert model.config.context_dropout == 0.5


def test_texts_are_trained_with_it_too(tmp_path: Path) -> None:
    sex = torch.tensor([2, 3] * 100)
    texts = SequenceDataset(
        torch.arange(400) % 20 + 3, torch.arange(0, 401, 2), context={"sex": sex}, labels=torch.arange(200) % 2
    )
    layout = [{"name": "sex", "kind": "categorical", "num_embeddings": 4, "vector_size": 0, "embedding_size": 3}]
    config = ContextualBertConfig(
        vocab_size=23, conditioning="global_state", context_features=layout, num_labels=2, **SIZES
    )
    set_seed(0)
    model = ContextualBertForSequenceClassification(config)
    settings = {"field_dropout": 0.4, "num_train_epochs": 2, "disable_tqdm": True, **BRIEF}
    trainer = ContextualBertTrainer(
        model, training_arguments(tmp_path, device="cpu", **settings), train_dataset=texts, eval_dataset=texts
    )
    seen = contexts_seen(model)
    trainer.train()
    epochs = [torch.cat([each["sex"] for each in seen][half::2]) for half in (0, 1)]
    for state in (0, 1):  # missing and unknown
        assert [float((each == state).float().mean()) for each in epochs] == pytest.approx([0.2, 0.2], abs=0.07)
    seen.clear()
    trainer.evaluate()
    assert all(bool((each["sex"] > 1).all()) for each in seen)
    assert model.config.field_dropout == 0.4


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan"), "much", True])
@pytest.mark.parametrize("name", ["context_dropout", "field_dropout"])
def test_a_rate_that_is_no_share(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=.*number from 0 to below 1"):
        Recipe(data="a", task=SetCompletion(items="b"), training={name: value})
    with pytest.raises(ConfigurationError, match=f"{name}=.*number from 0 to below 1"):
        training_arguments(tmp_path, device="cpu", **{name: value})


def test_a_rate_given_to_the_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"field_dropout.* is a setting of the training"):
        Recipe(data="a", task=SetCompletion(items="b"), model={"field_dropout": 0.1})
