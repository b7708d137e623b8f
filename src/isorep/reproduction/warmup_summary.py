"""Rigid error against the bi-Lipschitz excess L of decoders: tables by leak, Figures 2 and A.3 to A.6, claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from ..representation import Array
from ..resampling import Value
from ..results import counted
from .experiment import Chart, Claim, Line, Mark, Outcome, Summary, Table
from .outcomes import claim, cloud, fit_curve, mean_of, roots, spanned, spearman, summary, table
from .warmup import DROPPED, NAMES, QUANTILES, Preset, training_of

Measure = Callable[[Mapping[str, Any]], float]

ESTIMATES = {
    ("paper", "mean"): "mean L, 10 directions",
    ("exact", "mean"): "mean L, exact",
    ("paper", "max"): "largest L, 10 directions",
    ("exact", "max"): "largest L, exact",
}
BY_LEAK: dict[str, tuple[str, str, dict[str, Measure]]] = {
    "error": (
        "error of the best rigid motion in % of the diameter, ± s.e. over kept pairs",
        "lower is closer; shuffled images are chance",
        {
            "mean, in-sample": lambda pair: 100 * pair["error"]["mean"],
            "mean, held out": lambda pair: 100 * pair["held_out"]["mean"],
            "largest": lambda pair: 100 * pair["error"]["sup"],
            "shuffled": lambda pair: 100 * pair["chance"],
        },
    ),
    "constants": (
        "L of the decoders with its bounds, and reconstruction, ± s.e. over kept pairs",
        "L is 0 for an isometry",
        {
            "mean L, 10 dir.": lambda pair: excess(pair, "paper", "mean"),
            "mean L": lambda pair: excess(pair, "exact", "mean"),
            "largest 1 + L": lambda pair: 1 + excess(pair, "exact", "max"),
            "α^-(K-1)": lambda pair: pair["bound_activations"],
            "α^-K": lambda pair: pair["bound_layers"],
            "1000 x MSE": lambda pair: 1000 * reconstruction(pair),
        },
    ),
}
BOUND_KEYS = ("rms", "value", "violated", "vacuous", "equal_outputs", "equal_outputs_violated")
ERROR = "mean rigid error, % of the diameter"
TERM = {"2L+L2": "√(2L + L²)", "L+L2": "√(L + L²)"}
HALF = 0.5
"""Largest error at leak 1, as a share of that at the smallest leak, at which the error counts as falling."""
ROUNDING = 1 + 1e-4
"""Ratio of a local constant to its bound up to which the excess is attributed to single precision."""
_COLOURED = 6
_POINTS = 80  # more than are drawn as dots


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn, MNIST before the digits of scikit-learn: the first part is the headline."""
    every = [
        Part(name, by_class, preset, outcomes)
        for by_class in (False, True)
        for name in ("mnist", "digits")
        if training_of(preset, name, by_class) is not None
    ]
    parts = [part for part in every if part.pairs]
    by_leak = [made for part in parts for made in (*_by_leak(part), _bounds(part))]
    return summary(claims_of(parts), (*by_leak, *_fits(parts, preset), _dropped(parts)), charts(parts))


