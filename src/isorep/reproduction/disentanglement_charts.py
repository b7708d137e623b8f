"""The outcomes, sorted: which run of which model with which setting after which step, and which of them is chosen.

The figures of the experiment, as plain numbers.

Is the autoencoder with ICA ahead of the others, in modularity at comparable explicitness?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import t as student

from .disentanglement_settings import DATA, MEASURES, Preset
from .experiment import Chart, Line, Mark, Outcome
from .outcomes import log_ticks

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


_SERIES = {"raw": 0, "rotated": 3, "published": 1, "scaled": 2, "pruned": 4, "whitened": 1}
_SWEPT = ("raw", "published", "scaled", "pruned")


def charts(reading: Reading) -> tuple[Chart, ...]:
    """For each scene the scores and the sweep; the constants of all; matrices and traversals of one run a scene."""
    drawn = [chart for scene in reading.scenes for chart in (_scores_chart(reading, scene), _sweep(reading, scene))]
    drawn.append(_constants(reading))
    drawn += _pictures(reading)
    return tuple(chart for chart in drawn if chart is not None)


def _scores_chart(reading: Reading, scene: str) -> Chart | None:
    marks = []
    for model in (*reading.models, *CONTROLS):
        for way in reading.ways(model):
            chosen = reading.held_out(scene, model, way)
            if chosen.scores:
                mean = chosen.mean("InfoM")
                marks.append(_mark(title(model, way), mean, chosen.mean("InfoE"), _SERIES[way]))
    if not marks:
        return None
    return Chart(
        f"{scene}-infom",
        f"Modularity, {DATA.get(scene, scene)}",
        "InfoM on images never trained on, mean over replicates with its standard error, setting and step chosen by "
        "the other replicates. The tick is InfoE: a high InfoM with a low InfoE is cheap.",
        ("InfoM", ""),
        marks=tuple(marks),
        bound="InfoE",
    )


def _sweep(reading: Reading, scene: str) -> Chart | None:
    points = reading.last_points(scene)
    if len(points) < 2:
        return None
    decays = sorted(points, key=decay_of)
    lines = []
    for way in _SWEPT:
        values = [
            Mean.of([point["conditions"][way]["held_out"]["InfoM"] for point in points[setting]]).value or 0.0
            for setting in decays
        ]
        places = [_logarithm(decay_of(setting)) for setting in decays]
        labels = tuple(f"{setting}: {value:.3f}" for setting, value in zip(decays, values, strict=True))
        lines.append(Line(title("ae", way), tuple(zip(places, values, strict=True)), labels, _SERIES[way]))
    return Chart(
        f"{scene}-sweep",
        f"Weight decay of the autoencoder, {DATA.get(scene, scene)}",
        "InfoM on held-out images after the last step, mean over replicates.",
        ("weight decay", "InfoM"),
        lines=tuple(lines),
        ticks=tuple((_logarithm(decay_of(setting)), f"{decay_of(setting):g}") for setting in decays),
    )


def _constants(reading: Reading) -> Chart | None:
    lines = []
    for series, scene in enumerate(reading.scenes):
        found = []
        for setting, points in reading.last_points(scene).items():
            for point in points:
                constant = point["geometry"]["active"]["similarity"]
                if constant is not None and math.isfinite(constant):
                    value = point["conditions"][OURS[1]]["held_out"]["InfoM"]
                    found.append(
                        (math.log10(constant), value, f"{setting}: constant {constant:.1f}, InfoM {value:.3f}")
                    )
        if found:
            found.sort()
            points_ = tuple((x, y) for x, y, _ in found)
            lines.append(Line(DATA.get(scene, scene), points_, tuple(said for *_, said in found), series, dotted=True))
    if not lines:
        return None
    return Chart(
        "constants",
        "Does the decoder's constant say where ICA works?",
        "Each dot is an autoencoder: its bi-Lipschitz constant up to scale among the directions that the decoder "
        "responds to, and InfoM after ICA on held-out images.",
        ("constant", "InfoM"),
        lines=tuple(lines),
        ticks=log_ticks(x for line in lines for x, _ in line.points),
    )


def _pictures(reading: Reading) -> list[Chart]:
    drawn = []
    for scene, run, point in reading.drawn():
        for way, words in (("raw", "latents"), ("pruned", "components")):
            nmi = point["conditions"][way]["seen"].get("nmi")
            if nmi:
                drawn.append(
                    Chart(
                        f"{scene}-nmi-{words}",
                        f"What {words} know of factors, {DATA.get(scene, scene)}",
                        f"Share of each factor's entropy that each of the {words} tells; {title('ae', way)}, "
                        f"{run['setting']}, first replicate.",
                        (words, "factors"),
                        cells=tuple(tuple(row) for row in nmi),
                        sides=(tuple(run["names"]), tuple(str(place) for place in range(len(nmi[0])))),
                    )
                )
        for words, sheet in point["sheets"].items():
            drawn.append(
                Chart(
                    f"{scene}-traversal-{words}",
                    f"Traversals of {words}, {DATA.get(scene, scene)}",
                    f"Each row moves one of the {words} from its 5 % to its 95 % quantile, the others at rest; from "
                    f"the top: {', '.join(str(place) for place in sheet['order'])}.",
                    ("", ""),
                    picture=sheet["png"],
                    pixels=(sheet["width"], sheet["height"]),
                )
            )
    return drawn


def _mark(name: str, value: Mean, bound: Mean, series: int) -> Mark:
    middle, error = value.value or 0.0, value.error
    low, high = (None, None) if error is None else (max(middle - error, 0.0), middle + error)
    return Mark(name, max(middle, 0.0), low, high, max(bound.value or 0.0, 0.0), series)


def _logarithm(decay: float) -> float:
    return math.log10(decay) if decay > 0 else -6.0


OURS = ("ae", "scaled")
"""The published method, made independent of the latents' scale."""
COMPARABLE = 0.05
"""Explicitness may be so much lower and still be comparable."""
ICA_WAYS = ("published", "scaled", "whitened", "pruned")


