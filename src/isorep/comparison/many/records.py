"""One rung of the ladder for all pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ...representation import Array
from ...resampling import LEVEL, Null, jackknife_se
from .joint import JointMoments
from .ladder import Squares


@dataclass(frozen=True, eq=False)
class RungMatrix:
    """Held-out errors of one rung: row = source, column = target; lower is closer.

    Errors are means of residual norms in mean distances of the target's rows to their mean, as those of
    :func:`isorep.compare`: 1 is no better than predicting the mean. The diagonal is 0.

    Attributes
    ----------
    error : (R, R) array
        Held out: each row by maps fitted without its fold.
    se : (R, R) array
        Standard error: the jackknife of the ratio over folds.
    upper : (R, R) array
        The upper end of the 95 % interval, by Student's quantile.
    in_sample : (R, R) array
        The error of maps fitted to all rows.
    excess : (R, R) array
        The upper end of the 95 % interval of how much the error exceeds that of the best rung, fold by fold.
    rms, rms_in_sample : (R, R) arrays
        Root mean squares in units of the target's RMS radius; 1 - rms² is the held-out R².
    null, null_low, p_value : (R, R) arrays or None
        The error under shuffled pairings: its mean and 5 % point, and the p-value. The diagonal is NaN.
    left_out : (folds, R, R) array
        The error without each fold.
    mean_error, sup : (R, R) arrays or None
        Held-out mean and largest error, in *diameters* of the target; only with ``residuals=True``.
    quantiles : dict of str to (R, R) array, or None
        The same for quantiles.
    """

    name: str
    error: Array
    se: Array
    upper: Array
    excess: Array
    in_sample: Array
    rms: Array
    rms_in_sample: Array
    left_out: Array
    null: Array | None = None
    null_low: Array | None = None
    p_value: Array | None = None
    smallest_p: float | None = None
    mean_error: Array | None = None
    sup: Array | None = None
    quantiles: dict[str, Array] | None = None

    @property
    def mean(self) -> float:
        """The mean error over ordered pairs."""
        return float(self.error[apart(len(self.error))].mean())

    @property
    def max(self) -> float:
        """The error of the worst ordered pair."""
        return float(self.error[apart(len(self.error))].max())

    @property
    def min(self) -> float:
        """The error of the best ordered pair."""
        return float(self.error[apart(len(self.error))].min())

    @property
    def mean_se(self) -> float:
        """The standard error of the mean over ordered pairs: the jackknife over folds."""
        return float(jackknife_se(self.left_out[:, apart(len(self.error))].mean(axis=1), self.mean))

    @property
    def explained(self) -> float:
        """The mean over ordered pairs of the held-out R², the share of a run's variance explained from another."""
        return float(np.mean(1 - self.rms[apart(len(self.rms))] ** 2))

    @property
    def worst(self) -> tuple[int, int]:
        """The worst ordered pair: source and target."""
        i, j = np.unravel_index(int(np.argmax(np.where(apart(len(self.error)), self.error, -1))), self.error.shape)
        return int(i), int(j)

    @property
    def symmetric(self) -> Array:
        """The mean of both directions."""
        return np.asarray((self.error + self.error.T) / 2)

    @property
    def below_null(self) -> Array:
        """Which pairs lie below what shuffled pairings give, by their intervals; none without a null."""
        if self.null_low is None:
            return np.zeros(self.error.shape, dtype=bool)
        with np.errstate(invalid="ignore"):  # the diagonal of the null is NaN
            return np.asarray(self.upper < self.null_low)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        shown = {
            "mean": self.mean,
            "max": self.max,
            "min": self.min,
            "mean_se": self.mean_se,
            "explained": self.explained,
            "error": self.error,
            "se": self.se,
            "upper": self.upper,
            "excess_over_best": self.excess,
            "in_sample": self.in_sample,
            "rms": self.rms,
            "rms_in_sample": self.rms_in_sample,
            "null": self.null,
            "null_low": self.null_low,
            "p_value": self.p_value,
            "smallest_p": self.smallest_p,
        }
        if self.sup is not None:
            shown |= {"in_diameters": {"mean": self.mean_error, "sup": self.sup, "quantiles": self.quantiles}}
        return shown


