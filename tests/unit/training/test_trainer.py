"""The trainer: losses that no cut into batches changes, evaluation by a full ranking, and a plain Trainer beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from contextual_bert.baselines import BagOfItems
from contextual_bert.data import EveryPosition, MaskingCollator, SequenceDataset, ShuffledContext
from contextual_bert.data.dataset import LengthBucketSampler
from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.inference import score
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask
from contextual_bert.training import ContextualBertTrainer, MaskEpoch, training_arguments
from contextual_bert.training.objectives import WholeBatchSampler

NO_SAVING = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def model_for(data: SetCompletionTask, *, conditioning: str = "global_state_update", **fields: Any) -> torch.nn.Module:
    set_seed(0)
    if conditioning == "bag":
        return BagOfItems(len(data.processor.items), layout=(), hidden_size=16, dropout=fields["hidden_dropout_prob"])
    config = ContextualBertConfig.from_schema(
        data.processor.schema,
        conditioning=conditioning,
        vocab_size=len(data.processor.items),
        **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, **fields},
    )
    return ContextualBertForMaskedLM(config)


def trainer_for(
    data: SetCompletionTask, model: torch.nn.Module, folder: Path, **settings: Any
) -> ContextualBertTrainer:
    arguments = training_arguments(
        folder, device="cpu", disable_tqdm=True, logging_steps=1, **{**NO_SAVING, "learning_rate": 0.01, **settings}
    )
    return ContextualBertTrainer(
        model,
        arguments,
        train_dataset=data.datasets["train"],
        eval_dataset=data.datasets["validation"],
        processor=data.processor,
    )


def losses(trainer: Trainer) -> list[float]:
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


class FirstGradient(TrainerCallback):
    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        self.values = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("conditioning", ["global_state_update", "bag"])
def test_accumulated_batches_give_the_gradient_of_the_whole_one(
    tiny_data: SetCompletionTask, tmp_path: Path, conditioning: str
) -> None:
    found: list[dict[str, torch.Tensor]] = []
    for size, accumulated in ((16, 1), (4, 4)):
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        trainer = trainer_for(
            tiny_data,
            model_for(tiny_data, conditioning=conditioning, **still),
            tmp_path,
            max_steps=1,
            max_grad_norm=0.0,
            masks_per_set=6,  # sets of four and five items are masked whole, so the numbers of masks differ
            train_sampling_strategy="sequential",
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulated,
        )
        trainer.add_callback(recorder := FirstGradient())
        trainer.train()
        found.append(recorder.values)
    sizes = tiny_data.datasets["train"].sizes[:16].clip(max=6).reshape(4, 4).sum(axis=1)
    assert len(set(sizes.tolist())) > 1
    assert max(float(value.abs().max()) for value in found[0].values()) > 1e-3
    for name, whole in found[0].items():
        torch.testing.assert_close(found[1][name], whole, rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("masks_per_set", [1, 3])
def test_other_sets_are_evaluated_as_those_that_choose(
    tiny_data: SetCompletionTask, tmp_path: Path, masks_per_set: int
) -> None:
    """Every position masked once, whatever training masks and whatever epoch it is."""
    model = model_for(tiny_data, initializer_range=0.5)
    trainer = trainer_for(tiny_data, model, tmp_path, masks_per_set=masks_per_set)
    sets = tiny_data.datasets["validation"]
    expected = trainer.evaluate()["eval_cross_entropy_nats"]
    assert trainer.evaluate(sets)["eval_cross_entropy_nats"] == expected
    found = trainer.predict(sets)
    assert found.metrics["test_cross_entropy_nats"] == expected
    assert len(found.label_ids) == int(sets.sizes.sum())
    several = ContextualBertTrainer(
        model, trainer.args, eval_dataset={"a": sets, "b": tiny_data.datasets["test"]}, processor=tiny_data.processor
    ).evaluate()
    assert several["eval_a_cross_entropy_nats"] == expected
    assert several["eval_b_cross_entropy_nats"] != expected


def test_evaluation_is_a_full_ranking_of_every_position(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    model: Any = model_for(tiny_data, initializer_range=0.5).eval()
    trainer = trainer_for(tiny_data, model, tmp_path, per_device_eval_batch_size=50)
    metrics = trainer.evaluate()
    scores = score(model, tiny_data.datasets["validation"])
    assert len(scores) == tiny_data.datasets["validation"].sizes.sum()
    assert metrics["eval_cross_entropy_nats"] == pytest.approx(-scores.log_probability.mean(), abs=1e-6)
    assert metrics["eval_loss"] == metrics["eval_cross_entropy_nats"]
    recall = 100 * float(np.clip((5 - scores.num_better) / scores.num_tied, 0, 1).mean())
    assert metrics["eval_recall_at_5_percent"] == pytest.approx(recall)


@pytest.mark.parametrize("conditioning", ["none", "bag"])
def test_items_that_the_vocabulary_lacks_are_left_out_of_the_evaluation(
    tiny_data: SetCompletionTask, tmp_path: Path, conditioning: str
) -> None:
    validation = tiny_data.datasets["validation"]
    items = validation.input_ids.clone()
    items[::3] = 2
    changed = SequenceDataset(items, validation.offsets, context=validation.context, example_ids=validation.example_ids)
    model: Any = model_for(tiny_data, conditioning=conditioning, hidden_dropout_prob=0.1).eval()
    trainer = trainer_for(tiny_data, model, tmp_path)
    metrics = trainer.evaluate(EveryPosition(changed))
    result = score(model, changed)
    assert result.num_unknown_targets == int((items == 2).sum()) > 0
    assert len(result) == int((items != 2).sum())
    assert metrics["eval_loss"] == pytest.approx(-result.log_probability.mean(), abs=1e-6)


def test_the_best_epoch_is_the_best_by_the_metric_that_is_named(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    epochs = {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True, "num_train_epochs": 5}
    metric = {"metric_for_best_model": "recall_at_20_percent"}
    trainer = trainer_for(tiny_data, model_for(tiny_data), tmp_path, **epochs, **metric, learning_rate=0.1)
    trainer.train()
    recalls = [log["eval_recall_at_20_percent"] for log in trainer.state.log_history if "eval_loss" in log]
    assert len(recalls) == 5
    assert min(recalls) < max(recalls) == trainer.state.best_metric == trainer.evaluate()["eval_recall_at_20_percent"]


def test_a_metric_that_no_evaluation_gives(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    settings = {"eval_strategy": "epoch", "save_strategy": "epoch", "metric_for_best_model": "recall_at_3_percent"}
    with pytest.raises(
        UnknownNameError, match=r"metric_for_best_model='recall_at_3_percent' is unknown. Did you mean 'recall"
    ):
        trainer_for(tiny_data, model_for(tiny_data), tmp_path, **settings)


def test_patience_needs_something_to_wait_for(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    never = {"eval_strategy": "no", "load_best_model_at_end": False}
    arguments = training_arguments(tmp_path, device="cpu", **never)
    with pytest.raises(ConfigurationError, match=r"patience=2 counts evaluations .* eval_strategy='no'"):
        ContextualBertTrainer(
            model_for(tiny_data),
            arguments,
            train_dataset=tiny_data.datasets["train"],
            processor=tiny_data.processor,
            patience=2,
        )


def test_an_evaluation_reads_the_last_batch_though_training_drops_it(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    model: Any = model_for(tiny_data).eval()
    whole = trainer_for(tiny_data, model, tmp_path).evaluate()
    dropping = {"dataloader_drop_last": True, "per_device_train_batch_size": 50, "per_device_eval_batch_size": 50}
    trainer = trainer_for(tiny_data, model, tmp_path, **dropping)
    num_rows = len(tiny_data.datasets["train"])
    assert num_rows % 50 > 0
    assert sum(len(batch["input_ids"]) for batch in trainer.get_train_dataloader()) == num_rows - num_rows % 50
    assert trainer.get_eval_dataloader().drop_last is False
    assert trainer.evaluate()["eval_loss"] == pytest.approx(whole["eval_loss"], abs=1e-6)


def test_the_loss_is_exact_where_only_the_loss_is_asked_for(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    model: Any = model_for(tiny_data).eval()
    whole = trainer_for(tiny_data, model, tmp_path, per_device_eval_batch_size=10_000).evaluate()
    trainer = trainer_for(tiny_data, model, tmp_path, prediction_loss_only=True, per_device_eval_batch_size=7)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(whole["eval_loss"], abs=1e-6)


def test_batches_have_one_length_and_the_masks_change_from_epoch_to_epoch(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    batches: list[dict[str, Any]] = []
    trainer = trainer_for(tiny_data, model_for(tiny_data), tmp_path, num_train_epochs=2, per_device_train_batch_size=16)
    collate: Any = trainer.data_collator

    def recorded(batch: Any) -> dict[str, Any]:
        output = {**collate(batch), "example_ids": batch.example_ids}
        batches.append(dict(output))
        del output["example_ids"]
        return output

    trainer.data_collator = recorded
    trainer.train()
    steps = trainer.state.max_steps // 2
    assert len(batches) == 2 * steps == 22
    assert sum("attention_mask" in batch for batch in batches) <= 2 * 5
    masks: list[dict[int, int]] = []
    for epoch in (batches[:steps], batches[steps:]):
        masks.append(
            {
                int(example): int((labels != -100).nonzero()[0])
                for batch in epoch
                for example, labels in zip(batch["example_ids"], batch["labels"], strict=True)
            }
        )
    assert masks[0].keys() == masks[1].keys()
    assert 0.5 < np.mean([masks[0][example] != masks[1][example] for example in masks[0]]) < 1


def test_bfloat16_trains_with_the_loss_in_float32(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    outputs: list[tuple[torch.dtype, torch.dtype]] = []
    trainers: list[ContextualBertTrainer] = []
    for dtype in ("float32", "bfloat16"):
        arguments = training_arguments(
            tmp_path,
            device="cpu",
            dtype=dtype,
            disable_tqdm=True,
            logging_steps=1,
            num_train_epochs=3,
            per_device_train_batch_size=32,
            learning_rate=0.01,
            **NO_SAVING,
        )
        model: Any = model_for(tiny_data)
        inner = model.bert.encoder.layer[0].intermediate.dense
        dtypes = outputs
        inner.register_forward_hook(
            lambda module, _, output, dtypes=dtypes: dtypes.append((module.weight.dtype, output.dtype))
        )
        trainer = ContextualBertTrainer(
            model, arguments, train_dataset=tiny_data.datasets["train"], processor=tiny_data.processor
        )
        trainer.train()
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        trainers.append(trainer)
    assert outputs[0] == (torch.float32, torch.float32)
    assert outputs[-1] == (torch.float32, torch.bfloat16)
    exact, rounded = (losses(trainer) for trainer in trainers)
    assert np.mean(rounded[12:]) < rounded[0] - 0.1
    assert rounded == pytest.approx(exact, abs=0.05)
    assert rounded != exact
    # A loss in bfloat16 would be a multiple of 1/32 nats.
    assert rounded[0] == pytest.approx(exact[0], abs=0.01)
    assert any(float(torch.tensor(loss).bfloat16()) != pytest.approx(loss, abs=1e-4) for loss in rounded)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_that_diverges_ends_at_the_next_log(
    tiny_data: SetCompletionTask, tmp_path: Path, dtype: str
) -> None:
    model = model_for(tiny_data)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    arguments = training_arguments(
        tmp_path, device="cpu", dtype=dtype, disable_tqdm=True, logging_steps=2, num_train_epochs=3, **NO_SAVING
    )
    trainer = ContextualBertTrainer(
        model, arguments, train_dataset=tiny_data.datasets["train"], processor=tiny_data.processor
    )
    advice = "smaller learning_rate, or in float32" if dtype == "bfloat16" else r"smaller learning_rate\."
    with pytest.raises(ConfigurationError, match=f"The training diverged: its loss is nan at step 2.*{advice}"):
        trainer.train()


def test_evaluation_is_in_float32_after_a_training_in_bfloat16(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    for conditioning in ("none", "bag"):
        model: Any = model_for(tiny_data, conditioning=conditioning, hidden_dropout_prob=0.1)
        arguments = training_arguments(
            tmp_path, device="cpu", dtype="bfloat16", disable_tqdm=True, max_steps=2, **NO_SAVING
        )
        trainer = ContextualBertTrainer(
            model,
            arguments,
            train_dataset=tiny_data.datasets["train"],
            eval_dataset=tiny_data.datasets["validation"],
            processor=tiny_data.processor,
        )
        trainer.train()
        metrics = trainer.evaluate()
        copy: Any = model_for(tiny_data, conditioning=conditioning, hidden_dropout_prob=0.1)
        copy.load_state_dict(model.state_dict())
        exact = trainer_for(tiny_data, copy.eval(), tmp_path).evaluate()
        assert metrics["eval_loss"] == exact["eval_loss"]


def test_compiled_models_train(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    settings: dict[str, Any] = {"max_steps": 2, "per_device_train_batch_size": 32}
    plain = trainer_for(tiny_data, model_for(tiny_data, **still), tmp_path, **settings)
    plain.train()
    compiled = trainer_for(
        tiny_data,
        model_for(tiny_data, **still),
        tmp_path,
        torch_compile=True,
        torch_compile_backend="aot_eager",
        **settings,
    )
    compiled.train()
    assert isinstance(compiled.model_wrapped, torch._dynamo.OptimizedModule)
    assert losses(compiled) == pytest.approx(losses(plain), abs=1e-4)
    assert compiled.evaluate()["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"], abs=1e-4)
    compiled.save_model(str(tmp_path / "saved"))
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path / "saved")
    for name, weight in again.state_dict().items():
        torch.testing.assert_close(weight, compiled.model.state_dict()[name])


def test_a_plain_trainer_trains_the_same_model(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 32,
        "train_sampling_strategy": "sequential",
    }
    ours = trainer_for(tiny_data, model_for(tiny_data), tmp_path, lr_scheduler_type="linear", **settings)
    ours.train()
    collator = MaskingCollator(mask_id=1, pad_id=0)
    plain = Trainer(
        model_for(tiny_data),
        TrainingArguments(
            str(tmp_path),
            use_cpu=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            logging_steps=1,
            seed=0,
            learning_rate=0.01,
            weight_decay=0.01,
            warmup_steps=0.05,
            save_strategy="no",
            remove_unused_columns=False,
            **settings,
        ),
        data_collator=collator,
        train_dataset=tiny_data.datasets["train"],
        callbacks=[MaskEpoch(collator)],
    )
    plain.train()
    assert collator.epoch == 1
    assert losses(plain) == losses(ours)
    assert losses(plain)[-1] < losses(plain)[0] - 0.1


def test_the_whole_batch_sampler_fills_only_the_last_batch() -> None:
    assert list(WholeBatchSampler(6, batch_size=3)) == [0, 1, 2, 3, 4, 5]
    for num_rows in range(1, 9):
        sampler = WholeBatchSampler(num_rows, batch_size=4)
        assert len(list(sampler)) == len(sampler) == (4 if num_rows <= 4 else 8)
        assert sorted(set(sampler)) == list(range(num_rows))
    assert list(WholeBatchSampler(0, batch_size=3)) == []


def test_the_order_of_training_follows_the_seed(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    orders: list[list[int]] = []
    for seed in (0, 0, 1):
        arguments = training_arguments(tmp_path, device="cpu", seed=seed, **NO_SAVING)
        trainer = ContextualBertTrainer(
            model_for(tiny_data), arguments, train_dataset=tiny_data.datasets["train"], processor=tiny_data.processor
        )
        sampler = trainer._get_train_sampler()
        assert sampler is not None
        orders.append(list(sampler))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(len(tiny_data.datasets["train"])))


def test_the_last_epochs_of_a_training_mask_one_item(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    counts: list[set[int]] = []
    settings = {"num_train_epochs": 3, "masks_per_set": 2, "one_mask_epochs": 2}
    trainer = trainer_for(tiny_data, model_for(tiny_data), tmp_path, **settings)
    collate: Any = trainer.data_collator

    def recorded(batch: Any) -> dict[str, Any]:
        output = collate(batch)
        counts.append(set((output["labels"] != -100).sum(dim=1).tolist()))
        return output

    trainer.data_collator = recorded
    trainer.train()
    steps = trainer.state.max_steps // 3
    assert counts == steps * [{2}] + 2 * steps * [{1}]


def test_a_shuffled_context_is_dealt_out_anew_each_epoch(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    shuffled = ShuffledContext(tiny_data.datasets["train"], seed=0)
    model = model_for(tiny_data, conditioning="global_state")
    settings = {"eval_strategy": "no", "load_best_model_at_end": False, "report_to": []}
    arguments = training_arguments(tmp_path, device="cpu", num_train_epochs=2, **settings)
    trainer = ContextualBertTrainer(model, arguments, train_dataset=shuffled, processor=tiny_data.processor)
    orders: list[tuple[int, ...]] = []
    collate: Any = trainer.data_collator

    def recorded(batch: Any) -> dict[str, Any]:
        orders.append(tuple(shuffled.order.tolist()))
        return collate(batch)

    trainer.data_collator = recorded
    trainer.train()
    assert len(dict.fromkeys(orders)) == 2


def test_one_callback_tells_the_epoch_however_often_batches_are_asked_for(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    trainer = trainer_for(tiny_data, model_for(tiny_data), tmp_path)
    for _ in range(2):
        trainer.get_train_dataloader()
    (told,) = [each for each in trainer.callback_handler.callbacks if isinstance(each, MaskEpoch)]
    assert sum(isinstance(each, LengthBucketSampler) for each in told.followers) == 1
