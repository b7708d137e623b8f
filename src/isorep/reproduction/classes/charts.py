"""Figures 2b and 2c of the paper, and the sweeps over classes and dimensions, as plain numbers."""

from __future__ import annotations

import math

from ..experiment import Chart, Line, Mark
from .material import TASKS
from .reading import Measure, Reading, Setting

_FOLLOWED = (("f", "f on examples"), ("g", "g on classes"), ("shuffled", "f, shuffled"), ("head", "head map, R²"))
_HUES = 6  # colours that a page tells apart, beside the first


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All that there is something to draw for."""
    drawn = []
    head = reading.head
    if head is not None:
        drawn += [_training(head), *_clouds(head), _starts(reading)]
    for task in reading.tasks:
        fixed = reading.preset.fixed_dimension, reading.preset.fixed_classes
        drawn.append(_sweep(task, "classes", reading.over_classes(task), f"{fixed[0]} dimensions"))
        drawn.append(_sweep(task, "dimension", reading.over_dimensions(task), f"{fixed[1]} classes"))
    return tuple(chart for chart in drawn if chart.lines or chart.marks)


def _training(head: Setting) -> Chart:
    lines = []
    named = (
        ("f", "f on examples"),
        ("g", "g on classes"),
        ("shuffled", "f, shuffled examples"),
        ("head", "head map, R²"),
    )
    for place, (name, words) in enumerate(named):
        points = [(step, value, error or 0.0) for step, value, error in head.curve(name) if value is not None]
        if name == "head":  # far below zero at the start, when the heads say nothing
            points = [each for each in points if each[1] > 0]
        lines.append(
            Line(
                words,
                tuple((math.log10(step + 1), value) for step, value, _ in points),
                tuple(f"{words}, step {step}: {value:.3f}" for step, value, _ in points),
                place + 1,
                spans=tuple((value - error, value + error) for _, value, error in points),
            )
        )
    last = head.curve("f")[-1][0] if head.curve("f") else 1
    ticks = tuple((math.log10(step + 1), str(step)) for step in (0, 10, 100, 1000, 10_000) if step <= last)
    return Chart(
        "training",
        f"{head.classes} classes by angle, {head.dimension} dimensions: similarity over training (Figure 2b)",
        "Mean canonical correlation of two trainings, averaged over all pairs ± standard error. Shuffled examples are "
        "chance. The map from the two heads alone, to which no representations were fitted, is drawn where its R² is "
        "above 0.",
        ("training step", "mean canonical correlation"),
        lines=tuple(line for line in lines if line.points),
        ticks=ticks,
    )


def _clouds(head: Setting) -> list[Chart]:
    found = head.found.get("cloud")
    if not found:
        return []
    rows = range(len(found["labels"]))
    shown = []
    for name, words in (("first", "one training"), ("second", "another training")):
        lines = []
        for hue in range(min(_HUES, head.classes)):
            mine = [row for row in rows if found["labels"][row] % _HUES == hue]
            points = tuple((float(found[name][row][0]), float(found[name][row][1])) for row in mine)
            labels = tuple(f"class {found['labels'][row] + 1}" for row in mine)
            classes = ", ".join(str(label + 1) for label in range(hue, head.classes, _HUES))
            lines.append(Line(f"classes {classes}", points, labels, hue + 1, dotted=True))
        shown.append(
            Chart(
                f"cloud-{name}",
                f"f(x) of {words}",
                "A dot is a test example. Colours repeat every six classes, so that neighbours differ.",
                ("first dimension of f", "second dimension"),
                lines=tuple(line for line in lines if line.points),
                square=True,
            )
        )
    lines = [
        Line(
            words,
            tuple((float(x), float(y)) for x, y in found[name]),
            tuple(f"{words}: class {label + 1}" for label in found["labels"]),
            series,
            dotted=True,
        )
        for name, words, series in (("second", "another training", 1), ("mapped", "one training, mapped", 2))
    ]
    shown.append(
        Chart(
            "cloud-mapped",
            "Both after the best linear map (Figure 2c)",
            "f(x) of the other training, and of the first mapped onto it by a linear map fitted to other examples.",
            ("first dimension of f", "second dimension"),
            lines=tuple(lines),
            square=True,
        )
    )
    return shown


def _starts(reading: Reading) -> Chart:
    marks = []
    for place, setting in enumerate(reading.published):
        for optimum, words in ((True, "both at the least loss"), (False, "not both")):
            value, error = setting.mean("cca", optimum=optimum)
            if value is not None:
                marks.append(
                    Mark(
                        f"start {setting.start:g}: {words}",
                        value,
                        None if error is None else max(value - error, 0.0),
                        None if error is None else value + error,
                        setting.mean("cca_shuffled")[0],
                        place + 1,
                    )
                )
    return Chart(
        "starts",
        "Agreement by start, and by whether both models reached the least loss",
        "Mean canonical correlation of f over pairs. A model that ended in a poor optimum has another distribution of "
        "labels, of which the theorem says nothing.",
        ("mean canonical correlation of f", ""),
        marks=tuple(marks),
        bound="shuffled",
    )


def _sweep(task: str, by: str, settings: list[Setting], fixed: str) -> Chart:
    across = "classes" if by == "classes" else "dimensions"
    named: tuple[tuple[str | Measure, str], ...] = (
        ("cca", "all of f"),
        ("least", "its least correlation"),
        ("cca_within", "in the span of the head"),
        ("outside", "R² outside of it"),
    )
    lines = []
    for place, (measure, words) in enumerate(named):
        points = []
        for rank, each in enumerate(settings):
            value, error = each.mean(measure)
            if value is not None:
                points.append((rank, value, error or 0.0, getattr(each, by)))
        lines.append(
            Line(
                words,
                tuple((float(rank), value) for rank, value, _, _ in points),
                tuple(f"{words}, {size} {across}: {value:.3f}" for _, value, _, size in points),
                place + 1,
                spans=tuple((value - error, value + error) for _, value, error, _ in points),
            )
        )
    return Chart(
        f"{across}-{task}",
        f"{TASKS[task].capitalize()}: {fixed}, by the number of {across}",
        "Canonical correlations of two trainings, mean over pairs ± standard error. The condition on diversity asks "
        "for more classes than dimensions; outside of the span of the head's differences nothing fixes f.",
        (f"{across} (* where classes are too few)", "agreement"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple(
            (float(rank), f"{getattr(each, by)}{'' if each.diverse else '*'}") for rank, each in enumerate(settings)
        ),
    )
