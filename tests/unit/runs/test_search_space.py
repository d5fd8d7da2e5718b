"""Settings of a search: how they are written, what is drawn, and what is refused."""

from typing import Any

import numpy as np
import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.runs.search_space import SearchedSetting, as_options, drawn_trials, with_drawn
from contextual_bert.training import Recipe, SetCompletion


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-4..1e-2", SearchedSetting("learning_rate", low=1e-4, high=1e-2)),
        ("weight_decay = 0.01 .. 3.5", SearchedSetting("weight_decay", low=0.01, high=3.5)),
        ("warmup_steps=0..500", SearchedSetting("warmup_steps", low=0, high=500)),
        ("x=-1..1", SearchedSetting("x", low=-1, high=1)),
        ("lr_scheduler_type=linear,cosine", SearchedSetting("lr_scheduler_type", ("linear", "cosine"))),
        ("model.hidden_size=64, 128", SearchedSetting("model.hidden_size", (64, 128))),
        ("has=true,false", SearchedSetting("has", (True, False))),
        ("has=True,False", SearchedSetting("has", (True, False))),
        ("model.segment_length=null,64", SearchedSetting("model.segment_length", (None, 64))),
        ("adam_beta2=0.98", SearchedSetting("adam_beta2", (0.98,))),
    ],
)
def test_a_setting_is_read(text: str, expected: SearchedSetting) -> None:
    assert SearchedSetting.read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "x=", "=1,2", "x=1..", "x=..1", "x=3..1", "x=2..2", "x=a..b", "x=1..inf", "x=nan..1", "x=1,1"),
        *("x=1,,2", f"x=1..1{'0' * 400}", "x=-1.7e308..1.7e308"),
    ],
)
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SearchedSetting.read(text)
    assert "NAME=LOW..HIGH" in caught.value.fix


def test_a_value_that_is_nested_too_deep_is_named() -> None:
    with pytest.raises(ConfigurationError, match="nested too deep"):
        SearchedSetting.read(f"x={'[' * 100_000}")


def test_ranges_are_drawn_within_their_ends_and_by_scales() -> None:
    generator = np.random.default_rng(0)
    rates = [SearchedSetting.read("x=1e-4..1e-2").draw(generator) for _ in range(2000)]
    assert 1e-4 <= min(rates) < 1.1e-4 and 0.9e-2 < max(rates) <= 1e-2
    assert 0.45 < np.mean(np.array(rates) < 1e-3) < 0.55  # each scale is as likely
    even = [SearchedSetting.read("x=1..3.0").draw(generator) for _ in range(2000)]
    assert 1.9 < np.mean(even) < 2.1
    whole = [SearchedSetting.read("x=1..3").draw(generator) for _ in range(3000)]
    assert {type(each) for each in whole} == {int} and min(np.bincount(whole)[1:]) > 900
    scales = [SearchedSetting.read("x=1..1000").draw(generator) for _ in range(2000)]
    assert {type(each) for each in scales} == {int} and min(scales) == 1 and max(scales) > 900


def test_no_two_trials_are_alike_and_a_seed_draws_them_again() -> None:
    space = [SearchedSetting("a", (1, 2, 3)), SearchedSetting("b", ("x", "y"))]
    trials = drawn_trials(space, 50, seed=3)
    assert len(trials) == 6 == len({tuple(each.values()) for each in trials})
    assert trials == drawn_trials(space, 50, seed=3) != drawn_trials(space, 50, seed=4)


def test_a_trial_is_the_recipe_with_its_settings() -> None:
    recipe = Recipe(
        data="days.parquet",
        task=SetCompletion(items="items"),
        model={"num_hidden_layers": 1},
        training={"warmup_steps": 5},
    )
    drawn: dict[str, Any] = {"learning_rate": 0.01, "model.hidden_size": 64, "lr_scheduler_type": "cosine"}
    found = with_drawn(recipe, drawn, name="trial-0")
    assert found.training == {"warmup_steps": 5, "learning_rate": 0.01, "lr_scheduler_type": "cosine"}
    assert found.model == {"num_hidden_layers": 1, "hidden_size": 64} and found.label == "trial-0"
    options = ["--set", "learning_rate=0.01", "--model", "hidden_size=64", "--set", "lr_scheduler_type=cosine"]
    assert as_options(drawn) == options
