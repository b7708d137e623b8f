"""The pages of a fit and of its stability."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from markupsafe import escape

import isorep
from isorep import ICA
from isorep.files import finite_json
from isorep.ica import Plane, Stability
from isorep.ica.curvature import Constants
from isorep.ica.refits import RefitFacts
from isorep.ica.summary import Fit

from ..data import mixing
from .pages import HOSTILE, figures, sections, show, written

FIGURES = {
    "ica": ["contrast-figure", "kurtosis-figure", "planes-figure", "path-figure"],
    "stability": [
        "score-figure",
        "angle-figure",
        "kurtosis-figure",
        "contrast-figure",
        "match-figure",
        "planes-figure",
    ],
}


@cache
def results():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.laplace(size=(2000, 4)), rng.normal(size=(2000, 6))]) @ mixing(10, 0)
    found = isorep.stability(isorep.Representation(x, name="cells.npy"), n_restarts=5)
    return {
        "ica": Fit.of(found.ica, name="cells.npy", rows=2000, seconds=2.5, peak_memory=10**9),
        "stability": found,
    }


@cache
def wide(k=1000, refits=10):
    """Attributes as a fit of so many components has them, made by hand."""
    rng = np.random.default_rng(0)
    ica = ICA()
    ica.components_, ica.mixing_, ica.mean_, ica.rank_ = np.eye(k), np.eye(k), np.zeros(k), k
    ica.contrast_ = np.geomspace(0.1, 1e-4, k) * rng.choice([-1, 1], k)
    ica.kurtosis_, ica.skewness_ = rng.gamma(0.5, 10, k) - 1.2, rng.gamma(1, 1, k)
    ica.uncertainty_ = np.geomspace(0.01, 2, k)
    ica.gaussian_, ica.unsettled_ = np.arange(k) > 0.7 * k, rng.random(k) < 0.02
    planes = rng.uniform(0, 0.3, (k, k))
    ica.conditioning_ = (planes + planes.T) / 2 - 0.01
    ica.path_ = np.column_stack([np.arange(900.0), np.log1p(np.arange(900.0))])
    ica.converged_, ica.n_iter_ = True, 900
    found = Stability(
        name="wide",
        rows=10**6,
        rows_used=60_000,
        ica=ica,
        correlations=np.clip(np.linspace(1.2, 0.2, k) + 0.1 * rng.normal(size=(refits, k)), 0, 1),
        quality=np.linspace(1, 0, k),
        expected=np.geomspace(0.01, 2, k),
        planes=tuple(Plane(700 + i, 800 + i, 0.001, 0.002, 0.5, 0.6) for i in range(200)),
        n_weak_planes=44_850,
        constants=Constants(1e-9, False, 1.0, 1.0, 200.0, 2e11, False),
        refits=tuple(RefitFacts(60_000, k, True, 300) for _ in range(refits)),
        settings={"n_restarts": refits, "resample": True, "groups": None, "clustered_refits": 3, "ica": {}},
    )
    return {"ica": Fit.of(ica, name="wide", rows=10**6), "stability": found}


@pytest.mark.parametrize("kind", FIGURES)
def test_the_reading_comes_first_and_every_figure_is_there(kind):
    result = results()[kind]
    html = written(result)
    head = {"ica": "4 of 10 components differ from Gaussian.", "stability": "4 of 10 components are reproducible."}
    assert re.search(r"<h1>([^<]+)</h1>", html).group(1) == head[kind]
    assert str(escape(result.reading)) in html
    assert figures(html) == FIGURES[kind]
    assert sections(html)[-2:] == ["versions", "citation"]
    assert "cells.npy" in html


def test_the_tables_hold_the_numbers_of_the_result():
    result = results()["stability"]
    html = written(result)
    for score, share in zip(result.scores, result.recurrence, strict=True):
        assert f">{score:.3f}</td>" in html
        assert f">{share:.2f}</td>" in html
    plane = result.planes[0]
    assert f">ica{plane.first} and ica{plane.second}</th>" in html
    assert "for diagnosis only" in html


def test_weak_planes_are_marked_in_the_heat_map_once_for_each_side():
    result = results()["stability"]
    html = written(result)
    figure = html[html.index('id="planes-figure"') : html.index("weak-planes")]
    dots = re.findall(r'<path class="dots \w+" d="([^"]+)"', figure)
    assert [mark.count("M") for mark in dots] == [2 * result.n_weak_planes] * 2
    assert figure.count(", weak") == 2 * result.n_weak_planes


@pytest.mark.parametrize("kind", FIGURES)
def test_a_thousand_components_stay_small_in_json_and_on_the_page(kind):
    result = wide()[kind]
    html = written(result)
    assert len(finite_json(result.to_dict()).encode()) < 1_500_000
    assert figures(html) == FIGURES[kind]
    assert "component 999: " in html


def test_a_fit_without_whitening_has_a_shorter_page():
    ica = ICA(whiten=None).fit(np.random.default_rng(0).laplace(size=(400, 3)))
    html = written(Fit.of(ica, name="raw", rows=400))
    assert figures(html) == ["contrast-figure", "path-figure"]
    assert "neither centred nor whitened" in html


def test_one_component_has_no_planes_and_no_angles():
    rows = np.random.default_rng(0).laplace(size=(300, 1))
    found = isorep.stability(rows, n_restarts=2)
    assert figures(written(found)) == ["score-figure", "kurtosis-figure", "contrast-figure", "match-figure"]
    assert "planes-figure" not in written(Fit.of(found.ica, name="one", rows=300))


def test_clusters_that_were_not_looked_at_have_no_quality():
    result = results()["stability"]
    written(replace(result, quality=np.full(len(result.quality), np.nan)))


def test_the_command_writes_both_pages(tmp_path):
    from typer.testing import CliRunner

    from isorep.cli.commands import app

    for kind, result in results().items():
        result.to_json(tmp_path / f"{kind}.json")
        done = CliRunner().invoke(app, ["report", str(tmp_path / f"{kind}.json")])
        assert done.exit_code == 0, done.output
        result.to_html(tmp_path / "again.html")
        assert (tmp_path / f"{kind}.html").read_text() == (tmp_path / "again.html").read_text()


@pytest.mark.parametrize("kind", FIGURES)
def test_names_stay_text(kind):
    written(replace(results()[kind], name=HOSTILE, notes=(HOSTILE,)))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("kind", FIGURES)
def test_a_browser_shows_everything_and_every_cell_has_words(browser, tmp_path, kind, width):
    show(browser, tmp_path, results()[kind], width)
    browser.run("document.querySelector('#planes-figure .plot').focus()")
    browser.run(
        "document.querySelector('#planes-figure .plot').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"
    )
    assert re.match(r"component 0", browser.find("#planes-figure .tip").text)
