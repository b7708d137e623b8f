"""The outcomes of the units as sweeps: places in order, and at each of them a value for every pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ...representation import Array
from ..experiment import Outcome
from .presets import Preset
from .trends import Estimate, Trend, estimate, trend

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
