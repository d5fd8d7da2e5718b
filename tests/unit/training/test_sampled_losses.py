"""Trainings by a sampled loss: they learn, go on exactly after an interruption, and refuse what cannot be sampled."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import set_seed

from contextual_bert.baselines import BagOfItems
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import score
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments, training_arguments
from contextual_bert.training.sampled_losses import set_item_loss, why_not_sampled

NO_SAVING = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def trainer_for(data: SetCompletionTask, folder: Path, *, seed: int = 0, **settings: Any) -> ContextualBertTrainer:
    set_seed(seed)
    config = ContextualBertConfig.from_schema(
        data.processor.schema,
        conditioning="global_state_update",
        vocab_size=len(data.processor.items),
        softmax_over="items",
        **SIZES,
    )
    arguments = training_arguments(
        folder, device="cpu", seed=seed, disable_tqdm=True, **{**NO_SAVING, "learning_rate": 0.01, **settings}
    )
    return ContextualBertTrainer(
        ContextualBertForMaskedLM(config), arguments, train_dataset=data.datasets["train"], processor=data.processor
    )


@pytest.fixture(scope="module")
def groups() -> SequenceDataset:
    """Sets of four items of one of five groups: what is hidden can be told from what is shown."""
    items = [3 + 4 * group + number for group in range(5) for number in range(4)] * 16
    return SequenceDataset(items, list(range(0, len(items) + 1, 4)), context={}, example_ids=range(80))


def learned(dataset: SequenceDataset, folder: Path, **settings: Any) -> tuple[ContextualBertForMaskedLM, Any]:
    """A model after some steps, and its scores on what it learned from."""
    set_seed(0)
    config = ContextualBertConfig(vocab_size=43, softmax_over="items", initializer_range=0.1, **SIZES)
    model = ContextualBertForMaskedLM(config)
    sizes = {"per_device_train_batch_size": 20, "max_steps": 150}
    arguments = training_arguments(
        folder, device="cpu", disable_tqdm=True, **{**NO_SAVING, **sizes, "learning_rate": 0.01, **settings}
    )
    ContextualBertTrainer(model, arguments, train_dataset=dataset).train()
    return model, score(model, dataset)


def test_a_sampled_softmax_learns_the_probabilities_of_the_exact_one(groups: SequenceDataset, tmp_path: Path) -> None:
    losses = {
        loss: -float(learned(groups, tmp_path, loss=loss, **drawn)[1].log_probability.mean())
        for loss, drawn in (("cross_entropy", {}), ("sampled_softmax", {"num_negatives": 16}))
    }
    assert losses["cross_entropy"] < 0.5 * math.log(40)
    assert abs(losses["sampled_softmax"] - losses["cross_entropy"]) < 0.1


def test_gbce_ranks_what_is_hidden_first(groups: SequenceDataset, tmp_path: Path) -> None:
    few = learned(groups, tmp_path, loss="gbce", num_negatives=16, max_steps=1)[1]
    many = learned(groups, tmp_path, loss="gbce", num_negatives=16, max_steps=450)[1]
    assert float((many.num_better < 4).mean()) > 0.7 > 0.3 > float((few.num_better < 4).mean())


def test_a_training_that_was_interrupted_ends_as_it_would_have(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 3, "max_steps": 6, "loss": "sampled_softmax", "num_negatives": 8}
    whole = trainer_for(tiny_data, tmp_path / "whole", per_device_train_batch_size=32, **saving)
    whole.train()
    resumed = trainer_for(tiny_data, tmp_path / "whole", per_device_train_batch_size=32, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    states = [trainer.model.state_dict() for trainer in (whole, resumed)]
    assert [name for name in states[0] if not torch.equal(states[0][name], states[1][name])] == []


def test_the_config_remembers_the_loss_and_another_training_forgets_it(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    trainer = trainer_for(tiny_data, tmp_path, loss="gbce", num_negatives=4)
    model: Any = trainer.model
    assert (model.config.item_loss, model.sampled_loss.sampler.num_negatives) == ("gbce", 4)
    counted = torch.bincount(tiny_data.datasets["train"].input_ids, minlength=model.config.vocab_size)
    shares = counted[model.sampled_loss.sampler.items].float()
    torch.testing.assert_close(
        model.sampled_loss.sampler.shares[model.sampled_loss.sampler.items], shares / shares.sum()
    )
    arguments = training_arguments(tmp_path, device="cpu", disable_tqdm=True, **NO_SAVING)
    ContextualBertTrainer(model, arguments, train_dataset=tiny_data.datasets["train"], processor=tiny_data.processor)
    assert (model.config.item_loss, model.sampled_loss) == ("cross_entropy", None)


def test_what_cannot_be_sampled_is_refused(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    arguments = training_arguments(tmp_path, device="cpu", disable_tqdm=True, loss="gbce", **NO_SAVING)
    bag = BagOfItems(len(tiny_data.processor.items), layout=(), hidden_size=16)
    with pytest.raises(ConfigurationError, match=r"loss='gbce' compares with drawn items alone, and this learns no"):
        ContextualBertTrainer(bag, arguments, train_dataset=tiny_data.datasets["train"], processor=tiny_data.processor)
    model: Any = trainer_for(tiny_data, tmp_path).model
    assert why_not_sampled(model) is None
    model.repeats.append(torch.nn.Identity())
    assert "history" in str(why_not_sampled(model))
    model.config.item_features = {}
    assert "items with features" in str(why_not_sampled(model))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "sampled"}, "sampled_softmax"),
        ({"loss": "gbce", "num_negatives": 0}, "Give 1 or more"),
        ({"num_negatives": 8}, "loss='cross_entropy' reads them all"),
    ],
)
def test_settings_that_cannot_be_are_said(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ContextualTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **settings)


@pytest.mark.parametrize("optim", ["sgd", "adafactor"])
def test_an_optimiser_without_averages_is_refused(optim: str, tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no averages by row"):
        trainer_for(tiny_data, tmp_path, loss="sampled_softmax", optim=optim)


def test_gradients_are_dense_where_they_are_added_up_by_others(
    groups: SequenceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_seed(0)
    model: Any = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=43, softmax_over="items", **SIZES))
    arguments = training_arguments(tmp_path, device="cpu", disable_tqdm=True, loss="sampled_softmax", **NO_SAVING)
    set_item_loss(model, arguments, groups)
    assert model.get_output_embeddings().sparse and model.get_input_embeddings().sparse
    monkeypatch.setattr(type(arguments), "world_size", property(lambda self: 2))
    set_item_loss(model, arguments, groups)
    assert not model.get_output_embeddings().sparse and not model.get_input_embeddings().sparse
    model.train()
    ids = groups.input_ids.view(-1, 4)[:8]
    model(input_ids=ids, labels=ids).loss.backward()
    assert not model.get_output_embeddings().weight.grad.is_sparse


@pytest.mark.slow
def test_a_sampled_loss_is_compiled(groups: SequenceDataset, tmp_path: Path) -> None:
    _, scores = learned(groups, tmp_path, loss="sampled_softmax", num_negatives=16, max_steps=3, torch_compile=True)
    assert len(scores) == 320
