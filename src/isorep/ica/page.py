"""Components one by one: how far each is from Gaussian, how often it comes back, and everything in a table.

The page of a fit of independent components (schema ``isorep.ica/1``).

Planes of two components: how firmly the data hold each, and which may turn.

The page that says which components come back (schema ``isorep.stability/1``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from ..report.document import Answer, Cell, Column, Definitions, Figure, Heading, Page, Prose, Section, Table
from ..report.figures import Heatmap, Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, percent, present

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
        Lines(tuple(drawn), axes, 260, y_range=_decades(low, high), log=True),
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
        Lines(tuple(drawn), ("component", "excess kurtosis"), 260, y_range=(low - room, high + room)),
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
        Lines(tuple(drawn), ("component", "score"), 260, y_range=(low, 1.0)),
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
        Lines(tuple(drawn), ("component", "angle, radians"), 260, y_range=_decades(low, max(every)), log=True),
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


MOST_STEPS = 1000


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["name"].text("the data")
    sections = [
        _components(result),
        planes_section(result),
        _path(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{name} · ICA · isorep",
        eyebrow=f"Independent components of {name}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
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


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
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
    verdict = Answer(result["reading"].text("This result holds no reading."), "", reached)
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
        Lines((line,), ("sweeps", "contrast"), 260),
        table=table,
    )
    return Section("path", "The way there", (figure,))


MOST_SIDE, MOST_PLANE_CELLS, MOST_PLANES = 400, 48, 500
LARGEST_FIGURE = 560
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
        Heatmap(
            tuple(map(tuple, shares)),
            tuple(names),
            tuple(starts),
            ("component", "component"),
            widest=LARGEST_FIGURE,
            marked=tuple(sorted(marked)),
            labels=tuple(labels),
        ),
        legend=(Key("dot", "s2", "weak: not beyond sampling error"),) if weak else (),
    )


def spans(n: int, most: int) -> list[Pair]:
    """At most so many stretches of about equal length that cover ``n`` places."""
    each = min(n, most)
    return list(pairwise(round(place * n / each) for place in range(each + 1)))


def _pooled(edges: list[int], values: list[list[float | None]]) -> tuple[list[Pair], list[list[float | None]]]:
    """At most so many blocks a side, each with its least value; the diagonal of single components is no plane."""
    side = len(values)
    cuts = spans(side, MOST_PLANE_CELLS)
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


MOST_REFITS, MOST_CELLS = 40, 96


def assemble_stability(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["name"].text("the data")
    sections = [
        _stability_components(result),
        _refits(result),
        planes_section(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{name} · stability · isorep",
        eyebrow=f"Which independent components of {name} come back",
        opening=_stability_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _stability_opening(result: Node) -> tuple[Answer | Definitions, ...]:
    back = [node.raw is True for node in result["components"]["comes_back"].nodes()]
    head, _, rest = result["reading"].text("This result holds no reading.").partition("; ")
    verdict = Answer(
        head if not rest else f"{head}.",
        rest[:1].upper() + rest[1:],
        (all(back) or (None if any(back) else False)) if back else None,
    )
    tiles = []
    scores = sorted(present(*result["components"]["scores"].numbers()))
    if scores:
        tiles.append(("median score", fixed(scores[len(scores) // 2], 3), f"least {fixed(scores[0], 3)}"))
    tiles += data_tiles(result)
    used, rows = result["rows_used"].number(), result["rows"].number()
    if used is not None and rows is not None and rows >= 1:
        share = (
            "all rows" if result["settings"]["resample"].raw is False else f"{percent(used / rows)} of all, drawn anew"
        )
        tiles.append(("rows a refit", count(used), share))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _stability_components(result: Node) -> Section | None:
    node = result["components"]
    parts = (
        score_figure(node),
        angle_figure(node),
        kurtosis_figure(node),
        contrast_figure(node),
        component_table(node),
    )
    kept = tuple(part for part in parts if part is not None)
    return Section("components", "Components", kept) if kept else None


def _refits(result: Node) -> Section | None:
    parts = (_match_figure(result), _refit_table(result))
    kept = tuple(part for part in parts if part is not None)
    return Section("refits", "Refits", kept) if kept else None


def _match_figure(result: Node) -> Figure | None:
    """Refits by components: the correlation of each with what was matched to it."""
    k = number_of(result["components"])
    given = [row.numbers(k) for row in result["correlations"].nodes(MOST_REFITS)]
    if not k or not given or any(len(row) != k for row in given):
        return None
    blocks = spans(k, MOST_CELLS)
    names = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in blocks]
    values = [[min(present(*row[a:b]), default=None) for a, b in blocks] for row in given]
    total = len(result["correlations"].nodes())
    part = " A cell holds the least of its components." if len(blocks) < k else ""
    rest = f" The first {len(given)} of {total} refits are shown." if total > len(given) else ""
    found = sum(1 for row in given for value in present(*row) if value > 0.9)
    return Figure(
        "match-figure",
        "Every component in every refit",
        "Absolute correlation with the component matched to it. A faint column is a component that does not come back, "
        f"a faint row a refit that went elsewhere.{part}{rest}",
        f"Heat map of {len(given)} refits by {count(k)} components; {count(found)} of {count(len(given) * k)} "
        "correlations exceed 0.9.",
        Heatmap(
            tuple(map(tuple, values)),
            tuple([str(place + 1) for place in range(len(values))]),
            tuple(names),
            ("component", "refit"),
        ),
    )


def _refit_table(result: Node) -> Table | None:
    rows = []
    for place, entry in enumerate(result["refits"].nodes(1000)):
        numbers = [entry[key].number() for key in ("rows", "components", "gaussian")]
        if all(number is None for number in numbers):
            continue
        settled = "yes" if entry["converged"].raw is True else "no"
        rows.append((Cell(str(place + 1)), *(Cell(count(number), number) for number in numbers), Cell(settled)))
    titles = ("refit", "rows", "components", "near-Gaussian", "converged")
    columns = tuple(Column(title, numeric=title not in ("refit", "converged")) for title in titles)
    return Table("refits", "Every refit", columns, tuple(rows), folded=len(rows) > 12) if rows else None
