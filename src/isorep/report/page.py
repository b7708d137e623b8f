"""From a plain result to a page: the schema picks the assembler, the templates write its parts."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .._version import __version__
from ..errors import InputError
from ..files import write_text
from .parts import Figure, Page
from .values import Node

ASSEMBLERS = {
    "isorep.compare/2": "compare",
    "isorep.compare_many/2": "compare_many",
    "isorep.ica/1": "ica",
    "isorep.stability/1": "stability",
    "isorep.similarity/1": "similarity",
    "isorep.layers/1": "layers",
    "isorep.translate/2": "translate",
    "isorep.deconfound/1": "deconfound",
    "isorep.disentangle/1": "disentangle",
    "isorep.extract/1": "extract",
    "isorep.structure/1": "structure",
    "isorep.decoder/1": "decoder",
    "isorep.decoder_pair/1": "decoder_pair",
    "isorep.decoder_layers/1": "decoder_layers",
    "isorep.mechanisms/1": "mechanisms",
    "isorep.heads/1": "heads",
    "isorep.reproduction/1": "reproduction",
}
"""The module of this room that assembles each schema: its ``assemble(Node) -> Page``."""

FOLDER = Path(__file__).parent / "templates"


def render(result: Any) -> str:
    """The page for a plain result, as parsed from JSON."""
    return write_page(_assembler(result)(Node(result)))


def write(result: Any, path: str | Path) -> None:
    """Write the page for a plain result, completely or not at all."""
    write_text(path, render(result))


def write_page(page: Page) -> str:
    """The HTML of a page: styles, script and figures inside, nothing to fetch."""
    script, style = _asset("report.js"), _asset("report.css")
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            version=__version__,
            style=Markup(style),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def _assembler(result: Any) -> Any:
    schema = result.get("schema") if isinstance(result, dict) else None
    if not isinstance(schema, str) or not schema.startswith("isorep."):
        raise InputError("this is not an isorep result: it names no isorep schema")
    if schema not in ASSEMBLERS:
        known = ", ".join(ASSEMBLERS)
        raise InputError(f"this isorep ({__version__}) has no report for the schema {schema[:80]!r}: it knows {known}")
    return import_module(f".{ASSEMBLERS[schema]}", __package__).assemble


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["marks"] = _marks
    return made


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _marks(figure: Figure) -> Markup:
    """What hover and keys read: names and labels once, coordinates for each drawing; safe inside a script element."""
    first = figure.drawings[0]
    data = {
        "names": [series.name for series in first.series],
        "labels": [series.labels for series in first.series],
        "at": [[[_tenths(point) for point in s.points] for s in drawing.series] for drawing in figure.drawings],
        "reach": [drawing.reach for drawing in figure.drawings],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _tenths(point: tuple[float, float]) -> tuple[float, float]:
    return round(point[0], 1), round(point[1], 1)
