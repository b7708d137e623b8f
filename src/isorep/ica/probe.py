"""Whether ICA can determine any component: single fixed points from the best starts, without a search.

In thousands of dimensions with a few rows each, most often none can. A search costs tens of sweeps at all directions to
find that out; this costs about two.
"""

from __future__ import annotations

import numpy as np

from ..representation import Array
from .contrasts import Contrast
from .newton import ROWS_A_DIMENSION
from .white import Sweep, WhiteRows

_OUTLYING = 1024  # rows that are starts,
_FOURTH_ORDER = 128  # and directions of the fourth-order matrix
_FOLLOWED = 256  # starts of largest curvature that are followed
_STEPS = 15
_POWERS = 12  # products with the fourth-order matrix that turn a random subspace to its extreme directions


def any_component(rows: WhiteRows, contrast: Contrast, seed: int) -> bool:
    """Whether some direction is distinguishable from Gaussian noise in as many dimensions.

    The starts are those of the search: outlying rows and directions of extreme fourth moments. Each is moved by fixed
    points of its own, which climb at least as high as those that hold each other orthogonal. The level is the one below
    which :func:`~isorep.ica.newton.indistinct` takes all components together for Gaussian.
    """
    if rows.n < ROWS_A_DIMENSION * rows.width:
        return False
    level = contrast.reach * np.sqrt(contrast.noise / rows.n * rows.width)
    directions = np.vstack([_unit(rows.outlying(_OUTLYING)), _fourth_order_directions(rows, seed)])
    for step in range(_STEPS):
        sweep = rows.sweep(directions, contrast)
        size = np.abs(_curvature(directions, sweep))
        if size.max(initial=0.0) > level:
            return True
        if step == 0:  # the curvature of a start says how near a component it is
            best = np.argsort(-size, kind="stable")[:_FOLLOWED]
            directions, sweep = directions[best], Sweep(sweep.cross[best], sweep.slope[best], sweep.value[best])
        directions = _unit(sweep.slope[:, None] * directions - sweep.cross)
    return bool(np.abs(_curvature(directions, rows.sweep(directions, contrast))).max(initial=0.0) > level)


def _curvature(directions: Array, sweep: Sweep) -> Array:
    return np.asarray(sweep.slope - np.einsum("ij,ij->i", sweep.cross, directions))


def _fourth_order_directions(rows: WhiteRows, seed: int) -> Array:
    """About the directions with which FOBI begins, by subspace iteration."""
    matrix = rows.fourth_order()
    matrix[np.diag_indices(rows.width)] -= rows.width + 2  # what Gaussian rows have
    start = np.random.default_rng(seed).standard_normal((rows.width, min(_FOURTH_ORDER, rows.width)))
    basis = np.linalg.qr(start)[0]
    for _ in range(_POWERS):
        basis = np.linalg.qr(matrix @ basis)[0]
    _, turn = np.linalg.eigh(basis.T @ matrix @ basis)
    return np.asarray((basis @ turn).T)


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))
