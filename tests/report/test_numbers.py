"""One number has one value: what the terminal prints of a result stands on its page, in the row of the same name."""

import re
from html import unescape

import pytest

from . import (
    test_blocks_page,
    test_compare_many_page,
    test_decoder_page,
    test_decoder_theory_pages,
    test_deconfound_page,
    test_extract_page,
    test_heads_page,
    test_ica_pages,
    test_mechanisms_page,
    test_notebook,
    test_similarity_pages,
    test_structure_page,
    test_translate_page,
)
from .examples import small_result
from .pages import written

KINDS = {
    "compare": (small_result, 5),
    "many": (test_compare_many_page.small, 5),
    "similarity": (lambda: test_similarity_pages.result("indices"), 8),
    "blocks": (test_blocks_page.result, 4),
    "layers": (lambda: test_similarity_pages.result("layers"), 2),
    "structure": (test_structure_page.result, 12),
    "translate": (test_translate_page.result, 2),
    "stability": (lambda: test_ica_pages.results()["stability"], 10),
    "deconfound": (test_deconfound_page.result, 4),
    "decoder": (test_decoder_page.result, 1),
    "decoder layers": (test_decoder_theory_pages.layered, 2),
    "extract": (test_extract_page.result, 2),
    "heads": (test_heads_page.result, 5),
    "head map": (lambda: test_heads_page.result().head_map, 20),
    "closeness": (lambda: test_heads_page.result().closeness, 10),
    "compare layers": (lambda: test_notebook.made("LayerComparison"), 3),
    "disentangle": (lambda: test_notebook.made("Disentanglement"), 3),
    "decoder pair": (lambda: test_notebook.made("DecoderPair"), 1),
    "mechanisms": (test_mechanisms_page.result, 5),
    "ica": (lambda: test_ica_pages.results()["ica"], 4),
    "structural": (lambda: test_notebook.made("Structural"), 3),
    "reproduction": (lambda: test_notebook.made("Reproduction"), 1),
}
"""How to make each kind of result, and how many rows of its table stand on the page at least."""
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?"


def spoken(name):
    """A name without what the terminal adds to it: marks, arrows, underscores and the case of letters."""
    return re.sub(r"[^a-z0-9²+,./ ]+", " ", name.replace("_", " ").lower()).strip()


def numbers(text):
    return re.findall(rf"(?<![\w.])({NUMBER})(?![\w.])", text.replace("−", "-"))


def same(one, other):
    """Whether two texts are one number, rounded to the digits that both have."""
    values = [float(each.removesuffix("%")) / (100 if each.endswith("%") else 1) for each in (one, other)]
    places = [len(each.partition(".")[2].removesuffix("%")) + 2 * each.endswith("%") for each in (one, other)]
    if "e" in one + other:
        return values[0] == pytest.approx(values[1], rel=0.02)
    return abs(values[0] - values[1]) <= 0.51 * (10.0 ** -places[0] + 10.0 ** -places[1])


def rows_of(html):
    """All numbers of every row on a page, by the name of the row."""
    found = {}
    for row in re.findall(r"<tr[^>]*>(<th scope=\"row\".*?)</tr>", html, re.S):
        name, *cells = [unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.split(r"</t[hd]>", row)]
        found.setdefault(spoken(name), []).extend(number for cell in cells for number in numbers(cell))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_says_how_much_data_went_in(kind):
    told = dict(KINDS[kind][0]().page().provenance)["data"]
    assert re.search(r"\d ×( |\n)\d|rows, \d+ × \d+ layers|images of \d+ × \d+|units? of work", told), (kind, told)


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_and_the_page_say_the_same(kind, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "10000")  # so that no column is left out
    make, least = KINDS[kind]
    result = make()
    shown = rows_of(written(result))
    for name in list(shown):  # the page has published numbers in a row of their own
        shown[name] += shown.get(f"{name}, published", [])
    names = {spoken(name): spoken(words) for name, words in _words(kind).items()}
    seen = 0
    for line in _printed(result, capsys).splitlines():
        head, _, rest = line.strip().removeprefix("> ").partition("  ")
        name = names.get(spoken(head), spoken(head))
        if name not in shown or not numbers(rest):
            continue
        seen += 1
        missing = [number for number in numbers(rest) if not any(same(number, other) for other in shown[name])]
        assert missing == [], (kind, name, missing, shown[name])
    assert seen >= least, (kind, seen, sorted(shown))


def _printed(result, capsys):
    """The table of the terminal; that of an ICA fit is the command's alone."""
    if hasattr(result, "table"):
        return result.table()
    from isorep.cli.ica import _print_fit

    _print_fit(result, [])
    return capsys.readouterr().out


STRUCTURAL = {
    "measured, held out": "rigid, no scale, held out",
    "measured, in sample": "rigid, no scale, in sample",
    "with one scale, in sample": "rigid with one scale, in sample",
}


def _words(kind):
    """Names of rows that the page spells out."""
    if kind == "structural":
        return STRUCTURAL
    from isorep.similarity.table import SHOWN
    from isorep.structure.families import SCORES

    return {name: words for name, (words, *_) in {"similarity": SHOWN, "structure": SCORES}.get(kind, {}).items()}
