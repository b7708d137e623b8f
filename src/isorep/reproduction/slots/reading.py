"""The outcomes of the units as curves over the overlap: means over seeds with standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..experiment import Outcome
from .conditions import CONDITIONS
from .presets import Preset

Number = float | None
CURVES = (
    ("plain", "λ = 0"),
    ("contrast", "contrast"),
    ("unit", "at unit spread"),
    ("regrouped", "at unit spread, regrouped"),
    ("additive", "additive decoder"),
)


@dataclass(frozen=True)
class Setting:
    """All seeds of one setting."""

    found: Mapping[str, Any]

    @property
    def slots(self) -> int:
        """How many slots."""
        return int(self.found["slots"])

    @property
    def overlap(self) -> int:
        """Outputs that neighbours share."""
        return int(self.found["overlap"])

    @property
    def strength(self) -> float:
        """λ."""
        return float(self.found["strength"])

    @property
    def truth(self) -> Mapping[str, Any]:
        """The generator's verdicts."""
        found: Mapping[str, Any] = self.found["truth"]
        return found

    def values(self, measure: str = "sis") -> list[float]:
        """One for each seed whose training stayed finite."""
        return [float(run[measure]) for run in self.found["runs"] if run.get(measure) is not None]

    def mean(self, measure: str = "sis") -> tuple[Number, Number]:
        """Mean over seeds, and its standard error."""
        values = self.values(measure)
        if not values:
            return None, None
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        return float(np.mean(values)), error

    def chosen(self, restarts: int) -> tuple[Number, Number]:
        """SIS of the training with the lowest loss among each group of so many in turn, and its standard error."""
        runs = [run for run in self.found["runs"] if run["sis"] is not None]
        groups = [runs[start : start + restarts] for start in range(0, len(runs) - restarts + 1, restarts)]
        if not groups:
            return None, None
        best = [float(min(group, key=lambda run: run["loss"])["sis"]) for group in groups]
        return float(np.mean(best)), float(np.std(best, ddof=1) / np.sqrt(len(best))) if len(best) > 1 else None


class Reading:
    """Settings by what they are."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.settings = [Setting(outcome) for outcome in outcomes.values()]

    def curve(self, slots: int, condition: str, strength: float = 0.0, law: str = "normal") -> list[Setting]:
        """Settings of one curve, by overlap."""
        wanted = {"slots": slots, "condition": condition, "strength": strength, "law": law}
        found = [each for each in self.settings if all(each.found[key] == value for key, value in wanted.items())]
        return sorted(found, key=lambda each: each.overlap)

    def at(
        self, slots: int, overlap: int, condition: str, strength: float = 0.0, law: str = "normal"
    ) -> Setting | None:
        """One setting."""
        return next((each for each in self.curve(slots, condition, strength, law) if each.overlap == overlap), None)

    def strengths(self, slots: int, condition: str = "contrast", law: str = "normal") -> list[float]:
        """λ that were run."""
        return sorted(
            {
                each.strength
                for each in self.settings
                if (each.slots, each.found["condition"], each.found["law"]) == (slots, condition, law)
            }
        )

    @property
    def slots(self) -> list[int]:
        """Numbers of slots of the sweep."""
        return sorted({each.slots for each in self.settings if each.found["condition"] == "plain"})

    @property
    def beyond(self) -> list[Setting]:
        """What goes past the paper, in the order of the preset."""
        known = ("plain", "contrast", "unit", "regrouped", "additive")
        return [each for each in self.settings if each.found["condition"] not in known]


def curves_of(reading: Reading, slots: int) -> list[tuple[str, list[Setting]]]:
    """The curves of a number of slots with their names: by condition, and by λ where there are several."""
    found = []
    for condition, words in CURVES:
        for strength in reading.strengths(slots, condition):
            name = f"{words}, λ = {strength:g}" if strength else words
            found.append((name, reading.curve(slots, condition, strength)))
    return found


def setting_words(setting: Setting) -> str:
    """Condition and λ."""
    words = CONDITIONS[setting.found["condition"]].words
    return f"{words}, λ = {setting.strength:g}" if setting.strength else words


def falls(curve: list[Setting], high: float) -> tuple[bool, bool]:
    """Whether SIS is high where slots share least, and lower where they share most by two standard errors."""
    if not curve:
        return False, False
    (first, first_error), (last, last_error) = curve[0].mean(), curve[-1].mean()
    if first is None or last is None or len(curve) < 2:
        return first is not None and first >= high, False
    noise = float(np.hypot(first_error or 0.0, last_error or 0.0))
    return first >= high, last < first - 2 * noise
