"""Results of heads: diversity, head map and closeness serialise alike, each alone or all together, on one page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .._version import __version__
from ..resampling import FEW_GROUPS, Interval
from ..results import Written, plain, versions

if TYPE_CHECKING:
    from .closeness_result import Closeness
    from .diversity_result import Diversity
    from .head_map_result import HeadMap

FEW_ROWS = 200  # fewer than this, and intervals over rows are only approximate


class Parts(NamedTuple):
    """What a result says something about."""

    heads: tuple[Diversity, ...] = ()
    head_map: HeadMap | None = None
    closeness: Closeness | None = None


class HeadResult(Written, ABC):
    """A result of this room: a sentence, whether what was asked holds, notes, and the parts that there are."""

    schema: ClassVar[str] = "isorep.heads/1"
    page_by: ClassVar[str] = "heads.page:page"
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that the JSON of a part has beside its fields."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The answer in one sentence."""

    @property
    @abstractmethod
    def holds(self) -> bool | None:
        """Whether what was asked holds; None where nothing decides it."""

    @property
    @abstractmethod
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""

    @property
    @abstractmethod
    def parts(self) -> Parts:
        """What it is a result about."""

    @abstractmethod
    def table(self) -> str:
        """One line per quantity."""

    def part(self) -> dict[str, Any]:
        """Plain data, as one part of a result."""
        written = [each.name for each in fields(self) if each.name not in self.unwritten]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in (*written, *self.derived)}

    def to_dict(self) -> dict[str, Any]:
        """Everything but matrices, as plain data with a versioned schema."""
        heads, head_map, closeness = self.parts
        told = {name: plain(getattr(self, name, {})) for name in ("verdict", "holds", "settings", "caveats")}
        return {
            "schema": self.schema,
            "isorep": __version__,
            "versions": versions(),
            "heads": [each.part() for each in heads],
            "map": None if head_map is None else head_map.part(),
            "closeness": None if closeness is None else closeness.part(),
            **told,
        }

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.verdict, *(f"note: {caveat}" for caveat in self.caveats)])


def few_units(rows: int, groups: int | None) -> list[str]:
    """A note where intervals rest on little."""
    if groups is not None and groups < FEW_GROUPS:
        return [f"intervals rest on {groups} groups: below {FEW_GROUPS} they are only approximate"]
    if groups is None and rows < FEW_ROWS:
        return [f"intervals rest on {rows} rows: below {FEW_ROWS} they are only approximate"]
    return []


def interval_text(interval: Interval | None) -> str:
    """An interval as text."""
    return "" if interval is None else f"{interval.low:.4g} to {interval.high:.4g}"
