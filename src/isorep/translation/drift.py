r"""Drift: three statistics, without labels or pairs, that compare new rows with those a map was fitted to.

The reference is exchangeable with rows of the same model: mean and covariance come from the training folds, and the
limit on whitened norms from the test fold, so that fewer rows than dimensions raise no false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..representation import Array, Matrix
from ..results import Record, decimals
from ..rows import HeldRows, in_chunks, map_blocks, read_rows, refuse_non_finite

SAMPLE = 10_000  # rows of an input that are used
QUANTILE = 0.999
_DAMPING = 1e-3  # share of the mean variance: a lower bound on the variance of each direction
_MOST_SHIFT = 0.35
_MOST_RATIO = 1.25
_MOST_OUTSIDE = 0.05
_RUN = 16  # consecutive rows that are read together


class DriftWarning(UserWarning):
    """Warning: the rows do not look like those that the map was fitted to, or added pairs do not fit it."""


@dataclass(frozen=True)
class Drift(Record):
    """Drift of rows relative to those a map was fitted to.

    ``shift`` is the distance of the means, in RMS radii of the training rows; ``ratio`` the median distance from the
    training mean over that of rows of the same model, which is robust to outliers; ``outside`` the share of rows whose
    whitened norm exceeds the 99.9% quantile of rows of the same model. ``alarms`` lists the statistics beyond their
    limits, in words.
    """

    rows: int
    shift: float
    ratio: float
    outside: float
    alarms: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.alarms)

    def __str__(self) -> str:
        if not self.alarms:
            return "the rows look like those that the map was fitted to"
        return f"the rows do not look like those that the map was fitted to: {'; '.join(self.alarms)}"


@dataclass(frozen=True, eq=False)
class Reference(Record):
    r"""Reference for drift: statistics of the old rows that a map was fitted to.

    ``whitener`` is the damped inverse root :math:`V(D/n+\epsilon\bar D)^{-1/2}` of their covariance. The rest is
    estimated from ``held`` rows that were not fitted to: ``limit`` is the 99.9% quantile of their whitened norms,
    ``distance`` their median distance from the mean, and ``spread`` the standard deviation of its logarithm, by
    quartiles.
    """

    mean: Array
    whitener: Array
    radius: float
    limit: float
    distance: float
    spread: float
    rows: int
    held: int

    def norms(self, rows: Array) -> Array:
        """The whitened norm of each row."""
        return np.asarray(np.linalg.norm((rows - self.mean) @ self.whitener, axis=1))

    def distances(self, rows: Array) -> Array:
        """The distance of each row from the mean."""
        return np.asarray(np.linalg.norm(rows - self.mean, axis=1))

    def drift(self, values: Matrix, name: str = "the data") -> Drift:
        """Compare a sample of rows, spread over all of them, with the reference."""
        chosen = spread_rows(values.shape[0])
        n = len(chosen)
        sample = values if in_chunks(values) is None else HeldRows(values, chosen)

        def look(part: slice) -> tuple[Array, Array, int]:
            rows = read_rows(sample, chosen[part]).astype(np.float64)
            if not np.isfinite(rows).all():
                refuse_non_finite(values, name)
            with np.errstate(over="ignore", invalid="ignore"):
                return rows.sum(axis=0), self.distances(rows), int((~(self.norms(rows) <= self.limit)).sum())

        sums, distances, beyond = zip(*map_blocks(look, n, 512), strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = float(np.linalg.norm(sum(sums) / n - self.mean)) / self.radius
            ratio = float(np.median(np.concatenate(distances))) / self.distance
        outside = sum(beyond) / n
        return Drift(n, shift, ratio, outside, tuple(self._alarms(n, shift, ratio, outside)))

    def _alarms(self, n: int, shift: float, ratio: float, outside: float) -> Iterator[str]:
        """Statistics beyond their limits; limits are wider for small samples, here or in training."""
        if not shift <= _MOST_SHIFT + 3 * max(ratio, 1.0) * np.sqrt(1 / n + 1 / self.rows):
            yield f"their mean lies {_told(shift)} RMS radii away"
        room = 6 * self.spread * np.sqrt(1 / n + 1 / self.held)
        if not (ratio > 0 and abs(np.log(ratio)) <= np.log(_MOST_RATIO) + room):
            yield f"they lie {_told(ratio)} times as far from the training mean"
        expected = _MOST_OUTSIDE + 5 / self.held
        if not outside <= expected + 4 * np.sqrt(expected / n):
            yield f"{outside:.0%} of them lie outside the range of training rows"


def _told(number: float) -> str:
    """Two decimals; squares that overflow are not finite."""
    return decimals(number, 2) if np.isfinite(number) else "more than 1e+100"


def calibrated(reference: Reference, norms: Array, distances: Array) -> Reference:
    """The reference with its limits, from whitened norms and distances of rows that were not fitted to."""
    least = np.finfo(float).tiny
    quarter, half, three = np.log(np.maximum(np.quantile(distances, [0.25, 0.5, 0.75]), least))
    return replace(
        reference,
        limit=max(float(np.quantile(norms, QUANTILE, method="higher")), least),
        distance=float(np.exp(half)),
        spread=float((three - quarter) / 1.349),
    )


def damped_whitener(values: Array, vectors: Array, n: int) -> Array:
    """The inverse root of a covariance given by the eigenvalues of its summed squares; tiny directions are damped.

    Where there are fewer vectors than columns, the covariance is zero outside of their span.
    """
    variances = values / max(n, 1)
    least = _DAMPING * variances.sum() / len(vectors)
    weights = 1 / np.sqrt(variances + least)
    if len(values) == len(vectors):
        return np.asarray(vectors * weights)
    outside = 1 / np.sqrt(least)
    whitener = (vectors * (weights - outside)) @ vectors.T
    whitener[np.diag_indices(len(whitener))] += outside
    return np.asarray(whitener)


def spread_rows(n: int) -> Array:
    """A limited number of evenly spread rows, in short runs that a disk reads at once."""
    if n <= SAMPLE:
        return np.arange(n)
    runs = SAMPLE // _RUN
    starts = np.linspace(0, n - _RUN, runs).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(_RUN)).ravel())
