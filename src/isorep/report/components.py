"""Components one by one: how far each is from Gaussian, how often it comes back, and everything in a table."""

from __future__ import annotations

import math
from collections.abc import Callable

from .figures import Line, lines
from .parts import Cell, Column, Figure, Key, Table
from .rungs import on_both
from .values import MISSING, Node, compact, count, fixed, percent, present

MOST = 10_000
LARGEST, LEAST = 1e12, 1e-30
OPEN = 40
"""So many rows are shown without being asked for."""

NUMBERS = {
    "scores": ("score", 3),
    "recurrence": ("recurrence", 2),
    "quality": ("quality", 3),
    "contrast": ("contrast", 4),
    "kurtosis": ("kurtosis", 2),
    "skewness": ("skewness", 2),
    "uncertainty": ("uncertainty", 3),
    "expected": ("expected", 3),
    "observed": ("observed", 3),
}
KINDS = {"": ("s2", "differs from Gaussian"), "unsettled": ("s4", "unsettled"), "Gaussian": ("s1", "near-Gaussian")}


def number_of(node: Node) -> int:
    """How many components the result tells about."""
    return max((len(node[key].nodes(MOST)) for key in (*NUMBERS, "gaussian")), default=0)


def column(node: Node, key: str) -> list[float | None]:
    """One number a component; empty where there are too few or too many. What no fit can have found is missing."""
    values = [value if value is None or abs(value) < LARGEST else None for value in node[key].numbers(MOST)]
    return values if len(values) == number_of(node) else []


def contrast_figure(node: Node) -> Figure | None:
    """How far components are from Gaussian, in their order."""
    sizes = [None if value is None else abs(value) for value in column(node, "contrast")]
    positive = [value for _, value in _above(sizes)]
    if not positive:
        return None
    low, high = max(min(positive), 1e-6 * max(positive)), max(positive)
    drawn = _by_kind(
        node, [value if value and value > LEAST else None for value in sizes], lambda value: compact(value, 3)
    )
    axes = ("component", "distance of the contrast from a Gaussian's")
    return Figure(
        "contrast-figure",
        "How far from Gaussian",
        "Components are in this order. Where the curve meets what Gaussian noise shows, directions are not determined.",
        f"Distances from Gaussian of {count(len(sizes))} components, from {compact(high, 3)} to {compact(low, 3)}.",
        on_both(lambda width: lines(drawn, axes, width, 260, y_range=_decades(low, high), log=True)),
        legend=_legend(drawn),
    )


def kurtosis_figure(node: Node) -> Figure | None:
    """Excess kurtosis of every component; a few very large ones are drawn at the edge."""
    values = column(node, "kurtosis")
    known = sorted(present(*values))
    if not known:
        return None
    usual = known[int(0.9 * (len(known) - 1))]
    high = known[-1] if known[-1] <= 6 * max(usual, 1.0) else 3 * max(usual, 1.0)
    beyond = sum(1 for value in known if value > high)
    cut = f" Those above {compact(high, 3)} ({beyond}) are drawn at the edge." if beyond else ""
    low, high = min(known[0], 0.0), max(high, 0.5)
    room = 0.05 * (high - low)
    drawn = _by_kind(node, values, lambda value: fixed(value, 2))
    above = sum(1 for value in known if value > 0)
    return Figure(
        "kurtosis-figure",
        "Excess kurtosis",
        f"Above zero, heavy tails and a sharp peak; below, flat or two-peaked. A Gaussian has zero.{cut}",
        f"Excess kurtosis of {count(len(values))} components, {above} of them above zero; from {fixed(known[0], 2)} to "
        f"{fixed(known[-1], 2)}.",
        on_both(
            lambda width: lines(drawn, ("component", "excess kurtosis"), width, 260, y_range=(low - room, high + room))
        ),
        legend=_legend(drawn),
    )


def score_figure(node: Node) -> Figure | None:
    """The score of every component."""
    values = column(node, "scores")
    known = present(*values)
    if not known:
        return None
    shares = column(node, "recurrence")
    drawn = _by_kind(
        node,
        values,
        lambda value: fixed(value, 3),
        [f", found in {percent(share)} of refits" if share is not None else "" for share in shares],
    )
    low = max(0.0, min(0.8, *known) - 0.05)
    well = sum(1 for value in known if value > 0.9)
    return Figure(
        "score-figure",
        "Score of each component",
        "The median over refits of the correlation with the component matched to it. One is found again as it was.",
        f"{well} of {count(len(known))} components have a score above 0.9; the least is {fixed(min(known), 3)}.",
        on_both(lambda width: lines(drawn, ("component", "score"), width, 260, y_range=(low, 1.0))),
        legend=_legend(drawn),
    )


