"""Names of points: on no point, no whisker and no other name, joined to their own by a line that crosses no other."""

import numpy as np
from matplotlib.text import Annotation

from contextual_bert.evaluation.drawing import new_figure
from contextual_bert.evaluation.label_layout import LabelledPoint, place_labels


def test_names_keep_off_points_whiskers_and_each_other() -> None:
    # Two points side by side at the right edge, where only one of the long names has room to the left.
    points = [
        LabelledPoint("a method with a long name", 0.93, 0.50),
        LabelledPoint("another with a longer name (control)", 0.95, 0.50),
        LabelledPoint("one with a whisker", 0.5, 0.5, error=0.2),
        LabelledPoint("one below its end", 0.5, 0.25),
    ]
    figure = new_figure(8.0, 5.4)
    panel = figure.subplots()
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    place_labels(figure, panel, points, line=0.9)
    figure.canvas.draw()
    names = [child for child in panel.get_children() if isinstance(child, Annotation)]
    boxes = [super(Annotation, name).get_window_extent() for name in names]
    assert [name.get_text() for name in names] == [point.name for point in points]
    assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[:number])
    places = [panel.transData.transform((point.across, point.height)) for point in points]
    ends = panel.transData.transform([(0.5, 0.3), (0.5, 0.7)])
    line = panel.transData.transform([(x, 0.9) for x in np.linspace(0, 1, 50)])
    assert not any(box.contains(*place) for box in boxes for place in (*places, *ends, *line))
    frame = panel.get_window_extent()
    for box, place in zip(boxes, places, strict=True):
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
        start = np.clip(place, box.min, box.max)
        others = [other for other in places if np.abs(other - place).max() > 20]
        way = place + np.linspace(0, 1, 50)[:, None] * (start - place)
        assert all(np.hypot(*(each - other)) > 5 for each in way for other in others)
