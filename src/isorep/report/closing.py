"""How every page ends: caveats, settings, versions, citation, and who made it."""

from __future__ import annotations

from .parts import Definitions, Notes, Prose, Quotation, Section
from .values import Node

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
