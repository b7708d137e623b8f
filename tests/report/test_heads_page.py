"""The page of heads: of one, of two with their features, and of each part alone."""

from functools import cache

import numpy as np
import pytest
from markupsafe import escape

from isorep import Representation
from isorep.heads import closeness, diversity, examine, head_map

from ..heads.worlds import circle_models, equal_models
from .pages import HOSTILE, figures, sections, show, written


@cache
def result():
    m = equal_models(n=60)
    noisy = m.other_f + 0.1 * np.random.default_rng(9).normal(size=m.other_f.shape)
    return examine(
        m.g, m.other_g, bias=m.b, other_bias=m.other_b, features=m.f, other_features=noisy, weights=np.arange(1, 13),
    )  # fmt: skip


def test_the_answer_comes_first_and_every_section_and_figure_is_there():
    html = written(result())
    assert sections(html)[:4] == ["map", "closeness", "head-1", "head-2"]
    assert sections(html)[-1] == "citation"
    assert figures(html)[:4] == ["errors-figure", "plane-head-figure", "plane-regression-figure", "classes-figure"]
    assert figures(html)[4:] == ["spectrum-1-figure", "spectrum-2-figure"]
    for words in (
        "The heads predict the map between the features.",
        "All numbers of the map",
        "Principal angles",
        "Both kinds of closeness",
        "Diversity of source head",
        "The best-conditioned differences",
    ):
        assert words in html, words


def test_numbers_of_the_page_are_the_result_s():
    html = written(result())
    both = result().head_map.regression
    for value in (both.head.r2, both.regression.r2, both.difference):
        assert f"{value:.4f}" in html
    assert f"{result().closeness.log_odds.value:.4g}" in html
    assert f"{result().heads[0].classes.condition:.3g}" in html


def test_each_part_has_a_page_of_its_own():
    f, other_f, g, other_g = circle_models(n=40)
    for part in (
        diversity(g),
        diversity(np.zeros((5, 2))),
        head_map(g, other_g),
        head_map(g[:3], other_g[:3]),
        head_map(g, np.zeros_like(g)),
        closeness(f, other_f, g, other_g, intervals=False),
        closeness(f @ g.T, other_f @ g.T, intervals=False),
    ):
        assert str(escape(part.verdict.split(":")[0])) in written(part)


def test_a_head_that_is_tiny_has_its_spectrum():
    g = circle_models(n=40)[2]
    assert "spectrum-1-figure" in figures(written(diversity(1e-20 * g)))


def test_names_stay_text():
    m = equal_models(n=60)
    names = [f"{HOSTILE} {place}" for place in range(12)]
    here, there = (Representation(values, ids=names, name=HOSTILE) for values in (m.g, m.other_g))
    written(examine(here, there, features=m.f, other_features=m.other_f))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
