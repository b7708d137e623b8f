"""Charts of points on a plane: one scale for both axes, and words at places."""

import re

from isorep.report.charts import chart_figure
from isorep.report.figures import Line, Lines
from isorep.report.read import Node

CHART = {
    "name": "cloud",
    "title": "A cloud",
    "axes": ["x", "y"],
    "lines": [{"name": "a", "points": [[0, 0], [10, 1]], "labels": ["p", "q"], "dotted": True}],
}


def test_both_axes_have_one_scale():
    cloud = Line("a", "s1", ((0.0, 0.0), (10.0, 0.0), (0.0, 1.0)), ("", "", ""), dotted=True)
    (left, bottom), (right, _), (_, top) = Lines((cloud,), ("x", "y"), square=True).draw(400).series[0].points
    assert abs((right - left) - 10 * (bottom - top)) < 1e-6
    (left, bottom), (right, _), (_, top) = Lines((cloud,), ("x", "y"), 400).draw(400).series[0].points
    assert right - left < 2 * (bottom - top)


def test_a_square_chart_is_square_on_every_page_and_carries_its_words():
    figure = chart_figure(Node(CHART | {"square": True, "notes": [[10, 1, "far <b>"], [0, 0, "near"]]}))
    for drawing in figure.drawings:
        assert drawing.width == drawing.height
        words = re.findall(r'<text class="tick strong"[^>]*text-anchor="(\w+)">([^<]*)<', drawing.body)
        assert words == [("end", "far &lt;b&gt;"), ("start", "near")]
    assert chart_figure(Node(CHART)).drawings[0].height == 300


def test_words_without_a_place_are_left_out():
    for notes in ("text", [[1, 2]], [["x", 0, "a"]], [[float("nan"), 0, "a"]], [[1e300, 0, "a"]], [None], {"a": 1}):
        figure = chart_figure(Node(CHART | {"notes": notes}))
        assert "tick strong" not in figure.drawings[0].body
