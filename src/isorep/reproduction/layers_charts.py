"""The outcomes of the units by group of pairs: values by layer, with standard errors over pairs.

Figure 4 as it comes out here, the ladder by layer, and errors against what remains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ..comparison.fits import RUNGS
from ..representation import Array
from .experiment import Chart, Line, Outcome
from .layers_networks import Preset, label
from .outcomes import Correlation, log_ticks

Number = float | None
EMBEDDING = "embedding"
_DRAWS = 2000
_LEAST_LAYERS = 4  # below, a rank correlation over layers says nothing


@dataclass(frozen=True)
class Pair:
    """Two networks, layer by layer."""

    found: Mapping[str, Any]
    sides: tuple[Mapping[str, Any], Mapping[str, Any]]

    def layer(self, place: int, key: str = "layers") -> Mapping[str, Any] | None:
        """What was measured at a place from the end, after training or as ``initial``."""
        return next((each for each in self.found.get(key) or () if each["place"] == place), None)

    def svcca(self, place: int, components: int, key: str = "layers") -> Number:
        """SVCCA of a layer."""
        layer = self.layer(place, key)
        return None if layer is None else float(layer["svcca"][str(components)]["value"])

    def error(self, place: int, rung: str, key: str = "layers", *, share: bool = False) -> Number:
        """The held-out error of a rung in diameters, or as a share of what shuffled pairings give."""
        layer = self.layer(place, key)
        entry = None if layer is None else layer["ladder"].get(rung)
        if entry is None or (share and not entry["chance"]):
            return None
        return float(entry["error"] / entry["chance"] if share else entry["error"])

    def constant(self, place: int, key: str = "constants", which: str = "local") -> Number:
        """The geometric mean over both networks of the constant of what remains after a layer."""
        found = [side.get(key) for side in self.sides]
        if any(each is None or place >= len(each) for each in found):
            return None
        values = [each[-1 - place][which] for each in found if each is not None]
        return float(np.exp(np.mean(np.log(values))))


class Group:
    """Pairs that are averaged: all of one size, or of two."""

    def __init__(self, name: str, pairs: Sequence[Pair], components: Sequence[int]) -> None:
        self.name, self.pairs, self.components = name, list(pairs), list(components)

    @property
    def anchor(self) -> str:
        """The name within that of a table or a figure."""
        return self.name.replace(" with ", "-").replace(" ", "-")

    @property
    def count(self) -> str:
        """How many pairs, in words."""
        return f"{len(self.pairs)} pairs" if len(self.pairs) != 1 else "1 pair"

    @property
    def places(self) -> list[int]:
        """Layers from the end that all pairs have."""
        found = [{layer["place"] for layer in pair.found["layers"]} for pair in self.pairs]
        return sorted(set.intersection(*found)) if found else []

    @property
    def blocks(self) -> list[int]:
        """The same without the embedding, which the published layers do not include."""
        return [place for place in self.places if self.label(place) != EMBEDDING]

    def label(self, place: int) -> str:
        """What a layer is called: by its block where all networks agree, else by its place from the end."""
        names = {name for pair in self.pairs for name in (pair.layer(place) or {"labels": ()})["labels"]}
        return names.pop() if len(names) == 1 else f"{place} before the last"

    def svcca(self, place: int, components: int, key: str = "layers") -> tuple[Number, Number]:
        """SVCCA of a layer: mean over pairs, and its standard error."""
        return mean_of([pair.svcca(place, components, key) for pair in self.pairs])

    def error(self, place: int, rung: str, key: str = "layers", *, share: bool = False) -> tuple[Number, Number]:
        """The held-out error of a rung: mean over pairs, and its standard error."""
        return mean_of([pair.error(place, rung, key, share=share) for pair in self.pairs])

    def constant(self, place: int) -> tuple[Number, Number]:
        """The constant of what remains: mean over pairs, and its standard error."""
        return mean_of([pair.constant(place) for pair in self.pairs])

    def most_similar(self, components: int) -> tuple[int, Number, Number] | None:
        """The closest block, and by how much the last is closer than the closest other, with its standard error."""
        known = {place: value for place in self.blocks if (value := self.svcca(place, components)[0]) is not None}
        others = {place: value for place, value in known.items() if place != 0}
        if 0 not in known or not others:
            return None
        best = max(others, key=lambda place: others[place])
        gap, error = mean_of([_less(pair.svcca(0, components), pair.svcca(best, components)) for pair in self.pairs])
        return max(known, key=lambda place: known[place]), gap, error

    def follows(self, rung: str, *, share: bool = False, last: bool = True) -> Correlation:
        """Over layers, the rank correlation of a rung's error with the remaining network's constant: mean of pairs."""
        columns = []
        for pair in self.pairs:
            points = [
                (pair.constant(place), pair.error(place, rung, share=share)) for place in self.places if last or place
            ]
            known = np.array([point for point in points if None not in point], dtype=float)
            columns.append((known[:, 0], known[:, 1]) if len(known) else (np.empty(0), np.empty(0)))
        return mean_correlation(columns)

    def within(self, rung: str) -> list[tuple[Array, Array]]:
        """Constants and errors over pairs, layer by layer: what is left when the depth is taken away."""
        found = []
        for place in self.places:
            points = [(pair.constant(place), pair.error(place, rung)) for pair in self.pairs]
            known = np.array([point for point in points if None not in point], dtype=float)
            if place and len(known):
                found.append((known[:, 0], known[:, 1]))
        return found


class Reading:
    """Networks and groups of pairs in the order of the plan."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.models = [each for each in outcomes.values() if "pair" not in each]
        pairs: dict[str, list[Pair]] = {}
        for outcome in outcomes.values():
            if "pair" in outcome:
                first, second = (self._model(side) for side in outcome["pair"])
                pairs.setdefault(outcome["group"], []).append(Pair(outcome, (first, second)))
        self.groups = [Group(name, each, preset.components) for name, each in pairs.items()]

    @property
    def sizes(self) -> list[str]:
        """What networks are called, each once."""
        return list(dict.fromkeys(str(each["size"]) for each in self.models))

    def of_size(self, size: str) -> list[Mapping[str, Any]]:
        """The networks of a size."""
        return [each for each in self.models if each["size"] == size]

    def constants(self, size: str, key: str = "constants") -> list[tuple[str, Number, Number]]:
        """Layers of a size from the first on, with the local constant's mean over networks and its standard error."""
        known = [each[key] for each in self.of_size(size) if each.get(key)]
        if not known:
            return []
        layers = len(known[0]) - 1
        return [
            (label(layers - place, layers), *mean_of([each[place]["local"] for each in known]))
            for place in range(layers + 1)
        ]

    def _model(self, side: Mapping[str, Any]) -> Mapping[str, Any]:
        return next((each for each in self.models if all(each.get(key) == side[key] for key in side)), {})


