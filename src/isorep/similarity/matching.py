r"""Matching of single units: one to one (assignment), and soft (optimal transport between units).

Units are columns that vary, centred and at unit norm, so that only their correlations count; signs matter. A soft
matching moves mass from the units of one side to those of the other, every unit of a side with the same mass. With
equal widths the optimum is an assignment (Birkhoff). With unequal ones units are repeated until both sides have equally
many, or a linear program is solved where that would be too large. With ``overlap`` below 1 only that share of
the mass, or of the pairs, is matched: the share that matches best.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..assignment import best_assignment
from ..errors import InputError
from ..representation import Array
from ..threads import one_blas_thread
from .cca import cross_source
from .frames import Pair, paired
from .null import PreparedIndex, Similarity, finished

REPEATED = 512  # units up to which those of unequal widths are repeated


@one_blas_thread
def one_to_one(
    X: Any,
    Y: Any = None,
    *,
    overlap: float = 1.0,
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""One-to-one matching: the mean correlation of units matched one to one (Li et al. 2015).

    .. math:: \frac1k\max_{\pi}\sum_{j=1}^{k}\operatorname{corr}(x_{\pi(j)},y_j),\qquad
              k=\lceil\text{overlap}\cdot\min(d_x,d_y)\rceil

    Signed, unlike :func:`mcc`: a unit and its negative do not match. Invariant to permutations, shifts and positive
    scales of units. Constant columns are no units, and :math:`d` counts the others.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone. Widths may differ: units of the wider side are left over.
    overlap : float
        Share of the units of the narrower side that find a partner, the best ones; default 1, all of them.
    permutations, groups, within, random_state
        As for :func:`cca`.

    Returns
    -------
    Similarity
        ``details`` has the matched pairs of units and their ``correlations``, largest first.

    References
    ----------
    .. [1] Li, Y., Yosinski, J., Clune, J., Lipson, H., Hopcroft, J. (2015). Convergent learning: do different neural
           networks learn the same representations? NIPS workshop on feature extraction.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> round(isorep.similarity.one_to_one(X, 2 * X[:, [2, 0, 1]] + 1).value, 6)
    1.0
    """
    prepare = partial(prepare_one_to_one, overlap=overlap)
    return finished(paired(X, Y), prepare, permutations, groups, within, random_state)


