"""What was found, in sentences made by rule from the numbers.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .contrastive import LEFT_OPEN, RUNGS, SIDES, Preset
from .contrastive_charts import SWEEPS, Point, Reading, charts, number
from .experiment import Outcome, Row, Summary, Table
from .outcomes import Estimate, Trend, estimate

RUNG_WORDS = {"signed_permutation": "signed permutation", "rigid": "rigid motion", "linear": "linear map"}


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether mean CCA of f and of g grows with training, data and width: all, some, none of the six."""
    seen = {name: [reading.trend(name, side) for side in SIDES] for name in reading.sweeps}
    known = {name: [each for each in found if each is not None] for name, found in seen.items()}
    if not any(known.values()):
        return "No pair was trained.", None
    both = [SWEEPS[name] for name, found in known.items() if all(each.grows for each in found)]
    one = [SWEEPS[name] for name, found in known.items() if any(each.grows for each in found)]
    every = len(both) == len(SWEEPS)
    alone = len(reading.base) < 2
    head = (
        "Mean CCA of f and of g grows with training, data and width, as published"
        if every
        else "One pair has no error bars, so that no trend of mean CCA can be told from chance"
        if alone
        else f"Of the three published trends of mean CCA, that with {_and(both)} is seen in both f and g"
        if len(both) == 1
        else f"Of the three published trends of mean CCA, those with {_and(both)} are seen in both f and g"
        if both
        else "None of the three published trends of mean CCA is seen in both f and g"
    )
    said = [
        f"{SWEEPS[name]}, {point_words(reading.sweeps[name])}: "
        + ", ".join(f"{side} {change_words(each)}" for side, each in zip(SIDES, found, strict=True))
        for name, found in known.items()
        if len(found) == len(SIDES)
    ]
    return f"{head}. {_capital('; '.join(said))}.", True if every else None if one or alone else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    if not reading.base:
        return (LEFT_OPEN,)
    said = [_before(reading), _early(reading), _shapes(reading), _others(reading), _width_and_chance(reading)]
    said += [_ladder_finding(reading), _dimensions(reading), _fit(reading), _overfit(reading), _pairs(reading)]
    said += [f"The images are {reading.note}."] if reading.note else []
    return (*(sentence for sentence in said if sentence), LEFT_OPEN)


def _before(reading: Reading) -> str:
    """What is there without training."""
    first, last = reading.sweeps["training"][0], reading.sweeps["training"][-1]
    said, nearer, shares = [], [], []
    for side in SIDES:
        trained, untrained = last.estimate(side, "cca"), first.estimate(side, "cca")
        controls = {"one and the principal components of its patch": last.estimate(side, "pixels.cca")}
        if reading.projections:
            linear = np.array([number(each[side], "cca") for each in reading.projections])
            controls["two random projections of the pixels"] = estimate(linear)
        parts = [f"{words} {spelt(found)}" for words, found in {"two untrained ones": untrained, **controls}.items()]
        said.append(f"two trained {side} {spelt(trained)}, {', '.join(parts)}, chance {_chance_finding(last, side)}")
        above = [words for words, found in controls.items() if found.mean >= trained.mean]
        nearer += [f"two trained {side} are no more alike than {_and(above)}"] if above else []
        shares.append(f"{(trained.mean - untrained.mean) / trained.mean:.0%}" if trained.mean > 0 else "nothing")
    tail = f" By this measure {'; '.join(nearer)}." if nearer else ""
    return (
        f"Mean CCA: {'; '.join(said)}. Training accounts for {_and(shares)} of the value of f and g; the rest is there "
        f"before the first step.{tail}"
    )


def _early(reading: Reading) -> str:
    """How much of the growth is left after the first checkpoint."""
    points = reading.sweeps["training"]
    if len(points) < 3:
        return ""
    said = []
    for side in SIDES:
        later = reading.trend("training", side, since=1)
        shares = reading.trend("training", side, "r2.linear", since=1)
        if later is not None and shares is not None:
            said.append(f"{side} {change_words(later)} in mean CCA and {change_words(shares)} in held-out R²")
    return f"After {points[1].words}: {'; '.join(said)}."


def _shapes(reading: Reading) -> str:
    """Where a sweep is not steady."""
    said = []
    for name, points in reading.sweeps.items():
        for side in SIDES:
            found = reading.trend(name, side)
            if found is not None and not found.steady:
                said.append(f"{side} with {SWEEPS[name]} (largest at {points[found.largest].words})")
    return f"Mean CCA does not grow at every place of the sweep: {'; '.join(said)}." if said else ""


def _others(reading: Reading) -> str:
    """The same trends by measures that are not punished by unused directions."""
    said = []
    for measure, words in (("r2.linear", "held-out R² of the linear map"), ("svcca", "SVCCA (99 % of the variance)")):
        parts = []
        for name in reading.sweeps:
            found = [reading.trend(name, side, measure) for side in SIDES]
            parts.append(
                f"{SWEEPS[name]} "
                + ", ".join(f"{side} {change_words(each)}" for side, each in zip(SIDES, found, strict=True) if each)
            )
        said.append(f"by {words}: {'; '.join(parts)}")
    return f"The same sweeps {'. '.join(_capital(each) if place else each for place, each in enumerate(said))}."


