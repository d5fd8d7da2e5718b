"""A terminal reads options where the library names Python arguments."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contextual_bert.errors import NAME, ConfigurationError, Message, rendered
from contextual_bert.training import Recipe, SetCompletion, task_on_texts
from contextual_bert_cli.main import app
from contextual_bert_cli.output import remark
from contextual_bert_cli.wording import option_of


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("split_by", "time", "--split-by time"),
        ("time", ..., "--time"),
        ("max_size", NAME, "--max-size"),
        ("is_ordinal", True, "--ordinal"),
        ("masks_per_set", 1, "--masks-per-set 1"),  # equals True, and is not it
        ("min_count", 0, "--min-count 0"),
        ("exclude", ("age", "sex"), "--exclude age,sex"),
        ("per_device_train_batch_size", 0, "--batch-size 0"),
        ("hidden_size", 7, "--model hidden_size=7"),
        ("weight_decay", "x", "--set weight_decay=x"),
        ("field_dropout", 0.1, "--set field_dropout=0.1"),
        ("field_dropout", NAME, "field_dropout"),
        ("lora", {"rank": 4}, "--lora rank=4"),
        ("label", "my label", "--label 'my label'"),
        ("--format", "xml", "--format xml"),
        ("num_customers", 9, "num_customers=9"),
        ("num_train_epochs", 3.0, "--epochs 3"),
        ("learning_rate", 0.00012345678, "--learning-rate 0.00012345678"),
        ("num_train_epochs", float("inf"), "--epochs inf"),
    ],
)
def test_arguments_become_options(name: str, value: object, expected: str) -> None:
    assert option_of(name, value) == expected


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (("--epochs", "-1"), "--epochs -1"),
        (("--epochs=-1",), "--epochs -1"),
        (("--epochs", "-1.0"), "--epochs -1.0"),
        (("--epochs", "nan"), "--epochs nan"),
        (("--epochs", "-1e400"), "--epochs -1e400"),
        (("--learning-rate", "-2E-5"), "--learning-rate -2E-5"),
        (("--validation", "2"), "--validation 2"),
        (("--test", "-.5"), "--test -.5"),
        (("--set", "weight_decay=-1.0"), "--set weight_decay=-1.0"),
    ],
)
def test_a_number_is_named_as_it_was_typed(typed: tuple[str, ...], named: str, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,label\ngood,1\nbad,0\n")
    arguments = ("train", str(table), "--text", "text", "--label", "label", *typed, "--output", str(tmp_path / "run"))
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 2, found.output
    assert f"{named} " in found.stderr


def test_a_value_that_looks_like_an_argument_stays() -> None:
    error = ConfigurationError(
        Message("is no column of 'split_by=time', {label} is", label="min_count=0"), setting="text", value="max_size=3"
    )
    assert rendered(error, option_of) == (
        "--text 'max_size=3' is no column of 'split_by=time', --label 'min_count=0' is"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"items": "items", "split_by": "time"},
        {"items": "items", "time": "day"},
        {"items": "items", "validation": 0.9, "test": 0.9},
        {"items": "items", "split": "split.json", "test": 0.2},
        {"items": "items", "patience": 2, "validation": 0},
        {"items": "items", "training": {"metric_for_best_model": "acuracy"}},
        {"items": "items", "split_column": "part", "test_data": "test.csv"},
        {"items": "items", "lora": {"rank": 4}},
        {"texts": {"label": "stars", "masking": "word"}},
        {"texts": {"is_ordinal": True}},
        {"texts": {"question": "asked"}},
    ],
)
def test_no_message_of_a_recipe_names_an_argument(settings: dict[str, object]) -> None:
    def made() -> Recipe:
        texts = settings.get("texts")
        if isinstance(texts, dict):
            return Recipe(data="days.csv", task=task_on_texts(checkpoint="bert", **texts))
        return Recipe(data="days.csv", task=SetCompletion(items="items")).changed(**settings)

    with pytest.raises((ConfigurationError, LookupError)) as caught:
        made()
    error: Any = caught.value
    said = rendered(error, option_of)
    assert "='" not in said
    assert "=..." not in said
    assert "--" in said


def test_what_is_told_beside_a_result_names_options(capsys: pytest.CaptureFixture[str]) -> None:
    remark(
        Message(
            "Train with {field_dropout}, or give {classifier_pooling}.", field_dropout=0.1, classifier_pooling="mean"
        )
    )
    said = " ".join(capsys.readouterr().err.split())
    assert said == "Train with --set field_dropout=0.1, or give --model classifier_pooling=mean."
