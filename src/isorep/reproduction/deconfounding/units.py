"""The units of work: a simulated screen, a way to split and reduce BBBC021, a gene of RxRx3-core."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import Embeddings, Wells, load_bbbc021, load_rxrx3, simulate_batches
from ...datasets import bbbc021 as bbbc021_files
from ...datasets import rxrx3 as rxrx3_files
from ...datasets.folder import VARIABLE, find_file
from ...deconfounding import Deconfounding, deconfound
from ...representation import Array
from ..experiment import Outcome, Plan, Run, Unit
from .presets import Preset
from .published import CONDITIONS

MEASURES = ("auroc", "hoyer")
PARTS = ("top", "rest", "share", "ratio", "gini")


def plan(preset: Preset, data: Path | None) -> Plan:
    """The simulated screens always; the other parts where their files are."""
    units = [
        Unit(
            f"simulated-{kind}-{place:02}",
            f"simulated screen {place}, {kind} factors",
            {"part": "simulated", "place": place, "gaussian": kind == "gaussian"},
        )
        for kind in ("independent", "gaussian")
        for place in range(preset.screens)
    ]
    files: list[Path] = []
    skipped: list[str] = []
    if data is not None and bbbc021_files.has_bbbc021(data):
        files += _found(data, bbbc021_files.FOLDER, tuple(bbbc021_files.ORIGIN))
        units += [
            Unit(
                f"bbbc021-{batch}-{features}-{dimensions}-{task}",
                f"BBBC021, held-out {batch}s, {features} features, {dimensions} dimensions, {task}",
                {"part": "bbbc021", "batch": batch, "features": features, "dimensions": dimensions, "task": task},
            )
            for batch, features, dimensions, task in preset.wells
        ]
    else:
        skipped.append(_missing("BBBC021", ", ".join(bbbc021_files.ORIGIN), "bbbc.broadinstitute.org/BBBC021", data))
    if data is not None and rxrx3_files.has_rxrx3(data):
        files += _found(data, rxrx3_files.FOLDER, (rxrx3_files.EMBEDDINGS, rxrx3_files.METADATA))
        units += [
            Unit(f"rxrx3-{gene}", f"RxRx3-core, {gene}", {"part": "rxrx3", "gene": gene}) for gene in preset.genes
        ]
    else:
        names = f"{rxrx3_files.EMBEDDINGS} and {rxrx3_files.METADATA}"
        skipped.append(_missing("RxRx3-core", names, rxrx3_files.ORIGIN, data))
    return Plan(tuple(units), tuple(files), tuple(skipped))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """One unit of any part."""
    parts = {"simulated": _simulated, "bbbc021": _wells, "rxrx3": _gene}
    return parts[unit.arguments["part"]](unit.arguments, run)


def _simulated(wanted: Any, run: Run) -> Outcome:
    """A screen whose truth is known: the ceiling, and how far single features follow the affected factors."""
    preset: Preset = run.preset
    screen = simulate_batches(
        batches=preset.batches,
        rows=preset.rows,
        gaussian=wanted["gaussian"],
        random_state=np.random.SeedSequence([run.seed, wanted["place"]]),
    )
    result = deconfound(screen.values, screen.perturbed, screen.batch, **_settings(run))
    truth = screen.factors[:, : screen.affected]
    return _record(result) | {
        "ceiling": screen.ceiling(),
        "alignment": {
            "base": _alignment(screen.values, truth),
            "pca_ica": _alignment(result.transform(screen.values), truth),
        },
        "excess": screen.excess,
    }


def _wells(wanted: Any, run: Run) -> Outcome:
    """BBBC021; weeks are held out one by one, as a mechanism is found in two or three of them, plates in folds."""
    wells = _load_wells(run.data or Path())
    label = wells.mechanism if wanted["task"] == "each" else np.where(wells.control, "DMSO", "treated")
    values = wells.values
    if wanted["features"] == "standardised":
        values = (values - values.mean(0)) / values.std(0)
    by_week = wanted["batch"] == "week"
    settings = _settings(run) | {
        "control": "DMSO",
        "each": wanted["task"] == "each",
        "n_components": "all" if wanted["dimensions"] == "all" else None,
        "split": "leave_one_out" if by_week else "folds",
    }
    result = deconfound(values, label, wells.week if by_week else wells.plate, **settings)
    outcome = _record(result) | {"single_wells": _single_rows(result.transform(values))}
    if wanted["task"] == "each":
        outcome["tasks"] = {task: _conditions(result, task) for task in result.tasks}
        outcome["weeks"] = {task: len(set(wells.week[wells.mechanism == task])) for task in result.tasks}
    return outcome


def _gene(wanted: Any, run: Run) -> Outcome:
    """A gene of RxRx3-core against untreated wells; the transforms see all wells and no label, as published."""
    preset: Preset = run.preset
    wells = _load_embeddings(run.data or Path())
    guides = wells.guides(wanted["gene"])[: preset.guides]
    if not guides:
        return {"absent": True, "gene": wanted["gene"]}
    rng = np.random.default_rng([run.seed, 3])
    controls = _sample(np.flatnonzero(wells.control), preset.fitted_rows, rng)
    treated = np.flatnonzero(np.isin(wells.treatment, guides) & (wells.gene == wanted["gene"]))
    rows = np.sort(np.concatenate([controls, treated]))
    fitted = _sample(np.arange(len(wells)), preset.fitted_rows, rng)
    result = deconfound(
        np.asarray(wells.values[rows]),
        np.where(wells.control[rows], "control", wanted["gene"]),
        wells.plate[rows],
        **_settings(run)
        | {"control": "control", "guides": wells.treatment[rows], "fit_on": np.asarray(wells.values[fitted])},
    )
    return _record(result) | {"guides": guides, "gene": wanted["gene"]}


def _settings(run: Run) -> dict[str, Any]:
    preset: Preset = run.preset
    return {
        "conditions": tuple(CONDITIONS),
        "folds": preset.folds,
        "n_seeds": preset.seeds,
        "top": preset.top,
        "n_restarts": 0,
        "n_examples": 0,
        "random_state": run.seed,
        "progress": run.progress,
    }


def _record(result: Deconfounding) -> Outcome:
    """What later tables need, as plain numbers."""
    return {
        "rows": result.data.rows,
        "positives": result.data.positives,
        "batches": result.data.batches,
        "dimensions": {name: condition.dimensions for name, condition in result.conditions.items()},
        "conditions": _conditions(result, None),
        "tests": [
            {
                "against": test.against,
                "difference": test.difference,
                "low": test.interval.low if test.interval else None,
                "high": test.interval.high if test.interval else None,
                "p_value": test.corrected,
                "pairs": test.pairs,
            }
            for test in result.tests
        ],
        "answer": result.verdict.answer,
        "seconds": dict(result.seconds),
        "caveats": list(result.caveats),
    }


def _conditions(result: Deconfounding, task: str | None) -> dict[str, dict[str, Any]]:
    shares = [str(share) for share in result.settings["top"]]
    names = [*MEASURES, *(f"{part}@{share}" for share in shares for part in PARTS)]
    found = {}
    for condition in result.conditions:
        means = {name: result.mean(name, condition, task=task) for name in names}
        found[condition] = {name: asdict(mean) for name, mean in means.items()}
    return found


def _alignment(features: Array, factors: Array) -> float:
    """The largest absolute correlation of each factor with a single feature, on average; 1 is a perfect axis."""
    both = np.corrcoef(features, factors, rowvar=False)
    return float(np.abs(both[: features.shape[1], features.shape[1] :]).max(0).mean())


def _single_rows(components: Array) -> float:
    """The share of components more than half of whose variance is one row."""
    energy = (components - components.mean(0)) ** 2
    return float((energy.max(0) > 0.5 * energy.sum(0)).mean())


def _sample(rows: Array, most: int | None, rng: np.random.Generator) -> Array:
    return rows if most is None or len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


@lru_cache(maxsize=1)
def _load_wells(data: Path) -> Wells:
    return load_bbbc021(data)


@lru_cache(maxsize=1)
def _load_embeddings(data: Path) -> Embeddings:
    return load_rxrx3(data)


def _found(data: Path, subfolder: str, names: tuple[str, ...]) -> list[Path]:
    return [path for path in (find_file(data, subfolder, name) for name in names) if path is not None]


def _missing(part: str, names: str, origin: str, data: Path | None) -> str:
    where = f"name a folder with --data or {VARIABLE}" if data is None else f"{data} does not hold its files"
    return f"{part} was left out: {where} ({names}, from {origin})"
