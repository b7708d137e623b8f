"""InfoMEC of every model and control with Table 2, the sweep of weight decay, pictures, and the published claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..resampling import Interval, Value
from .disentanglement import DATA, ICA_KINDS, Preset
from .experiment import Chart, Claim, Line, Mark, Outcome, Summary, Table
from .outcomes import claim, cloud, estimate, log_ticks, mark, mean_of, over_cases, spearman, summary, table, taken

SOURCE = "Table 2"
MEASURES = ("InfoM", "InfoE", "InfoC")
AGGREGATED = {
    ("ae", "raw"): (0.39, 0.76, 0.25),
    ("beta_vae", "raw"): (0.59, 0.81, 0.55),
    ("beta_tcvae", "raw"): (0.58, 0.72, 0.59),
    ("bioae", "raw"): (0.54, 0.75, 0.36),
    ("ae", "published"): (0.65, 0.83, 0.40),
}
TABLE = {
    ("ae", "raw"): ((0.34, 0.99, 0.16), (0.42, 0.40, 0.31), (0.37, 0.83, 0.20), (0.41, 0.80, 0.34)),
    ("beta_vae", "raw"): ((0.59, 0.99, 0.49), (0.45, 0.71, 0.51), (0.71, 0.73, 0.70), (0.60, 0.80, 0.51)),
    ("beta_tcvae", "raw"): ((0.61, 0.82, 0.62), (0.51, 0.60, 0.57), (0.66, 0.74, 0.71), (0.54, 0.70, 0.46)),
    ("bioae", "raw"): ((0.56, 0.98, 0.44), (0.45, 0.66, 0.36), (0.54, 0.73, 0.31), (0.63, 0.65, 0.33)),
    ("ae", "published"): ((0.79, 0.99, 0.52), (0.44, 0.66, 0.31), (0.71, 0.83, 0.33), (0.64, 0.82, 0.43)),
}
"""Published scores by (model, what was done to its latents), for each data set in the order of ``DATA``."""


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
OURS = ("ae", "scaled")
"""The published method, made independent of the latents' scale."""
COMPARABLE = 0.05  # explicitness may be so much lower and still be comparable
HIGHER = "higher is better"
SELECTIONS = {
    "published": ("seen", "setting and step with the best mean InfoM on training images, as published"),
    "held-out": ("held_out", "setting and step that the other replicates choose, on images never trained on"),
}
SWEPT = {
    "lost": "lost",
    "directions": "geometry.directions",
    "constant": "geometry.active.similarity",
    "condition": "geometry.active.median_condition",
    "AE": "conditions.raw.held_out.InfoM",
    "as published": "conditions.published.held_out.InfoM",
    "rescaled": "conditions.scaled.held_out.InfoM",
    "pruned": "conditions.pruned.held_out.InfoM",
    "InfoE": "conditions.raw.held_out.InfoE",
}
_SERIES = {"raw": 0, "rotated": 3, "published": 1, "scaled": 2, "pruned": 4, "whitened": 1}
_ABOVE = 1e-9  # no difference at all is not ahead
_FEW, _ENOUGH = 4, 8  # runs from which a rank correlation is told, and from which it is judged

Choice = tuple[str, int]
"""A setting, and the step after which it was scored."""


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    selection = Selection(preset, outcomes)
    return summary(claims_of(selection), _tables(selection), _charts(selection))


