"""Runner of an experiment: unit by unit, resuming an earlier run, and its output.

The result: tables with the published values, seeds, versions and run time. The folder of a run: its config, one file
for each finished unit, and the files written at the end.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from .._version import __version__
from ..datasets.folder import data_folder
from ..errors import InputError
from ..files import alone_in, finite_json, is_temporary, require_plain, write_text
from ..results import ResultRecord, aligned, counted, plain, significant, told, versions, wrapped
from ..rows import Progress, no_progress
from .experiment import SCALES, Experiment, Outcome, Plan, Run, Summary, Table, Unit, experiment_named, overridden

NOTHING = "–"
CONFIG = "config.json"


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
    """Run or resume a published experiment, and store everything in a folder.

    Parameters
    ----------
    name : str
        Name of the experiment, such as ``deconfounding``.
    scale : {"smoke", "laptop", "paper"}
        Size of the run: seconds, half an hour, or the full protocol.
    data : str or Path, optional
        Folder of data sets; default: the environment variable ISOREP_DATA. Parts whose files are missing
        are left out, and named.
    out : str or Path, optional
        Folder to write to; default: ``isorep-NAME-SCALE`` in the current folder. If it holds the same run, the run is
        resumed; a run with other settings is refused.
    random_state : int
        Seed from which all others are derived.
    settings : mapping, optional
        Other values for fields of the scale's preset, such as ``{"models": "all"}``; text is converted to the type of
        the value that it replaces.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    started : callable, optional
        Called as ``started(folder, finished, all)`` when the folder is open, with the number of units.
    """
    experiment = experiment_named(name)
    if scale not in experiment.scales:
        raise InputError(f"there is no scale {scale!r}; there are {', '.join(SCALES)}")
    preset = overridden(experiment.scales[scale], settings or {})
    if not isinstance(random_state, int) or not 0 <= random_state < 2**31:
        raise InputError(f"the seed is {random_state}: it must be a whole number from 0 to {2**31 - 1}")
    report = progress or no_progress
    folder = data_folder(data)
    plan = _checked(experiment.plan(preset, folder))
    run = Run(preset, folder, random_state, report)
    config = _config(experiment, scale, run, plan)
    with Ledger.opened(Path(out if out is not None else f"isorep-{name}-{scale}"), config) as ledger:
        return _run(experiment, scale, plan, run, ledger, started)


def _run(
    experiment: Experiment,
    scale: str,
    plan: Plan,
    run: Run,
    ledger: Ledger,
    started: Callable[[Path, int, int], None] | None,
) -> Reproduction:
    """The units that are not done yet, and the result of all."""
    report = run.progress
    records = {unit.key: ledger.finished(unit.key) for unit in plan.units}
    resumed = sum(record is not None for record in records.values())
    if started is not None:
        started(ledger.folder, resumed, len(records))
    began = time.perf_counter()
    for index, unit in enumerate(plan.units):
        report("experiment", index, len(plan.units))
        if records[unit.key] is None:
            with ledger.scratch(unit.key) as scratch:
                record = _do(experiment, unit, replace(run, scratch=scratch, folder=ledger.folder))
                ledger.keep(unit.key, record)
            records[unit.key] = record
    report("experiment", len(plan.units), len(plan.units))
    kept = {key: record for key, record in records.items() if record is not None}
    outcomes = {key: record["outcome"] for key, record in kept.items()}
    seconds = {key: float(record["seconds"]) for key, record in kept.items()}
    result = Reproduction(
        experiment=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        scale=scale,
        summary=_summary(experiment, run, outcomes, ledger.folder if resumed else None),
        outcomes=outcomes,
        timing=Timing(seconds, this_run=time.perf_counter() - began, resumed=resumed),
        settings=ledger.config,
        versions=versions() | {package: _version(package) for package in experiment.packages},
        skipped=plan.skipped,
        folder=ledger.folder,
    )
    _write(result)
    return result


def _summary(experiment: Experiment, run: Run, outcomes: dict[str, Outcome], resumed: Path | None) -> Summary:
    """What the outcomes say; those of a folder that was resumed may be anybody's."""
    try:
        return experiment.summarise(run.preset, outcomes)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if resumed is None or isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{resumed} holds damaged units ({reason}): name another folder with --out") from error


@dataclass(frozen=True)
class Timing:
    """Run time of every unit, of this run alone, and the number of units done before."""

    units: dict[str, float]
    this_run: float
    resumed: int

    @property
    def total(self) -> float:
        """Seconds of all units together."""
        return sum(self.units.values())


