"""Figures as files of their own: legends stay inside."""

import re

import pytest

from isorep.report.document import Figure
from isorep.report.figures import Key, Lines
from isorep.report.svg_files import svg_file


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_legend_takes_as_many_rows_as_it_needs(count):
    words = [f"a rather long name of series {place}" for place in range(count)]
    keys = tuple(Key("line", "s1", text) for text in words)
    text = svg_file(Figure("f", "Title", "", "", Lines((), ("", ""), 200), legend=keys))
    width, height = (float(found) for found in re.search(r'width="(\d+)" height="(\d+)"', text).groups())
    places = [
        (float(re.search(r' x="([\d.]+)"', found[0])[1]), float(re.search(r' y="([\d.]+)"', found[0])[1]))
        for found in re.finditer(r"<text[^>]*>a rather long", text)
    ]
    assert len(places) == count
    assert len({y for _, y in places}) == -(-count // 3)
    for x, y in places:
        assert x + 6 * len(words[0]) < width
        assert y < height
