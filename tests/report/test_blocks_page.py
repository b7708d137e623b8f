"""The page of content and style: a shared block with a rerun, none, and one that is undecided."""

from functools import cache

import numpy as np
import pytest

from isorep.blocks import content_style

from ..blocks.worlds import latents, views_of
from .pages import HOSTILE, figures, sections, show, written


@cache
def result(names=("day", "night")):
    content = latents(200, 2)
    views, again = (dict(zip(names, views_of(content, (2, 3), seed=seed), strict=True)) for seed in (0, 1))
    return content_style(views, reruns=[again], n_null=19)


def test_a_shared_block_has_its_components_views_and_reruns():
    html = written(result())
    assert sections(html)[:3] == ["components", "views", "reruns"]
    assert figures(html) == ["components-figure"]
    assert "2 shared dimensions." in html
    assert '<div class="verdict yes">' in html
    assert "Content of the first run mapped onto rerun 1" in html


def test_views_without_a_shared_block_say_so():
    html = written(content_style(list(np.random.default_rng(0).normal(size=(3, 100, 3))), n_null=19))
    assert "The views share no block." in html
    assert '<div class="verdict no">' in html
    assert "view 3" in html


def test_an_undecided_dimension_has_no_shares():
    views = views_of(latents(90, 2), (2, 2))
    html = written(content_style(views, groups=np.repeat([0, 1, 2], 30), folds=3, n_null=19))
    assert "The shared dimension is undecided." in html
    assert sections(html)[:1] == ["components"]
    assert "views" not in sections(html)


def test_names_cannot_break_the_page():
    written(result((HOSTILE, "b")))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
