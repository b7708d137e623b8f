"""The page of a deconfounding: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest

import isorep
from isorep.report import render

from ..deconfounding.screens import screen
from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    x, treated, plate = screen(wells=30)
    label = np.where(treated, np.where(np.arange(len(x)) % 2, "a", "b"), "DMSO")
    found = isorep.deconfound(x, label, plate, each=True, folds=3, n_restarts=2, n_examples=2)
    return json.loads(found.to_json())


def test_the_page_shows_the_answer_the_figures_and_the_tables(result):
    page = render(result)
    for words in (
        "ICA is not shown",
        "auroc-figure",
        "Biology against batch",
        "Paired differences in AUROC",
        "Concentration",
        "Mean AUROC of every task",
        "All components",
        "Without batch-driven components",
        "Batches in each space",
        "How to cite",
    ):
        assert words in page, words
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


def test_every_number_of_the_table_of_conditions_is_the_result_s(result):
    page = render(result)
    for condition in result["conditions"].values():
        auroc = condition["scores"]["lightgbm"]["auroc"]
        assert f"{auroc['value']:.3f} ± {auroc['error']:.3f}" in page


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::41]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize(
    "part", ["conditions", "tests", "components", "filtered", "scores", "data", "verdict", "settings"]
)
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
