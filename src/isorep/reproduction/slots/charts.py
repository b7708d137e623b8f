"""SIS against the overlap, with what the criteria say, and what goes past the paper."""

from __future__ import annotations

from ..experiment import Chart, Line, Mark
from .conditions import CONDITIONS
from .reading import Reading, Setting, curves_of
from .units import LAWS

AXIS = "slot identifiability score (SIS)"
OVERLAP = "outputs shared with the next slot, % of a slot's"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All figures that there are settings for."""
    others = sorted({(each.slots, each.overlap) for each in reading.settings if each.found["law"] != "normal"})
    beyond = sorted({(each.slots, each.overlap) for each in reading.beyond})
    drawn: list[Chart | None] = [_sweep(reading, slots) for slots in reading.slots]
    drawn += [_laws(reading, *place) for place in others] + [_beyond(reading, *place) for place in beyond]
    return tuple(chart for chart in drawn if chart is not None)


def _sweep(reading: Reading, slots: int) -> Chart:
    lines = []
    for place, (name, curve) in enumerate(curves_of(reading, slots)[:7]):
        kept = [(each, *each.mean()) for each in curve]
        known = [(each, value, error or 0.0) for each, value, error in kept if value is not None]
        if known:
            lines.append(
                Line(
                    name,
                    tuple((_percent(each), value) for each, value, _ in known),
                    tuple(f"{name}, {_percent(each):g} %: {value:.3f} ± {error:.3f}" for each, value, error in known),
                    place,
                    spans=tuple((value - error, value + error) for _, value, error in known),
                )
            )
    truth = reading.curve(slots, "plain")
    best = tuple((_percent(each), float(each.found["ceiling"])) for each in truth)
    lines.append(Line("true latents", best, tuple(f"true latents: {y:.3f}" for _, y in best), 6, dotted=True))
    return Chart(
        f"sis-{slots}",
        f"{slots} slots: SIS against the overlap",
        f"Mean over seeds with its standard error; normal latents. {_criteria(truth)} SIS of the true latents is what "
        "can be reached.",
        (OVERLAP, AXIS),
        lines=tuple(lines),
    )


def _criteria(truth: list[Setting]) -> str:
    """Where each criterion holds, in words."""
    said = []
    for key, name in (("type_d", "D"), ("type_m", "M"), ("type_s", "S"), ("h2_swaps", "H₂")):
        holds = [f"{_percent(each):g}" for each in truth if each.truth[key]]
        everywhere = len(holds) == len(truth)
        said.append(f"{name} {'everywhere' if everywhere else 'at ' + ', '.join(holds) + ' %' if holds else 'nowhere'}")
    return f"The generator is of Type {'; '.join(said)}."


def _laws(reading: Reading, slots: int, overlap: int) -> Chart | None:
    marks = []
    for law in LAWS:
        plain = reading.at(slots, overlap, "plain", law=law)
        if plain is None:
            continue
        marks += [_mark(f"{law}: AE", plain, "sis", 0), _mark(f"{law}: AE + ICA", plain, "ica", 1)]
        for colour, condition in enumerate(("contrast", "unit", "regrouped"), start=2):
            for strength in reading.strengths(slots, condition, law)[-1:]:
                found = reading.at(slots, overlap, condition, strength, law)
                if found is not None:
                    marks.append(_mark(f"{law}: {CONDITIONS[condition].short}", found, "sis", colour))
    kept = tuple(mark for mark in marks if mark is not None)
    if not kept:
        return None
    return Chart(
        f"laws-{slots}-{overlap}",
        f"Independent and dependent latents: {slots} slots, overlap {_share(reading, overlap)}",
        "SIS, mean over seeds; the tick is SIS of the true latents, which tell of each other where they are dependent. "
        "Components of ICA are put to the true slots that explain them best.",
        (AXIS, ""),
        marks=kept,
        bound="true latents",
    )


def _beyond(reading: Reading, slots: int, overlap: int) -> Chart | None:
    marks = []
    for condition in ("plain", "contrast", "unit", "regrouped", "additive"):
        for strength in reading.strengths(slots, condition):
            found = reading.at(slots, overlap, condition, strength)
            if found is not None:
                label = f", λ = {strength:g}" if condition == "contrast" else ""
                marks.append(_mark(f"{CONDITIONS[condition].short}{label}", found, "sis", 2))
    for each in reading.beyond:
        if (each.slots, each.overlap) != (slots, overlap):
            continue
        marks.append(_mark(CONDITIONS[each.found["condition"]].short, each, "sis", 3))
        if each.found["condition"] == "restarts":
            value, error = each.chosen(reading.preset.restarts)
            if value is not None:
                name = f"least loss of {reading.preset.restarts}"
                best = float(each.found["ceiling"])
                marks.append(Mark(name, max(value, 0.0), *_span(value, error), best, 3))
    kept = tuple(mark for mark in marks if mark is not None)
    if not kept:
        return None
    return Chart(
        f"beyond-{slots}-{overlap}",
        f"Past the paper: {slots} slots, overlap {_share(reading, overlap)}",
        "SIS, mean over seeds; the tick is SIS of the true latents. The least loss is at unit spread, too.",
        (AXIS, ""),
        marks=kept,
        bound="true latents",
    )


def _share(reading: Reading, overlap: int) -> str:
    return f"{100 * overlap / reading.preset.window:g} %"


def _mark(name: str, setting: Setting, measure: str, colour: int) -> Mark | None:
    value, error = setting.mean(measure)
    if value is None:
        return None
    return Mark(name, max(value, 0.0), *_span(value, error), float(setting.found["ceiling"]), colour)


def _span(value: float, error: float | None) -> tuple[float | None, float | None]:
    return (None, None) if error is None else (max(value - error, 0.0), max(value + error, 0.0))


def _percent(setting: Setting) -> float:
    return 100 * float(setting.found["share"])
