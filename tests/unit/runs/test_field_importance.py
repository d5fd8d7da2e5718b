"""What a run keeps of the importance of each field, and what its explanations then say of reasons that are noise."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import CompletionPipeline, explain
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.runs import run
from contextual_bert.runs.field_importance import MOST_POSITIONS, importance_lines, num_positions
from contextual_bert.training import Recipe, SetCompletion

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
RECIPE = Recipe(
    data="shop",
    task=SetCompletion(items="items"),
    conditioning="global_state",
    field_selection="off",  # the noise is what is asked about
    model=SMALL,
    training={
        "num_train_epochs": 12,
        "per_device_train_batch_size": 32,
        "learning_rate": 0.01,
        "field_dropout": 0.1,
        "context_dropout": 0.1,
    },
)
QUERY: dict[str, Any] = {"items": ["[MASK]"], "context": {"sex": "f", "noise": "n1"}}


@pytest.fixture(scope="module")
def shop() -> pa.Table:
    """One item a set, which the sex decides and the noise does not."""
    generator = np.random.default_rng(0)
    sexes = generator.integers(0, 2, 500)
    items = [[f"{'ab'[sex]}{generator.integers(0, 3)}"] for sex in sexes]
    noise = [f"n{each}" for each in generator.integers(0, 4, 500)]
    return pa.table({"items": items, "sex": np.array(["f", "m"])[sexes], "noise": noise})


@pytest.fixture(scope="module")
def finished(shop: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "shop"
    run(RECIPE, folder, table=shop, is_quiet=True)
    return folder


def test_a_run_keeps_what_it_takes_from_each_field_of_the_validation_part(finished: Path) -> None:
    kept = json.loads((finished / "metrics.json").read_text())["importances"]
    assert kept["part"] == "validation"
    rises = {row["feature"]: row["rise_nats"] for row in kept["rows"]}
    assert set(rises) == {"all features", "sex", "noise"}
    assert rises["sex"]["interval"]["low"] > 0.1
    assert rises["noise"]["interval"]["low"] < 0
    verdicts = FieldVerdicts.from_run(finished)
    assert verdicts is not None
    assert verdicts.doubtful() == ["noise"]
    told = importance_lines({"importances": kept})[0]
    assert "'noise': could not be told from nothing on the validation part" in told


def test_an_explanation_marks_the_reason_that_is_noise(finished: Path) -> None:
    found = explain(CompletionPipeline.from_pretrained(finished), QUERY)
    assert {each.field: each.is_told_apart for each in found.fields} == {"sex": True, "noise": False}
    text = found.to_markdown()
    assert "| noise (?) |" in text
    assert "| sex |" in text
    assert any(note.startswith("noise: could not be told from nothing on the validation part") for note in found.notes)


def test_a_run_without_importances_explains_without_marks(finished: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(finished)
    pipeline.verdicts = None
    found = explain(pipeline, QUERY)
    assert {each.is_told_apart for each in found.fields} == {None}
    assert "(?)" not in found.to_markdown()


def test_metrics_without_importances_say_nothing(tmp_path: Path) -> None:
    assert FieldVerdicts.from_run(tmp_path) is None
    for content in ("[]", "{}", '{"importances": {"rows": []}}', '{"importances": {"rows": [{"feature": 1}]}}', "{"):
        (tmp_path / "metrics.json").write_text(content)
        assert FieldVerdicts.from_run(tmp_path) is None


def test_without_a_validation_part_the_test_part_is_taken(shop: pa.Table, tmp_path: Path) -> None:
    short = replace(RECIPE, validation=0.0, training={**RECIPE.training, "num_train_epochs": 1})
    run(short, tmp_path / "run", table=shop, is_quiet=True)
    verdicts = FieldVerdicts.from_run(tmp_path / "run")
    assert verdicts is not None
    assert verdicts.part == "test"


def test_it_costs_a_twentieth_of_the_training_or_a_few_hundred_positions() -> None:
    assert num_positions(1_000_000, num_passes=100) * 100 == pytest.approx(0.05 * 3 * 1_000_000)
    assert num_positions(1e12, num_passes=3) == MOST_POSITIONS