def angle_figure(node: Node) -> Figure | None:
    """How far directions strayed, beside what sampling allows."""
    found = [
        ("s2", "observed in refits", _above(column(node, "observed"))),
        ("s1", "expected from sampling", _above(column(node, "expected"))),
    ]
    drawn = [
        Line(
            words,
            series,
            tuple((float(place), value) for place, value in values),
            tuple(f"component {place}: {fixed(value, 3)}" for place, value in values),
            dotted=True,
        )
        for series, words, values in found
    ]
    drawn = [line for line in drawn if line.points]
    if len(drawn) < 2:
        return None
    every = [y for line in drawn for _, y in line.points]
    low = max(min(every), 1e-4 * max(every))
    return Figure(
        "angle-figure",
        "How far directions stray",
        "Observed angles well above what sampling allows point to a poor optimum, to dependent rows or to components "
        "that turn into each other.",
        f"Angles of {count(len(drawn[0].points))} components in radians, from {compact(min(every), 2)} to "
        f"{compact(max(every), 2)}.",
        on_both(
            lambda width: lines(
                drawn, ("component", "angle, radians"), width, 260, y_range=_decades(low, max(every)), log=True
            )
        ),
        legend=tuple(Key("dot", line.series, line.name) for line in drawn),
    )


def component_table(node: Node) -> Table | None:
    """Everything about every component; beside scores, not what the angles say as well."""
    keys = [key for key in NUMBERS if not node["scores"] or key not in ("contrast", "skewness", "uncertainty")]
    found = [(key, column(node, key)) for key in keys]
    found = [(key, values) for key, values in found if values]
    if not found:
        return None
    kinds = kinds_of(node)
    back = [entry.raw is True for entry in node["comes_back"].nodes(MOST)]
    marked = back if len(back) == len(kinds) else [False] * len(kinds)
    columns = (
        Column("component", numeric=False),
        *(Column(NUMBERS[key][0]) for key, _ in found),
        Column("remark", numeric=False),
    )
    rows = tuple(
        (
            Cell(str(place), strong=marked[place] and not all(marked)),
            *(Cell(fixed(values[place], NUMBERS[key][1]), values[place]) for key, values in found),
            Cell(kinds[place] or MISSING),
        )
        for place in range(len(kinds))
    )
    title = "Every component" + ("; angles expected and observed in radians" if node["observed"] else "")
    return Table("components", title, columns, rows, folded=len(rows) > OPEN)


def kinds_of(node: Node) -> list[str]:
    """What is said about each component: nothing, that it is unsettled, or Gaussian."""
    k = number_of(node)
    kinds = [""] * k
    for key, word in (("unsettled", "unsettled"), ("gaussian", "Gaussian")):
        for place, entry in enumerate(node[key].nodes(k)):
            if entry.raw is True:
                kinds[place] = word
    return kinds


def _by_kind(
    node: Node, values: list[float | None], spell: Callable[[float], str], extra: list[str] | None = None
) -> list[Line]:
    """One series of dots for each kind of component."""
    kinds = kinds_of(node)
    drawn = []
    for kind, (series, words) in KINDS.items():
        found = [(place, value) for place, value in enumerate(values) if value is not None and kinds[place] == kind]
        if found:
            points = tuple((float(place), value) for place, value in found)
            labels = tuple(
                f"component {place}: {spell(value)}{extra[place] if extra else ''}" for place, value in found
            )
            drawn.append(Line(words, series, points, labels, dotted=True))
    return drawn


def _above(values: list[float | None]) -> list[tuple[int, float]]:
    """Values that have a logarithm, with their places."""
    return [(place, value) for place, value in enumerate(values) if value is not None and value > LEAST]


def _decades(low: float, high: float) -> tuple[float, float]:
    """The powers of ten around a range."""
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


def _legend(drawn: list[Line]) -> tuple[Key, ...]:
    return tuple(Key("dot", line.series, line.name) for line in drawn)
