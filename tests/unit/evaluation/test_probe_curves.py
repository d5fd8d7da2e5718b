"""Curves of probes: accuracies with intervals over customers, tables, JSON and a picture."""

import io
import json
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from contextual_bert.evaluation.probe_curves import ProbeCurve, draw_probes, measure_probe

NUM_ROWS = 40


def curve(*, clusters: Any = None, has_control: bool = True) -> ProbeCurve:
    rows = np.arange(NUM_ROWS)
    hits = np.stack([rows < 10, rows < 30, rows < NUM_ROWS, rows < 20])  # input, layer 1, mixture, most common class
    return measure_probe(
        "the context's age",
        hits,
        shuffled=np.stack([rows < 10, rows < 10]) if has_control else None,
        clusters=rows if clusters is None else clusters,
        weights=(0.25, 0.75),
        num_classes=4,
        num_train=100,
    )


def test_accuracies_are_percent_with_their_intervals() -> None:
    found = curve()
    assert [each.value for each in found.layers] == [25, 75]
    assert found.mixture.value == 100 and found.most_common.value == 50
    assert found.mixture.low < 100  # all right of forty rows is not certain
    assert found.shuffled is not None and [each.value for each in found.shuffled] == [25, 25]
    wide = curve(clusters=np.arange(NUM_ROWS) // 10)  # the rows of a customer stand and fall together
    assert wide.layers[1].high - wide.layers[1].low > 1.5 * (found.layers[1].high - found.layers[1].low)


def test_a_table_has_a_row_a_layer() -> None:
    table = curve().table()
    assert table.title == "Probe of the context's age: 4 classes, 100 training rows, 40 scored"
    assert [row[0] for row in table.rows] == ["input", "1", "mixture", "most common class"]
    assert table.rows[1][1].startswith("75.0 [") and table.rows[1][2].startswith("25.0 [")
    assert table.rows[1][3] == "0.75"
    assert len(curve(has_control=False).table().columns) == 3


def test_json_says_null_of_an_unknown_interval() -> None:
    found = json.loads(json.dumps(curve(clusters=np.zeros(NUM_ROWS), has_control=False).to_dict(), allow_nan=False))
    assert found["layers"][1]["value"] == 75 and found["layers"][1]["low"] is None
    assert found["shuffled"] is None and found["weights"] == [0.25, 0.75]


@pytest.mark.parametrize("has_control", [True, False])
def test_a_picture_is_drawn(has_control: bool) -> None:
    one, two = (imread(io.BytesIO(draw_probes([curve(has_control=has_control)] * count))) for count in (1, 2))
    assert one.shape[0] == two.shape[0] and one.shape[1] < two.shape[1]
