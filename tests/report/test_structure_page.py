"""The page of scores against factors."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import isorep

from ..structure.worlds import rooms
from .pages import HOSTILE, figures, sections, show, written


@cache
def result():
    factors, latents = rooms(120)
    latents = np.column_stack([latents, 1e-4 * np.arange(120)])
    return isorep.score_factors(latents, factors, slots=1, factor_slots=1, n_resamples=2, n_null=2)


def test_the_answer_comes_first_and_every_section_and_figure_is_there():
    html = written(result())
    assert sections(html)[:4] == ["scores", "information", "factors", "latents"]
    assert sections(html)[4:8] == ["importances", "slots", "ladder", "columns"]
    assert sections(html)[-1] == "citation"
    assert figures(html) == ["scores-figure", "nmi-figure", "dci-figure"]
    for words in ("Too few shuffles to estimate chance", "Inactive latents: z4", "Matched slots"):
        assert words in html, words


def test_the_verdict_and_both_chance_levels_are_on_the_page():
    factors, latents = rooms(150)
    found = isorep.score_factors(latents, factors, scores=["infomec"], ladder=False, n_resamples=0, n_null=59)
    html = written(found)
    for words in ("All 4 factors have a latent of their own", "chance (shuffled rows)", "chance (random axes)"):
        assert words in html, words
    assert f"random axes {found['infom'].axes.mean:.3f}" in html


def test_every_score_and_every_factor_of_the_result_is_on_the_page():
    html = written(result())
    for score in result().scores.values():
        assert f"{score.value:.4f}".replace("-", "−") in html
    for factor in result().factors:
        assert f"{factor.nmi:.3f}" in html
        assert factor.sentence in html


def test_names_stay_text_and_any_name_is_a_column():
    factors, latents = rooms(60)
    columns = dict(zip((HOSTILE, "factor", "c", "d"), latents.T, strict=True))
    written(isorep.score_factors(columns, factors, scores=["infomec", "dci"], ladder=False, n_resamples=2, n_null=2))


def test_scores_alone_have_a_page_without_what_was_not_asked():
    factors, latents = rooms(60)
    found = isorep.score_factors(latents, factors, scores=["mcc"], ladder=False, n_resamples=0, n_null=0)
    html = written(found)
    assert sections(html)[:2] == ["scores", "columns"]
    assert 'class="reached"' not in html


def test_a_ladder_speaks_of_the_unit_that_its_numbers_have():
    html = written(result())
    assert "in mean distances of the standardised factors to their mean" in html
    assert f"{result().ladder.rungs['linear'].held_out.mean:.4f}" in html


def test_slots_without_a_match_and_negative_scores_are_shown_as_such():
    slots = replace(result().records["slots"], matches=(-1, 0, 1, 2))
    scores = result().scores | {"sis": replace(result()["sis"], value=-0.25)}
    html = written(replace(result(), scores=scores, records=result().records | {"slots": slots}))
    assert "−0.250" in html
    assert ">-1<" not in html


def test_a_wide_result_stays_small():
    names = tuple(f"latent number {j}" for j in range(1000))
    wide = replace(
        result().information,
        nmi=np.random.default_rng(0).random((50, 1000)),
        factors=tuple(f"factor {i}" for i in range(50)),
        latents=names,
        active=np.ones(1000, bool),
    )
    latents = tuple(replace(result().latents[0], name=name) for name in names)
    assert "Which latent knows which factor" in written(replace(result(), information=wide, latents=latents))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
