"""Pages written as HTML, the page of a plain result, and how every page ends: caveats, settings, versions, citation."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .._version import __version__
from ..errors import InputError
from ..files import visible, write_text
from ..results import ResultRecord
from .document import (
    Answer,
    CardGrid,
    Cell,
    Column,
    Definitions,
    Figure,
    Notes,
    Page,
    Part,
    Prose,
    Quotation,
    Row,
    Section,
    Table,
    page_from,
)
from .read import MISSING, compact, count

FOLDER = Path(__file__).parent / "templates"


def render(result: Any) -> str:
    """The page for a plain result, as parsed from JSON: the one it carries, or one made of whatever it holds.

    Of a list of results, one page with a summary and the contents of all.
    """
    results = result if isinstance(result, list) and result else [result]
    return write_pages([carried_page(each) for each in results])


def carried_page(result: Any) -> Page:
    """The page that a plain result carries; without one, a general page of its numbers."""
    schema = result.get("schema") if isinstance(result, dict) else None
    if not isinstance(schema, str) or not schema.startswith("isorep."):
        raise InputError("this is not an isorep result: it names no isorep schema")
    if "page" in result:
        try:
            return page_from(result["page"])
        except InputError:
            return general_page(result, "the page that this file carries cannot be read: numbers are shown as they are")
    return general_page(result)


def write(result: Any, path: str | Path) -> None:
    """Write the page for a plain result, or for a list of them, completely or not at all."""
    write_text(path, render(result))


def write_page(page: Page) -> str:
    """The HTML of a page: styles, script and figures inside, nothing to fetch."""
    return _written([page], page.title)


def write_pages(pages: Sequence[Page]) -> str:
    """The HTML of several pages as one, with a summary and the contents of all; a single page stays as it is."""
    if len(pages) == 1:
        return write_page(pages[0])
    apart = [_apart(page, f"r{number}") for number, page in enumerate(pages, 1)]
    return _written(apart, f"{len(pages)} results · isorep")


def _written(pages: Sequence[Page], title: str) -> str:
    script, style = _asset("report.js"), _asset("report.css")
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assets = {"style": Markup(style), "script": Markup(script), "script_hash": script_hash}
    page = _environment().get_template("page.html")
    written = page.render(pages=pages, title=title, deep=int(len(pages) > 1), version=__version__, **assets)
    return visible(written, keep="\n\t")


def _first(parts: Sequence[Part], kind: str) -> Part | None:
    """The first part of a kind; any page may lack it."""
    return next((part for part in parts if type(part).__name__ == kind), None)


def _apart(part: Any, before: str) -> Any:
    """The same part with names that no other page has."""
    if isinstance(part, tuple):
        return tuple(_apart(each, before) for each in part)
    if isinstance(part, Page):
        opening, sections = (_apart(each, before) for each in (part.opening, part.sections))
        return replace(part, opening=opening, sections=sections, anchor=before)
    if isinstance(part, Section | Row):
        part = replace(part, parts=_apart(part.parts, before))
    if isinstance(part, Figure) and part.table is not None:
        part = replace(part, table=_apart(part.table, before))
    return (
        replace(part, name=f"{before}-{part.name}") if isinstance(part, Section | Figure | Table | CardGrid) else part
    )


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(FOLDER)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["marks"] = _marks
    made.filters["first"] = _first
    return made


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _marks(figure: Figure) -> Markup:
    """What hover and keys read: names and labels once, coordinates for each drawing; safe inside a script element."""
    first = figure.drawings[0]
    data: dict[str, Any] = {
        "names": [series.name for series in first.series],
        "labels": [series.labels for series in first.series],
        "at": [[_tenths(series.points) for series in drawing.series] for drawing in figure.drawings],
        "reach": [drawing.reach for drawing in figure.drawings],
    }
    keys = [series.key for series in first.series]
    if any(keys):
        data["keys"] = keys
    if figure.role in ("alignment", "residuals"):
        data |= figure.chart.behind(figure.drawings)  # type: ignore[union-attr]
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _tenths(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(round(x, 1), round(y, 1)) for x, y in points]


MOST_CAVEATS, MOST_ITEMS, MOST_ROWS, MOST_DEPTH = 200, 100, 1000, 3


def closing(result: Mapping[str, Any]) -> tuple[Section, ...]:
    """What every page ends with: caveats, settings, versions, citation."""
    caveats = result.get("caveats")
    said = tuple(map(str, caveats[:MOST_CAVEATS])) if isinstance(caveats, list) else ()
    sections = [Section("caveats", "Caveats", (Notes(said, warning=True),))] if said else []
    for name in ("settings", "versions"):
        terms = _terms(result.get(name))
        if terms:
            sections.append(Section(name, name.capitalize(), (Definitions(terms),)))
    cite = Prose(("Cite the software with its version, and the paper whose definitions it measures.",))
    bibtex = Quotation("Citations in BibTeX", BIBTEX.replace("VERSION", str(result.get("isorep", "unknown"))))
    return (*sections, Section("citation", "How to cite", (cite, bibtex)))


def page_of(
    result: ResultRecord,
    title: str,
    eyebrow: str,
    answer: Answer,
    tiles: Sequence[tuple[str, str, str]],
    sections: Sequence[Section | None],
    *,
    data: str = "",
    hero: Figure | None = None,
) -> Page:
    """A page as every result has it: the answer, a few numbers in large figures, its sections, and the end of all.

    ``data`` says what went in, with rows and columns; ``hero`` is the figure that shows the answer.
    """
    told = result.to_dict()
    shown = [Definitions(tuple(tiles), tiles=True)] if tiles else []
    opening = (answer, *((hero,) if hero else ()), *shown)
    kept = tuple(section for section in sections if section is not None and section.parts)
    provenance = (("data", data),) if data else ()
    provenance = (*provenance, ("isorep", str(told["isorep"])))
    return Page(f"{title} · isorep", eyebrow, opening, (*kept, *closing(told)), made_by(told), provenance)


def size(rows: int, columns: int) -> str:
    """Rows and columns, as provenance has them."""
    return f"{count(rows)} × {count(columns)}"


def sizes(each: Iterable[tuple[int, int]]) -> str:
    """Rows and columns of several matrices: from the least to the most."""
    rows, columns = (sorted(set(numbers)) for numbers in zip(*each, strict=True))
    told = (
        count(numbers[0]) + (f" to {count(numbers[-1])}" if len(numbers) > 1 else "") for numbers in (rows, columns)
    )
    return " × ".join(told)


def made_by(result: Mapping[str, Any]) -> str:
    """The foot of a page."""
    return (
        f"Made by isorep {result.get('isorep', 'of unknown version')} from a result of schema "
        f"{result.get('schema')}. The file is complete in itself and fetches nothing."
    )


def general_page(result: Mapping[str, Any], note: str = "") -> Page:
    """A page of any result without one of its own, such as those of older versions: its verdict and its numbers."""
    schema = str(result.get("schema"))
    told = result.get("verdict")
    sentence = told.get("sentence") if isinstance(told, dict) else told
    known = isinstance(sentence, str)
    answer = Answer(WITHOUT_PAGE, str(sentence) if known else "It names no verdict.", None)
    shown = {key: value for key, value in result.items() if key not in OWN_PLACE}
    singles = _terms({key: value for key, value in shown.items() if not isinstance(value, dict | list)})
    parts = [Section("numbers", "Numbers", (Definitions(singles),))] if singles else []
    for key, value in list(shown.items())[:MOST_ITEMS]:
        if isinstance(value, dict | list) and value:
            parts.append(Section(_anchor(key), _spaced(key).capitalize(), (_general(key, value),)))
    opening = (answer, *((Definitions((("note", note, ""),)),) if note else ()))
    title = f"{schema.partition('/')[0].removeprefix('isorep.')} · isorep"
    version = (("isorep", str(result.get("isorep", "of unknown version"))),)
    sections = (*parts, *closing(result))
    return Page(title, f"A result of schema {schema}", opening, sections, made_by(result), version)


WITHOUT_PAGE = "The verdict and the numbers of a result without its page."
OWN_PLACE = ("schema", "isorep", "verdict", "caveats", "settings", "versions", "page")


def _general(key: str, value: dict[str, Any] | list[Any]) -> Part:
    """Records of one kind as a table, anything else as terms with their values."""
    named = value if isinstance(value, dict) else dict(enumerate(value))
    records = [each for each in named.values() if isinstance(each, dict)]
    if not records or len(records) < len(named):
        return Definitions(_terms(value if isinstance(value, dict) else {_spaced(key): value}))
    flat = {str(name): _flat(each) for name, each in list(named.items())[:MOST_ROWS]}
    columns = list(dict.fromkeys(column for each in flat.values() for column in each))[:MOST_ITEMS]
    cells = tuple(
        (Cell(name), *(Cell(_plain(each[column])) if column in each else Cell(MISSING) for column in columns))
        for name, each in flat.items()
    )
    heads = (Column("", numeric=False), *(Column(_spaced(column)) for column in columns))
    return Table(_anchor(key), _spaced(key), heads, cells, folded=len(cells) > 30)


def _flat(record: Mapping[str, Any], before: str = "", depth: int = 1) -> dict[str, Any]:
    """Values by their path, a few levels down."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict) and depth < MOST_DEPTH:
            flat |= _flat(value, f"{before}{key}.", depth + 1)
        else:
            flat[f"{before}{key}"] = value
    return flat


