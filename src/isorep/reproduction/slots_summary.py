"""What was found, in sentences made by rule from the numbers.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .experiment import Outcome, Row, Summary, Table
from .slots import LAWS, LEFT_OPEN, Preset
from .slots_charts import Number, Reading, Setting, charts, curves_of, falls, setting_words

LEAST = 0.05
"""Difference in SIS below which nothing is said to differ, however small its error."""


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether SIS is high at the least overlap and falls, for the contrast as published: all, some, none."""
    said, seen = [], []
    for slots in reading.slots:
        for strength in reading.strengths(slots):
            curve = reading.curve(slots, "contrast", strength)
            high, lower = falls(curve, reading.preset.high)
            seen.append((high, lower))
            words = "high" if high else "not high"
            said.append(f"{slots} slots, λ = {strength:g}: {_range(curve)}, {words}{' and falling' if lower else ''}")
    if not seen:
        return "The contrast was not run.", None
    every, some = all(high and lower for high, lower in seen), any(high for high, _ in seen)
    head = (
        "SIS with the published contrast is high at small overlap and falls as it grows"
        if every
        else "The published shape, high SIS at small overlap that falls as it grows, is seen in part"
        if some
        else f"SIS with the published contrast does not reach {reading.preset.high:g} at the least overlap"
    )
    told = f"{head}. From the least to the largest overlap: {'; '.join(said)}."
    ours = [
        f"{slots} slots {_range(reading.curve(slots, 'regrouped', strength))}"
        for slots in reading.slots
        for strength in reading.strengths(slots, "regrouped")
    ]
    if ours:
        told += f" At unit spread and with slots regrouped, past the paper: {'; '.join(ours)}."
    return told, True if every else None if some else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = [sentence for slots in reading.slots for sentence in (_against_none(reading, slots), _unit(reading, slots))]
    said += [_regrouped(reading, slots) for slots in reading.slots]
    said += [_additive(reading, slots) for slots in reading.slots]
    said += [*_laws_finding(reading), *_beyond_finding(reading), _minima(reading), _criteria_finding(reading)]
    return (*(sentence for sentence in said if sentence), LEFT_OPEN)


def _against_none(reading: Reading, slots: int) -> str:
    parts = []
    for strength in reading.strengths(slots):
        gains = [
            _gain(each, reading.at(slots, each.overlap, "plain")) for each in reading.curve(slots, "contrast", strength)
        ]
        known = [gain for gain in gains if gain is not None]
        if known:
            higher = sum(gain > LEAST for gain in known)
            parts.append(
                f"λ = {strength:g} adds {np.mean(known):+.2f} on average, more than {LEAST:g} at {higher} of "
                f"{len(known)} overlaps"
            )
    plain = reading.curve(slots, "plain")
    return f"{slots} slots: without the contrast SIS is {_range(plain)}; {'; '.join(parts)}." if parts else ""


def _unit(reading: Reading, slots: int) -> str:
    strengths = reading.strengths(slots, "unit")
    if not strengths or not reading.strengths(slots):
        return ""
    strength = strengths[-1]
    curve = reading.curve(slots, "unit", strength)
    sizes = [
        (each.mean("size")[0], of.mean("size")[0])
        for each in reading.curve(slots, "contrast", reading.strengths(slots)[-1])
        if (of := reading.at(slots, each.overlap, "plain")) is not None
    ]
    known = [(a, b) for a, b in sizes if a is not None and b is not None]
    grown = ""
    if known:
        grown = (
            f" With the published contrast at λ = {reading.strengths(slots)[-1]:g} latents are "
            f"{np.mean([a / b for a, b in known]):.1f} times as large as without: that alone shrinks the contrast, by "
            "the square, and leaves slots mixed."
        )
    high, lower = falls(curve, reading.preset.high)
    shape = "high at the least overlap" if high else "not high at the least overlap"
    return (
        f"{slots} slots: with the contrast at unit spread of the latents, λ = {strength:g}, SIS is {_range(curve)}: "
        f"{shape}{', and falls' if lower else ', and does not fall beyond its error'}.{grown}"
    )


