"""Figures 3b to 3d with their controls, and what each group of maps explains."""

from __future__ import annotations

import numpy as np

from ..experiment import Chart, Line, Mark
from .reading import Point, Reading, number
from .trends import Estimate, estimate
from .units import SIDES

AXES = {"training": "training steps", "images": "training images", "width": "hidden units"}
FIGURES = {"training": "3b", "images": "3c", "width": "3d"}
RUNGS = {"linear": "linear", "rigid": "rigid", "signed_permutation": "signed permutation"}


def charts(reading: Reading) -> tuple[Chart, ...]:
    """Two figures a sweep, and the controls."""
    drawn = [make(reading, name) for name in reading.sweeps for make in (_correlations, _shares)]
    return (*drawn, _controls(reading)) if reading.base else ()


def _correlations(reading: Reading, name: str) -> Chart:
    points = reading.sweeps[name]
    lines = [_line(f"{side}, trained", points, side, "cca", place) for place, side in enumerate(SIDES)]
    if name != "training":
        before = reading.untrained(name)
        lines += [_line(f"{side}, untrained", before, side, "cca", 2 + place) for place, side in enumerate(SIDES)]
    lines += [
        _line(f"{side} with components of the pixels", points, side, "pixels.cca", 4 + place, dotted=True)
        for place, side in enumerate(SIDES)
    ]
    return Chart(
        f"cca-{name}",
        f"Mean CCA against {AXES[name]} (Figure {FIGURES[name]})",
        "Mean over pairs with its standard error, on images that no model was trained on. Components of the pixels are "
        f"as many as outputs, and know nothing of the task. Chance is {_chance(points[-1])}.",
        (AXES[name], "mean CCA"),
        lines=tuple(lines),
        ticks=_ticks(points),
    )


def _shares(reading: Reading, name: str) -> Chart:
    points = reading.sweeps[name]
    lines = [
        _line(f"{side}, {words}", points, side, f"r2.{rung}", 3 * place + seat)
        for place, side in enumerate(SIDES)
        for seat, (rung, words) in enumerate(RUNGS.items())
    ]
    return Chart(
        f"shares-{name}",
        f"Held-out R² by group of maps, against {AXES[name]}",
        "Share of the variance of one training that another explains after the best map of the group, mean over pairs "
        "with its standard error.",
        (AXES[name], "held-out R²"),
        lines=tuple(lines),
        ticks=_ticks(points),
    )


def _controls(reading: Reading) -> Chart:
    first, last = reading.sweeps["training"][0], reading.sweeps["training"][-1]
    marks = []
    for place, side in enumerate(SIDES):
        rows = [
            (f"{side}, two trained", last.estimate(side, "cca")),
            (f"{side}, two untrained", first.estimate(side, "cca")),
            (f"{side}, pixel components", last.estimate(side, "pixels.cca")),
        ]
        if reading.projections:
            found = np.array([number(each[side], "cca") for each in reading.projections])
            rows.append((f"{side}, random projections", estimate(found)))
        marks += [_mark(words, found, place) for words, found in rows]
    return Chart(
        "controls",
        "Mean CCA and its controls",
        f"Mean over pairs with its standard error; after {last.value} steps where trained. Pixel components: "
        "one trained against principal components of its patch; random projections are of the pixels. Chance is "
        f"{_chance(last)}.",
        ("mean CCA", ""),
        marks=tuple(marks),
    )


def _line(words: str, points: list[Point], side: str, measure: str, colour: int, dotted: bool = False) -> Line:
    found = [point.estimate(side, measure) for point in points]
    return Line(
        words,
        tuple((float(place), each.mean) for place, each in enumerate(found)),
        tuple(
            f"{words}, {point.words}: {each.mean:.3f} ± {each.error or 0.0:.3f}"
            for point, each in zip(points, found, strict=True)
        ),
        colour,
        dotted=dotted,
        spans=tuple((each.mean - (each.error or 0.0), each.mean + (each.error or 0.0)) for each in found),
    )


def _mark(words: str, found: Estimate, colour: int) -> Mark:
    if found.error is None:
        return Mark(words, found.mean, series=colour)
    return Mark(words, found.mean, max(found.mean - found.error, 0.0), found.mean + found.error, series=colour)


def _ticks(points: list[Point]) -> tuple[tuple[float, str], ...]:
    return tuple((float(place), f"{point.value:,}") for place, point in enumerate(points))


def _chance(point: Point) -> str:
    known = [pair[side]["chance"] for pair in point.pairs for side in SIDES if pair[side]["chance"] is not None]
    return f"{np.mean(known):.3f}" if known else "not measured"
