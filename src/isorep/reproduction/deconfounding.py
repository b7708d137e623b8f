"""Deconfounding (section 4.4 of the paper): do independent components transfer to held-out batches?

Three parts: simulated screens, where the truth is known; wells of BBBC021; and, if the files are available,
the published OpenPhenom embeddings of RxRx3-core. A unit is a screen, one split and reduction of BBBC021, or a gene.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import load_bbbc021, load_rxrx3, screens, simulate_batches
from ..datasets.folder import find_file
from ..deconfounding import Deconfounding, deconfound
from ..representation import Array
from ..settings import check_choice
from .experiment import NELSON, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled

CONDITIONS = {"base": "Base", "pca": "PCA", "pca_ica": "PCA + ICA", "pca_rand": "PCA + Rand"}
CORRECTIONS = {"control_z": "z-score", "sphere": "sphering", "tvn": "TVN"}
"""Corrections by controls, compared with the conditions in simulated screens."""

PROTOCOLS = {"folds": "train on 80%", "train_on_one": "train on one"}
"""Section 4.4: four fifths of the plates predict the others. Appendix A.7.4: each plate predicts all others."""

KINDS: dict[str, dict[str, Any]] = {
    "independent": {},
    "gaussian": {"gaussian": True},
    "moved": {"batch_effect": "all"},
    "shape": {"batch_effect": "shape", "batch_shift": 4.0},
    "few": {"controls": 8},
}
"""Simulated screens: settings of :func:`isorep.datasets.simulate_batches` that differ from its defaults."""

PUBLISHED = ("independent", "gaussian")
"""Kinds with all published measures; the others are for corrections by controls."""

AUROC = {
    "CYP11B1": (0.663, 0.692, 0.709, 0.678),
    "EIF3H": (0.682, 0.724, 0.749, 0.725),
    "HCK": (0.670, 0.693, 0.711, 0.668),
    "MTOR": (0.663, 0.690, 0.705, 0.679),
    "PLK1": (0.803, 0.811, 0.815, 0.792),
    "SRC": (0.660, 0.694, 0.706, 0.676),
}
"""Table 3: mean AUROC on held-out plates, in the order of the conditions."""

SPARSITY = {
    "CYP11B1": (0.184, 0.204, 0.237, 0.188),
    "EIF3H": (0.192, 0.224, 0.268, 0.214),
    "HCK": (0.156, 0.208, 0.241, 0.166),
    "MTOR": (0.166, 0.201, 0.233, 0.186),
    "PLK1": (0.251, 0.307, 0.305, 0.262),
    "SRC": (0.170, 0.214, 0.240, 0.184),
}
"""Table 3: Hoyer sparsity of the classifier's split fractions."""

CONCENTRATION = ((0.163, 0.332, 0.386, 0.287), (0.134, 0.307, 0.372, 0.280), (0.133, 0.314, 0.334, 0.235))
"""Table 7 by column: the top 25% of the features, as in Table 4, and two shares that our copy does not name."""

GENES = tuple(AUROC)


