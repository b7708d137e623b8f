"""A few components in hundreds or thousands of dimensions: single fixed points from the best starts, no search of all.

With a few rows per dimension hardly any component can be distinguished from Gaussian noise. A search costs tens of
sweeps at all directions to find that out; following the best starts costs about two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..threads import Crew
from .checkpoint import Ledger, Report
from .contrasts import Contrast
from .newton import ROWS_A_DIMENSION, Finish, converged
from .search import far_apart, orthonormal
from .unmixing import Source, WhiteningMap
from .white import Sweep, WhiteRows

_OUTLYING = (1 / 4, 32)  # rows that are starts, as a share of the dimensions and at the least,
_FOURTH_ORDER = (1 / 32, 16)  # and directions of the fourth-order matrix
_FOLLOWED = (1 / 16, 32)  # starts of largest curvature that are followed
_FEW = (1 / 16, 16)  # components: where there are more, a search of all directions costs less for each
_ROUNDS = 8  # in which starts are followed, each outside the span of what the others have found
_STEPS = 15
_POWERS = 12  # products with the fourth-order matrix that turn a random subspace to its extreme directions


@dataclass(frozen=True, eq=False)
class FewComponents:
    """Orthonormal directions in whitened space, as rows: the ``count`` components first, then the rest of the space."""

    matrix: Array
    count: int
    converged: bool


def few_components(
    source: Source,
    whitening: WhiteningMap,
    contrast: Contrast,
    seed: int,
    *,
    tol: float,
    max_iter: int,
    report: Report | None = None,
) -> FewComponents | None:
    """The components that are distinguishable from Gaussian noise, where these are few; otherwise None."""
    width = len(whitening.components_)
    if source.shape[0] < ROWS_A_DIMENSION * width:
        return FewComponents(np.eye(width), 0, True)
    with Crew() as crew:
        rows = source.whitened(whitening.mean_, whitening.components_.T, crew)
        ledger = Ledger(rows, max_iter, report)
        found = risen(rows, contrast, ledger, seed)
        if found is None:
            return None
        settled = True
        if len(found):
            finish = Finish(rows, orthonormal(found), contrast, ledger)
            outlook = finish.run(tol)
            settled = converged(outlook, tol)
            found = finish.matrix[np.abs(outlook.alpha) > _level(rows, contrast)]
    if not len(found):
        return FewComponents(np.eye(width), 0, settled)
    complete = np.linalg.qr(found.T, mode="complete")[0]
    return FewComponents(np.vstack([found, complete[:, len(found) :].T]), len(found), settled)


def risen(rows: WhiteRows, contrast: Contrast, ledger: Ledger, seed: int) -> Array | None:
    """Directions that rise above noise, none near another; None if they are more than a few.

    The starts are those of the search: outlying rows and directions of extreme fourth moments. Each is moved by fixed
    points of its own, which climb at least as high as those that hold each other orthogonal. Many end at the same
    strong components. So they start again outside their span, until nothing more rises.
    """
    starts = np.vstack([_unit(rows.outlying(_number(_OUTLYING, rows))), _fourth_order_directions(rows, seed)])
    found = np.empty((0, rows.width))
    for done in range(_ROUNDS):
        ledger.note(float("nan"), 1 - done / _ROUNDS)  # a place to stop: there is no contrast of all directions
        directions = _outside(starts, found)
        for step in range(_STEPS):
            sweep = rows.sweep(directions, contrast)
            ledger.pay(rows, len(directions))
            if step == 0:  # the curvature of a start says how near a component it is
                best = np.argsort(-np.abs(sweep.curvature(directions)), kind="stable")[: _number(_FOLLOWED, rows)]
                directions, sweep = directions[best], Sweep(sweep.cross[best], sweep.slope[best], sweep.value[best])
            directions = _outside(sweep.slope[:, None] * directions - sweep.cross, found)
        size = np.abs(rows.sweep(directions, contrast).curvature(directions))
        ledger.pay(rows, len(directions))
        order = np.argsort(-size, kind="stable")
        above = order[size[order] > _level(rows, contrast)]
        if not len(above):
            return found
        found = np.vstack([found, far_apart(directions[above], len(above))])
        if len(found) > _number(_FEW, rows):
            break
    return None


def _outside(vectors: Array, found: Array) -> Array:
    """What is left of vectors outside a span, at unit length."""
    return _unit(vectors - vectors @ found.T @ found)


def _number(wanted: tuple[float, int], rows: WhiteRows) -> int:
    share, least = wanted
    return max(int(share * rows.width), least)


def _level(rows: WhiteRows, contrast: Contrast) -> float:
    """A curvature that the best directions of noise do not reach.

    It is that up to which :func:`~isorep.ica.newton.indistinct` takes all components together for Gaussian, and more
    where rows are few: at 2 rows per dimension noise exceeds that one by up to 11%, from 6 on not at all.
    """
    spread = np.sqrt(contrast.noise / rows.n * rows.width)
    return float(contrast.reach * spread * (1 + rows.width / (3 * rows.n)))


def _fourth_order_directions(rows: WhiteRows, seed: int) -> Array:
    """About the directions with which FOBI begins, by subspace iteration."""
    matrix = rows.fourth_order()
    matrix[np.diag_indices(rows.width)] -= rows.width + 2  # what Gaussian rows have
    start = np.random.default_rng(seed).standard_normal((rows.width, min(_number(_FOURTH_ORDER, rows), rows.width)))
    basis = np.linalg.qr(start)[0]
    for _ in range(_POWERS):
        basis = np.linalg.qr(matrix @ basis)[0]
    _, turn = np.linalg.eigh(basis.T @ matrix @ basis)
    return np.asarray((basis @ turn).T)


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))