def mean_of(values: Sequence[Number]) -> tuple[Number, Number]:
    """Mean and its standard error of what is known."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None
    error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return float(np.mean(known)), error


def mean_correlation(columns: Sequence[tuple[Array, Array]], seed: int = 0) -> Correlation:
    """The mean over pairs of Spearman's correlation over layers, with a bootstrap interval over pairs."""
    values = np.array(
        [spearmanr(x, y).statistic for x, y in columns if len(x) >= _LEAST_LAYERS and np.ptp(x) > 0 and np.ptp(y) > 0]
    )
    if not len(values):
        return Correlation(None, None, None, 0)
    if len(values) < 3:
        return Correlation(float(values.mean()), None, None, len(values))
    draws = np.random.default_rng([seed, 19]).choice(values, (_DRAWS, len(values))).mean(1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return Correlation(float(values.mean()), float(low), float(high), len(values))


def _less(one: Number, other: Number) -> Number:
    return None if one is None or other is None else one - other


LAYER = "layer, the last on the right"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """Two figures for each group of pairs, and one of all."""
    drawn = [chart for group in reading.groups for chart in (_svcca(group), _ladder(group))]
    rest = _against(reading)
    return (*(chart for chart in drawn if chart.lines), *((rest,) if rest.lines else ()))


def _svcca(group: Group) -> Chart:
    lines = []
    for key, words in (("layers", ""), ("initial", ", before")):
        for place, components in enumerate(group.components):
            cells = {at: group.svcca(at, components, key) for at in reversed(group.places)}
            line = _line(group, f"k = {components}{words}", cells, place, dotted=bool(words))
            lines += [line] if line is not None else []
    return Chart(
        f"svcca-{group.anchor}",
        f"{group.name}: SVCCA by layer (Figure 4)",
        f"SVCCA with k components, mean over {group.count} with its standard error, on held-out documents. Dots "
        "without a line are the same networks before training: what the input alone makes similar.",
        (LAYER, "mean canonical correlation"),
        lines=tuple(lines),
        ticks=_ticks(group),
    )


def _ladder(group: Group) -> Chart:
    lines = []
    for place, rung in enumerate(RUNGS):
        cells = {at: group.error(at, rung, share=True) for at in reversed(group.places)}
        line = _line(group, rung.replace("_", " "), cells, place)
        lines += [line] if line is not None else []
    return Chart(
        f"ladder-{group.anchor}",
        f"{group.name}: what is left after each group of maps",
        f"Held-out error as a share of what shuffled documents give, mean over {group.count} with its "
        "standard error; lower is closer.",
        (LAYER, "held-out error / chance"),
        lines=tuple(lines),
        ticks=_ticks(group),
    )


def _against(reading: Reading) -> Chart:
    """One dot for each layer of each pair."""
    lines = []
    for colour, group in enumerate(reading.groups[:6]):
        points, labels = [], []
        for pair in group.pairs:
            for place in group.places:
                constant, error = pair.constant(place), pair.error(place, "rigid", share=True)
                if constant is not None and error is not None:
                    points.append((math.log10(constant), error))
                    labels.append(f"{group.name}, {group.label(place)}: {constant:.3g}, {error:.2f}")
        if points:
            lines.append(Line(group.name, tuple(points), tuple(labels), colour, dotted=True))
    return Chart(
        "constants",
        "Rigid error against the constant of the remaining network",
        "A dot is a layer of a pair; across, the local constant after the best scale, on a logarithmic axis. 1 is an "
        "isometry, as at the last layer, where nothing remains. Depth drives both axes.",
        ("local bi-Lipschitz constant of the rest", "held-out rigid error / chance"),
        lines=tuple(lines),
        ticks=log_ticks(x for line in lines for x, _ in line.points),
    )


def _line(
    group: Group, name: str, cells: dict[int, tuple[Number, Number]], colour: int, *, dotted: bool = False
) -> Line | None:
    known = [(at, value, error or 0.0) for at, (value, error) in cells.items() if value is not None]
    if not known:
        return None
    return Line(
        name,
        tuple((-float(at), value) for at, value, _ in known),
        tuple(f"{name}, {group.label(at)}: {value:.3f} ± {error:.3f}" for at, value, error in known),
        colour,
        dotted=dotted,
        spans=tuple((value - error, value + error) for _, value, error in known),
    )


def _ticks(group: Group) -> tuple[tuple[float, str], ...]:
    names = {at: group.label(at) for at in group.places}
    return tuple((-float(at), name.removesuffix(" before the last")) for at, name in reversed(names.items()))
