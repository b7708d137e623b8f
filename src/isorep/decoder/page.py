"""The page of a decoder's geometry (schema ``isorep.decoder/1``): constants, singular values, latents, assumptions.

Figures of a decoder's singular values: how they spread over rows, and one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Part, Prose, Row, Section, Table
from ..report.figures import Histogram, IntervalRow, Intervals, Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, percent

MOST_SENTENCES, MOST_LATENTS, MOST_DRAWN, MOST_WORST = 20, 5_000, 40, 20
INFINITE = "infinite"
ANSWERS = {"holes": False, "none seen": True, "blind": None}


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["data"]["decoder"].text("the decoder")
    sections = [
        _constants(result),
        _values(result),
        _latents(result),
        _directions(result),
        _convexity(result),
        _worst(result),
        _assumptions(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{name} · decoder · isorep",
        eyebrow=f"How far {name} is from an isometry",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    said = [node.text() for node in result["verdict"].nodes(MOST_SENTENCES) if node.text()]
    found = result["constants"]
    constant = found["constant"].number()
    reached = None if constant is None and not _infinite(found) else constant is not None and constant <= 2**0.5
    first = said[0] if said else "This result holds no verdict."
    verdict = Answer(first, " ".join(said[1:]), reached)
    least = "" if result["certain"].raw is True else "at least, "
    data = result["data"]
    tiles = [
        ("constant 1 + L", _number(found, "constant"), f"{least}over {count(data['rows_used'].number())} rows"),
        ("up to scale", _number(found, "similarity_constant"), _scaled(found)),
        ("median row", _number(found["quantiles"], "0.5", found), "of the local constants"),
    ]
    if result["active"]:
        tiles.append(("on active latents", _number(result["active"], "constant"), "constant 1 + L"))
    names = result["inactive"].nodes(MOST_LATENTS)
    if result["latents"]:
        tiles.append(("inactive latents", count(len(names)), f"of {count(data['latents'].number())}"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if found else (verdict,)


def _constants(result: Node) -> Section | None:
    if not result["constants"]:
        return None
    rows = []
    for name, node in (("all latents", result["constants"]), ("active latents", result["active"])):
        if node:
            keys = ("constant", "excess", "mean_constant", "similarity_constant", "scale", "condition")
            cells = [Cell(_number(node, key), node[key].number()) for key in keys]
            rows.append((Cell(name, strong=name == "all latents"), *cells))
    titles = ("1 + L", "L", "mean of 1 + L", "up to scale", "best scale", "condition")
    table = Table("constants", "Over the sample", (Column("", numeric=False), *map(Column, titles)), tuple(rows))
    said = (
        "A decoder is locally (1 + L)-bi-Lipschitz where it stretches no direction by more than 1 + L and shrinks "
        "none by more: the larger of the largest singular value of its Jacobian and one over the smallest. L is "
        "the excess that the theorem speaks of. Up to scale is what is left when the output may be multiplied by "
        "the best one factor. The constant is infinite where a direction of the latents does not move the output "
        "at all."
    )
    return Section("constants", "Constants", (Prose((said,)), table, _isometry(result)))


def _isometry(result: Node) -> Definitions:
    node = result["isometry"]
    rank = result["rank"]
    items = [
        ("δ, the largest |σ − 1|", compact(node["delta"].number()), ""),
        ("mean of (σ − 1)²", compact(node["mean_square"].number()), ""),
        (
            "(1 + δ)/(1 − δ)",
            _or_infinite(node["text_constant"], node),
            "the constant as the paper's text takes it from δ",
        ),
        ("1/(1 − δ)", _or_infinite(node["sharp_constant"], node), "the sharp one"),
    ]
    if rank:
        items.append(
            ("rank", f"{compact(rank['median'].number())} of {count(result['data']['latents'].number())}", "median row")
        )
        items.append(
            ("lowest rank", count(rank["least"].number()), f"{percent(rank['full'].number())} of rows are full")
        )
    return Definitions(tuple(items))


def _values(result: Node) -> Section | None:
    figures = [figure for figure in (stretch_figure(result), local_figure(result)) if figure is not None]
    spectrum = spectrum_figure(result)
    parts: list[Part] = [*figures] if spectrum is None else [*figures, spectrum]
    return Section("singular-values", "Singular values", tuple(parts)) if parts else None


def _latents(result: Node) -> Section | None:
    """Which latents the decoder responds to."""
    found = []
    for node in result["latents"].nodes(MOST_LATENTS):
        activity = node["activity"].number()
        if activity is not None and 0 <= activity <= 1e12:
            found.append((node["name"].text("unnamed"), activity, node["active"].raw is not False))
    if not found:
        return None
    limit = result["settings"]["inactive_below"].number()
    said = (
        "The largest norm that a latent's column of the Jacobian reaches over the rows, of the largest of all latents. "
        f"Below {compact(limit)} a latent counts as inactive: the decoder hardly moves with it."
    )
    columns = (Column("latent", numeric=False), Column("activity"), Column("", numeric=False))
    rows = tuple(
        (Cell(name), Cell(compact(a), a), Cell("" if on else "inactive", strong=not on)) for name, a, on in found
    )
    table = Table("latents", "Every latent", columns, rows, folded=len(rows) > MOST_DRAWN)
    order = sorted(found, key=lambda each: -each[1])
    shown = order if len(order) <= MOST_DRAWN else [*order[: MOST_DRAWN // 2], *order[-MOST_DRAWN // 2 :]]
    drawn = [
        IntervalRow(
            name, "s0" if on else "s5", activity, labels=(compact(activity), "", ""), printed=compact(activity, 3)
        )
        for name, activity, on in shown
    ]
    few = (
        "" if len(shown) == len(order) else f" The most and the least active {MOST_DRAWN // 2} of {count(len(order))}."
    )
    figure = Figure(
        "latents-figure",
        "Activity of latents",
        f"Of the most active one.{few}",
        "; ".join(f"{row.name} {row.printed}" for row in drawn),
        Intervals(tuple(drawn), "longest column, of the longest of all"),
    )
    return Section("latents", "Latents", (Prose((said,)), figure, table))


def _directions(result: Node) -> Section | None:
    node = result["directions"]
    if not node:
        return None
    titles = ("directions", "rows", "1 + L from directions", "exact", "mean from directions", "exact mean")
    keys = ("count", "rows", "constant", "exact", "mean_constant", "exact_mean")
    cells = []
    for key in keys:
        value = node[key].number()
        text = count(value) if key in ("count", "rows") else compact(value)
        cells.append(Cell(INFINITE if value is None and _lost(result, key) else text, value))
    table = Table("directions", "Random directions beside singular values", tuple(map(Column, titles)), (tuple(cells),))
    said = (
        "The published experiments take the norms of ten random unit vectors a row. No random direction is "
        "stretched more than the most stretched one, so this is an estimate from below, and in many dimensions "
        "random directions all look alike and miss both ends."
    )
    return Section("directions", "Random directions", (Prose((said,)), table))


def _convexity(result: Node) -> Section | None:
    node = result["convexity"]
    if not node:
        return None
    rows = (
        (Cell("these latents", strong=True), *_pair(node["ratio"], node["share"])),
        (Cell("a solid cloud (Gaussian)"), *_pair(node["solid"], node["solid_share"])),
        (Cell("a hollow cloud (a shell)"), *_pair(node["hollow"], Node(None))),
    )
    columns = (Column("", numeric=False), Column("distance"), Column("remote midpoints"))
    table = Table("convexity", "Midpoints of random pairs", columns, rows)
    said = (
        "The theorem takes the latents' support to be convex, so that what holds locally holds globally. In a "
        "convex support the midpoint of two samples lies among samples. Distance is that of the median midpoint "
        "to the nearest sample, over that of the median sample to its nearest neighbour; remote are midpoints "
        "farther from any sample than 99 % of samples are. The two references have as many rows and the same "
        "covariance. Holes smaller than the spacing of samples cannot be seen, and in many dimensions hardly any "
        "can."
    )
    sentence = node["sentence"].text()
    return Section("convexity", "Is the support convex?", (Prose(tuple(filter(None, (sentence, said)))), table))


def _worst(result: Node) -> Section | None:
    rows = []
    for node in result["worst"].nodes(MOST_WORST):
        label = node["id"].text() or f"row {count(node['row'].number())}"
        numbers = [Cell(_or_lost(node[key]), node[key].number()) for key in ("local", "largest", "smallest")]
        rows.append((Cell(label), *numbers))
    if not rows:
        return None
    columns = (Column("row", numeric=False), Column("local constant"), Column("largest"), Column("smallest"))
    return Section("rows", "Worst rows", (Table("worst", "Largest local constants", columns, tuple(rows)),))


def _assumptions(result: Node) -> Section | None:
    if not result["constants"]:
        return None
    certain = result["certain"].raw is True
    kinks = ", ".join(node.text() for node in result["data"]["kinks"].nodes(20) if node.text())
    answer = result["convexity"]["answer"].text()
    seen = {"holes": "holes were seen", "none seen": "no holes were seen", "blind": "cannot be told"}.get(
        answer, MISSING
    )
    items = (
        ("smooth decoder", "not everywhere" if kinks else "no kink was found", kinks or "among the steps it takes"),
        (
            "injective decoder",
            "no" if _infinite(result["constants"]) else "locally, at these rows",
            "globally: not tested",
        ),
        ("convex support", seen, "midpoints of random pairs"),
        ("constant", "measured" if certain else "estimated from below", "at the sampled rows, not between them"),
    )
    return Section("assumptions", "What bounds rest on", (Row((Definitions(items),)),))


def _pair(ratio: Node, share: Node) -> tuple[Cell, Cell]:
    return Cell(compact(ratio.number(), 3), ratio.number()), Cell(percent(share.number()), share.number())


def _infinite(constants: Node) -> bool:
    return constants["infinite"].raw is True


def _number(node: Node, key: str, constants: Node | None = None) -> str:
    """A constant as text; JSON has null for what is infinite, and a flag says so."""
    value = node[key].number()
    if value is None and key != "scale" and _infinite(constants or node):
        return INFINITE
    return compact(value)


def _or_infinite(node: Node, isometry: Node) -> str:
    delta = isometry["delta"].number()
    return INFINITE if node.number() is None and delta is not None and delta >= 1 else compact(node.number())


def _or_lost(node: Node) -> str:
    return compact(node.number()) if node.number() is not None else INFINITE


def _lost(result: Node, key: str) -> bool:
    """Whether a constant that is not there is infinite: the sample's is, and all its rows were looked at."""
    return key in ("exact", "exact_mean", "constant", "mean_constant") and _infinite(result["constants"])