class Part:
    """All pairs of one data set, trained on all classes together or on each, and which of them the filter keeps."""

    def __init__(self, name: str, by_class: bool, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.name, self.by_class, self.preset = name, by_class, preset
        self.title = NAMES[name] + (", a model for each digit" if by_class else "")
        self.anchor = name + ("-class" if by_class else "")
        self.pairs = [
            outcome | pair
            for outcome in outcomes.values()
            if outcome["set"] == name and (outcome["label"] is not None) == by_class
            for pair in outcome["pairs"]
        ]
        self.leaks = sorted({pair["leak"] for pair in self.pairs})
        self.limit = self._limit()
        self.kept = [pair for pair in self.pairs if _converged(pair) and reconstruction(pair) <= self.limit]

    def at(self, leak: float) -> list[Mapping[str, Any]]:
        """Kept pairs of a leak."""
        return [pair for pair in self.kept if pair["leak"] == leak]

    def mean(self, leak: float, measure: Measure) -> Value:
        """Mean over kept pairs."""
        return mean_of(measure(pair) for pair in self.at(leak))

    def x(self, pair: Mapping[str, Any], estimator: str, statistic: str, form: str | None = None) -> float:
        """The theorem's term of a pair: over samples by the preset's statistic, or at the largest L."""
        wanted = form or self.preset.form
        if statistic == "mean" and self.preset.statistic == "mean of roots":
            return float(np.mean([side[estimator]["mean_roots"][wanted] for side in pair["sides"]]))
        return float(roots(np.array(excess(pair, estimator, statistic)), wanted))

    def columns(
        self, estimator: str = "paper", statistic: str = "mean", form: str | None = None, leak: float | None = None
    ) -> tuple[Array, Array]:
        """Term and error of all kept pairs, or of those of a leak."""
        pairs = self.kept if leak is None else self.at(leak)
        terms = [self.x(pair, estimator, statistic, form) for pair in pairs]
        return np.array(terms), np.array([pair["error"]["mean"] for pair in pairs])

    def ranks(self, estimator: str = "paper", statistic: str = "mean") -> tuple[Value, Value]:
        """Rank correlations of error and term: over all kept pairs, and within leaks."""
        by_leak = [self.columns(estimator, statistic, leak=leak) for leak in self.leaks]
        return spearman([self.columns(estimator, statistic)], least=2), spearman(by_leak)

    def _limit(self) -> float:
        """The percentile of the reconstruction errors of all autoencoders at the reference leak."""
        reference = min(self.leaks, key=lambda leak: abs(leak - self.preset.reference_leak), default=None)
        sides = [side for pair in self.pairs if pair["leak"] == reference for side in pair["sides"]]
        errors = [side["reconstruction"] for side in sides if side["reconstruction"] is not None]
        known = [error for error in errors if np.isfinite(error)]
        return float(np.percentile(known, self.preset.percentile)) if known else float("inf")


def excess(pair: Mapping[str, Any], estimator: str, statistic: str) -> float:
    """The mean over both decoders of their mean L, or the largest L of either."""
    values = [side[estimator][statistic] - 1 for side in pair["sides"]]
    return float(max(values) if statistic == "max" else np.mean(values))


def reconstruction(pair: Mapping[str, Any]) -> float:
    """The worse of the two mean squared errors of a pixel."""
    return float(max(side["reconstruction"] for side in pair["sides"]))


def _converged(pair: Mapping[str, Any]) -> bool:
    return all(side["ended"] != "diverged" for side in pair["sides"])


def claims_of(parts: list[Part]) -> tuple[Claim, ...]:
    """The headline's error by leak and by L; then models of one class, and the bounds over all parts."""
    if not parts:
        return ()
    head, term = parts[0], TERM[parts[0].preset.form]
    ranked = (
        (f"the error grows with {term}", "rank correlation over all kept pairs", "in MNIST (Figure 2), no number"),
        (f"the error also grows with {term} within a leak", "rank correlation within a leak", "not reported"),
    )
    ranks = [rank if rank.interval else Value(None) for rank in head.ranks()]  # only an interval judges them
    grows, tells = (
        claim(f"{head.title}: {text}", f"{measure}:", rank, above=0.0, published=published)
        for (text, measure, published), rank in zip(ranked, ranks, strict=True)
    )
    ended = [pair for part in parts for pair in part.pairs if _converged(pair)]
    above = [side["exact"]["max"] / pair["bound_activations"] > ROUNDING for pair in ended for side in pair["sides"]]
    violated = [pair["bound"]["violated"] for part in parts for pair in part.kept if not pair["bound"]["vacuous"]]
    counted = {
        "the leak limits the local constants of decoders": ("decoders above α^-(K-1)", above, "at most α^-K"),
        "the RMS error is within its bound": ("kept pairs above it, if not vacuous", violated, "for equal outputs"),
    }
    within = []
    for text, (measure, cases, published) in counted.items():
        count = Value(sum(cases) if cases else None)
        within.append(claim(text, f"{measure}, of {len(cases)}:", count, most=0, published=published, form=".0f"))
    return (_falls(head), grows, *[_falls(part) for part in parts[1:] if part.by_class][:1], *within, tells)


def _falls(part: Part) -> Claim:
    """The error at leak 1 as a share of that at the smallest leak, its error by propagation."""
    first, last = (part.mean(leak, lambda pair: pair["error"]["mean"]) for leak in (part.leaks[0], 1.0))
    share = Value(None)
    if part.leaks[0] < 1 and first.mean and last.mean is not None:
        spread = np.hypot(last.error or 0.0, last.mean / first.mean * (first.error or 0.0)) / first.mean
        share = Value(last.mean / first.mean, float(spread) if first.error or last.error else None)
    text = f"{part.title}: the error vanishes as the leak approaches 1"
    measure = f"error at leak 1 over that at leak {part.leaks[0]:g}:"
    figure = "A.6" if part.by_class else "2"
    return claim(text, measure, share, most=HALF, published=f"to zero in MNIST (Figure {figure}), no number")


def _by_leak(part: Part) -> list[Table]:
    made = []
    for name, (title, direction, measures) in BY_LEAK.items():
        rows = {}
        for leak in part.leaks:
            means = {column: part.mean(leak, measure) for column, measure in measures.items()}
            cells = [Value(value.mean) if column.startswith("α") else value for column, value in means.items()]
            rows[f"leak {leak:g}"] = cells
        made.append(table(f"{name}-{part.anchor}", f"{part.title}: {title}", direction, rows, tuple(measures)))
    return made


def _bounds(part: Part) -> Table:
    rows = {}
    for leak in part.leaks:
        bounds = [pair["bound"] for pair in part.at(leak)]
        means = {key: mean_of(100 * bound[key] for bound in bounds).mean for key in ("rms", "value", "equal_outputs")}
        counts = {key: float(sum(bound[key] for bound in bounds)) for key in BOUND_KEYS if key not in means}
        rows[f"leak {leak:g}, {counted(len(bounds), 'pair')}"] = [Value((means | counts)[key]) for key in BOUND_KEYS]
    return table(
        f"bounds-{part.anchor}",
        f"{part.title}: RMS error and its bounds in % of the diameter, with counts of pairs",
        "vacuous where it is no smaller than the size of the clouds",
        rows,
        ("RMS error", "bound", "violated", "vacuous", "for equal outputs", "violated"),
    )


def _fits(parts: list[Part], preset: Preset) -> tuple[Table, Table]:
    """Fitted curves and rank correlations by the definition of L; none for a part without kept pairs."""
    other = "L+L2" if preset.form == "2L+L2" else "2L+L2"
    curves, correlations = {}, {}
    for part in (part for part in parts if part.kept):
        for taken, words in ESTIMATES.items():
            x, errors = part.columns(*taken)
            curve, line = fit_curve(x, errors, preset.intercept), fit_curve(x, errors, True)
            bent = fit_curve(*part.columns(*taken, other), preset.intercept)
            curves[f"{part.title}: {words}"] = map(Value, (100 * curve.slope, curve.r2, bent.r2, line.r2))
            correlations[f"{part.title}: {words}"] = map(Value, chain(*map(spanned, part.ranks(*taken))))
    return (
        table(
            "curves",
            f"Fitted curve err = a {TERM[preset.form]} over kept pairs, and others",
            "1 is a perfect fit",
            curves,
            ("100 a", "R²", f"R², {TERM[other]}", "R², with intercept"),
        ),
        table(
            "correlations",
            "Rank correlation of the error with L, over all kept pairs and within a leak, with 95% intervals",
            "1: a larger L always has a larger error",
            correlations,
            ("over all", "low", "high", "within a leak", "low", "high"),
        ),
    )


def _dropped(parts: list[Part]) -> Table:
    rows: dict[str, list[Value]] = {}
    for part in parts:
        rows[part.title] = [Value(float(len(part.pairs) - len(part.kept))), Value(float(len(part.pairs)))]
    rows |= {title: [] for title in DROPPED if title not in rows}
    title, direction = "Pairs dropped by the filter on reconstruction", "fewer is better convergence"
    return table("dropped", title, direction, rows, ("dropped", "pairs"), DROPPED, "appendix A.7.1")


def charts(parts: list[Part]) -> tuple[Chart, ...]:
    """Figure 2 (or A.6) for every part; Figures A.3 to A.5 for the first."""
    drawn = [_against_term(part, "mean") for part in parts if part.kept]
    if parts and parts[0].kept:
        drawn[1:1] = [_distribution(parts[0]), _against_term(parts[0], "max"), _reconstruction(parts[0])]
    return tuple(drawn)


def _against_term(part: Part, statistic: str) -> Chart:
    """Figure 2 (or A.6) with the mean over samples, Figure A.4 with the largest."""
    words = {"mean": ("error", "2", part.preset.statistic, "mean"), "max": ("largest", "A.4", "largest L", "largest")}
    (name, figure, which, across), term = words[statistic], TERM[part.preset.form]
    x, errors = part.columns("paper", statistic)
    curve = fit_curve(x, errors, part.preset.intercept)
    ends = np.linspace(0.0, float(x.max()), _POINTS)
    drawn = tuple((float(at), 100 * (curve.slope * float(at) + curve.intercept)) for at in ends)
    fitted = Line("fitted", drawn, tuple(f"{100 * curve.slope:.3g} x {at:.2f}" for at, _ in drawn))
    return Chart(
        f"{name}-{part.anchor}",
        f"{part.title}: error against L (Figure {'A.6' if part.by_class else figure})",
        f"A dot is a pair of autoencoders. Across: {term} of the decoders ({which}, ten directions). The curve is "
        f"err = a {term}, R² {'none' if curve.r2 is None else f'{curve.r2:.2f}'}. Both axes depend on the leak.",
        (f"{term}, {across} over samples", ERROR),
        lines=(*_clouds(part, lambda pair: part.x(pair, "paper", statistic)), fitted),
    )


def _distribution(part: Part) -> Chart:
    """Figure A.3: local constants, by leak."""
    marks = []
    for place, leak in enumerate(part.leaks):
        sides = [side["paper"] for pair in part.at(leak) for side in pair["sides"]]
        if sides:
            spread = dict(zip(QUANTILES, np.mean([side["quantiles"] for side in sides], axis=0), strict=True))
            middle, low, high = (float(spread[share]) for share in (0.5, 0.05, 0.95))
            largest = float(max(side["max"] for side in sides))
            marks.append(Mark(f"leak {leak:g}", middle, low, high, largest, _colour(place)))
    return Chart(
        f"constants-{part.name}",
        f"{part.title}: local constants 1 + L (Figure A.3)",
        "Median of the local constants with their 5% and 95% quantiles, averaged over autoencoders; the tick is the "
        "largest of all. 1 is an isometry.",
        ("local bi-Lipschitz constant 1 + L, ten directions", ""),
        marks=tuple(marks),
        bound="largest",
        whisker="5% to 95% of the samples",
    )


def _reconstruction(part: Part) -> Chart:
    """Figure A.5: reconstruction is not perfect, and does not determine the error."""
    return Chart(
        f"reconstruction-{part.name}",
        f"{part.title}: error against reconstruction (Figure A.5)",
        "A dot is a pair of autoencoders; across, the worse mean squared error of a pixel of the two. Perfect "
        "reconstruction, which the theorem assumes, would be zero.",
        ("1000 x mean squared error of a pixel", ERROR),
        lines=_clouds(part, lambda pair: 1000 * reconstruction(pair)),
    )


def _clouds(part: Part, x: Measure) -> tuple[Line, ...]:
    """Dots of each leak in its colour."""
    lines = []
    for place, leak in enumerate(part.leaks[:_COLOURED]):
        points = [(x(pair), 100 * pair["error"]["mean"]) for pair in part.at(leak)]
        labels = [f"leak {leak:g}: {across:.3g}, {up:.3g}%" for across, up in points]
        lines.append(cloud(points, f"leak {leak:g}", _colour(place), labels))
    return tuple(lines)


def _colour(place: int) -> int:
    return 1 + place % _COLOURED
