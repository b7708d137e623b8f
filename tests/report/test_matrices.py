"""Matrices and pictures among the charts of a result: drawn, or left out where they are something else."""

import base64
import re

import numpy as np
import pytest

from isorep.disentangling import contact_sheet
from isorep.report import render
from isorep.report.svg_files import figure_files

SHEET = contact_sheet(np.random.default_rng(0).random((2, 3, 3, 8, 8)))
PICTURE = base64.b64encode(SHEET.png).decode()


def result(**chart):
    made = {"name": "one", "title": "A chart", "caption": "Words.", "axes": ["latents", "factors"], **chart}
    return {"schema": "isorep.reproduction/1", "title": "T", "charts": [made]}


def test_a_matrix_is_a_heat_map_in_page_and_file():
    given = result(cells=[[0.0, 1.0], [0.55, None]], sides=[["floor", "wall"], ["z0", "z1"]])
    page = render(given)
    for words in ("floor: 0.00, 1.00", "wall: 0.55", "cell p10"):
        assert words in page, words
    text = figure_files(given)["one"]
    assert re.search(r"\.p10\{fill:#[0-9a-f]{6}\}", text)
    assert re.search(r"\.p5\{fill:#[0-9a-f]{6}\}", text)
    assert "color-mix" not in text
    assert "var(" not in text


def test_a_picture_is_shown_from_the_page_itself():
    page = render(result(picture=PICTURE, pixels=[28, 18]))
    assert f"data:image/png;base64,{PICTURE}" in page
    assert "image-rendering:pixelated" in page
    assert f"base64,{PICTURE}" in figure_files(result(picture=PICTURE))["one"]


@pytest.mark.parametrize(
    "picture",
    [
        "<script>alert(1)</script>",
        "https://example.org/x.png",
        PICTURE[:-7] + '"/><b>',
        base64.b64encode(b"GIF89a" + bytes(60)).decode(),
        base64.b64encode(SHEET.png[:16] + b"\xff\xff\xff\xff" * 6).decode(),
        7,
        ["a"],
    ],
)
def test_anything_else_is_left_out(picture):
    page = render(result(picture=picture))
    assert "data:image/png" not in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("cells", [[[1.0], [1.0, 2.0]], [[]], "x", [1.0], [{}], [["<b>"]]])
def test_cells_that_are_no_matrix_are_left_out(cells):
    page = render(result(cells=cells, sides="no"))
    assert "<b>" not in page
