"""A run that has learned nothing says so: its loss on validation is not below that of counted shares."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.evaluation import Interval, Report
from contextual_bert.evaluation.loss_gaps import MembershipGap, ShareGap
from contextual_bert.runs import prepare
from contextual_bert.runs.run_directory import load_run
from contextual_bert.runs.runner import run
from contextual_bert.runs.study_report import study
from contextual_bert.training import Recipe, SetCompletion
from contextual_bert_cli.wording import in_options

SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 1}
IDLE = {"num_train_epochs": 1, "learning_rate": 1e-9, "per_device_train_batch_size": 64}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Pairs of items that go together: each says which the other is."""
    generator = np.random.default_rng(0)
    pairs = generator.choice(8, size=400, p=np.arange(8, 0, -1) / 36)
    return pa.table({"items": [[f"left-{each}", f"right-{each}"] for each in pairs]})


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe(
        data="memory", task=SetCompletion(items="items"), conditioning="none", model=SMALL, validation=0.2, test=0.2
    )


def test_nothing_learned_is_said_with_what_to_try(table: pa.Table, recipe: Recipe, tmp_path: Path) -> None:
    idle = replace(recipe, training=IDLE, item_vectors="random")
    report = run(idle, tmp_path / "idle", table=table, is_quiet=True)
    assert report is not None and report.learned is not None
    assert not report.learned.has_learned
    assert report.learned.part == "validation"
    note = report.learned.note()
    assert note.startswith("Nothing was learned that can be told: on the validation part the loss is ")
    assert "num_train_epochs=4" in note and "learning_rate=3e-09" in note
    assert note in report.to_markdown()
    assert "Nothing was learned" in (tmp_path / "idle" / "README.md").read_text()
    written = json.loads((tmp_path / "idle" / "metrics.json").read_text())
    assert Report.from_json(json.dumps(written["test"])).learned == report.learned
    loss = written["validation"]["metrics"]["cross_entropy_nats"]["value"]
    assert report.learned.run_nats == pytest.approx(loss)


def test_what_was_learned_is_said(table: pa.Table, recipe: Recipe, tmp_path: Path) -> None:
    taught = replace(recipe, training={**IDLE, "num_train_epochs": 20, "learning_rate": 1e-2})
    report = run(taught, tmp_path / "run", table=table, is_quiet=True)
    assert report is not None and report.learned is not None
    assert report.learned.has_learned
    assert report.learned.gap_nats.high < -0.5
    assert report.learned.note().startswith("Something was learned: on the validation part")


def test_the_shares_are_those_of_the_baseline(table: pa.Table, recipe: Recipe, tmp_path: Path) -> None:
    """On the part that a run writes scores of, for both ways to normalise."""
    for softmax_over in ("candidates", "items"):
        folder = tmp_path / softmax_over
        popular = replace(recipe, conditioning="popularity", model={"softmax_over": softmax_over})
        report = run(popular, folder, table=table, is_quiet=True)
        assert report is not None and report.learned is None, "it is the baseline itself"
        scores = load_run(folder, name="popularity").scores
        ready = prepare(popular, source=table)
        losses: Any = ready.share_losses("test", scores, softmax_over=softmax_over)
        np.testing.assert_allclose(losses, -scores.log_probability, atol=1e-5)


def test_a_study_names_the_rows_that_learned_nothing(table: pa.Table, recipe: Recipe, tmp_path: Path) -> None:
    idle = replace(recipe, training=IDLE, item_vectors="random")
    ready = prepare(idle, source=table)
    run(idle, tmp_path / "none" / "seed-0", prepared=ready, is_quiet=True)
    found = study("a study", [idle], tmp_path, prepared=ready, is_report_only=True, say=lambda _: None)
    (line,) = (text for text in found.texts if "Nothing was learned" in text)
    assert line.startswith("`none`, seed 0: Nothing was learned that can be told: on the validation part")
    assert "num_train_epochs=4" in line and "learning_rate=3e-09" in line
    assert "such as --epochs 4, or at a larger rate, such as --learning-rate 3e-09" in in_options(line)


@pytest.mark.parametrize("is_membership", [False, True])
def test_no_interval_is_shown_where_none_can_be_had(is_membership: bool) -> None:
    unknown = Interval(-0.25, float("nan"), float("nan"), float("nan"), 1, 1)
    gap = (
        MembershipGap(1.0, 0.75, unknown, 1, "test", unknown, None)
        if is_membership
        else ShareGap("label shares", "validation", 0.5, 0.75, unknown, "Train longer.")
    )
    note = gap.note()
    assert "-0.2500 [unknown]. All rows are of one customer, or there is one row: no interval can be had." in note
    assert "nan" not in note and "Train" not in note
