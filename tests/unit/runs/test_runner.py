"""A run directory: all that is needed to use, check and repeat a run; whole or not there."""

import errno
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerControl

from contextual_bert.context import ContextSchema
from contextual_bert.data import SetPolicy, Split
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, UnknownNameError
from contextual_bert.evaluation import Report, summarise
from contextual_bert.inference import CompletionPipeline, score
from contextual_bert.manifest import write_manifest
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.runs import (
    SetCompletionTask,
    as_row,
    load_run,
    prepare,
    run,
    runner,
    study,
    sweep,
)
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.model_factory import build_model
from contextual_bert.runs.run_directory import load_history
from contextual_bert.runs.tasks import set_completion
from contextual_bert.runs.tasks.set_completion import FREQUENCY_FEATURE
from contextual_bert.training import Bars, ContextualBertTrainer, Recipe, TrainingProgress

FILES = {
    "README.md",
    "config.json",
    "history.json",
    "manifest.json",
    "metrics.json",
    "model.safetensors",
    "processor_config.json",
    "recipe.json",
    "schema.json",
    "split.json",
    "test_scores.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def finished(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("finished") / "run"
    run(replace(tiny_data.recipe, conditioning="global_state_update"), output, prepared=tiny_data, is_quiet=True)
    return output


def numbers(directory: Path) -> dict[str, Any]:
    """metrics.json without what differs between two equal runs: time and memory."""
    metrics = json.loads((directory / "metrics.json").read_text())
    del metrics["cost"]
    return metrics


def test_a_run_directory_is_complete(finished: Path, tiny_data: SetCompletionTask) -> None:
    assert {path.name for path in finished.iterdir() if path.is_file()} == FILES
    assert {path.name for path in finished.iterdir() if path.is_dir()} == {"checkpoints", "tensorboard"}
    assert ContextSchema.load(finished / "schema.json") == tiny_data.processor.schema
    assert Split.load(finished / "split.json").digest == tiny_data.split.digest
    written = json.loads((finished / "recipe.json").read_text())
    assert written["resolved"]["data_digest"] == tiny_data.split.data_digest
    assert written["resolved"]["model"]["conditioning"] == "global_state_update"
    assert written["resolved"]["training"]["learning_rate"] == 0.001
    assert {"torch", "python", "commit", "hardware"} <= written["environment"].keys()
    assert Recipe.load(finished) == replace(tiny_data.recipe, conditioning="global_state_update")
    cost = json.loads((finished / "metrics.json").read_text())["cost"]
    assert cost["parameters"] > 0
    assert cost["training_seconds"] > 0


def test_the_card_has_the_numbers_their_intervals_and_their_limits(
    finished: Path, tiny_data: SetCompletionTask
) -> None:
    card = (finished / "README.md").read_text()
    metrics = json.loads((finished / "metrics.json").read_text())
    for part in ("validation", "test"):
        interval = metrics[part]["metrics"]["cross_entropy_nats"]
        assert interval["low"] < interval["value"] < interval["high"]
        for key in ("value", "low", "high"):
            assert f"{interval[key]:.4f}" in card
    assert tiny_data.split.data_digest[:12] in card
    for heading in ("## Use", "## Data", "## Results", "## Limits", "## Provenance"):
        assert heading in card
    assert "gender, age" in card


def test_the_numbers_are_those_of_the_weights_in_the_directory(finished: Path, tiny_data: SetCompletionTask) -> None:
    pipeline = CompletionPipeline.from_pretrained(finished)
    again = score(pipeline.model, tiny_data.datasets["test"], batch_size=64)
    written = load_run(finished, name="global_state_update")
    for name, column in written.scores.as_arrays().items():
        np.testing.assert_array_equal(column, again.as_arrays()[name], err_msg=name)
    test = json.loads((finished / "metrics.json").read_text())["test"]["metrics"]
    assert test["cross_entropy_nats"]["value"] == summarise(again)["cross_entropy_nats"]
    answer: Any = pipeline({"items": ["coat-1"], "context": {"gender": "female"}})
    assert len(answer["slots"][0]["candidates"]) == 5


def test_the_same_recipe_gives_the_same_digits(finished: Path, tmp_path: Path) -> None:
    repeated = Recipe.load(finished)
    run(repeated, tmp_path / "again", is_quiet=True)
    assert numbers(tmp_path / "again") == numbers(finished)
    left, right = (load_file(folder / "model.safetensors") for folder in (finished, tmp_path / "again"))
    assert all(torch.equal(left[name], right[name]) for name in left)
    run(repeated.with_seed(1), tmp_path / "other", is_quiet=True)
    assert numbers(tmp_path / "other") != numbers(finished)


def test_a_run_trained_in_bfloat16_is_evaluated_as_it_was_scored(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    recipe = replace(tiny_data.recipe, conditioning="none", dtype="bfloat16", training={"num_train_epochs": 1})
    report = run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    assert report is not None
    again = evaluate_run(tmp_path).report
    assert json.loads(again.to_json())["metrics"] == json.loads(report.to_json())["metrics"]


def test_a_complete_run_is_not_replaced(finished: Path, tiny_data: SetCompletionTask) -> None:
    before = (finished / "metrics.json").read_bytes()
    for is_resumed in (False, True):
        with pytest.raises(ConfigurationError, match=r"complete run.*--overwrite"):
            run(tiny_data.recipe, finished, prepared=tiny_data, is_resumed=is_resumed, is_quiet=True)
    assert (finished / "metrics.json").read_bytes() == before


@pytest.mark.parametrize("place", ["write_card", "write_metrics", "save_scores"])
def test_a_full_disk_leaves_nothing_half_written(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe = replace(tiny_data.recipe, conditioning="none")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(runner, place, full)
        run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "tensorboard"}
    monkeypatch.setattr(ContextualBertTrainer, "train", lambda *_, **__: pytest.fail("trained again"))
    run(recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == FILES


def test_a_failed_checkpoint_is_not_resumed_from(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = ContextualBertTrainer._save_optimizer_and_scheduler
    steps: list[int] = []

    def full(self: ContextualBertTrainer, folder: str) -> None:
        steps.append(self.state.global_step)
        if len(steps) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        saved(self, folder)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(ContextualBertTrainer, "_save_optimizer_and_scheduler", full)
        run(tiny_data.recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    assert runner.checkpoint_to_resume(tmp_path, is_resumed=True) == tmp_path / "checkpoints" / f"checkpoint-{steps[0]}"
    run(tiny_data.recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "model.safetensors"])
def test_a_checkpoint_that_lost_its_end_is_not_resumed_from(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    saved = ContextualBertTrainer._save_optimizer_and_scheduler
    steps: list[int] = []

    def stopped(self: ContextualBertTrainer, folder: str) -> None:
        steps.append(self.state.global_step)
        if len(steps) == 3:
            raise KeyboardInterrupt
        saved(self, folder)

    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 4})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ContextualBertTrainer, "_save_optimizer_and_scheduler", stopped)
        run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    first, second = (tmp_path / "checkpoints" / f"checkpoint-{step}" for step in steps[:2])
    assert runner.checkpoint_to_resume(tmp_path, is_resumed=True) == second
    whole = (second / name).read_bytes()
    for content in (b"", whole[: len(whole) // 2]):  # what a machine that goes down may leave
        (second / name).write_bytes(content)
        assert runner.checkpoint_to_resume(tmp_path, is_resumed=True) == first
    (second / name).write_bytes(whole)
    recipe_file = tmp_path / "checkpoints" / "recipe.json"
    for number, last in ((2, first), (1, second)):  # each process writes a file of its own
        shutil.copy(second / "rng_state.pth", second / "rng_state_0.pth")
        own = recipe_file.read_text("utf-8")
        recipe_file.write_text(own.replace('"num_devices": 1', f'"num_devices": {number}'), "utf-8")
        assert runner.checkpoint_to_resume(tmp_path, is_resumed=True) == last
        recipe_file.write_text(own, "utf-8")
    (first / "model.safetensors").write_bytes(b"")  # the best one so far, or not
    is_best = runner.trainer_state(second)["best_global_step"] == steps[0]
    assert runner.checkpoint_to_resume(tmp_path, is_resumed=True) == (None if is_best else second)
    run(recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)


def grown(outfits: Path, folder: Path) -> Path:
    """The same outfits, some with an item that nobody had before."""
    table = pq.read_table(outfits)
    sets = table.column("items").to_pylist()
    renewed = [[*items[:-1], f"new-{row % 2}"] if row % 5 == 0 else items for row, items in enumerate(sets)]
    path = folder / "grown.parquet"
    pq.write_table(table.set_column(table.column_names.index("items"), "items", pa.array(renewed)), path)
    return path


def test_a_run_goes_on_from_another_with_new_items(
    finished: Path, outfits: Path, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe.changed(
        data=str(grown(outfits, tmp_path)),
        conditioning="global_state_update",
        init_from=str(finished),
        model={},
    )
    started: list[dict[str, torch.Tensor]] = []
    build = set_completion.build_model

    def recorded(*arguments: Any, **named: Any) -> Any:
        model = build(*arguments, **named)
        started.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return model

    monkeypatch.setattr(set_completion, "build_model", recorded)
    run(recipe, tmp_path / "run", is_quiet=True)
    old, begun = load_file(finished / "model.safetensors"), started[0]
    num_old = old[EMBEDDINGS].shape[0]
    assert begun[EMBEDDINGS].shape[0] == num_old + 2
    assert torch.equal(begun[EMBEDDINGS][:num_old], old[EMBEDDINGS])
    for name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"):
        assert torch.equal(begun[name][:num_old], old[name])
    others = [name for name in old if old[name].shape[:1] != (num_old,)]
    assert all(torch.equal(begun[name], old[name]) for name in others)
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run")
    earlier = CompletionPipeline.from_pretrained(finished).processor.items.values
    assert pipeline.processor.items.values[: len(earlier)] == earlier
    assert set(pipeline.processor.items.values[len(earlier) :]) == {"new-0", "new-1"}
    trained = load_file(tmp_path / "run" / "model.safetensors")
    assert not torch.equal(trained[EMBEDDINGS][num_old:], begun[EMBEDDINGS][num_old:])
    assert pipeline({"items": ["coat-1", "new-0", "[MASK]"]})["unknown_items"] == []  # pyright: ignore


def test_items_that_the_new_table_lacks_are_retired(finished: Path, outfits: Path, tiny_recipe: Recipe) -> None:
    known = CompletionPipeline.from_pretrained(finished)
    old = list(known.processor.items.values)
    table = pq.read_table(outfits)
    gone = {old[0], old[3], old[-1]}  # the first and the last row of the matrices, too
    sets = [["new-0" if item in gone else item for item in items] for items in table["items"].to_pylist()]
    table = table.set_column(
        table.column_names.index("items"), "items", pa.array([[*dict.fromkeys(items)] for items in sets])
    )
    recipe = tiny_recipe.changed(
        conditioning="global_state_update", init_from=str(finished), model={}, retire_missing_items=True
    )
    ready = prepare(recipe, source=table)
    kept = [item for item in old if item not in gone]
    assert list(ready.processor.items.values) == [*kept, "new-0"]
    assert any("3 of" in line and "Retired: no longer" in line for line in ready.remarks)
    model = build_model(recipe, ready).eval()
    assert isinstance(model, ContextualBertForMaskedLM)
    assert model.config.vocab_size == len(ready.processor.items) == len(kept) + 4
    inputs = {"items": [[kept[0], "[MASK]", kept[-1]]], "context": [{"age": 30}]}
    with torch.no_grad():
        found = model(**ready.processor(**inputs)).logits[:, 3 : 3 + len(kept)]
        wanted = known.model(**known.processor(**inputs)).logits
    torch.testing.assert_close(found, wanted[:, [known.processor.items.id_of(item) for item in kept]])
    strangers = table.set_column(table.column_names.index("items"), "items", pa.array([["x", "y"]] * table.num_rows))
    with pytest.raises(DataError, match="no set holds an item of"):
        prepare(recipe, source=strangers)
    with pytest.raises(ConfigurationError, match="retire_missing_items=True is about the items of an earlier run"):
        recipe.changed(init_from=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditioning": "concat"}, "conditioning='concat' differs from 'global_state_update', with which"),
        ({"model": {"hidden_size": 32}}, "hidden_size=32 cannot change"),
        ({"schema": {"features": [{"kind": "categorical", "name": "gender", "values": ["x"]}]}}, "another schema"),
    ],
)
def test_what_a_run_that_goes_on_cannot_change(
    finished: Path, tiny_recipe: Recipe, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    recipe = tiny_recipe.changed(conditioning="global_state_update", init_from=str(finished), model={})
    with pytest.raises(ConfigurationError, match=message):
        run(replace(recipe, **change), tmp_path / "run", is_quiet=True)
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_going_on_from_nothing(tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no complete run directory"):
        run(tiny_recipe.changed(init_from=str(tmp_path / "nowhere")), tmp_path / "run", is_quiet=True)


def test_a_comparison_is_resumable(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = [as_row(tiny_data.recipe, name).with_seed(seed) for name in ("none", "bag_context") for seed in (0, 1)]
    said: list[str] = []
    first = study("Methods", recipes, tmp_path, prepared=tiny_data, say=said.append)
    assert [line.split(",")[0] for line in said] == [
        f"{name}: training: 2 epochs of 6 steps" for name in ("none", "bag_context")
    ]
    said.clear()
    monkeypatch.setattr(sweep, "emulation_lines", lambda device, dtype: [f"{dtype} is slow"])
    with monkeypatch.context() as context:
        context.setattr(sweep, "run", lambda recipe, *_, **__: said.append(f"trained {recipe.seed}"))
        with pytest.raises(RunDirectoryError):
            sweep.train_missing([(recipes[0].with_seed(2), tiny_data)], tmp_path, say=said.append)
    assert [said[0], said[-1]] == ["float32 is slow", "trained 2"]
    said.clear()
    monkeypatch.setattr(sweep, "run", lambda *_, **__: pytest.fail("trained again"))
    second = study("Methods", recipes, tmp_path, prepared=tiny_data, say=said.append)
    assert len(said) == 4
    assert all("complete, not run again" in sentence for sentence in said)
    assert second.to_json() == first.to_json()
    methods = json.loads(first.to_json())
    assert "bag_context" in json.dumps(methods)
    changed = replace(tiny_data.recipe, conditioning="none", training={"num_train_epochs": 1})
    with pytest.raises(ConfigurationError, match=r"other settings .*training"):
        study("Methods", [changed], tmp_path, prepared=tiny_data)


def test_controls_have_rows_of_their_own(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    base = replace(tiny_data.recipe, training={"num_train_epochs": 1})
    recipes = [
        replace(base, conditioning="none"),
        replace(base, conditioning="none", name="none_wide", model={**base.model, "hidden_size": 48}, is_control=True),
        replace(base, conditioning="global_state", is_context_shuffled=True),
        as_row(base, "context_popularity"),
    ]
    found = study("Methods", recipes, tmp_path, prepared=tiny_data)
    assert [(row.name, row.role) for row in found.comparison.rows] == [
        ("none", "method"),
        ("none_wide", "control"),
        ("global_state_shuffled", "control"),
        ("context_popularity", "baseline"),
    ]
    assert found.comparison.rows[0].cost.parameters < found.comparison.rows[1].cost.parameters
    assert Recipe.load(tmp_path / "global_state_shuffled" / "seed-0") == recipes[2]
    other = replace(recipes[2], is_context_shuffled=False, name="global_state_shuffled")
    with pytest.raises(ConfigurationError, match="is_context_shuffled: true there, false here"):
        study("Methods", [recipes[0], other], tmp_path, prepared=tiny_data)


def test_a_shuffled_context_is_another_one_in_training_and_in_the_scores(
    tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    recipe = replace(tiny_data.recipe, conditioning="global_state", training={"num_train_epochs": 2})
    own = run(recipe, tmp_path / "own", prepared=tiny_data, is_quiet=True)
    assert own is not None
    shuffled = replace(recipe, is_context_shuffled=True)
    dealt = run(shuffled, tmp_path / "dealt", prepared=tiny_data, is_quiet=True)
    assert dealt is not None
    again = run(shuffled, tmp_path / "again", prepared=tiny_data, is_quiet=True)
    assert again is not None
    assert own.metrics["cross_entropy_nats"].value != dealt.metrics["cross_entropy_nats"].value
    assert numbers(tmp_path / "dealt") == numbers(tmp_path / "again")
    assert [segment.name for segment in own.segments] == [segment.name for segment in dealt.segments]
    assert again.num_rows == own.num_rows
    assert "trained with the contexts of others" in evaluate_run(tmp_path / "dealt").lines[-1]


def test_popularity_is_counted_over_what_can_be_asked(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    recipe = as_row(replace(tiny_data.recipe, patience=2), "popularity")
    report = run(recipe, tmp_path / "run", prepared=tiny_data, is_quiet=True)
    assert report is not None
    chosen = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]["training"]
    training, test = tiny_data.datasets["train"], tiny_data.datasets["test"]
    counts = np.bincount(training.input_ids, minlength=len(tiny_data.processor.items))[3:] + chosen["prior_count"]
    shares = counts / counts.sum()
    losses: list[float] = []
    for start, stop in zip(test.offsets[:-1], test.offsets[1:], strict=True):
        of_set = shares[test.input_ids[start:stop].numpy() - 3]
        losses += [float(np.log(1 - of_set.sum() + share) - np.log(share)) for share in of_set]
    assert report.metrics["cross_entropy_nats"].value == pytest.approx(np.mean(losses), abs=1e-5)
    assert not (tmp_path / "run" / "checkpoints").exists() or not [*(tmp_path / "run" / "checkpoints").glob("check*")]
    assert not (tmp_path / "run" / "history.json").exists()
    with pytest.raises(ConfigurationError, match="num_train_epochs=3 is for what 'popularity' does not have"):
        run(replace(recipe, training={"num_train_epochs": 3}), tmp_path / "other", prepared=tiny_data)
    for name, value in (("patience", 2), ("is_context_shuffled", True)):
        with pytest.raises(ConfigurationError, match=f"{name} is for what is trained"):
            run(replace(recipe, **{name: value}), tmp_path / "other", prepared=tiny_data)


def test_a_context_is_fitted_and_never_far_behind_popularity(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    found: list[float] = []
    for name in ("popularity", "context_popularity"):
        report = run(as_row(tiny_data.recipe, name), tmp_path / name, prepared=tiny_data, is_quiet=True)
        assert report is not None
        found.append(report.metrics["cross_entropy_nats"].value)
    assert found[1] < found[0] + 0.02


def test_a_baseline_with_context_needs_one(tiny_recipe: Recipe, tmp_path: Path) -> None:
    bare = tmp_path / "bare.parquet"
    table = pq.read_table(tiny_recipe.data).select([tiny_recipe.set_task.items])
    pq.write_table(table, bare)
    recipe = as_row(replace(tiny_recipe, data=str(bare), customer=None, schema=None), "context_popularity")
    with pytest.raises(ConfigurationError, match="'context_popularity' needs a context"):
        run(recipe, tmp_path / "run", is_quiet=True)


def test_runs_keep_their_own_settings(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    recipe = replace(as_row(tiny_data.recipe, "bag"), training={"num_train_epochs": 1, "learning_rate": 0.02})
    run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    written = json.loads((tmp_path / "recipe.json").read_text())["resolved"]["training"]
    assert (written["num_train_epochs"], written["learning_rate"]) == (1, 0.02)
    assert Recipe.load(tmp_path) == recipe
    card = (tmp_path / "README.md").read_text()
    assert "The baseline `bag`" in card
    assert "from_pretrained" not in card
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(
    "change",
    [{"items": "sets"}, {"split_seed": 4}, {"policy": SetPolicy(min_count=4)}, {"schema": {"features": []}}],
    ids=lambda change: next(iter(change)),
)
def test_data_prepared_for_another_recipe_are_refused(
    tiny_data: SetCompletionTask, tmp_path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=f"another {next(iter(change))} than the recipe asks for"):
        run(tiny_data.recipe.changed(**change), tmp_path, prepared=tiny_data, is_quiet=True)


def test_the_customers_of_a_part_are_those_of_its_sets(tiny_data: SetCompletionTask) -> None:
    chosen, found = tiny_data.split.select(tiny_data.examples, "test"), tiny_data.customers("test")
    assert found is not None
    assert found.tolist() == [str(customer) for customer in chosen.table.column("customer_id").to_pylist()]


def test_items_that_only_the_validation_part_has_are_dropped_and_reported(
    outfits: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    table = pq.read_table(outfits)
    validation = prepare(tiny_recipe).split.rows("validation").tolist()
    sets = table.column("items").to_pylist()
    for row in validation[::2]:
        sets[row] = [*sets[row][:-1], "never-seen"]
    recipe = replace(tiny_recipe, data=str(tmp_path / "changed.parquet"), conditioning="none")
    pq.write_table(table.set_column(table.column_names.index("items"), "items", pa.array(sets)), recipe.data)
    ready = prepare(recipe)
    assert ready.split.rows("validation").tolist() == validation
    assert "never-seen" not in ready.processor.items
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    num_dropped = len(validation[::2])
    lines = json.loads((tmp_path / "run" / "recipe.json").read_text())["resolved"]["lines"]
    assert any(re.search(rf"\b({num_dropped}|{num_dropped + 1}) not in the training part", line) for line in lines)


def test_without_a_validation_part_the_last_weights_are_kept(tiny_recipe: Recipe, tmp_path: Path) -> None:
    recipe = replace(tiny_recipe, validation=0.0, conditioning="none")
    run(recipe, tmp_path / "run", is_quiet=True)
    assert "validation" not in json.loads((tmp_path / "run" / "metrics.json").read_text())
    with pytest.raises(ConfigurationError, match="patience=2 chooses an epoch by the validation part"):
        run(replace(recipe, patience=2), tmp_path / "other", is_quiet=True)


@pytest.mark.usefixtures("cells_of_one")
def test_cold_customers_are_a_segment_where_others_came_back(tiny_recipe: Recipe, tmp_path: Path) -> None:
    report = run(replace(tiny_recipe, split_by="row"), tmp_path / "run", is_quiet=True)
    assert report is not None
    cold = {segment.value: segment for segment in report.segments if segment.feature == "customer in training"}
    assert set(cold) == {"yes", "no (cold)"}
    assert sum(segment.num_rows for segment in cold.values()) == report.num_rows
    again = evaluate_run(tmp_path / "run").report
    assert [(each.name, each.num_rows) for each in again.segments] == [(s.name, s.num_rows) for s in report.segments]
    elsewhere = evaluate_run(tmp_path / "run", source=pq.read_table(tiny_recipe.data).slice(0, 200)).report
    assert not {"customer in training", FREQUENCY_FEATURE} & {each.feature for each in elsewhere.segments}


def test_rare_items_are_a_segment(finished: Path, tiny_data: SetCompletionTask) -> None:
    report = Report.from_json(json.dumps(json.loads((finished / "metrics.json").read_text())["test"]))
    found = {each.value: each.num_rows for each in report.segments if each.feature == "masked item, times in training"}
    train, test = (tiny_data.datasets[part].input_ids.tolist() for part in ("train", "test"))
    times = [train.count(item) for item in test]
    below, between = sum(each < 10 for each in times), sum(10 <= each < 100 for each in times)
    assert found == {"below 10": below, "10 to below 100": between}
    assert below > 0 < between
    again = evaluate_run(finished).report
    assert {each.value: each.num_rows for each in again.segments if each.feature == FREQUENCY_FEATURE} == found


def test_an_excluded_column_is_no_leak(tiny_recipe: Recipe) -> None:
    table = pq.read_table(tiny_recipe.data)
    table = table.append_column("size", pc.list_value_length(table["items"]))
    own = tiny_recipe.changed(policy=SetPolicy(min_size=1))
    assert "'size' is the number of items" in "".join(prepare(own, source=table).lines())
    assert "'size'" not in "".join(prepare(replace(own, exclude=("size",)), source=table).lines())


def test_a_leak_is_left_out_of_an_inferred_context(tiny_recipe: Recipe) -> None:
    table = pq.read_table(tiny_recipe.data)
    table = table.append_column("size", pc.list_value_length(table["items"]))
    own = tiny_recipe.changed(policy=SetPolicy(min_size=1))
    ready = prepare(own, source=table)
    assert ready.processor.schema is not None
    assert "size" not in ready.processor.schema.names
    assert "left out of the context as leaks: 'size'" in "\n".join(ready.lines())
    assert "leaks='keep'" in "\n".join(ready.lines())
    kept = prepare(replace(own, leaks="keep"), source=table)
    assert kept.processor.schema is not None
    assert "size" in kept.processor.schema.names
    given = prepare(replace(own, schema=kept.recipe.schema), source=table)
    assert given.processor.schema == kept.processor.schema, "a schema that is given stays as it is"
    assert "left out of the context" not in "\n".join(given.lines())
    with pytest.raises(ConfigurationError, match="leaks='all' is unknown"):
        replace(own, leaks="all")


def test_an_evaluation_at_the_start_is_none_of_a_resumed_run(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = {**tiny_data.recipe.training, "num_train_epochs": 3, "eval_on_start": True}
    recipe = replace(tiny_data.recipe, training=training)
    run(recipe, tmp_path / "whole", prepared=tiny_data, is_quiet=True)
    train = ContextualBertTrainer.train

    def interrupted(self: ContextualBertTrainer, **settings: Any) -> None:
        self.add_callback(StopAt(2))
        train(self, **settings)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ContextualBertTrainer, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(recipe, tmp_path / "cut", prepared=tiny_data, is_quiet=True)
    for state in (tmp_path / "cut" / "checkpoints").glob("checkpoint-*/trainer_state.json"):
        state.write_text(state.read_text().replace('"should_training_stop": true', '"should_training_stop": false'))
        write_manifest(state.parent)
    beside = tmp_path / "cut" / "checkpoints" / "recipe.json"
    written = beside.read_text()
    beside.write_text(written.replace('"num_devices": 1', '"num_devices": 2'))
    with pytest.raises(ConfigurationError, match="interrupted on 2 devices"):
        run(recipe, tmp_path / "cut", prepared=tiny_data, is_resumed=True, is_quiet=True)
    beside.write_text(written)
    run(recipe, tmp_path / "cut", prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    curves = [load_history(tmp_path / name) for name in ("cut", "whole")]
    epochs = [[point.epoch for point in curve.points] for curve in curves if curve is not None]
    assert epochs == [[0, 1, 2, 3]] * 2


class StopAt(TrainerCallback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch_end(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        control.should_training_stop = state.epoch >= self.epoch


def test_a_study_without_a_validation_part(tiny_recipe: Recipe, tmp_path: Path) -> None:
    recipe = replace(tiny_recipe, validation=0.0, training={**tiny_recipe.training, "save_strategy": "no"})
    found = study("a study", [recipe], tmp_path, prepared=prepare(recipe), say=lambda _: None)
    assert [row.name for row in found.comparison.rows] == [recipe.label]


def test_a_report_says_what_was_read_split_and_left_out(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    folder = tmp_path / tiny_data.recipe.label / "seed-0"
    found = study("a study", [tiny_data.recipe], tmp_path, prepared=tiny_data, say=lambda _: None)
    assert found.data[: len(tiny_data.lines())] == tuple(tiny_data.lines())
    assert any(line.startswith("checked: equal sets in two parts") for line in found.data)
    assert found.data[-2].endswith(" of the test part are not in training")
    assert found.data[-1].startswith("Scored all ") and found.data[-1].endswith(" items of the test part.")
    assert "## Data" in found.to_markdown()
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["unknown_targets"]["test"] = 1_003
    metrics["test"]["asked"] = None  # nobody counted
    (folder / "metrics.json").write_text(json.dumps(metrics))
    again = study("a study", [tiny_data.recipe], tmp_path, prepared=tiny_data, say=lambda _: None)
    assert again.data[-1].startswith("1,003 masked positions of the test part cannot be ranked")


def test_a_step_in_the_curves_is_spoken_of_where_there_is_one(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    masks = {"num_train_epochs": 3, "masks_per_set": 2, "one_mask_epochs": 1}
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, **masks})
    runs: list[Recipe] = [recipe, replace(recipe, name="one", training={**recipe.training, "one_mask_epochs": 3})]
    found = [study("a study", [each], tmp_path, prepared=tiny_data, say=lambda _: None).one_mask_from for each in runs]
    assert found == [(2,), ()]
    stopped = json.loads((tmp_path / recipe.label / "seed-0" / "history.json").read_text())
    stopped["points"] = stopped["points"][:2]
    (tmp_path / recipe.label / "seed-0" / "history.json").write_text(json.dumps(stopped))
    assert study("a study", [recipe], tmp_path, prepared=tiny_data, say=lambda _: None).one_mask_from == ()


def test_a_misspelt_method(tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=re.escape("Did you mean 'global_state_update'?")):
        run(replace(tiny_recipe, conditioning="global_state_updat"), tmp_path / "run", is_quiet=True)
    assert not (tmp_path / "run").exists()


def test_nothing_left_to_learn_from(tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no set of .* is left.*240 with fewer than 100 items"):
        run(tiny_recipe.changed(policy=SetPolicy(min_size=100)), tmp_path, is_quiet=True)


def test_nothing_left_to_evaluate(tiny_recipe: Recipe, tmp_path: Path) -> None:
    table = pa.table({"items": [f"one-{row} two-{row}".split() for row in range(40)]})
    pq.write_table(table, tmp_path / "unique.parquet")
    recipe = replace(tiny_recipe, data=str(tmp_path / "unique.parquet"), customer=None, conditioning="none")
    with pytest.raises(DataError, match=r"unique\.parquet: nothing of the validation part and nothing of the test"):
        run(recipe, tmp_path / "run", is_quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"report_to": "nowhere"}, "nowhere is not supported"),
        ({"optim": "lomo"}, "lomo"),
        ({"optim_args": "momentum"}, "not enough values to unpack"),
        ({"optim_args": "foreach=1, speed=3"}, r"optim_args: AdamW does not read foreach, speed\. Leave them out"),
        ({"lr_scheduler_type": "cosine_with_min_lr"}, "min_lr"),
        ({"lr_scheduler_kwargs": {"power": 2}}, "unexpected keyword argument 'power'"),
        ({"torch_compile": True, "torch_compile_mode": "foo"}, "mode=foo"),
        ({"dataloader_drop_last": True, "per_device_train_batch_size": 1000}, "training has [0-9]+ rows"),
        ({"context_learning_rate": 0.1, "new_weights_learning_rate": 0.1}, "starts from a BERT checkpoint"),
    ],
)
def test_settings_that_no_step_can_be_made_with(
    settings: dict[str, Any], words: str, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, **settings})
    with pytest.raises(ConfigurationError, match=words):
        run(recipe, tmp_path / "run", prepared=tiny_data, is_quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_training_that_diverges_is_called_so(tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "learning_rate": 1e30})
    with pytest.raises(DataError, match="Weights that are NaN give such scores, after a training that diverged"):
        run(recipe, tmp_path / "run", prepared=tiny_data, is_quiet=True)


@pytest.mark.parametrize("is_disabled", [True, False])
def test_no_progress_bar_where_none_is_wanted(
    is_disabled: bool, tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Watched(TrainingProgress):
        def __init__(self, title: str, bars: Bars) -> None:
            shown.append(title)
            super().__init__(title, bars)

    monkeypatch.setattr(runner, "TrainingProgress", Watched)
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "disable_tqdm": is_disabled})
    run(recipe, tmp_path / "run", prepared=tiny_data)
    assert shown == ([] if is_disabled else ["global_state_update, seed 0"])


@pytest.mark.parametrize("name", ["metrics.json", "test_scores.safetensors"])
def test_a_damaged_run_is_not_loaded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{")
    with pytest.raises(RunDirectoryError, match=r"Train (it )?again with --overwrite"):
        load_run(tmp_path, name="none")


@pytest.mark.parametrize("part", ["validation", "test", "train"])
def test_values_that_training_never_shows_are_pointed_out(
    outfits: Path, tiny_recipe: Recipe, tmp_path: Path, part: str
) -> None:
    table = pq.read_table(outfits)
    rows = prepare(tiny_recipe).split.rows(part)
    shop = np.where(np.arange(table.num_rows) % 2, "east", "west").astype(object)
    shop[rows[::4]] = "new"
    path = tmp_path / "shops.parquet"
    pq.write_table(table.append_column("shop", pa.array(shop)), path)
    schema = {"features": [{"kind": "categorical", "name": "shop", "values": ["east", "west"]}]}
    recipe = replace(tiny_recipe, data=str(path), schema=schema)
    found = [line for line in prepare(recipe).lines() if "is not learned" in line]
    if part == "train":  # as where rare values count as unknown
        assert not found
    else:
        assert len(found) == 1
        assert found[0].startswith("context 'shop': ") and "Set field_dropout=0.1, or leave the column out." in found[0]
    told_less = replace(recipe, training={**recipe.training, "field_dropout": 0.1})
    assert not any("is not learned" in line for line in prepare(told_less).lines())