def _width_and_chance(reading: Reading) -> str:
    """Whether untrained networks grow alike with width, too."""
    points, before = reading.sweeps.get("width"), reading.untrained("width")
    if not points:
        return ""
    said, words = [], []
    for side in SIDES:
        ends = [point.estimate(side, "cca").mean for point in (before[0], before[-1])]
        gains = [
            after.values(side, "cca") - untrained.values(side, "cca")
            for untrained, after in ((before[0], points[0]), (before[-1], points[-1]))
        ]
        gain = estimate(gains[1] - gains[0])
        said.append(
            f"{side} from {ends[0]:.3f} to {ends[1]:.3f} untrained, and what training adds from "
            f"{gains[0].mean():.3f} to {gains[1].mean():.3f} (difference {interval_words(gain)})"
        )
        words.append(gain.low is not None and gain.low > 0)
    tail = "grows with width for f and g" if all(words) else "is not shown to grow with width for both"
    return f"Width without training: {'; '.join(said)}. What training adds {tail}."


def _ladder_finding(reading: Reading) -> str:
    """Up to which group two trainings agree."""
    last = reading.sweeps["training"][-1]
    said = []
    for side in SIDES:
        shares = ", ".join(f"{RUNG_WORDS[rung]} {spelt(last.estimate(side, f'r2.{rung}'))}" for rung in RUNGS)
        below = sum(bool(pair[side]["ladder"]["linear"]["below_null"]) for pair in last.pairs)
        said.append(f"{side}: {shares} (linear map below the null in {below} of {len(last.pairs)} pairs)")
    return f"Held-out share of the variance of one training that another explains, after {last.value} steps. " + (
        f"{'; '.join(said)}. Shares weigh directions by their variance, mean CCA counts all {reading.preset.outputs} "
        "alike."
    )


def _dimensions(reading: Reading) -> str:
    last = reading.sweeps["training"][-1]
    said = [
        f"{side} {last.estimate(side, 'dimension').mean:.1f} ({last.estimate(side, 'kept').mean:.0f} components hold "
        "99 % of the variance)"
        for side in SIDES
    ]
    along = []
    for points in reading.sweeps.values():
        ends = [[point.estimate(side, "dimension").mean for point in (points[0], points[-1])] for side in SIDES]
        words = ", ".join(f"{side} {first:.1f} to {end:.1f}" for side, (first, end) in zip(SIDES, ends, strict=True))
        along.append(f"{point_words(points)}: {words}")
    return (
        f"Of {reading.preset.outputs} outputs the effective dimension (participation ratio) is {', '.join(said)}; "
        f"{'; '.join(along)}. Mean CCA is lowered by directions that hold hardly any variance, and may grow because "
        "more of them are used."
    )


def _fit(reading: Reading) -> str:
    points = reading.sweeps["training"]
    losses = [point.estimate("f", "loss").mean for point in points]
    rows = min(reading.preset.batch, reading.preset.test_images)
    falls = losses[-1] < losses[-2] - 0.01
    return (
        f"The held-out loss among {rows} falls from {losses[0]:.2f} (chance {math.log(rows):.2f}) to {losses[-1]:.2f}; "
        f"over the last interval, from step {points[-2].value} to {points[-1].value}, it "
        + (
            f"still falls by {losses[-2] - losses[-1]:.2f}, so that training has not converged."
            if falls
            else f"changes by {losses[-1] - losses[-2]:+.2f}."
        )
    )


def _overfit(reading: Reading) -> str:
    points = reading.sweeps.get("images")
    if not points:
        return ""
    parts = [
        f"{point.value}: {trained:.2f} and {point.estimate('f', 'loss').mean:.2f}"
        for point, trained in zip(points, reading.training_loss("images"), strict=True)
    ]
    return f"Training and held-out loss by number of images: {'; '.join(parts)}."


def _pairs(reading: Reading) -> str:
    count = f"{len(reading.base)} pair{'s' if len(reading.base) > 1 else ''}"
    return (
        f"Error bars are over {count} of models, no model in two; a pair has the same seeds in every setting, and its "
        f"own images where they are limited. Everything is measured on {reading.preset.test_images} images of "
        f"{reading.source} that no model was trained on; mean CCA is fitted and read on the same of them, as published."
    )


def point_words(points: list[Point]) -> str:
    """Both ends of a sweep."""
    return f"{points[0].words} to {points[-1].words}"


def change_words(found: Trend | None) -> str:
    """From, to, and the interval of the difference."""
    if found is None:
        return "unknown"
    word = {True: "grows", False: "falls", None: "is not shown to change"}[found.grows]
    return f"{word}, {found.first:.3f} to {found.last:.3f} ({interval_words(found.difference)})"


def interval_words(found: Estimate) -> str:
    """A mean with its interval."""
    if found.low is None or found.high is None:
        return f"{found.mean:+.3f}, one pair"
    return f"{found.mean:+.3f}, 95 % interval {found.low:+.3f} to {found.high:+.3f}"


