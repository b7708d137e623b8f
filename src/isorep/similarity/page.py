"""The pages of similarity indices: all indices of a pair, and one index layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..report.document import Answer, Cell, Definitions, Figure, Forms, Page, Part, Prose, Section, Table
from ..report.figures import Heatmap, IntervalRow, Intervals, Key
from ..report.page import page_of, size
from ..report.read import MISSING, count, fixed, p_value
from ..resampling import Null
from .layers import LayerMatrix
from .table import FOUND, SHOWN, Similarities

CEILING = (
    "Runs differ among themselves, so that no model reaches 1 with all of them. The lower bound is the mean "
    "correlation of a run with the mean of the others, the upper one that with the mean of all, which includes the run."
)
MOST_LAYERS = 100
NEGATIVE = -0.05  # corrected values below this are shown as such: nearer to 0 they are chance


def page(result: Similarities) -> Page:
    """All indices of a pair."""
    source, target = result.names
    p_values = [each.p_value for each in result.indices.values() if each.p_value is not None]
    judged = [p <= FOUND for p in p_values if np.isfinite(p)]
    reached = all(judged) if judged and any(judged) == all(judged) else None
    closer = f"{sum(judged)} of {len(judged)} indices find the two closer than chance."
    answer = Answer(closer if judged else "Values without a chance level.", result.reading, reached)
    meanings = Definitions(tuple((*SHOWN[name], "") for name in result.indices))
    parts: tuple[Part, ...] = (*_figure(result), _table(result), Prose((_explanation(result),)), meanings)
    return page_of(
        result,
        f"{source} and {target} · similarity",
        f"How similar {source} and {target} are",
        answer,
        _tiles(result, judged),
        (Section("indices", "Indices", parts), _ceiling(result)),
        data=" and ".join(
            f"{name} {size(result.rows, width)}" for name, width in zip(result.names, result.columns, strict=True)
        ),
    )


def _ceiling(result: Similarities) -> Section | None:
    """The noise ceiling of RSA, run by run."""
    if result.ceiling is None:
        return None
    columns: Forms = {"run": str, "lower": fixed, "upper": fixed, result.names[0]: fixed}
    rows = [tuple(row.values()) for row in result.ceiling.frame_rows()]
    table = Table.of(
        "ceiling-runs", "Correlation with the mean of the other runs, of all runs, and with the source", columns, rows
    )
    return Section("ceiling", "Noise ceiling of RSA", (Prose((result.ceiling.sentence, CEILING)), table))


def _tiles(result: Similarities, judged: Sequence[bool]) -> list[tuple[str, str, str]]:
    """How many indices are beyond chance, the highest and the lowest on the scale they share, and the shuffles."""
    drawn = result.settings["permutations"]
    if not drawn:
        return [("rows", count(result.rows), "no null was drawn")]
    tiles = [("closer than chance", f"{sum(judged)} of {len(judged)}", f"indices with p at most {FOUND:g}")]
    known = {
        name: each.corrected
        for name, each in result.indices.items()
        if each.corrected is not None and np.isfinite(each.corrected)
    }
    for words, pick in (("highest", max), ("lowest", min)) if len(known) > 1 else ():
        name = pick(known, key=lambda each: known[each])
        said = f"{SHOWN[name][0]}; 0 is chance, 1 a perfect match"
        tiles.append((f"{words} corrected value", fixed(known[name], 2), said))
    return [*tiles, ("permutations", count(drawn), f"of {_moved(result.settings)}")]


def _moved(settings: Mapping[str, Any]) -> str:
    """What was shuffled."""
    groups, classes = settings["groups"], settings["within"]
    moved = "rows" if groups is None else f"{count(groups)} groups"
    return moved if classes is None else f"{moved} within {count(classes)} classes"


def _chance(settings: Mapping[str, Any]) -> str:
    """What chance means on this page, and what a p-value counts."""
    moved = "rows" if settings["groups"] is None else "whole groups of rows"
    said = f"Chance is what remains when {moved} of one side change places"
    if settings["within"] is not None:
        said += (
            " inside their class: it includes what the classes alone explain, and the p-value is about agreement "
            "beyond the classes"
        )
    return f"{said}. The p-value is the share of pairings, the real one among them, that look at least as close."


def _explanation(result: Similarities) -> str:
    inexact = [SHOWN[name][0] for name, each in result.indices.items() if each.null is not None and not each.null.exact]
    said = (
        f"{_chance(result.settings)} Few rows or many dimensions raise the chance level of most indices. Corrected "
        "values run from chance (0) to a perfect match (1) and can be set side by side; the plain ones cannot."
    )
    if inexact:
        said += f" The null of {', '.join(inexact)} is a sketch with the exact mean and variance; the others are exact."
    return said


def _figure(result: Similarities) -> tuple[Figure, ...]:
    """Corrected values, where there are any."""
    rows = tuple(
        _interval_row(SHOWN[name][0], each.corrected, each.null, each.best)
        for name, each in result.indices.items()
        if each.null is not None and each.corrected is not None and np.isfinite(each.corrected)
    )
    told = "; ".join(f"{row.name} {row.printed}" for row in rows)
    figure = Figure(
        "indices-figure",
        "Null-corrected values",
        "0 is the mean of shuffled pairings, 1 a perfect match; the band holds 95% of shuffled pairings.",
        f"Corrected values: {told}.",
        Intervals(rows, "from chance (0) to a perfect match (1)", end=1.04),
        legend=(Key("dot", "s2", "corrected value"), Key("tick", "", "chance, 95% range")),
    )
    return (figure,) if rows else ()


def _interval_row(name: str, corrected: float, null: Null, best: float) -> IntervalRow:
    low, high = sorted((edge - null.mean) / (best - null.mean) for edge in null.range_95)
    return IntervalRow(
        name,
        "s2",
        value=min(max(corrected, -1.0), 1.0),
        band=(min(max(low, -1.0), 0.0), 0.0, max(min(high, 1.0), 0.0)),
        labels=(f"corrected {fixed(corrected)}", "", f"chance, 95% range {fixed(low)} to {fixed(high)}"),
        printed=fixed(corrected, 2),
    )


def _table(result: Similarities) -> Table:
    used: Forms = {"of rows used": fixed} if result.cut else {}
    columns: Forms = {"index": str, "value": fixed, **used, "closer is": str, "chance": fixed}
    columns = {**columns, "chance, 95% range": fixed, "corrected": fixed, "p": fixed}
    rows = []
    for name, each in result.indices.items():
        null = each.null
        numbers: tuple[Any, ...] = (Cell(MISSING),) * 4
        if null is not None:
            low, high = null.quantile(0.025), null.quantile(0.975)
            span = Cell(f"{fixed(low)} to {fixed(high)}", low)
            numbers = (null.mean, span, each.corrected, _p_cell(null.p_value, null.smallest_p))
        own = (each.value if null is None else null.observed,) if result.cut else ()
        rows.append((SHOWN[name][0], each.value, *own, "higher" if each.higher_is_closer else "lower", *numbers))
    return Table.of("indices", "All indices", columns, rows)


def _p_cell(p: float, smallest: float) -> Cell:
    return Cell(p_value(p, smallest), float(p) if np.isfinite(p) else None)


# Layer by layer


def layers_page(result: LayerMatrix) -> Page:
    """One index between all layers of two models."""
    index, best = SHOWN[result.index][0], result.overall
    reading = result.reading.replace(f": {result.index} ", f": {index} ")
    cells = int(np.isfinite(result.p_values).sum())
    closer = f"{int((result.adjusted_p_values <= FOUND).sum())} of {cells} pairs of layers are closer than chance."
    answer = Answer(
        closer if cells else "Values without a chance level.",
        reading,
        best.p_value <= FOUND if np.isfinite(best.p_value) else None,
    )
    permutations = result.settings["permutations"]
    drawn = f"{count(permutations)} permutations" if permutations else "no null"
    tiles = [("rows", count(result.settings["rows"]), drawn)]
    if np.isfinite(best.corrected):
        said = "0 is the closest that chance picks, 1 a perfect match"
        tiles.insert(0, ("closest cell, corrected", fixed(best.corrected, 2), said))
    return page_of(
        result,
        f"{index} layer by layer",
        f"{index} between all layers of two models",
        answer,
        tiles,
        (_matrix(result), _closest(result)),
        data=f"{count(result.settings['rows'])} rows, {len(result.source_layers)} × {len(result.target_layers)} layers",
    )


def _matrix(result: LayerMatrix) -> Section:
    with_null = bool(np.isfinite(result.corrected).any())
    cells = (result.corrected if with_null else result.values)[:MOST_LAYERS, :MOST_LAYERS]
    shown = tuple(
        tuple(value if np.isfinite(value) else None for value in row) for row in np.clip(cells, -1, 1).tolist()
    )
    names = (result.source_layers[:MOST_LAYERS], result.target_layers[:MOST_LAYERS])
    figure = Figure(
        "layers-figure",
        f"{SHOWN[result.index][0]}, source layers by target layers",
        "Corrected values: 0 is chance, 1 a perfect match." if with_null else "Plain values: no null was drawn.",
        f"Heat map of {len(names[0])} by {len(names[1])} layers.",
        Heatmap(shown, *names, ("target layer", "source layer"), signed=bool((cells < NEGATIVE).any())),
        table=_cells(result, names),
    )
    chance = (Prose((_chance(result.settings),)),) if with_null else ()
    return Section("matrix", "Layer by layer", (figure, *chance))


def _cells(result: LayerMatrix, names: tuple[tuple[str, ...], tuple[str, ...]]) -> Table:
    numbers: Forms = dict.fromkeys(("value", "chance", "corrected", "p", "p, all cells"), fixed)
    columns: Forms = {"source layer": str, "target layer": str, **numbers}
    rows = [
        (
            source,
            target,
            *(float(grid[i, j]) for grid in (result.values, result.chance, result.corrected)),
            *(_p_cell(grid[i, j], result.smallest_p) for grid in (result.p_values, result.adjusted_p_values)),
        )
        for i, source in enumerate(names[0])
        for j, target in enumerate(names[1])
    ]
    return Table.of("cells", "Every cell", columns, rows, folded=True)


def _closest(result: LayerMatrix) -> Section:
    numbers: Forms = dict.fromkeys((SHOWN[result.index][0], "chance", "corrected", "p"), fixed)
    columns: Forms = {"source layer": str, "closest": str, **numbers}
    rows = [
        (each.source, each.target, each.value, each.chance, each.corrected, _p_cell(each.p_value, result.smallest_p))
        for each in result.best[:MOST_LAYERS]
    ]
    title = "The closest target layer of every source layer, and the closest that chance picks"
    return Section("closest", "Closest layers", (Table.of("best", title, columns, rows),))
