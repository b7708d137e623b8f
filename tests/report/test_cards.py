"""The grid of component cards: found, sorted, folded, safe and not too large."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

import isorep
from isorep.ica.cards import make_cards
from isorep.ica.summary import Fit
from isorep.report.document import Card, CardGrid
from isorep.report.figures import Picture

from .pages import HOSTILE, show, written
from .test_ica_pages import wide


@cache
def result(column="clone", value="B7", feature="Cells_Texture_Contrast_DNA_3_0"):
    rng = np.random.default_rng(0)
    labels = rng.choice([value, "C2", "D4"], 1200, p=[0.04, 0.5, 0.46])
    sources = rng.laplace(size=(1200, 15))
    sources[labels == value, 3] += 12
    mixed = np.abs(rng.normal(size=(15, 15))) + 3 * np.eye(15)
    x = pd.DataFrame(sources @ mixed, columns=[f"{feature}{index}" for index in range(15)])
    return isorep.stability(x, 2, obs={column: labels, "age": rng.normal(size=1200), "id": np.arange(1200).astype(str)})


def cards_of(html):
    return re.findall(r'<li class="card".*?</h\d>', html, re.S)


def test_every_component_has_a_card_with_its_findings_loadings_and_histogram():
    html = written(result())
    assert len(cards_of(html)) == 15
    assert len(re.findall(r'<svg class="shape"', html)) == 15
    found = [finding for card in result().cards for finding in card.findings]
    assert any("clone = B7" in finding for finding in found)
    for finding in found:
        assert f"<li>{escape(finding)}</li>" in html
    assert "components were not read against id (another value in every row)" in html
    first = result().cards[0].loadings[0]
    assert f"<b>{first.r:+.2f}</b>".replace("-", "−") in html


def test_without_a_script_the_first_cards_are_open_and_the_others_folded():
    html = written(result())
    assert html.index("3 more components</summary>") > html.index('<ul class="deck">')
    assert len(cards_of(html[: html.index("3 more components</summary>")])) == CardGrid.shown
    assert re.search(r'<div class="controls" hidden role="search">', html)


def test_a_page_without_columns_says_so_and_has_no_findings():
    rows = np.random.default_rng(0).laplace(size=(400, 3))
    html = written(isorep.stability(rows, 2))
    assert "No column describes the rows" in html
    assert 'class="findings"' not in html


def test_names_stay_text_on_cards():
    written(result(HOSTILE, HOSTILE, HOSTILE))


def test_many_components_and_columns_fit_on_a_page_and_those_with_findings_have_cards():
    rng = np.random.default_rng(0)
    k, n = 768, 400
    sources = rng.laplace(size=(n, k))
    obs = {f"column {i} with a long name": rng.choice([f"value {j} of it" for j in range(9)], n) for i in range(12)}
    sources[obs["column 3 with a long name"] == "value 7 of it", 700] += 30
    names = tuple(f"Cells_RadialDistribution_MeanFrac_DNA_{i}of768" for i in range(k))
    cards = make_cards(sources, obs, loadings=np.corrcoef(sources.T), features=names)
    html = written(replace(Fit.of(wide(k)["ica"].ica, name="wide", rows=n), cards=cards))
    assert any("column 3" in finding for finding in cards[700].findings)
    titles = re.findall(r'<li class="card".*?class="heading">(\w+)', html, re.S)
    assert "ica700" in titles
    assert 10 < len(titles) < k
    assert f"{len(titles)} of 768 components" in html


def test_a_card_takes_its_keys_and_rows_and_nothing_that_is_no_picture():
    with pytest.raises(ValueError, match="keys"):
        CardGrid("c", "t", "n", ("one",), (), (Card("a"),))
    with pytest.raises(ValueError, match="cells"):
        CardGrid("c", "t", "n", (), ("x", "y"), (Card("a", rows=(("1",),)),))
    with pytest.raises(ValueError, match="PNG"):
        Picture("javascript:alert(1)", "strip")
    assert Card("a", counts=(0, 2, 1)).outline == "M0 10V10h1V0h1V5h1V10z"
    assert Card("a", counts=(0, 0)).outline == "M0 10V10h1V10h1V10z"


def test_cards_can_be_found_by_word_and_number_and_sorted(browser, tmp_path):
    show(browser, tmp_path, result(), 1280)
    seen = "[...document.querySelectorAll('.card:not([hidden]) .heading')]"
    texts = f"return {seen}.map((heading) => heading.firstChild.textContent.trim())"
    assert browser.run(texts) == [f"ica{index}" for index in range(CardGrid.shown)]
    assert browser.find(".cards output").text == "12 of 15"

    def find(words):
        browser.run("const i = document.querySelector('.cards input'); i.value = arguments[0];"
                    "i.dispatchEvent(new Event('input'))", words)  # fmt: skip
        return browser.run(texts)

    clonal = [card.name for card in result().cards if any("clone = B7" in each for each in card.findings)]
    assert find("highest clone = b7 (") == clonal
    assert find("14") == ["ica14"]
    assert find("no such words") == []
    assert len(find("")) == CardGrid.shown
    browser.run("const s = document.querySelector('.cards select');"
                "s.value = [...s.options].find((o) => o.textContent === 'R² with age').value;"
                "s.dispatchEvent(new Event('change'))")  # fmt: skip
    wanted = sorted(result().cards, key=lambda card: (-card.association("age").r2, card.number))
    assert browser.run(texts) == [card.name for card in wanted[: CardGrid.shown]]
    browser.find(".deck + .quiet").click()
    assert len(browser.run(texts)) == 15


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_cards_with_long_names_without_overflow(browser, tmp_path, width):
    show(browser, tmp_path, result("x" * 200, "y" * 200, "Cells_" + "z" * 120), width)
