"""The pages of decoder pairs and of layers."""

from functools import cache

import pytest

from .pages import HOSTILE, figures, sections, show, written

torch = pytest.importorskip("torch")


@cache
def paired(kind="equal", names=("first", "second")):
    from isorep.decoder import pair

    z = torch.rand(150, 2, generator=torch.manual_seed(0)) - 0.5
    if kind == "violated":
        return pair(lambda x: x, z, lambda y: 1.0 * y, 3 * z, n_null=0)
    if kind == "lost":
        return pair(lambda x: x[:, :1], z, lambda y: torch.cat([y, y], 1), torch.rand(150, 3), n_null=2)
    return pair(lambda x: x + 0.01 * x**2, z, lambda y: 1.0 * y, z, n_null=2, names=names)


@cache
def layered(names=("first", "second"), n_null=2):
    from isorep.decoder import layers

    torch.manual_seed(0)
    made = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)) for _ in "ab"]
    return layers(*made, torch.randn(60, 3), n_null=n_null, names=names)


def test_a_pair_has_measured_and_allowed_errors_assumptions_sides_and_ica():
    html = written(paired())
    assert sections(html)[:5] == ["errors", "bounds", "assumptions", "decoders", "ica"]
    assert figures(html) == ["rms-figure", "sup-figure"]
    for words in ('class="verdict yes"', "RMS error, allowed", "All bounds", "certified by the rows", "Theorem 1"):
        assert words in html, words
    assert f"{paired().in_sample.rms:.4f}" in html


def test_a_violated_bound_is_said_with_its_reason():
    html = written(paired("violated"))
    assert 'class="verdict no"' in html
    assert "Violated: decoders, equal outputs" in html
    assert "Its assumptions do not all hold" in html


def test_lost_directions_and_outputs_of_other_widths_have_a_page():
    html = written(paired("lost"))
    assert "infinite" in html
    assert "outputs differ by" not in html


@pytest.mark.parametrize("n_null", [0, 2])
def test_layers_have_errors_constants_and_a_table(n_null):
    html = written(layered(n_null=n_null))
    assert sections(html)[:3] == ["errors", "constants", "layers"]
    assert figures(html) == ["layer-errors-figure", "layer-constants-figure"]
    assert "infinite" in html
    assert ("shuffled rows" in html) == (n_null > 0)


def test_names_stay_text():
    written(paired(names=(HOSTILE, "b")))
    written(layered((HOSTILE, "b")))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("result", [paired, layered])
def test_a_browser_shows_everything(browser, tmp_path, result, width):
    show(browser, tmp_path, result(), width)
