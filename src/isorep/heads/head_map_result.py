"""What two heads say about the map between their models' features, and what paired features say about that map."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..alignment.base import Error
from ..errors import InputError
from ..representation import Array, as_representation
from ..resampling import Interval
from ..results import Record, aligned
from .result import HeadResult, Parts, few_units, interval_text

MEANINGFUL = 0.5  # share of variance that the regression must explain for a comparison of maps to mean anything
ANGLES_SHOWN = 512


@dataclass(frozen=True)
class FittedError:
    """Errors of one map in units of the target's diameter, the share of variance explained, and an interval."""

    error: Error
    r2: float
    interval: Interval | None


@dataclass(frozen=True)
class Regression(Record):
    """The head map beside the held-out regression, where both heads see the features.

    ``excess`` is an interval for the head map's mean error above the regression's, rows paired, in diameters;
    ``difference`` the root mean square distance of the two maps' predictions, and ``intercept_gap`` the head map's
    error at the mean, both in RMS radii of the target. ``effective_dimensions`` and ``seen_shares`` say what the
    classes see of source and target features.
    """

    rows: int
    diameter: float
    head: FittedError
    regression: FittedError
    excess: Interval | None
    head_r2_own_intercept: float
    difference: float
    intercept_gap: float
    effective_dimensions: tuple[int, int]
    seen_shares: tuple[float, float]

    @property
    def share(self) -> float | None:
        """The part of the regression's explained variance that the head map explains; None where there is none."""
        return self.head.r2 / self.regression.r2 if self.regression.r2 > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Every field, and the share, as plain data."""
        return super().to_dict() | {"share": self.share}


@dataclass(frozen=True)
class Plane:
    """Some rows in the first two principal axes of the target, in its RMS radii: as they are, and under each map."""

    rows: tuple[str, ...]
    target: tuple[tuple[float, float], ...]
    head: tuple[tuple[float, float], ...]
    regression: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Prediction:
    """The share of the target's head that is predicted: of its embeddings, and of their log-odds on the data."""

    r2: float
    log_odds_r2: float


@dataclass(frozen=True)
class HeadPrediction:
    """The target's head predicted from the source's, by the inverse of the regression and by the reverse regression.

    ``condition`` is that of the regression's matrix: what its inverse makes of noise.
    """

    inverse: Prediction
    reverse: Prediction
    condition: float


