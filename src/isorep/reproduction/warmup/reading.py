"""The outcomes of the units by part: pairs with their leak, and which of them the filter drops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...representation import Array
from ..experiment import Outcome
from .curves import roots
from .presets import Preset
from .units import NAMES, training_of

Measure = Callable[["Pair"], float]


@dataclass(frozen=True)
class Pair:
    """Two autoencoders of one leak."""

    leak: float
    label: int | None
    found: Mapping[str, Any]

    @property
    def error(self) -> float:
        """The mean error of the best rigid motion, in-sample, in diameters: as published."""
        return float(self.found["error"]["mean"])

    @property
    def held_out(self) -> float:
        """The same on images that neither the networks nor the motion were fitted to."""
        return float(self.found["held_out"]["mean"])

    @property
    def reconstruction(self) -> float:
        """The worse of the two mean squared errors of a pixel."""
        return float(max(side["reconstruction"] for side in self.found["sides"]))

    def excess(self, estimator: str, statistic: str) -> float:
        """The mean over both decoders of their mean L, or the largest L of either."""
        values = [side[estimator][statistic] - 1 for side in self.found["sides"]]
        return float(max(values) if statistic == "max" else np.mean(values))


class Part:
    """All pairs of one data set, trained on all classes together or on each."""

    def __init__(self, name: str, by_class: bool, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.name, self.by_class, self._preset = name, by_class, preset
        self.outcomes = [
            each for each in outcomes.values() if each["set"] == name and (each["label"] is not None) == by_class
        ]
        self.pairs = [
            Pair(outcome["leak"], outcome["label"], pair) for outcome in self.outcomes for pair in outcome["pairs"]
        ]
        self.leaks = sorted({pair.leak for pair in self.pairs})
        self.limit = self._limit()
        self.kept = [pair for pair in self.pairs if pair.reconstruction <= self.limit and _converged(pair)]
        self.title = NAMES[name] + (", a model for each digit" if by_class else "")

    @property
    def dropped(self) -> int:
        """Pairs that the filter removes."""
        return len(self.pairs) - len(self.kept)

    def at(self, leak: float) -> list[Pair]:
        """Kept pairs of a leak."""
        return [pair for pair in self.kept if pair.leak == leak]

    def mean(self, leak: float, measure: Measure) -> tuple[float | None, float | None]:
        """Mean over kept pairs, and its standard error."""
        values = [measure(pair) for pair in self.at(leak)]
        if not values:
            return None, None
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        return float(np.mean(values)), error

    def x(self, pair: Pair, estimator: str = "paper", statistic: str = "mean", form: str | None = None) -> float:
        """The theorem's term of a pair: over samples by the preset's statistic, or at the largest L."""
        wanted = form or self._preset.form
        if statistic == "mean" and self._preset.statistic == "mean of roots":
            return float(np.mean([side[estimator]["mean_roots"][wanted] for side in pair.found["sides"]]))
        return float(roots(np.array(pair.excess(estimator, statistic)), wanted))

    def columns(
        self, estimator: str = "paper", statistic: str = "mean", form: str | None = None
    ) -> tuple[Array, Array]:
        """Term and error of all kept pairs."""
        return (
            np.array([self.x(pair, estimator, statistic, form) for pair in self.kept]),
            np.array([pair.error for pair in self.kept]),
        )

    def groups(self, estimator: str = "paper", statistic: str = "mean") -> list[tuple[Array, Array]]:
        """The same, leak by leak."""
        return [
            (
                np.array([self.x(pair, estimator, statistic) for pair in self.at(leak)]),
                np.array([pair.error for pair in self.at(leak)]),
            )
            for leak in self.leaks
        ]

    def _limit(self) -> float:
        """The percentile of the reconstruction errors of all autoencoders at the reference leak."""
        reference = min(self.leaks, key=lambda leak: abs(leak - self._preset.reference_leak), default=None)
        errors = [
            side["reconstruction"] for pair in self.pairs if pair.leak == reference for side in pair.found["sides"]
        ]
        known = [error for error in errors if error is not None and np.isfinite(error)]
        return float(np.percentile(known, self._preset.percentile)) if known else float("inf")


def parts_of(preset: Preset, outcomes: Mapping[str, Outcome]) -> list[Part]:
    """All parts that were run, MNIST before the digits of scikit-learn: the first is the headline."""
    found = [
        Part(name, by_class, preset, outcomes)
        for by_class in (False, True)
        for name in ("mnist", "digits")
        if training_of(preset, name, by_class) is not None
    ]
    return [part for part in found if part.pairs]


def _converged(pair: Pair) -> bool:
    return all(side["ended"] != "diverged" for side in pair.found["sides"])
