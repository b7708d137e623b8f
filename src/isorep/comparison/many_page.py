"""The page of many runs: the verdict first, then all pairs, the consensus and what recurs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..report.charts import rung_name
from ..report.document import Cell, Column, Figure, Forms, Notes, Page, Part, Prose, Row, Section, Table
from ..report.figures import Clustered, Heatmap, IntervalRow, Intervals, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, count, fixed, percent
from ..representation import Array
from ..results import largest, least
from .many_errors import RungMatrix, apart
from .many_result import Ensemble
from .many_verdict import LEAST_RUNS
from .page import sides_table, verdict_answer
from .recurrence import Components, Dimensions
from .rows_page import CLEAR, three, whole

MOST_RUNS = 32  # that figures and tables show; a page of more would say less
OPEN_PAIRS, OPEN_FAMILIES = 12, 12  # rows up to which a table is open
MOST_POINTS, MOST_LINES, MOST_AXES = 400, 5, 2000
MOST_FAMILY_COLUMNS, MOST_FAMILY_ROWS = 96, 100
LOWEST_R2 = -0.5
SERIES = ("s2", "s1", "s3", "s4", "s0")
UNIT = (
    "Mean errors on rows that the maps have not seen, in mean distances of the target to its mean; lower is closer and "
    "1 is no better than predicting the mean. Rows are mapped onto columns."
)
CONSENSUS = (
    "Every run is rotated onto the others (generalised Procrustes, at unit RMS radius), and their mean is the "
    "consensus. These figures are measured on the rows that the rotations were fitted to."
)
RECURRING = (
    "Components of each run alone, matched one to one between every two runs. A component recurs where its absolute "
    "correlation with the one matched to it is at least {}; a family has at most one per run."
)


def page(result: Ensemble) -> Page:
    """All of it, most important first."""
    names = result.names
    others = " and others" if len(names) > 8 else ""
    runs = {side.name: side for side in result.runs[:MOST_RUNS]}
    core = _core(result)
    who = f"{len(core)} of {len(names)} runs" if len(core) < len(names) else f"All {len(names)} runs"
    sizes = sorted({(side.rows, side.columns) for side in result.runs})
    ranges = size(*sizes[0]) if len(sizes) == 1 else f"{size(*sizes[0])} to {size(*sizes[-1])}"
    return page_of(
        result,
        f"{len(names)} runs",
        f"Comparison of {len(names)} runs: {', '.join(names[:8])}{others}",
        verdict_answer(result.verdict, who, result.rungs),
        _tiles(result),
        (
            _pairs(result),
            _outliers(result),
            Section("consensus", "Consensus", (Prose((CONSENSUS,)), _shares(result), *_agreement(result))),
            None if result.components is None else _components(result.components, names[:MOST_RUNS]),
            _dimensions(result.dimensions[:MOST_RUNS], names),
            Section("runs", "The runs", (sides_table("runs-table", "Size, rank and condition", "run", runs),)),
        ),
        data=f"{len(names)} runs of {ranges}",
    )


def _core(result: Ensemble) -> list[int]:
    """The runs that are no outliers."""
    outliers = {outlier.run for outlier in result.outliers}
    return [run for run, name in enumerate(result.names) if name not in outliers]


def _among(matrix: Array, runs: list[int]) -> Array:
    """The entries of all ordered pairs of these runs."""
    among: Array = matrix[np.ix_(runs, runs)][apart(len(runs))]
    return among


def _tiles(result: Ensemble) -> list[tuple[str, str, str]]:
    tiles = []
    rung = result.rungs.get(result.verdict.rung or "linear")
    if rung is not None:
        core = _core(result)
        errors, rms = (_among(matrix, core) for matrix in (rung.error, rung.rms))
        aside = ", outliers aside" if result.outliers else ""
        said = f"1 is no better than the mean; mean of all pairs{aside}; the worst has {three(errors.max())}"
        tiles.append((f"held-out error, {rung_name(rung.name)}", three(errors.mean()), said))
        if rung.null is not None and not rung.without_chance:
            said = f"the error of shuffled rows; {percent((1 - rms**2).mean())} of the variance is explained, held out"
            tiles.append(("chance", three(_among(rung.null, core).mean()), said))
    said = "of a run's variance, explained by the mean of the others"
    tiles.append(("consensus", percent(result.consensus.share), said))
    if result.components is not None:
        most, everywhere = (
            result.components.recurring(least) for least in (len(result.runs) // 2 + 1, len(result.runs))
        )
        said = f"found in most runs, {everywhere or 'none'} of them in all"
        tiles.append(("recurring components", count(most), said))
    return tiles


# All pairs


def _pairs(result: Ensemble) -> Section:
    names, first = result.names[:MOST_RUNS], result.clustering.rung
    unit = UNIT
    if len(result.runs) > MOST_RUNS:
        unit += f" The first {MOST_RUNS} of {len(result.runs)} runs are shown."
    rungs = sorted(result.rungs.values(), key=lambda rung: rung.name != first)
    maps = [_heat_map(rung, result, lead=rung.name == first) for rung in rungs]
    others = [Row(tuple(maps[start : start + 2])) for start in range(1, len(maps), 2)]
    columns: Forms = (
        {"pair": str} | dict.fromkeys((rung_name(rung.name) for rung in rungs), fixed) | {"explained by": str}
    )
    rows = [
        (
            f"{source} → {target}",
            *(float(rung.error[i, j]) for rung in rungs),
            rung_name(result.verdicts[i][j] or MISSING),
        )
        for i, source in enumerate(names)
        for j, target in enumerate(names)
        if i != j
    ]
    title = "Every ordered pair, with the smallest rung that explains it"
    every = Table.of("every-pair", title, columns, rows, folded=len(rows) > OPEN_PAIRS)
    return Section("pairs", "All pairs", (Prose((unit,)), _ladder(result), maps[0], *others, every))


def _ladder(result: Ensemble) -> Table:
    """The ladder over all ordered pairs: mean with its standard error, range, R², null and in-sample."""
    core, aside = _core(result), bool(result.outliers)
    columns: Forms = {"rung": str, **({"outliers aside": fixed} if aside else {}), "held-out error": fixed}
    columns = {**columns, "standard error": fixed, "range over pairs": fixed, "R²": partial(fixed, digits=2)}
    rows = [
        (
            rung_name(rung.name),
            *((float(_among(rung.error, core).mean()),) if aside else ()),
            rung.mean,
            rung.mean_se,
            Cell(f"{fixed(rung.min)} to {fixed(rung.max)}", rung.max),
            rung.explained,
            *(None if matrix is None else _mean(matrix) for matrix in (rung.null, rung.in_sample)),
        )
        for rung in result.rungs.values()
    ]
    columns = {**columns, "chance": fixed, "in-sample": fixed}
    strong = rung_name(result.verdict.rung or "")
    title = "Means over all ordered pairs" + (", and in the first column without those of outliers" if aside else "")
    return Table.of("ladder", title, columns, rows, strong=strong)


def _mean(matrix: Array) -> float:
    return float(np.nanmean(matrix[apart(len(matrix))]))  # a time limit leaves the null of some pairs out


def _heat_map(rung: RungMatrix, result: Ensemble, lead: bool) -> Figure:
    order = [run for run in result.clustering.order if run < MOST_RUNS]
    names, count = result.names, len(result.runs)
    values = tuple(tuple(None if i == j else float(rung.error[i, j]) for j in order) for i in order)
    every = {(i, j): float(rung.error[i, j]) for i in sorted(order) for j in sorted(order) if i != j}
    (a, b), (c, d) = least(every), largest(every)
    # The tree joins runs by their places in the drawing; of a part of the runs there is none.
    at = {run: place for place, run in enumerate(order)}
    joins = result.clustering.linkage.tolist() if lead and len(order) == count else []
    tree = tuple(
        (at.get(int(one), int(one)), at.get(int(other), int(other)), height) for one, other, height, _ in joins
    )
    caption = (
        "Near runs stand side by side; the tree above joins them by average linkage, at the height of their mean error."
    )
    return Figure(
        f"pairs-{rung.name.replace('_', '-')}-figure",
        "Errors as they are (identity)" if rung.name == "identity" else f"Errors up to {rung_name(rung.name)}",
        caption if tree else "",
        f"Heat map of {len(order)} by {len(order)} runs, {rung_name(rung.name)}. Closest are {names[a]} and {names[b]} "
        f"({three(every[a, b])}), farthest {names[c]} and {names[d]} ({three(every[c, d])}).",
        Clustered(values, tuple(names[run] for run in order), tree, ("target", "source")),
        narrow=not lead,
    )


def _outliers(result: Ensemble) -> Section:
    few = " With fewer than four runs, none can be." if len(result.runs) < LEAST_RUNS else ""
    said = tuple(outlier.sentence for outlier in result.outliers)
    return Section("outliers", "Outlier runs", (Notes(said) if said else Prose((f"No run is an outlier.{few}",)),))


# The consensus


def _shares(result: Ensemble) -> Figure:
    shares = zip(result.names[:MOST_RUNS], result.consensus.shares.tolist(), strict=False)
    rows = tuple(
        IntervalRow(name, "s2", share, labels=(percent(share), "", ""), printed=percent(share))
        for name, share in shares
    )
    chart = Intervals(rows, "share of variance explained by the other runs", end=1.04)
    return Figure(
        "shares-figure",
        "How much of each run is common",
        "The share of a run's variance that the mean of the other runs explains, after rotation and with one scale.",
        f"Shares of variance. {chart.told}.",
        chart,
    )


def _agreement(result: Ensemble) -> tuple[Part, ...]:
    """Agreement along the axes of the consensus, where there are several."""
    values, variances = (each[:MOST_AXES].tolist() for each in (result.consensus.agreement, result.consensus.spectrum))
    if len(values) < 2:
        return ()
    whole_variance = sum(variances) or 1.0
    shown = _thinned(len(values))
    line = Line(
        "agreement",
        "s2",
        tuple((axis + 1.0, values[axis]) for axis in shown),
        tuple(
            f"axis {axis + 1}: {three(values[axis])}, {percent(variances[axis] / whole_variance)} of the consensus's "
            "variance"
            for axis in shown
        ),
        dotted=len(shown) <= 60,
    )
    good = f"{sum(value >= CLEAR for value in values)} of {count(len(values))} axes exceed {CLEAR}"
    columns: Forms = {"axis": whole, "variance": fixed, "agreement": fixed}
    rows = zip(range(1, len(values) + 1), variances, values, strict=True)
    figure = Figure(
        "agreement-figure",
        "Agreement along each axis",
        "The mean covariance of two runs over their mean variance, along the consensus's principal axes: 1 where all "
        f"runs agree, 0 where they share nothing. {good}.",
        f"Agreement along axes, from {fixed(min(values), 2)} to {fixed(max(values), 2)}; {good}.",
        Lines(
            (line,),
            ("axis of the consensus, largest variance first", "agreement"),
            260,
            y_range=(min(0.0, *values), 1.0),
        ),
        legend=(),
        table=Table.of("axes", "Axes of the consensus", columns, rows, folded=True),
    )
    return (figure,)


def _thinned(size: int) -> range:
    """Places of so many points as a line shows."""
    return range(0, size, max(1, -(-size // MOST_POINTS)))


# Single dimensions


def _dimensions(dimensions: Sequence[Dimensions], names: Sequence[str]) -> Section:
    """How well the dimensions of every run are predicted from, and matched in, the others."""
    columns: Forms = {"run": str} | dict.fromkeys(
        (f"{what}, {which}" for what in ("R²", "correlation") for which in ("median", "least", "greatest")), three
    )
    rows = [
        (name, *_spread(each.r2), *_spread(each.correlation)) for name, each in zip(names, dimensions, strict=False)
    ]
    title = "Dimensions of each run: held-out R² from the others, and correlation with the one matched to it"
    known = [(name, each.r2) for name, each in zip(names, dimensions, strict=False) if each.r2 is not None]
    figure = (_dimensions_figure(known),) if known else ()
    return Section("dimensions", "Single dimensions", (*figure, Table.of("dimensions", title, columns, rows)))


def _spread(values: Array | None) -> tuple[float | None, float | None, float | None]:
    if values is None:
        return None, None, None
    ordered = np.sort(values).tolist()
    return ordered[len(ordered) // 2], ordered[0], ordered[-1]


def _dimensions_figure(known: Sequence[tuple[str, Array]]) -> Figure:
    lines = []
    for (name, r2), series in zip(known, SERIES, strict=False):
        falling = np.sort(r2)[::-1].tolist()
        shown = _thinned(len(falling))
        points = tuple((rank + 1.0, falling[rank]) for rank in shown)
        labels = tuple(f"rank {rank + 1}: {three(falling[rank])}" for rank in shown)
        lines.append(Line(name, series, points, labels))
    every = [value for line in lines for _, value in line.points]
    rest = f" The first {len(lines)} of {len(known)} runs are drawn." if len(known) > len(lines) else ""
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        "The share of a dimension's variance that another run predicts linearly on rows not seen, averaged over the "
        f"other runs; the dimensions of each run from the best to the least.{rest}",
        f"Held-out R squared by rank for {len(lines)} runs, from {fixed(min(every), 2)} to {fixed(max(every), 2)}.",
        Lines(
            tuple(lines),
            ("rank of the dimension", "held-out R²"),
            260,
            y_range=(max(LOWEST_R2, min(0.0, *every)), 1.0),
        ),
    )


# Components


def _components(components: Components, names: Sequence[str]) -> Section:
    """Which components recur in how many runs."""
    runs = len(components.by_run)
    counted: Forms = dict.fromkeys(("components", "in all runs", "in some", "in no other"), count)
    columns: Forms = {"run": str, **counted, "score, median": three}
    # Families are counted, as everywhere on the page: a component belongs to one at most.
    sizes = [[family.runs for family in components.families if run in dict(family.members)] for run in range(runs)]
    rows = []
    for name, each, found in zip(names, components.by_run, sizes, strict=False):
        middle = np.sort(each.score)[len(each.score) // 2] if len(each.score) else None
        everywhere = sum(size == runs for size in found)
        counts = (everywhere, len(found) - everywhere, len(each.score) - len(found))
        rows.append((name, len(each.score), *counts, middle))
    title = "Components of each run, and where else they are found"
    families = (_families_figure(components, names), _families_table(components, names)) if components.families else ()
    said = Prose((RECURRING.format(fixed(components.threshold, 1)),))
    return Section(
        "components",
        "Recurring components",
        (said, Table.of("component-counts", title, columns, rows), *families),
    )


def _families_figure(components: Components, names: Sequence[str]) -> Figure:
    families = components.families
    shown = [dict(family.members) for family in families[:MOST_FAMILY_COLUMNS]]
    values = tuple(
        tuple(float(each.score[members[run]]) if run in members else None for members in shown)
        for run, each in enumerate(components.by_run[: len(names)])
    )
    everywhere = components.recurring(len(components.by_run))
    rest = f" The first {len(shown)} of {count(len(families))} are drawn." if len(families) > len(shown) else ""
    labels = tuple(str(place + 1) for place in range(len(shown)))
    return Figure(
        "families-figure",
        "Families of components",
        "One column per family, the widest spread first; the shade is the mean correlation of a run's member with its "
        f"matches in all other runs, and blank where a run has none.{rest}",
        f"Heat map of {len(names)} runs by {len(shown)} families; {everywhere} families are found in all runs.",
        Heatmap(values, tuple(names), labels, ("family", "run"), left=150.0, signed=False),
    )


def _families_table(components: Components, names: Sequence[str]) -> Table:
    rows = []
    for place, family in enumerate(components.families[:MOST_FAMILY_ROWS]):
        members = dict(family.members)
        who = (str(members[run]) if run in members else MISSING for run in range(len(names)))
        numbers = (Cell(str(family.runs), family.runs), Cell(three(family.score), family.score))
        rows.append((Cell(str(place + 1)), *numbers, *map(Cell, who)))
    total = len(components.families)
    which = "Every family" if total == len(rows) else f"The first {len(rows)} of {count(total)} families"
    title = f"{which}: in how many runs, the mean correlation of its members, and their numbers in each run"
    columns = tuple(map(Column, ("family", "runs", "score", *names)))  # runs may be called anything, even "score"
    return Table("families", title, columns, tuple(rows), folded=len(rows) > OPEN_FAMILIES)
