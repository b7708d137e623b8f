"""Mean CCA, SVCCA and held-out R² of contrastive models along sweeps: tables, Figures 3b to 3d, and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..representation import Array
from ..resampling import Interval, Value
from .contrastive import SIDES, Preset
from .experiment import Chart, Claim, Line, Mark, Outcome, Row, Summary, Table
from .outcomes import Trend, claim, concluded, conjunction, estimate, line, mark, table, taken, trend, with_interval

SWEEPS = {
    "training": ("training", "training steps", "3b"),
    "images": ("data", "training images", "3c"),
    "width": ("width", "hidden units", "3d"),
}
"""Name of a sweep -> what alignment grows with, its axis, and the published figure."""
MEASURES = {"cca": "mean CCA", "svcca": "SVCCA", "r2.linear": "held-out R²"}
RUNGS = {"linear": "linear", "rigid": "rigid", "signed_permutation": "signed permutation"}
LADDER = {"signed_permutation": "signed permutation", "rigid": "rigid motion", "linear": "linear map"}
COLUMNS = {
    "cca": "mean CCA",
    "chance": "chance",
    "svcca": "SVCCA",
    "r2.linear": "R² linear",
    "r2.rigid": "R² rigid",
    "r2.signed_permutation": "R² signed perm.",
    "pixels.cca": "CCA, pixels",
    "dimension": "effective dim.",
    "loss": "loss held out",
}


@dataclass(frozen=True)
class Place:
    """A place in a sweep: its value, its words, and the measures of every pair there."""

    value: int
    words: str
    pairs: Sequence[Mapping[str, Any]]

    def values(self, side: str, measure: str) -> Array:
        """One number for each pair, NaN where it was not measured; the loss belongs to both sides."""
        return np.array([taken(x if measure == "loss" else x[side], measure) for x in self.pairs], dtype=np.float64)

    def mean(self, side: str, measure: str) -> Value:
        """Mean over pairs, which share no models."""
        return _mean(self.values(side, measure))


Sweeps = dict[str, list[Place]]


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Claims, tables and figures; the base setting is a place in every sweep."""
    trained = sorted((each for each in outcomes.values() if each["sweep"] != "projections"), key=lambda x: x["pair"])
    base = [each for each in trained if each["sweep"] == "base"]
    if not base:
        return Summary(*concluded(()), ())
    words = ["untrained" if not each["step"] else f"step {each['step']}" for each in base[0]["steps"]]
    ends: Sweeps = {
        "training": [
            Place(base[0]["steps"][at]["step"], name, [each["steps"][at] for each in base])
            for at, name in enumerate(words)
        ]
    }
    untrained: Sweeps = {}
    for name, form in (("images", "{} images"), ("width", "width {}")):
        chosen = [*base, *(each for each in trained if each["sweep"] == name)]
        values = sorted({each[name] for each in chosen})
        for sweeps, at in ((ends, -1), (untrained, 0)):
            if len(values) > 1:
                sweeps[name] = [
                    Place(value, form.format(value), [each["steps"][at] for each in chosen if each[name] == value])
                    for value in values
                ]
    pairs = [each for found in outcomes.values() if found["sweep"] == "projections" for each in found["pairs"]]
    projections = Place(0, "two random projections of the pixels", pairs)
    made = claims(ends, untrained, projections)
    drawn = charts(ends, untrained, projections)
    return Summary(*concluded(made), tables(ends, untrained, projections, preset), drawn, claims=made)