def spelt(found: Estimate) -> str:
    """A mean with its standard error."""
    return f"{found.mean:.3f}" + ("" if found.error is None else f" ± {found.error:.3f}")


def _chance_finding(point: Point, side: str) -> str:
    known = [pair[side]["chance"] for pair in point.pairs if pair[side]["chance"] is not None]
    return f"{np.mean(known):.3f}" if known else "not measured"


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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
MEASURES = {"cca": "mean CCA", "svcca": "SVCCA", "r2.linear": "held-out R²"}
_TITLES = {
    "training": "Alignment against training steps (Figure 3b)",
    "images": "Alignment against training images (Figure 3c)",
    "width": "Alignment against hidden units (Figure 3d)",
}
_HIGHER = "higher is closer; R² is held out; CCA with the principal components of the pixels is a control"
Cells = list[tuple[float | None, float | None]]


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = [_claims(reading), *(_sweep(reading, name) for name in reading.sweeps), _controls_table(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in (*tables, _ladder_table(reading)) if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _claims(reading: Reading) -> Table:
    rows = []
    for measure, words in MEASURES.items():
        for name in reading.sweeps:
            for side in SIDES:
                found = reading.trend(name, side, measure)
                if found is None:
                    continue
                grows = {True: 1.0, False: -1.0, None: 0.0}[found.grows]
                difference, rank = found.difference, found.correlation
                values = (grows, found.first, found.last, difference.mean, difference.low, difference.high)
                published = (1.0, *(None,) * 6) if measure == "cca" else ()
                row = (*values, None if rank is None else rank.mean)
                rows.append(Row(f"{words} of {side} with {SWEEPS[name]}", row, (), published))
    return Table(
        "claims",
        "Does alignment grow? 1: the 95 % interval of last minus first over pairs is above zero, -1: below, 0: neither",
        ("grows", "first", "last", "difference", "low", "high", "rank corr."),
        tuple(rows),
        "published without numbers",
        "section 5.2",
    )


def _sweep(reading: Reading, name: str) -> Table:
    before = {point.value: point for point in reading.untrained(name)} if name != "training" else {}
    rows = []
    for side in SIDES:
        for point in reading.sweeps[name]:
            cells = [_cell(point, side, measure) for measure in COLUMNS]
            if before:
                cells.append(_pair(before[point.value].estimate(side, "cca")))
            rows.append(_row(f"{side}, {point.words}", cells))
    columns = (*COLUMNS.values(), *(("CCA untrained",) if before else ()))
    return Table(name, f"{_TITLES[name]}, ± s.e. over pairs", columns, tuple(rows), _HIGHER)


def _controls_table(reading: Reading) -> Table:
    """Pairs that learnt nothing, or know the pixels alone."""
    if not reading.base:
        return Table("controls", "", (), (), "")
    first, last = reading.sweeps["training"][0], reading.sweeps["training"][-1]
    rows = []
    for side in SIDES:
        for words, point in (("trained", last), ("untrained", first)):
            rows.append(_row(f"{side}, two {words}", [_cell(point, side, each) for each in ("cca", "r2.linear")]))
            pixels = [_cell(point, side, f"pixels.{each}") for each in ("cca", "r2")]
            rows.append(_row(f"{side}, {words} and principal components of the pixels", pixels))
        if reading.projections:
            cells = [
                _pair(estimate(np.array([number(each[side], measure) for each in reading.projections])))
                for measure in ("cca", "r2.linear")
            ]
            rows.append(_row(f"{side}, two random projections of the pixels", cells))
        rows.append(_row(f"{side}, trained, images shuffled", [_cell(last, side, "chance"), (None, None)]))
    title = f"Controls: what is alike without training, in {reading.preset.outputs} numbers each, ± s.e. over pairs"
    return Table("controls", title, ("mean CCA", "R² linear"), tuple(rows), "higher is closer; R² is held out")


def _ladder_table(reading: Reading) -> Table:
    if not reading.base:
        return Table("ladder", "", (), (), "")
    last = reading.sweeps["training"][-1]
    rows = []
    for side in SIDES:
        for rung in RUNGS:
            keys = [f"ladder.{rung}.{key}" for key in ("error", "low", "high", "null")]
            cells = [_cell(last, side, key) for key in (*keys, f"r2.{rung}")]
            rows.append(_row(f"{side}, {RUNG_WORDS[rung]}", cells))
    return Table(
        "ladder",
        f"The ladder after {last.value} steps: held-out error in diameters with the ends of its 95 % interval over "
        "images, the error with images shuffled, and R², ± s.e. over pairs",
        ("error", "low", "high", "shuffled", "R²"),
        tuple(rows),
        "a lower error is closer",
    )


def _cell(point: Point, side: str, measure: str) -> tuple[float | None, float | None]:
    try:
        return _pair(point.estimate(side, measure))
    except TypeError:  # not measured: no null, or no bootstrap
        return None, None


def _pair(found: Estimate) -> tuple[float | None, float | None]:
    return found.mean, found.error


def _row(name: str, cells: Cells) -> Row:
    return Row(name, tuple(value for value, _ in cells), tuple(error for _, error in cells))
