"""The page of scores against factors: from the JSON alone, whatever is missing, whoever wrote it."""

import copy
import json
import re

import numpy as np
import pytest

import isorep
from isorep.report import render

from ..structure.worlds import rooms
from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    factors, latents = rooms(120)
    latents = np.column_stack([latents, 1e-4 * np.arange(120)])
    found = isorep.score_factors(latents, factors, slots=1, factor_slots=1, n_resamples=2, n_null=2)
    return json.loads(found.to_json())


def test_the_page_shows_the_answer_the_figures_and_the_tables(result):
    page = render(result)
    for words in (
        "All 4 factors have a latent of their own",
        "scores-figure",
        "All scores, higher is better",
        "Which latent knows which factor",
        "What became of each factor",
        "What each latent is about",
        "Which latent is used for which factor",
        "Matched slots",
        "Up to which group latents are the factors",
        "How columns were taken",
        "Inactive latents: z4",
        "How to cite",
    ):
        assert words in page, words
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


def test_every_score_and_every_factor_of_the_result_is_on_the_page(result):
    page = render(result)
    for score in result["scores"].values():
        assert f"{score['value']:.4f}".replace("-", "−") in page
    for factor in result["factors"]:
        assert f"{factor['nmi']:.3f}" in page
        assert factor["sentence"] in page


def test_a_wide_result_stays_small(result):
    wide = copy.deepcopy(result)
    names = [f"latent number {j}" for j in range(1000)]
    wide["information"] |= {
        "nmi": np.random.default_rng(0).random((50, 1000)).tolist(),
        "factors": [f"factor {i}" for i in range(50)],
        "latents": names,
        "active": [True] * 1000,
    }
    wide["latents"] = [wide["latents"][0] | {"name": name} for name in names]
    page = render(wide)
    assert "Which latent knows which factor" in page
    assert len(page) < 1_500_000


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::23]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize(
    "part",
    ["scores", "information", "factors", "latents", "columns", "ladder", "records", "verdict", "names", "settings"],
)
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