@dataclass(frozen=True, eq=False)
class HeadMap(HeadResult):
    """The map between features that two heads predict.

    Attributes
    ----------
    coef : (M_s, M_t) array
        The transpose of the map: rows of source features are mapped as ``X @ coef + intercept``.
    intercept : (M_t,) array
    ranks : tuple of int
        Of the two centred heads.
    angles : tuple of float
        Principal angles between the columns of the two centred heads, in radians; all 0 for equal distributions.
    unexpressed : float
        The share of the source's centred head that lies outside the columns of the target's.
    rank_tolerances : tuple of float
        Singular values below this share of the largest count as zero in the pseudo-inverse, by the stored dtype.
    regression : Regression or None
    head_prediction : HeadPrediction or None
    """

    unwritten: ClassVar[frozenset[str]] = frozenset({"coef", "intercept", "settings"})
    derived: ClassVar[tuple[str, ...]] = ("vacuous", "forced_angles", "agrees", "verdict")
    names: tuple[str, str]
    classes: int
    widths: tuple[int, int]
    ranks: tuple[int, int]
    coef: Array
    intercept: Array
    angles: tuple[float, ...]
    unexpressed: float
    rank_tolerances: tuple[float, float]
    tolerance: float
    settings: dict[str, Any]
    regression: Regression | None = None
    head_prediction: HeadPrediction | None = None
    figure: Plane | None = field(default=None, repr=False)

    def transform(self, X: Any) -> Array:
        """Map rows of source features into the target's space."""
        x = as_representation(X, "X").values[:]
        if x.shape[1] != self.widths[0]:
            raise InputError(f"X has {x.shape[1]} columns where {self.names[0]} reads {self.widths[0]}")
        return np.asarray(np.asarray(x, dtype=np.float64) @ self.coef + self.intercept)

    @property
    def forced_angles(self) -> int:
        """How many principal angles are zero whatever the heads: two subspaces of too small a space must meet."""
        return min(max(sum(self.ranks) - (self.classes - 1), 0), *self.ranks)

    @property
    def vacuous(self) -> bool:
        """Whether heads alone can show no disagreement."""
        return self.forced_angles == min(self.ranks)

    @property
    def agrees(self) -> bool | None:
        """Whether the head map's error exceeds the regression's by at most the tolerance; None without features."""
        found = self.regression
        if found is None:
            return None
        if found.regression.r2 < MEANINGFUL:
            return False
        excess = found.head.error.mean - found.regression.error.mean
        return (excess if found.excess is None else found.excess.high) <= self.tolerance

    @property
    def holds(self) -> bool | None:
        """Whether features bear the map out; None without them."""
        return self.agrees

    @property
    def parts(self) -> Parts:
        """One map."""
        return Parts(head_map=self)

    @property
    def verdict(self) -> str:
        """One sentence: what the heads predict, and whether features bear it out."""
        if self.regression is None:
            return self._verdict_of_weights()
        found = self.regression
        numbers = (
            f"held out, the map that the heads predict explains {_part(found.head.r2)} of the target and least squares "
            f"{_part(found.regression.r2)} (mean errors {found.head.error.mean:.4f} and "
            f"{found.regression.error.mean:.4f} diameters)"
        )
        if found.regression.r2 < MEANINGFUL:
            return f"No linear map explains half of the target, so there is little for heads to predict: {numbers}."
        if self.agrees:
            return f"The heads predict the map between the features: {numbers}."
        return f"The heads predict {_part(found.share or 0.0)} of what a linear map can explain: {numbers}."

    def _verdict_of_weights(self) -> str:
        if self.vacuous:
            return (
                f"Vacuous: {self.classes} classes leave {self.classes - 1} dimensions for heads of rank "
                f"{self.ranks[0]} and {self.ranks[1]}, so any two heads give such a map; only paired "
                "features can confirm it."
            )
        widest = math.degrees(max(self.angles, default=0.0))
        return (
            f"The heads span columns at most {widest:.1f} degrees apart, and {self.unexpressed:.1%} of the source's "
            "head lies outside the target's: equal distributions would make both zero."
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        said = [self.settings["joined"]] if self.settings.get("joined") else []
        if self.vacuous and self.regression is not None:
            said.append(
                f"{self.classes} classes leave no room for heads of rank {self.ranks[0]} and {self.ranks[1]} to "
                "differ: the weights alone test nothing, the comparison with the regression does"
            )
        for name, rank, width in zip(self.names, self.ranks, self.widths, strict=True):
            if rank < width:
                said.append(
                    f"{name} has rank {rank} of {width}: the map and the regression are restricted to what it sees"
                )
        if self.regression is not None and self.settings["intervals"]:
            said += few_units(self.regression.rows, self.settings["groups"])
        return tuple(said)

    def table(self) -> str:
        """One line a quantity."""
        rows = [
            ("classes", str(self.classes), ""),
            ("ranks of the heads", f"{self.ranks[0]} and {self.ranks[1]}", ""),
            ("widest principal angle", f"{math.degrees(max(self.angles, default=0.0)):.2f} degrees", ""),
            ("source head unexpressed", f"{self.unexpressed:.2%}", ""),
        ]
        found = self.regression
        if found is not None:
            for name, each in (("head map", found.head), ("regression, held out", found.regression)):
                rows.append((f"error of the {name}", f"{each.error.mean:.4f}", interval_text(each.interval)))
                rows.append((f"R² of the {name}", f"{each.r2:.4f}", ""))
            rows.append(("excess of the head map", "", interval_text(found.excess)))
            rows.append(("maps apart (RMS radii)", f"{found.difference:.4f}", ""))
            rows.append(("effective dimensions", "{} and {}".format(*found.effective_dimensions), ""))
        if self.head_prediction is not None:
            for name, part in (("inverse", self.head_prediction.inverse), ("reverse", self.head_prediction.reverse)):
                rows.append((f"R² of the target's head ({name})", f"{part.r2:.4f}", ""))
                rows.append(("  of its log-odds", f"{part.log_odds_r2:.4f}", ""))
        return aligned(rows, left=(0,))

    def part(self) -> dict[str, Any]:
        """Plain data, as one part of a result; the matrix itself stays out, and so do angles beyond some hundreds."""
        return super().part() | {"angles": list(self.angles[:ANGLES_SHOWN])}


def _part(share: float) -> str:
    """A share of variance in words; an error above the variance explains nothing, however far above it is."""
    return f"{share:.1%}" if share > 0 else "nothing"
