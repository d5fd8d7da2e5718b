"""Weights of labels: what a recipe may name, and the numbers that the loss gets."""

from typing import Any

import numpy as np
import pytest

from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.training import Classification
from contextual_bert.training.class_weights import class_weights_of
from contextual_bert.training.tasks import Tagging

LABELS = ("bad", "fair", "good")
COUNTS = np.array([10, 0, 30])


def test_balanced_labels_count_alike_in_sum() -> None:
    weights = class_weights_of(["balanced"], LABELS, COUNTS.tolist())
    assert (COUNTS * weights).tolist() == [20, 0, 20]
    assert weights[1] == 1


@pytest.mark.parametrize("given", [["balanced"], ["bad=5"], ["good=0.1", "fair=7"]])
def test_the_mean_over_training_is_one(given: list[str]) -> None:
    weights = np.array(class_weights_of(given, LABELS, COUNTS.tolist()))
    assert (COUNTS * weights).sum() == pytest.approx(COUNTS.sum())
    assert (weights > 0).all()


def test_named_weights_keep_their_ratios() -> None:
    bad, fair, good = class_weights_of(["bad=6", "good=2"], LABELS, COUNTS.tolist())
    assert bad / good == pytest.approx(3)
    assert fair / good == pytest.approx(0.5)  # not named: 1


def test_a_label_of_several_is_balanced_against_its_absence() -> None:
    weights = class_weights_of(["balanced"], ("a", "b", "c", "d"), [10, 0, 40, 20], num_texts=40)
    assert weights == [3, 1, 1, 1]  # that none or all have: nothing to balance
    assert class_weights_of(["a=2"], ("a", "b"), [10, 5], num_texts=40) == [2, 1]


@pytest.mark.parametrize("given", ["bad", "bad=", "bad=x", "bad=0", "bad=-1", "bad=nan", "bad=inf", "=2", "Balanced"])
@pytest.mark.parametrize("task", [Classification, Tagging])
def test_what_is_no_weight_is_refused(given: str, task: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"class_weights=.* a label and a number above 0"):
        task(text="text", label="label", class_weights=(given,))


def test_weights_that_do_not_go_together_are_refused() -> None:
    for given in (("bad=1", "bad=2"), ("balanced", "bad=2")):
        with pytest.raises(ConfigurationError, match="a label and a number above 0, each label once"):
            Classification(label="label", class_weights=given)
    with pytest.raises(ConfigurationError, match=r"class_weights=\['balanced'\] is for labels, and with"):
        Classification(label="label", class_weights=("balanced",), is_regression=True)
    with pytest.raises(UnknownNameError, match=r"'godo' is no label of the table.*good"):
        class_weights_of(["godo=2"], LABELS, COUNTS.tolist())
