"""Figures 2 and A.3 to A.6, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..experiment import Chart, Line, Mark
from .curves import fit_curve
from .measuring import QUANTILES
from .presets import Preset
from .reading import Pair, Part

ERROR = "mean rigid error, % of the diameter"
TERM = {"2L+L2": "√(2L + L²)", "L+L2": "√(L + L²)"}
_COLOURED = 6
_POINTS = 80  # more than are drawn as dots


def charts(parts: list[Part], preset: Preset) -> tuple[Chart, ...]:
    """Figure 2 for every part; the others for the first."""
    drawn: list[Chart] = []
    for place, part in enumerate(parts):
        drawn.append(_against_term(part, preset, "mean"))
        if place == 0:
            drawn += [_distribution(part), _against_term(part, preset, "max"), _reconstruction(part)]
    return tuple(drawn)


def _against_term(part: Part, preset: Preset, statistic: str) -> Chart:
    """Figure 2 (or A.6) with the mean over samples, Figure A.4 with the largest."""
    lines = _clouds(part, lambda pair: part.x(pair, "paper", statistic))
    x, errors = part.columns("paper", statistic)
    curve = fit_curve(x, errors, preset.intercept)
    ends = np.linspace(0.0, float(x.max()) if len(x) else 1.0, _POINTS)
    drawn = tuple((float(value), 100 * (curve.slope * float(value) + curve.intercept)) for value in ends)
    fitted = "none" if curve.r2 is None else f"{curve.r2:.2f}"
    lines.append(Line("fitted", drawn, tuple(f"{100 * curve.slope:.3g} x {at:.2f}" for at, _ in drawn)))
    figure = "A.6" if part.by_class else "2" if statistic == "mean" else "A.4"
    which = preset.statistic if statistic == "mean" else "largest L"
    return Chart(
        f"{'error' if statistic == 'mean' else 'largest'}-{part.name}{'-class' if part.by_class else ''}",
        f"{part.title}: error against L (Figure {figure})",
        f"A dot is a pair of autoencoders. Across: {TERM[preset.form]} of the decoders ({which}, ten directions). "
        f"The curve is err = a {TERM[preset.form]}, R² {fitted}. The leak drives both axes.",
        (f"{TERM[preset.form]}, {'mean over samples' if statistic == 'mean' else 'largest over samples'}", ERROR),
        lines=tuple(lines),
    )


def _distribution(part: Part) -> Chart:
    """Figure A.3: local constants, by leak."""
    marks = []
    for place, leak in enumerate(part.leaks):
        sides = [side["paper"] for pair in part.at(leak) for side in pair.found["sides"]]
        if sides:
            spread = dict(zip(QUANTILES, np.mean([side["quantiles"] for side in sides], axis=0), strict=True))
            largest = max(side["max"] for side in sides)
            marks.append(
                Mark(
                    f"leak {leak:g}",
                    float(spread[0.5]),
                    float(spread[0.05]),
                    float(spread[0.95]),
                    float(largest),
                    _colour(place),
                )
            )
    return Chart(
        f"constants-{part.name}",
        f"{part.title}: local constants 1 + L (Figure A.3)",
        "Median of the local constants with their 5 % and 95 % quantiles, averaged over autoencoders; the tick is the "
        "largest of all. 1 is an isometry.",
        ("local bi-Lipschitz constant 1 + L, ten directions", ""),
        marks=tuple(marks),
        bound="largest",
        whisker="5 % to 95 % of the samples",
    )


def _reconstruction(part: Part) -> Chart:
    """Figure A.5: reconstruction is not perfect, and does not decide the error."""
    return Chart(
        f"reconstruction-{part.name}",
        f"{part.title}: error against reconstruction (Figure A.5)",
        "A dot is a pair of autoencoders; across, the worse mean squared error of a pixel of the two. Perfect "
        "reconstruction, which the theorem assumes, would be zero.",
        ("1000 x mean squared error of a pixel", ERROR),
        lines=tuple(_clouds(part, lambda pair: 1000 * pair.reconstruction)),
    )


def _clouds(part: Part, x: Callable[[Pair], float]) -> list[Line]:
    """Dots of each leak in its colour."""
    lines = []
    for place, leak in enumerate(part.leaks[:_COLOURED]):
        pairs = part.at(leak)
        if pairs:
            points = tuple((x(pair), 100 * pair.error) for pair in pairs)
            labels = tuple(f"leak {leak:g}: {across:.3g}, {up:.3g} %" for across, up in points)
            lines.append(Line(f"leak {leak:g}", points, labels, _colour(place), dotted=True))
    return lines


def _colour(place: int) -> int:
    return 1 + place % _COLOURED
