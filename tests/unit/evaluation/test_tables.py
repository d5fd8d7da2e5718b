"""A number that cannot be had is a dash for people, and never "nan"."""

import math

import pytest

from contextual_bert.evaluation import Interval
from contextual_bert.evaluation.intervals import Difference, SeedMean
from contextual_bert.evaluation.metrics import metric_of
from contextual_bert.evaluation.tables import difference_cell, interval_cell, metric_notes, seed_cell

METRIC = metric_of("cross_entropy_nats")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_no_cell_shows_a_number_that_is_none(number: float) -> None:
    lonely = Interval(0.5, number, number, number, 9, 1)
    nothing = Interval(number, number, number, number, 0, 0)
    cells = [interval_cell(each, METRIC, is_signed=sign) for each in (lonely, nothing) for sign in (True, False)]
    cells += [difference_cell(Difference(each, number, number), METRIC, num_resamples=9) for each in (lonely, nothing)]
    cells += [seed_cell(SeedMean(number, number, 1), METRIC)]
    assert not any("nan" in cell or "inf" in cell for cell in cells)
    assert cells[1:3] == ["0.5000 [unknown]", "- [unknown]"]
    assert cells[-1] == "- (-)"


def test_a_pseudo_perplexity_that_no_number_holds_is_a_power() -> None:
    notes = metric_notes(num_items=9, left_out_ks=(), choice="token", cross_entropies={"a": 1.0, "b": 1234.5})
    assert "a 2.72, b e^1234." in notes[1]