def _scaled(found: Node) -> str:
    scale = found["scale"].number()
    return "a direction is lost" if scale is None else f"with the output times {compact(scale)}"


MOST_ROWS, MOST_VALUES = 20_000, 2_000
LARGEST, SMALLEST = 1e12, 1e-12
BINS = 30
FEW = 10  # singular values that are all named on the axis
FLOOR = 1e-6  # of the largest singular value: what lies lower is drawn at the edge
_QUANTILES = (
    ("0.95", "95 %", "s1"),
    ("0.75", "75 %", "s3"),
    ("0.5", "median", "s0"),
    ("0.25", "25 %", "s3"),
    ("0.05", "5 %", "s1"),
)


def stretch_figure(result: Node) -> Figure | None:
    """Where the largest and the smallest singular value of each row lie."""
    sides = (("largest", "s0", "largest"), ("smallest", "s2", "smallest"))
    samples, of = _samples(result)
    found = [(name, colour, _stretch_values(samples[key])) for name, colour, key in sides]
    return _spread_figure(
        "stretch-figure",
        "Largest and smallest stretch of each row",
        f"The extreme singular values of the Jacobian{of}. An isometry has all of them at 1.",
        "singular value",
        [(name, colour, values) for name, colour, values in found if values],
    )


def local_figure(result: Node) -> Figure | None:
    """Where the local constants lie."""
    samples, of = _samples(result)
    values = _stretch_values(samples["local"])
    lost = len(samples["local"].nodes(MOST_ROWS)) - len(values)
    missing = f" {count(lost)} rows whose constant is infinite are left out." if lost else ""
    return _spread_figure(
        "local-figure",
        "Local bi-Lipschitz constants",
        f"One value a row{of}; 1 is an isometry, and the constant of the sample is the right end.{missing}",
        "local constant 1 + L",
        [("local constant", "s2", values)] if values else [],
    )


