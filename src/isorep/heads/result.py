"""Results of heads: base class of diversity, head map and closeness, alone or together on one page."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .._version import __version__
from ..resampling import FEW_GROUPS, Interval
from ..results import Record, ResultRecord, plain, told, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .closeness import Closeness
    from .diversity import Diversity
    from .head_map import HeadMap

FEW_ROWS = 200  # fewer than this, and intervals over rows are only approximate


class Parts(NamedTuple):
    """The parts of a result."""

    heads: tuple[Diversity, ...] = ()
    head_map: HeadMap | None = None
    closeness: Closeness | None = None

    @property
    def listed(self) -> list[Diversity | HeadMap | Closeness]:
        """The parts that exist."""
        return [*self.heads, *(each for each in (self.head_map, self.closeness) if each is not None)]


class HeadResult(ResultRecord, ABC):
    """Base class of results: a sentence, whether the condition holds, notes, and parts."""

    schema: ClassVar[str] = "isorep.heads/1"
    page_by: ClassVar[str] = "heads.page:page"

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The answer in one sentence."""

    @property
    @abstractmethod
    def holds(self) -> bool | None:
        """Whether the condition holds; None where it is undecided."""

    @property
    @abstractmethod
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""

    @property
    @abstractmethod
    def parts(self) -> Parts:
        """The parts of this result."""

    def table(self) -> str:
        """One line per quantity of each part."""
        return "\n\n".join(each.table() for each in self.parts.listed)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per quantity of each part, named as in the JSON."""
        return [
            {"part": type(each).__name__, "of": getattr(each, "name", None), "quantity": name, "value": value}
            for each in self.parts.listed
            for name, value in flat_numbers(each.part()).items()
        ]

    def panels(self) -> list[str]:
        """Those of what is there to draw."""
        return [name for name in super().panels() if self.drawn]

    @property
    def drawn(self) -> bool:
        """Whether there is something to draw."""
        return True

    def plot(self) -> Figure:
        """The main figures of every part as one matplotlib ``Figure``, for two columns; needs the extra ``plot``."""
        from ..report.plots import arranged

        return arranged([getattr(each, name) for each in self.parts.listed for name in each.panels()])

    def part(self) -> dict[str, Any]:
        """Plain data, as one part of a result."""
        return Record.to_dict(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but matrices, as plain data with a versioned schema."""
        heads, head_map, closeness = self.parts
        return {
            "schema": self.schema,
            "isorep": __version__,
            "versions": versions(),
            "heads": [each.part() for each in heads],
            "map": None if head_map is None else head_map.part(),
            "closeness": None if closeness is None else closeness.part(),
            "verdict": plain(self.verdict),
            "holds": plain(self.holds),
            "settings": plain(getattr(self, "settings", {})),
            "caveats": plain(getattr(self, "caveats", {})),
        }

    def __str__(self) -> str:
        return told(" ".join(each.verdict for each in self.parts.listed), self.table(), notes=self.caveats)


def flat_numbers(told: dict[str, Any], before: str = "") -> dict[str, float]:
    """The single numbers in nested plain data, by their path."""
    flat: dict[str, float] = {}
    for key, value in told.items():
        if isinstance(value, dict):
            flat |= flat_numbers(value, f"{before}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{before}{key}"] = value
    return flat


def few_units(rows: int, groups: int | None) -> list[str]:
    """A note where intervals come from few units."""
    if groups is not None and groups < FEW_GROUPS:
        return [f"intervals are from {groups} groups: below {FEW_GROUPS} they are only approximate"]
    if groups is None and rows < FEW_ROWS:
        return [f"intervals are from {rows} rows: below {FEW_ROWS} they are only approximate"]
    return []


def interval_text(interval: Interval | None) -> str:
    """An interval as text."""
    return "" if interval is None else f"{interval.low:.4g} to {interval.high:.4g}"


def condition_text(condition: float) -> str:
    """A condition number as text."""
    return f"{condition:.4g}" if math.isfinite(condition) else "infinite"