def _terms(values: Any) -> tuple[tuple[str, str, str], ...]:
    given = _flat(values) if isinstance(values, dict) else {}
    return tuple((_spaced(key), _plain(value), "") for key, value in list(given.items())[:MOST_ITEMS])


def _spaced(key: Any) -> str:
    return str(key).replace("_", " ")


def _anchor(key: Any) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(key))[:60]


def _plain(value: Any, depth: int = 0) -> str:
    """A value in few words: numbers short, lists and objects cut."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return compact(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | dict):
        if depth > MOST_DEPTH:
            return "…"
        parts = [_plain(each, depth + 1) for each in (value if isinstance(value, list) else value.values())][:51]
        if isinstance(value, dict):
            parts = [f"{key}: {part}" for key, part in zip(value, parts, strict=False)]
        return ", ".join(parts[:50]) + (", …" if len(parts) > 50 else "") or "none"
    text = str(value)
    return text if len(text) <= 1000 else text[:999] + "…"


BIBTEX = """\
@software{isorep,
  author  = {{The isorep developers}},
  title   = {isorep: are two neural representations the same, and up to what?},
  version = {VERSION},
  year    = {2026}
}

@inproceedings{nelson2026statistical,
  author    = {Nelson, Walter and Fumero, Marco and
               Karaletsos, Theofanis and Locatello, Francesco},
  title     = {Statistical and structural identifiability in representation learning},
  booktitle = {International Conference on Learning Representations},
  year      = {2026}
}"""
