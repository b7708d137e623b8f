"""What a comparison found, as small frozen records that print, tabulate and serialise themselves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .._version import __version__
from ..resampling import Interval
from ..results import Written, aligned
from .diameters import Diameter

SCHEMA = "isorep.compare/1"


@dataclass(frozen=True)
class Error:
    """Residual norms of one fit: lower is closer. Here in units of the target's diameter, unless said otherwise."""

    mean: float
    rms: float
    sup: float
    quantiles: dict[str, float]

    def times(self, unit: float) -> Error:
        """The same in other units."""
        quantiles = {level: value * unit for level, value in self.quantiles.items()}
        return Error(self.mean * unit, self.rms * unit, self.sup * unit, quantiles)


@dataclass(frozen=True)
class Null:
    """Held-out mean errors under shuffled pairings: mean, 5 % and 95 % points, and the p-value of the real one."""

    mean: float
    low: float
    high: float
    p_value: float
    n: int


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder in one direction.

    ``held_out`` and ``in_sample`` are in units of the target's diameter; ``held_out.times(rung.unit)`` is in its own.
    ``interval`` is for the held-out mean; ``excess`` for how much that mean exceeds the linear rung's, rows paired.
    ``explained`` is the held-out R²: the share of the target's variance that the rung explains, negative where it does
    worse than the mean.
    """

    name: str
    held_out: Error
    in_sample: Error
    interval: Interval | None
    excess: Interval | None
    null: Null | None
    unit: float
    explained: float | None = None

    @property
    def below_null(self) -> bool | None:
        """Whether the held-out interval lies below what shuffled pairings give; None without a null."""
        if self.null is None:
            return None
        return (self.interval.high if self.interval else self.held_out.mean) < self.null.low

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in both units."""
        return {
            "held_out": asdict(self.held_out),
            "in_sample": asdict(self.in_sample),
            "interval": None if self.interval is None else asdict(self.interval),
            "excess_over_linear": None if self.excess is None else asdict(self.excess),
            "null": None if self.null is None else asdict(self.null),
            "below_null": self.below_null,
            "explained": self.explained,
            "raw": {
                "held_out": asdict(self.held_out.times(self.unit)),
                "in_sample": asdict(self.in_sample.times(self.unit)),
                "interval": None if self.interval is None else asdict(self.interval.times(self.unit)),
            },
        }


@dataclass(frozen=True)
class Side:
    """One of the two representations.

    ``half_variance_share`` is the smallest share of the rows that carry half of the variance; None where rows were not
    looked at.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    rank: int
    condition: float
    constant_columns: int
    rms_radius: float
    spectrum: tuple[float, ...] = ()
    half_variance_share: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer: the smallest rung that explains the pair, or None, and a sentence that says why."""

    rung: str | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Direction:
    """The ladder from one side onto the other.

    ``identity_offset`` is the share of identity's mean squared error that the distance of the two means makes up; None
    without that rung.
    """

    source: str
    target: str
    rungs: dict[str, Rung]
    diameter: Diameter
    baseline: float
    ica_efficiency: float | None
    ica_efficiency_in_sample: float | None
    verdict: Verdict
    identity_offset: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "source": self.source,
            "target": self.target,
            "unit": "diameters of the target, lower is closer; under 'raw' the target's own units",
            "diameter": asdict(self.diameter),
            "baseline": self.baseline,
            "rungs": {name: rung.to_dict() for name, rung in self.rungs.items()},
            "identity_offset": self.identity_offset,
            "ica_efficiency": self.ica_efficiency,
            "ica_efficiency_in_sample": self.ica_efficiency_in_sample,
            "verdict": asdict(self.verdict),
        }


@dataclass(frozen=True)
class Comparison(Written):
    """The result of :func:`isorep.compare`: source mapped onto target, and the reverse.

    Attributes
    ----------
    rungs : dict of str to Rung
        ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``: the source mapped onto the target.
    reverse : Direction
        The same with the target mapped onto the source.
    diameter : Diameter
        Of the target: the unit of the errors.
    ica_efficiency : float or None
    verdict : Verdict
    caveats : tuple of str
        What to keep in mind about these numbers.
    worst_case : dict or None
        ``rigid`` and ``rigid_with_scale``: the largest error bracketed from both sides, in diameters of the target;
        ``sample``: what the largest held-out error can claim about new examples. None where it was not asked for.
    figures : dict
        The data behind the figures of a report.
    """

    forward: Direction
    reverse: Direction
    source: Side
    target: Side
    settings: dict[str, Any]
    caveats: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    worst_case: dict[str, Any] | None = None

    @property
    def rungs(self) -> dict[str, Rung]:
        """The rungs, source mapped onto target."""
        return self.forward.rungs

    @property
    def diameter(self) -> Diameter:
        """The target's diameter."""
        return self.forward.diameter

    @property
    def ica_efficiency(self) -> float | None:
        """From held-out errors; see :func:`isorep.comparison.ica_efficiency`."""
        return self.forward.ica_efficiency

    @property
    def verdict(self) -> Verdict:
        """The verdict on the source mapped onto the target."""
        return self.forward.verdict

    def table(self) -> str:
        """The ladder as text: held-out mean error with interval and null, then the in-sample mean."""
        return ladder_table(self.forward)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return {
            "schema": SCHEMA,
            "isorep": __version__,
            "source": asdict(self.source),
            "target": asdict(self.target),
            "settings": self.settings,
            "verdict": asdict(self.verdict),
            "forward": self.forward.to_dict(),
            "reverse": self.reverse.to_dict(),
            "worst_case": None
            if self.worst_case is None
            else {name: asdict(part) for name, part in self.worst_case.items()},
            "figures": self.figures,
            "caveats": list(self.caveats),
        }

    def plot(self) -> Any:
        """The main figures as one matplotlib ``Figure``, for papers; needs the extra ``plot``."""
        from ..report.paper import plot

        return plot(json.loads(self.to_json()))

    def _repr_html_(self) -> str:
        from ..report.notebook import snippet

        return snippet(json.loads(self.to_json()))

    def __str__(self) -> str:
        parts = [self.table(), "", str(self.verdict)]
        parts += [f"note: {caveat}" for caveat in self.caveats]
        return "\n".join(parts)


HEADINGS = ("rung", "held-out error", "95 % interval", "null", "in-sample")


def table_rows(direction: Direction) -> list[tuple[str, ...]]:
    """The cells of the ladder's table; errors in diameters of the target."""
    rows: list[tuple[str, ...]] = []
    for name, rung in direction.rungs.items():
        interval = f"[{rung.interval.low:.4f}, {rung.interval.high:.4f}]" if rung.interval else "-"
        null = f"{rung.null.mean:.4f}" if rung.null else "-"
        rows.append((name, f"{rung.held_out.mean:.4f}", interval, null, f"{rung.in_sample.mean:.4f}"))
    return rows


def ladder_table(direction: Direction) -> str:
    """The ladder as aligned text."""
    return aligned([HEADINGS, *table_rows(direction)])