_WELLS = tuple(
    (batch, features, dimensions, task)
    for batch in ("week", "plate")
    for features in ("standardised", "raw")
    for dimensions in ("tenth", "all")
    for task in ("all", "each")
)


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    screens : int
        Simulated screens with independent factors, and with Gaussian ones.
    further : int
        Simulated screens of each other kind: batches that move all factors, or that change the shape of technical
        ones; batches with few controls.
    batches, rows : int
        Batches of a screen, and rows of a batch.
    wells : tuple of (batch, features, dimensions, task)
        Runs on BBBC021: batches are ``week`` or ``plate``; features ``raw`` or ``standardised``; dimensions
        ``tenth`` (of the training wells) or ``all``; the task ``all`` treated wells together or ``each`` mechanism.
    genes : tuple of str
        Genes of RxRx3-core.
    guides : int or None
        Guides of a gene at most.
    fitted_rows : int or None
        Rows of RxRx3-core at most that the transforms are fitted to, and controls at most.
    folds, seeds : int
        Number of folds of batches, and of repetitions with other folds.
    top : tuple of float
        Shares k of the concentration.
    protocols : tuple of str
        ``folds`` and ``train_on_one``. The second applies to screens with independent factors and to genes: in BBBC021
        one week or plate has fewer wells than two leaves of the classifier.
    """

    screens: int = scaled(1, 8, 20)
    further: int = scaled(1, 4, 10)
    batches: int = scaled(6, 20, 40)
    rows: int = scaled(60, 200, 500)
    wells: tuple[tuple[str, str, str, str], ...] = scaled(
        (("week", "standardised", "tenth", "all"),),
        tuple(case for case in _WELLS if case[3] == "all" or case[:3] == ("week", "standardised", "tenth")),
        _WELLS,
    )
    genes: tuple[str, ...] = scaled(GENES[-1:], GENES, GENES)
    guides: int | None = scaled(1, 1, None)
    fitted_rows: int | None = scaled(2000, 40_000, None)
    folds: int = scaled(3, 5, 5)
    seeds: int = scaled(1, 1, 5)
    top: tuple[float, ...] = scaled((0.25,), (0.1, 0.25, 0.5), (0.1, 0.25, 0.5))
    protocols: tuple[str, ...] = tuple(PROTOCOLS)


SCALES = by_scale(Preset)

ORIGINS = {"BBBC021": "bbbc.broadinstitute.org/BBBC021", "RxRx3-core": screens.RXRX3_ORIGIN}
MEASURES = ("auroc", "hoyer")
PARTS = ("top", "rest", "share", "ratio", "gini")


_bbbc021, _rxrx3 = lru_cache(maxsize=1)(load_bbbc021), lru_cache(maxsize=1)(load_rxrx3)


def plan(preset: Preset, data: Path | None) -> Plan:
    """The simulated screens always; the other parts where their files are."""
    for protocol in preset.protocols:
        check_choice("protocols", protocol, tuple(PROTOCOLS))
    units = [
        Unit(
            f"simulated-{kind}-{place:02}{_ending(protocol)}",
            f"simulated screen {place}, {kind}, {PROTOCOLS[protocol]}",
            {"part": "simulated", "place": place, "kind": kind, "protocol": protocol},
        )
        for protocol in preset.protocols
        for kind in (KINDS if protocol == "folds" else ("independent",))
        for place in range(preset.screens if kind in PUBLISHED else preset.further)
    ]
    wells = [
        Unit(
            f"bbbc021-{batch}-{features}-{dimensions}-{task}",
            f"BBBC021, held-out {batch}s, {features} features, {dimensions} dimensions, {task}",
            {"part": "bbbc021", "batch": batch, "features": features, "dimensions": dimensions, "task": task},
        )
        for batch, features, dimensions, task in preset.wells
        if "folds" in preset.protocols
    ]
    genes = [
        Unit(
            f"rxrx3-{gene}{_ending(protocol)}",
            f"RxRx3-core, {gene}, {PROTOCOLS[protocol]}",
            {"part": "rxrx3", "gene": gene, "protocol": protocol},
        )
        for protocol in preset.protocols
        for gene in preset.genes
    ]
    published = (screens.EMBEDDINGS, screens.METADATA)
    sources = (
        ("BBBC021", screens.has_bbbc021, screens.BBBC021_FOLDER, tuple(screens.BBBC021_ORIGIN), wells),
        ("RxRx3-core", screens.has_rxrx3, screens.RXRX3_FOLDER, published, genes),
    )
    files: list[Path] = []
    skipped = []
    for part, at_hand, folder, names, more in sources:
        if data is not None and at_hand(data):
            files += [path for name in names if (path := find_file(data, folder, name)) is not None]
            units += more
        else:
            skipped.append(f"{part} was left out: {how_to_find(data)} ({', '.join(names)}, from {ORIGINS[part]})")
    return Plan(tuple(units), tuple(files), tuple(skipped))


def _ending(protocol: str) -> str:
    """The end of a unit's key."""
    return "" if protocol == "folds" else f"-{protocol}"


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
        random_state=np.random.SeedSequence([run.seed, wanted["place"]]),
        **KINDS[wanted["kind"]],
    )
    settings = _settings(run, wanted["protocol"]) | {"n_components": "all"}
    if wanted["kind"] not in PUBLISHED:
        settings["top"] = ()
    table = screen.values, screen.perturbed, screen.batch
    result = deconfound(*table, **settings)
    corrections = {}
    if wanted["protocol"] == "folds":
        corrected = deconfound(*table, **settings | {"conditions": tuple(CORRECTIONS), "top": ()})
        corrections = {name: {"auroc": asdict(corrected.mean("auroc", name))} for name in CORRECTIONS}
    truth = screen.factors[:, : screen.affected]
    return _record(result) | {
        "corrections": corrections,
        "ceiling": screen.ceiling(),
        "alignment": {
            "base": _alignment(screen.values, truth),
            "pca_ica": _alignment(result.transform(screen.values), truth),
        },
        "excess": screen.excess,
    }


