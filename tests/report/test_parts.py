"""The parts of a page and the charts in it: what they promise to whoever assembles them."""

import json
import re

import pytest
from markupsafe import escape

from isorep.report.document import (
    Answer,
    Cell,
    Column,
    Definitions,
    Figure,
    Heading,
    Notes,
    Page,
    Prose,
    Quotation,
    Row,
    Section,
    Table,
)
from isorep.report.figures import Cloud, Heatmap, Histogram, IntervalRow, Intervals, Key, Line, Lines, Scatter
from isorep.report.figures.axes import Scale, spanning, tag
from isorep.report.page import write_page
from isorep.report.read import compact, count, fixed, percent

LINE = Line("series", "s2", ((1.0, 0.2), (2.0, 0.4)), ("first", "second"))


def page_of(*parts):
    return write_page(Page("title", "eyebrow", (Answer("Yes.", "", True),), (Section("one", "One", parts),), "me"))


def test_every_part_finds_its_template_and_shows_its_text():
    drawing = Lines((LINE,), ("x", "y"), 200)
    table = Table(
        "numbers", "Numbers", (Column("name", numeric=False), Column("value")), ((Cell("a"), Cell("1.5", 1.5)),)
    )
    html = page_of(
        Prose(("some prose",)),
        Heading("a heading"),
        Notes(("a note",)),
        Definitions((("term", "meaning", "remark"),)),
        Quotation("label", "quoted"),
        Row(
            (table, Figure("fig", "Drawn", "caption", "told", drawing, (Key("line", "s2", "key"),), table, narrow=True))
        ),
    )
    for text in (
        "some prose",
        "a heading",
        "a note",
        "term",
        "meaning",
        "remark",
        "quoted",
        "Numbers",
        "Drawn",
        "told",
    ):
        assert text in html
    assert 'data-v="1.5"' in html
    assert html.count("<table>") == 2


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><b>", "&lt;"]
)
def test_text_stays_text_wherever_a_part_takes_it(hostile):
    drawing = Lines((Line(hostile, "s2", ((1.0, 1.0), (2.0, 0.5)), (hostile, hostile)),), (hostile, hostile), 200)
    table = Table(hostile, hostile, (Column(hostile),), ((Cell(hostile, hostile),),), folded=True)
    figure = Figure("name", hostile, hostile, hostile, drawing, (Key("dot", "s1", hostile),), table)
    notes = (
        Notes((hostile,)),
        Quotation(hostile, hostile),
        Definitions(((hostile, hostile, hostile),)),
        Heading(hostile),
    )
    html = page_of(Prose((hostile,)), figure, *notes)
    assert str(escape(hostile)) in html
    assert len(re.findall("<script", html)) == 2  # the figure's data and our own
    assert len(re.findall("</script", html)) == 2
    assert "<img" not in html
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', html).group(1))
    assert data["names"] == [hostile]
    assert data["labels"] == [[hostile, hostile]]


def test_a_scale_puts_its_ends_at_the_ends_and_keeps_what_is_outside_at_the_edge():
    scale = Scale(0.0, 2.0, 10.0, 110.0)
    assert [scale(value) for value in (0.0, 1.0, 2.0, 3.0, -1.0)] == [10.0, 60.0, 110.0, 110.0, 10.0]
    log = Scale(1e-3, 1.0, 0.0, 300.0, log=True)
    assert log(1e-2) == pytest.approx(100.0)
    assert log(0.0) == 0.0
    assert spanning(5.0, 5.0, 0.0, 10.0)(5.0) == 5.0


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.5, 1.0, ["−0.5", "0.0", "0.5", "1.0"]),
        (0.0, 0.03, ["0.00", "0.01", "0.02", "0.03"]),
        (0.0, 800.0, ["0", "200", "400", "600", "800"]),
    ],
)
def test_ticks_are_round_few_and_written_alike(low, high, texts):
    assert [text for _, text in Scale(low, high, 0, 1).ticks(5)] == texts


def test_ticks_of_a_logarithmic_scale_are_powers_of_ten_all_written_alike():
    assert [text for _, text in Scale(1e-5, 1.0, 0, 1, log=True).ticks(10)] == [
        "10⁰",
        "10⁻¹",
        "10⁻²",
        "10⁻³",
        "10⁻⁴",
        "10⁻⁵",
    ]
    assert [text for _, text in Scale(1e-3, 1.0, 0, 1, log=True).ticks(10)] == ["1", "0.1", "0.01", "0.001"]


def test_every_mark_lies_inside_its_drawing_and_has_a_label():
    values = ((1.0, -0.5, None), (0.0, 0.2, 0.9))
    clouds = [Cloud(name, "s1", ((0.0, 0.0), (0.3, 0.1)), ("a", "b")) for name in "pq"]
    rows = (
        IntervalRow("r", "s2", 0.3, (0.2, 0.4), 0.25, (0.5, 0.6, 0.7), labels=("held", "in", "null"), printed="0.3"),
        IntervalRow("empty", "s0"),
    )
    for width in (340, 720):
        charts = [
            Intervals(rows, "error"),
            Lines((LINE,), ("x", "y"), 260),
            Lines((LINE,), ("x", "y"), 260, log=True),
            Histogram((0.0, 1.5, 3.0), (LINE,), ("x", "rows"), (("s2", 2.0),)),
            Heatmap(values, ("0", "1"), ("5", "6", "7"), ("source", "target"), marked=((1, 2),)),
            Scatter(*clouds, (0.0, 0.3, 0.0, 0.1), ("x", "y")),
        ]
        for drawing in (chart.draw(width) for chart in charts):
            marks = [point for series in drawing.series for point in series.points]
            assert marks
            assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in marks)
            for series in drawing.series:
                assert len(series.labels) == len(series.points)


def test_a_square_chart_has_one_scale_for_both_axes():
    cloud = Line("a", "s1", ((0.0, 0.0), (10.0, 0.0), (0.0, 1.0)), ("", "", ""), dotted=True)
    (left, bottom), (right, _), (_, top) = Lines((cloud,), ("x", "y"), square=True).draw(400).series[0].points
    assert abs((right - left) - 10 * (bottom - top)) < 1e-6
    (left, bottom), (right, _), (_, top) = Lines((cloud,), ("x", "y"), 400).draw(400).series[0].points
    assert right - left < 2 * (bottom - top)


def test_the_scatter_keeps_the_proportions_of_the_plane():
    cloud = Cloud("c", "s1", ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)), ("a", "b", "c"))
    (a, b, c) = Scatter(cloud, cloud, (0.0, 1.0, 0.0, 1.0), ("x", "y")).draw(340).series[0].points
    assert b[0] - a[0] == pytest.approx(a[1] - c[1])


def test_an_attribute_cannot_be_left_by_a_quote():
    assert (
        tag("text", "<b>", class_='"x', stroke_width=1.04) == '<text class="&#34;x" stroke-width="1">&lt;b&gt;</text>'
    )


def test_numbers_read_as_a_person_writes_them():
    assert [fixed(-0.1234), fixed(None), fixed(3e7)] == ["−0.1234", "–", "3e+07"]
    assert (compact(1234567.0), count(44850), percent(0.143)) == ("1.235e+06", "44,850", "14%")
