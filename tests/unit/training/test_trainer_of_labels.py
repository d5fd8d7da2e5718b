"""The Trainer of labelled texts: what it computes where, beside what the runs on texts show of it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
)
from contextual_bert.testing import miniature_config
from contextual_bert.training import ContextualBertTrainer, add_lora, training_arguments

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 2,
}


def test_evaluation_reads_texts_of_one_length_together(tmp_path: Path) -> None:
    """Padding is not paid for, every text is read once, and what is found is that of the texts one by one."""
    lengths = torch.tensor([2, 9, 3, 8] * 10)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    ids = torch.randint(3, 23, (int(offsets[-1]),), generator=torch.Generator().manual_seed(0))
    texts = SequenceDataset(ids, offsets, context={}, labels=torch.arange(40) % 2)
    torch.manual_seed(0)
    model = ContextualBertForSequenceClassification(
        ContextualBertConfig(vocab_size=23, conditioning="none", initializer_range=0.5, **SIZES)
    )

    def trainer(batch_size: int, **more: Any) -> ContextualBertTrainer:
        settings: dict[str, Any] = {"per_device_eval_batch_size": batch_size, "report_to": [], **more}
        return ContextualBertTrainer(model, training_arguments(tmp_path, device="cpu", **settings), eval_dataset=texts)

    batches = list(trainer(10).get_eval_dataloader())
    assert [batch["input_ids"].shape[1] for batch in batches] == [2, 3, 8, 9]
    assert all(bool(batch["attention_mask"].all()) for batch in batches)
    assert sum(int(batch["input_ids"].sum()) for batch in batches) == int(ids.sum())
    together, alone = trainer(10).evaluate(), trainer(1).evaluate()
    for name in ("eval_loss", "eval_recall_at_1_percent"):
        assert together[name] == pytest.approx(alone[name], rel=1e-5)
    # What training leaves out, a last batch that is not full, is read here: 40 texts in batches of 16.
    assert sum(len(batch["labels"]) for batch in trainer(16, dataloader_drop_last=True).get_eval_dataloader()) == 40


def test_predictions_are_in_the_order_of_the_texts(tmp_path: Path) -> None:
    lengths = torch.tensor([9, 2, 8, 3, 5])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    ids = torch.randint(3, 23, (int(offsets[-1]),), generator=torch.Generator().manual_seed(0))
    texts = SequenceDataset(ids, offsets, context={}, labels=torch.tensor([0, 1, 2, 3, 4]))
    torch.manual_seed(0)
    sizes = {**SIZES, "num_labels": 5}
    model = ContextualBertForSequenceClassification(ContextualBertConfig(vocab_size=23, conditioning="none", **sizes))
    settings: dict[str, Any] = {"per_device_eval_batch_size": 2, "report_to": [], "dataloader_drop_last": True}
    trainer = ContextualBertTrainer(model, training_arguments(tmp_path, device="cpu", **settings), eval_dataset=texts)
    found = trainer.predict(texts)
    assert found.label_ids.tolist() == [0, 1, 2, 3, 4]
    with torch.no_grad():
        for row in range(5):
            alone = model.eval()(ids[offsets[row] : offsets[row + 1]][None]).logits.log_softmax(-1)[0, row]
            assert found.predictions[0][row] == pytest.approx(float(alone), abs=1e-5)


def test_what_it_cannot_evaluate_is_refused(tmp_path: Path) -> None:
    texts = SequenceDataset(torch.tensor([3, 4]), torch.tensor([0, 2]), context={}, labels=torch.tensor([0.5]))
    model = ContextualBertForSequenceClassification(miniature_config("none"))
    with pytest.raises(ConfigurationError, match=r"labels are numbers.*Take transformers' Trainer"):
        ContextualBertTrainer(model, training_arguments(tmp_path, device="cpu", report_to=[]), eval_dataset=texts)


def test_several_labels_a_text_are_evaluated(tmp_path: Path) -> None:
    labels = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    texts = SequenceDataset(torch.arange(3, 12), torch.tensor([0, 2, 5, 9]), context={}, labels=labels)
    sizes: dict[str, Any] = {**SIZES, "num_labels": 2, "problem_type": "multi_label_classification"}
    config = ContextualBertConfig(vocab_size=23, conditioning="none", **sizes)
    settings: dict[str, Any] = {"per_device_eval_batch_size": 2, "report_to": [], "device": "cpu"}
    best = {**settings, "metric_for_best_model": "micro_f1_percent", "eval_strategy": "epoch", "save_strategy": "epoch"}
    model = ContextualBertForSequenceClassification(config)
    trainer = ContextualBertTrainer(
        model, training_arguments(tmp_path, **best), train_dataset=texts, eval_dataset=texts
    )
    found = trainer.evaluate()
    with torch.no_grad():
        loss = model.eval()(**texts.collate_fn(texts.__getitems__([0, 1, 2]))).loss
    assert found["eval_loss"] == pytest.approx(float(loss), abs=1e-5)
    assert 0 <= found["eval_micro_f1_percent"] <= 100


def test_an_adapter_hides_no_new_weight_from_its_rate(tmp_path: Path) -> None:
    model = add_lora(ContextualBertForSequenceClassification(miniature_config("film", has_pretrained_start=True)))
    rates: dict[str, Any] = {"learning_rate": 1e-4, "new_weights_learning_rate": 1e-2, "report_to": []}
    rates |= {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
    trainer = ContextualBertTrainer(model, training_arguments(tmp_path, device="cpu", **rates))
    names = {id(weight): name for name, weight in model.named_parameters()}
    groups = trainer.create_optimizer().param_groups
    found = {names[id(weight)]: group["lr"] for group in groups for weight in group["params"]}
    assert {name: rate for name, rate in found.items() if "lora_" in name and rate != 1e-4} == {}
    new = [name for name in found if "classifier" in name or "pooler" in name or "conditioning" in name]
    assert len(new) > 4
    assert {found[name] for name in new} == {1e-2}


def test_accuracy_f1_and_rmse_are_evaluated_and_choose_the_best_epoch(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 23, (300,), generator=generator)
    grades = (ids[::5] > 13).long() + (ids[1::5] > 13).long()
    texts = SequenceDataset(ids, torch.arange(0, 301, 5), context={}, labels=grades)
    torch.manual_seed(0)
    names = {0: "1", 1: "2", 2: "4"}
    config = ContextualBertConfig(
        vocab_size=23, conditioning="none", initializer_range=0.5, **{**SIZES, "num_labels": 3, "id2label": names}
    )
    model = ContextualBertForSequenceClassification(config)
    settings: dict[str, Any] = {"num_train_epochs": 4, "learning_rate": 0.02, "report_to": [], "disable_tqdm": True}
    arguments = training_arguments(tmp_path, device="cpu", metric_for_best_model="rmse", **settings)
    assert (arguments.metric_for_best_model, arguments.greater_is_better) == ("root_mean_squared_error", False)
    trainer = ContextualBertTrainer(model, arguments, train_dataset=texts, eval_dataset=texts)
    trainer.train()
    logs = [log for log in trainer.state.log_history if "eval_loss" in log]
    assert trainer.state.best_metric == min(log["eval_root_mean_squared_error"] for log in logs)
    found = trainer.evaluate()
    with torch.no_grad():
        predicted = model.eval()(ids.view(60, 5)).logits.argmax(-1)
    values = torch.tensor([1.0, 2.0, 4.0])
    assert found["eval_accuracy_percent"] == pytest.approx(100 * float((predicted == grades).float().mean()))
    squared = (values[predicted] - values[grades]) ** 2
    assert found["eval_root_mean_squared_error"] == pytest.approx(float(squared.mean().sqrt()))
    f1 = [
        float(2 * ((predicted == each) & (grades == each)).sum() / ((predicted == each).sum() + (grades == each).sum()))
        for each in range(3)
    ]
    assert found["eval_macro_f1_percent"] == pytest.approx(100 * sum(f1) / 3)


def test_entities_are_counted_while_tags_are_learned(tmp_path: Path) -> None:
    pytest.importorskip("seqeval")
    ids = torch.randint(5, 23, (60,), generator=torch.Generator().manual_seed(0))
    labels = torch.where(ids % 2 == 0, 1, 0)
    texts = SequenceDataset(ids, torch.arange(0, 61, 5), context={}, labels=labels)
    sizes = {**SIZES, "num_labels": 2, "id2label": {0: "O", 1: "B-EVEN"}}
    model = ContextualBertForTokenClassification(ContextualBertConfig(vocab_size=23, conditioning="none", **sizes))
    best = {"metric_for_best_model": "entity_f1", "report_to": []}
    trainer = ContextualBertTrainer(model, training_arguments(tmp_path, device="cpu", **best), eval_dataset=texts)
    with torch.no_grad():
        predicted = model.eval()(ids.view(12, 5)).logits.argmax(-1)
    right = int(((predicted == 1) & (labels.view(12, 5) == 1)).sum())
    expected = 200 * right / max(1, int((predicted == 1).sum() + (labels == 1).sum()))
    assert trainer.evaluate()["eval_entity_f1_percent"] == pytest.approx(expected)