class Selection:
    """Outcomes by scene, model, setting, step and replicate, and which setting and step is chosen."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.tolerance = preset.tolerance
        self.runs = [outcome for outcome in outcomes.values() if "model" in outcome]
        self.controls = [outcome for outcome in outcomes.values() if "model" not in outcome]
        scenes = [str(run["scene"]) for run in self.runs]
        self.scenes = {scene: DATA.get(scene, scene) for scene in scenes}
        self.models = list(dict.fromkeys(run["model"] for run in self.runs))
        self.last = max((int(point["step"]) for run in self.runs for point in run["steps"]), default=0)
        self.rows = [(model, way) for model in (*self.models, *CONTROLS) for way in self.ways(model)]

    def ways(self, model: str) -> list[str]:
        """What was done to the latents of a model, or of a control."""
        if model in CONTROLS:
            conditions_of = [control[model] for control in self.controls]
        else:
            conditions_of = [run["steps"][-1]["conditions"] for run in self.runs if run["model"] == model]
        return [way for way in WAYS if conditions_of and all(way in conditions for conditions in conditions_of)]

    def points(self, scene: str, model: str) -> dict[Choice, dict[int, Outcome]]:
        """Scored steps by setting and step, then by replicate."""
        by_choice: dict[Choice, dict[int, Outcome]] = {}
        for run in self.runs:
            if run["scene"] == scene and run["model"] == model:
                for point in run["steps"]:
                    by_choice.setdefault((run["setting"], int(point["step"])), {})[int(run["replicate"])] = point
        return by_choice

    def last_points(self, scene: str) -> dict[str, list[Outcome]]:
        """The autoencoder's last steps by weight decay, a list over replicates."""
        points = self.points(scene, "ae")
        return {setting: list(each.values()) for (setting, step), each in points.items() if step == self.last}

    def scores(self, scene: str, model: str, way: str, side: str = "held_out") -> dict[int, Outcome]:
        """Scores by replicate, of the setting and step with the best mean modularity among those that reconstruct well.

        ``seen`` ones are chosen and scored on training images, as published. Of ``held_out`` ones, which were never
        trained on, a replicate has the setting and step that the other replicates choose.
        """
        if model in CONTROLS:
            return {each["replicate"]: each[model][way][side] for each in self.controls if each["scene"] == scene}
        points = self.points(scene, model)
        lost = {choice: _mean(each, "lost").mean for choice, each in points.items()}
        most = self.tolerance * min((each for each in lost.values() if each is not None), default=0.0)
        points = {key: each for key, each in points.items() if (share := lost[key]) is not None and share <= most}
        replicates = sorted({replicate for each in points.values() for replicate in each})
        chosen = {}
        for replicate in replicates:
            apart = replicate if side == "held_out" and len(replicates) > 1 else None
            means = {
                choice: _mean({key: point for key, point in each.items() if key != apart}, _path(way, "seen")).mean
                for choice, each in points.items()
            }
            known = {choice: mean for choice, mean in means.items() if mean is not None}
            best = max(known, key=lambda choice: known[choice]) if known else None
            if best is not None and replicate in points[best]:
                chosen[replicate] = points[best][replicate]["conditions"][way][side]
        return chosen

    def strongest(self, scene: str, model: str) -> str:
        """The way to unmix a control that has the best mean modularity."""
        ways = [way for way in self.ways(model) if way in ICA_KINDS]
        means = {way: _mean(self.scores(scene, model, way), "InfoM").mean or 0.0 for way in ways}
        return max(means, key=lambda way: means[way]) if means else "raw"


def _path(way: str, side: str = "held_out") -> str:
    return f"conditions.{way}.{side}.InfoM"


def _mean(points: Mapping[Any, Outcome] | list[Outcome], path: str) -> Value:
    """Mean over replicates, and its standard error."""
    return mean_of(taken(each, path) for each in (points.values() if isinstance(points, Mapping) else points))


def title(model: str, way: str) -> str:
    """What a row is called."""
    return TITLES.get(model, model) + WAYS[way]


def _tables(selection: Selection) -> list[Table]:
    made = []
    for scene, name in selection.scenes.items():
        for key, (side, words) in SELECTIONS.items():
            scores = {title(*row): selection.scores(scene, *row, side) for row in selection.rows}
            rows = {row: [_mean(each, measure) for measure in MEASURES] for row, each in scores.items()}
            beside = _beside(scene) if key == "published" else None
            made.append(table(f"{scene}-{key}", f"{name}: {words}", HIGHER, rows, MEASURES, beside, _source(scene)))
    if set(DATA) <= set(selection.scenes):
        rows = {
            title(*row): [
                _over_scenes([_mean(selection.scores(scene, *row, "seen"), measure) for scene in DATA])
                for measure in MEASURES
            ]
            for row in selection.rows
            if row[0] not in CONTROLS
        }
        made.append(table("aggregated", "Mean over the data sets", HIGHER, rows, MEASURES, _beside(""), SOURCE))
    words = (
        "The autoencoder by weight decay: share of the variance that reconstructions lose, directions the decoder "
        "responds to, its bi-Lipschitz constant (up to scale) and median condition number among these, and InfoM"
    )
    rows = {
        f"{name}, {setting}": [_mean(points, path) for path in SWEPT.values()]
        for scene, name in selection.scenes.items()
        for setting, points in selection.last_points(scene).items()
    }
    return [*made, table("sweep", words, "held-out images, after the last step", rows, tuple(SWEPT))]


