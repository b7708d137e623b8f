"""The ladder as table and figures.

The page of a comparison (schema ``isorep.compare/2``): the verdict first, then what it rests on.

A result inside a notebook: the ladder and the verdict, with inline styles only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from markupsafe import Markup

from ..report.charts import colour, legend_of, rung_name
from ..report.document import (
    Answer,
    Cell,
    Column,
    Definitions,
    Figure,
    Heading,
    Notes,
    Page,
    Part,
    Prose,
    Section,
    Table,
)
from ..report.figures import Histogram, IntervalRow, Intervals, Key, Line
from ..report.page import MOST_CAVEATS, citation, made_by, settings
from ..report.read import MISSING, Node, compact, fixed, percent, present
from .many_page import pairs_table, run_names
from .page_figures import (
    bracket,
    dimensions_figure,
    matching_figure,
    scatter_figures,
    sides_table,
    spectrum_figure,
    worst_case,
)

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
        Intervals(tuple(rows), "mean error; 1 is no better than the mean"),
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
        Histogram(tuple(edges), tuple(drawn), axes, tuple(nulls)),
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


WEAK = 0.5
"""The error above which two sides agree in part only; the verdict says so in words."""
BEYOND = 1.005
"""An ICA efficiency that prints as more than 100 %."""


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    source, target = _side_name(result, "source"), _side_name(result, "target")
    sections = [
        _ladder(result, source, target),
        worst_case(result, target),
        _scatter(result, source, target),
        _dimensions(result, source, target),
        _residuals(result, target),
        _spectrum(result),
        _caveats(result),
        settings(result.raw),
        citation(result.raw),
    ]
    return Page(
        title=f"{source} → {target} · isorep",
        eyebrow=f"Comparison of {source} (source) with {target} (target)",
        opening=_opening(result, target),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node, target: str) -> tuple[Answer | Definitions, ...]:
    sentence = result["verdict"]["sentence"].text("This result holds no verdict.")
    rung = result["verdict"]["rung"].text()
    head, rest = _in_two(sentence)
    qualified = bool(result["verdict"]["qualified"].text())
    weak = qualified or _is_weak(result["forward"]["rungs"][rung])
    open_ = weak if rung else sentence.startswith(("No verdict", "This result"))
    rungs = [name for name, _ in result["forward"]["rungs"].items()]
    steps = tuple((rung_name(name), name == rung) for name in rungs)
    verdict = Answer(head, rest, None if open_ else bool(rung), steps)
    tiles = _tiles(result, rung or ("linear" if "linear" in rungs else ""), target)
    return (verdict, Definitions(tiles, tiles=True)) if tiles else (verdict,)


def _in_two(sentence: str) -> tuple[str, str]:
    """The answer, and the numbers behind it."""
    answer, stop, numbers = sentence.partition(". ")
    if stop:
        return f"{answer}.", numbers
    answer, stop, numbers = sentence.rpartition(": ")
    return (f"{answer}.", numbers[:1].upper() + numbers[1:]) if stop else (sentence, "")


def _is_weak(rung: Node) -> bool:
    mean = rung["held_out"]["mean"].number()
    return mean is not None and mean > WEAK


def _tiles(result: Node, rung: str, target: str) -> tuple[tuple[str, str, str], ...]:
    node = result["forward"]["rungs"][rung]
    mean, null = node["held_out"]["mean"].number(), node["null"]["mean"].number()
    low, high = node["interval"]["low"].number(), node["interval"]["high"].number()
    efficiency = result["forward"]["ica_efficiency"].number()
    ends = bracket(result)
    tiles = []
    if mean is not None:
        span = "" if low is None or high is None else f", {fixed(low)} to {fixed(high)}"
        tiles.append((f"held-out error, {rung_name(rung)}", fixed(mean), f"1 is no better than the mean{span}"))
    if mean is not None and null:
        explained = node["explained"].number()
        told = "" if explained is None else f"; {percent(explained)} of the variance is explained, held out"
        tiles.append(("chance", fixed(null), f"the error of shuffled rows{told}"))
    if ends is not None:
        remark = f"diameters, certified; no rigid map does better than {fixed(ends[0], 3)}"
        tiles.append(("worst row, best rigid map", f"≤ {fixed(ends[1], 3)}", remark))
    if efficiency is not None:
        tiles.append(("ICA efficiency", percent(efficiency), _efficiency_remark(efficiency)))
    return tuple(tiles)


def _efficiency_remark(efficiency: float) -> str:
    if efficiency > BEYOND:
        return "no share: ICA undoes stretches that no rotation can, and leaves less"
    return (
        "of what a rotation gains over matching, ICA gains as well"
        if efficiency >= 0
        else "ICA gains nothing on matching"
    )


def _ladder(result: Node, source: str, target: str) -> Section | None:
    forward, reverse = result["forward"], result["reverse"]
    if not forward["rungs"].items():
        return None
    rung = result["verdict"]["rung"].text()
    unit = (
        f"{source} mapped onto {target}: mean error in mean distances of {target} to its mean; lower is closer, and 1 "
        f"is no better than predicting the mean. The last column is in diameters of {target}{_diameter(forward)}."
    )
    parts: list[Part] = [
        Prose((unit,)),
        ladder_table(forward, "ladder", f"{source} → {target}", rung),
        ladder_figure(forward, rung, target),
        statistics_table(forward),
    ]
    if reverse["rungs"].items():
        back = reverse["verdict"]["rung"].text()
        said = reverse["verdict"]["sentence"].text()
        unit = (
            f"{target} mapped onto {source}: mean error in mean distances of {source} to its mean; the last column is "
            f"in diameters of {source}{_diameter(reverse)}."
        )
        parts += [
            Heading("The reverse direction"),
            Prose((unit, said) if said else (unit,)),
            ladder_table(reverse, "ladder-reverse", f"{target} → {source}", back),
        ]
    return Section("the-ladder", "The ladder", tuple(parts))


def _scatter(result: Node, source: str, target: str) -> Section | None:
    row = scatter_figures(result["figures"]["scatter"], source, target)
    return Section("alignment", "Before and after alignment", row) if row else None


def _dimensions(result: Node, source: str, target: str) -> Section | None:
    figures = (
        matching_figure(result["figures"]["matching"], source, target),
        dimensions_figure(result["figures"]["dimensions"], target),
    )
    parts = tuple(figure for figure in figures if figure is not None)
    return Section("dimensions", "Single dimensions", parts) if parts else None


def _residuals(result: Node, target: str) -> Section | None:
    figure = residuals_figure(result["figures"]["residuals"], target)
    return Section("residuals", "Residuals", (figure,)) if figure else None


def _spectrum(result: Node) -> Section | None:
    sides = [(f"{result[kind]['name'].text(kind)} ({kind})", result[kind]) for kind in ("source", "target")]
    known = [(said, side) for said, side in sides if side.items()]
    figure = spectrum_figure(result)
    if not known and figure is None:
        return None
    parts: tuple[Part, ...] = (sides_table("sides", "The two sides", "side", known),) if known else ()
    return Section("rank", "Rank and spectrum", (*parts, figure) if figure else parts)


def _caveats(result: Node) -> Section | None:
    if result["caveats"].raw is None:
        return None
    found = tuple(node.text() for node in result["caveats"].nodes(MOST_CAVEATS) if node.text())
    said: Notes | Prose = Notes(found) if found else Prose(("None that isorep knows of applies to this pair.",))
    return Section("caveats", "Caveats", (said,))


def _side_name(result: Node, kind: str) -> str:
    return result[kind]["name"].text() or result["forward"][kind].text() or kind


def _diameter(direction: Node) -> str:
    value = direction["diameter"]["value"].number()
    if value is None:
        return ""
    return f" ({compact(value, 6)}, {'exact' if direction['diameter']['exact'].raw is True else 'a lower bound'})"


TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0 0 .75em"
CELL = "padding:.3em .8em;border-bottom:1px solid rgba(128,128,128,.35);background:none;text-align:"


def snippet(result: Any) -> str:
    """HTML for one cell's output; colours are left to the notebook, light or dark."""
    node = Node(result)
    table = ladder_table(node["forward"], "ladder", "", node["verdict"]["rung"].text())
    source, target = node["forward"]["source"].text("source"), node["forward"]["target"].text("target")
    return _cell_output(
        node, f"{source} → {target}: mean error; lower is closer, 1 is no better than the mean of {target}", table
    )


