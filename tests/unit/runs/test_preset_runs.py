"""A run with ``preset="ma-bert"`` on a review corpus: the model that trains is the paper's."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import TextPipeline
from contextual_bert.conditioning.multi_attribute import PAPER_RANGE, MultiAttributeAttention
from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import prepare, run
from contextual_bert.runs.model_factory import arguments_of
from contextual_bert.runs.run_directory import last_checkpoint, trainer_state
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, Recipe
from contextual_bert.training.param_groups import own_rates

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
NUM_EXTRA = 6  # the paper's


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder)
    return folder


@pytest.fixture(scope="module")
def recipe(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A corpus in three files. Of 40 users 30 wrote a single review of the training part."""
    folder, numbers = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)
    files: dict[str, str] = {}
    for part, size in (("train", 96), ("dev", 32), ("test", 32)):
        lines: list[str] = []
        for number in range(size):
            rating = 1 + int(numbers.integers(0, 5))
            words = " ".join(f"word{word}" for word in numbers.integers(0, 18, size=int(numbers.integers(4, 30))))
            user = f"user{number if number < 30 else 30 + number % 10}"
            lines.append(f"{user}\t\tproduct{number % 3}\t\t{rating}\t\t{words}")
        path = folder / f"{part}.ss"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        files[part] = str(path)
    return Recipe(
        data=files["train"],
        validation_data=files["dev"],
        test_data=files["test"],
        task=Classification(text="text", label="rating", checkpoint=str(checkpoint)),
        preset="ma-bert",
        device="cpu",
    )


@pytest.fixture(scope="module")
def ready(recipe: Recipe) -> ClassificationTask:
    found = prepare(recipe)
    assert isinstance(found, ClassificationTask)
    return found


def test_each_value_of_training_has_a_vector(ready: ClassificationTask) -> None:
    schema = ready.processor.schema
    assert schema is not None
    values = {feature.name: feature.layout for feature in schema.features}
    assert values["user"].num_embeddings == 2 + 40  # unknown and missing
    assert values["product"].num_embeddings == 2 + 3
    assert all(not feature.buckets for feature in schema.features)


def test_the_model_that_training_starts_with(ready: ClassificationTask) -> None:
    torch.manual_seed(0)
    model = ready.build_model(ready.resolve(ready.recipe))
    config = model.config
    assert (config.num_hidden_layers, config.num_extra_layers, config.is_ordinal) == (2 + NUM_EXTRA, NUM_EXTRA, False)
    tables = {name: table.weight.detach() for name, table in model.bert.context_encoder.features.items()}
    assert {name: tuple(table.shape) for name, table in tables.items()} == {"user": (42, 16), "product": (5, 16)}
    assert all(isinstance(each, nn.Identity) for each in model.bert.encoder.conditioning.attributes)
    assert not model.bert.encoder.conditioning.starts_at_one
    for table in tables.values():
        assert float(table.abs().max()) <= PAPER_RANGE
        assert float(table.std()) == pytest.approx(PAPER_RANGE / 3**0.5, rel=0.1)
    kinds = [type(block.conditioning) for block in model.bert.encoder.layer]
    assert kinds == [type(None)] * 2 + [MultiAttributeAttention] * NUM_EXTRA
    activations = [type(block.intermediate.intermediate_act_fn).__name__ for block in model.bert.encoder.layer]
    assert activations == ["GELUActivation"] * 2 + ["ReLU"] * NUM_EXTRA
    assert model.bert.pooler is None
    assert isinstance(model.classifier, nn.Linear)
    assert float(model.classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.3)
    assert not model.classifier.bias.any()


def test_a_label_is_read_from_the_first_position_of_the_last_block(ready: ClassificationTask) -> None:
    model = ready.build_model(ready.resolve(ready.recipe)).eval()
    dataset = ready.datasets["train"]
    batch = dataset.collate_fn([dataset[0], dataset[1]])
    with torch.no_grad():
        found = model(**batch, output_hidden_states=True)
        last = model.bert(**{name: value for name, value in batch.items() if name != "labels"}).last_hidden_state
        torch.testing.assert_close(found.logits, model.classifier(last[:, 0]))
        expected = nn.functional.cross_entropy(found.logits, batch["labels"])
    torch.testing.assert_close(found.loss, expected)


def test_all_weights_learn_at_the_papers_rate(ready: ClassificationTask, recipe: Recipe, tmp_path: Path) -> None:
    own = ready.resolve(recipe)
    arguments = arguments_of(own, tmp_path, has_validation=True, defaults=ready.default_training(own))
    assert (arguments.learning_rate, arguments.lr_scheduler_type, arguments.warmup_steps) == (2e-5, "linear", 0.1)
    assert (arguments.num_train_epochs, arguments.train_batch_size, arguments.weight_decay) == (20, 16, 0.01)
    assert arguments.optim.startswith("adamw")
    assert (arguments.adam_beta1, arguments.adam_beta2, arguments.max_grad_norm) == (0.9, 0.999, 1.0)
    assert arguments.context_dropout == arguments.field_dropout == 0
    assert own_rates(ready.build_model(own), arguments) == {}


def test_it_trains_stops_early_and_comes_back(recipe: Recipe, tmp_path: Path) -> None:
    """At the paper's rate a tiny model learns nothing, so that it stops three epochs after the best one."""
    short = replace(recipe, training={**recipe.training, "per_device_train_batch_size": 48})
    run(short, tmp_path / "run", is_quiet=True)
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text(encoding="utf-8"))["recipe"]
    assert stored["preset"] == "ma-bert"
    assert stored["preset_settings"]["model"]["attribute_start"] == "paper"
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    for part in ("validation", "test"):
        assert {"accuracy_percent", "root_mean_squared_error"} <= metrics[part]["metrics"].keys()
    checkpoint = last_checkpoint(tmp_path / "run")
    assert checkpoint is not None
    state = trainer_state(checkpoint)
    assert (state["epoch"], state["best_global_step"], state["num_train_epochs"]) == (4, 2, 20)
    assert state["best_metric"] == state["log_history"][0]["eval_accuracy_percent"]
    loaded = TextPipeline.from_pretrained(tmp_path / "run")
    config = loaded.model.config
    assert config.conditioning_settings == {
        "attribute_start": "paper",
        "attribute_width": "model",
        "attribute_act": "relu",
        "has_attribute_values": True,
    }
    assert (config.classifier_pooling, [each.embedding_size for each in config.layout]) == ("first", [16, 16])
    block = loaded.model.bert.encoder.layer[-1]
    assert isinstance(block.intermediate.intermediate_act_fn, nn.ReLU)
    answer = loaded({"text": "word1 word2", "context": {"user": "user3", "product": "product1"}})
    assert answer["label"] in {"1", "2", "3", "4", "5"}


def test_a_table_without_a_context_is_not_told_to_take_another_method(recipe: Recipe, tmp_path: Path) -> None:
    without = replace(recipe, exclude=("user", "product"))
    with pytest.raises(ConfigurationError, match=r"needs a context.*Give a table with one, or leave preset=\.\.\. out"):
        prepare(without).check(without)
