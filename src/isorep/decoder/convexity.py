"""Convexity of the latents' support: midpoints of random pairs, and whether samples lie near them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ..representation import Array

_ROWS = 1000  # samples looked at
_PAIRS = 1000
_DRAWS = 5  # of each reference
_LEAST = 20  # rows below which nothing is said
_LIMIT, _CHANCE = 0.03, 0.6  # of remote midpoints; in an evenly filled box 0.01, and more by chance among few rows


@dataclass(frozen=True)
class Convexity:
    """How far midpoints of random pairs lie from the nearest other sample.

    Attributes
    ----------
    share : float
        The share of midpoints that lie farther from the nearest sample than 99 % of samples do from theirs.
    ratio : float
        The median distance of a midpoint to the nearest sample over that of a sample to its nearest neighbour.
    solid, hollow : float
        The median of ``ratio`` for samples of the same size and covariance from a Gaussian, whose support is convex,
        and from the surface of an ellipsoid, whose support is not.
    solid_share : float
        The largest ``share`` among the Gaussian samples.
    answer : {"holes", "none seen", "blind"}
    sentence : str
    """

    share: float
    ratio: float
    solid: float
    hollow: float
    solid_share: float
    rows: int
    pairs: int
    answer: str
    sentence: str


def convexity(latents: Array, *, random_state: int = 0) -> Convexity | None:
    """Probe the assumption that the latents' support is convex; None where there are too few rows, or no spread.

    In many dimensions any cloud is hollow and its midpoints lie where few samples do, so the distances mean something
    only beside those of a solid and of a hollow reference with as many rows and the same covariance. Where the hollow
    one would not be found out, an empty answer means nothing ("blind"). Holes smaller than the spacing of samples stay
    unseen.
    """
    rng = np.random.default_rng(random_state)
    n, d = latents.shape
    rows = np.sort(rng.choice(n, _ROWS, replace=False)) if n > _ROWS else np.arange(n)
    values = np.asarray(latents[rows], dtype=np.float64)
    values = values[np.sort(np.unique(values, axis=0, return_index=True)[1])]  # equal rows are no nearest neighbours
    mean = values.mean(0)
    root = _root(values - mean)
    if len(values) < _LEAST or root.shape[1] == 0:
        return None
    share, ratio = _distances(values, rng)
    solid, hollow = [], []
    for _ in range(_DRAWS):
        normal = rng.standard_normal((len(values), root.shape[1]))
        solid.append(_distances(normal @ root.T, rng))
        sphere = normal / np.linalg.norm(normal, axis=1, keepdims=True) * np.sqrt(root.shape[1])
        hollow.append(_distances(sphere @ root.T, rng))
    full, empty = (float(np.median([each[1] for each in drawn])) for drawn in (solid, hollow))
    most = max(each[0] for each in solid)

    limit = max(2 * most, _LIMIT + _CHANCE / np.sqrt(len(values)))

    def remote(found: tuple[float, float]) -> bool:
        return found[0] > limit and found[1] > max(each[1] for each in solid)

    seen = sum(map(remote, hollow)) > _DRAWS / 2
    answer = "holes" if remote((share, ratio)) else "none seen" if seen else "blind"
    sentence = _READING[answer].format(share=share, most=most, ratio=ratio, full=full, n=len(values), d=d)
    return Convexity(share, ratio, full, empty, most, len(values), _PAIRS, answer, sentence)


_READING = {
    "holes": "The latents' support does not look convex: {share:.0%} of the midpoints of random pairs lie farther from "
    "any sample than samples lie from each other (a Gaussian cloud of this size and covariance: at most {most:.1%}).",
    "none seen": "No holes were seen in the latents' support: midpoints of random pairs lie {ratio:.2f} times as far "
    "from the nearest sample as samples do ({full:.2f} in a Gaussian cloud of this size and covariance).",
    "blind": "Whether the latents' support is convex cannot be told from {n:,} samples in {d} dimensions: midpoints "
    "would not give away a hollow cloud.",
}


def _distances(values: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The share of remote midpoints, and the median distance of midpoints over that of samples."""
    n = len(values)
    first = rng.integers(n, size=_PAIRS)
    second = (first + rng.integers(1, n, size=_PAIRS)) % n
    index = NearestNeighbors(n_neighbors=3, algorithm="brute" if values.shape[1] > 6 else "kd_tree").fit(values)
    own = index.kneighbors(values, 2)[0][:, 1]
    far, near = index.kneighbors((values[first] + values[second]) / 2, 3)
    far = np.where((near == first[:, None]) | (near == second[:, None]), np.inf, far).min(1)
    usual = float(np.median(own))
    return float((far > np.quantile(own, 0.99)).mean()), float(np.median(far)) / usual if usual > 0 else np.inf


def _root(centred: Array) -> Array:
    """A square root of the covariance, (d, rank)."""
    _, values, axes = np.linalg.svd(centred / np.sqrt(len(centred)), full_matrices=False)
    kept = values > 1e-7 * values[0] if values[0] > 0 else np.zeros(len(values), dtype=bool)
    return np.asarray(axes[kept].T * values[kept])
