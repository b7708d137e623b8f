"""The same fit again, on other rows and from other starts; its components found among the first one's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster import hierarchy
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from sklearn.base import clone

from ..errors import InputError
from ..representation import Array, Matrix
from ..resampling import group_codes
from ..rows import Crew, SelectedRows
from .contrasts import contrast_named
from .estimator import ICA
from .search import orthonormal
from .solver import rotate
from .sources import as_source
from .whitening import Whitening

MOST_CELLS = 2**26  # drawn for one refit
MOST_CLUSTERED = 4096  # components of all fits together: clustering takes the square of it in memory


@dataclass(frozen=True, eq=False)
class Refit:
    """What a fit to some rows found; without components where those rows did not vary."""

    components: Array
    rows: int
    converged: bool
    gaussian: int


def refits(data: Matrix, reference: ICA, n: int, units: Array | None, seed: int) -> Iterator[Refit]:
    """Fits with the reference's settings, each from a random start and on rows drawn anew, unit by unit.

    Without units all rows are used.
    """
    for child in np.random.SeedSequence(seed).spawn(n):
        rng = np.random.default_rng(child)
        rows = data if units is None else SelectedRows(data, drawn(units, int(data.shape[1]), rng))
        try:
            yield _refit(rows, reference, rng)
        except InputError:  # the reference has been fitted, so these rows are fit to use: they only do not vary
            yield Refit(np.empty((0, int(data.shape[1]))), int(rows.shape[0]), False, 0)


def drawn(units: Array, width: int, rng: np.random.Generator) -> Array:
    """Rows of units drawn with replacement, in order: as many units as there are, or a share of them for large data."""
    n, n_units = len(units), int(units.max()) + 1
    share = min(1.0, MOST_CELLS / width / n)
    times = np.bincount(rng.integers(n_units, size=max(int(np.ceil(share * n_units)), 2)), minlength=n_units)
    return np.repeat(np.arange(n), times[units])


def _refit(rows: Matrix, reference: ICA, rng: np.random.Generator) -> Refit:
    """One fit; a search that starts from the fourth-order start turned by a random rotation."""
    source = as_source(rows)
    whitening = Whitening(rounding=reference.rounding, standardise=reference.standardise).fit_source(source)
    k = min(len(reference.components_), whitening.rank_)
    whitening.components_, whitening.mixing_ = whitening.components_[:k], whitening.mixing_[:, :k]
    contrast = contrast_named(reference.contrast)
    fit = clone(reference)
    with Crew() as crew:
        white = fit._placed(source.whitened(whitening.mean_, whitening.components_.T, crew))
        rotation = rotate(
            white,
            contrast,
            start_rotation=orthonormal(rng.standard_normal((k, k))),
            tol=fit.tol,
            max_iter=fit.max_iter,
            seed=int(rng.integers(2**31 - 1)),
        )
        fit._describe(white, rotation, contrast, whitening)
    return Refit(fit.components_, int(rows.shape[0]), bool(fit.converged_), int(fit.gaussian_.sum()))


def directions(components: Array, basis: Array) -> Array:
    """Components as unit vectors whose inner products are the correlations of their sources.

    ``basis`` is a root of the rows' covariance: basis times its transpose.
    """
    inside = components @ basis
    return np.asarray(inside / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300))


def match(here: Array, found: list[Array]) -> tuple[Array, Array]:
    """Absolute correlations with the components matched one to one, fit by fit, and how far planes turned.

    The turn of a plane is the root mean square over fits of what its two components have of each other.
    """
    k = len(here)
    correlations = np.zeros((len(found), k))
    turned = np.zeros((k, k))
    for place, there in enumerate(found):
        both = here @ there.T
        mine, theirs = linear_sum_assignment(-np.abs(both))
        correlations[place, mine] = np.abs(both[mine, theirs])
        turned[mine] += both[:, theirs].T ** 2
    return np.minimum(correlations, 1), np.sqrt((turned + turned.T) / (2 * len(found)))


def quality(here: Array, found: list[Array]) -> Array:
    """Icasso's index of the cluster that each component is in: similarity within, less that with all others.

    As many clusters as components are made, by average linkage. A component alone in its cluster has 0.
    """
    k = len(here)
    every = np.concatenate([here, *found])
    similar = np.minimum(np.abs(every @ every.T), 1)
    np.fill_diagonal(similar, 1)
    tree = hierarchy.linkage(squareform(1 - similar, checks=False), "average")
    labels = hierarchy.fcluster(tree, k, "maxclust")
    index: dict[int, float] = {}
    for label in np.unique(labels[:k]):
        inside = labels == label
        size = int(inside.sum())
        whole = float(similar[np.ix_(inside, inside)].sum())
        rest = float(similar[inside].sum()) - whole
        within = (whole - size) / max(size * (size - 1), 1)
        index[int(label)] = within - rest / max(size * (len(every) - size), 1) if size > 1 else 0.0
    return np.array([index[int(label)] for label in labels[:k]])


def units_of(groups: Any, n: int) -> Array:
    """The unit that each row is drawn with: itself, or its group."""
    codes = group_codes(groups, n)
    if codes is None:
        return np.arange(n)
    if codes.max() == 0:
        raise InputError("groups has one label for all rows: there is nothing to draw anew")
    return codes
