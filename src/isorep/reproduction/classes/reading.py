"""Outcomes of the units, as the tables, figures and findings ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..experiment import Outcome
from ..pairs import over_pairs
from .presets import Preset

Number = float | None
Measure = Callable[[Mapping[str, Any]], Number]
"""A number of a pair, or none."""
SLACK = 0.02
"""Nats: losses within twice the least excess, and this, count as the same optimum."""


LOWEST = -1.0
"""R² below this counts as this: a map that inverts a nearly singular head can be wrong by any factor."""


class Setting:
    """One unit: models and pairs of the same task, classes, dimension and start."""

    def __init__(self, found: Outcome) -> None:
        self.found = found
        self.task, self.classes, self.dimension = found["task"], int(found["classes"]), int(found["dimension"])
        self.start, self.published = float(found["start"]), bool(found["published"])
        self.least = min(self.losses)

    @property
    def diverse(self) -> bool:
        """Whether there is a class more than dimensions."""
        return self.classes >= self.dimension + 1

    def mean(self, measure: str | Measure, *, optimum: bool | None = None) -> tuple[Number, Number]:
        """Mean over pairs and its error; with ``optimum``, over pairs that both (or not both) reached the best loss."""
        take = measure if callable(measure) else lambda pair: pair[measure]
        values = {}
        for pair in self.found["pairs"]:
            value = take(pair)
            if value is not None and (optimum is None or self._both(pair) is optimum):
                values[pair["first"], pair["second"]] = max(float(value), LOWEST)
        return over_pairs(values)

    def rung(self, side: str, rung: str) -> tuple[Number, Number]:
        """Held-out R² of a rung, for examples ``f`` or classes ``g``."""
        return self.mean(lambda pair: None if pair[side] is None else pair[side][rung])

    @property
    def losses(self) -> list[float]:
        """Test loss of every model above the entropy of the labels."""
        return [
            float(model["loss"]) - float(self.found["floor"]) if model["loss"] is not None else float("inf")
            for model in self.found["models"]
        ]

    @property
    def reached(self) -> list[bool]:
        """Which models came to the least loss that was found, from any start."""
        return [loss <= 2 * max(self.least, 0.0) + SLACK for loss in self.losses]

    def curve(self, name: str) -> list[tuple[int, Number, Number]]:
        """Step, mean over pairs and its error."""
        points = []
        for point in self.found.get("curve") or ():
            known = {
                (pair["first"], pair["second"]): max(float(pair[name]), LOWEST)
                for pair in point["pairs"]
                if pair[name] is not None
            }
            points.append((int(point["step"]), *over_pairs(known)))
        return points

    def _both(self, pair: Mapping[str, Any]) -> bool:
        return all(self.reached[int(pair[side])] for side in ("first", "second"))


class Reading:
    """All settings of a run."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.settings = [Setting(found) for found in outcomes.values()]
        self.published = [setting for setting in self.settings if setting.published]
        for setting in self.published:
            setting.least = min(each.least for each in self.published)
        self.tasks = [task for task in preset.tasks if any(each.task == task for each in self.settings)]

    @property
    def head(self) -> Setting | None:
        """The published simulation from the first start."""
        return self.published[0] if self.published else None

    def over_classes(self, task: str) -> list[Setting]:
        """The sweep over classes at one dimension."""
        return self._sweep(task, lambda each: each.dimension == self.preset.fixed_dimension, self.preset.sweep_classes)

    def over_dimensions(self, task: str) -> list[Setting]:
        """The sweep over dimensions at one number of classes."""
        wanted = self.preset.sweep_dimensions
        return self._sweep(task, lambda each: each.classes == self.preset.fixed_classes, wanted, by="dimension")

    def both_sweeps(self, task: str) -> list[Setting]:
        """Every setting of the sweeps of a task once."""
        found = self.over_classes(task)
        return found + [each for each in self.over_dimensions(task) if each not in found]

    def _sweep(
        self, task: str, fits: Callable[[Setting], bool], wanted: tuple[int, ...], by: str = "classes"
    ) -> list[Setting]:
        found = {
            getattr(each, by): each
            for each in self.settings
            if not each.published and each.task == task and fits(each) and getattr(each, by) in wanted
        }
        return [found[key] for key in sorted(found)]


def apart(settings: list[Setting], measure: str | Measure) -> tuple[tuple[Number, Number], tuple[Number, Number]]:
    """Mean and standard error over settings where classes are too few, and over those where they are not."""
    halves = []
    for diverse in (False, True):
        values = [each.mean(measure)[0] for each in settings if each.diverse is diverse]
        known = [value for value in values if value is not None]
        error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
        halves.append((float(np.mean(known)) if known else None, error))
    return halves[0], halves[1]
