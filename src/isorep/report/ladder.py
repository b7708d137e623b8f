"""The ladder as table and figures."""

from __future__ import annotations

from itertools import pairwise

from .figures import NARROW, IntervalRow, Line, histogram, intervals
from .parts import Cell, Column, Figure, Key, Table
from .rungs import colour, legend_of, on_both, rung_name
from .values import MISSING, Node, compact, fixed, percent, present

MOST_BINS = 200


def ladder_table(direction: Node, name: str, title: str, verdict: str = "") -> Table:
    """The rungs of one direction: held out, interval, chance, p, R², and the error in diameters."""
    columns = (
        "rung",
        "held out",
        interval_title(direction),
        "chance",
        "p",
        "R²",
        "diameters",
    )
    rows = []
    for rung, node in direction["rungs"].items():
        low, high = node["interval"]["low"].number(), node["interval"]["high"].number()
        span = MISSING if low is None or high is None else f"[{fixed(low, 3)}, {fixed(high, 3)}]"
        values = (
            node["held_out"]["mean"],
            node["null"]["mean"],
            node["null"]["p_value"],
            node["explained"],
            node["diameters"]["held_out"]["mean"],
        )
        mean, null, p_value, explained, diameters = (value.number() for value in values)
        rows.append(
            (
                Cell(rung_name(rung), strong=rung == verdict),
                Cell(fixed(mean, 3), mean),
                Cell(span, low),
                Cell(fixed(null, 3), null),
                Cell(p_cell(node["null"]), p_value),
                Cell(fixed(explained, 3), explained),
                Cell(fixed(diameters, 3), diameters),
            )
        )
    return Table(
        name, title, tuple(Column(column, numeric=place > 0) for place, column in enumerate(columns)), tuple(rows)
    )


def p_cell(null: Node) -> str:
    """A p-value; the smallest that the draws allow as a bound."""
    p_value, smallest = null["p_value"].number(), null["smallest_p"].number()
    if p_value is None:
        return MISSING
    return f"≤ {p_value:.2g}" if smallest is not None and p_value <= smallest * (1 + 1e-9) else f"{p_value:.2g}"


def ladder_figure(direction: Node, verdict: str, target: str) -> Figure:
    """Held-out errors with interval, null and in-sample, rung by rung."""
    rows = []
    for rung, node in direction["rungs"].items():
        mean, second = node["held_out"]["mean"].number(), node["in_sample"]["mean"].number()
        span = _pair(node["interval"])
        null = _triple(node["null"])
        said = f"held out {fixed(mean)}" + (f" [{fixed(span[0])}, {fixed(span[1])}]" if span else "")
        chance = f"chance {fixed(null[1])} [{fixed(null[0])}, {fixed(null[2])}]" if null else ""
        rows.append(
            IntervalRow(
                rung_name(rung),
                colour(rung),
                value=mean,
                interval=span,
                second=second,
                band=null,
                strong=rung == verdict,
                labels=(said, f"in-sample {fixed(second)}", chance),
                printed=fixed(mean),
            )
        )
    told = "; ".join(f"{row.name}: {', '.join(label for label in row.labels if label)}" for row in rows)
    return Figure(
        "ladder-figure",
        "Mean error of each rung",
        "A rung counts only if its interval lies left of chance, which is what shuffled rows give (mean, 5 to 95 %), "
        "and left of 1, the error of predicting the mean.",
        f"Mean errors in mean distances of {target} to its mean. {told}.",
        on_both(lambda width: intervals(rows, "mean error; 1 is no better than the mean", width)),
        legend=(
            Key("dot", "", "held out"),
            Key("whisker", "", interval_title(direction)),
            Key("ring", "", "in-sample"),
            Key("tick", "", "chance"),
        ),
    )


def interval_title(direction: Node) -> str:
    """The intervals with their level."""
    levels = [node["interval"]["level"].number() for _, node in direction["rungs"].items()]
    return next((f"{percent(level)} interval" for level in levels if level is not None), "interval")