def _regrouped(reading: Reading, slots: int) -> str:
    strengths = reading.strengths(slots, "regrouped")
    if not strengths:
        return ""
    curve = reading.curve(slots, "regrouped", strengths[-1])
    values = ", ".join(f"{_spelt(*each.mean())} at {100 * each.found['share']:g} %" for each in curve)
    runs = [run for each in curve for run in each.found["runs"] if run["sis"] is not None]
    moved = sum(run["exchanges"] > 0 for run in runs)
    return (
        f"{slots} slots: where slots may exchange directions between stages if that lowers the contrast, SIS is "
        f"{values}; {moved} of {len(runs)} trainings did, and had latents in the wrong slot."
    )


def _additive(reading: Reading, slots: int) -> str:
    curve = reading.curve(slots, "additive")
    if not curve:
        return ""
    values = ", ".join(f"{_number(each.mean()[0])} at {100 * each.found['share']:g} %" for each in curve)
    own = ", ".join(_number(each.mean("own")[0]) for each in curve)
    return (
        f"{slots} slots: an additive decoder without any penalty gives SIS {values} (share of derivatives {own}). The "
        "generator is additive at every overlap, so this is Type H₂ by construction."
    )


def _laws_finding(reading: Reading) -> list[str]:
    said = []
    for slots, overlap in sorted(
        {(each.slots, each.overlap) for each in reading.settings if each.found["law"] != "normal"}
    ):
        parts = []
        for law in reading.preset.laws:
            plain = reading.at(slots, overlap, "plain", law=law)
            if plain is None:
                continue
            learnt = [
                (words, reading.at(slots, overlap, condition, strength, law))
                for condition, words in (
                    ("contrast", "the contrast"),
                    ("unit", "the contrast at unit spread"),
                    ("regrouped", "that with slots regrouped"),
                )
                for strength in reading.strengths(slots, condition, law)
            ]
            known = [(each.mean()[0] or 0.0, words, each) for words, each in learnt if each is not None]
            if not known:
                continue
            value, words, best = max(known, key=lambda each: each[0])
            parts.append(
                f"{law} (truth {plain.found['ceiling']:.2f}): AE {_number(plain.mean()[0])}, AE + ICA grouped by the "
                f"truth {_number(plain.mean('ica')[0])}, {words} {value:.2f} (share of derivatives "
                f"{_number(best.mean('own')[0])})"
            )
        if parts:
            said.append(f"{slots} slots, overlap {100 * overlap / reading.preset.window:g} %: SIS {'; '.join(parts)}.")
    return said


def _beyond_finding(reading: Reading) -> list[str]:
    said = []
    for slots, overlap in sorted({(each.slots, each.overlap) for each in reading.beyond}):
        base = [reading.at(slots, overlap, "contrast", strength) for strength in reading.strengths(slots)]
        known = [each for each in base if each is not None and each.mean()[0] is not None]
        if not known:
            continue
        best = max(known, key=lambda each: each.mean()[0] or 0.0)
        others = [each for each in reading.beyond if (each.slots, each.overlap) == (slots, overlap)]
        others += [
            found
            for name in ("regrouped", "unit")
            for strength in reading.strengths(slots, name)
            if (found := reading.at(slots, overlap, name, strength)) is not None
        ]
        better = [each for each in others if _above(each, best)]
        words = "; ".join(f"{setting_words(each)} {_spelt(*each.mean())}" for each in better)
        said.append(
            f"{slots} slots, overlap {100 * overlap / reading.preset.window:g} %: the best published contrast (λ = "
            f"{best.strength:g}) gives SIS {_spelt(*best.mean())}. "
            + (
                f"Better by two standard errors: {words}."
                if better
                else "Nothing tried is better by two standard errors."
            )
        )
    return said


def _minima(reading: Reading) -> str:
    """Whether the training loss tells good trainings from bad ones of the same setting."""
    setting = next((each for each in reading.beyond if each.found["condition"] == "restarts"), None)
    if setting is None:
        return ""
    runs = [run for run in setting.found["runs"] if run["sis"] is not None]
    count = reading.preset.restarts
    found = sum(run["sis"] >= reading.preset.high for run in runs)
    return (
        f"Restarts ({setting.slots} slots, {100 * setting.found['share']:g} %, at unit spread): {found} of {len(runs)} "
        f"trainings reach SIS {reading.preset.high:g}, the mean is {_spelt(*setting.mean())}; the training with the "
        f"lowest loss of {count} has {_spelt(*setting.chosen(count))}, chosen without knowing the truth."
    )


