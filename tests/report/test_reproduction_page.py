"""The page of a reproduction: from the JSON alone, whatever is missing, whoever wrote it."""

import re

from isorep.report import render
from isorep.report.svg_files import figure_files

from .hostile import HOSTILE, broken, places

JUNK = [None, [], "text", -3, 1e308, 10**400, True, [1, "a", None], {"a": {"b": []}}]


def page():
    row = {"name": "here", "values": [0.7, None], "errors": [0.01, None], "published": [0.6, 0.8]}
    mark = {"name": "PCA", "value": 0.7, "low": 0.6, "high": 0.8, "bound": 0.9, "series": 2}
    line = {"name": "Base", "points": [[1, 0.5], [2, 0.6]], "labels": ["a", "b"], "series": 1, "dotted": True}
    told = {"title": "A figure", "caption": "Words.", "axes": ["x", "y"], "bound": "best"}
    return {
        "schema": "isorep.reproduction/1",
        "isorep": "0.1.0",
        "versions": {"numpy": "2"},
        "experiment": "toy",
        "title": "A toy",
        "paper": "Somebody",
        "scale": "smoke",
        "verdict": {"sentence": "It works. Mostly so.", "reached": True},
        "tables": [{"name": "t", "title": "Values", "columns": ["a", "b"], "rows": [row], "direction": "up"}],
        "charts": [
            told | {"name": "rows", "marks": [mark], "lines": [], "ticks": []},
            told | {"name": "lines", "marks": [], "lines": [line], "ticks": [[1, "one"], [2, "two"]]},
        ],
        "findings": ["A finding."],
        "units": {"u": {"value": 1}},
        "seconds": {"total": 90.0, "units": {"u": 90.0}},
        "settings": {"seed": 3},
        "caveats": ["A part was left out."],
    }


def test_the_verdict_comes_first_then_tables_figures_and_findings():
    html = render(page())
    found = re.findall(r'<section[^>]* id="([^"]+)"', html)
    assert found[:4] == ["tables", "figures", "findings", "units"]
    assert found[-1] == "citation"
    for words in ("It works.", "0.700 ± 0.010", "here, published", "rows-figure", "lines-figure", "was left out."):
        assert words in html


def test_any_place_may_hold_anything():
    for path in places(page(), most=1):
        if path in ((), ("schema",)):
            continue
        for junk in JUNK:
            result = broken(page(), path, junk)
            html = render(result)
            assert "</html>" in html, (path, junk)
            if path[0] == "charts":
                assert len(figure_files(result)) <= 2
    assert render({"schema": "isorep.reproduction/1"})


def test_hostile_text_stays_text():
    for path in places(page(), most=1):
        if path in ((), ("schema",)):
            continue
        result = broken(page(), path, HOSTILE)
        html = render(result)
        assert "<script>alert" not in html
        assert "<img" not in html
        assert all("<script>alert" not in text and "<img" not in text for text in figure_files(result).values())
