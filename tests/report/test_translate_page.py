"""The page of a translation."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import isorep
from isorep.translation.maps import Point

from ..data import noisy_pair
from .pages import HOSTILE, figures, sections, show, written


@cache
def result(names=("v1.npy", "v2.npy")):
    x, y = noisy_pair(400, 6, 0.3)
    old, new = (isorep.Representation(side, name=name) for side, name in zip((x, y), names, strict=True))
    return isorep.translate(old, new, maps=("rigid", "linear"), at=(1, 10), n_queries=50, n_boot=50)


@cache
def unpaired():
    rng = np.random.default_rng(0)
    old, new = (rng.gamma((1, 4), size=(600, 2)) @ rng.normal(size=(2, 2)) for _ in range(2))
    return isorep.translate_unpaired(old, new)


@pytest.mark.parametrize("answer", ["found", "in part", "refused"])
def test_every_answer_without_pairs_has_a_page_with_its_components(answer):
    html = written(replace(unpaired(), verdict=isorep.results.Verdict(answer, "A. B.")))
    assert sections(html)[0] == "components"
    assert "variance that they carry" in html


def test_the_answer_comes_first_and_every_figure_is_there():
    html = written(result())
    assert sections(html)[:6] == ["retrieval", "sizes", "maps", "confidence", "pairs", "drift"]
    assert sections(html)[-1] == "citation"
    assert figures(html) == [
        "recall-figure", "overlap-figure", "sizes-figure", "maps-figure", "confidence-figure", "curve-figure"
    ]  # fmt: skip
    assert f"{result().verdict.sentence.partition('. ')[0]}." in html
    for words in ("pairs that are enough", "v1.npy", "guessing"):
        assert words in html


def test_names_stay_text():
    written(result((HOSTILE, "b")))


@pytest.mark.parametrize("answer", ["translate", "with losses", "re-embed", "undecided", "unrelated"])
def test_every_answer_has_its_colour_and_its_step(answer):
    html = written(replace(result(), verdict=isorep.results.Verdict(answer, "A. B.")))
    kind = {"translate": "yes", "with losses": "open", "undecided": "open"}.get(answer, "no")
    assert f'class="verdict {kind}"' in html
    assert html.count('class="reached"') == (answer not in ("unrelated", "undecided"))


@pytest.mark.parametrize("sizes", [(20, 40, 70), (10, 1000, 10**6)])
def test_a_curve_over_few_pairs_and_over_many_has_ticks(sizes):
    curve = replace(result().curve, points=tuple(Point(n, 1 / n) for n in sizes), enough=None)
    html = written(replace(result(), curve=curve))
    assert f"{sizes[-1]:,} pairs" in html
    assert "not shown" in html


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
