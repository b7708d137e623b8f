"""The page of two networks layer by layer (schema ``isorep.decoder_layers/1``)."""

from __future__ import annotations

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Section, Table
from ..report.figures import Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, percent

MOST, LONGEST = 200, 16
LARGE = 1e12
ERRORS = (
    ("held_out", "rigid", "s2"),
    ("scaled", "rigid with scale", "s4"),
    ("linear", "linear", "s3"),
    ("null", "shuffled rows", "s1"),
)


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    first, second = ([node.text() for node in result["names"].nodes(2)] + ["first", "second"])[:2]
    sections = [_errors(result), _constants(result), _table(result), *closing(result.raw)]
    return Page(
        title=f"{first} and {second} layer by layer · isorep",
        eyebrow=f"Layers of {first} and {second}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["sentence"].text("This result holds no reading.").partition(". ")
    verdict = Answer(f"{head}." if stop else head, rest, None)
    tiles = []
    for title, value, note in (
        ("layers", count(float(len(_layers(result)))), f"split up to {result['to'].text('the output')}"),
        ("rows", count(result["rows"].number()), f"Jacobians at {count(result['samples'].number())}"),
        ("outputs differ by", percent(result["mismatch"].number()), "of their spread, root mean square"),
        ("rank correlation", fixed(result["spearman"].number(), 2), "constant against rigid error, over layers"),
    ):
        if value != MISSING:
            tiles.append((title, value, note))
    return (verdict, Definitions(tuple(tiles), tiles=True))


def _errors(result: Node) -> Section | None:
    series = []
    for key, name, colour in ERRORS:
        points = _points(result, (key, "mean"), 0.0, 100.0)
        series.append(_line(name, colour, points, result))
    drawn = [line for line in series if line.points]
    if not drawn:
        return None
    top = max(y for line in drawn for _, y in line.points)
    axes = ("layer", "mean error, diameters of the second")
    figure = Figure(
        "layer-errors-figure",
        "How near the layers are",
        "Held out. Shuffled rows tell what chance leaves to a rigid motion with one scale.",
        "; ".join(f"{line.name}: {', '.join(line.labels)}" for line in drawn),
        Lines(tuple(drawn), axes, 300, y_range=(0.0, 1.05 * top or 1.0), ticks=_ticks(result)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )
    said = (
        "Each layer of one network is mapped onto the same layer of the other: rigidly without a scale, as Theorem 1 "
        "has it, with one scale, and linearly."
    )
    return Section("errors", "Errors", (Prose((said,)), figure))


def _constants(result: Node) -> Section | None:
    names = ([node.text() for node in result["names"].nodes(2)] + ["first", "second"])[:2]
    drawn = []
    for place, (name, colour) in enumerate(zip(names, ("s0", "s2"), strict=True)):
        points = _points(result, ("rests", place, "similarity_constant"), 1.0, LARGE)
        if points:
            drawn.append(_line(name, colour, points, result))
    if not drawn:
        return None
    top = max(y for line in drawn for _, y in line.points)
    axes = ("layer", "constant, up to scale")
    figure = Figure(
        "layer-constants-figure",
        "How rigid the rest is",
        "The largest constant over the sample, over the directions that the rest sees, after the best global scale; 1 "
        "is an isometry.",
        "; ".join(f"{line.name}: {', '.join(line.labels)}" for line in drawn),
        Lines(tuple(drawn), axes, 260, y_range=(1.0, max(2.0, top)), log=True, ticks=_ticks(result)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )
    said = (
        "The rest of the network after a layer is its decoder. Where it narrows, it loses directions of the layer: the "
        "constant is then infinite, and the one over the directions it sees is drawn."
    )
    return Section("constants", "The rest of the network", (Prose((said,)), figure))


def _table(result: Node) -> Section | None:
    rows = []
    for node in _layers(result):
        rests = node["rests"].nodes(2)
        least = min((value for value in (rest["rank"].number() for rest in rests) if value is not None), default=None)
        union = max((value for value in (rest["union"].number() for rest in rests) if value is not None), default=None)
        width = max(node["widths"].numbers(2), key=lambda value: value or 0.0, default=None)
        constant = "infinite" if node["infinite"].raw is True else compact(node["constant"].number())
        bound = node["bound"]
        allowed = "infinite" if bound["infinite"].raw is True else fixed(bound["value"].number())
        seen = node["seen"]["held_out"]["mean"].number()
        rows.append(
            (
                Cell(node["name"].text("?")),
                Cell(node["kind"].text()),
                Cell(count(width), width),
                Cell(f"{count(least)} to {count(union)}", least),
                Cell(constant, node["constant"].number()),
                Cell(compact(node["similarity_constant"].number()), node["similarity_constant"].number()),
                *(Cell(fixed(node[key]["mean"].number()), node[key]["mean"].number()) for key, _, _ in ERRORS),
                Cell(fixed(seen), seen),
                Cell(f"{allowed} (vacuous)" if bound["vacuous"].raw is True else allowed, bound["value"].number()),
                Cell(node["reading"].text()),
            )
        )
    if not rows:
        return None
    titles = (
        "layer",
        "kind",
        "width",
        "directions seen",
        "constant",
        "seen, up to scale",
        "rigid",
        "with scale",
        "linear",
        "shuffled",
        "rigid, seen part",
        "RMS bound",
        "Theorem 1",
    )
    text = ("layer", "kind", "directions seen", "RMS bound", "Theorem 1")
    columns = tuple(Column(title, numeric=title not in text) for title in titles)
    return Section("layers", "Every layer", (Table("layers", "Layer by layer", columns, tuple(rows)),))


def _layers(result: Node) -> list[Node]:
    return result["layers"].nodes(MOST)


def _points(result: Node, path: tuple[str | int, ...], low: float, high: float) -> list[tuple[int, float]]:
    """Where the layers have a number between two ends: place and number."""
    found = []
    for place, node in enumerate(_layers(result)):
        for step in path:
            node = node[step] if isinstance(step, str) else (node.nodes(step + 1)[step:] or [Node(None)])[0]
        value = node.number()
        if value is not None and low <= value <= high:
            found.append((place, value))
    return found


def _line(name: str, colour: str, points: list[tuple[int, float]], result: Node) -> Line:
    named = [node["name"].text("?") for node in _layers(result)]
    labels = tuple(f"{named[place]} {compact(value)}" for place, value in points)
    return Line(name, colour, tuple((float(place), value) for place, value in points), labels)


def _ticks(result: Node) -> tuple[tuple[float, str], ...]:
    return tuple((float(place), node["name"].text("?")[:LONGEST]) for place, node in enumerate(_layers(result)))