def _wells(wanted: Any, run: Run) -> Outcome:
    """BBBC021; weeks are held out one by one, as a mechanism is found in two or three of them, plates in folds."""
    wells = _bbbc021(run.data or Path())
    label = wells.mechanism if wanted["task"] == "each" else np.where(wells.control, "DMSO", "treated")
    values = wells.values
    if wanted["features"] == "standardised":
        values = (values - values.mean(0)) / values.std(0)
    by_week = wanted["batch"] == "week"
    settings = _settings(run) | {
        "control": "DMSO",
        "each": wanted["task"] == "each",
        "n_components": "all" if wanted["dimensions"] == "all" else "tenth",
    }
    if by_week:
        settings |= {"split": "leave_one_out", "folds": None}
    result = deconfound(values, label, wells.week if by_week else wells.plate, **settings)
    outcome = _record(result) | {"single_wells": _single_rows(result.transform(values))}
    if wanted["task"] == "each":
        outcome["tasks"] = {task: _conditions(result, task) for task in result.tasks}
        outcome["weeks"] = {task: len(set(wells.week[wells.mechanism == task])) for task in result.tasks}
    return outcome


def _gene(wanted: Any, run: Run) -> Outcome:
    """A gene of RxRx3-core against untreated wells; transforms are fitted on all wells without labels, as published."""
    preset: Preset = run.preset
    wells = _rxrx3(run.data or Path())
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
        **_settings(run, wanted["protocol"])
        | {"control": "control", "guides": wells.treatment[rows], "fit_on": np.asarray(wells.values[fitted])}
        | {"n_components": "all"},
    )
    return _record(result) | {"guides": guides, "gene": wanted["gene"]}


def _settings(run: Run, protocol: str = "folds") -> dict[str, Any]:
    """A published protocol: folds of plates scored as a whole, gradient boosting, four conditions.

    Where one batch trains the classifier, transforms are fitted to all rows without labels, as published.
    """
    preset: Preset = run.preset
    by_fold = protocol == "folds"
    return {
        "conditions": tuple(CONDITIONS),
        "n_components": "tenth",
        "classifiers": ("lightgbm",),
        "unit": "fold",
        "split": protocol,
        "folds": preset.folds if by_fold else None,
        "fit_on": "train" if by_fold else "all",
        "n_seeds": preset.seeds if by_fold else 1,
        "top": preset.top,
        "n_restarts": 0,
        "n_examples": 0,
        "mixing": False,
        "random_state": run.seed,
        "progress": run.progress,
    }


def _record(result: Deconfounding) -> Outcome:
    """The numbers for later tables, as plain data."""
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
                "p_value": test.p_value if test.primary else test.corrected,
                "pairs": test.pairs,
            }
            for test in result.tests
            if test.condition == "pca_ica"
        ],
        "answer": result.verdict.answer,
        "seconds": dict(result.seconds),
        "caveats": list(result.caveats),
    }


def _conditions(result: Deconfounding, task: str | None) -> dict[str, dict[str, Any]]:
    shares = [str(share) for share in result.settings["top"]]
    names = [*MEASURES, *(f"{part}@{share}" for share in shares for part in PARTS)]
    return {
        condition: {name: asdict(result.mean(name, condition, task=task)) for name in names}
        for condition in result.conditions
    }


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


TITLE = "Deconfounding with ICA"
PAPER = f"{NELSON}, section 4.4 and appendix A.7.4, Tables 3, 4, 7 (OpenPhenom on RxRx3-core, one patch per image)"
EXPERIMENT = Experiment("deconfounding", TITLE, PAPER, SCALES, plan, run_unit, packages=("lightgbm",))
