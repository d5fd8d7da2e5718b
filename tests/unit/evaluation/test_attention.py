"""Maps of attention: what moved, and a figure whose pictures are the numbers."""

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from contextual_bert.evaluation.attention import MEAN, AttentionMaps, colours_between, heat_png

# One layer of two heads over three positions; the second head looks at the last position with the context alone.
SAME = np.full((3, 3), 1 / 3, dtype=np.float32)
FIRST, LAST = (np.tile(np.eye(3, dtype=np.float32)[place], (3, 1)) for place in (0, 2))
HEADS = (("1", "2"),)


def maps(**fields: Any) -> AttentionMaps:
    given: dict[str, Any] = {
        "tokens": ("[CLS]", "<b>bar</b>", "[SEP]"),
        "layers": (np.stack([SAME, LAST]),),
        "heads": HEADS,
        "compared": (np.stack([SAME, FIRST]),),
    }
    return AttentionMaps(**(given | fields))


def test_what_moved_is_a_share_of_the_attention() -> None:
    assert maps().moved(0).tolist() == [0, 1]
    half = maps(compared=(np.stack([SAME, (FIRST + LAST) / 2]),))
    assert half.moved(0).tolist() == pytest.approx([0, 0.5])


def test_the_largest_changes_come_first_and_no_change_is_shown_as_none() -> None:
    found = maps().changes()
    assert {(each.layer, each.head) for each in found} == {(1, "2")} and len(found) == 6
    assert {(each.target, each.share, each.compared) for each in found} == {("[CLS] (1)", 0, 1), ("[SEP] (3)", 1, 0)}
    assert maps().changes(2) == found[:2]
    still = maps(compared=(np.stack([SAME, LAST]),))
    assert still.changes() == []
    assert [table.title for table in still.tables(compared="without")] == ["Attention that the context moves, by layer"]


def test_words_of_a_context_have_no_counterpart() -> None:
    wide = np.full((1, 4, 4), 0.25, dtype=np.float32)
    narrow = np.full((1, 3, 3), 0.25, dtype=np.float32)
    found = maps(
        tokens=("[CLS]", "old", "bar", "[SEP]"),
        layers=(wide,),
        heads=(("1",),),
        compared=(narrow,),
        shared=(0, 2, 3),
    )
    assert found.shared_tokens == ("[CLS]", "bar", "[SEP]")
    assert found.moved(0).tolist() == [0]
    page = str(found.to_html(compared="nothing known"))
    assert page.count("<span>old</span>") == 2 and page.count("<span>bar</span>") == 6


def test_tables_and_json_have_the_numbers() -> None:
    layers, changes = maps().tables(compared="versus")
    assert layers.rows == (("1", "2", "50.0%", "100.0%"),)
    assert changes.columns[-2:] == ("versus", "difference") and changes.rows[0][-1] in ("+1.000", "-1.000")
    found = maps().to_dict()
    assert found["layers"][0]["attention"][0] == pytest.approx([1 / 6, 1 / 6, 2 / 3], abs=1e-4)
    assert found["layers"][0]["moved"] == {"1": 0, "2": 1}
    alone = maps(compared=None).to_dict()
    assert set(alone) == {"tokens", "layers"} and set(alone["layers"][0]) == {"layer", "attention"}
    assert maps(compared=None).tables(compared="") == []


def test_a_figure_has_a_picture_a_head_and_runs_nothing() -> None:
    page = str(maps().to_html(compared="nothing known"))
    assert page.count("<img") == 3 * 3  # the mean and two heads, in three panels
    assert page.count('type="radio"') == 1 + 3 and MEAN in page
    assert "<b>bar" not in page and "&lt;b&gt;bar" in page and "<script" not in page
    assert str(maps(compared=None).to_html(compared="")).count("<img") == 3


def test_a_picture_has_the_colours_of_the_numbers() -> None:
    page = str(maps().to_html(compared="nothing known"))
    *_, with_context = re.findall(r'l0h2"><img src="data:image/png;base64,([^"]+)', page)[:1]
    pixels = imread(io.BytesIO(base64.b64decode(with_context)))[..., :3]
    assert pixels.shape == (3, 3, 3)
    np.testing.assert_allclose(pixels[:, :2], 1)
    np.testing.assert_allclose(pixels[:, 2] * 255, np.tile([0x00, 0x72, 0xB2], (3, 1)), atol=0.5)


def test_levels_lie_between_the_colours() -> None:
    palette = colours_between("#000000", "#ffffff")
    pixels = imread(io.BytesIO(heat_png(np.array([[0, 0.5, 1, 2]]), palette)))
    np.testing.assert_allclose(pixels[0, :, 0], [0, 0.5, 1, 1], atol=0.01)