def claims(ends: Sweeps, untrained: Sweeps, projections: Place) -> tuple[Claim, ...]:
    """The three published trends, together and one by one, and what is there without training."""
    trends = {}
    for name, (word, _, figure) in SWEEPS.items():
        found = {side: _trend(ends.get(name, []), side, "cca") for side in SIDES}
        parts = [
            _above(side if each is None else f"{side} from {each.first:.3f} to {each.last:.3f}, difference", each)
            for side, each in found.items()
        ]
        trends[name] = conjunction(f"mean CCA of f and g grows with {word}", parts, f"a curve, Figure {figure}")
    seen = sum(each.holds is True for each in trends.values())
    made = [
        Claim(
            "mean CCA of f and g grows with training, data and width",
            f"{seen} of 3 trends are seen in both",
            "all 3, the 95 % interval of last minus first above zero",
            "curves without numbers, Figures 3b to 3d",
            conjunction("", list(trends.values())).holds,
        ),
        *(trends[name] for name in ends),
    ]
    if "width" in ends:
        first, last = (
            {side: ends["width"][at].values(side, "cca") - untrained["width"][at].values(side, "cca") for side in SIDES}
            for at in (0, -1)
        )
        words = "{} at the largest width above that at the least"
        parts = [_above(words.format(side), _mean(last[side] - first[side])) for side in SIDES]
        made.append(conjunction("training adds more to mean CCA in wider networks", parts))
    end, parts = ends["training"][-1], []
    for side in SIDES:
        pixels = _mean(end.values(side, "cca") - end.values(side, "pixels.cca"))
        parts.append(_above(f"{side} above one and the components of its pixels", pixels))
        if projections.pairs:
            apart = end.mean(side, "cca") - projections.mean(side, "cca")
            parts.append(_above(f"{side} above {projections.words}", apart))
    return (*made, conjunction("two trainings are more alike by mean CCA than pixels alone are", parts))


def tables(ends: Sweeps, untrained: Sweeps, projections: Place, preset: Preset) -> tuple[Table, ...]:
    """Whether alignment grows, every sweep, the controls and the ladder."""
    rows = []
    for measure, words in MEASURES.items():
        for name, side in ((name, side) for name in ends for side in SIDES):
            each = _trend(ends[name], side, measure)
            if each is not None:
                between = each.difference.interval
                values = (
                    {True: 1.0, False: -1.0, None: 0.0}[each.grows],
                    each.first,
                    each.last,
                    each.difference.mean,
                    *((None, None) if between is None else (between.low, between.high)),
                    None if each.correlation is None else each.correlation.mean,
                )
                published = (1.0, *(None,) * 6) if measure == "cca" else ()
                rows.append(Row(f"{words} of {side} with {SWEEPS[name][0]}", values, (), published))
    made = [
        Table(
            "claims",
            "Does alignment grow? 1: the 95 % interval of last minus first over pairs is above zero, -1: below, 0: "
            "neither",
            ("grows", "first", "last", "difference", "low", "high", "rank corr."),
            tuple(rows),
            "published without numbers",
            "section 5.2",
        )
    ]
    for name, places in ends.items():
        before = untrained.get(name, [])
        swept = {}
        for side in SIDES:
            for at, place in enumerate(places):
                cells = [place.mean(side, measure) for measure in COLUMNS]
                swept[f"{side}, {place.words}"] = cells + ([before[at].mean(side, "cca")] if before else [])
        made.append(
            table(
                name,
                f"Alignment against {SWEEPS[name][1]} (Figure {SWEEPS[name][2]}), ± s.e. over pairs",
                "higher is closer; R² is held out; CCA with the principal components of the pixels is a control",
                swept,
                (*COLUMNS.values(), *(("CCA untrained",) if before else ())),
            )
        )
    start, end = ends["training"][0], ends["training"][-1]
    controls, ladder = {}, {}
    for side in SIDES:
        for words, place in (("trained", end), ("untrained", start)):
            controls[f"{side}, two {words}"] = [place.mean(side, key) for key in ("cca", "r2.linear")]
            pixels = [place.mean(side, key) for key in ("pixels.cca", "pixels.r2")]
            controls[f"{side}, {words} and principal components of the pixels"] = pixels
        if projections.pairs:
            cells = [projections.mean(side, key) for key in ("cca", "r2.linear")]
            controls[f"{side}, {projections.words}"] = cells
        controls[f"{side}, trained, images shuffled"] = [end.mean(side, "chance"), Value(None)]
        for rung, words in LADDER.items():
            keys = [f"ladder.{rung}.{key}" for key in ("error", "low", "high", "null")]
            ladder[f"{side}, {words}"] = [end.mean(side, key) for key in (*keys, f"r2.{rung}")]
    return (
        *made,
        table(
            "controls",
            f"Controls: what is alike without training, in {preset.outputs} numbers each, ± s.e. over pairs",
            "higher is closer; R² is held out",
            controls,
            ("mean CCA", "R² linear"),
        ),
        table(
            "ladder",
            f"The ladder after {end.value} steps: held-out error in diameters with the ends of its 95 % interval over "
            "images, the error with images shuffled, and R², ± s.e. over pairs",
            "a lower error is closer",
            ladder,
            ("error", "low", "high", "shuffled", "R²"),
        ),
    )


