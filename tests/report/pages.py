"""What every page of a result promises, checked in one place."""

from __future__ import annotations

import json
import re

from isorep.report import render
from isorep.report.page import write_page

HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>\"'&\u2028"


def written(result):
    """The HTML of a result; the JSON alone gives the same page, which is whole and safe whatever the names."""
    html = write_page(result.page())
    assert render(json.loads(result.to_json())) == html
    assert len(html) < 1_500_000
    told = re.sub(r"<style>.*?</style>|<script.*?</script>", "", html, flags=re.S)
    assert not re.search(r"\b(nan|inf|None)\b", told), re.findall(r".{40}\b(?:nan|inf|None)\b.{20}", told)[:3]
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("<script") == html.count("</script") == html.count("<script type=") + 1
    headline = re.search(r"<h1>(.*?)</h1>", html, re.S).group(1)
    assert len(headline.split()) <= 12, headline
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    return html


def sections(html):
    """Anchors of the sections, in order."""
    return re.findall(r'<section[^>]* id="([^"]+)"', html)


def figures(html):
    """Anchors of the figures, in order."""
    return re.findall(r'<figure id="([^"]+)"', html)


def show(browser, tmp_path, result, width):
    """In a browser nothing overflows, nothing is cut off, and nothing complains."""
    path = tmp_path / "page.html"
    result.to_html(path)
    browser.open(path, width=width)
    assert browser.errors() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    cut = browser.run(
        """
        return [...document.querySelectorAll(".plot svg text")].map((t) => [t.textContent, t.getBoundingClientRect()])
            .filter(([text, box]) => box.width && (box.left < 0 || box.right > arguments[0])).map(([text]) => text)
        """,
        width,
    )
    assert cut == []
