"""From a plain result to a page: the schema picks the assembler, the templates write its parts.

How every page ends: caveats, settings, versions, citation, and who made it.
"""

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
from .document import Definitions, Figure, Notes, Page, Prose, Quotation, Section
from .read import Node

ASSEMBLERS = {
    "isorep.compare/2": "comparison.page:assemble",
    "isorep.compare_many/2": "comparison.many_page:assemble",
    "isorep.ica/1": "ica.page:assemble",
    "isorep.stability/1": "ica.page:assemble_stability",
    "isorep.similarity/1": "similarity.page:assemble",
    "isorep.layers/1": "similarity.page:assemble_layers",
    "isorep.translate/2": "translation.page:assemble",
    "isorep.deconfound/1": "deconfounding.page:assemble",
    "isorep.disentangle/1": "disentangling.page:assemble",
    "isorep.extract/1": "extraction.page:assemble",
    "isorep.structure/1": "structure.page:assemble",
    "isorep.decoder/1": "decoder.page:assemble",
    "isorep.decoder_pair/1": "decoder.pair_page:assemble",
    "isorep.decoder_layers/1": "decoder.layers_page:assemble",
    "isorep.mechanisms/1": "decoder.mechanism.page:assemble",
    "isorep.heads/1": "heads.page:assemble",
    "isorep.reproduction/1": "reproduction.page:assemble",
}
"""The function that assembles each schema, ``(Node) -> Page``, in the room whose result it is."""

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
    home, _, function = ASSEMBLERS[schema].partition(":")
    return getattr(import_module(f"..{home}", __package__), function)


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


MOST_CAVEATS = 200


def closing(result: Node) -> list[Section | None]:
    """What every page ends with: caveats, settings, versions, citation."""
    said = tuple(node.text() for node in result["caveats"].nodes(MOST_CAVEATS) if node.text())
    versions = tuple((package, node.text(), "") for package, node in result["versions"].items()[:50] if node.text())
    return [
        Section("caveats", "Caveats", (Notes(said),)) if said else None,
        settings(result),
        Section("versions", "Versions", (Definitions(versions),)) if versions else None,
        citation(result),
    ]


def made_by(result: Node) -> str:
    """The foot of a page."""
    return (
        f"Made by isorep {result['isorep'].text('of unknown version')} from a result of schema "
        f"{result['schema'].text()}. The file is complete in itself and fetches nothing."
    )


def settings(result: Node) -> Section | None:
    """What the result was asked for."""
    items = tuple((key.replace("_", " "), _plain(node), "") for key, node in result["settings"].items()[:100])
    return Section("settings", "Settings", (Definitions(items),)) if items else None


def citation(result: Node) -> Section:
    """What to cite."""
    version = result["isorep"].text("unknown")
    return Section(
        "citation",
        "How to cite",
        (
            Prose(("Cite the software with its version, and the paper whose definitions it measures.",)),
            Quotation("Citations in BibTeX", BIBTEX.replace("VERSION", version)),
        ),
    )


def _plain(node: Node) -> str:
    if isinstance(node.raw, list):
        return ", ".join(_plain(item) for item in node.nodes(50)) or "none"
    if isinstance(node.raw, dict):
        return ", ".join(f"{key}: {_plain(value)}" for key, value in node.items()[:50]) or "none"
    if isinstance(node.raw, bool):
        return "yes" if node.raw else "no"
    return node.text("none")


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