def charts(ends: Sweeps, untrained: Sweeps, projections: Place) -> tuple[Chart, ...]:
    """Two figures for each sweep, and the controls."""
    drawn = []
    for name, places in ends.items():
        _, axis, figure = SWEEPS[name]
        wanted = [(f"{side}, trained", places, side, "cca") for side in SIDES]
        if name in untrained:
            wanted += [(f"{side}, untrained", untrained[name], side, "cca") for side in SIDES]
        lines = [_line(*each, series) for series, each in enumerate(wanted)]
        for series, side in enumerate(SIDES, start=4):
            words = f"{side} with components of the pixels"
            lines.append(replace(_line(words, places, side, "pixels.cca", series), dotted=True))
        shares = [(f"{side}, {words}", places, side, f"r2.{rung}") for side in SIDES for rung, words in RUNGS.items()]
        ticks = tuple((float(at), f"{place.value:,}") for at, place in enumerate(places))
        drawn += [
            Chart(
                f"cca-{name}",
                f"Mean CCA against {axis} (Figure {figure})",
                "Mean over pairs with its standard error, on images that no model was trained on. Components of the "
                f"pixels are as many as outputs, and know nothing of the task. Chance is {_chance(places[-1])}.",
                (axis, "mean CCA"),
                lines=tuple(lines),
                ticks=ticks,
            ),
            Chart(
                f"shares-{name}",
                f"Held-out R² by group of maps, against {axis}",
                "Share of the variance of one training that another explains after the best map of the group, mean "
                "over pairs with its standard error.",
                (axis, "held-out R²"),
                lines=tuple(_line(*each, series) for series, each in enumerate(shares)),
                ticks=ticks,
            ),
        ]
    start, end = ends["training"][0], ends["training"][-1]
    marks: list[Mark] = []
    for series, side in enumerate(SIDES):
        marks += mark(f"{side}, two trained", end.mean(side, "cca"), series)
        marks += mark(f"{side}, two untrained", start.mean(side, "cca"), series)
        marks += mark(f"{side}, pixel components", end.mean(side, "pixels.cca"), series)
        marks += mark(f"{side}, random projections", projections.mean(side, "cca"), series)
    controls = Chart(
        "controls",
        "Mean CCA and its controls",
        f"Mean over pairs with its standard error; after {end.value} steps where trained. Pixel components: one "
        f"trained against principal components of its patch; random projections are of the pixels. Chance is "
        f"{_chance(end)}.",
        ("mean CCA", ""),
        marks=tuple(marks),
    )
    return (*drawn, controls)


def _mean(values: Array) -> Value:
    """Unknown where there are no values, or one of them is unknown."""
    return estimate(values) if len(values) and np.isfinite(values).all() else Value(None)


def _trend(places: list[Place], side: str, measure: str) -> Trend | None:
    values = np.array([place.values(side, measure) for place in places]).T
    return trend(values) if np.isfinite(values).all() else None


def _above(words: str, found: Value | Trend | None) -> Claim:
    """A part of a claim, that a difference is above zero; one pair has no error, and decides nothing."""
    value = found.difference if isinstance(found, Trend) else found or Value(None)
    judged = value if value.error is not None else replace(value, interval=Interval(-np.inf, np.inf))
    return claim(
        "", with_interval(words, value, ".3f"), judged, form=".3f±" if value.interval is None else ".3f", above=0.0
    )


def _line(words: str, places: list[Place], side: str, measure: str, series: int) -> Line:
    values = [place.mean(side, measure) for place in places]
    made = line(words, values, [place.words for place in places], series)
    errors = [value.error or 0.0 for value in values if value.mean is not None]
    labels = [f"{label} ± {error:.3f}" for label, error in zip(made.labels, errors, strict=True)]
    return replace(made, labels=tuple(labels))


def _chance(place: Place) -> str:
    known = [pair[side]["chance"] for pair in place.pairs for side in SIDES if pair[side]["chance"] is not None]
    return f"{np.mean(known):.3f}" if known else "not measured"
