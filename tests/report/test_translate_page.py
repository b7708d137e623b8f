"""The page of a translation: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re
from functools import cache

import pytest

import isorep
from isorep.report import render

from ..data import noisy_pair
from .hostile import HOSTILE, broken, places, with_numbers

FIGURES = ["recall-figure", "overlap-figure", "maps-figure", "curve-figure"]


@cache
def _written():
    x, y = noisy_pair(400, 6, 0.3)
    old, new = isorep.Representation(x, name="v1.npy"), isorep.Representation(y, name="v2.npy")
    return isorep.translate(old, new, maps=("rigid", "linear"), at=(1, 10), n_queries=50, n_boot=50).to_json()


def page():
    return json.loads(_written())


def sections(html):
    return re.findall(r'<section[^>]* id="([^"]+)"', html)


def test_the_answer_comes_first_and_every_figure_is_there():
    html = render(page())
    assert sections(html)[:4] == ["retrieval", "maps", "pairs", "drift"]
    assert sections(html)[-1] == "citation"
    for name in FIGURES:
        assert f'id="{name}"' in html
    result = page()
    head = result["verdict"]["sentence"].partition(". ")[0]
    assert f"{head}." in html
    assert "pairs that are enough" in html
    assert "v1.npy" in html
    assert len(html) < 1_500_000


JUNK = [None, [], "text", -3, 1e308, 10**400, True, [1, "a", None], {"a": {"b": []}}]


def test_any_place_may_hold_anything():
    clean = page()
    for path in places(clean, most=1):
        if path in ((), ("schema",)) or (path[0] in ("settings", "versions", "fingerprints") and len(path) > 1):
            continue
        for junk in JUNK:
            html = render(broken(clean, path, junk))
            assert not re.search(r"\b(nan|inf|None)\b", html), (path, junk)


def test_all_numbers_may_be_absurd_at_once():
    for value in (0, -3.0, 1e308, -1e308, 1e-308, 10**400, 1e11):
        assert not re.search(r"\b(nan|inf)\b", render(with_numbers(page(), value))), value


def test_without_anything_but_the_schema_there_is_still_a_page():
    html = render({"schema": "isorep.translate/2"})
    assert sections(html) == ["citation"]
    assert "This result holds no verdict." in html


def test_hostile_text_stays_text():
    result = page()
    clean = render(result)
    result["old"]["name"] = result["verdict"]["sentence"] = result["curve"]["sentence"] = result["best"] = HOSTILE
    result["maps"] = {HOSTILE: result["maps"]["linear"]}
    result["caveats"] = [HOSTILE]
    html = render(result)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("<script") == html.count("</script") == clean.count("<script")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything_and_complains_of_nothing(browser, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(render(page()), encoding="utf-8")
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


def test_a_curve_over_few_pairs_and_over_many_has_ticks():
    for sizes in ([20, 40, 70], [10, 1000, 10**6]):
        result = page()
        result["curve"]["points"] = [{"pairs": n, "error": 1 / n} for n in sizes]
        html = render(result)
        assert f"{sizes[-1]:,} pairs" in html
