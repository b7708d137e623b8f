"""Table 1 as a figure, the ladder as shares of what the mean alone leaves, and the efficiency of ICA."""

from __future__ import annotations

from ..experiment import Chart, Line, Mark
from .measuring import RUNGS
from .reading import Number, Reading, Subject

WORDS = {"signed_permutation": "permutation", "rigid": "rigid", "linear": "linear", "ica": "ICA"}
ORDER = ("signed_permutation", "ica", "rigid", "linear")
"""As the paper expects errors to fall."""
_MOST = 8  # subjects of one figure
_LONGEST = 12  # letters of a name there


def charts(reading: Reading) -> tuple[Chart, ...]:
    """Those that have something to show."""
    drawn = [_table(reading), *(_ladder(reading, when) for when in ("trained", "untrained")), _efficiency(reading)]
    return tuple(chart for chart in drawn if chart.marks or chart.lines)


def _table(reading: Reading) -> Chart:
    marks = []
    for subject in reading.subjects[:_MOST]:
        for colour, rung in enumerate(RUNGS):
            span = subject.span(rung)
            if span is not None:
                beside = None if subject.published is None else getattr(subject.published, WORDS[rung].lower())
                name = f"{_short(subject)}: {WORDS[rung]}"
                marks.append(Mark(name, span.value, span.low, span.high, bound=beside, series=colour))
    return Chart(
        "errors",
        "Held-out errors beside Table 1",
        "Mean over pairs in diameters of the target; intervals are over rows or documents, the mean of those of the "
        "pairs. The tick is the published number, which is in sample and of a much larger model.",
        ("error in diameters", ""),
        marks=tuple(marks),
        bound="published, in sample",
        whisker="95 % interval",
    )


def _ladder(reading: Reading, when: str) -> Chart:
    lines = []
    for colour, subject in enumerate(reading.subjects[:_MOST]):
        known = [
            (place, cell) for place, rung in enumerate(ORDER) if (cell := subject.share(rung, when))[0] is not None
        ]
        if known:
            lines.append(_line(subject.title, [(float(place), *cell) for place, cell in known], colour))
    return Chart(
        f"ladder-{when}",
        f"What is left after each map, {when} networks",
        "Held-out error as a share of what the target's mean alone leaves, mean over pairs with its standard error; "
        "lower is closer. From left to right as the paper expects errors to fall.",
        ("map", "held-out error / mean alone"),
        lines=tuple(lines),
        ticks=tuple((float(place), WORDS[rung]) for place, rung in enumerate(ORDER)),
    )


def _efficiency(reading: Reading) -> Chart:
    subjects = reading.subjects[:_MOST]
    series: list[tuple[str, list[tuple[Number, Number]]]] = [
        ("held out", [each.efficiency() for each in subjects]),
        ("in sample", [each.efficiency("efficiency_in_sample") for each in subjects]),
        ("held out, untrained", [each.efficiency(when="untrained") for each in subjects]),
        ("published, in sample", [(each.published.efficiency if each.published else None, None) for each in subjects]),
    ]
    lines = []
    for colour, (name, cells) in enumerate(series):
        known = [(float(place), *cell) for place, cell in enumerate(cells) if cell[0] is not None]
        if known:
            lines.append(_line(name, known, colour, dotted=True))
    return Chart(
        "efficiency",
        "Efficiency of ICA",
        "The share of what the rigid map gains over the permutation that ICA gains without any pairs; mean over pairs "
        "with its standard error. Below 0 ICA is worse than the permutation.",
        ("", "efficiency"),
        lines=tuple(lines),
        ticks=tuple((float(place), _short(each)) for place, each in enumerate(subjects)),
    )


def _line(name: str, cells: list[tuple[float, Number, Number]], colour: int, *, dotted: bool = False) -> Line:
    known = [(place, float(value or 0.0), error or 0.0) for place, value, error in cells]
    return Line(
        name,
        tuple((place, value) for place, value, _ in known),
        tuple(f"{name}: {value:.3f} ± {error:.3f}" for _, value, error in known),
        colour,
        dotted=dotted,
        spans=tuple((value - error, value + error) for _, value, error in known),
    )


def _short(subject: Subject) -> str:
    """A name that fits beside a figure."""
    if subject.named:
        return subject.title if len(subject.title) <= _LONGEST else f"{subject.title[: _LONGEST - 1]}…"
    return subject.key.upper().replace("-LAST", " last")
