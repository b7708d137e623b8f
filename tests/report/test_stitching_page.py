"""The page of stitched networks."""

from functools import cache

import pytest

from .pages import HOSTILE, figures, sections, show, written

torch = pytest.importorskip("torch")
from isorep.decoder import stitch_models  # noqa: E402

from ..decoder.test_model_stitching import data, trained  # noqa: E402


@cache
def result(names=("first", "second"), retrain=True):
    return stitch_models(trained(0), trained(1), *data(), "1", steps=20, names=names, retrain=retrain)


def test_outcomes_and_closeness_are_there():
    html = written(result())
    assert sections(html)[:2] == ["outcomes", "closeness"]
    assert figures(html) == ["outcomes-figure", "closeness-figure"]
    for each in (*result().parents, *result().outcomes):
        assert f"{100 * each.accuracy:.1f}%" in html


def test_names_stay_text():
    written(result((HOSTILE, "b"), False))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
