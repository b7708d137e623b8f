"""Figures 3b to 3d with their controls, and what each group of maps explains.

The outcomes of the units as sweeps: places in order, and at each of them a value for every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ..representation import Array
from .contrastive import SIDES, Preset
from .experiment import Chart, Line, Mark, Outcome
from .outcomes import Estimate, Trend, estimate, trend

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


SWEEPS = {"training": "training", "images": "data", "width": "width"}
"""Name of a sweep -> what alignment grows with, in a word."""


@dataclass(frozen=True)
class Point:
    """A place in a sweep: what was found for each pair."""

    value: int
    words: str
    pairs: tuple[Mapping[str, Any], ...]

    def values(self, side: str, measure: str) -> Array:
        """One number a pair; the loss belongs to both sides."""
        return np.array([number(pair if measure == "loss" else pair[side], measure) for pair in self.pairs])

    def estimate(self, side: str, measure: str) -> Estimate:
        """Mean over pairs."""
        return estimate(self.values(side, measure))


class Reading:
    """All sweeps of a run."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self._trained = [each for each in outcomes.values() if each["sweep"] != "projections"]
        self._trained.sort(key=lambda each: each["pair"])
        self.projections: list[Outcome] = next(
            (each["pairs"] for each in outcomes.values() if each["sweep"] == "projections"), []
        )
        self.base = [each for each in self._trained if each["sweep"] == "base"]
        self.note = next((each["note"] for each in self._trained if each["note"]), "")
        self.source = next((each["source"] for each in self._trained), "")
        self.sweeps = {
            name: points
            for name, points in (
                ("training", self._training()),
                *((key, self._ends(key)) for key in ("images", "width")),
            )
            if points
        }

    def untrained(self, sweep: str) -> list[Point]:
        """The same pairs before their first step."""
        return self._ends(sweep, last=False) if sweep != "training" else self.sweeps["training"][:1]

    def trend(self, sweep: str, side: str, measure: str = "cca", since: int = 0) -> Trend | None:
        """Along a sweep, from the place ``since`` on."""
        points = self.sweeps.get(sweep, [])[since:]
        return trend(np.stack([point.values(side, measure) for point in points], axis=1)) if points else None

    def training_loss(self, sweep: str) -> list[float]:
        """Mean training loss at the end, place by place."""
        return [float(np.mean([np.mean(each["training"]) for each in found])) for _, found in self._settings(sweep)]

    def _training(self) -> list[Point]:
        if not self.base:
            return []
        places = [found["step"] for found in self.base[0]["steps"]]
        return [
            Point(step, f"step {step}" if step else "untrained", tuple(each["steps"][place] for each in self.base))
            for place, step in enumerate(places)
        ]

    def _ends(self, sweep: str, last: bool = True) -> list[Point]:
        words = "width {}" if sweep == "width" else "{} images"
        return [
            Point(value, words.format(value), tuple(each["steps"][-1 if last else 0] for each in found))
            for value, found in self._settings(sweep)
        ]

    def _settings(self, sweep: str) -> list[tuple[int, list[Outcome]]]:
        """Places of a sweep in order with their pairs; the base setting is one of them."""
        chosen = [*self.base, *(each for each in self._trained if each["sweep"] == sweep)]
        values = sorted({each[sweep] for each in chosen})
        found = [(value, [each for each in chosen if each[sweep] == value]) for value in values]
        return found if len(found) > 1 else []


def number(found: Mapping[str, Any], path: str) -> float:
    """A value by its path, such as ``r2.linear``."""
    return float(reduce(lambda inner, key: inner[key], path.split("."), found))  # type: ignore[arg-type]
