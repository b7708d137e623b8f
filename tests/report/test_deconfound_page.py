"""The page of a deconfounding."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA

import isorep
from isorep.results import Verdict

from ..deconfounding.screens import screen
from .pages import HOSTILE, figures, sections, show, written

SECTIONS = ["conditions", "tests", "batches", "maps", "dimensions", "tasks", "components", "filter", "mixing"]


@cache
def result(batch="batch"):
    x, treated, plate = screen(wells=30)
    label = np.where(treated, np.where(np.arange(len(x)) % 2, "a", "b"), "DMSO")
    return isorep.deconfound(x, label, {batch: plate}, each=True, folds=3, n_restarts=2, n_examples=2, top=(0.25,))


def test_the_page_shows_the_answer_the_figures_and_the_tables():
    html = written(result())
    assert sections(html)[: len(SECTIONS)] == SECTIONS
    assert sections(html)[-1] == "citation"
    assert figures(html) == [
        "auroc-figure",
        "batches-figure",
        *(f"map-{role}-pca-{at}" for role in ("batch", "label") for at in (0, 1)),
        "dimensions-figure",
        "components-figure",
    ]
    for words in ("ICA is not shown", "Concentration", "Mean AUROC of every task", "All components"):
        assert words in html, words


def test_every_number_of_the_table_of_conditions_is_the_result_s():
    html = written(result())
    for condition in result().conditions.values():
        auroc = condition.scores["lightgbm"].auroc
        assert f"{auroc.value:.3f} ± {auroc.error:.3f}" in html


def test_names_stay_text_and_may_be_those_of_columns():
    written(replace(result(HOSTILE), data=replace(result().data, name=HOSTILE)))
    written(result("label"))


def test_a_transformer_may_have_the_name_of_a_condition_in_words():
    x, treated, plate = screen(wells=30)
    asked = {"conditions": ("base", "pca"), "transformers": {"PCA": PCA(3)}, "classifiers": "logistic", "top": ()}
    label = np.where(treated, np.where(np.arange(len(x)) % 2, "a", "b"), "DMSO")
    html = written(isorep.deconfound(x, label, plate, each=True, folds=2, **asked))
    assert sections(html)[:6] == ["conditions", "tests", "batches", "dimensions", "tasks", "mixing"]
    assert figures(html) == ["auroc-figure", "batches-figure", "dimensions-figure"]


@pytest.mark.parametrize(
    ("answer", "kind"), [("helps", "yes"), ("hurts", "no"), ("not shown", "open"), ("too few batches", "open")]
)
def test_every_answer_has_its_colour_and_its_step(answer, kind):
    html = written(replace(result(), verdict=Verdict(answer, "A. B.")))
    assert f'class="verdict {kind}"' in html
    assert html.count('class="reached"') == (answer != "too few batches")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