@dataclass(frozen=True)
class Test:
    """InfoM of AE + ICA less that of an opponent, over replicates."""

    name: str
    difference: float
    error: float | None
    explicitness: float
    answer: str


def tests(reading: Reading, scene: str) -> list[Test]:
    """Against the AE itself, random rotations of it, the other models, and the controls.

    Of an opponent that has ICA, too, the way to unmix with the best mean InfoM stands for it.
    """
    ours = reading.held_out(scene, *OURS)
    opponents: list[tuple[str, Chosen]] = [
        (title("ae", way), reading.held_out(scene, "ae", way)) for way in ("raw", "rotated")
    ]
    for model in reading.models:
        if model != "ae":
            opponents.append((title(model, "raw"), reading.held_out(scene, model, "raw")))
    for model in CONTROLS:
        opponents.append(_strongest(reading, scene, model))
    return [compared(name, ours, theirs) for name, theirs in opponents if theirs.scores and ours.scores]


def specialists_with_ica(reading: Reading, scene: str) -> list[Test]:
    """The same against the other models with ICA of their own."""
    ours = reading.held_out(scene, *OURS)
    found = []
    for model in reading.models:
        if model != "ae" and any(way in ICA_WAYS for way in reading.ways(model)):
            name, theirs = _strongest(reading, scene, model)
            if theirs.scores and ours.scores:
                found.append(compared(name, ours, theirs))
    return found


def _strongest(reading: Reading, scene: str, model: str) -> tuple[str, Chosen]:
    found = {way: reading.held_out(scene, model, way) for way in reading.ways(model) if way in ICA_WAYS}
    means = {way: chosen.mean("InfoM").value or 0.0 for way, chosen in found.items()}
    if not means:
        return title(model, "raw"), reading.held_out(scene, model, "raw")
    best = max(means, key=lambda way: means[way])
    return title(model, best), found[best]


def quantile(count: int) -> float:
    """Standard errors that a 95 % interval of a mean over so few values reaches, by Student's t."""
    return float(student.ppf(0.975, count - 1)) if count > 1 else 0.0


def compared(name: str, ours: Chosen, theirs: Chosen) -> Test:
    """Paired over replicates where both have all of them; a difference is shown if its 95 % interval leaves out 0."""
    a, b = ours.values("InfoM"), theirs.values("InfoM")
    explicitness = float(np.mean(ours.values("InfoE")) - np.mean(theirs.values("InfoE")))
    if len(a) == len(b) and len(a) > 1:
        differences = np.subtract(a, b)
        mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(a)))
    else:
        mean, error = float(np.mean(a) - np.mean(b)), None
    if abs(mean) <= (error or 0.0) * quantile(len(a)):
        answer = "not shown"
    elif mean < 0:
        answer = "behind"
    else:
        answer = "ahead" if explicitness >= -COMPARABLE else "ahead, but less explicit"
    return Test(name, mean, error, explicitness, answer)
