"""The page of a reproduction: claims, tables beside the published ones, figures and units."""

import base64
from dataclasses import replace

import numpy as np
import pytest

from isorep.disentangling import contact_sheet
from isorep.report.svg_files import svg_file
from isorep.reproduction import Chart, Line, Mark, Row, Summary, Table
from isorep.reproduction.experiment import Claim
from isorep.reproduction.page import figure_of
from isorep.reproduction.runner import Reproduction, Timing

from .pages import HOSTILE, figures, sections, written

PICTURE = base64.b64encode(contact_sheet(np.random.default_rng(0).random((2, 3, 3, 8, 8))).png).decode()
ROWS = Chart("rows", "Rows", "Words.", ("x", "y"), marks=(Mark("PCA", 0.7, 0.6, 0.8, 0.9, 2),), bound="best")
CLOUD = Chart(
    "cloud", "A cloud", "", ("x", "y"), lines=(Line("a", ((0.0, 0.0), (10.0, 1.0)), ("p", "q"), 1, dotted=True),)
)
GRID = Chart(
    "grid", "G", "", ("latents", "factors"), cells=((0.0, 1.0), (0.55, None)), sides=(("floor", "wall"), ("z0", "z1"))
)


def result(*charts, name="here", **summary):
    table = Table("t", "Values", ("a", "b"), (Row(name, (0.7, None), (0.01, None), (0.6, 0.8)),), "up", "Table 1")
    told = Summary(
        "It works. Mostly so.", True, (table,), charts, claims=(Claim(name, "R² 0.7", "above", "0.6", True),)
    )
    return Reproduction(
        experiment="toy",
        title=name,
        paper="Somebody",
        scale="smoke",
        summary=replace(told, **summary),
        outcomes={"u": {"value": 1}},
        timing=Timing({"u": 90.0}, 90.0, 0),
        settings={"seed": 3},
        versions={"numpy": "2"},
        folder=None,
        skipped=("A part was left out.",),
    )


def test_the_verdict_comes_first_then_claims_tables_and_figures():
    html = written(result(ROWS, CLOUD, GRID))
    assert sections(html)[:4] == ["claims", "figures", "tables", "units"]
    assert figures(html) == ["rows-figure", "cloud-figure", "grid-figure"]
    for words in ("It works.", "0.700 ± 0.010", "here, published", "was left out.", "holds", "floor: 0.00, 1.00"):
        assert words in html


def test_names_stay_text():
    written(result(replace(ROWS, title=HOSTILE), name=HOSTILE))
    assert "<img" not in svg_file(figure_of(replace(ROWS, title=HOSTILE)))


def test_a_picture_is_shown_from_the_page_itself_and_anything_else_is_refused():
    figure = figure_of(Chart("p", "P", "", ("", ""), picture=PICTURE))
    assert f"base64,{PICTURE}" in svg_file(figure)
    assert "image-rendering:pixelated" in figure.drawings[0].body
    for bad in ("<script>alert(1)</script>", "https://example.org/x.png", PICTURE[:-7] + '"/><b>'):
        with pytest.raises(ValueError, match="PNG"):
            figure_of(Chart("p", "P", "", ("", ""), picture=bad))


def test_a_square_chart_is_square_on_every_page_and_carries_its_words():
    figure = figure_of(replace(CLOUD, square=True, notes=((10.0, 1.0, "far <b>"), (0.0, 0.0, "near"))))
    for drawing in figure.drawings:
        assert drawing.width == drawing.height
        assert "far &lt;b&gt;" in drawing.body
    assert figure_of(CLOUD).drawings[0].height == 300


def test_files_spell_colours_out():
    text = svg_file(figure_of(GRID))
    assert ".p10{fill:#" in text.replace(" ", "")
    assert "color-mix" not in text
    assert "var(" not in text
