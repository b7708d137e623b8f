"""The page of mechanisms: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest

from isorep.datasets import slot_generator
from isorep.decoder import mechanisms
from isorep.report import render

from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    generator = slot_generator(3, [2, 1, 1], 5, 0)
    latents = generator.sample(120)
    found = mechanisms(generator, latents, generator.blocks, samples=4, reference=(generator, latents))
    return json.loads(found.to_json())


def test_the_page_shows_the_verdict_the_figures_and_the_tables(result):
    page = render(result)
    for words in (
        "Types D, M, S, H2 and H3 hold for the 3 blocks",
        "shares-figure",
        "factors-figure",
        "All criteria at every tolerance",
        "Can a block be split further?",
        "Do the theorems apply?",
        "Type M&#39;s sparsity condition",
        "Factors at every tolerance",
        "Stronger types imply weaker ones",
        "not falsified",
        "How to cite",
    ):
        assert words in page, words
    assert "proved" not in page
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


def test_every_margin_of_the_table_is_the_result_s(result):
    page = render(result)
    for criterion in result["criteria"].values():
        for way in criterion["evidence"]:
            for level in way["levels"]:
                assert f"{level['worst']:.3g}".replace("-", "−") in page


def test_without_criteria_the_factors_are_shown():
    rng = np.random.default_rng(0)
    found = mechanisms(None, np.zeros((3, 2)), jacobians=rng.normal(size=(3, 4, 2)))
    page = render(json.loads(found.to_json()))
    assert "one irreducible Type D factor" in page
    assert "Factors at every tolerance" in page


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::17]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize("part", ["criteria", "factors", "theorems", "hierarchy", "lifting", "sparsity", "blocks"])
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
