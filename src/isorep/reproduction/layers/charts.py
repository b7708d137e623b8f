"""Figure 4 as it comes out here, the ladder by layer, and errors against what remains."""

from __future__ import annotations

import math

from ...comparison.rungs import RUNGS
from ..experiment import Chart, Line
from ..ticks import log_ticks
from .reading import Group, Number, Reading

LAYER = "layer, the last on the right"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """Two figures for each group of pairs, and one of all."""
    drawn = [chart for group in reading.groups for chart in (_svcca(group), _ladder(group))]
    rest = _against(reading)
    return (*(chart for chart in drawn if chart.lines), *((rest,) if rest.lines else ()))


def _svcca(group: Group) -> Chart:
    lines = []
    for key, words in (("layers", ""), ("initial", ", before")):
        for place, components in enumerate(group.components):
            cells = {at: group.svcca(at, components, key) for at in reversed(group.places)}
            line = _line(group, f"k = {components}{words}", cells, place, dotted=bool(words))
            lines += [line] if line is not None else []
    return Chart(
        f"svcca-{group.anchor}",
        f"{group.name}: SVCCA by layer (Figure 4)",
        f"SVCCA with k components, mean over {group.count} with its standard error, on held-out documents. Dots "
        "without a line are the same networks before training: what the input alone makes similar.",
        (LAYER, "mean canonical correlation"),
        lines=tuple(lines),
        ticks=_ticks(group),
    )


def _ladder(group: Group) -> Chart:
    lines = []
    for place, rung in enumerate(RUNGS):
        cells = {at: group.error(at, rung, share=True) for at in reversed(group.places)}
        line = _line(group, rung.replace("_", " "), cells, place)
        lines += [line] if line is not None else []
    return Chart(
        f"ladder-{group.anchor}",
        f"{group.name}: what is left after each group of maps",
        f"Held-out error as a share of what shuffled documents give, mean over {group.count} with its "
        "standard error; lower is closer.",
        (LAYER, "held-out error / chance"),
        lines=tuple(lines),
        ticks=_ticks(group),
    )


def _against(reading: Reading) -> Chart:
    """One dot for each layer of each pair."""
    lines = []
    for colour, group in enumerate(reading.groups[:6]):
        points, labels = [], []
        for pair in group.pairs:
            for place in group.places:
                constant, error = pair.constant(place), pair.error(place, "rigid", share=True)
                if constant is not None and error is not None:
                    points.append((math.log10(constant), error))
                    labels.append(f"{group.name}, {group.label(place)}: {constant:.3g}, {error:.2f}")
        if points:
            lines.append(Line(group.name, tuple(points), tuple(labels), colour, dotted=True))
    return Chart(
        "constants",
        "Rigid error against the constant of the remaining network",
        "A dot is a layer of a pair; across, the local constant after the best scale, on a logarithmic axis. 1 is an "
        "isometry, as at the last layer, where nothing remains. Depth drives both axes.",
        ("local bi-Lipschitz constant of the rest", "held-out rigid error / chance"),
        lines=tuple(lines),
        ticks=log_ticks(x for line in lines for x, _ in line.points),
    )


def _line(
    group: Group, name: str, cells: dict[int, tuple[Number, Number]], colour: int, *, dotted: bool = False
) -> Line | None:
    known = [(at, value, error or 0.0) for at, (value, error) in cells.items() if value is not None]
    if not known:
        return None
    return Line(
        name,
        tuple((-float(at), value) for at, value, _ in known),
        tuple(f"{name}, {group.label(at)}: {value:.3f} ± {error:.3f}" for at, value, error in known),
        colour,
        dotted=dotted,
        spans=tuple((value - error, value + error) for _, value, error in known),
    )


def _ticks(group: Group) -> tuple[tuple[float, str], ...]:
    names = {at: group.label(at) for at in group.places}
    return tuple((-float(at), name.removesuffix(" before the last")) for at, name in reversed(names.items()))
