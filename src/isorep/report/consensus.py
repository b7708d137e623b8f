"""The consensus of many runs, and how well single dimensions come back in the others."""

from __future__ import annotations

from .figures import IntervalRow, Line, intervals, lines
from .parts import Cell, Column, Figure, Key, Prose, Section, Table
from .rungs import on_both
from .values import Node, count, fixed, percent, present

MOST_AXES, MOST_POINTS, MOST_LINES = 2000, 400, 5
SERIES = ("s2", "s1", "s3", "s4", "s0")


def consensus_section(node: Node, names: list[str]) -> Section | None:
    """What the runs have in common: the share of each, and the agreement along each axis."""
    parts = (_shares_figure(node, names), _axes_figure(node))
    kept = tuple(part for part in parts if part is not None)
    if not kept:
        return None
    words = (
        "Every run is rotated onto the others (generalised Procrustes, at unit RMS radius), and their mean is the "
        "consensus. These figures are measured on the rows that the rotations were fitted to."
    )
    return Section("consensus", "Consensus", (Prose((words,)), *kept))


def _shares_figure(node: Node, names: list[str]) -> Figure | None:
    shares = node["shares"].numbers(len(names))
    if len(shares) != len(names) or not present(*shares):
        return None
    rows = [
        IntervalRow(name, "s2", value=share, labels=(f"{percent(share)}", "", ""), printed=percent(share))
        for name, share in zip(names, shares, strict=True)
        if share is not None
    ]
    told = "; ".join(f"{row.name}: {row.printed}" for row in rows)
    return Figure(
        "shares-figure",
        "How much of each run is common",
        "The share of a run's variance that the mean of the other runs explains, after rotation and with one scale.",
        f"Shares of variance. {told}.",
        on_both(lambda width: intervals(rows, "share of variance explained by the other runs", width)),
    )


def _axes_figure(node: Node) -> Figure | None:
    agreement, spectrum = node["agreement"].numbers(MOST_AXES), node["spectrum"].numbers(MOST_AXES)
    if len(agreement) < 2 or len(agreement) != len(spectrum) or None in agreement or None in spectrum:
        return None
    values, variances = present(*agreement), present(*spectrum)
    whole = sum(variances) or 1.0
    every = max(1, -(-len(values) // MOST_POINTS))
    points = tuple((float(place + 1), values[place]) for place in range(0, len(values), every))
    labels = tuple(
        f"axis {place + 1}: {fixed(values[place], 3)}, {percent(variances[place] / whole)} of the consensus's variance"
        for place in range(0, len(values), every)
    )
    good = sum(1 for value in values if value >= 0.9)
    table = Table(
        "axes",
        "Axes of the consensus",
        (Column("axis"), Column("variance"), Column("agreement")),
        tuple(
            (Cell(str(place + 1)), Cell(fixed(variances[place]), variances[place]), Cell(fixed(value), value))
            for place, value in enumerate(values)
        ),
        folded=True,
    )
    drawn = [Line("agreement", "s2", points, labels, dotted=len(points) <= 60)]
    return Figure(
        "agreement-figure",
        "Agreement along each axis",
        "The mean covariance of two runs over their mean variance, along the consensus's principal axes: 1 where all "
        f"runs agree, 0 where they share nothing. {good} of {count(len(values))} axes exceed 0.9.",
        f"Agreement of {count(len(values))} axes, from {fixed(min(values), 2)} to {fixed(max(values), 2)}; {good} "
        "exceed 0.9.",
        on_both(
            lambda width: lines(
                drawn,
                ("axis of the consensus, largest variance first", "agreement"),
                width,
                260,
                y_range=(min(0.0, *values), 1.0),
            )
        ),
        table=table,
    )


def dimensions_section(node: Node, names: list[str]) -> Section | None:
    """How well the dimensions of every run are predicted from, and matched in, the others."""
    found = []
    for name, entry in zip(names, node.nodes(len(names)), strict=False):
        r2 = present(*entry["r2"].numbers(MOST_AXES * 10))
        found.append((name, sorted(r2, reverse=True), present(*entry["correlation"].numbers(MOST_AXES * 10))))
    parts: list[object] = []
    drawn = [_curve(place, name, r2) for place, (name, r2, _) in enumerate(found) if r2]
    if drawn:
        parts.append(_dimensions_figure(drawn[:MOST_LINES], len(drawn)))
    rows = [
        (
            Cell(name),
            *(Cell(fixed(value, 3), value) for value in (*_spread(r2), *_spread(correlation))),
        )
        for name, r2, correlation in found
        if r2 or correlation
    ]
    if not rows:
        return None
    titles = ("run", "R², median", "least", "greatest", "correlation, median", "least", "greatest")
    columns = tuple(Column(title, numeric=place > 0) for place, title in enumerate(titles))
    parts.append(
        Table(
            "dimensions",
            "Dimensions of each run: held-out R² from the others, and correlation with the one matched to it",
            columns,
            tuple(rows),
        )
    )
    return Section("dimensions", "Single dimensions", tuple(parts))


def _curve(place: int, name: str, r2: list[float]) -> Line:
    every = max(1, -(-len(r2) // MOST_POINTS))
    kept = range(0, len(r2), every)
    return Line(
        name,
        SERIES[place % len(SERIES)],
        tuple((float(rank + 1), r2[rank]) for rank in kept),
        tuple(f"rank {rank + 1}: {fixed(r2[rank], 3)}" for rank in kept),
    )


def _dimensions_figure(drawn: list[Line], of: int) -> Figure:
    every = [y for line in drawn for _, y in line.points]
    low = max(-0.5, min(0.0, *every))
    rest = f" The first {len(drawn)} of {of} runs are drawn." if of > len(drawn) else ""
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        "The share of a dimension's variance that another run predicts linearly on rows not seen, averaged over the "
        f"other runs; the dimensions of each run from the best to the least.{rest}",
        f"Held-out R squared by rank for {len(drawn)} runs, from {fixed(min(every), 2)} to {fixed(max(every), 2)}.",
        on_both(lambda width: lines(drawn, ("rank of the dimension", "held-out R²"), width, 260, y_range=(low, 1.0))),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def _spread(values: list[float]) -> tuple[float | None, float | None, float | None]:
    ordered = sorted(values)
    if not ordered:
        return None, None, None
    return ordered[len(ordered) // 2], ordered[0], ordered[-1]
