"""Outcomes of the units, as the tables, figures and findings ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InputError
from ..experiment import Outcome
from ..pairs import over_pairs
from .presets import Preset

Number = float | None
Measure = Callable[[Mapping[str, Any]], Number]
"""A number of a pair, or none."""
LOWEST = -1.0
"""R² below this counts as this."""


class Setting:
    """One unit: all models of a dimension and an estimator."""

    def __init__(self, found: Outcome) -> None:
        self.found = found
        self.estimator, self.dimension = found["estimator"], int(found["dimension"])

    def mean(self, measure: str | Measure) -> tuple[Number, Number]:
        """Mean over pairs, and its error."""
        take = measure if callable(measure) else lambda pair: pair[measure]
        values = {(pair["first"], pair["second"]): take(pair) for pair in self.found["pairs"]}
        return over_pairs({pair: max(float(value), LOWEST) for pair, value in values.items() if value is not None})

    def rung(self, side: str, rung: str) -> tuple[Number, Number]:
        """Held-out R² of a rung, for contexts ``f`` or words ``g``."""
        return self.mean(lambda pair: pair[side][rung])

    def band(self, place: int) -> tuple[Number, Number]:
        """Held-out R² of the linear map within a frequency band."""
        return self.mean(lambda pair: pair["bands"][place])

    @property
    def bands(self) -> list[str]:
        """Ranks of the frequency bands, as words."""
        return [f"ranks {start + 1} to {stop}" for start, stop in self.found["bands"]]

    @property
    def loss(self) -> Number:
        """Mean held-out loss over models, over the whole vocabulary whatever the estimator."""
        known = [float(model["loss"]) for model in self.found["models"] if model["loss"] is not None]
        return sum(known) / len(known) if known else None


class Reading:
    """All settings of a run, of one text."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.settings = [Setting(found) for found in outcomes.values()]
        self.by_dimension = [each for each in self.settings if each.estimator == preset.estimators[0]]
        if len({each.found["corpus"]["digest"] for each in self.settings}) > 1:
            raise InputError("the text has changed since a part of this run was done: name another folder with --out")

    @property
    def head(self) -> Setting | None:
        """The setting that is drawn: the first estimator at the first dimension."""
        return self.settings[0] if self.settings else None
