"""The pages of similarity indices: all indices of a pair, and one index layer by layer."""

from functools import cache

import numpy as np
import pytest

from isorep import Representation, similarity

from .pages import HOSTILE, figures, sections, show, written


@cache
def result(kind, names=("a", "b", "c")):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 6))
    y = x @ rng.normal(size=(6, 5)) + rng.normal(size=(100, 5))
    sides = [Representation(side, name=name) for side, name in zip((x, y, x[:, :2]), names, strict=True)]
    if kind == "indices":
        return similarity.indices(*sides[:2], permutations=20)
    return similarity.layers(sides[:2], sides, permutations=20)


def test_all_indices_have_their_figure_their_table_and_their_meaning():
    html = written(result("indices"))
    assert sections(html)[0] == "indices"
    assert sections(html)[-1] == "citation"
    assert figures(html) == ["indices-figure"]
    assert '<div class="verdict yes">' in html
    for each in result("indices").indices.values():
        assert f">{each.value:.4f}</td>".replace("-", "−") in html
    for words in ("mutual kNN", "invariant to any invertible linear map", "change places"):
        assert words in html


def test_layers_have_their_matrix_and_the_closest_of_each():
    found = result("layers")
    html = written(found)
    assert sections(html)[:2] == ["matrix", "closest"]
    assert figures(html) == ["layers-figure"]
    assert "debiased CKA layer by layer" in html
    assert f">{found.best[1].corrected:.4f}</td>" in html


@pytest.mark.parametrize("kind", ["indices", "layers"])
def test_names_stay_text(kind):
    written(result(kind, (HOSTILE, "b", "c")))


def test_without_a_null_the_plain_values_are_shown():
    x = np.random.default_rng(0).normal(size=(50, 4))
    html = written(similarity.indices(x, x[:, :2], permutations=0))
    assert "No null was drawn" in html
    assert figures(html) == []
    assert "Plain values" in written(similarity.layers([x], [x, x[:, :3]], permutations=0))


def test_the_smallest_p_value_is_a_bound_and_one_that_is_not_there_a_dash():
    x = np.random.default_rng(0).normal(size=(30, 29))
    html = written(similarity.indices(x, x.copy(), names=["cca", "cka"], permutations=19))
    assert "≤ 0.05" in html
    row = next(line for line in html.split("<tr") if "mean CCA" in line and "</td>" in line)
    assert row.count("–") >= 2
    assert "≤ 0.05" in written(similarity.layers([x], [x, x[:, :3]], permutations=19))


def test_the_value_of_the_rows_that_are_shuffled_stands_beside_that_of_all():
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    x = np.random.default_rng(0).normal(size=(len(groups), 3))
    html = written(similarity.indices(x, x[:, :2], permutations=19, groups=groups))
    assert "of rows used" in html
    assert "of 20 groups" in html


@pytest.mark.parametrize("kind", ["indices", "layers"])
def test_a_browser_shows_everything(browser, tmp_path, kind):
    show(browser, tmp_path, result(kind), 360)