@one_blas_thread
def soft_matching(
    X: Any,
    Y: Any = None,
    *,
    overlap: float = 1.0,
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Soft matching distance: optimal transport between the units of two sides (Khosla & Williams 2024).

    .. math:: d^2=\frac1s\min_{P\ge0}\sum_{ij}P_{ij}\|x_i-y_j\|^2,\qquad
              \sum_jP_{ij}\le\frac1{d_x},\ \sum_iP_{ij}\le\frac1{d_y},\ \sum_{ij}P_{ij}=s

    with units centred and at unit norm, and :math:`s` the ``overlap``; constant columns are no units. For equal widths
    and :math:`s=1` it is the distance after the best permutation; for unequal widths one unit may match several, each
    in part. A metric for :math:`s=1`; for smaller :math:`s` units without a counterpart do not count.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone; widths may differ.
    overlap : float
        Share of the mass that is matched, the part that matches best; default 1.
    permutations, groups, within, random_state
        As for :func:`cca`.

    Returns
    -------
    Similarity
        ``details`` has the mean ``correlation`` of what is matched.

    References
    ----------
    .. [1] Khosla, M., Williams, A. H. (2024). Soft matching distance: a metric on neural representations that captures
           single-neuron tuning. UniReps.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> isorep.similarity.soft_matching(X, np.hstack([X, X])[:, [2, 5, 0, 4, 1, 3]]).value < 1e-6
    True
    """
    prepare = partial(prepare_soft_matching, overlap=overlap)
    return finished(paired(X, Y), prepare, permutations, groups, within, random_state)


def prepare_one_to_one(pair: Pair, *, overlap: float = 1.0) -> PreparedIndex:
    """One-to-one matching of a pair."""
    _check(overlap)
    units = _units(pair)
    count = max(1, math.ceil(overlap * min(map(len, units)) - 1e-9))

    def matched(cross: Array) -> tuple[Array, Array, Array]:
        correlations = pair.column_correlations(cross)[np.ix_(*units)]
        rows, columns = assigned(-correlations, count)
        return units[0][rows], units[1][columns], correlations[rows, columns]

    def mean(correlations: Array) -> float:
        return min(float(correlations.mean()), 1.0)

    rows, columns, correlations = matched(pair.cross)
    order = np.argsort(-correlations, kind="stable")
    details = {
        "overlap": float(overlap),
        "x_dims": rows[order],
        "y_dims": columns[order],
        "correlations": correlations[order],
    }
    value = mean(correlations)
    return PreparedIndex("one_to_one", value, details, cross_source(pair), lambda cross: mean(matched(cross)[2]))


def prepare_soft_matching(pair: Pair, *, overlap: float = 1.0) -> PreparedIndex:
    """Soft matching of a pair."""
    _check(overlap)
    units = _units(pair)

    def cost(cross: Array) -> float:
        apart = 2 - 2 * pair.column_correlations(cross)[np.ix_(*units)]
        return transport_cost(np.maximum(apart, 0.0), float(overlap))

    least = cost(pair.cross)
    details = {"overlap": float(overlap), "units": list(map(len, units)), "correlation": 1 - least / 2}
    return PreparedIndex(
        "soft_matching",
        float(np.sqrt(least)),
        details,
        cross_source(pair),
        lambda cross: float(np.sqrt(cost(cross))),
        higher_is_closer=False,
        best=0.0,
    )


def _units(pair: Pair) -> list[Array]:
    """The columns of either side that vary."""
    units = []
    for side in (pair.x, pair.y):
        units.append(np.flatnonzero(side.frame.inverse_spread))
        if not len(units[-1]):
            told = f"no column of {side.name} varies by more than the rounding of its values"
            raise InputError(f"{told}, so its units cannot be matched: subtract what is common to all rows")
    return units


def transport_cost(cost: Array, share: float = 1.0) -> float:
    """The least mean cost of moving this share of the mass between units of equal mass on either side."""
    sizes = cost.shape
    common = repeats(*sizes)
    if common > max(REPEATED, *sizes):
        return _program(cost, share) / share
    repeated = np.repeat(np.repeat(cost, common // sizes[0], axis=0), common // sizes[1], axis=1)
    # Between whole numbers of matched units the least cost is linear, as that of any minimum-cost flow.
    exact = share * common
    whole = min(int(exact + 1e-9), common)
    rest = max(exact - whole, 0.0) if whole < common else 0.0
    total = _least(repeated, whole)
    if rest > 1e-9:
        total += rest * (_least(repeated, whole + 1) - total)
    return max(total, 0.0) / exact


def repeats(left: int, right: int) -> int:
    """The number of units of either side after repeating them until both have equally many."""
    return math.lcm(left, right)


def _least(cost: Array, count: int) -> float:
    return float(cost[assigned(cost, count)].sum()) if count else 0.0


def assigned(cost: Array, count: int) -> tuple[Array, Array]:
    """The ``count`` pairs of rows and columns, no two in one row or column, of least total cost.

    Rows and columns that are left over are assigned to free ones that are added; an added row never meets an added
    column.
    """
    rows, columns = cost.shape
    if count == min(rows, columns):
        return best_assignment(-cost)
    far = 4.0 * (1 + float(np.abs(cost).max())) * (rows + columns)
    padded = np.zeros((rows + columns - count, rows + columns - count))
    padded[:rows, :columns] = cost
    padded[rows:, columns:] = far
    left, right = best_assignment(-padded)
    real = (left < rows) & (right < columns)
    return np.asarray(left[real]), np.asarray(right[real])


def _program(cost: Array, share: float) -> float:
    """The least cost by linear programming."""
    from scipy.optimize import linprog  # slow to load, and most pairs have equal widths
    from scipy.sparse import coo_array

    rows, columns = cost.shape
    cells = np.arange(rows * columns)
    row, column = np.divmod(cells, columns)
    sums = coo_array(
        (np.ones(2 * len(cells)), (np.concatenate([row, rows + column]), np.tile(cells, 2))),
        shape=(rows + columns, len(cells)),
    ).tocsr()
    # Masses of whole numbers: every row holds as many units as there are columns, and the reverse.
    masses = np.concatenate([np.full(rows, float(columns)), np.full(columns, float(rows))])
    total = share * rows * columns
    limits: dict[str, Any] = {"A_eq": sums, "b_eq": masses}
    if share < 1:
        limits = {"A_ub": sums, "b_ub": masses, "A_eq": np.ones((1, len(cells))), "b_eq": [total]}
    found = linprog(cost.ravel(), bounds=(0, None), method="highs", **limits)
    if not found.success or found.x is None:
        raise InputError(f"the matching of {rows} and {columns} units was not found: {found.message}")
    return float(np.maximum(cost.ravel() @ found.x, 0.0) / (rows * columns))


def _check(overlap: Any) -> None:
    if isinstance(overlap, bool) or not isinstance(overlap, float | int) or not 0 < overlap <= 1:
        raise InputError(f"overlap is {overlap!r} and must be above 0 and at most 1")
