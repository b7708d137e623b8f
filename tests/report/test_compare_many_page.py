"""The page of many runs: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re
from functools import cache

import numpy as np
import pytest

import isorep
from isorep.comparison.page import many_snippet
from isorep.report import render
from isorep.report.figures import Clustered

from ..data import rotation, sources
from .hostile import HOSTILE, broken, with_numbers, without

RUNGS = ("identity", "signed_permutation", "rigid", "linear", "ica")


@cache
def _small_json():
    rng = np.random.default_rng(0)
    shared = sources(300, 5)
    runs = {f"seed{i}.npy": shared @ rotation(5, i) + 0.2 * rng.normal(size=shared.shape) for i in range(5)}
    runs["seed4.npy"] = rng.permutation(runs["seed4.npy"])
    return isorep.compare_many(runs).to_json()


def small():
    return json.loads(_small_json())


def large(runs=40, d=1000, families=2000):
    """More than any page shows: 40 runs of 1,000 dimensions."""
    rng = np.random.default_rng(0)
    result = small()
    square = rng.uniform(0, 1.2, (runs, runs)).round(6).tolist()
    result["names"] = [f"a rather long name of run {i}.npy" for i in range(runs)]
    result["runs"] = [result["runs"][0] | {"name": name} for name in result["names"]]
    for rung in RUNGS:
        result["rungs"][rung] |= {"error": square, "rms": square, "null": square, "in_sample": square, "se": square}
    result["verdicts"] = [["rigid"] * runs] * runs
    result["clustering"] = {"rung": "rigid", "order": list(range(runs)), "linkage": []}
    result["consensus"] |= {"shares": [0.5] * runs, "spectrum": [0.1] * d, "agreement": [0.5] * d}
    result["dimensions"] = [{"r2": rng.uniform(0, 1, d).round(6).tolist(), "correlation": [0.5] * d}] * runs
    result["components"]["by_run"] = [{"score": [0.5] * d, "runs": [3] * d, "gaussian": [False] * d}] * runs
    members = [[run, 7] for run in range(runs)]
    result["components"]["families"] = [{"runs": runs, "score": 0.9, "members": members}] * families
    return result


def sections(html):
    return re.findall(r'<section id="([^"]+)"', html)


EVERY = ["pairs", "outliers", "consensus", "components", "dimensions", "runs"]


def test_the_verdict_comes_first_and_the_sections_in_their_order():
    html = render(small())
    assert "<h1>4 of the 5 runs agree up to a rigid motion" in html
    assert html.index("<h1>") < html.index("<table>")
    assert sections(html) == [*EVERY, "settings", "versions", "citation"]
    assert "seed4.npy stands apart" in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_matrix_is_drawn_in_the_order_of_the_tree_with_its_numbers():
    result = small()
    html = render(result)
    order = result["clustering"]["order"]
    names = [result["names"][i] for i in order]
    rows = [html.index(f'"source {name}"') for name in names]
    assert rows == sorted(rows)
    i, j = order[0], order[1]
    assert f'"target {result["names"][j]}: {result["rungs"]["rigid"]["error"][i][j]:.3f}"' in html
    assert html.count('class="branch"') == 2  # the leading matrix, on a wide page and on a narrow one
    for rung in RUNGS:
        assert f'id="pairs-{rung.replace("_", "-")}-figure"' in html


def test_numbers_of_the_result_are_in_the_tables():
    result = small()
    html = render(result)
    assert f">{result['rungs']['linear']['mean']:.4f}</td>" in html
    assert f">{result['rungs']['linear']['error'][1][3]:.4f}</td>" in html
    core = [(i, j) for i in range(4) for j in range(4) if i != j]  # the fifth stands apart
    explained = np.mean([1 - result["rungs"]["rigid"]["rms"][i][j] ** 2 for i, j in core])
    assert f"{100 * explained:.0f} % of the variance is explained, held out" in html
    assert f">{result['components']['families'][0]['score']:.3f}</td>" in html
    assert "seed1.npy → seed3.npy" in html


def test_runs_that_agree_in_part_only_are_not_shown_as_a_success():
    result = small()
    assert '<div class="verdict yes">' in render(result)
    result["verdict"]["sentence"] = "All 5 runs agree in part only, up to a rigid motion. What is left is much."
    assert '<div class="verdict open">' in render(result)


def test_forty_runs_of_a_thousand_dimensions_stay_below_a_megabyte_and_a_half():
    html = render(large())
    assert len(html.encode()) < 1_500_000
    assert "The first 32 of 40 runs are shown" in html


def test_hostile_names_and_sentences_stay_text():
    clean = render(small())
    result = small()
    result["names"] = [HOSTILE + str(i) for i in range(5)]
    for side in result["runs"]:
        side["name"] = side["dtype"] = HOSTILE
    result["verdict"] = {"rung": HOSTILE, "sentence": HOSTILE}
    result["verdicts"] = [[HOSTILE] * 5] * 5
    result["rungs"][HOSTILE] = result["rungs"]["rigid"]
    result["clustering"]["rung"] = HOSTILE
    result["outliers"] = [{"run": HOSTILE, "sentence": HOSTILE}]
    result["caveats"] = [HOSTILE]
    result["settings"] = {HOSTILE: [HOSTILE]}
    html = render(result)
    assert set(sections(clean)) <= set(sections(html))
    assert "&lt;script&gt;alert" in html
    assert "<script>alert" not in html
    assert "<img" not in html
    shown = many_snippet(result)
    assert "<script" not in shown
    assert "<img" not in shown


BLOCKS = [
    ("names",),
    ("runs",),
    ("verdict",),
    ("verdicts",),
    ("rungs",),
    ("rungs", "rigid"),
    ("rungs", "rigid", "error"),
    ("rungs", "rigid", "rms"),
    ("rungs", "rigid", "null"),
    ("rungs", "rigid", "mean"),
    ("outliers",),
    ("clustering",),
    ("clustering", "order"),
    ("clustering", "linkage"),
    ("clustering", "rung"),
    ("consensus",),
    ("consensus", "shares"),
    ("consensus", "agreement"),
    ("consensus", "spectrum"),
    ("dimensions",),
    ("components",),
    ("components", "by_run"),
    ("components", "families"),
    ("components", "threshold"),
    ("settings",),
    ("caveats",),
]
JUNK = [
    "missing",
    None,
    [],
    {},
    "text",
    3,
    [[1]],
    {"a": {"b": []}},
    [[0, 0, -1, 2]] * 4,
    [{"members": [[0, 99], [1, -3]]}],
]


def test_means_have_a_standard_error_a_range_and_a_share_explained():
    result = small()
    html = render(result)
    rung = result["rungs"]["rigid"]
    for words in (
        f"{rung['mean_se']:.4f}",
        f"{rung['min']:.3f} to {rung['max']:.3f}",
        f"{rung['explained']:.2f}".replace("-", "−"),
        "of the variance is explained, held out",
        "half the variance in",
    ):
        assert words in html, words
    result["components"]["families"] = []
    assert "found in most runs, none of them in all" in render(result)


def test_all_numbers_may_be_absurd_at_once():
    for value in (0, -3.0, 1e308, -1e308, 1e-308, 10**400):
        assert not re.search(r"\b(nan|inf)\b", render(with_numbers(small(), value))), value


@pytest.mark.parametrize("path", BLOCKS, ids=".".join)
@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_any_block_may_be_missing_or_of_another_kind(path, junk):
    result = without(small(), path) if junk == "missing" else broken(small(), path, junk)
    html = render(result)
    assert "None" not in html
    assert not re.search(r"\b(nan|inf)\b", html)
    assert "citation" in sections(html)
    assert many_snippet(result)


@pytest.mark.parametrize(
    "linkage",
    [[[0, 1, 0.1, 2], [0, 5, 0.2, 3], [2, 6, 0.3, 4], [3, 7, 1, 5]], [[0, 0, 0.1, 2]] * 4, [[0, 1, -1, 2]] * 4],
)
def test_a_tree_that_is_none_is_left_out(linkage):
    result = small()
    result["clustering"]["linkage"] = linkage
    html = render(result)
    assert 'class="branch"' not in html
    assert 'id="pairs-rigid-figure"' in html


def test_a_matrix_has_numbers_where_there_is_room_and_a_label_for_every_cell():
    values = [[None, 0.2], [1.7, None]]
    drawn = Clustered(values, ("a", "b"), ((0, 1, 0.95),), ("target", "source")).draw(720)
    assert ">0.20<" in drawn.body
    assert ">1.70<" in drawn.body
    assert drawn.series[0].labels == ("target a: the run itself", "target b: 0.200")
    many = [[0.5] * 60 for _ in range(60)]
    assert ">0.50<" not in Clustered(many, tuple(map(str, range(60))), (), ("target", "source")).draw(340).body


def test_few_runs_and_few_rungs_make_a_page_too():
    rng = np.random.default_rng(0)
    result = isorep.compare_many([rng.normal(size=(60, 1)) for _ in range(2)], rungs=("rigid",), n_null=0)
    html = render(json.loads(result.to_json()))
    assert "<h1>No verdict.</h1>" in html
    assert '<div class="verdict open">' in html
    assert "components" not in sections(html)


def test_the_figure_for_papers_has_a_panel_for_each_rung():
    from isorep.comparison.plots import plot_many

    result = small()
    result["names"][0] = "$\\broken{ $"
    figure = plot_many(result)
    figure.canvas.draw()
    assert len(figure.axes) == 6


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_opens_and_answers_in_a_browser(browser, tmp_path, width):
    path = tmp_path / "many.html"
    path.write_text(render(small()), encoding="utf-8")
    browser.errors()
    browser.open(path, width=width)
    assert browser.errors() == []
    drawn = browser.run("""
        const visible = (element) => element.getBoundingClientRect().width > 0;
        return [...document.querySelectorAll("figure")].map((figure) => {
            const svg = [...figure.querySelectorAll(".plot svg")].filter(visible);
            return [figure.id, svg.length, svg[0].querySelectorAll(".dot, .dots, .line, .cell").length > 0];
        });
    """)
    assert len(drawn) == 9
    assert all(count == 1 and marked for _, count, marked in drawn), drawn
    wide = browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert wide