def _criteria_finding(reading: Reading) -> str:
    """Whether SIS falls before the criteria do."""
    parts = []
    for slots in reading.slots:
        for condition in ("contrast", "unit", "regrouped"):
            for strength in reading.strengths(slots, condition):
                lost = [
                    each
                    for each in reading.curve(slots, condition, strength)
                    if each.truth["type_s"] and (value := each.mean()[0]) is not None and value < reading.preset.high
                ]
                if lost:
                    name = f"{condition.replace('unit', 'at unit spread')}, λ = {strength:g}"
                    parts.append(f"{slots} slots, {name}: from {100 * lost[0].found['share']:g} %")
    if not parts:
        return ""
    return (
        f"SIS is below {reading.preset.high:g} although the generator is of Type S ({'; '.join(parts)}): there the "
        "optimisation fails, or the loss is no proxy for the criterion, not the criterion."
    )


def _above(one: Setting, other: Setting) -> bool:
    (high, high_error), (low, low_error) = one.mean(), other.mean()
    if high is None or low is None:
        return False
    return high - low > max(2 * float(np.hypot(high_error or 0.0, low_error or 0.0)), LEAST)


def _gain(one: Setting, other: Setting | None) -> float | None:
    values = (one.mean()[0], None if other is None else other.mean()[0])
    return None if values[0] is None or values[1] is None else values[0] - values[1]


def _range(curve: list[Setting]) -> str:
    return " to ".join(_spelt(*each.mean()) for each in (curve[0], curve[-1])) if curve else "unknown"


def _spelt(value: Number, error: Number = None) -> str:
    return _number(value) + ("" if error is None else f" ± {error:.2f}")


def _number(value: Number) -> str:
    return "unknown" if value is None else f"{value:.2f}"


SIS = "SIS, 1: every inferred slot is one true slot"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_sweep_table(reading), _own(reading), _truth(reading), _laws_table(reading), _beyond_table(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _sweep_table(reading: Reading) -> Table:
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
    return Table(name, title, tuple(_percent_table(reading, overlap) for overlap in overlaps), tuple(rows), direction)


def _truth(reading: Reading) -> Table:
    rows = []
    for slots in reading.slots:
        for each in reading.curve(slots, "plain"):
            truth = each.truth
            keys = ("type_d", "type_m", "type_s", "h2_swaps", "margin", "gap")
            values = tuple(None if truth[key] is None else float(truth[key]) for key in keys)
            rows.append(
                Row(f"{slots} slots, {_percent_table(reading, each.overlap)}", (*values, float(each.found["ceiling"])))
            )
    return Table(
        "truth",
        "The generator: which criteria hold (1) or fail (0), with Type M's margin and Type S's gap in outputs",
        ("D", "M", "S", "H₂", "margin", "gap", "SIS of the truth"),
        tuple(rows),
        "a gap above 0 is Type S; SIS of the true latents is what can be reached",
    )


def _laws_table(reading: Reading) -> Table:
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
            rows.append(Row(f"{slots} slots, {_percent_table(reading, overlap)}, {LAWS[law]}", *_columns(cells)))
    columns = ("AE", "AE, grouped", "rotated", "AE + ICA", "contrast", "at unit spread", "regrouped")
    return Table(
        "laws",
        "SIS where latents are independent and where they are not, ± s.e.; grouping knows the truth",
        (*columns, "regrouped, chosen", "truth", "own, AE", "own, regrouped"),
        tuple(rows),
        f"higher is better; {SIS}; own is the share of derivatives",
    )


def _beyond_table(reading: Reading) -> Table:
    rows = []
    for slots, overlap in sorted({(each.slots, each.overlap) for each in reading.beyond}):
        where = f"{slots} slots, {_percent_table(reading, overlap)}"
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


def _percent_table(reading: Reading, overlap: int) -> str:
    return f"{100 * overlap / reading.preset.window:g} %"
