r"""Mutual information of single columns, in nats: plug-in, Ross (2014) and Kraskov et al. (2004).

One-dimensional neighbours need no tree. A column is sorted once; the distance to the k-th neighbour of a row's own
class is the smallest of the k + 1 windows around it, and the number of nearer rows is a difference of two places in the
sorted column. Ties, radii and the tiny noise that breaks ties follow scikit-learn, so that the estimates agree with it.

Two kinds of columns differ. A few outliers are clipped, because the distances of two columns are compared and one row
would set the unit of all. If nearly every value of a continuous latent is repeated more than k times, the nearest
neighbours of a row are all equal to it. A slightly rotated grid of two factors is such a latent, and each of its values
would determine both factors. If it has more values than any factor, it is cut into as many bins, of about equal counts,
as the factor with most labels has; otherwise its values count as labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

from ..representation import Array
from .columns import Column, Columns, drawn_in

NEIGHBORS = 10
BINS = 20
"""Bins that continuous columns are cut into where information is counted."""
_REPEATED = 0.9  # share of the rows, those of the commonest value aside, from which on values count as repeated
_NOISE = 1e-10  # of a column's mean size, as Kraskov et al. advise and scikit-learn does


@dataclass(frozen=True, eq=False)
class Information:
    """``mutual[i, j]`` is I(factor i; latent j), ``entropies[i]`` is H(factor i): I(s; s) where s is continuous."""

    mutual: Array
    entropies: Array

    @property
    def normalised(self) -> Array:
        """I(s; z) / H(s): 0 where a factor is constant, and 1 where an estimate exceeds the entropy."""
        shares = np.zeros_like(self.mutual)
        there = self.entropies > 0
        shares[there] = np.minimum(self.mutual[there] / self.entropies[there, None], 1.0)
        return shares


def information(
    factors: Columns,
    latents: Columns,
    *,
    n_neighbors: int = NEIGHBORS,
    random_state: int = 0,
    known: Array | None = None,
) -> Information:
    """Mutual information of every factor with every latent; of a constant column it is 0.

    ``known`` are the factors' entropies, if the same rows were measured before, in any order.
    """
    rng = np.random.RandomState(random_state)  # scikit-learn's noise, number for number
    finest = max((int(factor.codes.max()) + 1 for factor in factors if factor.discrete), default=BINS)
    lines = _lines(latents, n_neighbors, finest, rng)
    noise = rng.standard_normal(factors.n)
    mutual = np.zeros((len(factors), len(latents)))
    for i, factor in enumerate(factors):
        if factor.constant:
            continue
        line = factor.codes if factor.discrete else Line.of(_jittered(factor.values, noise))
        for j, (latent, other) in enumerate(zip(latents, lines, strict=True)):
            if not latent.constant:
                mutual[i, j] = _information(line, other, n_neighbors)
    return Information(mutual, entropies(factors, n_neighbors, rng) if known is None else known)


def entropies(factors: Columns, n_neighbors: int, rng: np.random.RandomState) -> Array:
    """The entropy of every factor: I(s; s) of continuous ones, 0 of constant ones."""
    found = np.zeros(len(factors))
    for i, factor in enumerate(factors):
        if not factor.constant:
            found[i] = entropy(factor.codes) if factor.discrete else _self_information(factor, n_neighbors, rng)
    return found


def _information(a: Line | Array, b: Line | Array, n_neighbors: int) -> float:
    """Mutual information of two columns, each a sorted one or labels."""
    if isinstance(a, Line):
        if isinstance(b, Line):
            return continuous_information(a, b, n_neighbors)
        return mixed_information(a, b, n_neighbors)
    return mixed_information(b, a, n_neighbors) if isinstance(b, Line) else discrete_information(a, b)


def entropy(codes: Array) -> float:
    """The plug-in entropy of labels."""
    shares = np.bincount(codes) / len(codes)
    shares = shares[shares > 0]
    return max(0.0, float(-np.sum(shares * np.log(shares))))


def discrete_information(a: Array, b: Array) -> float:
    """The plug-in mutual information of labels."""
    width = int(b.max()) + 1
    both, n = a.astype(np.int64) * width + b, len(a)
    if (int(a.max()) + 1) * width <= max(n, 4096):  # counting beats sorting
        joint = np.bincount(both)
        pairs = np.flatnonzero(joint)
        joint = joint[pairs]
    else:
        pairs, joint = np.unique(both, return_counts=True)
    left, right = np.bincount(a), np.bincount(b)
    ratio = np.log(joint * (n / (left[pairs // width] * right[pairs % width])))
    return max(0.0, float(np.sum(joint / n * ratio)))


@dataclass(frozen=True, eq=False)
class Line:
    """A continuous column in order: ``values`` ascend, ``order`` says which row each is."""

    values: Array
    order: Array

    @classmethod
    def of(cls, column: Array) -> Line:
        """Sort a column."""
        order = np.argsort(column)
        return cls(column[order], order)

    def nearer_than(self, radii: Array) -> Array:
        """For each value the number of values within its radius, itself included; differences are taken in float64."""
        below = _reached(-self.values[::-1], radii[::-1])[::-1]
        return np.asarray(_reached(self.values, radii) + below - len(radii))


def _reached(values: Array, radii: Array) -> Array:
    """For each of ascending values how many lie at most so far above it, or below."""
    n = len(values)
    ends = np.searchsorted(values, values + radii, side="right")
    while True:  # sums round, so that an end may be a place or two off
        more = (ends < n) & (values[np.minimum(ends, n - 1)] - values <= radii)
        less = values[ends - 1] - values > radii
        if not more.any() and not less.any():
            return np.asarray(ends)
        ends += more
        ends -= less


def mixed_information(line: Line, codes: Array, n_neighbors: int = NEIGHBORS) -> float:
    r"""Mutual information of a continuous column and labels (Ross 2014).

    :math:`\psi(n)+\langle\psi(k)\rangle-\langle\psi(n_c)\rangle-\langle\psi(m)\rangle`, with m the rows of any class
    that are nearer than the k-th of a row's own; rows whose class has no other row are left out.
    """
    labels = codes[line.order]
    counts = np.bincount(labels)
    kept = counts[labels] > 1
    if not kept.any():
        return 0.0
    labels, values = labels[kept], line.values[kept]
    small = labels.astype(np.int16) if len(counts) < 2**15 else labels  # sorted by radix
    by_class = np.argsort(small, kind="stable")
    sizes = counts[labels[by_class]]
    starts = np.cumsum(counts * (counts > 1)) - counts * (counts > 1)
    radii = np.empty(len(values))
    radii[by_class] = _window_radii(values[by_class], starts[labels[by_class]], sizes, n_neighbors)
    within = Line(values, line.order).nearer_than(np.nextafter(radii, 0))
    neighbors = np.minimum(n_neighbors, sizes - 1)
    estimate = digamma(len(values)) + np.mean(digamma(neighbors)) - np.mean(digamma(sizes)) - np.mean(digamma(within))
    return max(0.0, float(estimate))


def continuous_information(a: Line, b: Line, n_neighbors: int = NEIGHBORS) -> float:
    r"""Mutual information of two continuous columns (Kraskov et al. 2004), neighbours in the larger of two distances.

    :math:`\psi(n)+\psi(k)-\langle\psi(n_x)\rangle-\langle\psi(n_y)\rangle`.
    """
    n = len(a.values)
    k = min(n_neighbors, n - 1)
    if k < 1:
        return 0.0
    points = np.empty((n, 2))
    points[a.order, 0], points[b.order, 1] = a.values, b.values
    distances = np.asarray(cKDTree(points).query(points, k=k + 1, p=np.inf)[0])[:, -1]
    radii = np.nextafter(distances, 0)
    estimate = digamma(n) + digamma(k)
    for line in (a, b):
        estimate -= np.mean(digamma(line.nearer_than(radii[line.order])))
    return max(0.0, float(estimate))


def _window_radii(values: Array, starts: Array, sizes: Array, n_neighbors: int) -> Array:
    """The distance to the k-th neighbour in one's own class; classes stand one after the other, each ascending."""
    n = len(values)
    index = np.arange(n)
    ends = starts + sizes - 1
    neighbors = np.minimum(n_neighbors, sizes - 1)
    radii = np.full(n, np.inf)
    for step in range(n_neighbors + 1):
        left, right = index - step, index + neighbors - step
        inside = (left >= starts) & (right <= ends) & (step <= neighbors)
        lower, upper = values[np.maximum(left, 0)], values[np.minimum(np.maximum(right, 0), n - 1)]
        reach = np.maximum(values - lower, upper - values)
        np.minimum(radii, np.where(inside, reach, np.inf), out=radii)
    return radii