@dataclass(frozen=True)
class Reproduction(ResultRecord):
    """The result of :func:`isorep.reproduction.reproduce`.

    Attributes
    ----------
    summary : Summary
        Verdict, tables with the published numbers, figures and findings.
    outcomes : dict of str to dict
        The outcome of each unit, by its key.
    timing : Timing
    settings : dict
        Scale, seed, preset and data files, which determine the numbers.
    skipped : tuple of str
        Parts that could not be run, and their requirements.
    folder : Path
        The folder with config, metrics, table, units and figures.
    """

    schema: ClassVar[str] = "isorep.reproduction/1"
    page_by: ClassVar[str] = "reproduction.page:page"
    experiment: str
    title: str
    paper: str
    scale: str
    summary: Summary
    outcomes: dict[str, Outcome]
    timing: Timing
    settings: dict[str, Any]
    versions: dict[str, str]
    folder: Path
    skipped: tuple[str, ...] = ()

    def table(self, width: int | None = None) -> str:
        """All tables as text, obtained beside published."""
        return "\n\n".join(table_text(table, width) for table in self.summary.tables)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return self.summary.verdict

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per cell of every table: the value that was obtained, its error, and the published value."""
        nothing = (None,) * max((len(table.columns) for table in self.summary.tables), default=0)
        return [
            {"table": table.name, "row": row.name, "column": column, "value": value, "error": error, "published": said}
            for table in self.summary.tables
            for row in table.rows
            for column, value, error, said in zip(
                table.columns, row.values or nothing, row.errors or nothing, row.published or nothing, strict=False
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data with a versioned schema."""
        written: dict[str, Any] = plain(
            {
                "schema": self.schema,
                "isorep": __version__,
                "versions": self.versions,
                "experiment": self.experiment,
                "title": self.title,
                "paper": self.paper,
                "scale": self.scale,
                "verdict": {"sentence": self.summary.verdict, "reached": self.summary.reached},
                "tables": [asdict(table) for table in self.summary.tables],
                "charts": [asdict(chart) for chart in self.summary.charts],
                "findings": list(self.summary.findings),
                "claims": [asdict(claim) for claim in self.summary.claims],
                "units": self.outcomes,
                "seconds": {"total": self.timing.total, "units": self.timing.units},
                "settings": self.settings,
                "caveats": list(self.skipped),
            }
        )
        return written

    def __str__(self) -> str:
        tables = [table_text(table) for table in self.summary.tables[:1]]
        if len(self.summary.tables) > 1:
            more = counted(len(self.summary.tables) - 1, "more table")
            tables.append(wrapped(f"{more} in {self.folder / TABLES}"))
        return self._told(tables)

    def _told(self, tables: Sequence[str], width: int | None = None) -> str:
        """Verdict, claims, tables, what was left out, and where all of it comes from."""
        packages = ", ".join(f"{package} {version}" for package, version in self.versions.items())
        seed, units = f"seed {self.settings['seed']}", counted(len(self.outcomes), "unit")
        facts = [
            f"{self.title}, {self.scale} scale; {seed}; {units} in {spelt_time(self.timing.total)}",
            f"versions: {packages}",
            f"published: {self.paper}",
        ]
        claims = "\n".join(wrapped(f"claim: {claim}", 7, width) for claim in self.summary.claims)
        source = "\n".join(wrapped(fact, width=width) for fact in facts)
        return told(self.summary.verdict, claims, *tables, source, notes=self.skipped, width=width)


TABLES, WIDTH = "table.txt", 120


def table_text(table: Table, width: int | None = None) -> str:
    """Aligned text: obtained columns, then after a bar the published ones where there are any."""
    beside = any(row.published for row in table.rows)
    whole = _counts(table)
    rows = [["", *table.columns, *(("|", *table.columns) if beside else ())]]
    for row in table.rows:
        published = ("|", *_numbers(row.published, (), whole)) if beside else ()
        rows.append([row.name, *_numbers(row.values, row.errors, whole), *published])
    title = f"{table.title}; {table.direction}"
    if beside:
        title += f" (left of the bar obtained, right of it published in {table.source})"
    return f"{wrapped(title, width=width)}\n{aligned(rows, width=width)}"


