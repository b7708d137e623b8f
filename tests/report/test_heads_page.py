"""The page of heads: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest
from markupsafe import escape

from isorep.heads import closeness, diversity, examine, head_map
from isorep.report import render

from ..heads.worlds import circle_models, equal_models
from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    m = equal_models(n=60)
    noisy = m.other_f + 0.1 * np.random.default_rng(9).normal(size=m.other_f.shape)
    found = examine(
        m.g, m.other_g, bias=m.b, other_bias=m.other_b, features=m.f, other_features=noisy, weights=np.arange(1, 13),
    )  # fmt: skip
    return json.loads(found.to_json())


def test_the_page_shows_the_answer_the_figures_and_the_tables(result):
    page = render(result)
    for words in (
        "The heads predict the map between the features",
        "errors-figure",
        "plane-head-figure",
        "plane-regression-figure",
        "All numbers of the map",
        "Principal angles",
        "Both kinds of closeness",
        "classes-figure",
        "Diversity of source head",
        "conditions-2-figure",
        "spectrum-1-figure",
        "The best-conditioned differences",
        "How to cite",
    ):
        assert words in page, words
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


def test_numbers_of_the_page_are_the_result_s(result):
    page = render(result)
    both = result["map"]["regression"]
    for value in (both["head"]["r2"], both["regression"]["r2"], both["difference"]):
        assert f"{value:.4f}" in page
    assert f"{result['closeness']['log_odds']['value']:.4g}" in page
    assert f"{result['heads'][0]['classes']['condition']:.3g}" in page


def test_each_part_has_a_page_of_its_own():
    f, other_f, g, other_g = circle_models(n=40)
    parts = (
        diversity(g),
        diversity(np.zeros((5, 2))),
        head_map(g, other_g),
        head_map(g[:3], other_g[:3]),
        closeness(f, other_f, g, other_g, intervals=False),
        closeness(f @ g.T, other_f @ g.T, intervals=False),
    )
    for part in parts:
        page = render(json.loads(part.to_json()))
        assert str(escape(part.verdict.split(":")[0])) in page
        assert "How to cite" in page


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, 1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::211]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}])
def test_every_place_but_points_may_be_wrong(result, put):
    bare = {**result, "map": {**result["map"], "figure": None}, "settings": {}}
    for path in list(places(bare))[1::43]:
        if path == ("schema",):
            continue
        assert "<script>alert" not in render(broken(bare, path, put))


@pytest.mark.parametrize("part", ["heads", "map", "closeness", "verdict", "holds", "settings", "caveats"])
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}, [HOSTILE], {HOSTILE: HOSTILE}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
