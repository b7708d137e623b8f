"""One rung of the ladder for all pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...representation import Array
from .joint import JointMoments
from .ladder import Squares

ERRORS = 2.0  # standard errors that count as noise


@dataclass(frozen=True, eq=False)
class RungMatrix:
    """Held-out errors of one rung: row = source, column = target; lower is closer.

    RMS errors are in units of the target's RMS radius: 1 is as bad as predicting the mean. The diagonal is 0.

    Attributes
    ----------
    rms : (R, R) array
        Held out: each row by maps fitted without its fold.
    se : (R, R) array
        Standard error over folds.
    in_sample : (R, R) array
        RMS of maps fitted to all rows.
    null : (R, R) array or None
        Mean RMS under shuffled pairings; its diagonal is NaN.
    by_fold : (folds, R, R) array
        RMS of every fold.
    mean_error, sup : (R, R) arrays or None
        Held-out mean and largest error, in *diameters* of the target; only with ``residuals=True``.
    quantiles : dict of str to (R, R) array, or None
        The same for quantiles.
    """

    name: str
    rms: Array
    se: Array
    in_sample: Array
    by_fold: Array
    null: Array | None = None
    null_se: Array | None = None
    mean_error: Array | None = None
    sup: Array | None = None
    quantiles: dict[str, Array] | None = None

    @property
    def mean(self) -> float:
        """The mean RMS error over ordered pairs."""
        return float(self.rms[_apart(len(self.rms))].mean())

    @property
    def max(self) -> float:
        """The RMS error of the worst ordered pair."""
        return float(self.rms[_apart(len(self.rms))].max())

    @property
    def min(self) -> float:
        """The RMS error of the best ordered pair."""
        return float(self.rms[_apart(len(self.rms))].min())

    @property
    def mean_se(self) -> float:
        """The standard error over folds of the mean over ordered pairs."""
        means = self.by_fold[:, _apart(len(self.rms))].mean(axis=1)
        return float(means.std(ddof=1) / np.sqrt(len(means)))

    @property
    def explained(self) -> float:
        """The mean over ordered pairs of the held-out R², the share of a run's variance explained from another."""
        return float(np.mean(1 - self.rms[_apart(len(self.rms))] ** 2))

    @property
    def worst(self) -> tuple[int, int]:
        """The worst ordered pair: source and target."""
        i, j = np.unravel_index(int(np.argmax(np.where(_apart(len(self.rms)), self.rms, -1))), self.rms.shape)
        return int(i), int(j)

    @property
    def symmetric(self) -> Array:
        """The mean of both directions."""
        return np.asarray((self.rms + self.rms.T) / 2)

    @property
    def below_null(self) -> Array:
        """Which pairs lie below what shuffled pairings give, by two standard errors of both; none without a null."""
        if self.null is None or self.null_se is None:
            return np.zeros(self.rms.shape, dtype=bool)
        with np.errstate(invalid="ignore"):  # the diagonal of the null is NaN
            return np.asarray(self.rms + ERRORS * self.se < self.null - ERRORS * self.null_se)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        shown = {
            "mean": self.mean,
            "max": self.max,
            "min": self.min,
            "mean_se": self.mean_se,
            "explained": self.explained,
            "rms": self.rms,
            "se": self.se,
            "in_sample": self.in_sample,
            "null": self.null,
        }
        if self.sup is not None:
            shown |= {"in_diameters": {"mean": self.mean_error, "sup": self.sup, "quantiles": self.quantiles}}
        return shown


def rung_matrix(name: str, squares: Squares, sizes: Array, radii: Array, nulls: list[Array]) -> RungMatrix:
    """Squared errors into RMS errors; ``sizes`` are the rows of each fold, ``nulls`` those of shuffled pairings."""
    n = int(sizes.sum())
    by_fold = np.sqrt(squares.folds / sizes[:, None, None]) / radii
    null = null_se = None
    if nulls:
        drawn = np.stack(nulls)
        null = np.sqrt(drawn.sum(axis=1) / n).mean(axis=0) / radii
        null[~_apart(len(null))] = np.nan
        folds = np.sqrt(drawn / sizes[:, None, None]) / radii
        null_se = folds.std(axis=1, ddof=1).mean(axis=0) / np.sqrt(len(sizes))
    return RungMatrix(
        name=name,
        rms=np.sqrt(squares.folds.sum(axis=0) / n) / radii,
        se=by_fold.std(axis=0, ddof=1) / np.sqrt(len(sizes)),
        in_sample=np.sqrt(squares.in_sample / n) / radii,
        by_fold=by_fold,
        null=null,
        null_se=null_se,
    )


def identity_offsets(total: JointMoments, identity: Squares, radii: Sequence[float]) -> Array:
    """For every pair the share of identity's mean squared error that the distance of the means makes up."""
    count = len(radii)
    shares = np.full((count, count), np.nan)
    for i in range(count):
        for j in range(count):
            if i != j:
                square = identity.in_sample[i, j] / total.n / radii[j] ** 2
                offset = (total.pair(i, j).offset / radii[j]) ** 2
                shares[i, j] = min(offset / square, 1.0) if square > 0 else 0.0
    return shares


def _apart(count: int) -> Array:
    """The ordered pairs of different runs."""
    return ~np.eye(count, dtype=bool)