def _spread_figure(
    name: str, title: str, caption: str, axis: str, sides: Sequence[tuple[str, str, list[float]]]
) -> Figure | None:
    every = [value for _, _, values in sides for value in values]
    if not every:
        return None
    edges = _edges(min(every), max(every))
    drawn = []
    for label, colour, values in sides:
        heights = _counted(values, edges)
        points = tuple((0.5 * (a + b), float(h)) for a, b, h in zip(edges[:-1], edges[1:], heights, strict=True))
        said = tuple(
            f"{compact(a, 3)} to {compact(b, 3)}: {count(h)} rows"
            for a, b, h in zip(edges[:-1], edges[1:], heights, strict=True)
        )
        drawn.append(Line(label, colour, points, said))
    told = "; ".join(f"{label} from {compact(min(values))} to {compact(max(values))}" for label, _, values in sides)
    return Figure(
        name,
        title,
        caption,
        f"{title}: {told}.",
        Histogram(tuple(edges), tuple(drawn), (axis, "rows"), ()),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def spectrum_figure(result: Node) -> Figure | None:
    """All singular values, the largest first, with quantiles over the rows."""
    spectrum = result["spectrum"]
    places = spectrum["index"].numbers(MOST_VALUES)
    drawn = []
    for level, name, colour in _QUANTILES:
        values = spectrum[level].numbers(MOST_VALUES)
        pairs = [
            (place, value)
            for place, value in zip(places, values, strict=False)
            if place is not None and value is not None and 0 < place < LARGEST and SMALLEST < value < LARGEST
        ]
        if pairs:
            labels = tuple(f"σ{place:g}, {name}: {compact(value)}" for place, value in pairs)
            drawn.append(Line(name, colour, tuple(pairs), labels))
    if not drawn:
        return None
    every = [value for line in drawn for _, value in line.points]
    high = max(every)
    low = max(min(every), FLOOR * high)
    axes = ("singular value, from the largest", "value")
    named = sorted({place for line in drawn for place, _ in line.points})
    ticks = [(place, f"{place:g}") for place in named] if len(named) <= FEW else []
    return Figure(
        "spectrum-figure",
        "Singular values",
        "The median over rows, and where half and nine tenths of the rows lie. Flat at 1 is an isometry.",
        f"Singular values from {compact(high)} down to {compact(low)}.",
        Lines(tuple(drawn), axes, 300, y_range=(low, high), log=high > 20 * low, ticks=tuple(ticks)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn if line.name in ("median", "75 %", "95 %")),
    )


def _samples(result: Node) -> tuple[Node, str]:
    """The rows to draw: those of the active latents where some are inactive, since the others hold zeros."""
    active = result["active_samples"]
    return (active, " of the active latents") if active else (result["samples"], "")


def _stretch_values(node: Node) -> list[float]:
    return [value for value in node.numbers(MOST_ROWS) if value is not None and 0 <= value < LARGEST]


def _edges(low: float, high: float) -> list[float]:
    room = max(0.02 * abs(high) - (high - low), 0.0) / 2 or (0.5 if high == low else 0.0)
    low, high = max(low - room, 0.0), high + room
    return [low + (high - low) * place / BINS for place in range(BINS + 1)]


def _counted(values: list[float], edges: list[float]) -> list[int]:
    heights = [0] * BINS
    for value in values:
        share = (value - edges[0]) / (edges[-1] - edges[0])
        heights[min(max(int(share * BINS), 0), BINS - 1)] += 1
    return heights
