"""A terminal reads options where the library names Python arguments."""

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.training import Recipe, TextTask
from contextual_bert_cli.wording import in_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("split_by='time' needs the time column. Name it with time=... (--time).",
         "--split-by time needs the time column. Name it with --time."),
        ("is_ordinal=True is for labels", "--ordinal is for labels"),
        ("exclude=('age', 'sex') (--exclude) says", "--exclude age,sex says"),
        ("per_device_train_batch_size=0: give a number above 0.", "--batch-size 0: give a number above 0."),
        ("hidden_size=7 does not fit", "--model hidden_size=7 does not fit"),
        ("Give field_dropout=0.1", "Give --set field_dropout=0.1"),
        ("lora={'rank': 4} needs", "--lora needs"),
        ("no max_size says how many", "no --max-size says how many"),
        ("label='my label' is", "--label 'my label' is"),
        # what is an option already, a value of the user's, or no argument of a command stays as it is
        ("--set weight_decay=0.1 and --model hidden_size=8", "--set weight_decay=0.1 and --model hidden_size=8"),
        ("--where 'label=coat' is no condition", "--where 'label=coat' is no condition"),
        ("the column 'max_length' is missing", "the column 'max_length' is missing"),
        ("(in Python SetPolicy(separator=';'))", "(in Python SetPolicy(separator=';'))"),
        ("num_customers=9", "num_customers=9"),
    ],
)  # fmt: skip
def test_arguments_become_options(text: str, expected: str) -> None:
    assert in_options(text) == expected


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
        given = {**settings, "texts": TextTask(checkpoint="bert", **texts)} if isinstance(texts, dict) else settings
        return Recipe(data="days.csv", **given)  # pyright: ignore[reportArgumentType]

    with pytest.raises((ConfigurationError, LookupError)) as caught:
        made()
    said = in_options(str(caught.value))
    assert "='" not in said
    assert "=..." not in said
    assert "--" in said
