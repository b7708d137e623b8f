"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Outcome, Row, Summary, Table
from .charts import charts
from .claims import judgements
from .findings import findings, verdict
from .measuring import RUNGS
from .presets import KINDS, Preset
from .published import SOURCE
from .reading import Number, Reading, Subject

Cell = tuple[Number, Number]
COLUMNS = ("permutation", "rigid", "linear", "ICA", "ICA efficiency")
EFFICIENCY = "lower is closer; efficiency is 1 for the rigid map, and left out where that removes less than a tenth"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_in_sample(reading), _held_out(reading), _claims(reading), _control(reading), _models(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _in_sample(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        cells = [subject.error(rung, "in_sample") for rung in RUNGS] + [subject.efficiency("efficiency_in_sample")]
        rows.append(Row(subject.title, *_columns(cells), published=_beside(subject)))
    return Table(
        "table-1",
        "Table 1: errors in diameters, in sample as published, ± s.e. over pairs",
        COLUMNS,
        tuple(rows),
        EFFICIENCY,
        SOURCE,
    )


def _held_out(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        cells = [subject.error(rung) for rung in RUNGS] + [subject.efficiency()]
        rows.append(Row(subject.title, *_columns([*cells, subject.share("linear")])))
    return Table(
        "held-out",
        "The same held out, documents kept whole, ± s.e. over pairs",
        (*COLUMNS, "linear / mean alone"),
        tuple(rows),
        EFFICIENCY,
    )


def _claims(reading: Reading) -> Table:
    rows = []
    for each in judgements(reading):
        span = each.span
        before = [one.value for one in each.before]
        values = (
            each.published,
            each.in_sample,
            span.value,
            span.low,
            span.high,
            sum(before) / len(before) if before else None,
        )
        rows.append(Row(f"{each.claim.short}: {each.title}", values))
    return Table(
        "findings",
        "The published findings as rules: margins in diameters, held out with the mean 95 % interval of a pair",
        ("published", "in sample", "held out", "low", "high", "untrained"),
        tuple(rows),
        "0 and above keeps the rule",
    )


def _control(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        if subject.untrained:
            cells = [subject.error(rung, when="untrained") for rung in RUNGS]
            cells += [subject.efficiency(when="untrained"), subject.share("linear", "untrained")]
            rows.append(Row(subject.title, *_columns(cells)))
    return Table(
        "untrained",
        "The same networks before training, held out, ± s.e. over pairs",
        (*COLUMNS, "linear / mean alone"),
        tuple(rows),
        "lower is closer: what architecture and data alone give",
    )


def _models(reading: Reading) -> Table:
    rows = []
    for each in reading.trainings:
        keys = ("loss_before", "loss", "held_out_loss", "accuracy")
        values = tuple(sum(each[key]) / len(each[key]) if each.get(key) else None for key in keys)
        rows.append(Row(f"{KINDS[each['kind']]}, {len(each['loss'])} trained", (*values, float(each["parameters"]))))
    columns = ("held out, before", "training", "held out", "accuracy", "parameters")
    return Table("models", "Networks: losses, mean over trainings", columns, tuple(rows), "lower is better")


def _beside(subject: Subject) -> tuple[Number, ...]:
    row = subject.published
    return () if row is None else (row.permutation, row.rigid, row.linear, row.ica, row.efficiency)


def _columns(cells: list[Cell]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
