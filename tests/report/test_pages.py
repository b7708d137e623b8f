"""From a plain result to a page: from the JSON alone, whatever is missing, whoever wrote it."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import isorep
from isorep.comparison.page import snippet
from isorep.errors import InputError
from isorep.report import read_result, render

from ..data import noisy_pair
from .examples import small_result, wide_result
from .hostile import HOSTILE, broken, with_numbers, without


def sections(html):
    return re.findall(r'<section id="([^"]+)"', html)


def test_the_verdict_comes_first_and_the_sections_in_their_order():
    html = render(small_result())
    assert html.index("<h1>source.npy and target.npy agree up to a rigid motion") < html.index("<table>")
    assert sections(html) == [
        "the-ladder",
        "worst-case",
        "alignment",
        "dimensions",
        "residuals",
        "rank",
        "caveats",
        "settings",
        "citation",
    ]
    assert "Nelson, Walter" in html
    assert f"isorep {isorep.__version__}" in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_ladder_shows_the_numbers_of_the_result_in_both_directions():
    result = small_result()
    html = render(result)
    for direction in ("forward", "reverse"):
        rung = result[direction]["rungs"]["linear"]
        low, high = rung["interval"]["low"], rung["interval"]["high"]
        values = [rung[part]["mean"] for part in ("held_out", "null")]
        values += [rung["explained"], rung["diameters"]["held_out"]["mean"]]
        for cell in (f"[{low:.3f}, {high:.3f}]", *(f"{value:.3f}" for value in values)):
            assert f">{cell}</td>" in html


def test_the_page_is_made_from_the_json_alone(tmp_path):
    """A process that has computed nothing writes the same page as the result itself."""
    result = isorep.compare(*noisy_pair(120, 3, 0.1), n_null=5, n_boot=50)
    result.to_html(tmp_path / "here.html")
    result.to_json(tmp_path / "result.json")
    code = "import sys; from isorep.report import read_result, write; write(read_result(sys.argv[1]), sys.argv[2])"
    paths = (tmp_path / "result.json", tmp_path / "there.html")
    subprocess.run([sys.executable, "-c", code, *paths], check=True)
    assert (tmp_path / "here.html").read_text() == (tmp_path / "there.html").read_text()


def test_a_thousand_dimensions_stay_below_a_megabyte_and_a_half():
    result = wide_result(1000)
    html = render(result)
    assert len(html.encode()) < 1_500_000
    assert f"dimension {result['figures']['dimensions']['order'][-1]}: " in html


def test_nothing_is_fetched_and_only_our_own_script_may_run():
    html = render(small_result())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert not re.search(r"https?://|@import|url\(|\son[a-z]+=", html)
    assert re.findall(r'(?:src|href)="([^"#]+)"', html) == ["data:,"]


def test_hostile_names_ids_and_caveats_stay_text():
    result = small_result()
    clean = render(result)
    for side in ("source", "target"):
        result[side]["name"] = result["forward"][side] = result["reverse"][side] = HOSTILE
        result[side]["dtype"] = HOSTILE
    result["verdict"] = {"rung": HOSTILE, "sentence": HOSTILE}
    result["forward"]["rungs"][HOSTILE] = result["forward"]["rungs"]["rigid"]
    result["caveats"] = [HOSTILE]
    result["isorep"] = HOSTILE
    result["settings"] = {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}
    figures = result["figures"]
    figures["scatter"] |= {"rows": [HOSTILE] * len(figures["scatter"]["target"]), "rung": HOSTILE}
    figures["matching"]["source_dims"] = figures["matching"]["target_dims"] = [HOSTILE] * 6
    figures["dimensions"] = {"order": [HOSTILE] * 6, "r2": {HOSTILE: [0.5] * 6}}
    figures["residuals"]["counts"] = {HOSTILE: [1] * 40}
    result["worst_case"]["sample"] = {"sentence": HOSTILE}
    result["worst_case"]["rigid"] |= {"lower_by": HOSTILE, "worst_rows": [{"row": 1, "id": HOSTILE, "error": 0.1}]}
    html = render(result)
    assert sections(html) == sections(clean)
    assert "&lt;script&gt;alert" in html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("<script") == html.count("</script") == clean.count("<script")
    shown = snippet(result)
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown


BLOCKS = [
    ("figures",),
    ("figures", "scatter"),
    ("figures", "matching"),
    ("figures", "dimensions"),
    ("figures", "residuals"),
    ("figures", "residuals", "null_mean"),
    ("figures", "scatter", "rows"),
    ("figures", "scatter", "explained"),
    ("worst_case",),
    ("worst_case", "rigid"),
    ("worst_case", "rigid", "lower"),
    ("worst_case", "rigid", "upper"),
    ("worst_case", "rigid", "least_squares_sup"),
    ("worst_case", "rigid", "worst_rows"),
    ("worst_case", "sample"),
    ("caveats",),
    ("settings",),
    ("source",),
    ("target",),
    ("source", "spectrum"),
    ("forward",),
    ("forward", "rungs", "rigid", "null"),
    ("forward", "rungs", "rigid", "interval"),
    ("forward", "rungs", "rigid", "held_out"),
    ("forward", "rungs", "rigid", "explained"),
    ("forward", "ica_efficiency"),
    ("target", "half_variance_share"),
    ("forward", "diameter"),
    ("reverse",),
    ("verdict",),
    ("isorep",),
]


def test_each_dimension_keeps_its_own_number_when_they_are_put_in_order():
    result = small_result()
    result["figures"]["dimensions"] = {"order": [2, 0, 1], "r2": {"rigid": [0.5, 0.1, 0.9]}}
    html = render(result)
    assert '["dimension 2: 0.900","dimension 0: 0.500","dimension 1: 0.100"]' in html
    assert "best first by rigid" in html


@pytest.mark.parametrize("path", BLOCKS, ids=".".join)
@pytest.mark.parametrize("junk", ["missing", None, [], {}, "text", 3, [[1]], {"a": {"b": []}}])
def test_any_block_may_be_missing_or_of_another_kind(path, junk):
    result = without(small_result(), path) if junk == "missing" else broken(small_result(), path, junk)
    html = render(result)
    assert "None" not in re.sub(r"None that isorep knows", "", html)
    assert not re.search(r"\b(nan|inf)\b", html)
    assert "citation" in sections(html)


def test_a_section_without_its_block_is_left_out():
    result = small_result()
    del result["figures"], result["worst_case"], result["caveats"]
    del result["source"]["spectrum"], result["target"]["spectrum"]
    assert sections(render(result)) == ["the-ladder", "rank", "settings", "citation"]


def test_without_null_and_interval_the_ladder_is_still_drawn():
    result = isorep.compare(*noisy_pair(80, 3, 0.1), n_null=0, n_boot=0)
    html = render(json.loads(result.to_json()))
    assert "<h1>No verdict.</h1>" in html
    assert "No shuffled pairings were drawn, so that chance cannot be ruled out." in html
    assert '<div class="verdict open">' in html
    assert 'id="ladder-figure"' in html


def test_a_rung_reached_in_part_only_is_not_shown_as_a_success():
    result = small_result()
    assert '<div class="verdict yes">' in render(result)
    result["verdict"]["sentence"] = "a and b agree in part only, up to a rigid motion. What is left is 0.9."
    result["forward"]["rungs"]["rigid"]["held_out"]["mean"] = 0.9
    html = render(result)
    assert '<div class="verdict open">' in html
    assert "<h1>a and b agree in part only, up to a rigid motion.</h1>" in html
    assert "What is left is 0.9." in html


def test_a_qualified_verdict_is_not_shown_as_a_success():
    result = small_result()
    result["verdict"]["qualified"] = "Few rows decide this."
    result["verdict"]["sentence"] += " Few rows decide this."
    html = render(result)
    assert '<div class="verdict open">' in html
    assert "Few rows decide this." in html


def test_an_unexplained_pair_says_so_in_its_heading():
    rng = np.random.default_rng(0)
    result = isorep.compare(rng.normal(size=(200, 3)), rng.normal(size=(200, 3)), n_null=20, n_boot=50)
    html = render(json.loads(result.to_json()))
    assert "<h1>source and target are not explained by any rung: the best one, " in html
    assert "is no better than chance.</h1>" in html
    assert '<div class="verdict no">' in html


@pytest.mark.parametrize("result", [[], "text", None, {}, {"schema": 3}, {"schema": "other/1"}, {"schema": None}])
def test_what_is_no_result_is_refused(result):
    with pytest.raises(InputError, match="not an isorep result"):
        render(result)


def test_an_unknown_schema_is_refused_by_name():
    with pytest.raises(InputError, match=r"no report for the schema 'isorep.compare/99': it knows isorep.compare/2"):
        render({"schema": "isorep.compare/99"})


def test_a_file_is_read_only_if_it_holds_one_object_of_sane_size(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    cases = {
        b"{": "not JSON",
        b"\xff\xfe": "not JSON",
        b"[" * 200_000: "not JSON",
        b"[1]": "list",
        b"1" * 9999: "not JSON",
    }
    for content, said in cases.items():
        path.write_bytes(content)
        with pytest.raises(InputError, match=said):
            read_result(path)
    monkeypatch.setattr("isorep.report.read.MOST_BYTES", 100)
    path.write_bytes(b" " * 101)
    with pytest.raises(InputError, match="no isorep result is that large"):
        read_result(path)
    with pytest.raises(InputError, match="is a folder"):
        read_result(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_result(tmp_path / "absent.json")


def test_a_notebook_shows_verdict_and_ladder_with_inline_styles_only():
    shown = isorep.compare(*noisy_pair(80, 3, 0.1), n_null=5, n_boot=50)._repr_html_()
    assert "agree up to a rigid motion" in shown
    assert shown.count("<tr>") == 6
    assert not re.search(r"<style|<script|class=", shown)


def test_the_figure_for_papers_has_a_panel_for_each_block(monkeypatch):
    from isorep.comparison.plots import plot

    result = small_result()
    result["source"]["name"] = "$\\broken{ $"
    figure = plot(result)
    figure.canvas.draw()
    assert [bool(axis.get_xlabel()) for axis in figure.axes] == [True] * 5
    bare = isorep.compare(*noisy_pair(60, 3, 0.1), n_null=0, n_boot=0, rungs=("rigid", "linear")).plot()
    bare.canvas.draw()
    assert [label.get_text() for label in bare.axes[0].get_yticklabels()] == ["rigid", "linear"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'isorep\[plot\]'"):
        plot(result)


def test_the_figure_for_papers_puts_dimensions_in_the_same_order():
    from isorep.comparison.plots import plot

    result = small_result()
    result["figures"] = {"dimensions": {"order": [2, 0, 1], "r2": {"rigid": [0.5, 0.1, 0.9], "broken": [1.0]}}}
    (drawn,) = plot(result).axes[1].collections
    assert drawn.get_offsets().tolist() == [[1.0, 0.9], [2.0, 0.5], [3.0, 0.1]]


def test_the_page_calls_weak_what_the_verdict_calls_weak():
    from isorep.comparison import page as compare
    from isorep.comparison import verdict

    assert compare.WEAK == verdict.PARTLY


def test_a_tile_says_what_is_explained_and_what_an_efficiency_beyond_one_means():
    from isorep.comparison import page as compare
    from isorep.comparison import residuals as statistics

    result = small_result()
    explained = result["forward"]["rungs"]["rigid"]["explained"]
    assert f"{100 * explained:.0f} % of the variance is explained, held out" in render(result)
    for efficiency, said in ((0.5, "ICA gains as well"), (1.7, "no share: ICA"), (-0.2, "gains nothing")):
        result["forward"]["ica_efficiency"] = efficiency
        assert said in render(result)
    assert compare.BEYOND == statistics.BEYOND


def test_all_numbers_may_be_absurd_at_once():
    for value in (0, -3.0, 1e308, -1e308, 1e-308, 10**400):
        assert not re.search(r"\b(nan|inf)\b", render(with_numbers(small_result(), value))), value