def _beside(scene: str) -> dict[str, tuple[float, ...]]:
    """The published scores of a scene: means over data sets where it is no published one.

    For rooms they are those of Shapes3D, which rooms imitate.
    """
    own = "shapes3d" if scene == "rooms" else scene
    return {title(*row): dict(zip(DATA, each, strict=True)).get(own, AGGREGATED[row]) for row, each in TABLE.items()}


def _source(scene: str) -> str:
    if scene in DATA:
        return f"{SOURCE}, {DATA[scene]}"
    return f"{SOURCE}, {'Shapes3D' if scene == 'rooms' else 'all data sets'}: other images"


def _over_scenes(values: list[Value]) -> Value:
    known = [each.mean for each in values if each.mean is not None]
    return Value(float(np.mean(known)) if len(known) == len(values) else None)


def _charts(selection: Selection) -> list[Chart]:
    """For each scene the scores and the sweep; the constants of all; matrices and traversals of one run a scene."""
    drawn = []
    for scene, name in selection.scenes.items():
        drawn += [_scores_chart(selection, scene, name), _sweep(selection, scene, name)]
    lines = []
    for series, (scene, name) in enumerate(selection.scenes.items()):
        dots = sorted(constants(selection, scene))
        labels = [f"{setting}: constant {10**x:.1f}, InfoM {y:.3f}" for x, y, setting in dots]
        lines.append(cloud([dot[:2] for dot in dots], name, series, labels))
    drawn.append(
        Chart(
            "constants",
            "InfoM after ICA against the decoder's constant",
            "Each dot is an autoencoder: its bi-Lipschitz constant up to scale among the directions that the decoder "
            "responds to, and InfoM after ICA on held-out images.",
            ("constant", "InfoM"),
            lines=tuple(lines),
            ticks=log_ticks(x for line in lines for x, _ in line.points),
        )
    )
    return drawn + [chart for run in selection.runs for chart in _pictures(run, selection.scenes[run["scene"]])]


def _scores_chart(selection: Selection, scene: str, name: str) -> Chart:
    marks: list[Mark] = []
    for model, way in selection.rows:
        scores = selection.scores(scene, model, way)
        bound = max(_mean(scores, "InfoE").mean or 0.0, 0.0)
        marks += mark(title(model, way), _mean(scores, "InfoM"), _SERIES[way], bound)
    return Chart(
        f"{scene}-infom",
        f"Modularity, {name}",
        "InfoM on images never trained on, mean over replicates with its standard error, setting and step chosen by "
        "the other replicates. The tick is InfoE: a high InfoM with a low InfoE is easy to reach.",
        ("InfoM", ""),
        marks=tuple(marks),
        bound="InfoE",
    )


def _sweep(selection: Selection, scene: str, name: str) -> Chart:
    points = selection.last_points(scene)
    decays = {float(setting.split()[-1]): setting for setting in points} if len(points) > 1 else {}
    places = {decay: math.log10(decay) if decay > 0 else -6.0 for decay in sorted(decays)}
    lines = []
    for way in ("raw", "published", "scaled", "pruned"):
        values = [_mean(points[decays[decay]], _path(way)).mean or 0.0 for decay in places]
        labels = tuple(f"{decays[decay]}: {value:.3f}" for decay, value in zip(places, values, strict=True))
        lines.append(Line(title("ae", way), tuple(zip(places.values(), values, strict=True)), labels, _SERIES[way]))
    return Chart(
        f"{scene}-sweep",
        f"Weight decay of the autoencoder, {name}",
        "InfoM on held-out images after the last step, mean over replicates.",
        ("weight decay", "InfoM"),
        lines=tuple(lines),
        ticks=tuple((place, f"{decay:g}") for decay, place in places.items()),
    )


def constants(selection: Selection, scene: str) -> list[tuple[float, float, str]]:
    """Logarithm of the decoder's constant and InfoM of AE + ICA, for every autoencoder that has both."""
    dots = []
    for setting, points in selection.last_points(scene).items():
        for point in points:
            constant, modular = taken(point, SWEPT["constant"]), taken(point, SWEPT["rescaled"])
            if constant is not None and math.isfinite(constant) and modular is not None:
                dots.append((math.log10(constant), float(modular), setting))
    return dots


