"""New items: their probability against how often they are asked for."""

import json

import numpy as np
import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import Scores
from contextual_bert.evaluation.new_items import calibrate_new_items

SETTINGS = {"num_bins": 15, "num_resamples": 200, "seed": 0, "level": 0.95}


def scores_of(number: int) -> Scores:
    rows = np.arange(number)
    return Scores(rows, 0 * rows, np.full(number, -1.0), 0 * rows, 0 * rows + 1, np.full(number, 0.4))


def test_probabilities_that_come_true_have_the_error_of_chance() -> None:
    draw = np.random.default_rng(0)
    expected = draw.beta(1, 6, 4000)
    is_new = draw.random(4000) < expected
    found = calibrate_new_items(scores_of(4000), expected, is_new, clusters=np.arange(4000), **SETTINGS)
    assert found.excess.low < 0 < found.excess.high
    assert found.error.value < 3 * found.chance_error
    assert found.expected.value == pytest.approx(expected.mean())
    assert found.asked.value == is_new.mean()


def test_too_few_are_expected_where_probabilities_are_halved() -> None:
    draw = np.random.default_rng(0)
    true = draw.beta(2, 6, 4000)
    is_new = draw.random(4000) < true
    found = calibrate_new_items(scores_of(4000), true / 2, is_new, clusters=np.arange(4000), **SETTINGS)
    assert found.excess.high < 0
    assert found.error.value == pytest.approx(true.mean() / 2, abs=0.02)
    assert "difference -" in found.note("masked position")
    assert json.loads(found.to_json())["asked"]["value"] == is_new.mean()


def test_other_numbers_of_rows_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="another number of rows"):
        calibrate_new_items(scores_of(3), np.zeros(2), np.zeros(3, bool), clusters=np.arange(3), **SETTINGS)
