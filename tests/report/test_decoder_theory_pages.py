"""The pages of decoder pairs and of layers: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re

import pytest

from isorep.report import render

from .hostile import HOSTILE, broken, places

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def results():
    from isorep.decoder import layers, pair

    torch.manual_seed(0)
    z = torch.rand(150, 2) - 0.5
    made = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)) for _ in "ab"]
    return {
        "pair": json.loads(pair(lambda x: x + 0.01 * x**2, z, lambda y: 1.0 * y, z, n_null=2).to_json()),
        "layers": json.loads(layers(*made, torch.randn(60, 3), n_null=2).to_json()),
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pair", ("rms-figure", "sup-figure", "All bounds", "What the bounds rest on", "Both sides", "After ICA")),
        ("layers", ("layer-errors-figure", "layer-constants-figure", "Layer by layer", "infinite")),
    ],
)
def test_pages_show_figures_tables_and_the_citation(results, kind, words):
    page = render(results[kind])
    for each in (*words, "How to cite"):
        assert each in page, each
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=[\"']https?:", page)


@pytest.mark.parametrize("kind", ["pair", "layers"])
@pytest.mark.parametrize("put", [None, HOSTILE, -1e308, [], {}, True])
def test_anything_may_be_missing_or_wrong(results, kind, put):
    for path in list(places(results[kind]))[1::61]:
        if path == ("schema",):
            continue
        page = render(broken(results[kind], path, put))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize("put", [None, HOSTILE, [], {}, 1e308])
def test_whole_parts_may_be_missing_or_wrong(results, put):
    for result in results.values():
        for part in result:
            if part != "schema":
                assert "How to cite" in render({**result, part: put})