def many_snippet(result: Any) -> str:
    """The same for many runs: the verdict, and the ladder over all pairs."""
    node = Node(result)
    names = run_names(node)
    said = f"{len(names)} runs, all ordered pairs: mean error; lower is closer, 1 is no better than the mean"
    return _cell_output(node, said, pairs_table(node, names))


def _cell_output(node: Node, unit: str, table: Table) -> str:
    head = Markup("").join(_cell("th", column.title, column.numeric, False) for column in table.columns)
    rows = [
        Markup("").join(
            _cell("td", cell.text, column.numeric, row[0].strong)
            for cell, column in zip(row, table.columns, strict=True)
        )
        for row in table.rows
    ]
    body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in (head, *rows))
    notes = Markup("").join(
        Markup('<p style="margin:0 0 .4em;opacity:.75">note: {}</p>').format(caveat.text())
        for caveat in node["caveats"].nodes()
    )
    return str(
        Markup(
            '<div style="max-width:60em"><p style="margin:0 0 .5em;font-size:1.1em;font-weight:600">{}</p>'
            '<p style="margin:0 0 .3em;opacity:.75">{}</p>'
            '<table style="{}">{}</table>{}</div>'
        ).format(node["verdict"]["sentence"].text(), unit, TABLE, body, notes)
    )


def _cell(element: str, text: str, numeric: bool, strong: bool) -> Markup:
    style = CELL + ("right" if numeric else "left") + (";font-weight:700" if strong else "")
    return Markup('<{0} style="{1}">{2}</{0}>').format(Markup(element), style, text)
