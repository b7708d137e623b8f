"""What was found, in sentences made by rule from the numbers.

Figures 2 and A.3 to A.6, as plain numbers.

The outcomes of the units by part: pairs with their leak, and which of them the filter drops.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array
from .experiment import Chart, Line, Mark, Outcome, Row, Summary, Table
from .outcomes import Correlation, fit_curve, roots, spearman, spearman_within
from .warmup import DROPPED, DROPPED_BY_CLASS, LEFT_OPEN, NAMES, QUANTILES, Preset, training_of

CLOSE = 0.97
"""Ratio of neighbouring eigenvalues above which the linear autoencoder counts as hardly unique."""


def verdict(parts: list[Part]) -> tuple[str, bool | None]:
    """Whether the error falls as the leak goes to 1, and follows L: both, one, none; for the first part."""
    if not parts:
        return "No pair was trained.", None
    part = parts[0]
    falls, low, high = _falls(part)
    rank = spearman(*part.columns())
    follows = rank.low is not None and rank.low > 0
    said = [
        f"{part.title}: the error {'falls' if falls else 'does not fall'} as the leak goes to 1, from {low} % of the "
        f"diameter at leak {part.leaks[0]:g} to {high} % at leak {part.leaks[-1]:g}",
        f"It {'follows' if follows else 'is not shown to follow'} √(2L + L²): rank correlation {_spelt(rank)}",
    ]
    return ". ".join(said) + ".", True if falls and follows else None if falls or follows else False


def findings(parts: list[Part], preset: Preset) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = []
    for part in parts:
        said += [_trend(part), _within(part, preset), _constants_finding(part), _bound(part), _outputs(part)]
    for part in parts:
        gaps = {outcome["spectrum_gap"] for outcome in part.outcomes}
        if max(gaps) > CLOSE:
            said.append(
                f"{part.title}: the eigenvalues of the images' second moments at the latent dimension are as close as "
                f"{max(gaps):.2f}, so that the linear autoencoder is hardly unique: errors at leak 1 need not be zero."
            )
    return (*said, LEFT_OPEN)


def _trend(part: Part) -> str:
    values = [part.mean(leak, lambda pair: 100 * pair.error)[0] for leak in part.leaks]
    unseen = [part.mean(leak, lambda pair: 100 * pair.held_out)[0] for leak in part.leaks]
    chance = float(np.mean([100 * pair.found["chance"] for pair in part.pairs]))
    return (
        f"{part.title}: mean rigid error by leak ({', '.join(f'{leak:g}' for leak in part.leaks)}): "
        f"{_listed(values)} % of the diameter; on images that nothing was fitted to {_listed(unseen)} %; with shuffled "
        f"images {chance:.1f} %. Dropped by the filter: {part.dropped} of {len(part.pairs)} pairs."
    )


def _within(part: Part, preset: Preset) -> str:
    rank, within = spearman(*part.columns()), spearman_within(part.groups())
    curve = fit_curve(*part.columns(), preset.intercept)
    if within.low is not None and within.low > 0:
        words = "so L also tells pairs of one leak apart"
    elif within.high is not None and within.high < 0:
        words = "with the other sign: the leak drives both the error and L, and L says nothing beyond it"
    else:
        words = "so L is not shown to tell pairs of one leak apart: the leak drives both the error and L"
    fit = "" if curve.r2 is None else f", R² of the curve {curve.r2:.2f}"
    return (
        f"{part.title}: over all leaks the rank correlation of the error with √(2L + L²) is {_spelt(rank)}{fit}; "
        f"within a leak it is {_spelt(within)}, {words}."
    )


def _constants_finding(part: Part) -> str:
    over = sum(
        side["exact"]["max"] > outcome["bound_activations"] * (1 + 1e-4)
        for outcome in part.outcomes
        for pair in outcome["pairs"]
        for side in pair["sides"]
    )
    sides = [side for pair in part.pairs for side in pair.found["sides"]]
    under = float(np.mean([side["paper"]["mean"] - 1 for side in sides])) / max(
        float(np.mean([side["exact"]["mean"] - 1 for side in sides])), 1e-12
    )
    drift = max(side["defect"] for side in sides)
    typical = [part.mean(leak, lambda pair: pair.excess("exact", "mean"))[0] for leak in part.leaks]
    largest = [part.mean(leak, lambda pair: 1 + pair.excess("exact", "max"))[0] for leak in part.leaks]
    return (
        f"{part.title}: by leak the mean of L is {_listed(typical)}, the largest constant 1 + L of a pair "
        f"{_listed(largest)} on average. {over} of {len(sides)} decoders have a local constant above α^-(K-1), which "
        f"is tighter than the published α^-K. Ten random directions see {under:.0%} of the exact mean L. Weights "
        f"stayed orthogonal within {drift:.0e}."
    )


def _bound(part: Part) -> str:
    bounds = [pair.found["bound"] for pair in part.kept]
    violated, vacuous = sum(each["violated"] for each in bounds), sum(each["vacuous"] for each in bounds)
    equal = sum(each["equal_outputs_violated"] for each in bounds)
    said = (
        f"{part.title}: the bound on the RMS error, with a term for outputs that differ, is violated by {violated} of "
        f"{len(bounds)} pairs and vacuous for {vacuous}: it says no more than the size of the clouds. "
    )
    if equal:
        said += (
            f"Without that term {equal} pairs violate it, as the theorem assumes two models with equal outputs and "
            "these differ."
        )
    else:
        said += "Without that term, which the theorem leaves out by assuming equal outputs, it is not violated either."
    return said


def _outputs(part: Part) -> str:
    ends = [part.leaks[0], part.leaks[-1]]
    apart = [part.mean(leak, lambda pair: pair.found["mismatch"]["rms"])[0] for leak in ends]
    lost = [part.mean(leak, lambda pair: 1000 * pair.reconstruction)[0] for leak in ends]
    return (
        f"{part.title}: reconstruction is not perfect at any leak (1000 x mean squared error of a pixel: "
        f"{_listed(lost)} at leaks {ends[0]:g} and {ends[1]:g}); the outputs of two models differ by {_listed(apart)} "
        "there, in the root mean square of the norm."
    )


def _falls(part: Part) -> tuple[bool, str, str]:
    """At most half the error at the largest leak, by two standard errors."""
    first, first_error = part.mean(part.leaks[0], lambda pair: 100 * pair.error)
    last, last_error = part.mean(part.leaks[-1], lambda pair: 100 * pair.error)
    if first is None or last is None:
        return False, "unknown", "unknown"
    margin = 2 * float(np.hypot(first_error or 0.0, last_error or 0.0))
    return last <= first / 2 and first - last > margin, f"{first:.3g}", f"{last:.3g}"


def _spelt(found: Correlation) -> str:
    if found.value is None:
        return "unknown"
    interval = "" if found.low is None else f" (95 % interval {_signed(found.low)} to {_signed(found.high)})"
    return f"{_signed(found.value)}{interval}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}".replace("-", "−")


def _listed(values: list[float | None]) -> str:
    return ", ".join("none" if value is None else f"{value:.3g}" for value in values)


ERROR = "mean rigid error, % of the diameter"
TERM = {"2L+L2": "√(2L + L²)", "L+L2": "√(L + L²)"}
_COLOURED = 6
_POINTS = 80  # more than are drawn as dots


def charts(parts: list[Part], preset: Preset) -> tuple[Chart, ...]:
    """Figure 2 for every part; the others for the first."""
    drawn: list[Chart] = []
    for place, part in enumerate(parts):
        drawn.append(_against_term(part, preset, "mean"))
        if place == 0:
            drawn += [_distribution(part), _against_term(part, preset, "max"), _reconstruction(part)]
    return tuple(drawn)


def _against_term(part: Part, preset: Preset, statistic: str) -> Chart:
    """Figure 2 (or A.6) with the mean over samples, Figure A.4 with the largest."""
    lines = _clouds(part, lambda pair: part.x(pair, "paper", statistic))
    x, errors = part.columns("paper", statistic)
    curve = fit_curve(x, errors, preset.intercept)
    ends = np.linspace(0.0, float(x.max()) if len(x) else 1.0, _POINTS)
    drawn = tuple((float(value), 100 * (curve.slope * float(value) + curve.intercept)) for value in ends)
    fitted = "none" if curve.r2 is None else f"{curve.r2:.2f}"
    lines.append(Line("fitted", drawn, tuple(f"{100 * curve.slope:.3g} x {at:.2f}" for at, _ in drawn)))
    figure = "A.6" if part.by_class else "2" if statistic == "mean" else "A.4"
    which = preset.statistic if statistic == "mean" else "largest L"
    return Chart(
        f"{'error' if statistic == 'mean' else 'largest'}-{part.name}{'-class' if part.by_class else ''}",
        f"{part.title}: error against L (Figure {figure})",
        f"A dot is a pair of autoencoders. Across: {TERM[preset.form]} of the decoders ({which}, ten directions). "
        f"The curve is err = a {TERM[preset.form]}, R² {fitted}. The leak drives both axes.",
        (f"{TERM[preset.form]}, {'mean over samples' if statistic == 'mean' else 'largest over samples'}", ERROR),
        lines=tuple(lines),
    )


def _distribution(part: Part) -> Chart:
    """Figure A.3: local constants, by leak."""
    marks = []
    for place, leak in enumerate(part.leaks):
        sides = [side["paper"] for pair in part.at(leak) for side in pair.found["sides"]]
        if sides:
            spread = dict(zip(QUANTILES, np.mean([side["quantiles"] for side in sides], axis=0), strict=True))
            largest = max(side["max"] for side in sides)
            marks.append(
                Mark(
                    f"leak {leak:g}",
                    float(spread[0.5]),
                    float(spread[0.05]),
                    float(spread[0.95]),
                    float(largest),
                    _colour(place),
                )
            )
    return Chart(
        f"constants-{part.name}",
        f"{part.title}: local constants 1 + L (Figure A.3)",
        "Median of the local constants with their 5 % and 95 % quantiles, averaged over autoencoders; the tick is the "
        "largest of all. 1 is an isometry.",
        ("local bi-Lipschitz constant 1 + L, ten directions", ""),
        marks=tuple(marks),
        bound="largest",
        whisker="5 % to 95 % of the samples",
    )


def _reconstruction(part: Part) -> Chart:
    """Figure A.5: reconstruction is not perfect, and does not decide the error."""
    return Chart(
        f"reconstruction-{part.name}",
        f"{part.title}: error against reconstruction (Figure A.5)",
        "A dot is a pair of autoencoders; across, the worse mean squared error of a pixel of the two. Perfect "
        "reconstruction, which the theorem assumes, would be zero.",
        ("1000 x mean squared error of a pixel", ERROR),
        lines=tuple(_clouds(part, lambda pair: 1000 * pair.reconstruction)),
    )


def _clouds(part: Part, x: Callable[[Pair], float]) -> list[Line]:
    """Dots of each leak in its colour."""
    lines = []
    for place, leak in enumerate(part.leaks[:_COLOURED]):
        pairs = part.at(leak)
        if pairs:
            points = tuple((x(pair), 100 * pair.error) for pair in pairs)
            labels = tuple(f"leak {leak:g}: {across:.3g}, {up:.3g} %" for across, up in points)
            lines.append(Line(f"leak {leak:g}", points, labels, _colour(place), dotted=True))
    return lines


def _colour(place: int) -> int:
    return 1 + place % _COLOURED


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


ESTIMATES = (
    ("paper", "mean", "mean L, 10 directions"),
    ("exact", "mean", "mean L, exact"),
    ("paper", "max", "largest L, 10 directions"),
    ("exact", "max", "largest L, exact"),
)


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    parts = parts_of(preset, outcomes)
    sentence, reached = verdict(parts)
    tables = [table for part in parts for table in (_errors(part), _constants_table(part), _bounds(part))]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=(*tables, _curves(parts, preset), _correlations(parts), _dropped(parts)),
        charts=charts(parts, preset),
        findings=findings(parts, preset),
    )


def _errors(part: Part) -> Table:
    columns: dict[str, Measure] = {
        "mean, in-sample": lambda pair: 100 * pair.error,
        "mean, held out": lambda pair: 100 * pair.held_out,
        "largest": lambda pair: 100 * float(pair.found["error"]["sup"]),
        "shuffled": lambda pair: 100 * float(pair.found["chance"]),
    }
    return _by_leak(
        part,
        f"error-{_anchor(part)}",
        f"{part.title}: error of the best rigid motion in % of the diameter, ± s.e. over kept pairs",
        columns,
        "lower is closer; shuffled images are chance",
    )


def _constants_table(part: Part) -> Table:
    bounds = {outcome["leak"]: outcome for outcome in part.outcomes}
    columns: dict[str, Measure] = {
        "mean L, 10 dir.": lambda pair: pair.excess("paper", "mean"),
        "mean L": lambda pair: pair.excess("exact", "mean"),
        "largest 1 + L": lambda pair: 1 + pair.excess("exact", "max"),
        "α^-(K-1)": lambda pair: float(bounds[pair.leak]["bound_activations"]),
        "α^-K": lambda pair: float(bounds[pair.leak]["bound_layers"]),
        "1000 x MSE": lambda pair: 1000 * pair.reconstruction,
    }
    return _by_leak(
        part,
        f"constants-{_anchor(part)}",
        f"{part.title}: L of the decoders with its bounds, and reconstruction, ± s.e. over kept pairs",
        columns,
        "L is 0 for an isometry",
    )


def _by_leak(part: Part, name: str, title: str, columns: dict[str, Measure], direction: str) -> Table:
    rows = []
    for leak in part.leaks:
        found = [part.mean(leak, measure) for measure in columns.values()]
        errors = tuple(None if name.startswith("α") else error for name, (_, error) in zip(columns, found, strict=True))
        rows.append(Row(f"leak {leak:g}", tuple(value for value, _ in found), errors))
    return Table(name, title, tuple(columns), tuple(rows), direction)


def _bounds(part: Part) -> Table:
    rows = []
    for leak in part.leaks:
        bound = [pair.found["bound"] for pair in part.at(leak)]
        values = (
            *(100 * float(np.mean([each[key] for each in bound])) if bound else None for key in ("rms", "value")),
            float(sum(each["violated"] for each in bound)),
            float(sum(each["vacuous"] for each in bound)),
            100 * float(np.mean([each["equal_outputs"] for each in bound])) if bound else None,
            float(sum(each["equal_outputs_violated"] for each in bound)),
        )
        rows.append(Row(f"leak {leak:g}, {len(bound)} pairs", values))
    return Table(
        f"bounds-{_anchor(part)}",
        f"{part.title}: RMS error and its bounds in % of the diameter, with counts of pairs",
        ("RMS error", "bound", "violated", "vacuous", "for equal outputs", "violated"),
        tuple(rows),
        "vacuous where it says no more than the size of the clouds",
    )


def _curves(parts: list[Part], preset: Preset) -> Table:
    rows = []
    other = "L+L2" if preset.form == "2L+L2" else "2L+L2"
    for part in parts:
        for estimator, statistic, words in ESTIMATES:
            x, errors = part.columns(estimator, statistic)
            curve, line = fit_curve(x, errors, preset.intercept), fit_curve(x, errors, True)
            bent = fit_curve(*part.columns(estimator, statistic, other), preset.intercept)
            rows.append(Row(f"{part.title}: {words}", (100 * curve.slope, curve.r2, bent.r2, line.r2)))
    return Table(
        "curves",
        f"Fitted curve err = a {TERM[preset.form]} over kept pairs, and others",
        ("100 a", "R²", f"R², {TERM[other]}", "R², with intercept"),
        tuple(rows),
        "1 is a perfect fit",
    )


def _correlations(parts: list[Part]) -> Table:
    rows = []
    for part in parts:
        for estimator, statistic, words in ESTIMATES:
            rank, within = (
                spearman(*part.columns(estimator, statistic)),
                spearman_within(part.groups(estimator, statistic)),
            )
            values = (rank.value, rank.low, rank.high, within.value, within.low, within.high)
            rows.append(Row(f"{part.title}: {words}", values))
    return Table(
        "correlations",
        "Rank correlation of the error with L, over all kept pairs and within a leak, with 95 % intervals",
        ("over all", "low", "high", "within a leak", "low", "high"),
        tuple(rows),
        "1: a larger L always has a larger error",
    )


def _dropped(parts: list[Part]) -> Table:
    rows = [
        Row(
            part.title,
            (float(part.dropped), float(len(part.pairs))),
            (),
            tuple(map(float, DROPPED_BY_CLASS if part.by_class else DROPPED)) if part.name == "mnist" else (),
        )
        for part in parts
    ]
    have = {(part.name, part.by_class) for part in parts}
    for by_class, numbers, words in ((False, DROPPED, ""), (True, DROPPED_BY_CLASS, ", a model for each digit")):
        if ("mnist", by_class) not in have:
            rows.append(Row(f"MNIST{words}", (), (), tuple(map(float, numbers))))
    return Table(
        "dropped",
        "Pairs dropped by the filter on reconstruction",
        ("dropped", "pairs"),
        tuple(rows),
        "fewer is better convergence",
        "appendix A.7.1",
    )


def _anchor(part: Part) -> str:
    return part.name + ("-class" if part.by_class else "")
