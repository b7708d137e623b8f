"""Results in notebooks and papers: short reprs, safe HTML, data frames with the same numbers, figures with axes."""

import importlib
import inspect
import math
import pkgutil
import re
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

import isorep
from isorep.errors import InputError
from isorep.report.document import Answer, Cell, Column, Notes, Page, Section, Table
from isorep.report.notebook import MOST_ROWS, page_in_notebook, rows_in_notebook
from isorep.results import PANELS, Record, ResultRecord

from ..data import noisy_pair, rotation, sources
from ..disentangling.conftest import small
from . import (
    test_blocks_page,
    test_compare_many_page,
    test_decoder_page,
    test_deconfound_page,
    test_dictionaries_page,
    test_extract_page,
    test_heads_page,
    test_ica_pages,
    test_mechanisms_page,
    test_reproduction_page,
    test_similarity_pages,
    test_structure_page,
    test_translate_page,
)
from .examples import small_result
from .pages import HOSTILE

pytest.importorskip("torch")
from . import test_decoder_theory_pages, test_stitching_page


def compared_layers():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for name, turn in (("a", np.eye(3)), ("b", rotation(3, 0))):
            (Path(folder) / name).mkdir()
            for place in range(3):
                np.save(Path(folder) / name / f"layer{place}.npy", sources(120, 3, place) @ turn)
        return isorep.compare_layers(f"{folder}/a", f"{folder}/b", layers=[f"layer{k}" for k in range(3)], n_null=4)


def structural():
    import torch

    z = torch.rand(80, 2, generator=torch.manual_seed(0)).numpy() - 0.5
    process = lambda u: u + 0.01 * u**2  # noqa: E731
    return isorep.decoder.structural(1.1 * z, z, process=process, decoder=lambda y: 1.0 * y, n_null=2)


RESULTS = {
    "Comparison": small_result,
    "Ensemble": test_compare_many_page.small,
    "LayerComparison": compared_layers,
    "Similarities": lambda: test_similarity_pages.result("indices"),
    "LayerMatrix": lambda: test_similarity_pages.result("layers"),
    "Blocks": test_blocks_page.result,
    "Fit": lambda: test_ica_pages.results()["ica"],
    "Stability": lambda: test_ica_pages.results()["stability"],
    "FactorScores": test_structure_page.result,
    "Translation": test_translate_page.result,
    "UnpairedTranslation": test_translate_page.unpaired,
    "Deconfounding": test_deconfound_page.result,
    "Disentanglement": lambda: small()[0],
    "Extraction": test_extract_page.result,
    "Heads": test_heads_page.result,
    "Diversity": lambda: test_heads_page.result().heads[0],
    "HeadMap": lambda: test_heads_page.result().head_map,
    "Closeness": lambda: test_heads_page.result().closeness,
    "Geometry": test_decoder_page.result,
    "DecoderPair": test_decoder_theory_pages.paired,
    "Structural": structural,
    "ModelStitching": test_stitching_page.result,
    "Recurrence": test_dictionaries_page.result,
    "LayerGeometry": test_decoder_theory_pages.layered,
    "Mechanisms": test_mechanisms_page.result,
    "Reproduction": test_reproduction_page.result,
}
UNDRAWN = ("Extraction", "Reproduction", "UnpairedTranslation")
DERIVED = {
    "Similarities": ("chance_low", "chance_high"),  # the JSON has the 5th and 95th percentile
    "Ensemble": ("error", "se", "least", "largest", "r2", "chance", "in_sample"),  # over the matrices of the JSON
}


@cache
def made(name):
    return RESULTS[name]()


@cache
def records():
    for info in pkgutil.walk_packages(isorep.__path__, "isorep."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)

    def below(kind):
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    return [each for each in below(Record)[1:] if each.__module__.startswith("isorep.")]


def test_every_record_and_result_shows_itself_by_the_same_methods():
    for kind in records():
        assert kind.__repr__ is Record.__repr__, kind
        wanted = ResultRecord if issubclass(kind, ResultRecord) else Record
        assert kind._repr_html_ is wanted._repr_html_, kind


