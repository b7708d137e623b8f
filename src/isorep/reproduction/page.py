"""The page of a reproduced experiment (schema ``isorep.reproduction/1``): verdict, tables, figures, findings."""

from __future__ import annotations

from ..report.charts import chart_figure
from ..report.document import Answer, Cell, Column, Definitions, Notes, Page, Prose, Section, Table
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed

MOST_TABLES, MOST_ROWS, MOST_COLUMNS, MOST_CHARTS, MOST_FINDINGS, MOST_UNITS = 12, 500, 16, 24, 100, 2000


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    title = result["title"].text("An experiment")
    scale = result["scale"].text("unknown")
    sections = [_tables(result), _figures(result), _findings(result), _units(result), *closing(result.raw)]
    return Page(
        title=f"{title} · reproduction · isorep",
        eyebrow=f"{title}, {scale} scale",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition(". ")
    reached = result["verdict"]["reached"].raw
    verdict = Answer(f"{head}." if stop else head, rest, reached if isinstance(reached, bool) else None)
    tiles = []
    seconds, seed = result["seconds"]["total"].number(), result["settings"]["seed"].whole()
    units = len(result["units"].items())
    if seconds is not None:
        tiles.append(("run time", f"{compact(seconds / 60, 3)} min", f"{count(units)} units of work"))
    if seed is not None:
        tiles.append(("seed", str(seed), f"{result['scale'].text('unknown')} scale"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _tables(result: Node) -> Section | None:
    parts = [part for node in result["tables"].nodes(MOST_TABLES) for part in _table(node)]
    paper = result["paper"].text()
    opening = (Prose((f"Published: {paper}",)),) if paper else ()
    return Section("tables", "Obtained beside published", (*opening, *parts)) if parts else None


def _table(node: Node) -> list[Table]:
    """Published rows under obtained ones: side by side they would not fit a page."""
    names = [each.text() for each in node["columns"].nodes(MOST_COLUMNS)]
    found = node["rows"].nodes(MOST_ROWS)
    if not names or not found:
        return []
    rows = []
    for row in found:
        name = row["name"].text(MISSING)
        if row["values"]:
            rows.append((Cell(name), *_obtained(row, len(names))))
        if row["published"]:
            rows.append((Cell(f"{name}, published", strong=True), *_published(row, len(names))))
    said = [node["title"].text("A table"), node["direction"].text()]
    if any(row["published"] for row in found):
        said.append(f"published: {node['source'].text('source unknown')}")
    columns = (Column("", numeric=False), *(Column(name) for name in names))
    return [Table(_anchor(node), "; ".join(filter(None, said)), columns, tuple(rows))] if rows else []


def _obtained(row: Node, width: int) -> list[Cell]:
    values, errors = _padded(row["values"], width), _padded(row["errors"], width)
    return [
        Cell(fixed(value, 3) + ("" if value is None or error is None else f" ± {fixed(error, 3)}"), value)
        for value, error in zip(values, errors, strict=True)
    ]


def _published(row: Node, width: int) -> list[Cell]:
    return [Cell(fixed(value, 3), value, strong=True) for value in _padded(row["published"], width)]


def _padded(node: Node, width: int) -> list[float | None]:
    return [*node.numbers(width), *[None] * width][:width]


def _figures(result: Node) -> Section | None:
    drawn = tuple(
        figure for figure in (chart_figure(node) for node in result["charts"].nodes(MOST_CHARTS)) if figure is not None
    )
    return Section("figures", "Figures", drawn) if drawn else None


def _findings(result: Node) -> Section | None:
    said = tuple(node.text() for node in result["findings"].nodes(MOST_FINDINGS) if node.text())
    return Section("findings", "What was found", (Notes(said),)) if said else None


def _units(result: Node) -> Section | None:
    rows = tuple(
        (Cell(key), Cell(fixed(node.number(), 1), node.number()))
        for key, node in result["seconds"]["units"].items()[:MOST_UNITS]
    )
    if not rows:
        return None
    table = Table("unit-times", "Seconds of every unit", (Column("unit", numeric=False), Column("seconds")), rows, True)
    return Section("units", "Units of work", (table,))


def _anchor(node: Node) -> str:
    text = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in node["name"].text("table"))
    return f"{text[:60]}-table"
