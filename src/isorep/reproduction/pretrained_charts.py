"""The outcomes of the units by subject: errors of the rungs over pairs, with their intervals.

Table 1 as a figure, the ladder as shares of what the mean alone leaves, and the efficiency of ICA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .experiment import Chart, Line, Mark, Outcome
from .outcomes import over_pairs
from .pretrained import RUNGS
from .pretrained_settings import PUBLISHED, Preset, Published
from .pretrained_training import BESIDE, TITLES

Number = float | None
WHEN = ("trained", "untrained")


@dataclass(frozen=True)
class Span:
    """A number with an interval; no interval where none was drawn."""

    value: float
    low: Number = None
    high: Number = None


@dataclass(frozen=True)
class Measured:
    """One pair: the mean of both directions, or the source mapped onto the target alone."""

    found: Mapping[str, Any]
    directed: bool = False

    @property
    def ways(self) -> list[Mapping[str, Any]]:
        """The directions that count."""
        return list(self.found["ways"][:1] if self.directed else self.found["ways"])

    def error(self, rung: str, key: str = "held_out") -> float:
        """The error of a rung in diameters, ``held_out`` or ``in_sample``."""
        return float(np.mean([way["rungs"][rung][key] for way in self.ways]))

    def share(self, rung: str) -> float:
        """The held-out error as a share of what the target's mean alone leaves; ICA may exceed it."""
        return float(np.mean([way["rungs"][rung]["held_out"] / (way["baseline"] or np.nan) for way in self.ways]))

    def span(self, rung: str) -> Span:
        """The held-out error with its interval."""
        return Span(self.error(rung), *self._ends(rung, "interval"))

    def excess(self, rung: str) -> Span:
        """By how much the held-out error exceeds the linear map's, with the interval of that difference."""
        return Span(self.error(rung) - self.error("linear"), *self._ends(rung, "excess"))

    def efficiency(self, key: str = "efficiency") -> Number:
        """The share of what the rigid map gains over the permutation that ICA gains without pairs."""
        known = [way[key] for way in self.ways]
        return None if any(each is None for each in known) else float(np.mean(known))

    def below_null(self, rung: str) -> bool:
        """Whether the held-out interval lies below chance in every direction."""
        return all(way["rungs"][rung]["below_null"] for way in self.ways)

    def _ends(self, rung: str, key: str) -> tuple[Number, Number]:
        """Both ends, averaged over directions: too wide rather than too narrow, as directions share their rows."""
        known = [way["rungs"][rung][key] for way in self.ways]
        if any(each is None for each in known):
            return None, None
        low, high = np.mean(known, axis=0)
        return float(low), float(high)


@dataclass(frozen=True)
class Subject:
    """What is one row of the table: a representation of a kind, or a layer of a named pair."""

    key: str
    title: str
    kind: str
    published: Published | None
    trained: dict[tuple[int, int], Measured] = field(default_factory=dict)
    untrained: dict[tuple[int, int], Measured] = field(default_factory=dict)
    named: bool = False

    def pairs(self, when: str = "trained") -> dict[tuple[int, int], Measured]:
        """Pairs by the places of their trainings."""
        return self.trained if when == "trained" else self.untrained

    def error(self, rung: str, key: str = "held_out", when: str = "trained") -> tuple[Number, Number]:
        """Mean over pairs in diameters, and its standard error."""
        return over_pairs({pair: each.error(rung, key) for pair, each in self.pairs(when).items()})

    def share(self, rung: str, when: str = "trained") -> tuple[Number, Number]:
        """The held-out error as a share of what the target's mean alone leaves."""
        return over_pairs({pair: each.share(rung) for pair, each in self.pairs(when).items()})

    def efficiency(self, key: str = "efficiency", when: str = "trained") -> tuple[Number, Number]:
        """Of ICA, mean over pairs that have one."""
        known = {pair: value for pair, each in self.pairs(when).items() if (value := each.efficiency(key)) is not None}
        return over_pairs(known)

    def span(self, rung: str, when: str = "trained") -> Span | None:
        """The held-out error with the mean of its intervals over pairs."""
        spans = [each.span(rung) for each in self.pairs(when).values()]
        if not spans:
            return None
        value = float(np.mean([each.value for each in spans]))
        if any(each.low is None or each.high is None for each in spans):
            return Span(value)
        return Span(value, *(float(np.mean([getattr(each, end) for each in spans])) for end in ("low", "high")))


