"""The pages of a fit and of its stability: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re
from functools import cache

import numpy as np
import pytest

import isorep
from isorep import ICA, InputError
from isorep.ica import Stability, summarise
from isorep.ica.curvature import Constants
from isorep.ica.stability import Plane, RefitFacts
from isorep.report import render

from ..data import mixing
from .hostile import HOSTILE, broken, places, with_numbers

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
def _written():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.laplace(size=(2000, 4)), rng.normal(size=(2000, 6))]) @ mixing(10, 0)
    found = isorep.stability(isorep.Representation(x, name="cells.npy"), n_restarts=5)
    fit = summarise(found.ica, name="cells.npy", rows=2000, seconds=2.5, peak_memory=10**9)
    return {"ica": json.dumps(fit), "stability": found.to_json()}


@cache
def _wide(k=1000, refits=10):
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
    return {"ica": json.dumps(summarise(ica, name="wide", rows=10**6)), "stability": found.to_json()}


def page_of(kind):
    return json.loads(_written()[kind])


def sections(html):
    return re.findall(r'<section id="([^"]+)"', html)


@pytest.mark.parametrize("kind", FIGURES)
def test_the_reading_comes_first_and_every_figure_is_there(kind):
    result = page_of(kind)
    html = render(result)
    head = re.search(r"<h1>([^<]+)</h1>", html).group(1)
    assert result["reading"].startswith(head.rstrip("."))
    assert re.findall(r'<figure id="([^"]+)"', html) == FIGURES[kind]
    assert sections(html)[-2:] == ["versions", "citation"]
    assert "cells.npy" in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_tables_hold_the_numbers_of_the_result():
    result = page_of("stability")
    html = render(result)
    for score, share in zip(result["components"]["scores"], result["components"]["recurrence"], strict=True):
        assert f">{score:.3f}</td>" in html
        assert f">{share:.2f}</td>" in html
    plane = result["planes"]["shown"][0]
    assert f">{plane['first']} and {plane['second']}</th>" in html
    assert "never a promise" in html


def test_weak_planes_are_marked_in_the_heat_map_once_for_each_side():
    result = page_of("stability")
    html = render(result)
    figure = html[html.index('id="planes-figure"') : html.index("weak-planes")]
    dots = re.findall(r'<path class="dots \w+" d="([^"]+)"', figure)
    assert [mark.count("M") for mark in dots] == [2 * result["planes"]["weak"]] * 2
    assert figure.count(", weak") == 2 * result["planes"]["weak"]


@pytest.mark.parametrize("kind", FIGURES)
def test_a_thousand_components_stay_small_in_json_and_on_the_page(kind):
    text = _wide()[kind]
    assert len(text.encode()) < 1_500_000
    html = render(json.loads(text))
    assert len(html.encode()) < 1_500_000
    assert re.findall(r'<figure id="([^"]+)"', html) == FIGURES[kind]
    assert "component 999: " in html


@pytest.mark.parametrize("kind", FIGURES)
def test_nothing_is_fetched(kind):
    html = render(page_of(kind))
    assert not re.search(r"https?://|@import|url\(|\son[a-z]+=", html)
    assert re.findall(r'(?:src|href)="([^"#]+)"', html) == ["data:,"]


def test_a_fit_without_whitening_has_a_shorter_page():
    ica = ICA(whiten=None).fit(np.random.default_rng(0).laplace(size=(400, 3)))
    html = render(summarise(ica, name="raw", rows=400))
    assert re.findall(r'<figure id="([^"]+)"', html) == ["contrast-figure", "path-figure"]
    assert "neither centred nor whitened" in html


def test_the_command_writes_both_pages(tmp_path):
    from typer.testing import CliRunner

    from isorep.cli.main import app

    for kind, text in _written().items():
        (tmp_path / f"{kind}.json").write_text(text)
        done = CliRunner().invoke(app, ["report", str(tmp_path / f"{kind}.json")])
        assert done.exit_code == 0, done.output
        assert (tmp_path / f"{kind}.html").read_text() == render(json.loads(text))


def test_a_result_writes_the_page_of_its_json(tmp_path):
    found = isorep.stability(np.random.default_rng(0).laplace(size=(300, 2)), n_restarts=2)
    found.to_html(tmp_path / "here.html")
    assert (tmp_path / "here.html").read_text() == render(json.loads(found.to_json()))


JUNK = [None, [], "text", -3, 1e308, 10**400, True, [1, "a", None], {"a": {"b": []}}]


@pytest.mark.parametrize("kind", FIGURES)
def test_any_place_may_hold_anything(kind):
    clean = page_of(kind)
    for path in places(clean, most=1):
        if path in ((), ("schema",)) or (path[0] in ("settings", "versions") and len(path) > 1):
            continue
        for junk in JUNK:
            html = render(broken(clean, path, junk))
            assert not re.search(r"\b(nan|inf|None)\b", html), (path, junk)
            assert "citation" in sections(html)


@pytest.mark.parametrize("kind", FIGURES)
def test_without_anything_but_the_schema_there_is_still_a_page(kind):
    html = render({"schema": f"isorep.{kind}/1"})
    assert sections(html) == ["citation"]
    assert "This result holds no reading." in html


@pytest.mark.parametrize("kind", FIGURES)
def test_all_numbers_may_be_absurd_at_once(kind):
    for value in (0, -3.0, 1e308, -1e308, 1e-308, 10**400, 1e11):
        html = render(with_numbers(page_of(kind), value))
        assert not re.search(r"\b(nan|inf)\b", html), value


@pytest.mark.parametrize("kind", FIGURES)
def test_hostile_text_stays_text(kind):
    result = page_of(kind)
    clean = render(result)
    result |= {"name": HOSTILE, "reading": HOSTILE, "isorep": HOSTILE, "caveats": [HOSTILE]}
    result["settings"] = {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}
    result["versions"] = {HOSTILE: HOSTILE}
    html = render(result)
    assert sections(html)[-1] == sections(clean)[-1]
    assert "&lt;script&gt;alert" in html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("<script") == html.count("</script") == clean.count("<script")


@pytest.mark.parametrize("schema", ["isorep.ica/2", "isorep.stability/99"])
def test_another_version_of_the_schema_is_refused_by_name(schema):
    with pytest.raises(InputError, match=f"no report for the schema '{schema}': it knows .*isorep.stability/1"):
        render({"schema": schema})


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("kind", FIGURES)
def test_a_browser_shows_everything_and_complains_of_nothing(browser, tmp_path, kind, width):
    path = tmp_path / "page.html"
    path.write_text(render(page_of(kind)), encoding="utf-8")
    browser.open(path, width=width)
    assert browser.errors() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    cut = browser.run(
        """
        return [...document.querySelectorAll(".plot svg text")].map((t) => [t.textContent, t.getBoundingClientRect()])
            .filter(([text, box]) => box.width && (box.left < 0 || box.right > arguments[0])).map(([text]) => text)
        """,
        width,
    )
    assert cut == []
    browser.run("document.querySelector('#planes-figure .plot').focus()")
    browser.run(
        "document.querySelector('#planes-figure .plot').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"
    )
    assert re.match(r"component 0", browser.find("#planes-figure .tip").text)
