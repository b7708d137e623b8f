"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..experiment import Outcome, Row, Summary, Table
from .charts import charts
from .findings import RUNG_WORDS, findings, verdict
from .measuring import RUNGS
from .presets import Preset
from .reading import SWEEPS, Point, Reading, number
from .trends import Estimate, estimate
from .units import SIDES

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
    tables = [_claims(reading), *(_sweep(reading, name) for name in reading.sweeps), _controls(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in (*tables, _ladder(reading)) if table.rows),
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


def _controls(reading: Reading) -> Table:
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


def _ladder(reading: Reading) -> Table:
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
