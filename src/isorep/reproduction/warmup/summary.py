"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..experiment import Outcome, Row, Summary, Table
from .charts import TERM, charts
from .curves import fit_curve, spearman, spearman_within
from .findings import findings, verdict
from .presets import Preset
from .published import DROPPED, DROPPED_BY_CLASS
from .reading import Measure, Part, parts_of

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
    tables = [table for part in parts for table in (_errors(part), _constants(part), _bounds(part))]
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


def _constants(part: Part) -> Table:
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
