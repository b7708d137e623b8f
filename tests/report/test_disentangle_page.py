"""The page of a disentanglement: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import pytest

from isorep.report import render

from ..disentangling.conftest import small
from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def result():
    pytest.importorskip("torch")
    return json.loads(small()[0].to_json())


def test_the_page_shows_the_answer_the_traversals_and_the_tables(result):
    page = render(result)
    for words in (
        "All 3 components come back",
        "Traversals",
        "data:image/png;base64,",
        "Which components come back",
        "Each training",
        "How far the latents agree",
        "How to cite",
    ):
        assert words in page, words
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(result, put):
    for path in list(places(result))[1::5]:
        if path == ("schema",):
            continue
        page = render(broken(result, path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize("part", ["components", "trainings", "sheet", "agreement", "data", "verdict", "settings"])
@pytest.mark.parametrize("put", [None, HOSTILE, [], {}])
def test_whole_parts_may_be_missing_or_wrong(result, part, put):
    page = render({**result, part: put})
    assert "How to cite" in page
    assert "<script>alert" not in page
