"""The page of an extraction: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest

import isorep
from isorep.report import render

from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    rows = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    return json.loads(isorep.extract(model, rows, layers=["1", "output"]).to_json())


def test_the_page_shows_layers_shapes_and_figures(result):
    page = render(result)
    for words in (
        "50 rows of 2 layers",
        "What was written",
        "Effective rank of each layer",
        "dead units",
        "How to cite",
    ):
        assert words in page, words
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::2]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize("part", ["layers", "data", "settings", "model", "caveats", "grouped"])
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
