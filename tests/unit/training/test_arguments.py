"""Which dtype is the faster one, whatever this machine has; settings of a kind that the trainer cannot use; which way a
metric is better.
"""

from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
import torch
from transformers import IntervalStrategy, SchedulerType, TrainingArguments

from contextual_bert.errors import ConfigurationError
from contextual_bert.training import devices
from contextual_bert.training.arguments import (
    ContextualTrainingArguments,
    refusals_in_words,
    training_arguments,
)
from contextual_bert.training.devices import bfloat16_speed, emulation_lines, fast_dtype
from contextual_bert.training.setting_checks import FIXED, PLAIN, check_settings
from contextual_bert_cli.wording import in_options


@pytest.mark.parametrize(
    ("capabilities", "speed", "dtype"),
    [
        ({"avx2": True, "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, None, "float32"),
        ({"avx512_bf16": True}, 1.9, "bfloat16"),
        ({"avx512_bf16": True}, 0.5, "float32"),
        ({"amx_bf16": True, "avx512_bf16": False}, 8.0, "bfloat16"),
        ({"neon": True, "bf16": True}, 2.0, "bfloat16"),
        ({"neon": True, "bf16": False}, None, "float32"),
    ],
)
def test_bfloat16_where_its_products_are_faster(
    capabilities: dict[str, bool], speed: float | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``speed`` is that of products in bfloat16, of float32 1; None where nothing need be timed."""

    def measured() -> float:
        assert speed is not None
        return speed

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(devices, "bfloat16_speed", measured)
    assert fast_dtype("cpu") == dtype


@pytest.mark.parametrize(
    ("capabilities", "dtype", "is_said"),
    [({}, "bfloat16", True), ({"avx512_bf16": True}, "bfloat16", False), ({}, "float32", False)],
)
def test_a_processor_that_must_emulate_bfloat16_is_pointed_out(
    capabilities: dict[str, bool], dtype: str, is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert ["--dtype float32" in in_options(line) for line in emulation_lines("cpu", dtype)] == [True] * is_said


def test_the_speed_is_measured_once() -> None:
    first = bfloat16_speed()
    assert 0 < first < 100
    assert bfloat16_speed() is first


def test_of_an_unknown_device() -> None:
    with pytest.raises(ConfigurationError, match="device='gpu'"):
        fast_dtype("gpu")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("weight_decay", "x", "Give a number"),
        ("weight_decay", True, "Give a number"),
        ("max_steps", 1.5, "Give a whole number"),
        ("torch_compile", 1, "Give true or false"),
        ("report_to", 3, "Give a string or a list"),
        ("save_total_limit", "all", "Give a whole number"),
        ("gradient_accumulation_steps", 0, "Give a number above 0"),
        ("gradient_accumulation_steps", 1.5, "Give a whole number"),
        ("num_train_epochs", True, "Give a number above 0"),
        ("weight_decay", -0.1, "Give 0 or more"),
        ("max_grad_norm", float("inf"), "Give 0 or more"),
        ("dataloader_num_workers", -1, "Give 0 or more"),
        ("max_steps", 0, "Give 1 or more, or leave it out"),
        ("adam_beta1", 2, "Give a share, a number from 0 to below 1"),
        ("train_sampling_strategy", "randm", r"Did you mean 'random'\?"),
        ("lr_scheduler_type", "cosin", r"Did you mean 'cosine'\?"),
    ],
)
def test_a_setting_of_another_kind(name: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name}={value!r} is (not allowed|unknown)\. {words}.*$"):
        check_settings({name: value})


def test_settings_as_users_of_transformers_write_them() -> None:
    check_settings({"lr_scheduler_type": SchedulerType.LINEAR, "eval_strategy": IntervalStrategy.NO, "optim": "sgd"})
    check_settings({"max_steps": -1, "eval_accumulation_steps": None, "context_learning_rate": None})
    check_settings({"weight_decay": 0, "logging_steps": 0.5, "save_total_limit": None, "report_to": ["tensorboard"]})


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_the_trainers_would_ignore_or_break_at(name: str) -> None:
    assert name in {field.name for field in fields(TrainingArguments)}
    with pytest.raises(ConfigurationError, match=f"{name}.* changes nothing here, or what must not be changed"):
        check_settings({name: True})


def test_what_another_option_says() -> None:
    with pytest.raises(
        ConfigurationError, match=r"resume_from_checkpoint.* is set elsewhere. Give resume=\.\.\. in its place"
    ):
        check_settings({"resume_from_checkpoint": "runs/gsu"})


def test_no_momentum_as_an_integer(tmp_path: Path) -> None:
    assert isinstance(training_arguments(tmp_path, device="cpu", adam_beta1=0).adam_beta1, float)  # torch wants one


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"warmup_steps": 1.5, "save_strategy": "nver"}, "save_strategy=.nver. is unknown"),
        ({"dataloader_multiprocessing_context": "spawn"}, "are for workers, and there are none"),
    ],
)
def test_what_transformers_refuses_is_a_sentence(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=words):
        training_arguments(tmp_path, device="cpu", **settings)


def test_what_no_setting_has_caused_keeps_its_class() -> None:
    with pytest.raises(ValueError, match="ours"), refusals_in_words({}):
        raise ValueError("ours")
    with pytest.raises(torch.OutOfMemoryError), refusals_in_words({"optim": "sgd"}):
        raise torch.OutOfMemoryError("full")


@pytest.mark.parametrize(
    ("settings", "is_greater_better"),
    [
        ({}, False),
        ({"metric_for_best_model": "recall_at_1_percent"}, True),
        ({"metric_for_best_model": "eval_mean_reciprocal_rank"}, True),
        ({"metric_for_best_model": "expected_calibration_error"}, False),
        ({"metric_for_best_model": "eval_loss"}, False),
        ({"metric_for_best_model": "recall_at_1_percent", "greater_is_better": False}, False),
        ({"metric_for_best_model": "somebody_elses"}, True),
    ],
)
def test_which_way_a_metric_is_better(settings: dict[str, Any], is_greater_better: bool, tmp_path: Path) -> None:
    assert training_arguments(tmp_path, device="cpu", **settings).greater_is_better is is_greater_better


def test_workers_that_stay_are_refused_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="are for workers, and there are none"):
        ContextualTrainingArguments(output_dir=str(tmp_path), use_cpu=True, dataloader_persistent_workers=True)


def test_plain_settings_have_the_types_of_the_arguments() -> None:
    known = get_type_hints(ContextualTrainingArguments)
    for name, types in PLAIN.items():
        own = {each for each in get_args(known[name]) or (known[name],) if each is not NoneType}
        assert set(types) == ({float, int} if float in own else own)  # strict floats take whole numbers


@pytest.mark.parametrize(
    ("name", "value"), [("masks_per_set", True), ("num_train_epochs", "3"), ("masks_per_set", 1.5)]
)
def test_plain_settings_of_another_type_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        check_settings({name: value})