def spelt_time(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _counts(table: Table) -> list[bool]:
    """Which columns hold counts: whole numbers alone, without errors."""
    whole = [True] * len(table.columns)
    for row in table.rows:
        for place, value in enumerate(row.values):
            error = row.errors[place] if row.errors else None
            whole[place] &= value is None or (float(value).is_integer() and error is None)
    return whole


def _numbers(values: Sequence[float | None], errors: Sequence[float | None], whole: Sequence[bool]) -> list[str]:
    """Numbers with their errors, those of ``whole`` columns without decimals; nothing at all for an empty row."""
    if not values:
        return [""] * len(whole)
    cells = []
    for value, error, count in zip(values, errors or (None,) * len(whole), whole, strict=True):
        text = NOTHING if value is None else f"{value:g}" if count else _number(value)
        cells.append(text if value is None or error is None else f"{text} ± {_number(error)}")
    return cells


def _number(value: float) -> str:
    """Three decimals; three significant digits for what is below 0.1."""
    return significant(value) if abs(value) < 0.1 else f"{value:.3f}"


def _do(experiment: Experiment, unit: Unit, run: Run) -> dict[str, Any]:
    """One unit, as plain data: a resumed run reads the same numbers from its file."""
    began = time.perf_counter()
    outcome = plain(experiment.run(unit, run))
    seconds = time.perf_counter() - began
    return {"experiment": experiment.name, "key": unit.key, "words": unit.words, "seconds": seconds, "outcome": outcome}


def _checked(plan: Plan) -> Plan:
    """Two units must not share a file: file systems may ignore case."""
    names = [file_name(unit.key).lower() for unit in plan.units]
    if not names:
        raise InputError("nothing can be run: " + "; ".join(plan.skipped))
    if len(set(names)) < len(names):
        raise ValueError("two units of this experiment have the same key")
    return plan


def _config(experiment: Experiment, scale: str, run: Run, plan: Plan) -> dict[str, Any]:
    """The settings that determine the numbers: a run is resumed only if all of them are the same."""
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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _write(result: Reproduction) -> None:
    from ..report.svg_files import svg_file
    from .page import figure_of

    result.to_json(result.folder / "metrics.json")
    text = result._told([result.table(WIDTH)], WIDTH)  # the file does not depend on the terminal
    write_text(result.folder / TABLES, f"{text}\n")
    for chart in result.summary.charts:
        write_text(result.folder / "figures" / f"{chart.name}.svg", svg_file(figure_of(chart)))


class Ledger:
    """A folder that remembers finished units; a run with another config is refused, and so is a second one at once."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder, self.config = folder, config

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, config: dict[str, Any]) -> Iterator[Ledger]:
        """The folder, locked for this run; it is made if it is not there."""
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: name a folder with --out")
        with alone_in(folder):
            for path in folder.rglob("*"):  # a link would be written through
                require_plain(path, folder)
            ledger = cls(folder, config)
            ledger._begin()
            yield ledger

    def _begin(self) -> None:
        """Config first: a run that is killed at any moment leaves a folder that can be resumed."""
        known = _known_config(self.folder)
        wanted = json.loads(finite_json(self.config))
        if known is not None and known != wanted:
            differs = _difference(known, wanted)
            raise InputError(f"{self.folder} holds a run with {differs}: name another folder with --out")
        if known is None:
            if not all(is_temporary(path, self.folder / CONFIG) for path in self.folder.iterdir()):
                raise InputError(f"{self.folder} is not empty and holds no run: name another folder with --out")
            write_text(self.folder / CONFIG, finite_json(wanted))
        for name in ("units", "figures"):
            (self.folder / name).mkdir(exist_ok=True)

    def finished(self, key: str) -> dict[str, Any] | None:
        """The record of a finished unit; its state is removed, which a killed run may have left."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):  # damaged from outside, as units are written completely or not at all
            return None
        if not isinstance(record, dict) or record.get("key") != key:
            return None
        if not isinstance(record.get("outcome"), dict) or type(record.get("seconds")) not in (int, float):
            return None
        self._remove_state(key)
        return record

    def keep(self, key: str, record: dict[str, Any]) -> None:
        """Write a finished unit, completely or not at all."""
        write_text(self._path(key), finite_json(record))

    @contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """A folder for the state of a unit: kept if the unit is interrupted, removed when it is finished."""
        folder = self._state(key)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        self._remove_state(key)

    def _state(self, key: str) -> Path:
        return self.folder / "state" / file_name(key)

    def _remove_state(self, key: str) -> None:
        folder = self._state(key)
        if folder.exists():
            shutil.rmtree(folder)
        if folder.parent.is_dir() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def _path(self, key: str) -> Path:
        return self.folder / "units" / f"{file_name(key)}.json"


def file_name(key: str) -> str:
    """A key as a file name: letters, digits, dots, dashes and underscores stay, the rest becomes dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)


def _known_config(folder: Path) -> dict[str, Any] | None:
    path = folder / CONFIG
    if not path.exists():
        return None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InputError(f"{path} is not the config of a run: name another folder with --out")
    return config


def _difference(known: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first setting that differs, in words."""
    for key in (*wanted, *known):
        if known.get(key) == wanted.get(key):
            continue
        before, now = known.get(key), wanted.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            return _difference(before, now)
        return f"another {key.replace('_', ' ')} ({_spelt(before)}, not {_spelt(now)})"
    return "another config"


def _spelt(value: Any) -> str:
    return "none" if value is None else str(value)
