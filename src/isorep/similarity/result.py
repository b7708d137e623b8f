"""What an index found: its value, its direction, and what shuffled rows would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..representation import Array


@dataclass(frozen=True, eq=False)
class PermutationNull:
    """Values of an index after the pairing of rows was shuffled.

    ``exact`` says whether every draw is the index itself; otherwise ``method`` says what stands for it.
    """

    draws: Array
    p_value: float
    exact: bool
    method: str

    @property
    def n(self) -> int:
        """How many permutations."""
        return len(self.draws)

    @property
    def mean(self) -> float:
        """What chance gives on average."""
        return float(self.draws.mean())

    @property
    def sd(self) -> float:
        """How much chance varies."""
        return float(self.draws.std())

    def quantile(self, level: float) -> float:
        """A point of the null's distribution."""
        return float(np.quantile(self.draws, level))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the distribution by its quantiles."""
        return {
            "mean": self.mean,
            "sd": self.sd,
            "low": self.quantile(0.05),
            "high": self.quantile(0.95),
            "p_value": self.p_value,
            "n": self.n,
            "exact": self.exact,
            "method": self.method,
        }


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
    null : PermutationNull or None
        Where permutations were asked for.
    caveats : tuple of str
        What to keep in mind about this number.
    """

    name: str
    value: float
    higher_is_closer: bool
    best: float
    details: dict[str, Any] = field(default_factory=dict)
    null: PermutationNull | None = None
    caveats: tuple[str, ...] = ()

    @property
    def p_value(self) -> float | None:
        """The share of shuffled pairings that look as close, the real one counted in; None without a null."""
        return None if self.null is None else self.null.p_value

    @property
    def corrected(self) -> float | None:
        """The value on a scale from chance (0) to a perfect match (1); None without a null.

        ``(value - null mean) / (best - null mean)``: negative below chance; nan where chance is a perfect match.
        """
        if self.null is None:
            return None
        return corrected(self.value, self.null.mean, self.best)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        closer = "higher is closer" if self.higher_is_closer else "lower is closer"
        text = f"{self.name} {self.value:.4f} ({closer})"
        if self.null is not None:
            text += f", chance {self.null.mean:.4f}, corrected {self.corrected:.4f}, p = {self.null.p_value:.3g}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "value": self.value,
            "higher_is_closer": self.higher_is_closer,
            "best": self.best,
            "corrected": self.corrected,
            "null": None if self.null is None else self.null.to_dict(),
            "details": {
                key: item.tolist() if isinstance(item, np.ndarray) else item for key, item in self.details.items()
            },
            "caveats": list(self.caveats),
        }


def corrected(value: float, chance: float, best: float) -> float:
    """A value on a scale from chance (0) to the best one (1)."""
    gap = best - chance
    return (value - chance) / gap if abs(gap) > 1e-12 else float("nan")