def statistics_table(direction: Node) -> Table:
    """Every statistic of every rung, held out and in-sample; the last column in the target's own units."""
    titles = ("rung", "rows", "mean", "RMS", "5 %", "25 %", "50 %", "75 %", "95 %", "99 %", "worst", "mean, raw units")
    rows = []
    for rung, node in direction["rungs"].items():
        for kind, word in (("held_out", "held out"), ("in_sample", "in-sample")):
            error = node[kind]
            found = [error["mean"], error["rms"]]
            found += [error["quantiles"][level] for level in ("0.05", "0.25", "0.5", "0.75", "0.95", "0.99")]
            numbers = [entry.number() for entry in (*found, error["sup"], node["raw"][kind]["mean"])]
            cells = [Cell(fixed(number), number) for number in numbers[:-1]]
            rows.append((Cell(rung_name(rung)), Cell(word), *cells, Cell(compact(numbers[-1], 5), numbers[-1])))
    columns = tuple(Column(title, numeric=place > 1) for place, title in enumerate(titles))
    return Table("statistics", "All statistics of the errors", columns, tuple(rows), folded=True)


def residuals_figure(node: Node, target: str) -> Figure | None:
    """How the held-out errors of single rows are distributed."""
    edges = present(*node["edges"].numbers(MOST_BINS + 1))
    found = [(rung, entry.numbers(MOST_BINS)) for rung, entry in node["counts"].items()[:8]]
    kept = [(rung, [value or 0.0 for value in counts]) for rung, counts in found if len(counts) == len(edges) - 1]
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)) or not kept:
        return None
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    spans = [f"{fixed(a, 3)} to {fixed(b, 3)}" for a, b in pairwise(edges)]
    drawn = [
        Line(
            rung_name(rung),
            colour(rung),
            tuple(zip(middles, counts, strict=True)),
            tuple(f"{compact(value)} rows at {span}" for value, span in zip(counts, spans, strict=True)),
        )
        for rung, counts in kept
    ]
    rungs = [rung for rung, _ in kept]
    nulls = [(colour(rung), value) for rung, value in _numbers(node["null_mean"]) if rung in rungs]
    axes = ("error of a row, mean distances to the mean", "rows")
    modes = "; ".join(
        f"{line.name}: most rows at {spans[max(range(len(spans)), key=lambda bin_: line.points[bin_][1])]}"
        for line in drawn
    )
    columns = (Column("error from"), Column("to"), *(Column(rung_name(rung)) for rung in rungs))
    table = Table(
        "residuals",
        "Rows in each bin",
        columns,
        tuple(
            (Cell(fixed(a), a), Cell(fixed(b), b), *(Cell(compact(counts[bin_])) for _, counts in kept))
            for bin_, (a, b) in enumerate(pairwise(edges))
        ),
        folded=True,
    )
    chance = (Key("chance", "", "mean under shuffled rows"),) if nulls else ()
    return Figure(
        "residuals-figure",
        "Distribution of held-out errors",
        "A long tail means that a few rows carry the error; a shift of the whole outline, that all do.",
        f"Histogram of held-out errors. {modes}.",
        on_both(lambda width: histogram(edges, drawn, nulls, axes, width, 300 if width > NARROW else 260)),
        legend=(*legend_of(rungs, "line"), *chance),
        table=table,
    )


def _numbers(node: Node) -> list[tuple[str, float]]:
    return [(key, value) for key, entry in node.items() if (value := entry.number()) is not None]


def _pair(node: Node) -> tuple[float, float] | None:
    low, high = node["low"].number(), node["high"].number()
    return None if low is None or high is None else (low, high)


def _triple(node: Node) -> tuple[float, float, float] | None:
    span, middle = _pair(node), node["mean"].number()
    return None if span is None or middle is None else (span[0], middle, span[1])
