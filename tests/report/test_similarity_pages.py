"""The pages of similarity indices: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import numpy as np
import pytest

from isorep import similarity
from isorep.report import render

from .hostile import HOSTILE, broken, places


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 6))
    y = x @ rng.normal(size=(6, 5)) + rng.normal(size=(100, 5))
    return {
        "similarity": json.loads(similarity.indices(x, y, permutations=20).to_json()),
        "layers": json.loads(similarity.layers([x, y], [x, y, x[:, :2]], permutations=20).to_json()),
    }


@pytest.mark.parametrize(("kind", "marks"), [("similarity", 10), ("layers", 6)])
def test_pages_show_the_figure_the_table_and_the_citation(results, kind, marks):
    page = render(results[kind])
    assert "indices-figure" in page or "layers-figure" in page
    assert "How to cite" in page
    assert page.count("<tr") > marks
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


@pytest.mark.parametrize("kind", ["similarity", "layers"])
@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(results, kind, put):
    for path in list(places(results[kind]))[1::7]:
        if path == ("schema",):
            continue
        page = render(broken(results[kind], path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_without_a_null_the_plain_values_are_shown():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    assert "No null was drawn" in render(json.loads(similarity.indices(x, x[:, :2], permutations=0).to_json()))
    assert "Plain values" in render(json.loads(similarity.layers([x], [x, x[:, :3]], permutations=0).to_json()))


def test_the_smallest_p_value_is_a_bound_and_one_that_is_not_there_a_dash():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 29))
    page = render(json.loads(similarity.indices(x, x.copy(), names=["cca", "cka"], permutations=19).to_json()))
    assert "≤ 0.05" in page
    row = next(line for line in page.split("<tr") if "mean CCA" in line and "</td>" in line)
    assert row.count("–") >= 2
    assert "≤ 0.05" in render(json.loads(similarity.layers([x], [x, x[:, :3]], permutations=19).to_json()))


def test_the_value_of_the_rows_that_are_shuffled_stands_beside_that_of_all():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    x = rng.normal(size=(len(groups), 3))
    page = render(json.loads(similarity.indices(x, x[:, :2], permutations=19, groups=groups).to_json()))
    assert "of rows used" in page
    assert "of 20 groups" in page