class Reading:
    """All outcomes of a run."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.trainings = [found for found in outcomes.values() if "loss_before" in found]
        self.subjects = [*_trained(outcomes), *_named(outcomes)]

    def subject(self, key: str) -> Subject | None:
        """A subject by its key."""
        return next((each for each in self.subjects if each.key == key), None)


def _trained(outcomes: Mapping[str, Outcome]) -> list[Subject]:
    found: dict[str, Subject] = {}
    for outcome in outcomes.values():
        for key, entry in (outcome.get("subjects") or {}).items():
            if key not in found:
                beside = PUBLISHED.get(BESIDE.get(key, ""))
                found[key] = Subject(key, TITLES[key], outcome["kind"], beside)
            pair = (outcome["pair"][0], outcome["pair"][1])
            for when in WHEN:
                if when in entry:
                    found[key].pairs(when)[pair] = Measured(entry[when])
    return list(found.values())


def _named(outcomes: Mapping[str, Outcome]) -> list[Subject]:
    found = []
    for outcome in outcomes.values():
        for place, entry in enumerate(outcome.get("layers") or ()):
            beside = PUBLISHED.get(outcome["published"])
            title = f"{outcome['name']}, {entry['layer']}" if entry["layer"] else outcome["name"]
            kind = "" if beside is None else beside.kind
            subject = Subject(f"named-{outcome['name']}-{place}", title, kind, beside, named=True)
            for when in WHEN:
                if when in entry:
                    subject.pairs(when)[0, 1] = Measured(entry[when], directed=True)
            found.append(subject)
    return found


WORDS = {"signed_permutation": "permutation", "rigid": "rigid", "linear": "linear", "ica": "ICA"}
ORDER = ("signed_permutation", "ica", "rigid", "linear")
"""As the paper expects errors to fall."""
_MOST = 8  # subjects of one figure
_LONGEST = 12  # letters of a name there


def charts(reading: Reading) -> tuple[Chart, ...]:
    """Those that have something to show."""
    drawn = [_table(reading), *(_ladder(reading, when) for when in ("trained", "untrained")), _efficiency(reading)]
    return tuple(chart for chart in drawn if chart.marks or chart.lines)


def _table(reading: Reading) -> Chart:
    marks = []
    for subject in reading.subjects[:_MOST]:
        for colour, rung in enumerate(RUNGS):
            span = subject.span(rung)
            if span is not None:
                beside = None if subject.published is None else getattr(subject.published, WORDS[rung].lower())
                name = f"{_short(subject)}: {WORDS[rung]}"
                marks.append(Mark(name, span.value, span.low, span.high, bound=beside, series=colour))
    return Chart(
        "errors",
        "Held-out errors beside Table 1",
        "Mean over pairs in diameters of the target; intervals are over rows or documents, the mean of those of the "
        "pairs. The tick is the published number, which is in sample and of a much larger model.",
        ("error in diameters", ""),
        marks=tuple(marks),
        bound="published, in sample",
        whisker="95 % interval",
    )


def _ladder(reading: Reading, when: str) -> Chart:
    lines = []
    for colour, subject in enumerate(reading.subjects[:_MOST]):
        known = [
            (place, cell) for place, rung in enumerate(ORDER) if (cell := subject.share(rung, when))[0] is not None
        ]
        if known:
            lines.append(_line(subject.title, [(float(place), *cell) for place, cell in known], colour))
    return Chart(
        f"ladder-{when}",
        f"What is left after each map, {when} networks",
        "Held-out error as a share of what the target's mean alone leaves, mean over pairs with its standard error; "
        "lower is closer. From left to right as the paper expects errors to fall.",
        ("map", "held-out error / mean alone"),
        lines=tuple(lines),
        ticks=tuple((float(place), WORDS[rung]) for place, rung in enumerate(ORDER)),
    )


def _efficiency(reading: Reading) -> Chart:
    subjects = reading.subjects[:_MOST]
    series: list[tuple[str, list[tuple[Number, Number]]]] = [
        ("held out", [each.efficiency() for each in subjects]),
        ("in sample", [each.efficiency("efficiency_in_sample") for each in subjects]),
        ("held out, untrained", [each.efficiency(when="untrained") for each in subjects]),
        ("published, in sample", [(each.published.efficiency if each.published else None, None) for each in subjects]),
    ]
    lines = []
    for colour, (name, cells) in enumerate(series):
        known = [(float(place), *cell) for place, cell in enumerate(cells) if cell[0] is not None]
        if known:
            lines.append(_line(name, known, colour, dotted=True))
    return Chart(
        "efficiency",
        "Efficiency of ICA",
        "The share of what the rigid map gains over the permutation that ICA gains without any pairs; mean over pairs "
        "with its standard error. Below 0 ICA is worse than the permutation.",
        ("", "efficiency"),
        lines=tuple(lines),
        ticks=tuple((float(place), _short(each)) for place, each in enumerate(subjects)),
    )


def _line(name: str, cells: list[tuple[float, Number, Number]], colour: int, *, dotted: bool = False) -> Line:
    known = [(place, float(value or 0.0), error or 0.0) for place, value, error in cells]
    return Line(
        name,
        tuple((place, value) for place, value, _ in known),
        tuple(f"{name}: {value:.3f} ± {error:.3f}" for _, value, error in known),
        colour,
        dotted=dotted,
        spans=tuple((value - error, value + error) for _, value, error in known),
    )


def _short(subject: Subject) -> str:
    """A name that fits beside a figure."""
    if subject.named:
        return subject.title if len(subject.title) <= _LONGEST else f"{subject.title[: _LONGEST - 1]}…"
    return subject.key.upper().replace("-LAST", " last")
