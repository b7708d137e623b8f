"""The page of dictionaries: of two with activations, of three, of activations alone, at chance."""

from functools import cache

import numpy as np
import pytest

from isorep import Representation
from isorep.dictionaries import recurrence

from ..dictionaries.worlds import planted, sparse_codes
from .pages import HOSTILE, figures, sections, show, written


@cache
def result():
    source, target, order = planted(atoms=80, others=100, width=48, shared=30)
    target = np.concatenate([target, [target[0] + source[50], source[51] + source[52]]])
    codes = [sparse_codes(300, np.geomspace(0.05, 0.5, atoms), seed=atoms) for atoms in (80, 102)]
    codes[1][:, np.argsort(order)[:20]] = codes[0][:, :20]
    return recurrence(source, target, activations=codes)


def test_the_answer_comes_first_and_every_section_and_figure_is_there():
    html = written(result())
    assert sections(html)[:5] == ["matching", "similarity", "frequency", "splitting", "dictionaries"]
    assert figures(html) == ["shares-figure", "cosine-figure", "correlation-figure", "both-figure", "frequency-figure"]
    level = result().pairs[0].decoder.one_to_one
    assert f"{100 * level.share:.1f}%" in html
    assert f"{level.mean:.3f}" in html
    assert "Some atoms recur." in html


def test_three_dictionaries_activations_alone_and_chance():
    source, target, _ = planted(atoms=50, others=60, width=24, shared=0)
    three = written(recurrence(source, target, target[:30]))
    assert "matrix-figure" in figures(three)
    assert "frequency" not in sections(three)
    codes = [sparse_codes(100, np.full(atoms, 0.3), seed=atoms) for atoms in (20, 30)]
    assert "Atoms do not recur beyond chance." in written(recurrence(activations=codes))


def test_names_stay_text():
    source, target, _ = planted(atoms=30, others=30, width=16, shared=10)
    written(recurrence(*(Representation(each, name=HOSTILE) for each in (source, target))))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, result(), width)
