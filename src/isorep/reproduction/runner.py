"""Run an experiment unit by unit, go on where an earlier run stopped, and write what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._version import __version__
from ..datasets.folder import data_folder
from ..errors import InputError
from ..ica.summary import plain, versions
from ..rows import Progress, no_progress
from .experiment import SCALES, Experiment, Plan, Run, Unit
from .ledger import Ledger, file_name
from .overrides import overridden
from .registry import experiment_named
from .result import Reproduction, Timing


def reproduce(
    name: str,
    *,
    scale: str = "laptop",
    data: str | Path | None = None,
    out: str | Path | None = None,
    random_state: int = 0,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    started: Callable[[Path, int, int], None] | None = None,
) -> Reproduction:
    """Run a published experiment, or what is left of it, and keep everything in a folder.

    Parameters
    ----------
    name : str
        The experiment, such as ``deconfounding``.
    scale : {"smoke", "laptop", "paper"}
        Seconds, half an hour, or the full protocol.
    data : str or Path, optional
        The folder of data sets; by default that of the environment variable ISOREP_DATA. Parts whose files are missing
        are left out, and named.
    out : str or Path, optional
        The folder to write to, by default ``isorep-NAME-SCALE`` here. If it holds the same run, finished units are not
        done again; a run with other settings is refused.
    random_state : int
        The seed that all others are derived from.
    settings : mapping, optional
        Other values for fields of the scale's preset, such as ``{"models": "all"}``; text is read as the kind of value
        that it replaces.
    progress : callable, optional
        ``progress(stage, done, total)``.
    started : callable, optional
        ``started(folder, finished, all)``: called when the folder is open, with the number of units.
    """
    experiment = experiment_named(name)
    preset = overridden(_preset(experiment, scale), settings or {})
    if not isinstance(random_state, int) or not 0 <= random_state < 2**31:
        raise InputError(f"the seed is {random_state}: it must be a whole number from 0 to {2**31 - 1}")
    report = progress or no_progress
    folder = data_folder(data)
    plan = _checked(experiment.plan(preset, folder))
    run = Run(preset, folder, random_state, report)
    config = _config(experiment, scale, run, plan)
    ledger = Ledger(Path(out if out is not None else f"isorep-{name}-{scale}"), config)
    records = {unit.key: ledger.finished(unit.key) for unit in plan.units}
    resumed = sum(record is not None for record in records.values())
    if started is not None:
        started(ledger.folder, resumed, len(records))
    began = time.perf_counter()
    for place, unit in enumerate(plan.units):
        report("experiment", place, len(plan.units))
        if records[unit.key] is None:
            with ledger.scratch(unit.key) as scratch:
                record = _do(experiment, unit, replace(run, scratch=scratch, folder=ledger.folder))
                ledger.keep(unit.key, record)
            records[unit.key] = record
    report("experiment", len(plan.units), len(plan.units))
    kept = {key: record for key, record in records.items() if record is not None}
    result = Reproduction(
        experiment=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        scale=scale,
        summary=experiment.summarise(preset, {key: record["outcome"] for key, record in kept.items()}),
        outcomes={key: record["outcome"] for key, record in kept.items()},
        timing=Timing(
            units={key: float(record["seconds"]) for key, record in kept.items()},
            this_run=time.perf_counter() - began,
            resumed=resumed,
        ),
        settings=config,
        versions=versions() | _extra_versions(experiment),
        skipped=plan.skipped,
        folder=ledger.folder,
    )
    _write(ledger, result)
    return result


def _do(experiment: Experiment, unit: Unit, run: Run) -> dict[str, Any]:
    """One unit; a resumed run reads the same six digits from its file."""
    began = time.perf_counter()
    outcome = plain(experiment.run(unit, run))
    seconds = time.perf_counter() - began
    return {"experiment": experiment.name, "key": unit.key, "words": unit.words, "seconds": seconds, "outcome": outcome}


def _preset(experiment: Experiment, scale: str) -> Any:
    if scale not in experiment.scales:
        raise InputError(f"there is no scale {scale!r}; there are {', '.join(SCALES)}")
    return experiment.scales[scale]


def _checked(plan: Plan) -> Plan:
    """Two units must not share a file: file systems may ignore case."""
    names = [file_name(unit.key).lower() for unit in plan.units]
    if not names:
        raise InputError("nothing can be run: " + "; ".join(plan.skipped))
    if len(set(names)) < len(names):
        raise ValueError("two units of this experiment have the same key")
    return plan


def _config(experiment: Experiment, scale: str, run: Run, plan: Plan) -> dict[str, Any]:
    """What decides the numbers: a run is continued only if all of it is the same."""
    config: dict[str, Any] = plain(
        {
            "experiment": experiment.name,
            "scale": scale,
            "seed": run.seed,
            "isorep": __version__,
            "preset": asdict(run.preset),
            "data_files": {path.name: path.stat().st_size for path in plan.files},
        }
    )
    return config


def _extra_versions(experiment: Experiment) -> dict[str, str]:
    found = {}
    for package in experiment.packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _write(ledger: Ledger, result: Reproduction) -> None:
    from ..report.standalone import figure_files

    ledger.write("metrics.json", result.to_json())
    ledger.write("table.txt", f"{result}\n")
    for name, text in figure_files(result.to_dict()).items():
        ledger.write(f"figures/{name}.svg", text)
