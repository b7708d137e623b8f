"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Outcome, Row, Summary, Table
from .charts import charts
from .findings import findings, verdict
from .presets import Preset
from .reading import Number, Reading, curves_of, setting_words
from .units import LAWS

SIS = "SIS, 1: every inferred slot is one true slot"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_sweep(reading), _own(reading), _truth(reading), _laws(reading), _beyond(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _sweep(reading: Reading) -> Table:
    return _by_overlap(
        reading, "sis", "SIS by overlap ± s.e. over seeds, normal latents", "sis", f"higher is better; {SIS}"
    )


def _own(reading: Reading) -> Table:
    title = "Share of an inferred slot's derivatives by one true slot, by overlap"
    return _by_overlap(reading, "own", title, "own", "1: a function of one true slot; 1/K: nothing is told apart")


def _by_overlap(reading: Reading, name: str, title: str, measure: str, direction: str) -> Table:
    overlaps = sorted({each.overlap for slots in reading.slots for each in reading.curve(slots, "plain")})
    rows = []
    for slots in reading.slots:
        for words, curve in curves_of(reading, slots):
            found = {each.overlap: each.mean(measure) for each in curve}
            cells = [found.get(overlap, (None, None)) for overlap in overlaps]
            rows.append(Row(f"{slots} slots, {words}", *_columns(cells)))
    return Table(name, title, tuple(_percent(reading, overlap) for overlap in overlaps), tuple(rows), direction)


def _truth(reading: Reading) -> Table:
    rows = []
    for slots in reading.slots:
        for each in reading.curve(slots, "plain"):
            truth = each.truth
            keys = ("type_d", "type_m", "type_s", "h2_swaps", "margin", "gap")
            values = tuple(None if truth[key] is None else float(truth[key]) for key in keys)
            rows.append(
                Row(f"{slots} slots, {_percent(reading, each.overlap)}", (*values, float(each.found["ceiling"])))
            )
    return Table(
        "truth",
        "The generator: which criteria hold (1) or fail (0), with Type M's margin and Type S's gap in outputs",
        ("D", "M", "S", "H₂", "margin", "gap", "SIS of the truth"),
        tuple(rows),
        "a gap above 0 is Type S; SIS of the true latents is what can be reached",
    )


def _laws(reading: Reading) -> Table:
    """Each law at every place where laws other than normal were run."""
    rows = []
    places = sorted({(each.slots, each.overlap) for each in reading.settings if each.found["law"] != "normal"})
    for slots, overlap in places:
        for law in LAWS:
            plain = reading.at(slots, overlap, "plain", law=law)
            if plain is None:
                continue
            unit = reading.preset.unit_strengths[-1] if reading.preset.unit_strengths else 0.0
            learnt = [
                reading.at(slots, overlap, condition, strength, law)
                for condition, strength in (
                    ("contrast", reading.preset.law_strengths[-1]),
                    ("unit", unit),
                    ("regrouped", unit),
                )
            ]
            cells = [plain.mean(key) for key in ("sis", "grouped", "rotated", "ica")]
            cells += [(None, None) if each is None else each.mean() for each in learnt]
            cells += [(None, None) if each is None else each.chosen(reading.preset.restarts) for each in learnt[-1:]]
            cells += [(float(plain.found["ceiling"]), None), plain.mean("own")]
            cells += [(None, None) if each is None else each.mean("own") for each in learnt[-1:]]
            rows.append(Row(f"{slots} slots, {_percent(reading, overlap)}, {LAWS[law]}", *_columns(cells)))
    columns = ("AE", "AE, grouped", "rotated", "AE + ICA", "contrast", "at unit spread", "regrouped")
    return Table(
        "laws",
        "SIS where latents are independent and where they are not, ± s.e.; grouping knows the truth",
        (*columns, "regrouped, chosen", "truth", "own, AE", "own, regrouped"),
        tuple(rows),
        f"higher is better; {SIS}; own is the share of derivatives",
    )


def _beyond(reading: Reading) -> Table:
    rows = []
    for slots, overlap in sorted({(each.slots, each.overlap) for each in reading.beyond}):
        where = f"{slots} slots, {_percent(reading, overlap)}"
        others = [reading.at(slots, overlap, "plain")]
        others += [reading.at(slots, overlap, "contrast", each) for each in reading.strengths(slots)]
        for name in ("unit", "regrouped"):
            others += [reading.at(slots, overlap, name, each) for each in reading.strengths(slots, name)]
        others += [reading.at(slots, overlap, "additive")]
        others += [each for each in reading.beyond if (each.slots, each.overlap) == (slots, overlap)]
        for each in others:
            if each is not None:
                cells = [
                    each.mean(),
                    each.chosen(reading.preset.restarts),
                    each.mean("own"),
                    each.mean("error"),
                    each.mean("size"),
                ]
                rows.append(Row(f"{where}: {setting_words(each)}", *_columns(cells)))
    return Table(
        "beyond",
        f"Past the paper: losses, schedules and restarts, ± s.e.; chosen: least loss of {reading.preset.restarts}",
        ("SIS", "SIS, chosen", "own", "error / variance", "size of latents"),
        tuple(rows),
        f"higher SIS is better; {SIS}",
    )


def _columns(cells: list[tuple[Number, Number]]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)


def _percent(reading: Reading, overlap: int) -> str:
    return f"{100 * overlap / reading.preset.window:g} %"
