"""The page of a reproduced experiment: verdict, claims, figures, tables with the published ones and units."""

from __future__ import annotations

from ..report import document
from ..report.document import Answer, Cell, Column, Figure, Forms, Page, Prose, Section
from ..report.figures import Heatmap, IntervalRow, Intervals, Key, Picture
from ..report.figures import Line as DrawnLine
from ..report.figures import Lines as DrawnLines
from ..report.page import page_of
from ..report.read import compact, count, fixed
from ..results import counted
from .experiment import ANSWERS, Chart, Row, Table
from .runner import Reproduction

COLOURS = 7  # of series


def page(result: Reproduction) -> Page:
    """All of it, most important first."""
    summary = result.summary
    claims = tuple((ANSWERS[each.holds], each.text, f"measured: {each.told}") for each in summary.claims)
    held = sum(each.holds is True for each in summary.claims)
    minutes = f"{compact(result.timing.total / 60, 3)} min"
    tables = tuple(page_table(table) for table in summary.tables if table.rows)
    return page_of(
        result,
        f"{result.title} · reproduction",
        f"{result.title}, {result.scale} scale",
        Answer(HEADLINES[summary.reached, held == len(claims)], summary.verdict, summary.reached),
        (
            *((("claims that hold", f"{held} of {len(claims)}", "of the paper, as measured here"),) if claims else ()),
            ("run time", minutes, f"{count(len(result.outcomes))} units of work"),
            ("scale", result.scale, f"seed {result.settings['seed']}"),
        ),
        (
            Section("claims", "Claims", (document.Definitions(claims),)) if claims else None,
            Section("figures", "Figures", tuple(figure_of(chart) for chart in summary.charts)),
            Section("tables", "Obtained and published", (Prose((f"Published: {result.paper}",)), *tables))
            if tables
            else None,
            Section("units", "Units of work", (_times(result),)) if result.timing.units else None,
        ),
        data=f"{counted(len(result.outcomes), 'unit of work', 'units of work')} at {result.scale} scale",
    )


HEADLINES = {
    (True, True): "The published effect is seen.",
    (True, False): "The main published effect is seen; not every claim is.",
    (False, False): "The published effect is not seen.",
    (None, False): "Whether the published effect is seen is undecided.",
    (None, True): "Nothing was measured.",  # and so there are no claims
}
"""By whether the first claim holds, and whether all do."""


def page_table(table: Table) -> document.Table:
    """Published rows under obtained ones: side by side they would not fit a page."""
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        if row.values:
            rows.append((Cell(row.name), *_obtained(row, len(table.columns))))
        if row.published:
            published = tuple(Cell(fixed(value, 3), value, strong=True) for value in row.published)
            rows.append((Cell(f"{row.name}, published", strong=True), *published))
    source = (f"published: {table.source or 'source unknown'}",) if any(row.published for row in table.rows) else ()
    title = "; ".join(filter(None, (table.title, table.direction, *source)))
    columns = (Column("", numeric=False), *map(Column, table.columns))
    return document.Table(f"{table.name}-table", title, columns, tuple(rows))


def figure_of(chart: Chart) -> Figure:
    """A chart of plain numbers as the page draws it."""
    name = f"{chart.name}-figure"
    if chart.picture:
        return Figure(name, chart.title, chart.caption, "", Picture(chart.picture, chart.title))
    if chart.cells:
        left = 180.0 if chart.words else 110.0
        grid = Heatmap(chart.cells, *chart.sides, chart.axes, left=left, signed=False, words=chart.words)
        return Figure(name, chart.title, chart.caption, "", grid)
    if chart.lines:
        lines = tuple(
            DrawnLine(line.name, _colour(line.series), line.points, line.labels, line.dotted, line.spans)
            for line in chart.lines
        )
        drawn = DrawnLines(lines, chart.axes, 300, ticks=chart.ticks, square=chart.square, notes=chart.notes)
        return Figure(name, chart.title, chart.caption, "", drawn)
    rows = []
    for mark in chart.marks:
        ends = None if mark.low is None or mark.high is None else (mark.low, mark.high)
        said = fixed(mark.value, 3) + ("" if ends is None else f", {fixed(ends[0], 3)} to {fixed(ends[1], 3)}")
        bound = None if mark.bound is None else (mark.bound,) * 3
        labels = (said, "", "" if bound is None else f"{chart.bound or 'bound'}: {fixed(mark.bound, 3)}")
        place = (mark.value, ends, None, bound)
        rows.append(IntervalRow(mark.name, _colour(mark.series), *place, labels=labels, printed=fixed(mark.value, 3)))
    legend = [Key("dot", "s0", "value"), Key("whisker", "s0", chart.whisker)]
    if any(row.band for row in rows):
        legend.append(Key("tick", "s0", chart.bound or "bound"))
    numbers: Forms = {"": str, **dict.fromkeys(("value", "low", "high", chart.bound or "bound"), lambda x: fixed(x, 3))}
    cells = [(mark.name, mark.value, mark.low, mark.high, mark.bound) for mark in chart.marks]
    table = document.Table.of(f"{name}-table", "The figure in numbers", numbers, cells, folded=True)
    intervals = Intervals(tuple(rows), chart.axes[0])
    return Figure(name, chart.title, chart.caption, "", intervals, tuple(legend), table)


def _obtained(row: Row, width: int) -> list[Cell]:
    errors = row.errors or (None,) * width
    return [
        Cell(fixed(value, 3) + ("" if value is None or error is None else f" ± {fixed(error, 3)}"), value)
        for value, error in zip(row.values, errors, strict=True)
    ]


def _times(result: Reproduction) -> document.Table:
    columns: Forms = {"unit": str, "seconds": lambda seconds: fixed(seconds, 1)}
    seconds = list(result.timing.units.items())
    return document.Table.of("unit-times", "Seconds of every unit", columns, seconds, folded=True)


def _colour(series: int) -> str:
    return f"s{series % COLOURS}"
