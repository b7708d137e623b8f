"""The outcomes, sorted: which run of which model with which setting after which step, and which of them is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..experiment import Outcome
from .presets import Preset
from .published import MEASURES

Choice = tuple[str, int]
"""A setting, and the step after which it was scored."""

TITLES = {
    "ae": "AE",
    "beta_vae": "β-VAE",
    "beta_tcvae": "β-TCVAE",
    "bioae": "BioAE",
    "vqvae": "VQ-VAE",
    "vqvae_decay": "VQ-VAE with weight decay",
    "qlae": "QLAE",
    "pixels": "PCA",
    "untrained": "untrained",
}
WAYS = {
    "raw": "",
    "rotated": " (rotated)",
    "published": " + ICA (published)",
    "scaled": " + ICA (rescaled)",
    "whitened": " + ICA (whitened)",
    "pruned": " + ICA (pruned)",
}
CONTROLS = ("pixels", "untrained")


@dataclass(frozen=True)
class Mean:
    """A mean over replicates with its standard error; None for a single one."""

    value: float | None
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of the values that are finite."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return cls(None, None)
        error = float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None
        return cls(float(np.mean(known)), error)


@dataclass(frozen=True)
class Chosen:
    """The scores of each replicate after a selection, and what was selected most often."""

    scores: tuple[dict[str, float], ...]
    choice: Choice | None

    def values(self, measure: str) -> list[float]:
        """One measure, a value a replicate."""
        return [float(scores[measure]) for scores in self.scores]

    def mean(self, measure: str) -> Mean:
        """The mean of a measure."""
        return Mean.of(self.values(measure))


class Reading:
    """Outcomes by scene, model, setting, step and replicate."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.runs = [outcome for outcome in outcomes.values() if "model" in outcome]
        self.controls = [outcome for outcome in outcomes.values() if "model" not in outcome]

    @cached_property
    def scenes(self) -> list[str]:
        """Scenes that were run, in order."""
        return list(dict.fromkeys(run["scene"] for run in self.runs))

    @cached_property
    def models(self) -> list[str]:
        """Models that were run, in order."""
        return list(dict.fromkeys(run["model"] for run in self.runs))

    @cached_property
    def last(self) -> int:
        """The last step after which models were scored."""
        return max((int(point["step"]) for run in self.runs for point in run["steps"]), default=0)

    def ways(self, model: str) -> list[str]:
        """What was done to the latents of a model, or of a control."""
        if model in CONTROLS:
            found = [control[model] for control in self.controls]
        else:
            found = [run["steps"][-1]["conditions"] for run in self.runs if run["model"] == model]
        return [way for way in WAYS if found and all(way in conditions for conditions in found)]

    def points(self, scene: str, model: str) -> dict[Choice, dict[int, Outcome]]:
        """Scored steps by setting and step, then by replicate."""
        found: dict[Choice, dict[int, Outcome]] = {}
        for run in self.runs:
            if run["scene"] == scene and run["model"] == model:
                for point in run["steps"]:
                    found.setdefault((run["setting"], int(point["step"])), {})[int(run["replicate"])] = point
        return found

    def reconstructing(self, scene: str, model: str) -> dict[Choice, dict[int, Outcome]]:
        """Those that reconstruct well: held-out error of at most ``tolerance`` times the model's least."""
        points = self.points(scene, model)
        lost = {choice: float(np.mean([point["lost"] for point in each.values()])) for choice, each in points.items()}
        most = self.preset.tolerance * min(lost.values(), default=0.0)
        return {choice: each for choice, each in points.items() if lost[choice] <= most}

    def as_published(self, scene: str, model: str, way: str) -> Chosen:
        """The setting and step with the best mean modularity among those that reconstruct well; on trained images."""
        if model in CONTROLS:
            return self._control(scene, model, way, "seen")
        points = self.reconstructing(scene, model)
        best = _best(points, way)
        if best is None:
            return Chosen((), None)
        return Chosen(tuple(_scores(point, way, "seen") for point in points[best].values()), best)

    def held_out(self, scene: str, model: str, way: str) -> Chosen:
        """For each replicate, what the other replicates would choose; scored on images that were never trained on."""
        if model in CONTROLS:
            return self._control(scene, model, way, "held_out")
        points = self.reconstructing(scene, model)
        replicates = sorted({replicate for each in points.values() for replicate in each})
        scores, choices = [], []
        for replicate in replicates:
            others = {
                choice: {key: point for key, point in each.items() if key != replicate or len(replicates) == 1}
                for choice, each in points.items()
            }
            best = _best(others, way)
            if best is not None and replicate in points[best]:
                scores.append(_scores(points[best][replicate], way, "held_out"))
                choices.append(best)
        return Chosen(tuple(scores), max(choices, key=choices.count) if choices else None)

    def least_constant(self, scene: str, way: str) -> Chosen:
        """The autoencoder's setting whose decoder is best conditioned after the last step; no label is looked at."""
        last = {choice: each for choice, each in self.reconstructing(scene, "ae").items() if choice[1] == self.last}
        constants = {
            choice: float(np.mean([_constant(point) for point in each.values()])) for choice, each in last.items()
        }
        known = {choice: value for choice, value in constants.items() if math.isfinite(value)}
        if not known:
            return Chosen((), None)
        best = min(known, key=lambda choice: known[choice])
        return Chosen(tuple(_scores(point, way, "held_out") for point in last[best].values()), best)

    def last_points(self, scene: str) -> dict[str, list[Outcome]]:
        """The autoencoder's last steps by weight decay, a list over replicates."""
        found: dict[str, list[Outcome]] = {}
        for (setting, step), each in self.points(scene, "ae").items():
            if step == self.last:
                found[setting] = list(each.values())
        return found

    def generators(self, scene: str) -> list[Outcome]:
        """What the controls know of the scene's own geometry."""
        return [
            control["generator"] for control in self.controls if control["scene"] == scene and control.get("generator")
        ]

    def drawn(self) -> list[tuple[str, Outcome, Outcome]]:
        """Scene, run and last step of the runs that have pictures."""
        return [(run["scene"], run, run["steps"][-1]) for run in self.runs if "sheets" in run["steps"][-1]]

    def _control(self, scene: str, model: str, way: str, side: str) -> Chosen:
        found = [control[model][way][side] for control in self.controls if control["scene"] == scene]
        return Chosen(tuple({name: each[name] for name in MEASURES} for each in found), None)


def title(model: str, way: str) -> str:
    """What a row is called."""
    return TITLES.get(model, model) + WAYS[way]


def decay_of(setting: str) -> float:
    """The weight decay that a setting's name tells."""
    return float(setting.split()[-1])


def _best(points: Mapping[Choice, Mapping[int, Outcome]], way: str) -> Choice | None:
    means = {
        choice: float(np.mean([point["conditions"][way]["seen"]["InfoM"] for point in each.values()]))
        for choice, each in points.items()
        if each
    }
    return max(means, key=lambda choice: means[choice]) if means else None


def _scores(point: Outcome, way: str, side: str) -> dict[str, float]:
    found: dict[str, Any] = point["conditions"][way][side]
    return {name: float(found[name]) for name in MEASURES}


def _constant(point: Outcome) -> float:
    value = point["geometry"]["active"]["similarity"]
    return math.inf if value is None else float(value)
