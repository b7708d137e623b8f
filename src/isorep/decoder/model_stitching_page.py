"""The page of model stitching: every map beside both networks, closeness at the layer beside the loss."""

from __future__ import annotations

from ..report.document import Answer, Cell, Figure, Forms, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from .model_stitching_result import ModelStitching, Outcome

SERIES = {"parent": "s0", "map": "s2", "control": "s1", "retrained": "s3"}
KINDS = {"parent": "network", "map": "map between the layers", "control": "uninformed", "retrained": "trained"}
ABOUT = (
    "The first network is run up to its layer, its output is mapped, and the rest of the second network takes over. "
    "Maps are fitted on one half of the rows without the targets; everything here is on the other half. Uninformed "
    "are a random rotation, least squares on shuffled rows, and a constant output."
)
CLOSE = (
    "The error at the layer is the mean distance of mapped rows from the second network's own, in mean distances of "
    "these to their mean: 1 is no better than the mean. What the task feels need not follow it."
)


def page(result: ModelStitching) -> Page:
    """Outcomes first, then closeness at the layer."""
    first, second = result.names
    at = result.layers[0] if result.layers[0] == result.layers[1] else " and ".join(result.layers)
    answer = result.verdict.answer
    headline = {"none": "No map between the layers suffices.", "undetermined": "Nothing can be said."}
    reached = None if answer == "undetermined" else answer != "none"
    return page_of(
        result,
        f"{first} and {second} · stitching",
        f"{first} up to {at}, then {second}",
        Answer(headline.get(answer, "A map between the layers suffices."), result.verdict.sentence, reached),
        _tiles(result),
        (
            Section("outcomes", "Loss and accuracy", (_figure(result), Prose((ABOUT,)), _table(result))),
            _closeness(result),
        ),
        data=f"layers {size(sum(result.rows), result.widths[0])} and {size(sum(result.rows), result.widths[1])}",
    )


def _shown(result: ModelStitching) -> list[Outcome]:
    return [*result.parents, *result.outcomes]


def _name(each: Outcome) -> str:
    return f"{each.name} alone" if each.kind == "parent" else each.name.replace("_", " ")


def _tiles(result: ModelStitching) -> list[tuple[str, str, str]]:
    maps = [each for each in result.outcomes if each.kind == "map" and each.recovered is not None]
    best = max(maps, key=lambda each: each.recovered or 0.0, default=None)
    tiles = [("held-out rows", count(result.rows[1]), f"maps fitted on {count(result.rows[0])}")]
    if best is not None:
        tiles.insert(0, ("loss recovered", percent(best.recovered, 1), f"by the best map, {_name(best)}"))
    second = result.parents[1]
    if second.accuracy is not None:
        tiles.append(("accuracy", percent(second.accuracy, 1), f"of {second.name} alone"))
    return tiles


def _figure(result: ModelStitching) -> Figure:
    classes = result.parents[0].accuracy is not None
    rows = []
    for each in _shown(result):
        value, span = (each.accuracy, each.accuracy_interval) if classes else (each.loss, each.interval)
        text = percent(value, 1) if classes else compact(value, 3)
        ends = None if span is None else (span.low, span.high)
        strong = each.kind == "map" and each.name == result.verdict.answer
        rows.append(
            IntervalRow(_name(each), SERIES[each.kind], value, ends, strong=strong, labels=(text, "", ""), printed=text)
        )
    return Figure(
        "outcomes-figure",
        "Accuracy on held-out rows" if classes else "Loss on held-out rows",
        "Networks alone, maps between their layers, maps that know nothing, and maps trained on the targets.",
        "",
        Intervals(tuple(rows), "accuracy" if classes else "loss", end=1.04 if classes else None),
        legend=tuple(Key("dot", SERIES[kind], words) for kind, words in KINDS.items()),
    )


def _table(result: ModelStitching) -> Table:
    columns: Forms = {
        "stitched by": str,
        "kind": str,
        "loss": lambda x: compact(x, 4),
        "95% interval": str,
        "accuracy": lambda x: percent(x, 1),
        "error at the layer": lambda x: fixed(x, 3),
        "recovered": lambda x: percent(x, 1),
    }
    rows = [
        (
            _name(each),
            KINDS[each.kind],
            each.loss,
            Cell.between(each.interval, lambda x: compact(x, 4)),
            *(Cell(MISSING) if value is None else value for value in (each.accuracy, each.error, each.recovered)),
        )
        for each in _shown(result)
    ]
    return Table.of("stitches", "All outcomes", columns, rows)


def _closeness(result: ModelStitching) -> Section | None:
    known = [each for each in result.outcomes if each.error is not None and each.kind != "control"]
    if len(known) < 2:
        return None
    lines = tuple(
        Line(
            KINDS[kind],
            SERIES[kind],
            tuple((float(each.error or 0.0), each.loss) for each in known if each.kind == kind),
            tuple(f"{_name(each)}: error {fixed(each.error, 3)}, loss {compact(each.loss, 3)}"
                  for each in known if each.kind == kind),
            dotted=True,
        )
        for kind in dict.fromkeys(each.kind for each in known)
    )  # fmt: skip
    chart = Lines(lines, ("error at the layer", "loss"))
    figure = Figure("closeness-figure", "Closeness at the layer and loss", "One dot per map.", "", chart)
    return Section("closeness", "Closeness that the task feels", (Prose((CLOSE,)), figure))
