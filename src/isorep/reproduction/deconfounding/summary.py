"""Outcomes of the units as tables beside the published ones, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..experiment import Outcome, Row, Summary, Table
from .charts import charts
from .findings import findings, verdict
from .presets import Preset
from .published import AUROC, CONCENTRATION, CONDITIONS, GENES, SPARSITY
from .reading import KINDS, Reading

HIGHER = "higher is better"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=(
            _table(reading, "auroc", "AUROC on held-out batches ± s.e.", HIGHER, "Table 3", AUROC),
            _table(reading, "hoyer", "Hoyer sparsity of the splits ± s.e.", "1: a single feature", "Table 3", SPARSITY),
            _concentration(reading),
        ),
        charts=charts(reading),
        findings=findings(reading),
    )


def _table(
    reading: Reading, measure: str, title: str, direction: str, source: str, published: Mapping[str, tuple[float, ...]]
) -> Table:
    means = tuple(float(np.mean([published[gene][place] for gene in GENES])) for place in range(len(CONDITIONS)))
    rows = [Row("RxRx3-core, mean of the genes", *reading.genes_mean(measure), means)]
    rows += [Row(f"RxRx3-core, {gene}", *reading.gene(gene, measure), published[gene]) for gene in GENES]
    rows += _obtained(reading, measure)
    return Table(measure, title, tuple(CONDITIONS.values()), tuple(rows), direction, source)


def _concentration(reading: Reading) -> Table:
    measure = f"share@{reading.headline_share}"
    genes = Row("RxRx3-core, mean of the genes", *reading.genes_mean(measure), CONCENTRATION)
    rows = [genes, *_obtained(reading, measure)]
    title = f"Concentration: share of the signal that the rest lacks, top {reading.headline_share:.0%} of the features"
    return Table("concentration", title, tuple(CONDITIONS.values()), tuple(rows), HIGHER, "Table 4")


def _obtained(reading: Reading, measure: str) -> list[Row]:
    rows = []
    for kind, words in KINDS.items():
        if reading.screens(kind):
            ceiling = f", at best {reading.ceiling(kind):.3f}" if measure == "auroc" else ""
            rows.append(Row(f"simulated, {words}{ceiling}", *reading.screens_mean(kind, measure)))
    for words, outcome in reading.wells.items():
        rows.append(Row(f"BBBC021, {words}", *reading.conditions(outcome["conditions"], measure)))
    for mechanism, conditions in reading.mechanisms.items():
        rows.append(Row(f"BBBC021 by week, {mechanism}", *reading.conditions(conditions, measure)))
    return rows
