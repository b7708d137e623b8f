"""The page of a fit of independent components (schema ``isorep.ica/1``)."""

from __future__ import annotations

from .closing import closing, made_by
from .components import LARGEST, component_table, contrast_figure, kurtosis_figure, number_of
from .figures import Line, lines
from .parts import Cell, Column, Definitions, Figure, Page, Section, Table, Verdict
from .planes import planes_section
from .rungs import on_both
from .values import Node, compact, count, fixed

MOST_STEPS = 1000


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["name"].text("the data")
    sections = [
        _components(result),
        planes_section(result),
        _path(result),
        *closing(result),
    ]
    return Page(
        title=f"{name} · ICA · isorep",
        eyebrow=f"Independent components of {name}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def data_tiles(result: Node) -> list[tuple[str, str, str]]:
    """How large the data are, and how many components were found."""
    rows, columns, rank = (result[key].number() for key in ("rows", "columns", "rank"))
    found = number_of(result["components"])
    tiles = []
    if found:
        tiles.append(("components", count(found), "" if rank is None else f"rank of the data {count(rank)}"))
    if rows is not None:
        tiles.append(("rows", count(rows), "" if columns is None else f"{count(columns)} columns"))
    return tiles


def _opening(result: Node) -> tuple[Verdict | Definitions, ...]:
    flags = [node.raw is True for node in result["components"]["gaussian"].nodes()]
    settled = result["converged"].raw is True
    reached = None if any(flags) or not flags else settled
    if flags and all(flags):
        reached = False
    sweeps, seconds, memory = (result[key].number() for key in ("sweeps", "seconds", "peak_memory"))
    tiles = data_tiles(result)
    if sweeps is not None:
        tiles.append(("sweeps", count(sweeps), "the contrast settled" if settled else "the contrast had not settled"))
    if seconds is not None:
        used = "" if memory is None else f"at most {compact(memory / 1e9, 3)} GB of memory"
        tiles.append(("seconds", compact(seconds, 3), used))
    verdict = Verdict(result["reading"].text("This result holds no reading."), "", reached)
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _components(result: Node) -> Section | None:
    node = result["components"]
    parts = (contrast_figure(node), kurtosis_figure(node), component_table(node))
    kept = tuple(part for part in parts if part is not None)
    return Section("components", "Components", kept) if kept else None


def _path(result: Node) -> Section | None:
    points = [(x, y) for x, y in result["path"].points(MOST_STEPS) if max(abs(x), abs(y)) < LARGEST]
    if len(points) < 2:
        return None
    labels = tuple(f"after {fixed(x, 1)} sweeps: {compact(y, 5)}" for x, y in points)
    line = Line("contrast", "s2", tuple(points), labels)
    table = Table(
        "path",
        "The path in numbers",
        (Column("sweeps"), Column("contrast")),
        tuple((Cell(fixed(x, 2), x), Cell(compact(y, 6), y)) for x, y in points),
        folded=True,
    )
    figure = Figure(
        "path-figure",
        "Contrast reached",
        "The sum over components of the distance from Gaussian; a sweep is one pass over all rows and components. The "
        "search looks at some rows only, where chance shows more contrast, so the curve need not rise from the start.",
        f"From {compact(points[0][1])} to {compact(points[-1][1])} in {fixed(points[-1][0], 1)} sweeps.",
        on_both(lambda width: lines([line], ("sweeps", "contrast"), width, 260)),
        table=table,
    )
    return Section("path", "The way there", (figure,))
