"""The page of a disentanglement."""

from dataclasses import replace

import pytest

from ..disentangling.conftest import small
from .pages import HOSTILE, figures, sections, show, written


@pytest.fixture(scope="module")
def result():
    pytest.importorskip("torch")
    return small()[0]


def test_the_page_shows_the_answer_the_traversals_and_the_tables(result):
    html = written(result)
    assert sections(html)[:5] == ["traversals", "reconstructions", "components", "trainings", "agreement"]
    assert figures(html) == ["traversals-figure", "reconstructions-figure", "recurrence-figure"]
    for words in ("reproducible", "data:image/png;base64,", "Each training", "the other training"):
        assert words in html, words


def test_a_single_training_says_nothing_about_what_comes_back(result):
    one = replace(
        result,
        trainings=tuple(replace(each, lost=float("nan"), kept=float("nan")) for each in result.trainings[:1]),
        components=tuple(replace(each, correlations=(), comes_back=None) for each in result.components),
        ensemble=None,
    )
    html = written(one)
    assert "agreement" not in sections(html)
    assert figures(html) == ["traversals-figure", "reconstructions-figure"]
    assert 'class="verdict open"' in html


def test_a_sheet_too_large_for_a_page_is_left_out(result):
    large = replace(result.sheet, png=result.sheet.png + bytes(400_000))
    assert "traversals" not in sections(written(replace(result, sheet=large)))
    assert "reconstructions" not in sections(written(replace(result, reconstructions=large)))


@pytest.mark.parametrize(
    ("kept", "principal", "ahead", "state"),
    [
        (0.9, 0.6, True, "yes"),
        (0.9, 0.95, False, "no"),
        (0.9, 0.6, False, "open"),
        (0.4, 0.3, True, "no"),
        (float("nan"), 0.5, False, "open"),
    ],
)
def test_no_success_is_headlined_where_principal_components_do_as_well(result, kept, principal, ahead, state):
    trainings = tuple(replace(each, kept=kept, principal=principal, ahead=ahead) for each in result.trainings)
    html = written(replace(result, trainings=trainings))
    assert f'class="verdict {state}"' in html
    assert ("No better than principal components" in html) == (state == "no" and not ahead)
    assert ("Most of the held-out variance is lost" in html) == (kept < 0.5)


def test_names_stay_text(result):
    written(replace(result, data=result.data | {"name": HOSTILE}, caveats=(HOSTILE,)))


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_everything(browser, tmp_path, width, result):
    show(browser, tmp_path, result, width)