def test_every_result_is_looked_at_here():
    concrete = {each.__name__ for each in records() if issubclass(each, ResultRecord) and not inspect.isabstract(each)}
    assert concrete - {"ResultRecord"} == set(RESULTS)


def parts(value, depth=0):
    """A result, and all records and dataclasses in it."""
    if is_dataclass(value) and not isinstance(value, type):
        yield value
        for each in fields(value):
            yield from parts(getattr(value, each.name), depth + 1)
    elif isinstance(value, dict | list | tuple) and depth < 12:
        for each in list(value.values() if isinstance(value, dict) else value)[:20]:
            yield from parts(each, depth + 1)


@pytest.mark.parametrize("name", RESULTS)
def test_reprs_are_short_and_hold_no_arrays(name):
    result = made(name)
    assert type(result).__name__ == name
    assert repr(result).startswith(f"{name}(")
    for each in parts(result):
        assert "array(" not in repr(each), type(each)
        assert len(repr(each)) <= 300 or not isinstance(each, Record), (type(each), repr(each)[:400])
        if isinstance(each, Record):
            assert "\n" not in repr(each)


class Tags(HTMLParser):
    """The elements of a text, and whether each is closed."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.open, self.attributes = set(), [], set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_shows_the_headline_and_a_small_table(name):
    html = made(name)._repr_html_()
    tags = Tags(html)
    assert tags.open == []
    assert tags.seen <= {"div", "p", "table", "tr", "th", "td"}
    assert tags.attributes <= {"style"}
    assert "table" in tags.seen
    assert html.count("<tr>") <= 1 + MOST_ROWS
    assert len(html) < 40_000
    assert not re.search(r"(?<!back)(?:color|background):(?!inherit|none)", html)  # a dark theme keeps its own


def test_names_stay_text_in_a_notebook():
    table = Table("t", HOSTILE, (Column(HOSTILE, False), Column(HOSTILE)), ((Cell(HOSTILE), Cell(HOSTILE)),) * 30)
    sections = (Section("s", HOSTILE, (table,)), Section("caveats", "", (Notes((HOSTILE,) * 9),)))
    page = Page(HOSTILE, HOSTILE, (Answer(HOSTILE, HOSTILE, None),), sections, HOSTILE)
    for html in (page_in_notebook(page), rows_in_notebook(HOSTILE, [{HOSTILE: HOSTILE, "b": 1.0}])):
        assert Tags(html).seen <= {"div", "p", "table", "tr", "th", "td"}
        assert "&lt;script&gt;" in html
    assert "and 18 more rows" in page_in_notebook(page)
    hostile = test_similarity_pages.result("indices", (HOSTILE, "b", "c"))
    assert "<script" not in hostile._repr_html_()
    assert Tags(hostile["cka"]._repr_html_()).open == []


def numbers(value):
    """All finite numbers in plain data."""
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value):
        yield float(value)


@pytest.mark.parametrize("name", RESULTS)
def test_a_frame_has_the_numbers_of_the_json_with_all_digits(name):
    result = made(name)
    frame, told = result.to_frame(), set(numbers(result.to_dict()))
    assert len(frame) > 0
    assert frame.columns.is_unique
    for column in frame.columns:
        values = set(numbers(frame[column].tolist()))
        if column not in (*DERIVED.get(name, ()), "component"):
            assert values <= told, column


PRINTED = ("Comparison", "Ensemble", "Similarities", "LayerMatrix", "Stability", "FactorScores", "Translation")


@pytest.mark.parametrize("name", PRINTED)
def test_every_number_that_a_table_prints_is_in_the_frame(name):
    result = made(name)
    frame = result.to_frame()
    known = np.array(list(numbers([frame[column].tolist() for column in frame.columns])))
    body = "\n".join(result.table().splitlines()[1:])
    printed = re.findall(r"(?<![\w@.])-?\d+\.\d+(?![\w.])", body)
    assert len(printed) >= len(frame)
    for text in printed:
        digits = len(text.partition(".")[2])
        assert np.abs(known - float(text)).min() <= 0.5000001 * 10.0**-digits, text


def test_frames_of_pairs_and_cells_have_a_row_for_each():
    ensemble, matrix = made("Ensemble"), made("LayerMatrix")
    runs = len(ensemble.runs)
    frame = ensemble.to_frame("rigid")
    assert len(frame) == runs * (runs - 1)
    row = frame.iloc[0]
    place = [ensemble.names.index(row[side]) for side in ("source", "target")]
    assert row["error"] == ensemble.rungs["rigid"].error[*place]
    cells = matrix.to_frame(cells=True)
    assert cells["value"].tolist() == matrix.values.ravel().tolist()


def test_without_pandas_a_frame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        made("Comparison").to_frame()


def drawn(result, name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.35, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    given = figure.subplots()
    axes = getattr(result, name)(ax=given)
    assert axes is given
    figure.canvas.draw()
    return axes


@pytest.mark.parametrize("name", RESULTS)
def test_every_figure_draws_on_the_axes_it_is_given_with_nothing_cut_off(name):
    result = made(name)
    if name in UNDRAWN:
        with pytest.raises(InputError, match="no figure for papers"):
            result.plot()
        return
    for panel in result.panels():
        axes = drawn(result, panel)
        assert axes.get_xlabel() or axes.get_xticklabels(), panel
        renderer = axes.figure.canvas.get_renderer()
        box = axes.figure.bbox
        low, high = sorted(axes.get_ylim())
        shown = [tick.label1 for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        for text in (*shown, axes.yaxis.label, axes.title):
            if text.get_text():
                seen = text.get_window_extent(renderer)
                assert seen.x0 >= box.x0 - 1, (panel, text.get_text())
                assert seen.y1 <= box.y1 + 1, (panel, text.get_text())
    whole = result.plot()
    whole.canvas.draw()
    assert whole.get_size_inches()[0] <= 6.9 + 1e-9


def test_every_main_result_has_a_figure():
    assert all(made(name).panels() or name in ("Heads", *UNDRAWN) for name in RESULTS)
    assert set(PANELS) <= {panel for name in RESULTS for panel in made(name).panels()}


def test_the_ladder_marks_the_verdict_and_shows_what_is_far_at_the_end_of_its_axis():
    x, y = noisy_pair(200, 4, 0.1)
    result = isorep.compare(x, 1000 + y, n_null=20)
    axes = drawn(result, "plot_ladder")
    bold = [label.get_text() for label in axes.get_yticklabels() if label.get_fontweight() == "bold"]
    assert bold == ["rigid"]
    assert result.rungs["identity"].held_out.mean > axes.get_xlim()[1] <= 2.1
    assert f"{result.rungs['identity'].held_out.mean:.3g}" in [text.get_text() for text in axes.texts]
    assert axes.get_xlim()[0] == 0


def test_a_matrix_has_hatched_cells_where_there_is_no_number_and_counts_whole_ticks():
    axes = drawn(made("Ensemble"), "plot_matrix")
    assert len(axes.patches) == len(made("Ensemble").runs)
    axes = drawn(made("Stability"), "plot_components")
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    assert made("LayerMatrix").plot_matrix(ax=drawn(made("LayerMatrix"), "plot_matrix")).images[0].cmap.name == "Blues"


def test_the_axis_of_deconfounding_starts_at_chance():
    lowest = min(each.auroc for each in made("Deconfounding").scores)
    low, high = drawn(made("Deconfounding"), "plot_scores").get_xlim()
    assert high == 1.0
    assert low == 0.5 or lowest < 0.5


def test_a_figure_of_its_own_has_the_width_of_one_column_or_two():
    from matplotlib import pyplot

    for width, inches in (("single", 3.35), ("double", 6.9)):
        axes = made("Comparison").plot_ladder(width=width)
        assert axes.figure.get_size_inches()[0] == pytest.approx(inches)
        pyplot.close(axes.figure)
    with pytest.raises(InputError, match="width"):
        made("Comparison").plot_ladder(width="triple")


def test_without_matplotlib_a_figure_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match=r"plot_ladder\(\) needs matplotlib.*pip install 'isorep\[plot\]'"):
        made("Comparison").plot_ladder()