def _lines(latents: Columns, n_neighbors: int, bins: int, rng: np.random.RandomState) -> list[Line | Array]:
    """Continuous latents standardised, parted by noise and sorted; labels of discrete ones, bins of repeated values."""
    continuous = [column for column in latents if not column.discrete]
    noise = rng.standard_normal((latents.n, len(continuous))) if continuous else np.empty((latents.n, 0))
    lines: list[Line | Array] = []
    for column, each in zip(continuous, noise.T, strict=True):
        line = Line.of(_jittered(column.values, each))
        ordered = column.values[line.order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        counts = np.diff(np.append(begins, len(ordered)))
        lines.append(_binned(column.codes, counts, bins) if _repeats(counts, n_neighbors) else line)
    taken = iter(lines)
    return [column.codes if column.discrete else next(taken) for column in latents]


def _repeats(counts: Array, n_neighbors: int) -> bool:
    """Whether nearly every row has k equals; the commonest value, such as a rectifier's 0, does not count."""
    others = np.delete(counts, counts.argmax())
    return bool(others.sum() > 0 and others[others > n_neighbors].sum() >= _REPEATED * others.sum())


def _binned(codes: Array, counts: Array, bins: int) -> Array:
    """Labels as they are, or in bins of about equal counts where they are more; no value is split."""
    if len(counts) <= bins:
        return codes
    middle = np.cumsum(counts) - counts / 2
    return np.asarray((middle * bins / counts.sum()).astype(np.int64)[codes])


def _jittered(values: Array, noise: Array) -> Array:
    """Standardised values with noise far below anything that is measured, so that no two are equal."""
    values = drawn_in(values)
    centred = values - values.mean()
    spread = centred.std()
    if spread > 0:
        centred = centred / spread
    return np.asarray(centred + _NOISE * max(1.0, float(np.abs(centred).mean())) * noise)


def _self_information(factor: Column, n_neighbors: int, rng: np.random.RandomState) -> float:
    """I(s; s), the entropy that a continuous factor is measured against: two copies with noise of their own."""
    state = rng.get_state()
    lines = [Line.of(_jittered(factor.values, rng.standard_normal(len(factor.values)))) for _ in range(2)]
    rng.set_state(state)  # every factor is given the same noise, in whatever order
    return continuous_information(lines[0], lines[1], n_neighbors)
