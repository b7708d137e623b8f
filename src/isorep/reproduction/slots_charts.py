"""SIS against the overlap, with what the criteria say, and what goes past the paper.

The outcomes of the units as curves over the overlap: means over seeds with standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import Chart, Line, Mark, Outcome
from .slots import CONDITIONS, LAWS, Preset

AXIS = "slot identifiability score (SIS)"
OVERLAP = "outputs shared with the next slot, % of a slot's"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All figures that there are settings for."""
    others = sorted({(each.slots, each.overlap) for each in reading.settings if each.found["law"] != "normal"})
    beyond = sorted({(each.slots, each.overlap) for each in reading.beyond})
    drawn: list[Chart | None] = [_sweep(reading, slots) for slots in reading.slots]
    drawn += [_laws(reading, *place) for place in others] + [_beyond(reading, *place) for place in beyond]
    return tuple(chart for chart in drawn if chart is not None)


def _sweep(reading: Reading, slots: int) -> Chart:
    lines = []
    for place, (name, curve) in enumerate(curves_of(reading, slots)[:7]):
        kept = [(each, *each.mean()) for each in curve]
        known = [(each, value, error or 0.0) for each, value, error in kept if value is not None]
        if known:
            lines.append(
                Line(
                    name,
                    tuple((_percent(each), value) for each, value, _ in known),
                    tuple(f"{name}, {_percent(each):g} %: {value:.3f} ± {error:.3f}" for each, value, error in known),
                    place,
                    spans=tuple((value - error, value + error) for _, value, error in known),
                )
            )
    truth = reading.curve(slots, "plain")
    best = tuple((_percent(each), float(each.found["ceiling"])) for each in truth)
    lines.append(Line("true latents", best, tuple(f"true latents: {y:.3f}" for _, y in best), 6, dotted=True))
    return Chart(
        f"sis-{slots}",
        f"{slots} slots: SIS against the overlap",
        f"Mean over seeds with its standard error; normal latents. {_criteria(truth)} SIS of the true latents is what "
        "can be reached.",
        (OVERLAP, AXIS),
        lines=tuple(lines),
    )


def _criteria(truth: list[Setting]) -> str:
    """Where each criterion holds, in words."""
    said = []
    for key, name in (("type_d", "D"), ("type_m", "M"), ("type_s", "S"), ("h2_swaps", "H₂")):
        holds = [f"{_percent(each):g}" for each in truth if each.truth[key]]
        everywhere = len(holds) == len(truth)
        said.append(f"{name} {'everywhere' if everywhere else 'at ' + ', '.join(holds) + ' %' if holds else 'nowhere'}")
    return f"The generator is of Type {'; '.join(said)}."


def _laws(reading: Reading, slots: int, overlap: int) -> Chart | None:
    marks = []
    for law in LAWS:
        plain = reading.at(slots, overlap, "plain", law=law)
        if plain is None:
            continue
        marks += [_mark(f"{law}: AE", plain, "sis", 0), _mark(f"{law}: AE + ICA", plain, "ica", 1)]
        for colour, condition in enumerate(("contrast", "unit", "regrouped"), start=2):
            for strength in reading.strengths(slots, condition, law)[-1:]:
                found = reading.at(slots, overlap, condition, strength, law)
                if found is not None:
                    marks.append(_mark(f"{law}: {CONDITIONS[condition].short}", found, "sis", colour))
    kept = tuple(mark for mark in marks if mark is not None)
    if not kept:
        return None
    return Chart(
        f"laws-{slots}-{overlap}",
        f"Independent and dependent latents: {slots} slots, overlap {_share(reading, overlap)}",
        "SIS, mean over seeds; the tick is SIS of the true latents, which tell of each other where they are dependent. "
        "Components of ICA are put to the true slots that explain them best.",
        (AXIS, ""),
        marks=kept,
        bound="true latents",
    )


def _beyond(reading: Reading, slots: int, overlap: int) -> Chart | None:
    marks = []
    for condition in ("plain", "contrast", "unit", "regrouped", "additive"):
        for strength in reading.strengths(slots, condition):
            found = reading.at(slots, overlap, condition, strength)
            if found is not None:
                label = f", λ = {strength:g}" if condition == "contrast" else ""
                marks.append(_mark(f"{CONDITIONS[condition].short}{label}", found, "sis", 2))
    for each in reading.beyond:
        if (each.slots, each.overlap) != (slots, overlap):
            continue
        marks.append(_mark(CONDITIONS[each.found["condition"]].short, each, "sis", 3))
        if each.found["condition"] == "restarts":
            value, error = each.chosen(reading.preset.restarts)
            if value is not None:
                name = f"least loss of {reading.preset.restarts}"
                best = float(each.found["ceiling"])
                marks.append(Mark(name, max(value, 0.0), *_span(value, error), best, 3))
    kept = tuple(mark for mark in marks if mark is not None)
    if not kept:
        return None
    return Chart(
        f"beyond-{slots}-{overlap}",
        f"Past the paper: {slots} slots, overlap {_share(reading, overlap)}",
        "SIS, mean over seeds; the tick is SIS of the true latents. The least loss is at unit spread, too.",
        (AXIS, ""),
        marks=kept,
        bound="true latents",
    )


def _share(reading: Reading, overlap: int) -> str:
    return f"{100 * overlap / reading.preset.window:g} %"


def _mark(name: str, setting: Setting, measure: str, colour: int) -> Mark | None:
    value, error = setting.mean(measure)
    if value is None:
        return None
    return Mark(name, max(value, 0.0), *_span(value, error), float(setting.found["ceiling"]), colour)


def _span(value: float, error: float | None) -> tuple[float | None, float | None]:
    return (None, None) if error is None else (max(value - error, 0.0), max(value + error, 0.0))


def _percent(setting: Setting) -> float:
    return 100 * float(setting.found["share"])


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
