"""The page of an extraction."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import isorep

from .pages import HOSTILE, figures, sections, show, written

torch = pytest.importorskip("torch")


@cache
def result():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    rows = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    return isorep.extract(model, rows, layers=["1", "output"])


def with_layers(**changes):
    return replace(result(), layers={name: replace(layer, **changes) for name, layer in result().layers.items()})


def test_the_page_shows_layers_shapes_and_figures():
    html = written(result())
    assert sections(html)[:3] == ["layers", "figures", "next"]
    assert sections(html)[-1] == "citation"
    assert figures(html) == ["rank-figure"]
    for words in ("50 rows of 2 layers", "What was written", "Positions are pooled: mean", "dead units", "OTHER"):
        assert words in html, words


def test_names_stay_text():
    written(replace(with_layers(name=HOSTILE, file=HOSTILE), model=HOSTILE, caveats=(HOSTILE,)))


def test_layers_too_wide_for_an_effective_rank_have_no_figure():
    html = written(with_layers(effective_rank=None))
    assert figures(html) == []
    assert "–" in html


def test_tokens_groups_and_a_stop_are_told():
    data = replace(result().data, kind="text", tokens=1234, empty=2, cut=3)
    changed = replace(result(), data=data, settings=result().settings | {"pool": "token"}, grouped=True, resumed=True)
    html = written(changed)
    for words in (
        "1,234",
        "without a row",
        "longer than the context",
        "gone on with",
        "Each position",
        "--groups group",
    ):
        assert words in html, words


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
