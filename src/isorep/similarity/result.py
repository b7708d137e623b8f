"""What an index found: its value, its direction, and what shuffled rows would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..resampling import Null


@dataclass(frozen=True, eq=False)
class Similarity:
    """One index between two representations.

    Attributes
    ----------
    name : str
    value : float
    higher_is_closer : bool
        False for distances.
    best : float
        The value of a representation with itself.
    details : dict
        What else the index knows, such as canonical correlations or the components kept.
    null : Null or None
        The index of shuffled pairings, where permutations were asked for. Groups of unequal size are cut before they
        change places: ``null.observed`` is then the index of the rows that are left, which ``value`` is not.
    caveats : tuple of str
        What to keep in mind about this number.
    within : int or None
        In how many classes rows were shuffled, where chance is that within classes.
    """

    name: str
    value: float
    higher_is_closer: bool
    best: float
    details: dict[str, Any] = field(default_factory=dict)
    null: Null | None = None
    caveats: tuple[str, ...] = ()
    within: int | None = None

    @property
    def p_value(self) -> float | None:
        """The share of shuffled pairings that look as close, the real one counted in; None without a null.

        nan where every pairing gives the same value, so that the index cannot tell them apart.
        """
        return None if self.null is None else self.null.p_value

    @property
    def corrected(self) -> float | None:
        """The index on a scale from chance (0) to a perfect match (1); None without a null.

        ``(null.observed - null.mean) / (best - null.mean)``: negative where chance is closer; nan where chance is a
        perfect match, and where every pairing gives the same value.
        """
        if self.null is None:
            return None
        if not np.isfinite(self.null.p_value):
            return float("nan")
        return corrected(self.null.observed, self.null.mean, self.best, self.higher_is_closer)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        closer = "higher is closer" if self.higher_is_closer else "lower is closer"
        text = f"{self.name} {self.value:.4f} ({closer})"
        if self.null is not None:
            chance = "chance" if self.within is None else "chance within classes"
            text += f", {chance} {self.null.mean:.4f}, corrected {shown(self.corrected)}, p {p_shown(self.null)}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "value": self.value,
            "higher_is_closer": self.higher_is_closer,
            "best": self.best,
            "corrected": self.corrected,
            "null": None if self.null is None else self.null.to_dict() | {"sd": self.null.std},
            "within": self.within,
            "details": {
                key: item.tolist() if isinstance(item, np.ndarray) else item for key, item in self.details.items()
            },
            "caveats": list(self.caveats),
        }


def corrected(value: float, chance: float, best: float, higher_is_closer: bool) -> float:
    """A value on a scale from chance (0) to the best one (1); nan where chance reaches the best one."""
    sign = 1.0 if higher_is_closer else -1.0
    gap = sign * (best - chance)
    return sign * (value - chance) / gap if gap > 1e-12 else float("nan")


def shown(value: float | None) -> str:
    """Four decimals, and a dash for what is not there."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.4f}"


def p_shown(null: Null) -> str:
    """A p-value with its relation: "= 0.02", "<= 0.005" for the smallest one possible, "-" where there is none."""
    text = null.p_text
    return text if text == "-" or text.startswith("<=") else f"= {text}"
