"""Planes of two components: how firmly the data hold each, and which may turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup

from .figures import Drawing, Series, heatmap
from .figures.drawing import dots, group
from .parts import Cell, Column, Definitions, Figure, Heading, Key, Prose, Section, Table
from .rungs import on_both
from .values import MISSING, Node, compact, count, fixed

MOST_SIDE, MOST_CELLS, MOST_PLANES = 400, 48, 500
LARGEST = 560
"""The width of the heat map."""

Pair = tuple[int, int]


def planes_section(result: Node) -> Section | None:
    """The heat map of curvatures, the weak planes and the constants of the perturbation lemma."""
    pairs = _pairs(result["planes"])
    found = (
        curvature_figure(result["conditioning"], pairs, result["planes"]["weak"].whole() or len(pairs)),
        _table(result["planes"]),
        *_constants(result["constants"]),
    )
    parts = tuple(part for part in found if part is not None)
    return Section("planes", "Planes of two components", parts) if parts else None


def curvature_figure(node: Node, weak: list[Pair], total: int) -> Figure | None:
    """Second variation of the contrast in every plane, relative to the largest; weak planes are marked."""
    edges = _edges(node)
    values = [row.numbers(MOST_SIDE) for row in node["least"].nodes(MOST_SIDE)]
    if len(edges) != len(values) + 1 or len(values) < 2 or any(len(row) != len(values) for row in values):
        return None
    groups, pooled = _pooled(edges, values)
    known = [value for row in pooled for value in row if value is not None]
    largest = max((abs(value) for value in known), default=0.0)
    if largest <= 0:
        return None
    starts = [str(first) for first, _ in groups]
    names = [str(first) if last == first else f"{first}–{last}" for first, last in groups]
    cells = [(_place(groups, i), _place(groups, j)) for pair in weak for i, j in (pair, pair[::-1])]
    marked = {(i, j) for i, j in cells if i is not None and j is not None}
    shares = [[None if value is None else value / largest for value in row] for row in pooled]
    labels = [
        tuple(
            f"and {names[j]}: " + ("no plane" if value is None else compact(value, 3) + (", weak" * ((i, j) in marked)))
            for j, value in enumerate(row)
        )
        for i, row in enumerate(pooled)
    ]

    def draw(width: float) -> Drawing:
        made = heatmap(shares, starts, starts, ("component", "component"), min(width, LARGEST))
        spots = [made.series[i].points[j] for i, j in sorted(marked)]
        size = "medium" if made.reach > 7 else "small"
        series = tuple(
            Series(f"component{'s' if '–' in name else ''} {name}", each.points, said)
            for name, each, said in zip(names, made.series, labels, strict=True)
        )
        body = made.body + group([dots(spots, size)], class_="s2") if spots else made.body
        return replace(made, body=Markup(body), series=series)

    part = " Each cell holds the least of a block of components, named by the first." if len(groups) < edges[-1] else ""
    named = (
        f" The {count(len(weak))} least certain of {count(total)} weak planes are marked." if total > len(weak) else ""
    )
    return Figure(
        "planes-figure",
        "Curvature of each plane",
        "The second variation of the contrast when two components turn into each other, as a share of the largest, "
        f"{compact(largest, 3)}. Where it is faint they may turn; blue is a saddle.{part}{named}",
        f"Heat map of curvatures; the least is {compact(min(known), 3)}, and {count(total)} planes are weak.",
        on_both(draw),
        legend=(Key("dot", "s2", "weak: not beyond sampling error"),) if weak else (),
    )


def spans(n: int, most: int) -> list[Pair]:
    """At most so many stretches of about equal length that cover ``n`` places."""
    each = min(n, most)
    return list(pairwise(round(place * n / each) for place in range(each + 1)))


def _pooled(edges: list[int], values: list[list[float | None]]) -> tuple[list[Pair], list[list[float | None]]]:
    """At most so many blocks a side, each with its least value; the diagonal of single components is no plane."""
    side = len(values)
    cuts = spans(side, MOST_CELLS)
    single = edges[-1] == side
    groups = [(edges[a], edges[b] - 1) for a, b in cuts]
    pooled = []
    for a, b in cuts:
        row = []
        for c, d in cuts:
            inside = (values[i][j] for i in range(a, b) for j in range(c, d) if not single or i != j)
            row.append(min((value for value in inside if value is not None), default=None))
        pooled.append(row)
    return groups, pooled


def _edges(node: Node) -> list[int]:
    """Where blocks of components begin, and where the last ends; empty unless they rise from zero."""
    edges = [entry.whole() for entry in node["edges"].nodes(MOST_SIDE + 1)]
    found = [edge for edge in edges if edge is not None]
    rising = len(found) == len(edges) > 1 and found[0] == 0 and all(b > a for a, b in pairwise(found))
    return found if rising and found[-1] < 10**7 else []


def _place(groups: list[Pair], component: int) -> int | None:
    return next((place for place, (first, last) in enumerate(groups) if first <= component <= last), None)


def _pairs(node: Node) -> list[Pair]:
    found = [(entry["first"].whole(), entry["second"].whole()) for entry in node["shown"].nodes(MOST_PLANES)]
    return [(first, second) for first, second in found if first is not None and second is not None]


def _table(node: Node) -> Table | None:
    entries = node["shown"].nodes(MOST_PLANES)
    titles = {
        "curvature": "curvature",
        "error": "standard error",
        "expected": "expected angle",
        "observed": "observed angle",
    }
    keys = [key for key in titles if any(entry[key].number() is not None for entry in entries)]
    rows = []
    for entry in entries:
        first, second = entry["first"].whole(), entry["second"].whole()
        if first is None or second is None:
            continue
        numbers = [entry[key].number() for key in keys]
        rows.append((Cell(f"{first} and {second}"), *(Cell(fixed(number), number) for number in numbers)))
    if not rows:
        return None
    columns = (Column("components", numeric=False), *(Column(titles[key]) for key in keys))
    total = node["weak"].whole() or len(rows)
    some = f"the {count(len(rows))} least certain of {count(total)}" if total > len(rows) else "all"
    unit = ": angles in radians" if {"expected", "observed"} & set(keys) else ""
    return Table("weak-planes", f"Weak planes, {some}{unit}", columns, tuple(rows), folded=len(rows) > 12)


def _constants(node: Node) -> list[Heading | Prose | Definitions]:
    numbers = {key: node[key].number() for key in ("gamma", "C1", "C2", "B", "kappa")}
    if all(value is None for value in numbers.values()):
        return []
    exact = "least eigenvalue of the Hessian" if node["exact"].raw is True else "least curvature of a plane"
    words = {
        "gamma": ("γ", exact),
        "C1": ("C₁", "bound of the contrast's first derivative"),
        "C2": ("C₂", "bound of its second derivative"),
        "B": ("B", "largest norm of a whitened row"),
        "kappa": ("κ", "rows that move by ε move the rotation by at most κ ε"),
    }
    items = tuple(
        (words[key][0], compact(value) if value is not None else MISSING, words[key][1])
        for key, value in numbers.items()
    )
    said = "They are numerically huge: a diagnosis, never a promise." + (
        " The contrast bends the wrong way in some plane: the fit is at a saddle." if node["saddle"].raw is True else ""
    )
    return [Heading("Constants of the perturbation lemma"), Prose((said,)), Definitions(items)]
