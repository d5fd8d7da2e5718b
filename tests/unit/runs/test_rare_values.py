"""Rare values of a context in runs: what is trained, exported, gone on from, and said of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import CompletionPipeline
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.exported.export import export_onnx
from contextual_bert.inference.exported.onnx_pipeline import OnnxCompletionPipeline
from contextual_bert.runs import prepare, run
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.training import Recipe, SetCompletion

RECIPE = Recipe(
    data="shop",
    task=SetCompletion(items="items"),
    conditioning="global_state",
    model={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    training={"num_train_epochs": 1},
    field_selection="off",  # the items are random, and the user says nothing of them
)


@pytest.fixture(scope="module")
def shop() -> pa.Table:
    """150 users of three orders each, and one of 150."""
    users = [f"rare {each}" for each in range(150) for _ in range(3)] + ["often"] * 150
    generator = np.random.default_rng(0)
    items = [[f"i{each}" for each in generator.choice(6, 2, replace=False)] for _ in users]
    return pa.table({"items": items, "user": users})


@pytest.fixture(scope="module")
def finished(shop: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "shop"
    run(RECIPE, folder, table=shop, is_quiet=True)
    return folder


def asked(user: str) -> dict[str, Any]:
    return {"items": ["i1", "[MASK]"], "context": {"user": user}}


def test_inspect_and_train_say_what_share_of_rows_keeps_its_value(shop: pa.Table) -> None:
    note = next(each for each in inspect_table(RECIPE, source=shop).notes if each.column == "user")
    assert "of the rows keep their value" in note.reason
    assert "1 of their own" in note.reason
    ready = prepare(RECIPE, source=shop)
    [line] = [line for line in ready.lines() if "hashed buckets" in line]
    ids = ready.datasets["test"].context["user"].numpy()
    assert f"test: {np.mean(ids == 2):.1%} of the rows keep their value" in line
    assert prepare(replace(RECIPE, hash_buckets=0), source=shop).lines() != ready.lines()


@pytest.mark.slow
def test_an_export_answers_for_rare_users_as_the_run_does(finished: Path, tmp_path: Path) -> None:
    export_onnx(finished, tmp_path / "export")
    ours, theirs = (
        CompletionPipeline.from_pretrained(finished),
        OnnxCompletionPipeline.from_pretrained(tmp_path / "export"),
    )
    probabilities = set()
    for user in ("often", "rare 1", "rare 2", "rare 3", "nobody"):
        mine: Any = ours(asked(user))
        exported: Any = theirs(asked(user))
        first = [each["probability"] for each in mine["slots"][0]["candidates"]]
        assert [each["probability"] for each in exported["slots"][0]["candidates"]] == pytest.approx(first, abs=1e-5)
        assert mine["notes"] == exported["notes"]
        probabilities.add(first[0])
    assert len(probabilities) >= 3


def test_no_rare_value_stands_in_a_file_of_the_run(finished: Path) -> None:
    for path in finished.rglob("*.json"):
        assert "rare 1" not in path.read_text(encoding="utf-8"), path


def test_going_on_keeps_the_buckets_and_says_how_many_rows_are_in_one(
    finished: Path, shop: pa.Table, tmp_path: Path
) -> None:
    strangers = shop.set_column(1, "user", pa.array([f"new {each // 2}" for each in range(shop.num_rows)]))
    recipe = RECIPE.changed(init_from=str(finished))
    ready = prepare(recipe, source=strangers)
    assert any("does not list, and which share" in line for line in ready.remarks)
    run(recipe, tmp_path / "on", prepared=ready, is_quiet=True)
    ours, theirs = (CompletionPipeline.from_pretrained(each).processor.schema for each in (tmp_path / "on", finished))
    assert ours == theirs


@pytest.mark.parametrize(("name", "value"), [("hash_buckets", -1), ("max_categories", 0)])
def test_settings_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}={value} is not allowed. Give"):
        replace(RECIPE, **{name: value})
