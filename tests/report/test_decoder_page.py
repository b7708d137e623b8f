"""The page of a decoder's geometry: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("torch")

from isorep.decoder import bilipschitz
from isorep.report import render

from ..decoder.networks import linear, mlp
from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 5))
    matrix = rng.standard_normal((9, 5)) * [1, 1, 0, 1, 1]
    made = {
        "exact": bilipschitz(mlp(), z, name="toy"),
        "inactive": bilipschitz(linear(matrix), z),
        "paper": bilipschitz(mlp(), z, mode="paper"),
        "one": bilipschitz(linear(np.eye(1)), [[0.5]]),
    }
    return {name: json.loads(found.to_json()) for name, found in made.items()}


def test_the_page_shows_the_answer_the_figures_and_the_tables(results):
    page = render(results["exact"])
    for words in (
        "How far toy is from an isometry",
        "locally",
        "stretch-figure",
        "local-figure",
        "spectrum-figure",
        "latents-figure",
        "Random directions beside singular values",
        "Is the support convex?",
        "Largest local constants",
        "What bounds rest on",
        "How to cite",
    ):
        assert words in page, words
    assert f"{results['exact']['constants']['constant']:.4g}" in page
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


def test_lost_directions_are_infinite_and_the_active_latents_are_drawn(results):
    page = render(results["inactive"])
    assert "infinite" in page
    assert "of the active latents" in page
    assert f"{results['inactive']['active']['constant']:.4g}" in page


@pytest.mark.parametrize(("name", "words"), [("paper", "at least"), ("one", "1-bi-Lipschitz")])
def test_other_modes_and_single_rows_have_pages(results, name, words):
    page = render(results[name])
    assert words in page
    assert "How to cite" in page


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, 1e308, 0, [], {}, True])
def test_anything_may_be_missing_or_wrong(results, put):
    for name, step in (("exact", 37), ("inactive", 53)):
        for path in list(places(results[name]))[1::step]:
            if path == ("schema",):
                continue
            page = render(broken(results[name], path, put))
            assert "<script>alert" not in page
            assert "<img src=x" not in page


@pytest.mark.parametrize("put", [None, HOSTILE, [], {}, 3])
def test_whole_parts_may_be_missing_or_wrong(results, put):
    for part in results["inactive"]:
        if part != "schema":
            page = render({**results["inactive"], part: put})
            assert "How to cite" in page
            assert "<script>alert" not in page
