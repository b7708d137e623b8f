"""The page of two models layer by layer."""

import re
from dataclasses import replace

import numpy as np
import pytest

import isorep

from ..data import rotation, sources
from .pages import HOSTILE, figures, sections, show, written

LAYERS = [f"encoder.layers.{place}" for place in range(13)]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Thirteen layers with ever more noise, far from each other as they are, and one that cannot be compared."""
    folder = tmp_path_factory.mktemp("layers")
    rng = np.random.default_rng(0)
    x = sources(120, 3)
    for name, turn in (("a", np.eye(3)), ("b", 5 * rotation(3, 0))):
        (folder / name).mkdir()
        for place, layer in enumerate(LAYERS):
            np.save(
                folder / name / f"{layer}.npy",
                (x + 0.05 * place * rng.normal(size=x.shape)) @ turn + 20 * (name == "b"),
            )
        np.save(folder / name / "still.npy", np.ones((120, 3)))
    return isorep.compare_layers(folder / "a", folder / "b", layers=[*LAYERS, "still"], fast=True, n_null=4)


def ticks(html):
    """What stands under the axis of layers, on the wide drawing."""
    return re.findall(r'<text class="tick"[^>]*text-anchor="middle"[^>]*>([^<]+)', html)


def test_the_table_and_the_chart_come_first_then_every_layer(result):
    html = written(result)
    assert sections(html)[:3] == ["layers", "every-layer", "reverse"]
    assert figures(html) == ["layer-errors-figure"]
    assert html.index('"layers-table"') < html.index('"layer-errors-figure"') < html.index('"ladder-0"')
    assert "Errors above 2 are drawn at the edge." in html
    assert "chance of the best" in html
    assert "layer still could not be compared: all rows of a/still are identical" in html


def test_names_on_the_axis_tell_layers_apart(result):
    html = written(result)
    drawn = ticks(html)
    assert "12" in drawn
    assert not any(text.startswith("encoder") for text in drawn)
    assert "layer encoder.layers.…" in html
    one = replace(result, layers={"a_layer_with_a_long_name": result[LAYERS[0]]})
    assert "…" in ticks(written(one))[0]


def test_without_a_null_there_is_no_chance(result):
    bare = {
        layer: replace(
            each,
            forward=replace(
                each.forward, rungs={name: replace(rung, null=None) for name, rung in each.forward.rungs.items()}
            ),
        )
        for layer, each in result.layers.items()
    }
    html = written(replace(result, layers=bare))
    assert "no chance level" in html
    assert "Chance is what shuffled rows give" not in html


def test_names_cannot_break_the_page(result):
    layers = {f"{HOSTILE} {place}": each for place, each in enumerate(result.layers.values())}
    written(replace(result, source=HOSTILE, target=HOSTILE, layers=layers, caveats=(HOSTILE,)))


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off_in_a_browser(browser, tmp_path, result, width):
    show(browser, tmp_path, result, width)
