"""How grades are learned: thresholds that move, and a loss that ends where it should."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
from contextual_bert.models.label_heads import OrdinalClassifier
from contextual_bert.testing import miniature_config
from contextual_bert.training import ContextualBertTrainer, training_arguments
from contextual_bert.training.param_groups import THRESHOLD_LEARNING_RATE

SIZES: dict[str, Any] = {
    "vocab_size": 23,
    "conditioning": "none",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "has_position_embeddings": True,
    "num_labels": 5,
}
SHARES = np.array([0.45, 0.03, 0.04, 0.03, 0.45])
QUIET: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "load_best_model_at_end": False}


def random_texts(count: int, *, seed: int) -> SequenceDataset:
    """Texts that say nothing of their grades."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 23, (6 * count,), generator=generator)
    grades = np.random.default_rng(seed).permutation(np.repeat(np.arange(5), np.round(SHARES * count).astype(int)))
    return SequenceDataset(ids, torch.arange(0, 6 * count + 1, 6), context={}, labels=torch.from_numpy(grades))


def trained(texts: SequenceDataset, folder: Path, *, is_ordinal: bool) -> tuple[ContextualBertTrainer, Any]:
    torch.manual_seed(0)
    model = ContextualBertForSequenceClassification(ContextualBertConfig(**SIZES, is_ordinal=is_ordinal))
    model.start_at_shares(torch.bincount(texts.labels, minlength=5))  # type: ignore[arg-type]
    settings: dict[str, Any] = {"learning_rate": 1e-4, "num_train_epochs": 4, "per_device_train_batch_size": 32}
    arguments = training_arguments(folder, device="cpu", **settings, **QUIET)
    trainer = ContextualBertTrainer(model, arguments, train_dataset=texts, eval_dataset=random_texts(1000, seed=1))
    trainer.train()
    return trainer, model


def test_grades_of_random_texts_end_at_the_entropy_of_their_shares(tmp_path: Path) -> None:
    """45, 3, 4, 3 and 45% of the texts: thresholds one unit apart gave 1.736 nats, and stayed there."""
    texts = random_texts(1000, seed=0)
    entropy = float(-(SHARES * np.log(SHARES)).sum())
    assert entropy == pytest.approx(1.058, abs=1e-3)
    found = {}
    for is_ordinal in (False, True):
        trainer, _ = trained(texts, tmp_path / str(is_ordinal), is_ordinal=is_ordinal)
        found[is_ordinal] = trainer.evaluate()["eval_cross_entropy_nats"]
    assert entropy - 1e-3 < found[True] < entropy + 0.02
    assert found[True] < found[False] + 0.01


def test_thresholds_move_to_where_the_labels_are(tmp_path: Path) -> None:
    """From equal shares, most of the way in 250 steps: at the rate of the other weights it stayed at 1.60."""
    texts = random_texts(1000, seed=0)
    torch.manual_seed(0)
    model: Any = ContextualBertForSequenceClassification(ContextualBertConfig(**SIZES, is_ordinal=True))
    start = model.classifier.thresholds.detach().clone()
    settings: dict[str, Any] = {"learning_rate": 1e-4, "num_train_epochs": 8, "per_device_train_batch_size": 32}
    arguments = training_arguments(tmp_path, device="cpu", **settings, **QUIET)
    trainer = ContextualBertTrainer(model, arguments, train_dataset=texts, eval_dataset=texts)
    before = trainer.evaluate()["eval_cross_entropy_nats"]
    trainer.train()
    assert before > 1.6
    assert trainer.evaluate()["eval_cross_entropy_nats"] < 1.25
    assert float((model.classifier.thresholds - start).abs().max()) > 0.5


@pytest.mark.parametrize(("has_bert", "rate_of_new"), [(False, None), (True, None), (True, 2e-4), (True, 0.05)])
def test_thresholds_have_a_rate_of_their_own_and_no_weight_decay(
    has_bert: bool, rate_of_new: float | None, tmp_path: Path
) -> None:
    config = miniature_config("film", has_pretrained_start=has_bert, is_ordinal=True, num_labels=4)
    model = ContextualBertForSequenceClassification(config)
    rates = {"learning_rate": 1e-4, "weight_decay": 0.1, "new_weights_learning_rate": rate_of_new}
    arguments = training_arguments(tmp_path, device="cpu", **rates, **QUIET, eval_strategy="no")
    groups = ContextualBertTrainer(model, arguments).create_optimizer().param_groups
    found = {id(weight): (group["lr"], group["weight_decay"]) for group in groups for weight in group["params"]}
    assert len(found) == sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    classifier: Any = model.classifier
    assert isinstance(classifier, OrdinalClassifier)
    assert found[id(classifier.thresholds)] == (max(THRESHOLD_LEARNING_RATE, rate_of_new or 0), 0.0)
    assert found[id(classifier.score.weight)] == (rate_of_new or 1e-4, 0.1)
