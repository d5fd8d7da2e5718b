"""A recipe is a JSON file that comes back as it went; what cannot work is refused when it is made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.data import SetPolicy
from contextual_bert.errors import ConfigurationError, ContextualBertError, RunDirectoryError, UnknownNameError
from contextual_bert.training import (
    Classification,
    ContextualTrainingArguments,
    MaskedText,
    Recipe,
    SetCompletion,
    Tagging,
    TaskSettings,
    devices,
    training_arguments,
)

RECIPE = Recipe(
    data="days.parquet",
    task=SetCompletion(
        items="codes",
        policy=SetPolicy(drop_items=("a",), drop_prefixes=("18", "19"), min_count=3, max_size=8, longer="sample"),
    ),
    customer="person",
    time="date",
    split_by="time",
    exclude=("weight",),
    conditioning="concat",
    model={"hidden_size": 16},
    training={"num_train_epochs": 3, "masks_per_set": 2},
    patience=2,
    dtype="bfloat16",
    seed=5,
)


def of_task(**changes: Any) -> dict[str, Any]:
    return {"task": {**RECIPE.to_dict()["task"], **changes}}


def test_round_trip(tmp_path: Path) -> None:
    assert Recipe.from_dict(json.loads(json.dumps(RECIPE.to_dict()))) == RECIPE
    for content in (RECIPE.to_dict(), {"recipe": RECIPE.to_dict(), "resolved": {}}):
        (tmp_path / "recipe.json").write_text(json.dumps(content))
        assert Recipe.load(tmp_path) == RECIPE
    assert replace(RECIPE, seed=0).with_seed(5) == RECIPE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"condtioning": "none"}, "unknown key 'condtioning'. Did you mean 'conditioning'"),
        (of_task(policy={"min_sise": 3}), "task.policy.min_sise: unknown key 'min_sise'. Did you mean 'min_size'"),
        (of_task(policy={"min_size": "three"}), "task.policy.min_size: 'three' is not allowed. Give a whole number"),
        (of_task(policy=3), "task.policy: 3 "),
        (of_task(policy=None), "task.policy: None "),
        (of_task(label="stars"), "task.label: unknown key 'label'"),
        (of_task(kind="set_completoin"), "No task 'set_completoin'. Did you mean 'set_completion'"),
        (of_task(kind=None), "No task None"),
        ({"task": "set_completion"}, "task: 'set_completion' is no record"),
        ({"task": {"kind": "set_completion"}}, "task.items: it is missing"),
        ({"task": {"kind": "classification", "text": "text", "checkpoint": "bert"}}, "task.label: it is missing"),
        ({"data": 5}, "data: 5 is not allowed. Give a string"),
        ({"training": ["learning_rate"]}, r"training: \['learning_rate'\] is not allowed. Give an object"),
        ({"split_by": "person"}, "split_by: 'person' is not allowed. Give 'customer', 'time' or 'row'"),
        ({"format": "contextual-bert recipe 2"}, "'contextual-bert recipe 2'.*another version"),
        ({"format": None}, "another version"),
    ],
)
def test_a_recipe_of_another_version_or_with_a_mistake(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RunDirectoryError, match=message):
        Recipe.from_dict({**RECIPE.to_dict(), **change})


def test_a_column_that_is_excluded_is_not_sensitive() -> None:
    with pytest.raises(ConfigurationError, match=r"names 'weight'.*Leave one of the two out"):
        replace(RECIPE, sensitive=("age", "weight"))


@pytest.mark.parametrize("name", ["data", "task"])
def test_an_incomplete_recipe(name: str) -> None:
    content = {key: value for key, value in RECIPE.to_dict().items() if key != name}
    with pytest.raises(RunDirectoryError, match=f"{name}: it is missing"):
        Recipe.from_dict(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is no run directory"), ("{", "not valid JSON"), ("[]", "holds no recipe"), ("{}", "another version")],
)
def test_a_directory_without_a_recipe(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=message):
        Recipe.load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training": {"learning_rat": 1}}, "is no training setting. Did you mean 'learning_rate'"),
        ({"training": {"seed": 1}}, "Give seed=1 in its place"),
        ({"training": {"output_dir": "x"}}, "Give output=... in its place"),
        ({"training": {"bf16": True}}, "Give dtype=... in its place"),
        ({"training": {"masks_per_set": 0}}, "masks_per_set=0"),
        (
            {"training": {"item_weight_decay": 0.1}},
            r"item_weight_decay=0\.1 is for the own vectors of items that have features, and no catalogue has some\. "
            r"Name the table of the items with catalogue=\.\.\., or leave it out",
        ),
        (
            {"task": Classification(text="a", label="b"), "training": {"item_weight_decay": 0.1}},
            r"items that have features, and this is a table of texts\. Leave it out",
        ),
        ({"training": {"learning_rate": float("nan")}}, "learning_rate=nan"),
        ({"model": {"hidden_sise": 3}}, "'hidden_sise'.*Did you mean 'hidden_size'"),
        ({"model": {"vocab_size": 3}}, "vocab_size.* is no field .* that can be set for sets of items"),
        (
            {"model": {"mask_token_id": 7}},
            "mask_token_id.* is no field .*Known: attention_probs.*follows from the recipe, its data",
        ),
        ({"model": {"classifier_pooling": "mean"}}, "classifier_pooling.* is no field"),
        (
            {"task": MaskedText(checkpoint="bert"), "model": {"hidden_size": 8}},
            "hidden_size.* is no field .* for hidden words of texts",
        ),
        (
            {"task": MaskedText(checkpoint="bert"), "init_from": "runs/a"},
            "this is for hidden words of texts. Name a run to go on from as the checkpoint",
        ),
        ({"split_by": "customer"}, "customer=..."),
        ({"split_by": "time"}, "time=..."),
        ({"patience": 0}, "patience=0"),
        ({"split": "split.json", "test": 0.2}, r"test=0.2 says how a split is made, and split='split.json'"),
        ({"split": "split.json", "split_seed": 1}, r"split_seed=1 says"),
    ],
)
def test_what_cannot_work_is_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ContextualBertError, match=message):
        Recipe(data="days.parquet", task=SetCompletion(items="codes")).changed(**settings)


TEXTS: dict[str, Any] = {"text": "review", "checkpoint": "bert-base-uncased"}


@pytest.mark.parametrize(
    ("task", "name", "problem", "lacking"),
    [
        (SetCompletion(items="codes"), "global_stat", "is unknown. Did you mean 'global_state'?", "cnn"),
        (SetCompletion(items="codes"), "cnn", "is no baseline for sets of items", "cnn"),
        (Classification(label="stars", **TEXTS), "bag", "is no baseline for labels of texts", "bag"),
        (Tagging(label="tags", **TEXTS), "tfidf", "is no baseline for tags of words", "tfidf"),
        (MaskedText(**TEXTS), "cnn", "is no baseline for hidden words of texts", "cnn"),
    ],
    ids=["misspelt", "of texts", "of sets", "of labels", "of hidden words"],
)
def test_a_conditioning_is_one_of_its_tasks(task: TaskSettings, name: str, problem: str, lacking: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Recipe(data="days.parquet", task=task, conditioning=name)
    assert caught.value.location == ("conditioning",) and caught.value.value == name
    assert problem in str(caught.value)
    known = caught.value.allowed.partition("Known: ")[2].rstrip(".").split(", ")
    assert {"none", "global_state", *task.baselines} <= {*known} and lacking not in known


@pytest.mark.parametrize("name", ["", " ", 3])
@pytest.mark.parametrize("field", ["items", "group_by", "customer", "exclude", "text", "label"])
def test_a_column_has_a_name(field: str, name: Any) -> None:
    def made() -> Recipe:
        if field in ("text", "label"):
            columns: dict[str, Any] = {"text": "review", "label": "stars", field: name}
            return Recipe(data="days.parquet", task=Classification(checkpoint="bert", **columns))
        value: Any = (name,) if field in ("group_by", "exclude") else name
        given: dict[str, Any] = {field: value}
        if field in ("items", "group_by"):
            return Recipe(data="days.parquet", task=SetCompletion(**{"items": "codes", **given}))
        return Recipe(data="days.parquet", task=SetCompletion(items="codes"), **given)

    with pytest.raises(ConfigurationError, match="Give") as caught:
        made()
    assert caught.value.location == (field,)


def test_our_defaults_are_the_recipes(tmp_path: Path) -> None:
    arguments = training_arguments(tmp_path, device="cpu", dtype="bfloat16", seed=7, masks_per_set=2)
    assert (arguments.seed, arguments.data_seed, arguments.bf16, arguments.masks_per_set) == (7, 7, True, 2)
    assert arguments.load_best_model_at_end
    assert arguments.metric_for_best_model == "cross_entropy_nats"
    assert arguments.remove_unused_columns is False
    assert arguments.restore_callback_states_from_checkpoint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "gpu"}, "device='gpu'"),
        ({"device": "cpu", "dtype": "float61"}, "dtype='float61'"),
        ({"device": "cpu", "warmup": 3}, "'warmup'"),
        ({"device": "cpu", "save_strategy": "steps"}, "does not work"),
    ],
)
def test_settings_of_the_command_line(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        training_arguments(tmp_path, **settings)


def test_no_masks_in_the_arguments_themselves(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="masks_per_set=0"):
        ContextualTrainingArguments(output_dir=str(tmp_path), use_cpu=True, masks_per_set=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"one_mask_epochs": 2}, "masks_per_set=1 every epoch is one"),
        ({"one_mask_epochs": 11, "masks_per_set": 2}, "up to num_train_epochs=10"),
        ({"one_mask_epochs": -1, "masks_per_set": 2}, "one_mask_epochs=-1"),
        ({"one_mask_epochs": 1, "masks_per_set": 2, "max_steps": 5}, "no max_steps"),
    ],
)
def test_last_epochs_that_cannot_be_counted(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        training_arguments(tmp_path, device="cpu", **settings)


@pytest.mark.parametrize(("epochs", "first"), [(10, 8), (2.5, 1), (2, 0)])
def test_the_first_epoch_with_one_mask(tmp_path: Path, epochs: float, first: int) -> None:
    settings: dict[str, Any] = {"num_train_epochs": epochs, "masks_per_set": 2}
    assert training_arguments(tmp_path, device="cpu", **settings).one_mask_from_epoch is None
    arguments = training_arguments(tmp_path, device="cpu", one_mask_epochs=2, **settings)
    assert arguments.one_mask_from_epoch == first


def test_the_name_of_a_row(tmp_path: Path) -> None:
    recipe = Recipe(data="a", task=SetCompletion(items="b"), conditioning="concat")
    assert recipe.label == "concat"
    assert replace(recipe, is_context_shuffled=True).label == "concat_shuffled"
    assert replace(recipe, is_context_shuffled=True, name="noise").label == "noise"
    for name in ("", "../up", "a b", ".hidden"):
        with pytest.raises(ConfigurationError, match="names a folder"):
            replace(recipe, name=name)


def test_the_faster_dtype_is_stated_by_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    monkeypatch.setattr(devices, "bfloat16_speed", lambda: 8.0)
    with_instructions = Recipe(data="days.parquet", task=SetCompletion(items="codes"), device="cpu", dtype="auto")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    without = Recipe.from_dict({**with_instructions.to_dict(), "dtype": "auto"})
    assert (with_instructions.dtype, without.dtype) == ("bfloat16", "float32")
    assert with_instructions.to_dict()["dtype"] == "bfloat16"


@pytest.mark.parametrize("hash_buckets", [-1, (1 << 20) + 1])
def test_a_number_out_of_its_bounds_is_told_with_both(hash_buckets: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Recipe(data="days.parquet", task=SetCompletion(items="items"), hash_buckets=hash_buckets)
    assert (caught.value.location, caught.value.value) == (("hash_buckets",), hash_buckets)
    assert caught.value.fix == "Give 0 to 1,048,576."
