"""The page of a decoder's geometry: constants, singular values, latents, assumptions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from ..report.document import Answer, Cell, Definitions, Figure, Forms, Page, Prose, Section, Table
from ..report.figures import Histogram, IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, percent
from ..representation import Array
from ..results import aligned, wrapped
from .geometry import THEOREM_LIMIT, Geometry

MOST_LATENTS, MOST_DRAWN = 5_000, 40  # in the table, and in the figure
BINS = 30
FEW = 10  # singular values that are all named on the axis
FLOOR, SMALLEST = 1e-6, 1e-12  # what lies below this share of the largest is drawn at the edge; what is zero is not
QUANTILES = {
    "0.95": ("95%", "s1"),
    "0.75": ("75%", "s3"),
    "0.5": ("median", "s0"),
    "0.25": ("25%", "s3"),
    "0.05": ("5%", "s1"),
}
CONSTANT_TITLES = {
    "constant": "constant 1 + L",
    "excess": "L",
    "mean_constant": "mean",
    "similarity_constant": "up to scale",
    "scale": "best scale",
    "condition": "condition",
}
CONSTANTS = (
    "1 + L is the larger of the Jacobian's largest singular value and one over its smallest: 1 for an isometry, "
    "infinite where a direction of the latents does not move the output. Up to scale is what the best global factor on "
    "the output leaves."
)
LATENTS = (
    "Maximum Jacobian column norm per latent over the rows, relative to the most active latent. "
    "Below {limit} a latent counts as inactive: the decoder hardly moves with it."
)
DIRECTIONS = "Norms of random unit vectors at each row, as in the published experiments: an estimate from below."
CONVEXITY = (
    "Distance is that of the median midpoint to the nearest sample, over that of the median sample to its nearest "
    "neighbour. Remote are midpoints that lie farther from samples, in units of the spacing of these samples, than "
    "99.5% of midpoints do in boxes with the same marginals. A notch takes a quarter of these samples."
)


def page(geometry: Geometry) -> Page:
    """All of it, most important first."""
    name, within = geometry.data["decoder"], geometry.constant <= THEOREM_LIMIT
    reached = None if within and not geometry.certain else within  # an estimate from below may be too low
    answer = Answer(_headline(geometry), " ".join(geometry.verdict), reached)
    return page_of(
        geometry,
        f"{name} · decoder",
        f"How far {name} is from an isometry",
        answer,
        _tiles(geometry),
        (
            Section("constants", "Constants", (Prose((CONSTANTS,)), constants_table(geometry), _isometry(geometry))),
            _values(geometry),
            _latents(geometry),
            _directions(geometry),
            _convexity(geometry),
            _worst(geometry),
            Section("assumptions", "What bounds rest on", (_assumptions(geometry),)),
        ),
        data=f"{geometry.data['latents_name']} {size(geometry.data['rows_used'], geometry.data['latents'])}, "
        f"{count(geometry.data['outputs'])} outputs",
    )


def _headline(geometry: Geometry) -> str:
    if math.isinf(geometry.constant):
        return "The decoder loses a direction at some of the sampled latents."
    least = "" if geometry.certain else "at least "
    side = "within" if geometry.constant <= THEOREM_LIMIT else "beyond"
    return f"At the sampled latents it is {least}{short(geometry.constant)}-bi-Lipschitz, {side} √2."


def number(value: float | None, digits: int = 4) -> str:
    """A constant as text, infinity spelt out."""
    return "infinite" if value == math.inf else compact(value, digits)


def short(value: float | None) -> str:
    """The same in three digits."""
    return number(value, 3)


def as_text(table: Table, *left_out: str, explained: str = "") -> str:
    """A table of a page as text, without the columns that are left out.

    The column ``explained`` says in words what a row's number is: it follows below the table, once per name of a row.
    """
    words = {}
    if explained:
        at = [column.title for column in table.columns].index(explained)
        words = {f"{row[0].text}: {row[at].text}": None for row in table.rows}
        left_out = (*left_out, explained)
    kept = [index for index, column in enumerate(table.columns) if column.title not in left_out]
    titles = [table.columns[index].title for index in kept]
    left = [at for at, index in enumerate(kept) if not table.columns[index].numeric]
    text = aligned([titles, *([row[index].text for index in kept] for row in table.rows)], left)
    below = [f"\n{explained}", *map(wrapped, words)] if words else []
    return "\n".join([text, *below]).replace("−", "-")


def dot(name: str, colour: str, value: float, text: str, how: str = "", *, strong: bool = False) -> IntervalRow:
    """A value as a dot in a figure of intervals; ``how`` is said where the pointer is."""
    return IntervalRow(name, colour, value, strong=strong, labels=(f"{text}{how}", "", ""), printed=text)


def _tiles(geometry: Geometry) -> list[tuple[str, str, str]]:
    least = "" if geometry.certain else "at least, "
    scale = geometry.scale
    scaled = "a direction is lost" if scale is None else f"with the output times {compact(scale)}"
    tiles = [
        ("constant 1 + L", number(geometry.constant), f"{least}over {count(geometry.data['rows_used'])} rows"),
        ("up to scale", number(geometry.similarity_constant), scaled),
        ("median row", number(geometry.quantiles["0.5"]), "of the local constants"),
    ]
    if geometry.active is not None:
        tiles.append(("on active latents", number(geometry.active.constant), "constant 1 + L"))
    if geometry.latents:
        tiles.append(("inactive latents", count(len(geometry.inactive)), f"of {count(len(geometry.latents))}"))
    return tiles


def constants_table(geometry: Geometry) -> Table:
    """The constants over all latents, and over the active ones where some are not."""
    name = "all latents" if geometry.certain else "all latents, at least"
    sides = {name: geometry.constants, "active latents": geometry.active}
    rows = [
        (title, *(getattr(known, key) for key in CONSTANT_TITLES))
        for title, known in sides.items()
        if known is not None
    ]
    columns: Forms = {"": str, **dict.fromkeys(CONSTANT_TITLES.values(), number)}
    return Table.of("constants", "Over the sample", columns, rows, strong=name)


def _isometry(geometry: Geometry) -> Definitions:
    known, ranks = geometry.isometry, geometry.ranks
    items = [
        ("δ, the largest |σ − 1|", compact(known.delta), ""),
        ("mean of (σ − 1)²", compact(known.mean_square), ""),
        ("(1 + δ)/(1 − δ)", number(known.text_constant), "the constant as the paper's text takes it from δ"),
        ("1/(1 − δ)", number(known.sharp_constant), "the sharp one"),
    ]
    if ranks is not None:
        items.append(("rank", f"{compact(ranks['median'])} of {count(geometry.data['latents'])}", "median row"))
        items.append(("lowest rank", count(ranks["least"]), f"{percent(ranks['full'])} of rows are full"))
    return Definitions(tuple(items))


def _values(geometry: Geometry) -> Section:
    """Singular values of the active latents where some are inactive, since the others hold zeros."""
    of = "" if geometry.active_samples is None else " of the active latents"
    samples = geometry.active_samples or {key: getattr(geometry, key) for key in ("largest", "smallest", "local")}
    local = samples["local"][np.isfinite(samples["local"])]
    figures = [
        _spread_figure(
            "stretch-figure",
            "Largest and smallest stretch of each row",
            f"The extreme singular values of the Jacobian{of}. An isometry has all of them at 1.",
            "singular value",
            {"largest": ("s0", samples["largest"]), "smallest": ("s2", samples["smallest"])},
        )
    ]
    if len(local):
        figures.append(
            _spread_figure(
                "local-figure",
                "Local bi-Lipschitz constants",
                f"One value per row{of}; 1 is an isometry, and the constant of the sample is the right end.",
                "local constant 1 + L",
                {"local constant": ("s2", local)},
            )
        )
    spectrum = geometry.thinned_spectrum()
    if spectrum is not None and spectrum["0.95"][0] > SMALLEST:
        figures.append(_spectrum_figure(spectrum))
    return Section("singular-values", "Singular values", tuple(figures))


def _spread_figure(name: str, title: str, caption: str, axis: str, sides: Mapping[str, tuple[str, Array]]) -> Figure:
    every = np.concatenate([values for _, values in sides.values()])
    low, high = float(every.min()), float(every.max())
    room = max(0.02 * high - (high - low), 0.0) / 2 or (0.5 if high == low else 0.0)
    edges = np.linspace(max(low - room, 0.0), high + room, BINS + 1)
    bins = [f"{short(a)} to {short(b)}" for a, b in pairwise(edges)]
    lines = []
    for label, (colour, values) in sides.items():
        heights = np.histogram(values, edges)[0]
        points = zip(((edges[:-1] + edges[1:]) / 2).tolist(), map(float, heights), strict=True)
        said = tuple(f"{words}: {count(rows)} rows" for words, rows in zip(bins, heights, strict=True))
        lines.append(Line(label, colour, tuple(points), said))
    return Figure(
        name,
        title,
        caption,
        f"{title}: from {compact(low)} to {compact(high)}.",
        Histogram(tuple(edges.tolist()), tuple(lines), (axis, "rows")),
        legend=tuple(Key("line", line.series, line.name) for line in lines),
    )


def _spectrum_figure(spectrum: dict[str, Array]) -> Figure:
    """All singular values, the largest first, with quantiles over the rows; those that are zero have no logarithm."""
    lines = []
    for level, (name, colour) in QUANTILES.items():
        pairs = zip(spectrum["index"].tolist(), spectrum[level].tolist(), strict=True)
        points = tuple((float(index), value) for index, value in pairs if value > SMALLEST)
        if points:
            labels = tuple(f"σ{index:g}, {name}: {compact(value)}" for index, value in points)
            lines.append(Line(name, colour, points, labels))
    every = [value for line in lines for _, value in line.points]
    high = max(every)
    low = max(min(every), FLOOR * high)
    drawn = sorted({index for line in lines for index, _ in line.points})
    ticks = tuple((index, f"{index:g}") for index in drawn) if len(drawn) <= FEW else ()
    axes = ("singular value, from the largest", "value")
    return Figure(
        "spectrum-figure",
        "Singular values",
        "The median over rows, and where half and nine tenths of the rows lie. Flat at 1 is an isometry.",
        "",
        Lines(tuple(lines), axes, 300, y_range=(low, high), log=high > 20 * low, ticks=ticks),
    )


def _latents(geometry: Geometry) -> Section | None:
    """Which latents the decoder responds to."""
    if not geometry.latents:
        return None
    rows = [
        (each.name, each.activity, Cell("" if each.active else "inactive", strong=not each.active))
        for each in geometry.latents[:MOST_LATENTS]
    ]
    columns: Forms = {"latent": str, "activity": compact, "": str}
    table = Table.of("latents", "Every latent", columns, rows, folded=len(rows) > MOST_DRAWN)
    order, half = sorted(geometry.latents, key=lambda each: -each.activity), MOST_DRAWN // 2
    many = len(order) > MOST_DRAWN
    drawn = tuple(
        dot(each.name, "s0" if each.active else "s5", each.activity, short(each.activity))
        for each in ([*order[:half], *order[-half:]] if many else order)
    )
    figure = Figure(
        "latents-figure",
        "Activity of latents",
        "Of the most active one." + (f" The most and the least active {half} of {count(len(order))}." if many else ""),
        "",
        Intervals(drawn, "longest column, of the longest of all"),
    )
    said = LATENTS.format(limit=compact(geometry.settings["inactive_below"]))
    return Section("latents", "Latents", (Prose((said,)), figure, table))


def _directions(geometry: Geometry) -> Section | None:
    known = geometry.directions
    if known is None:
        return None
    titles = ("1 + L from directions", "exact", "mean from directions", "exact mean")
    columns: Forms = {"directions": count, "rows": count, **dict.fromkeys(titles, number)}
    row = (known.count, known.rows, known.constant, known.exact, known.mean_constant, known.exact_mean)
    table = Table.of("directions", "Random directions and singular values", columns, [row])
    return Section("directions", "Random directions", (Prose((DIRECTIONS,)), table))


def _convexity(geometry: Geometry) -> Section | None:
    probe = geometry.convexity
    if probe is None:
        return None
    rows = [
        ("these latents", probe.ratio, probe.remote),
        ("at most by chance", None, probe.limit),
        ("a notch cut into them", None, probe.notch),
        ("a solid cloud (Gaussian)", probe.solid, None),
        ("a hollow cloud (a shell)", probe.hollow, probe.shell),
    ]
    columns: Forms = {"": str, "distance": short, "remote midpoints": partial(percent, digits=1)}
    table = Table.of("convexity", "Midpoints of random pairs", columns, rows, strong="these latents")
    return Section("convexity", "Is the support convex?", (Prose((probe.sentence, CONVEXITY)), table))


def _worst(geometry: Geometry) -> Section:
    rows = [(each.id or f"row {count(each.row)}", each.local, each.largest, each.smallest) for each in geometry.worst()]
    columns: Forms = {"row": str, **dict.fromkeys(("local constant", "largest", "smallest"), number)}
    return Section("rows", "Worst rows", (Table.of("worst", "Largest local constants", columns, rows),))


def _assumptions(geometry: Geometry) -> Definitions:
    kinks = ", ".join(geometry.data["kinks"])
    seen = MISSING if geometry.convexity is None else f"holes: {geometry.convexity.answer}"
    injective = "no" if math.isinf(geometry.constant) else "locally, at these rows"
    return Definitions(
        (
            ("smooth decoder", "not everywhere" if kinks else "no kink was found", kinks or "among the steps it takes"),
            ("injective decoder", injective, "globally: not tested"),
            ("convex support", seen, "midpoints of random pairs"),
        )
    )
