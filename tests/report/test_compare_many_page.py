"""The page of many runs: the verdict, all pairs, the consensus and what recurs."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import isorep
from isorep.comparison import Components, Dimensions, Family, RunComponents, Verdict
from isorep.report.figures import Clustered

from ..data import rotation, sources
from .pages import HOSTILE, figures, sections, show, written

EVERY = ["pairs", "outliers", "consensus", "components", "dimensions", "runs"]


@cache
def small():
    rng = np.random.default_rng(0)
    shared = sources(300, 5)
    runs = {f"seed{i}.npy": shared @ rotation(5, i) + 0.2 * rng.normal(size=shared.shape) for i in range(5)}
    runs["seed4.npy"] = rng.permutation(runs["seed4.npy"])
    return isorep.compare_many(runs)


def named(names):
    return replace(small(), runs=tuple(map(_renamed, small().runs, names)))


def _renamed(side, name):
    return replace(side, name=name)


def large(runs=40, d=1000, families=2000):
    """More than any page shows: 40 runs of 1,000 dimensions."""
    rng = np.random.default_rng(0)
    result = small()
    square = rng.uniform(0, 1.2, (runs, runs))
    tables = dict.fromkeys(("error", "rms", "null", "in_sample", "se"), square)
    half = np.full(d, 0.5)
    folds = np.stack([square] * 5)
    members = tuple((run, 7) for run in range(runs))
    by_run = RunComponents(half, np.full(d, 3), np.zeros(d, dtype=bool))
    return replace(
        result,
        runs=tuple(_renamed(result.runs[0], f"a rather long name of run {i}.npy") for i in range(runs)),
        rungs={name: replace(rung, **tables, left_out=folds) for name, rung in result.rungs.items()},
        verdicts=(("rigid",) * runs,) * runs,
        clustering=replace(result.clustering, order=tuple(range(runs)), linkage=np.zeros((runs - 1, 4))),
        consensus=replace(result.consensus, shares=half[:runs], spectrum=half / 5, agreement=half),
        dimensions=(Dimensions(rng.uniform(0, 1, d), half),) * runs,
        components=Components((by_run,) * runs, (Family(members, 0.9),) * families, 0.8),
    )


def test_the_verdict_comes_first_and_the_sections_in_their_order():
    html = written(small())
    assert "<h1>4 of 5 runs agree up to a rigid motion.</h1>" in html
    assert html.index("<h1>") < html.index("<table>")
    assert sections(html) == [*EVERY, "caveats", "settings", "versions", "citation"]
    assert "seed4.npy is an outlier" in html


def test_the_matrix_is_drawn_in_the_order_of_the_tree_with_its_numbers():
    result, html = small(), written(small())
    order = result.clustering.order
    rows = [html.index(f'"source {result.names[run]}"') for run in order]
    assert rows == sorted(rows)
    i, j = order[:2]
    assert f'"target {result.names[j]}: {result.rungs["rigid"].error[i, j]:.3f}"' in html
    assert html.count('class="branch"') == 2  # the leading matrix, on a wide page and on a narrow one
    assert {f"pairs-{rung.replace('_', '-')}-figure" for rung in result.rungs} <= set(figures(html))


def test_numbers_of_the_result_are_in_the_tables():
    result, html = small(), written(small())
    rigid, linear = result.rungs["rigid"], result.rungs["linear"]
    core = [(i, j) for i in range(4) for j in range(4) if i != j]  # the fifth stands apart
    explained = np.mean([1 - rigid.rms[pair] ** 2 for pair in core])
    for words in (
        f">{linear.mean:.4f}</td>",
        f">{linear.error[1, 3]:.4f}</td>",
        f">{result.components.families[0].score:.3f}</td>",
        f"{100 * explained:.0f}% of the variance is explained, held out",
        f"{rigid.mean_se:.4f}",
        f"{rigid.min:.4f} to {rigid.max:.4f}",
        f"{rigid.explained:.2f}".replace("-", "−"),
        "half the variance in",
        "seed1.npy → seed3.npy",
    ):
        assert words in html, words


def test_families_that_are_nowhere_are_none():
    html = written(replace(small(), components=replace(small().components, families=())))
    assert "found in most runs, none of them in all" in html
    assert "families-figure" not in figures(html)


def test_runs_that_agree_in_part_only_are_not_shown_as_a_success():
    assert '<div class="verdict yes">' in written(small())
    verdict = Verdict("rigid", "All 5 runs are partly related, up to a rigid motion. Mean held-out error much.")
    assert '<div class="verdict open">' in (html := written(replace(small(), verdict=verdict)))
    assert "partly related, up to a rigid motion.</h1>" in html


def test_one_page_has_one_number_for_what_it_names_twice():
    """Headline, tile and table say the same with an outlier; components are counted in families everywhere."""
    result, html = small(), written(small())
    rung = result.rungs["rigid"]
    core = np.mean([rung.error[i, j] for i in range(4) for j in range(4) if i != j])
    row = re.search(r"<tr class=\"strong\">.*?</tr>", html).group(0)
    assert f">{core:.4f}</td>" in row
    assert f"<dd>{core:.3f}</dd>" in html
    everywhere = sum(family.runs == 5 for family in result.components.families)
    said = f"{everywhere or 'none'} of them in all"
    assert said in html
    counts = re.search(r'data-name="component-counts".*?</table>', html, re.S).group(0)
    rows = re.findall(r"<tr><th[^>]*>[^<]*</th><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>", counts)
    assert [int(in_all) for _, in_all in rows] == [everywhere] * 5


def test_forty_runs_of_a_thousand_dimensions_stay_below_a_megabyte_and_a_half():
    html = written(large())
    assert "The first 32 of 40 runs are shown" in html
    assert 'class="branch"' not in html  # of a part of the runs there is no tree


def test_hostile_names_stay_text():
    hostile = named([HOSTILE + str(i) for i in range(5)])
    assert set(sections(written(small()))) <= set(sections(written(hostile)))
    shown = replace(hostile, verdict=Verdict("rigid", HOSTILE))._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown


def test_runs_may_be_called_as_columns_are():
    assert ">score<" in written(named(["family", "score", "runs", "run", "pair"]))


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
    html = written(isorep.compare_many([rng.normal(size=(60, 1)) for _ in range(2)], rungs=("rigid",), n_null=0))
    assert "<h1>No verdict.</h1>" in html
    assert '<div class="verdict open">' in html
    assert "components" not in sections(html)


def test_the_figure_for_papers_has_a_panel_for_each_rung():
    figure = named(["$\\broken{ $", *small().names[1:]]).plot()
    figure.canvas.draw()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == ["identity", "signed permutation", "rigid", "linear", "ICA"]


@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_shows_everything(browser, tmp_path, width):
    show(browser, tmp_path, small(), width)
