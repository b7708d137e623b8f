"""The page of a comparison: the verdict first, then the numbers it rests on; and its figure for papers."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.comparison import Verdict
from isorep.comparison.figures import Reproducibility, residual_histogram
from isorep.comparison.worst_case import WorstRow
from isorep.errors import InputError
from isorep.report import read_result

from ..data import noisy_pair
from .examples import small_result, wide_result
from .pages import HOSTILE, figures, sections, written


def with_verdict(verdict, result=None):
    result = result or small_result()
    return replace(result, forward=replace(result.forward, verdict=verdict))


def test_the_verdict_comes_first_and_the_sections_in_their_order():
    html = written(small_result())
    assert html.index("<h1>The two representations agree up to a rigid motion.</h1>") < html.index("<table>")
    shown = ["the-ladder", "alignment", "dimensions", "worst-case", "rank"]
    assert sections(html) == [*shown, "caveats", "settings", "versions", "citation"]
    assert figures(html) == [
        f"{name}-figure"
        for name in ("ladder", "alignment", "residuals", "dimensions", "matching", "certificate", "spectrum")
    ]
    assert "Nelson, Walter" in html
    assert f"isorep {isorep.__version__}" in html


def test_the_ladder_shows_the_numbers_of_the_result_in_both_directions():
    html = written(small_result())
    for direction in (small_result().forward, small_result().reverse):
        rung = direction.rungs["linear"]
        values = (rung.held_out.mean, rung.null.mean, rung.explained, rung.in_diameters.held_out.mean)
        for cell in (f"[{rung.interval.low:.3f}, {rung.interval.high:.3f}]", *(f"{value:.3f}" for value in values)):
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
    assert f"dimension {result.figures.dimensions.order[-1]}: " in written(result)


def test_nothing_is_fetched_and_only_our_own_script_may_run():
    html = written(small_result())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert not re.search(r"https?://|@import|url\(|\son[a-z]+=", html)
    assert re.findall(r'(?:src|href)="([^"#]+)"', html) == ["data:,"]


def test_hostile_names_ids_and_caveats_stay_text():
    result = small_result()
    scatter = replace(result.figures.scatter, rows=(HOSTILE,) * len(result.figures.scatter.rows))
    worst = replace(result.worst_case["rigid"], worst_rows=(WorstRow(1, HOSTILE, 0.1),))
    hostile = replace(
        with_verdict(Verdict("rigid", HOSTILE)),
        source=replace(result.source, name=HOSTILE, dtype=HOSTILE),
        target=replace(result.target, name=HOSTILE),
        caveats=(HOSTILE,),
        settings={HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]},
        figures=replace(result.figures, scatter=scatter),
        worst_case=result.worst_case | {"rigid": worst},
    )
    html = written(hostile)
    assert sections(html) == sections(written(result))
    assert "&lt;script&gt;alert" in html
    shown = hostile._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown


def test_each_dimension_keeps_its_own_number_when_they_are_put_in_order():
    data = Reproducibility(np.array([2, 0, 1]), {"rigid": np.array([0.5, 0.1, 0.9])})
    html = written(replace(small_result(), figures=replace(small_result().figures, dimensions=data)))
    assert '["dimension 2: 0.900","dimension 0: 0.500","dimension 1: 0.100"]' in html
    assert "best first by rigid" in html


def test_without_null_interval_and_certificate_the_ladder_is_still_drawn():
    result = isorep.compare(*noisy_pair(80, 3, 0.1), n_null=0, n_boot=0, worst_case=False, rungs=("identity",))
    html = written(result)
    assert "<h1>No verdict.</h1>" in html
    assert "No verdict: the rule compares every rung with the best one, and the linear rung was left out." in html
    assert '<div class="verdict open">' in html
    assert figures(html)[:2] == ["ladder-figure", "alignment-figure"]
    assert "dimensions-figure" not in figures(html)


def test_a_rung_reached_in_part_only_is_not_shown_as_a_success():
    assert '<div class="verdict yes">' in written(small_result())
    said = "a and b are partly related, up to a rigid motion. Held-out error: 0.9."
    html = written(with_verdict(Verdict("rigid", said)))
    assert '<div class="verdict open">' in html
    assert "<h1>The two representations are partly related, up to a rigid motion.</h1>" in html
    assert "Held-out error: 0.9." in html


def test_a_qualified_verdict_is_not_shown_as_a_success():
    verdict = small_result().verdict
    html = written(with_verdict(replace(verdict, sentence=f"{verdict} Few rows decide this.", qualified="Few rows.")))
    assert '<div class="verdict open">' in html
    assert "Few rows decide this." in html


def test_an_unexplained_pair_says_so_in_its_heading():
    rng = np.random.default_rng(0)
    html = written(isorep.compare(rng.normal(size=(200, 3)), rng.normal(size=(200, 3)), n_null=20, n_boot=50))
    assert "<h1>No rung explains the two representations.</h1>" in html
    assert "is no better than chance." in html
    assert '<div class="verdict no">' in html


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


@pytest.mark.parametrize("name", ["_MOST_ENTRIES", "_MOST_LISTS"])
def test_a_file_of_endless_entries_is_refused_before_it_is_parsed(tmp_path, monkeypatch, name):
    monkeypatch.setattr(f"isorep.report.read.{name}", 10)
    monkeypatch.setattr("isorep.report.read.json", None)
    (tmp_path / "a.json").write_text('{"x": [' + ("1, " if name == "_MOST_ENTRIES" else "[") * 20)
    with pytest.raises(InputError, match=r"entries or .* lists: no result has"):
        read_result(tmp_path / "a.json")


def test_a_notebook_shows_verdict_and_ladder_with_inline_styles_only():
    shown = small_result()._repr_html_()
    assert "agree up to a rigid motion" in shown
    assert shown.count("<tr>") == 6
    assert shown.count("note: ") == 2
    assert not re.search(r"<style|<script|class=", shown)


def test_the_figure_for_papers_has_a_panel_for_each_figure(monkeypatch):
    result = small_result()
    result = replace(result, source=replace(result.source, name="$\\broken{ $"))
    figure = result.plot()
    figure.canvas.draw()
    assert [bool(axis.get_xlabel()) for axis in figure.axes] == [True] * 5
    bare = isorep.compare(*noisy_pair(60, 3, 0.1), n_null=0, n_boot=0, rungs=("rigid", "linear")).plot()
    bare.canvas.draw()
    assert [label.get_text() for label in bare.axes[0].get_yticklabels()] == ["rigid", "linear"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'isorep\[plot\]'"):
        result.plot()


def test_the_figure_for_papers_puts_dimensions_in_the_same_order():
    data = Reproducibility(np.array([2, 0, 1]), {"rigid": np.array([0.5, 0.1, 0.9])})
    result = replace(small_result(), figures=replace(small_result().figures, dimensions=data))
    (drawn,) = result.plot().axes[-1].collections
    assert drawn.get_offsets().tolist() == [[1.0, 0.9], [2.0, 0.5], [3.0, 0.1]]


def test_a_tile_says_what_is_explained_and_what_an_efficiency_beyond_one_means():
    result = small_result()
    assert f"{100 * result.rungs['rigid'].explained:.0f}% of the variance is explained, held out" in written(result)
    for efficiency, said in ((0.5, "ICA gains as well"), (1.7, "no share: ICA"), (-0.2, "gains nothing")):
        assert said in written(replace(result, forward=replace(result.forward, ica_efficiency=efficiency)))


def test_the_bulk_of_the_best_rung_fills_several_bins_and_the_tail_is_counted():
    rng = np.random.default_rng(0)
    errors = {"identity": rng.gamma(9, 2.0, 500), "rigid": rng.gamma(9, 0.02, 500)}
    found = residual_histogram(errors, 1.0, {"identity": 1.2, "rigid": 1.0})
    assert (found.counts["rigid"] > 5).sum() >= 6
    assert found.edges[-1] > 1.2
    for name in errors:
        assert found.counts[name].sum() + found.beyond.get(name, 0) == 500
    assert set(found.beyond) == {"identity"}
    near = residual_histogram({"rigid": rng.uniform(0, 0.5, 500)}, 1.0, {"rigid": 1.0})
    assert near.beyond == {}
    assert near.edges[-1] <= 0.5


def test_the_histogram_says_how_many_rows_lie_beyond_its_axis():
    small = small_result()
    assert "Beyond the axis, of 300 rows: identity " in written(small)
    whole = replace(small, figures=replace(small.figures, residuals=replace(small.figures.residuals, beyond={})))
    assert "Beyond the axis" not in written(whole)
