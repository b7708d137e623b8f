r"""Worst case: lower and upper bounds on the largest error between two runs, up to rigid motions.

Definition 1 of Nelson et al. (2026) asks for :math:`\inf_T\sup_i\|y_i-Tx_i\|` over isometries :math:`T`. The
least-squares fit of the ladder is not its minimiser. Two kinds of lower bound hold for every isometry, and every single
map gives an upper bound:

* distances: :math:`\sup_i\|y_i-Tx_i\|\ge\tfrac12\,\bigl|\|y_i-y_j\|-\|x_i-x_j\|\bigr|` for any pair of rows;
* weights: :math:`\min_T\bigl(\sum_iw_i\|y_i-Tx_i\|^2\bigr)^{1/2}` for any weights that sum to one (weak duality), which
  Lawson's iteration drives towards the optimum while its maps give upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from ..alignment.base import AffineMap, nearest_rotation, orthogonal_map, padded, quick_polar
from ..errors import InputError
from ..moments import Moments
from ..pairs import row_ids
from ..representation import Array, Matrix, as_representation, match_rows
from ..row_span import spans_of_few
from ..rows import NEAR_CELLS, Deadline, block_rows, brought_here, in_chunks, map_rows, read_rows, stream_rows
from ..settings import check_seed
from ..threads import one_blas_thread
from .diameter import diameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONFIDENCE = 0.95
_HALVINGS = 40  # of the interval in which the best scale lies
CLOSE = 1e-3  # relative gap at which the bracket counts as closed
_ROUNDS = 12
_EXCHANGED = 256  # fewest rows that the weighted fits begin with
_NEW_WEIGHT = 0.1
_FEWEST_STEPS, _MOST_STEPS = 4, 150  # of a round
_MOST_POWER = 8.0  # exponent of the residuals that multiply the weights
_ANCHORS = 128
_KEPT_PAIRS = 256
_BUDGET = (2e10, 4e10)  # floating-point operations for the weighted fits of a bracket: some two seconds of one core,
_PASSES = 100.0  # and between these so many per product of a pass over all rows: time then grows with the rows
_WORST_ROWS = 10
_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative rounding, subtracted from lower bounds


@dataclass(frozen=True)
class WorstRow:
    """A row that is far from its target under the least-squares map."""

    row: int
    id: str | None
    error: float


@dataclass(frozen=True)
class SampleClaim:
    """Bound for new examples from the largest of finitely many errors."""

    rows: int
    sup: float
    confidence: float
    quantile: float
    sentence: str


@dataclass(frozen=True)
class WorstCase:
    """The two-sided certificate for the rigid group, in multiples of ``unit`` (1: the target's own units).

    ``lower <= inf_T sup_i |y_i - T x_i| <= upper`` holds for the rows at hand. ``rms <= rms_upper`` is the
    Powers-Størmer bound of the root mean square error by the nuclear norm of the difference of the Gram matrices.
    ``complete`` is false where a deadline ended the search for narrower bounds.
    """

    group: str
    scale: bool
    lower: float
    upper: float
    lower_by: str
    least_squares_sup: float
    distortion: float
    near_isometry_defect: float
    rms: float
    rms_upper: float
    pairs_checked: int
    worst_rows: tuple[WorstRow, ...]
    unit: float = 1.0
    complete: bool = True

    @property
    def closed(self) -> bool:
        """Whether the two bounds agree to a relative gap of 0.001."""
        return self.upper <= self.lower * (1 + 2 * CLOSE)

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The largest error of least squares, bounds on the smallest possible one, and the bound from distances alone.

        The last is drawn without a scale, for which it holds. ``ax`` is where to draw, by default a new pyplot figure
        of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots

        marks = [
            Mark("least squares", self.least_squares_sup),
            Mark("best possible", self.upper, (self.lower, self.upper), strong=True),
        ]
        if not self.scale:
            marks.append(Mark("at least, by distances", self.distortion / 2))
        return dots(ax, marks, "largest error over rows", width=width, interval_name="lower to upper bound")


def worst_case(source: Any, target: Any, *, scale: bool = False, random_state: int = 0) -> WorstCase:
    r"""Compute lower and upper bounds on the largest error of the best rigid alignment (minimax).

    Parameters
    ----------
    source, target : (n, d) arrays, Representations or Dask arrays
        Paired rows.
    scale : bool
        Allow one global scale, as the ladder's rigid rung does. Definition 1 and Theorem 1 are about ``scale=False``.
    random_state : int
        Seed of the rows whose distances are compared; default 0.

    Returns
    -------
    WorstCase
        Bounds in the target's own units.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> tent = np.array([[0.0, 0.0], [0.5, 0.2], [1.0, 0.0]])
    >>> flat = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    >>> found = isorep.worst_case(flat, tent)
    >>> round(found.lower, 3), round(found.upper, 3)
    (0.1, 0.1)
    """
    check_seed(random_state)
    a, b = as_representation(source, "source"), as_representation(target, "target")
    match_rows(a, b)
    if len(a) < 2:
        raise InputError("at least 2 rows are needed")
    moments = Moments.from_rows(a.values, b.values)
    size = diameter(a.values).value
    if size == 0:
        raise InputError("all rows of the source are identical")
    return certify(a.values, b.values, moments, size, scales=[scale], ids=row_ids(a, b), seed=random_state)[0]


def certify(
    x: Matrix,
    y: Matrix,
    moments: Moments,
    source_diameter: float,
    *,
    scales: Sequence[bool],
    ids: Array | None,
    seed: int,
    unit: float = 1.0,
    deadline: Deadline | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[WorstCase]:
    """The certificates without or with a scale, from rows and their moments; errors divided by ``unit``.

    The second certificate starts from the rows that the first one needed, with equal weights: those of the first have
    all but left rows out that the second needs. After a deadline the brackets stay as wide as they are; they remain
    valid.
    """
    until = deadline or Deadline()
    x, y = brought_here(x, NEAR_CELLS), brought_here(y, NEAR_CELLS)
    if in_chunks(x) is None or in_chunks(y) is None:  # both here, or both there
        x, y = brought_here(x), brought_here(y)
    spans = spans_of_few(x, y, ("source", "target"), int(x.shape[0]))
    if spans is not None:  # all distances are kept within the span of the rows
        x, y = (each.rows for each in spans)
        moments = Moments.from_rows(x, y)
    reach = float(np.sqrt(np.trace(moments.xx)) + np.sqrt(np.trace(moments.yy)))
    certificates: list[WorstCase] = []
    pairs, needed = None, None
    for place, scale in enumerate(scales):
        start = orthogonal_map(moments, *nearest_rotation(padded(moments.xy)), scale=scale)
        norms = _residuals(x, y, start)
        told = None if progress is None else partial(_share_told, progress, place, len(scales))
        low, high, needed, complete = _exchange(x, y, norms, scale, needed, until, told)
        if pairs is None:
            pairs = _distorted_pairs(x, y, moments, norms, np.random.default_rng(seed), until)
        distortion = _smallest_distortion(pairs, scale)
        by_distances = max(0.0, distortion / 2 - _ROUNDING * reach)
        worst = np.argsort(-norms, kind="stable")[:_WORST_ROWS]
        rms, rms_upper = _rms_certificate(moments, start.scale)
        certificates.append(
            WorstCase(
                group="rigid",
                scale=scale,
                lower=min(max(low, by_distances), high) / unit,  # where both are rounding, they may cross
                upper=high / unit,
                lower_by="weighted Procrustes" if low >= by_distances else "distance distortion",
                least_squares_sup=float(norms.max()) / unit,
                distortion=distortion / unit,
                near_isometry_defect=distortion / (source_diameter * start.scale) if start.scale > 0 else float("inf"),
                rms=rms / unit,
                rms_upper=rms_upper / unit,
                pairs_checked=pairs.checked,
                worst_rows=tuple(
                    WorstRow(int(row), None if ids is None else str(ids[row]), float(norms[row]) / unit)
                    for row in worst
                ),
                unit=unit,
                complete=complete and pairs.checked == pairs.wanted,
            )
        )
        if told:
            told(1.0)
    return certificates


def _share_told(progress: Callable[[int, int], None], place: int, count: int, share: float) -> None:
    """Tell the progress in hundredths of a certificate, given the share of this one that is done."""
    progress(100 * place + int(100 * share), 100 * count)


def sample_claim(norms: Array, units: int) -> SampleClaim:
    """Bound for new examples from the largest of ``units`` independent errors of a fixed map.

    With confidence :math:`1-\\alpha` new examples exceed it with probability at most :math:`1-\\alpha^{1/N}`.
    """
    quantile = float((1 - CONFIDENCE) ** (1 / units))
    sup = float(norms.max())
    return SampleClaim(
        rows=units,
        sup=sup,
        confidence=CONFIDENCE,
        quantile=quantile,
        sentence=(
            f"With {CONFIDENCE:.0%} confidence, a new example exceeds the largest held-out error with a probability of "
            f"at most {1 - quantile:.2g} ({units} independent errors bound a quantile, not the supremum)."
        ),
    )


# The exchange: Lawson's weights on a working set of rows, every map evaluated on all rows ---------------------------


def _exchange(
    x: Matrix,
    y: Matrix,
    norms: Array,
    scale: bool,
    first: Array | None,
    until: Deadline,
    told: Callable[[float], None] | None,
) -> tuple[float, float, Array, bool]:
    """Lower and upper bound, given the residuals of a first map; the rows of the last working set; whether it ended.

    The weighted fits run on a working set of rows; lower bounds from it are valid for all rows, and every map is
    evaluated on all of them. Rows with larger errors than those of the working set join it; it at most doubles.
    """
    n, d = len(norms), max(x.shape[1], y.shape[1])
    if first is None:
        size = min(n, max(_EXCHANGED, 2 * d))
        first = np.sort(np.argpartition(-norms, size - 1)[:size])
    working = _WorkingSet(first, np.full(len(first), 1.0 / len(first)))
    low, high, stalled = 0.0, float(norms.max()), 0
    budget = work = float(np.clip(_PASSES * n * d * d, *_BUDGET))
    rounds, steps, a_step, late = 0, 1, 0.0, False

    def go_on(taken: int = 0) -> bool:
        nonlocal late
        if told:
            told(min(max((rounds + taken / steps) / _ROUNDS, 1 - (work - taken * a_step) / budget), 1.0))
        late = until.passed
        return not late

    while rounds < _ROUNDS and go_on():
        before = (low, high)
        a_step = len(working.rows) * 4.0 * d * d + 20.0 * d**3
        steps = int(np.clip(work / a_step, _FEWEST_STEPS, _MOST_STEPS))
        fitted = _lawson(read_rows(x, working.rows), read_rows(y, working.rows), working.weights, scale, steps, go_on)
        work -= fitted.steps * a_step + 2.0 * n * d * d
        low = max(low, fitted.low)
        norms = _residuals(x, y, fitted.map)
        high = min(high, float(norms.max()))
        stalled = 0 if low > before[0] * (1 + CLOSE / 10) or high < before[1] * (1 - CLOSE / 10) else stalled + 1
        outside = norms > fitted.high * (1 + CLOSE)
        outside[working.rows] = False
        candidates = np.flatnonzero(outside)
        joined = candidates[np.argsort(-norms[candidates], kind="stable")[: len(working.rows)]]
        working = working.joined_by(joined, fitted.weights)
        rounds += 1
        closed = high <= low * (1 + CLOSE)
        if closed or stalled == 2 or work < 0:  # the group is not convex: some gaps do not close
            break
    return low, high, working.rows, not late or high <= low * (1 + CLOSE)


@dataclass(frozen=True, eq=False)
class _WorkingSet:
    """The rows that weighted fits run on, in order, and their weights, which sum to one."""

    rows: Array
    weights: Array

    def joined_by(self, others: Array, weights: Array) -> _WorkingSet:
        """With other rows added, which share a tenth of the weight."""
        fresh = np.full(len(others), _NEW_WEIGHT / max(len(others), 1))
        rows = np.concatenate([self.rows, others])
        weights = np.concatenate([weights * (1 - _NEW_WEIGHT), fresh])
        order = np.argsort(rows, kind="stable")
        return _WorkingSet(rows[order], weights[order] / weights.sum())


@dataclass(frozen=True, eq=False)
class _WeightedFit:
    """A weighted fit: the largest error bracketed, the map, the weights it ended with and its steps."""

    low: float
    high: float
    map: AffineMap
    weights: Array
    steps: int


def _lawson(
    x: Array, y: Array, weights: Array, scale: bool, most_steps: int, go_on: Callable[[int], bool]
) -> _WeightedFit:
    """Lawson's iteration: rows with large residuals gain weight until the largest residuals are equal.

    Each step multiplies the weights by a power of the residuals; the power grows while the lower bound does. Lawson's
    power is 1, which is safe and slow: the bound then rises with every step. A larger power that overshoots is undone
    and halved. ``go_on`` is asked, with the number of steps done, before each further one.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    low, high, steps = 0.0, np.inf, 0
    best: AffineMap | None = None
    best_weights, best_norms, power = weights, np.ones(len(weights)), 2.0
    with one_blas_thread:  # BLAS threads slow down products of this size
        while best is None or (steps < most_steps and go_on(steps)):
            steps += 1
            fitted, squares = _weighted_fit(x, y, weights, scale)
            norms = fitted.residual_norms(x, y)
            if best is None or norms.max() < high:
                high, best = float(norms.max()), fitted
            # The fit is the minimum up to rounding, which is relative to the squares of the rows and not to the error.
            reached = float(np.sqrt(max(float(weights @ norms**2) - _ROUNDING * squares, 0.0)))
            if reached >= low or power == 1.0:
                best_weights, best_norms, power = weights, norms, min(1.3 * power, _MOST_POWER)
            else:
                power = max(power / 2, 1.0)
            low = max(low, reached)
            if high <= low * (1 + CLOSE):
                break
            # Their own largest is the unit: that of another step may be rounding, and powers of the ratio overflow.
            weights = best_weights * (best_norms / (float(best_norms.max()) or 1.0) + 1e-15) ** power
            weights = weights / weights.sum()
    return _WeightedFit(low, high, best, best_weights, steps)


def _weighted_fit(x: Array, y: Array, weights: Array, scale: bool) -> tuple[AffineMap, float]:
    """The rigid map of weighted rows, for weights that sum to one, and the summed squares of both sides."""
    x_mean, y_mean = weights @ x, weights @ y
    root = np.sqrt(weights)[:, None]
    a, b = (x - x_mean) * root, (y - y_mean) * root
    own, other = float(np.vdot(a, a)), float(np.vdot(b, b))
    cross = a.T @ b
    rotation, overlap = quick_polar(cross) or nearest_rotation(padded(cross))
    factor = (overlap / own if own > 0 else 0.0) if scale else 1.0
    return AffineMap(rotation[: x.shape[1]], x_mean, y_mean, factor, orthogonal=True), own + other


def _residuals(x: Matrix, y: Matrix, fitted: AffineMap) -> Array:
    size = max(64, block_rows(x.shape[1], y.shape[1]) // 4)
    return np.concatenate(map_rows(lambda start, a, b: fitted.residual_norms(a, b), [x, y], size))


# Distances ------------------------------------------------------------------------------------------------------


def _distorted_pairs(
    x: Matrix, y: Matrix, moments: Moments, norms: Array, rng: np.random.Generator, until: Deadline
) -> _Pairs:
    """Pairs of rows whose distances differ most: rows with large residuals, and some others, against all rows.

    After a deadline against the blocks of rows that were reached.
    """
    n = len(norms)
    outermost = np.argsort(-norms, kind="stable")[: _ANCHORS // 2]
    anchors = np.unique(np.concatenate([outermost, rng.integers(n, size=_ANCHORS // 2)]))
    sides = ((x, moments.source_mean), (y, moments.target_mean))
    held = [read_rows(values, anchors).astype(np.float64) - mean for values, mean in sides]
    ratio = float(np.sqrt(np.trace(moments.yy) / max(np.trace(moments.xx), np.finfo(float).tiny)))

    means = (moments.source_mean, moments.target_mean)

    def scan(start: int, *rows: Array) -> tuple[Array, Array, int]:
        blocks = [values.astype(np.float64) - mean for values, mean in zip(rows, means, strict=True)]
        d_x, d_y = (_cross_distances(a, b) for a, b in zip(held, blocks, strict=True))
        kept = []
        for scale in (1.0, ratio):  # the most distorted ones with and without a scale, longer and shorter
            apart = (d_y - scale * d_x).ravel()
            count = min(_KEPT_PAIRS, len(apart))
            kept += [np.argpartition(side, count - 1)[:count] for side in (apart, -apart)]
        i, j = np.unravel_index(np.unique(np.concatenate(kept)), d_x.shape)
        # The expansion of the square cancels for near rows: what is kept is measured again by differences.
        exact = [np.linalg.norm(a[i] - b[j], axis=1) for a, b in zip(held, blocks, strict=True)]
        return exact[0], exact[1], len(rows[0])

    parts = []
    for part in stream_rows(scan, [x, y], max(64, block_rows(x.shape[1], y.shape[1]) // 16)):
        parts.append(part)
        if until.passed:
            break
    source, target, reached = zip(*parts, strict=True)
    return _Pairs(np.concatenate(source), np.concatenate(target), len(anchors) * sum(reached), len(anchors) * n)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Distances of the same pairs in source and target."""

    source: Array
    target: Array
    checked: int
    wanted: int


def _cross_distances(anchors: Array, rows: Array) -> Array:
    squares = (anchors**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2 * anchors @ rows.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _smallest_distortion(pairs: _Pairs, scale: bool) -> float:
    """The largest difference of distances; with a scale, a value that no scale can go below."""
    if not scale:
        return float(np.abs(pairs.target - pairs.source).max())

    known = pairs.source > 0
    if not known.any():
        return float(pairs.target.max())
    low, high = 0.0, 2 * float((pairs.target[known] / pairs.source[known]).max()) or 1.0
    for _ in range(_HALVINGS):  # the largest shortfall falls with the scale, the largest overshoot rises
        at = (low + high) / 2
        over = at * pairs.source - pairs.target
        low, high = (at, high) if -over.min() > over.max() else (low, at)
    # Two pairs, one too long and one too short, bound every scale from below, wherever the search stopped.
    long, short = int(np.argmax(pairs.target - at * pairs.source)), int(np.argmax(at * pairs.source - pairs.target))
    a_long, b_long, a_short, b_short = (
        float(side[place]) for place in (long, short) for side in (pairs.source, pairs.target)
    )
    together = a_long + a_short
    return max(0.0, (b_long * a_short - b_short * a_long) / together) if together > 0 else max(b_long, b_short)


# Root mean square -------------------------------------------------------------------------------------------------


def _rms_certificate(moments: Moments, scale: float) -> tuple[float, float]:
    r"""The Procrustes RMS error and its bound :math:`\sqrt{\|G_Y-G_X\|_*}`, from moments alone.

    The Gram matrices are n x n, but the nonzero eigenvalues of their difference are those of
    :math:`R\,\mathrm{diag}(1,-1)R^\top` with :math:`R^\top R` the joint covariance of :math:`(Y,X)`.
    """
    n = moments.n
    xx, xy, yy = scale**2 * moments.xx / n, scale * moments.xy / n, moments.yy / n
    joint = np.block([[yy, xy.T], [xy, xx]])
    try:
        root = linalg.cholesky(joint)
    except linalg.LinAlgError:  # dependent columns
        values, vectors = linalg.eigh(joint)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    signs = np.concatenate([np.ones(len(yy)), -np.ones(len(xx))])
    nuclear = float(np.abs(linalg.eigvalsh((root * signs) @ root.T)).sum())
    square = float(np.trace(xx) + np.trace(yy) - 2 * linalg.svdvals(xy).sum())
    return float(np.sqrt(max(square, 0.0))), float(np.sqrt(nuclear))
