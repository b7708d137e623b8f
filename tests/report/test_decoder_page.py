"""The page of a decoder's geometry."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")

from isorep.decoder import bilipschitz

from ..decoder.networks import linear, mlp
from .pages import HOSTILE, figures, sections, show, written


@cache
def result(kind="exact", name="toy"):
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 5))
    if kind == "inactive":
        return bilipschitz(linear(rng.standard_normal((9, 5)) * [1, 1, 0, 1, 1]), z)
    if kind == "one":
        return bilipschitz(linear(np.eye(1)), [[0.5]])
    if kind == "nothing":
        return bilipschitz(linear(np.zeros((9, 5))), z)
    return bilipschitz(mlp(), z, name=name, mode=kind)


def test_the_answer_comes_first_and_every_figure_and_table_is_there():
    html = written(result())
    names = ["constants", "singular-values", "latents", "directions", "convexity", "rows", "assumptions"]
    assert sections(html)[:7] == names
    assert sections(html)[-1] == "citation"
    assert figures(html) == ["stretch-figure", "local-figure", "spectrum-figure", "latents-figure"]
    for words in ("How far toy is from an isometry", "locally", f"{result().constant:.4g}", "What bounds rest on"):
        assert words in html, words


def test_lost_directions_are_infinite_and_the_active_latents_are_drawn():
    html = written(result("inactive"))
    assert 'class="verdict no"' in html
    assert "infinite" in html
    assert "of the active latents" in html
    assert f"{result('inactive').active.constant:.4g}" in html


@pytest.mark.parametrize(("kind", "words"), [("paper", "at least"), ("one", "1-bi-Lipschitz"), ("nothing", "infinite")])
def test_other_modes_single_rows_and_constant_decoders_have_pages(kind, words):
    assert words in written(result(kind))


def test_an_estimate_from_below_that_is_within_the_theorem_leaves_the_answer_open():
    z = np.random.default_rng(0).standard_normal((20, 3))
    for mode, kind in (("exact", "yes"), ("paper", "open")):
        assert f'class="verdict {kind}"' in written(bilipschitz(linear(np.eye(3)), z, mode=mode))


def test_names_stay_text():
    written(result(name=HOSTILE))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result("inactive"), width)