def _pictures(run: Outcome, name: str) -> list[Chart]:
    drawn: list[Chart] = []
    point = run["steps"][-1]
    if "sheets" not in point:
        return drawn
    for way, words in (("raw", "latents"), ("pruned", "components")):
        nmi = point["conditions"][way]["seen"].get("nmi") or ((),)
        drawn.append(
            Chart(
                f"{run['scene']}-nmi-{words}",
                f"Information of {words} about factors, {name}",
                f"Share of each factor's entropy that each of the {words} explains; {title('ae', way)}, "
                f"{run['setting']}, first replicate.",
                (words, "factors"),
                cells=tuple(tuple(row) for row in nmi if row),
                sides=(tuple(run["names"]), tuple(str(place) for place in range(len(nmi[0])))),
            )
        )
    for words, sheet in point["sheets"].items():
        drawn.append(
            Chart(
                f"{run['scene']}-traversal-{words}",
                f"Traversals of {words}, {name}",
                f"Each row moves one of the {words} from its 5% to its 95% quantile, the others fixed; from "
                f"the top: {', '.join(str(place) for place in sheet['order'])}.",
                ("", ""),
                picture=sheet["png"],
                pixels=(sheet["width"], sheet["height"]),
            )
        )
    return drawn


def claims_of(selection: Selection) -> list[Claim]:
    """AE + ICA against the AE, the other models and every control, in every scene; and the prediction of the theory."""
    ours, autoencoder = AGGREGATED["ae", "published"][0], AGGREGATED["ae", "raw"][0]
    rivals = [scores[0] for (model, _), scores in AGGREGATED.items() if model != "ae"]
    mean = "mean over data sets in Table 2"
    against = {
        "ae": ("AE + ICA is more modular than the AE", f"{ours} against {autoencoder}, {mean}"),
        "others": (
            "AE + ICA is more modular than specialised models",
            f"{ours} against {min(rivals)} to {max(rivals)}, {mean}",
        ),
        "rotated": ("AE + ICA is more modular than random rotations of the AE's latents (a control)", ""),
        "pixels": ("AE + ICA is more modular than ICA of principal components of the pixels (a control)", ""),
        "untrained": ("AE + ICA is more modular than ICA of an encoder that was never trained (a control)", ""),
    }
    rule = f"above 0 in every scene, with InfoE lower by at most {COMPARABLE}"
    made = []
    for key, (text, published) in against.items():
        if cases := differences(selection, key):
            made.append(replace(over_cases(text, cases, above=0.0, published=published, form=".2f"), rule=rule))
    dots = [np.array([dot[:2] for dot in constants(selection, scene)]) for scene in selection.scenes]
    if (count := sum(map(len, dots))) >= _FEW:
        rank = spearman([(each[:, 0], each[:, 1]) for each in dots if len(each)])
        judged = claim(
            "AE + ICA is more modular where the decoder is better conditioned",
            f"rank correlation of the decoder's constant with InfoM within scenes, {count} runs:",
            rank if rank.interval and count >= _ENOUGH else replace(rank, interval=Interval(-1.0, 1.0)),
            most=-_ABOVE,
            published="none; the theory expects a negative one",
            form=".2f",
        )
        made.append(replace(judged, rule="below 0"))
    return made


def differences(selection: Selection, against: str) -> dict[str, Value]:
    """InfoM of AE + ICA minus that of opponents over replicates, with Student's 95% interval, by opponent and scene.

    Where AE + ICA is less explicit, or that is not known, the interval has no lower end: it is then not ahead.
    """
    cases = {}
    for scene, name in selection.scenes.items():
        if against in CONTROLS:
            opponents = [(against, selection.strongest(scene, against))] if selection.ways(against) else []
        elif against == "others":
            opponents = [(model, "raw") for model in selection.models if model != "ae"]
        else:
            opponents = [("ae", "raw" if against == "ae" else against)]
        ours = selection.scores(scene, *OURS)
        for opponent in opponents:
            theirs = selection.scores(scene, *opponent)
            modular, explicit = (
                [
                    ours[key][measure] - theirs[key][measure]
                    for key in sorted(set(ours) & set(theirs))
                    if ours[key][measure] is not None and theirs[key][measure] is not None
                ]
                for measure in ("InfoM", "InfoE")
            )
            level = mean_of(explicit)
            words = f"held-out InfoM minus that of {title(*opponent)} in {name} (InfoE {level:+.2f})"
            if modular:
                shown = estimate(modular)
                ends = shown.interval or Interval(float(np.mean(modular)), float(np.mean(modular)))
                if level.mean is None or level.mean < -COMPARABLE:
                    ends = replace(ends, low=-math.inf)
                cases[words] = Value(shown.mean, interval=ends)
            elif ours:
                cases[words] = Value(None)
    return cases
