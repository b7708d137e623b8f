"""What a reproduction found: its tables beside the published ones, with seeds, versions and run time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from .._version import __version__
from ..results import Written, aligned, plain
from .experiment import Outcome, Row, Summary, Table

SCHEMA = "isorep.reproduction/1"
NOTHING = "–"


@dataclass(frozen=True)
class Timing:
    """Seconds of every unit whenever it was done, of this run alone, and how many units were there already."""

    units: dict[str, float]
    this_run: float
    resumed: int

    @property
    def total(self) -> float:
        """Seconds of all units together."""
        return sum(self.units.values())


@dataclass(frozen=True)
class Reproduction(Written):
    """The result of :func:`isorep.reproduction.reproduce`.

    Attributes
    ----------
    summary : Summary
        Verdict, tables beside the published numbers, figures and findings.
    outcomes : dict of str to dict
        What each unit found, by its key.
    timing : Timing
    settings : dict
        Scale, seed, preset and data files: what decides the numbers.
    skipped : tuple of str
        Parts that could not be run, and what they need.
    folder : Path
        Where config, metrics, table, units and figures lie.
    """

    schema: ClassVar[str] = SCHEMA
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
    skipped: tuple[str, ...] = field(default=())

    def table(self) -> str:
        """All tables as text, obtained beside published."""
        return "\n\n".join(table_text(table) for table in self.summary.tables)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data with a versioned schema."""
        found: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
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
        return found

    def __str__(self) -> str:
        parts = [f"{self.title}, {self.scale} scale", "", self.table(), "", f"verdict: {self.summary.verdict}"]
        parts += [f"claim: {claim}" for claim in self.summary.claims]
        parts += [f"note: {words}" for words in self.skipped]
        packages = ", ".join(f"{package} {version}" for package, version in self.versions.items())
        parts += [
            f"seed {self.settings['seed']}; {len(self.outcomes)} units in {spelt_time(self.timing.total)}",
            f"versions: {packages}",
            f"published: {self.paper}",
        ]
        return "\n".join(parts)


def table_text(table: Table) -> str:
    """Aligned text: obtained columns, then after a bar the published ones where there are any."""
    beside = any(row.published for row in table.rows)
    count = len(table.columns)
    rows = [["", *table.columns, *(("|", *table.columns) if beside else ())]]
    rows += [
        [row.name, *_obtained(row, count), *(("|", *_published(row, count)) if beside else ())] for row in table.rows
    ]
    title = f"{table.title}; {table.direction}"
    if beside:
        title += f" (left of the bar obtained, right of it published in {table.source})"
    return f"{title}\n{aligned(rows)}"


def spelt_time(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _obtained(row: Row, count: int) -> list[str]:
    if not row.values:
        return [""] * count
    errors = row.errors or (None,) * count
    return [
        NOTHING if value is None else f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")
        for value, error in zip(row.values, errors, strict=True)
    ]


def _published(row: Row, count: int) -> list[str]:
    if not row.published:
        return [""] * count
    return [NOTHING if value is None else f"{value:.3f}" for value in row.published]
