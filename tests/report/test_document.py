"""Pages as data: to JSON and back, whoever wrote it, and a general page for results without one."""

import json
from functools import cache

import numpy as np
import pytest

import isorep
from isorep.errors import InputError
from isorep.report import render
from isorep.report.document import Page, page_from, to_plain
from isorep.report.page import write_page

from ..data import noisy_pair
from .hostile import broken, places
from .pages import HOSTILE, sections

JUNK = [None, [], "text", -3, 1e308, 10**400, True, [1, "a", None], {"a": {"b": []}}, {"kind": "Lines"}]


@cache
def compared():
    x, y = noisy_pair(200, 3, 0.1)
    return isorep.compare(x, y, n_null=5, worst_case=False).to_json()


def test_a_page_comes_back_from_json_as_it_was():
    result = json.loads(compared())
    page = page_from(result["page"])
    assert isinstance(page, Page)
    assert to_plain(page) == result["page"]
    assert page_from(json.loads(json.dumps(to_plain(page)))) == page


def test_a_page_with_anything_in_any_place_is_shown_or_replaced_by_the_numbers():
    result = json.loads(compared())
    paths = [path for path in places(result["page"]) if path]
    assert len(paths) > 200
    shown = 0
    for path in paths[:: max(1, len(paths) // 12)]:
        for junk in JUNK:
            html = render(result | {"page": broken(result["page"], path, junk)})
            assert "</html>" in html
            shown += "cannot be read" not in html
    assert shown > 0  # some junk is fitting: text where there was text


@pytest.mark.parametrize("page", [None, [], 3, {}, {"title": 1}, {"sections": [{"kind": "Nothing"}]}])
def test_what_is_no_page_is_refused_and_the_numbers_are_shown(page):
    with pytest.raises(InputError, match="cannot be read"):
        page_from(page)
    html = render(json.loads(compared()) | {"page": page})
    assert "the page that this file carries cannot be read" in html


def test_a_hostile_page_stays_text():
    result = json.loads(compared())

    def spoilt(value):
        if isinstance(value, str):
            return value if value in kinds else HOSTILE
        if isinstance(value, list):
            return [spoilt(each) for each in value]
        return {key: spoilt(each) for key, each in value.items()} if isinstance(value, dict) else value

    kinds = set(_kinds(result["page"]))
    html = render(result | {"page": spoilt(result["page"])})
    assert "cannot be read" not in html
    for bad in ("<script>alert", "<img", "javascript:"):
        assert bad not in html
    assert html.count("<script") == html.count("</script")


def _kinds(value):
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        for each in value.values():
            yield from _kinds(each)
    elif isinstance(value, list):
        for each in value:
            yield from _kinds(each)


def test_a_result_of_an_older_version_has_a_page_of_its_numbers():
    result = json.loads(compared())
    del result["page"]
    html = render(result | {"schema": "isorep.compare/1"})
    head = result["verdict"]["sentence"].partition(". ")[0]
    assert head in html
    assert {"numbers", "forward", "settings", "citation"} <= set(sections(html))
    assert "signed permutation" in html


def test_a_general_page_survives_anything():
    result = json.loads(compared())
    del result["page"]
    for path in list(places(result, most=1))[::29]:
        if path in ((), ("schema",)):
            continue
        for junk in (*JUNK, HOSTILE, float("nan")):
            html = render(broken(result, path, junk))
            assert "</html>" in html
            assert "<img" not in html
    deep = inner = {}
    for _ in range(900):
        inner["a"] = {}
        inner = inner["a"]
    render({"schema": "isorep.x/1", "deep": deep, "list": [deep]})


def test_what_names_no_schema_of_ours_is_refused():
    for result in ({}, {"schema": 3}, {"schema": "other/1"}, [], "text"):
        with pytest.raises(InputError, match="no isorep schema"):
            render(result)


def test_the_page_of_a_result_and_of_its_json_are_one():
    x = np.random.default_rng(0).normal(size=(60, 2))
    result = isorep.compare(x, x + 0.1, n_null=5, worst_case=False)
    assert render(json.loads(result.to_json())) == write_page(result.page())
