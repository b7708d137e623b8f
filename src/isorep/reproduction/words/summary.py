"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Outcome, Row, Summary, Table
from ..pairs import RUNGS
from .charts import charts
from .findings import findings, verdict
from .presets import Preset
from .reading import Number, Reading, Setting
from .units import ESTIMATORS

R2 = "1: all variance is explained; below 0: worse than the mean; below −1 counts as −1"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_rungs(reading, "f"), _rungs(reading, "g"), _bands(reading), _theory(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _rungs(reading: Reading, side: str) -> Table:
    rows = []
    for each in reading.settings:
        cells = [each.rung(side, rung) for rung in RUNGS]
        cells += [each.mean(f"{side}_shuffled"), each.mean("cca" if side == "f" else "cca_g")]
        rows.append(Row(_name(each), *_split(cells)))
    what = "Contexts f, held-out blocks of text" if side == "f" else "Words g, centred, five folds"
    return Table(
        f"rungs-{side}",
        f"{what}: held-out R² by rung, mean over pairs ± s.e., and the mean canonical correlation",
        (*RUNGS, "linear, shuffled", "CCA"),
        tuple(rows),
        R2,
    )


def _bands(reading: Reading) -> Table:
    if reading.head is None:
        return Table("bands", "", (), (), "")
    columns = tuple(reading.head.bands)
    rows = [Row(_name(each), *_split([each.band(place) for place in range(len(columns))])) for each in reading.settings]
    return Table(
        "bands",
        "Words g by frequency: held-out R² of the linear map within a band of ranks",
        columns,
        tuple(rows),
        R2,
    )


def _theory(reading: Reading) -> Table:
    rows = []
    for each in reading.settings:
        conditions = [float(model["condition"]) for model in each.found["models"] if model["condition"] is not None]
        cells: list[tuple[Number, Number]] = [
            (each.loss, None),
            (float(each.found["unigram"]), None),
            (float(sum(bool(model["diverse"]) for model in each.found["models"])), None),
            (max(conditions, default=None), None),
            each.mean("head"),
            each.rung("f", "linear"),
            each.mean("transposed"),
            each.rung("g", "linear"),
        ]
        rows.append(Row(_name(each), *_split(cells)))
    return Table(
        "theory",
        "Held-out loss in nats; how many heads are diverse, and their largest condition number; R² of maps that theory "
        "predicts beside regressions",
        (
            "loss",
            "unigram",
            "diverse",
            "condition",
            "f, head map",
            "f, regression",
            "g, by f",
            "g, regression",
        ),
        tuple(rows),
        "the head map uses no contexts, and g by f no pair of words: it is the transpose of a regression of contexts",
    )


def _name(each: Setting) -> str:
    return f"{ESTIMATORS[each.estimator]}, {each.dimension} dimensions"


def _split(cells: list[tuple[Number, Number]]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
