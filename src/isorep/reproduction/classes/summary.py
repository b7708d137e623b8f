"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Outcome, Row, Summary, Table
from ..pairs import RUNGS
from .charts import charts
from .findings import findings, verdict
from .material import TASKS
from .presets import Preset
from .reading import Reading, Setting

SAME = "1: the same up to a linear map"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = [_over_training(reading), _rungs(reading), _starts(reading)]
    for task in reading.tasks:
        fixed = f"{preset.fixed_dimension} dimensions", f"{preset.fixed_classes} classes"
        tables.append(_sweep(f"classes-{task}", task, fixed[0], reading.over_classes(task)))
        tables.append(_sweep(f"dimensions-{task}", task, fixed[1], reading.over_dimensions(task)))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _over_training(reading: Reading) -> Table:
    head = reading.head
    rows = []
    if head is not None:
        columns = [head.curve(name) for name in ("f", "g", "shuffled", "head", "regression")]
        for points in zip(*columns, strict=True):
            rows.append(Row(f"step {points[0][0]}", *_split([(mean, error) for _, mean, error in points])))
    return Table(
        "training",
        "Over training, mean over pairs ± s.e.: mean canonical correlations, and R² of the map from the heads and of a "
        "regression",
        ("f on examples", "g on classes", "f, shuffled", "head map", "regression"),
        tuple(rows),
        f"{SAME}; R² below −1 counts as −1",
    )


def _rungs(reading: Reading) -> Table:
    rows = []
    for setting in reading.published:
        for name, words in (("f", "f on examples"), ("g", "g on classes")):
            cells = [setting.rung(name, rung) for rung in RUNGS]
            cells.append(setting.mean("f_shuffled") if name == "f" else (None, None))
            rows.append(Row(f"start {setting.start:g}: {words}", *_split(cells)))
    return Table(
        "rungs",
        f"Held-out R² by rung at the end, {reading.preset.classes} classes and {reading.preset.dimension} dimensions",
        (*RUNGS, "linear, shuffled"),
        tuple(rows),
        "1: all variance is explained; below 0: worse than the mean",
    )


def _starts(reading: Reading) -> Table:
    rows = []
    for setting in reading.published:
        reached = setting.reached
        cells = [
            (float(sum(reached)), None),
            (float(len(reached)), None),
            setting.mean("cca"),
            setting.mean("cca", optimum=True),
            setting.mean("cca", optimum=False),
            setting.mean("cca_g"),
            setting.mean("cca_shuffled"),
            setting.mean("cca_g_shuffled"),
        ]
        rows.append(Row(f"start {setting.start:g}", *_split(cells)))
    return Table(
        "starts",
        "Mean canonical correlation by the start of the class vectors, and by whether both reached the least loss",
        ("reached it", "models", "all pairs", "both", "not both", "g", "f, shuffled", "g, shuffled"),
        tuple(rows),
        SAME,
    )


def _sweep(name: str, task: str, fixed: str, settings: list[Setting]) -> Table:
    by_class = name.startswith("classes")
    rows = []
    for each in settings:
        size = f"{each.classes} classes" if by_class else f"{each.dimension} dimensions"
        cells = [
            each.mean("cca"),
            each.mean("least"),
            each.rung("f", "linear"),
            each.mean("cca_within"),
            each.mean("within"),
            each.mean("outside"),
            each.mean("logits"),
            each.mean("head"),
        ]
        rows.append(Row(f"{size}{'' if each.diverse else ' (too few)'}", *_split(cells)))
    return Table(
        name,
        f"{TASKS[task].capitalize()}, {fixed}: agreement of f, of its part in the span of the head, and outside of it",
        ("CCA", "least", "R²", "CCA, span", "R², span", "R², outside", "logits", "head map"),
        tuple(rows),
        f"{SAME}; too few: no more classes than dimensions; logits are compared as they are",
    )


def _split(cells: list[tuple[float | None, float | None]]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
