"""Mean CCA, SVCCA and held-out R² of contrastive models along sweeps: tables, Figures 3b to 3d, and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..representation import Array
from ..resampling import Interval, Value
from .contrastive import SIDES, Preset
from .experiment import Chart, Claim, Mark, Outcome, Summary, Table
from .outcomes import Trend, claim, conjunction, estimate, lines, mark, spanned, summary, table, taken, ticks, trend

SWEEPS = {
    "training": ("training", "training steps", "3b"),
    "images": ("data", "training images", "3c"),
    "width": ("width", "hidden units", "3d"),
}
"""Name of a sweep -> what alignment grows with, its axis, and the published figure."""
STOPPED = {"stopped": ("data, stopped", "training images, each stopped at its least held-out loss", "3c")}
"""The same sweep over data, before networks overfit: reported, and no claim, because the paper does not state it."""
SHOWN = SWEEPS | STOPPED
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
        return summary((), (), ())
    steps = [each["step"] for each in base[0]["steps"]]
    ends: Sweeps = {
        "training": [
            Place(step, f"step {step}" if step else "untrained", [each["steps"][at] for each in base])
            for at, step in enumerate(steps)
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
    if "images" in ends:
        swept = [each for each in trained if each["sweep"] != "width"]
        ends["stopped"] = [
            Place(place.value, place.words, [each["stopped"] for each in swept if each["images"] == place.value])
            for place in ends["images"]
        ]
    pairs = [pair for each in outcomes.values() if each["sweep"] == "projections" for pair in each["pairs"]]
    parts = (ends, untrained, Place(0, "two random projections of the pixels", pairs))
    return summary(claims(*parts), tables(*parts, preset.outputs), charts(*parts))


def claims(ends: Sweeps, untrained: Sweeps, projections: Place) -> tuple[Claim, ...]:
    """The three published trends, together and one by one, and controls without training."""
    trends = {}
    for name, (word, _, figure) in SWEEPS.items():
        parts = []
        for side in SIDES:
            each = _trend(ends.get(name, []), side, "cca")
            words = side if each is None else f"{side} from {each.first:.3f} to {each.last:.3f}, difference"
            parts.append(_above(words, Value(None) if each is None else each.difference))
        trends[name] = conjunction(f"mean CCA of f and g grows with {word}", parts, f"a curve, Figure {figure}")
    seen = sum(each.holds is True for each in trends.values())
    made = [
        Claim(
            "mean CCA of f and g grows with training, data and width",
            f"{seen} of 3 trends are seen in both",
            "all 3, the 95% interval of last minus first above zero",
            "curves without numbers, Figures 3b to 3d",
            conjunction("", list(trends.values())).holds,
        ),
        *(trends[name] for name in ends if name in trends),
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


def tables(ends: Sweeps, untrained: Sweeps, projections: Place, outputs: int) -> tuple[Table, ...]:
    """Whether alignment grows, every sweep, the controls and the ladder."""
    rows, published = {}, {}
    for measure, name, side in product(MEASURES, ends, SIDES):
        each = _trend(ends[name], side, measure)
        if each is not None:
            row = f"{MEASURES[measure]} of {side} with {SHOWN[name][0]}"
            grows = {True: 1.0, False: -1.0, None: 0.0}[each.grows]
            rank = None if each.correlation is None else each.correlation.mean
            rows[row] = map(Value, (grows, each.first, each.last, *spanned(each.difference), rank))
            published[row] = (1.0, *(None,) * 6) if measure == "cca" and name in SWEEPS else ()
    made = [
        table(
            "claims",
            "Does alignment grow? 1: the 95% interval of last minus first over pairs is above zero, -1: below, 0: "
            "neither",
            "published without numbers",
            rows,
            ("grows", "first", "last", "difference", "low", "high", "rank corr."),
            published,
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
                f"Alignment against {SHOWN[name][1]} (Figure {SHOWN[name][2]}), ± s.e. over pairs",
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
            f"Controls: similarity without training, in {outputs} numbers each, ± s.e. over pairs",
            "higher is closer; R² is held out",
            controls,
            ("mean CCA", "R² linear"),
        ),
        table(
            "ladder",
            f"The ladder after {end.value} steps: held-out error in diameters with the ends of its 95% interval over "
            "images, the error with images shuffled, and R², ± s.e. over pairs",
            "a lower error is closer",
            ladder,
            ("error", "low", "high", "shuffled", "R²"),
        ),
    )


def charts(ends: Sweeps, untrained: Sweeps, projections: Place) -> list[Chart]:
    """Two figures for each sweep, and the controls."""
    drawn = []
    for name, places in ends.items():
        _, axis, figure = SHOWN[name]
        before, where = untrained.get(name, []), [place.words for place in places]
        alike = {f"{side}, trained": [each.mean(side, "cca") for each in places] for side in SIDES}
        alike |= {f"{side}, untrained": [each.mean(side, "cca") for each in before] for side in SIDES}
        pixels = {
            f"{side} with components of the pixels": [each.mean(side, "pixels.cca") for each in places]
            for side in SIDES
        }
        shares = {
            f"{side}, {words}": [each.mean(side, f"r2.{rung}") for each in places]
            for side, (rung, words) in product(SIDES, RUNGS.items())
        }
        labels = ticks(f"{place.value:,}" for place in places)
        drawn += [
            Chart(
                f"cca-{name}",
                f"Mean CCA against {axis} (Figure {figure})",
                "Mean over pairs with its standard error, on images that no model was trained on. Components of the "
                f"pixels are as many as outputs, and are not trained. Chance is {_chance(places[-1])}.",
                (axis, "mean CCA"),
                lines=(*lines(alike, where), *(replace(each, dotted=True) for each in lines(pixels, where, start=4))),
                ticks=labels,
            ),
            Chart(
                f"shares-{name}",
                f"Held-out R² by group of maps, against {axis}",
                "Share of the variance of one training that another explains after the best map of the group, mean "
                "over pairs with its standard error.",
                (axis, "held-out R²"),
                lines=lines(shares, where),
                ticks=labels,
            ),
        ]
    start, end = ends["training"][0], ends["training"][-1]
    controls = {
        "two trained": (end, "cca"),
        "two untrained": (start, "cca"),
        "pixel components": (end, "pixels.cca"),
        "random projections": (projections, "cca"),
    }
    marks: list[Mark] = []
    for (series, side), (words, (place, measure)) in product(enumerate(SIDES), controls.items()):
        marks += mark(f"{side}, {words}", place.mean(side, measure), series)
    drawn.append(
        Chart(
            "controls",
            "Mean CCA and its controls",
            f"Mean over pairs with its standard error; after {end.value} steps where trained. Pixel components: one "
            f"trained against principal components of its patch; random projections are of the pixels. Chance is "
            f"{_chance(end)}.",
            ("mean CCA", ""),
            marks=tuple(marks),
        )
    )
    return drawn


def _mean(values: Array) -> Value:
    """Unknown where there are no values, or one of them is unknown."""
    return estimate(values) if len(values) and np.isfinite(values).all() else Value(None)


def _trend(places: list[Place], side: str, measure: str) -> Trend | None:
    values = np.array([place.values(side, measure) for place in places]).T
    return trend(values) if np.isfinite(values).all() else None


def _above(words: str, value: Value) -> Claim:
    """A part of a claim, that a difference is above zero; undecided for one pair, which has no error."""
    judged = value if value.error is not None else replace(value, interval=Interval(-np.inf, np.inf))
    return claim("", words, judged, form=".3f±", above=0.0)


def _chance(place: Place) -> str:
    known = [pair[side]["chance"] for pair in place.pairs for side in SIDES if pair[side]["chance"] is not None]
    return f"{np.mean(known):.3f}" if known else "not measured"
