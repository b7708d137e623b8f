"""The page of two networks layer by layer: errors, the rest's constants, every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..report.document import Answer, Cell, Figure, Forms, Page, Prose, Section, Table
from ..report.figures import Line, Lines
from ..report.page import page_of, sizes
from ..report.read import compact, count, fixed, percent
from .bound import VIOLATED
from .ends import NOT_DETERMINED
from .layers_result import NOT_COVERED, SOURCES, Layer, LayerGeometry
from .page import number, short
from .pair_page import bounds_headline

LONGEST = 16  # letters of a layer's name on an axis
NO_END = "not determined by the outputs"
LARGE = 1e12  # constants beyond are not drawn
ERRORS = {
    "held_out": ("rigid", "s2"),
    "scaled": ("rigid with scale", "s4"),
    "linear": ("linear", "s3"),
    "null": ("shuffled rows", "s1"),
}
TITLES: Forms = {
    "layer": str,
    "kind": str,
    "width": count,
    "directions seen": str,
    **dict.fromkeys(("constant", "seen, up to scale"), number),
    **dict.fromkeys(("rigid", "with scale", "linear", "shuffled", "rigid, seen part", "rms in sample"), fixed),
    "rms bound": str,
    "of it outputs": fixed,
    **dict.fromkeys(("answer", "Theorem 1"), str),
}
MAPPED = "Each layer of one network is mapped onto that of the other: rigidly without a scale, with one, and linearly."
BOUND = (
    "The bound is on the root mean square in sample, without a scale. It has a term for ends that differ. Where the "
    "error exceeds it, it is violated: one of its assumptions fails. It is not determined where nothing ties the ends, "
    "and not covered where paths lead past the layer."
)
REST = "The rest of the network after a layer is its decoder. Constants are over the directions of the layer it sees."


def page(result: LayerGeometry) -> Page:
    """All of it, most important first."""
    first, second = result.names
    return page_of(
        result,
        f"{first} and {second} layer by layer",
        f"Layers of {first} and {second}",
        Answer(bounds_headline(bool(result.violated)), result.sentence, False if result.violated else None),
        _tiles(result),
        (
            Section("errors", "Errors", (Prose((MAPPED,)), _error_figure(result))),
            _constants(result),
            Section("layers", "Every layer", (Prose((BOUND,)), *_violations(result), layer_table(result))),
            _assumptions(result),
        ),
        data=" and ".join(
            f"{name} {sizes((result.rows, layer.widths[side]) for layer in result.layers)}"
            for side, name in enumerate(result.names)
        ),
    )


def _tiles(result: LayerGeometry) -> list[tuple[str, str, str]]:
    tiles = [
        ("layers", count(len(result.layers)), f"split up to {result.to}"),
        ("rows", count(result.rows), f"Jacobians at {count(result.samples)}"),
    ]
    if result.mismatch is not None:
        ends = "outputs" if result.to == "output" else "ends"
        tiles.append((f"{ends} differ by", percent(result.mismatch), "of their spread, root mean square"))
    if result.to != "output":
        told = f"{short(result.end.smallest)} to {short(result.end.largest)}" if result.end.determined else "open"
        tiles.append(("between the ends", told, "stretch of the linear map" if result.end.determined else NO_END))
    if result.spearman is not None:
        tiles.append(("rank correlation", fixed(result.spearman, 2), "constant against rigid error, over layers"))
    return tiles


def _error_figure(result: LayerGeometry) -> Figure:
    drawn = tuple(
        line
        for key, (name, colour) in ERRORS.items()
        if (line := _line(name, colour, result, [_mean(layer, key) for layer in result.layers])).points
    )
    top = max(y for line in drawn for _, y in line.points)
    axes = ("layer", "mean error, diameters of the second")
    return Figure(
        "layer-errors-figure",
        "How near the layers are",
        "Held out. Shuffled rows tell what chance leaves to a rigid motion with one scale.",
        "",
        Lines(drawn, axes, 300, y_range=(0.0, 1.05 * top or 1.0), ticks=_ticks(result)),
    )


def _mean(layer: Layer, key: str) -> float | None:
    error = getattr(layer, key)
    return None if error is None else error.mean


def _constants(result: LayerGeometry) -> Section | None:
    lines = []
    for side, colour in enumerate(("s0", "s2")):
        constants = [layer.rests[side].similarity_constant for layer in result.layers]
        lines.append(_line(result.names[side], colour, result, constants))
    drawn = tuple(line for line in lines if line.points)
    if not drawn:
        return None
    top = max(2.0, *(y for line in drawn for _, y in line.points))
    axes = ("layer", "constant, up to scale")
    figure = Figure(
        "layer-constants-figure",
        "How rigid the rest is",
        "The largest constant over the sample, after the best global scale; 1 is an isometry.",
        "",
        Lines(drawn, axes, 260, y_range=(1.0, top), log=True, ticks=_ticks(result)),
    )
    return Section("constants", "The rest of the network", (Prose((REST,)), figure))


def _violations(result: LayerGeometry) -> tuple[Prose, ...]:
    said = [f"Violated at {name}, {SOURCES[each.source]}: {each.why}" for name, each in result.violations]
    return (Prose(tuple(dict.fromkeys(said))),) if said else ()


def _assumptions(result: LayerGeometry) -> Section | None:
    """What bounds that say something rest on, with what was seen."""
    rows = [
        (layer.name, each.text, Cell(each.status, strong=each.status == VIOLATED), each.evidence)
        for layer in result.layers
        for each in layer.assumptions
    ]
    columns: Forms = dict.fromkeys(("layer", "assumption", "status", "evidence"), str)
    table = Table.of("assumptions", "What bounds that say something rest on", columns, rows)
    return Section("assumptions", "Assumptions", (table,)) if rows else None


def layer_table(result: LayerGeometry) -> Table:
    """Every layer with its constants, errors and bound."""
    return Table.of("layers", "Layer by layer", TITLES, map(_row, result.layers))


def _row(layer: Layer) -> tuple[Any, ...]:
    least, union = min(rest.rank for rest in layer.rests), max(rest.union for rest in layer.rests)
    errors = [*(_mean(layer, key) for key in ERRORS), None if layer.seen is None else layer.seen.held_out.mean]
    applies = layer.answer not in (NOT_COVERED, NOT_DETERMINED)
    bound = Cell(layer.bound.cell, layer.bound.value) if applies else Cell(layer.answer)
    return (
        layer.name,
        layer.kind,
        max(layer.widths),
        Cell(f"{count(least)} to {count(union)}", least),
        layer.constant,
        layer.similarity_constant,
        *errors,
        layer.in_sample.rms,
        bound,
        layer.term,
        Cell(layer.answer, strong=layer.answer == VIOLATED),
        layer.reading,
    )


def _line(name: str, colour: str, result: LayerGeometry, values: Sequence[float | None]) -> Line:
    """A value for each layer that has one to draw."""
    drawn = [(index, value) for index, value in enumerate(values) if value is not None and value <= LARGE]
    labels = tuple(f"{result.layers[index].name} {compact(value)}" for index, value in drawn)
    return Line(name, colour, tuple((float(index), value) for index, value in drawn), labels)


def _ticks(result: LayerGeometry) -> tuple[tuple[float, str], ...]:
    return tuple((float(index), layer.name[:LONGEST]) for index, layer in enumerate(result.layers))
