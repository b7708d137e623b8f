"""The page of mechanisms."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from isorep.datasets import slot_generator
from isorep.decoder import mechanisms, mechanisms_of

from .pages import HOSTILE, figures, sections, show, written


@cache
def result():
    generator = slot_generator(3, [2, 1, 1], 5, 0)
    latents = generator.sample(120)
    return mechanisms(generator, latents, generator.blocks, samples=4, reference=(generator, latents))


def test_the_verdict_comes_first_and_every_figure_and_table_is_there():
    html = written(result())
    assert sections(html)[:5] == ["criteria", "theorems", "factors", "hierarchy", "lifting"]
    assert figures(html) == ["shares-figure", "factors-figure"]
    for words in (
        "Types D, M, S, H₂ and H₃ hold for the 3 blocks",
        "All criteria at every tolerance",
        "Can a block be split further?",
        "Type M&#39;s sparsity condition",
        "Factors at every tolerance",
        "not falsified",
    ):
        assert words in html, words
    assert "proved" not in html


def test_every_margin_of_the_table_is_the_result_s():
    html = written(result())
    for criterion in result().criteria.values():
        for way in criterion.evidence:
            for level in way.levels:
                assert f"{level.worst:.3g}".replace("-", "−") in html


def test_leakage_stands_beside_random_bases_and_near_factors_with_every_cut():
    rng = np.random.default_rng(0)
    jacobians = np.kron(np.eye(2), np.ones((8, 2))) * rng.normal(size=(5, 16, 4))
    found = mechanisms_of((jacobians + 0.02 * rng.normal(size=(5, 16, 4))) @ rng.normal(size=(4, 4)))
    html = written(found)
    for words in ("Leakage, compared with random bases", "Cuts into near-factors", "2 near-factors", "Nearly Type D"):
        assert words in html, words
    assert figures(html) == ["shares-figure", "factors-figure"]
    plain = written(mechanisms_of(rng.normal(size=(5, 16, 4))))
    assert "Cuts into near-factors" in plain
    assert "2 near-factors" not in plain
    assert "Nearly" not in plain
    assert "isometric up to scale" in plain
    assert "no sign of structure" not in plain + html
    square = np.repeat(rng.normal(size=(1, 6, 6)), 4, axis=0)
    assert "with so few outputs such factors are no sign of structure" in written(mechanisms_of(square, [3, 3]))


def test_without_criteria_the_factors_are_shown():
    html = written(mechanisms_of(np.random.default_rng(0).normal(size=(3, 4, 2))))
    assert "one irreducible Type D factor" in html
    assert sections(html)[0] == "factors"


@pytest.mark.parametrize("blocks", [[1, 1], [2]])
def test_lost_rank_and_a_single_block_have_a_page(blocks):
    values = np.ones((2, 3, 2)) if len(blocks) == 2 else np.random.default_rng(0).normal(size=(2, 4, 2))
    assert "Criteria" in written(mechanisms_of(values, blocks))


def test_names_stay_text():
    written(replace(result(), name=HOSTILE))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
