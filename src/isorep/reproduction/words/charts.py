"""Figure 1 of the paper, and what holds in more dimensions and for rarer words, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..experiment import Chart, Line
from ..pairs import RUNGS
from .reading import Number, Reading

AXES = ("first dimension", "second dimension")
_WORDS = {"identity": "no map", "permutation": "signed permutation", "rigid": "rigid, scaled", "linear": "linear"}


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All that there is something to draw for."""
    drawn: list[Chart] = []
    head = reading.head
    if head is not None and head.found.get("picture"):
        drawn += [*_contexts(head.found["picture"]["contexts"]), *_words(head.found["picture"])]
    for side, words in (("f", "Contexts f"), ("g", "Words g")):
        drawn.append(_dimensions(reading, side, words))
    if head is not None:
        drawn.append(_bands(reading))
    return tuple(chart for chart in drawn if chart.lines)


def _contexts(found: Any) -> list[Chart]:
    before = [("first", "one training", 1), ("second", "another training", 2)]
    after = [("mapped", "one training, mapped", 1), ("second", "another training", 2)]
    said = "A dot is a held-out context of words."
    return [
        Chart(
            "contexts-before",
            "Contexts f before the map (Figure 1, left and middle)",
            f"{said} Both trainings as they are.",
            AXES,
            lines=tuple(_cloud(found[name], words, series) for name, words, series in before),
            square=True,
        ),
        Chart(
            "contexts-after",
            "Contexts f after the linear map (Figure 1, right)",
            f"{said} The map was fitted to other blocks of text.",
            AXES,
            lines=tuple(_cloud(found[name], words, series) for name, words, series in after),
            square=True,
        ),
    ]


def _words(found: Any) -> list[Chart]:
    panels = (
        ("first", "Words g of one training", "The most frequent words; some are named.", 1),
        ("second", "Words g of another training", "The same words; the same ones are named.", 2),
        ("mapped", "Words g of the first after the linear map", "Each word by a map that was fitted without it.", 1),
    )
    drawn = []
    for name, title, caption, series in panels:
        notes = tuple((*_point(found[name][row]), str(found["words"][row])) for row in found["labelled"])
        lines = [_cloud(found[name], title, series, found["words"])]
        if name == "mapped":
            lines.append(_cloud(found["second"], "the other training", 2, found["words"]))
        drawn.append(Chart(f"words-{name}", title, caption, AXES, lines=tuple(lines), square=True, notes=notes))
    return drawn


def _dimensions(reading: Reading, side: str, words: str) -> Chart:
    settings = reading.by_dimension
    where = [f"{each.dimension} dimensions" for each in settings]
    lines = [
        _line(_WORDS[rung], [each.rung(side, rung) for each in settings], where, place)
        for place, rung in enumerate(RUNGS, start=1)
    ]
    shuffled = [each.mean(f"{side}_shuffled") for each in settings]
    lines.append(_line("linear, shuffled", shuffled, where, len(RUNGS) + 1))
    return Chart(
        f"dimensions-{side}",
        f"{words} of two trainings by rung and dimension",
        "Held-out R², mean over pairs ± standard error.",
        ("dimensions", "R²"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple((float(place), str(each.dimension)) for place, each in enumerate(settings)),
    )


def _bands(reading: Reading) -> Chart:
    settings = reading.by_dimension
    names = settings[0].bands if settings else []
    lines = [
        _line(f"{each.dimension} dimensions", [each.band(place) for place in range(len(names))], names, series)
        for series, each in enumerate(settings, start=1)
    ]
    return Chart(
        "bands",
        "Words g by frequency: the linear map within bands of ranks",
        "Held-out R² within the band, mean over pairs ± standard error; the most frequent words at the left.",
        ("ranks of words by frequency", "R²"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple((float(place), name.removeprefix("ranks ")) for place, name in enumerate(names)),
    )


def _line(name: str, cells: Sequence[tuple[Number, Number]], where: Sequence[str], series: int) -> Line:
    points = [(place, value, error or 0.0) for place, (value, error) in enumerate(cells) if value is not None]
    return Line(
        name,
        tuple((float(place), value) for place, value, _ in points),
        tuple(f"{name}, {where[place]}: {value:.3f}" for place, value, _ in points),
        series,
        spans=tuple((value - error, value + error) for _, value, error in points),
    )


def _cloud(points: Any, name: str, series: int, labels: Sequence[str] | None = None) -> Line:
    return Line(
        name,
        tuple(_point(point) for point in points),
        tuple(labels) if labels is not None else ("",) * len(points),
        series,
        dotted=True,
    )


def _point(point: Any) -> tuple[float, float]:
    return float(point[0]), float(point[1])