@dataclass(frozen=True, eq=False)
class PairErrors:
    """Summed residual norms of one ordered pair by fold, for each rung: held out and in sample.

    ``sizes`` are the summed distances of the target's rows to their mean. ``squares`` are summed squares over all
    folds, held out and in sample, in squares of the target's RMS radius over the same rows.
    """

    held_out: dict[str, Array]
    in_sample: dict[str, Array]
    sizes: Array
    squares: dict[str, tuple[float, float]]


def rung_matrices(
    names: Sequence[str],
    pairs: dict[tuple[int, int], PairErrors],
    count: int,
    squares: dict[str, Squares] | None,
    total: int,
    radii: Array,
    nulls: dict[tuple[int, int], dict[str, Null]],
) -> dict[str, RungMatrix]:
    """The matrices of all rungs. ``squares`` are sums over all rows, where all rows are scored."""
    n_folds = len(next(iter(pairs.values())).sizes)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, n_folds - 1))
    shape = (count, count)
    tables = {
        name: {key: np.zeros(shape) for key in ("error", "se", "upper", "excess", "inside", "rms", "rms_inside")}
        for name in names
    }
    left_out = {name: np.zeros((n_folds, *shape)) for name in names}
    for (i, j), found in pairs.items():
        rest = found.sizes.sum() - found.sizes
        ratios = {name: each.sum() / found.sizes.sum() for name, each in found.held_out.items()}
        best = min(ratios, key=lambda name: ratios[name])
        with np.errstate(invalid="ignore"):  # all rows that are scored lie in one fold
            partial = {name: (each.sum() - each) / rest for name, each in found.held_out.items()}
        for name in names:
            table = tables[name]
            table["error"][i, j] = ratios[name]
            table["se"][i, j] = jackknife_se(partial[name], ratios[name])
            table["upper"][i, j] = ratios[name] + reach * table["se"][i, j]
            gap = ratios[name] - ratios[best]
            table["excess"][i, j] = gap + reach * jackknife_se(partial[name] - partial[best], gap)
            table["inside"][i, j] = found.in_sample[name].sum() / found.sizes.sum()
            table["rms"][i, j], table["rms_inside"][i, j] = np.sqrt(found.squares[name])
            left_out[name][:, i, j] = partial[name]
    if squares is not None:
        for name, known in squares.items():
            tables[name]["rms"] = np.sqrt(known.folds.sum(axis=0) / total) / radii
            tables[name]["rms_inside"] = np.sqrt(known.in_sample / total) / radii
    return {
        name: RungMatrix(
            name=name,
            error=table["error"],
            se=table["se"],
            upper=table["upper"],
            excess=table["excess"],
            in_sample=table["inside"],
            rms=table["rms"],
            rms_in_sample=table["rms_inside"],
            left_out=left_out[name],
            **_null_tables(name, nulls, shape),
        )
        for name, table in tables.items()
    }


def _null_tables(name: str, nulls: dict[tuple[int, int], dict[str, Null]], shape: tuple[int, int]) -> dict[str, Any]:
    if not nulls:
        return {}
    tables = {key: np.full(shape, np.nan) for key in ("null", "null_low", "p_value")}
    for pair, found in nulls.items():
        tables["null"][pair] = found[name].mean
        tables["null_low"][pair] = found[name].low
        tables["p_value"][pair] = found[name].p_value
    return tables | {"smallest_p": max(found[name].smallest_p for found in nulls.values())}


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


def apart(count: int) -> Array:
    """The ordered pairs of different runs."""
    return ~np.eye(count, dtype=bool)
