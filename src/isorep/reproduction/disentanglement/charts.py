"""The figures of the experiment, as plain numbers."""

from __future__ import annotations

import math

from ..experiment import Chart, Line, Mark
from ..ticks import log_ticks
from .published import DATA
from .reading import CONTROLS, Mean, Reading, decay_of, title
from .testing import OURS

_SERIES = {"raw": 0, "rotated": 3, "published": 1, "scaled": 2, "pruned": 4, "whitened": 1}
_SWEPT = ("raw", "published", "scaled", "pruned")


def charts(reading: Reading) -> tuple[Chart, ...]:
    """For each scene the scores and the sweep; the constants of all; matrices and traversals of one run a scene."""
    drawn = [chart for scene in reading.scenes for chart in (_scores(reading, scene), _sweep(reading, scene))]
    drawn.append(_constants(reading))
    drawn += _pictures(reading)
    return tuple(chart for chart in drawn if chart is not None)


def _scores(reading: Reading, scene: str) -> Chart | None:
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
