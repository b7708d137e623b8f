r"""Rotation of whitened rows to independent components.

All components minimise :math:`\sum_j c_j\,\mathbb E\,G(w_j^\top z)` over orthonormal :math:`w_j`, where the sign
:math:`c_j=\operatorname{sign}\alpha_j`, :math:`\alpha_j=\mathbb E\,g'(y_j)-\mathbb E\,g(y_j)y_j`, lets sub- and
super-Gaussian components be found together. Near the solution the curvature in the plane of two independent components
is :math:`|\alpha_i|+|\alpha_j|`; dividing the gradient by it is the symmetric fixed point [1]_, which the search
iterates, and the preconditioner of the quasi-Newton finish [2]_. Costs are counted in *sweeps*: passes over all rows at
all directions.

References
----------
.. [1] Hyvärinen, A. (1999). Fast and robust fixed-point algorithms for independent component analysis.
       IEEE Transactions on Neural Networks 10.
.. [2] Ablin, P., Cardoso, J.-F., Gramfort, A. (2018). Faster ICA under orthogonal constraint. ICASSP.
.. [3] Cardoso, J.-F. (1989). Source separation using higher order moments. ICASSP.

How well the data determine the rotation, plane by plane.

The symmetric fixed point on rows as they are, neither centred nor whitened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array
from .checkpoint import Keeper, Ledger, Report
from .contrasts import Contrast, contrast_named
from .newton import ROWS_A_DIMENSION, Finish, Outlook, converged, indistinct, look
from .search import PATIENCE, WIDE, fixed_point, orthonormal, search
from .white import Portrait, WhiteRows

_ROUGH = 10.0  # how much looser the rule is until other optima have been considered
_DEPENDENT = 4.0  # standard errors, about, by which two components depend on each other for certain
_MOSTLY_NOISE = 0.5  # share of components like noise from which the others are polished alone,
_SOME_NOISE = 0.05  # and in many dimensions, where polishing noise costs most
_RISING_PATIENCE = 12  # sweeps over what is left in which nothing more rises above noise,
_GROWING = 0.01  # and its contrast grows by less than this share
_RISEN_SHARE = 0.2  # of what is left that has risen when the rest goes on without it
_ROWS_A_PLANE = 0.25  # rows per squared dimension of what is left: with fewer its noise hides what is weak
_RESTARTS = 3
_ESCAPES = 5  # times that a saddle is left
_SADDLE = 3.0  # standard errors of a Gaussian component's curvature below zero that make a saddle
_BETTER = 1e-3  # relative gain in contrast that makes another optimum better
_CHANGES = 4  # times that components no better than noise change sides
_CHANGING_SHARE = 1 / 3  # of the weak components that may: where most are no better than noise, they are noise
_PREVAILING = 0.8  # mean sign of the other weak components that makes nearly all of them one-sided
_CHANGE_SWEEPS = 100  # over the weak components, that a change of sides may take


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rows of ``matrix`` are the components' directions in whitened space."""

    matrix: Array
    portrait: Portrait
    converged: bool
    sweeps: float
    path: list[tuple[float, float]]
    newton_step: Array


def rotate(
    rows: WhiteRows,
    contrast: Contrast,
    *,
    start: Array | None = None,
    start_rotation: Array | None = None,
    tol: float = 1e-4,
    max_iter: int = 200,
    seed: int = 0,
    keeper: Keeper | None = None,
    report: Report | None = None,
) -> Rotation:
    """Find the components. With a start, an orthogonal matrix near the solution, only the finish runs.

    ``start_rotation`` turns the search's own start by an orthogonal matrix: another start, that follows the data.
    """
    keeper = keeper or Keeper()
    ledger = Ledger(rows, max_iter, report)
    kept = keeper.load()
    if kept is not None:
        ledger.restore(kept.facts)
    stage = "search" if kept is None else kept.stage
    if start is None and rows.width > WIDE and rows.n < ROWS_A_DIMENSION * rows.width:
        matrix = np.eye(rows.width)  # whatever the search found, it would be called noise
        return Rotation(matrix, rows.portrait(matrix, contrast), True, ledger.spent, ledger.path, np.zeros(rows.width))
    if stage == "search":
        matrix = search(rows, contrast, ledger, seed, keeper, kept, start_rotation) if start is None else start
        finish = Finish(rows, orthonormal(matrix), contrast, ledger)
        if start is None and rows.width > WIDE:
            finish = _determined(finish, _SOME_NOISE)
    else:
        assert kept is not None
        finish = Finish(rows, kept.arrays["matrix"], contrast, ledger)
        finish.restore(kept)
    if stage != "last" and start is None and len(finish.matrix):
        finish.run(_ROUGH * tol, keeper=keeper, stage="rough")
        if rows.width > WIDE:
            finish = with_risen(finish, tol)
        finish, outlook = change_sides(finish, _ROUGH * tol, tol, early=True)
        if not ledger.exhausted:
            better = reconsider(rows, finish.matrix, outlook, contrast, ledger, np.random.default_rng(seed))
            if better is not None:
                finish = finish.again(better)
        if rows.width <= WIDE:
            finish = _determined(finish, _MOSTLY_NOISE)
    others = finish.others
    if len(finish.matrix) == 0:
        return Rotation(others, rows.portrait(others, contrast), True, ledger.spent, ledger.path, np.zeros(rows.width))
    outlook = finish.run(tol, keeper=keeper, stage="last")
    if start is None:
        finish, outlook = change_sides(finish, tol, tol, early=False)
    for escape in range(_ESCAPES + 1):
        matrix = finish.last_step(outlook) if converged(outlook, tol) and rows.width > 1 else finish.matrix
        portrait = rows.portrait(matrix, contrast)
        turned = leave_saddle(matrix, portrait, contrast, rows.n)
        if turned is None or ledger.exhausted or escape == _ESCAPES:
            break
        finish = finish.again(turned)
        outlook = finish.run(tol)
    step = outlook.newton_step
    if turned is not None:
        step = np.maximum(step, np.linalg.norm(turned - matrix, axis=1))
    if len(others):
        matrix = orthonormal(matrix)
        matrix = np.vstack([matrix, orthonormal(others - others @ matrix.T @ matrix)])
        portrait = rows.portrait(matrix, contrast)
        step = np.concatenate([step, np.zeros(len(others))])
    return Rotation(matrix, portrait, converged(outlook, tol) and turned is None, ledger.spent, ledger.path, step)


def _determined(finish: Finish, share: float) -> Finish:
    """The finish of only the directions above noise, if at least this share is not above it; otherwise of all."""
    gaussian = finish.look().gaussian
    if gaussian.mean() < share:
        return finish
    return finish.again(finish.matrix[~gaussian], finish.matrix[gaussian])


def with_risen(finish: Finish, tol: float) -> Finish:
    """Polish the remaining directions among themselves; those that rise above noise join the others.

    All are held on one side of Gaussian: first on the one that prevails in the remaining space, and when no more rise
    there on the other. Left to themselves, directions that have not found a source follow the noise, many of them to
    the side where no source is, and stay there. Light tails are sought by kurtosis, which has less noise for them. The
    cost is that of the remaining dimensions, and falls whenever a share of them has risen.
    """
    rows, ledger = finish.rows, finish.ledger
    reached, fruitless = finish.look().contrast, 0
    best = reached
    first: bool | None = None  # whether heavy tails prevail
    while fruitless < 2 and not ledger.exhausted:
        count = len(finish.others)
        if count < 2 or rows.n < _ROWS_A_PLANE * count**2:
            break
        matrix = orthonormal(finish.matrix)
        others = orthonormal(finish.others - finish.others @ matrix.T @ matrix)
        remaining = rows.project(others)
        if first is None:
            first = heavy = heavy_tailed(remaining)
            ledger.pay(remaining, count // 2)  # half of a sweep's products
        contrast = finish.contrast if heavy else contrast_named("cube")
        side = contrast.tails if heavy else -contrast.tails
        rest = Finish(remaining, np.eye(count), contrast, ledger, np.full(count, side))
        most, height, quiet = 0, -np.inf, 0
        while quiet < _RISING_PATIENCE and most < _RISEN_SHARE * count and not ledger.exhausted:
            outlook = rest.run(tol, sweeps=1)
            if heavy:
                best = max(best, reached + outlook.contrast)
            ledger.note(best, (1 - quiet / _RISING_PATIENCE) / 2)
            risen = ~indistinct(np.where(outlook.alpha * side > 0, outlook.alpha, 0.0), contrast, rows.n)
            grows = outlook.contrast > height + _GROWING * abs(height)  # noise is soon fitted as far as it can be
            quiet = 0 if grows or risen.sum() > most else quiet + 1
            most, height = max(most, int(risen.sum())), max(height, outlook.contrast)
            if converged(outlook, tol):
                quiet = _RISING_PATIENCE
        found = rest.matrix[risen]
        if heavy == first:
            left = rest.matrix[~risen]
        else:  # what does not rise on either side stays where the prevailing one led it
            left = np.eye(count) - found.T @ found
            left = left[np.argsort(-np.linalg.norm(left, axis=1), kind="stable")[: count - len(found)]]
            left = orthonormal(left) if len(found) else left
        finish = finish.again(np.vstack([matrix, found @ others]), left @ others)
        fruitless = fruitless + 1 if most < _RISEN_SHARE * count else 0
        heavy = heavy if fruitless == 0 else not heavy
    return finish


def heavy_tailed(rows: WhiteRows) -> bool:
    r"""Whether heavy tails prevail, by the excess kurtosis summed over any axes, :math:`E\|z\|^4-m(m+2)`."""
    return float(np.trace(rows.fourth_order())) >= rows.width * (rows.width + 2)


def leave_saddle(matrix: Array, portrait: Portrait, contrast: Contrast, n: int) -> Array | None:
    """Rotate the planes in which the contrast has no optimum by half a right angle; None if there are none.

    Sum and difference of two components are a saddle halfway between the two optima of their plane.
    """
    planes = conditioning(portrait)
    limit = -_SADDLE * np.sqrt(contrast.noise / n)
    below = np.argwhere(np.triu(planes, 1) < limit)
    if len(below) == 0:
        return None
    matrix = matrix.copy()
    free = np.ones(len(matrix), dtype=bool)
    for i, j in sorted(below.tolist(), key=lambda plane: planes[plane[0], plane[1]]):
        if free[i] and free[j]:
            matrix[i], matrix[j] = (matrix[i] + matrix[j]) / np.sqrt(2), (matrix[j] - matrix[i]) / np.sqrt(2)
            free[i] = free[j] = False
    return matrix


def change_sides(finish: Finish, tol: float, inner_tol: float, *, early: bool) -> tuple[Finish, Outlook]:
    """Seek components that are no better than noise on the other side of Gaussian, as long as that finds better ones.

    Where all sources are weak, a direction that has not found its source yet follows the noise, which decides the side
    of Gaussian. On the wrong side the direction is stuck, with its source spread over the other weak components. Held
    on the other side, all weak components together recover the source. Early, before the contrast has converged, that
    is only worth trying where nearly all weak components are on one side.
    """
    rows, contrast, ledger = finish.rows, finish.contrast, finish.ledger
    outlook = finish.run(tol)
    for _ in range(_CHANGES):
        size = np.abs(outlook.alpha)
        noise = np.sqrt(contrast.noise / rows.n)
        weak = np.flatnonzero(size <= contrast.reach * noise * np.sqrt(rows.width))
        lost = size <= noise * np.sqrt(len(weak))  # most directions of pure noise in as many dimensions get further
        if ledger.exhausted or not 0 < lost.sum() <= _CHANGING_SHARE * len(weak):
            break
        signs = other_sides(outlook.signs[weak], lost[weak], early)
        if signs is None:
            break
        inside, inner = rows.project(finish.matrix[weak]), np.eye(len(weak))
        before = look(inner, inside.sweep(inner, contrast), contrast, rows.n)
        ledger.pay(inside, len(weak))
        path, ledger.path = ledger.path, []  # what is only tried is not on the way
        held = Finish(inside, inner, contrast, ledger, signs)
        held.run(inner_tol, sweeps=_CHANGE_SWEEPS)
        freed = Finish(inside, held.matrix, contrast, ledger)
        after = freed.run(inner_tol, sweeps=_CHANGE_SWEEPS)
        ledger.path = path
        if after.contrast <= before.contrast + _BETTER * abs(outlook.contrast):
            break
        matrix = finish.matrix.copy()
        matrix[weak] = freed.matrix @ matrix[weak]
        finish = finish.again(matrix)
        outlook = finish.run(tol)
    return finish, outlook


def other_sides(signs: Array, lost: Array, early: bool) -> Array | None:
    """Signs for another try, if any: that of nearly all weak components for all, or the opposite for lost ones."""
    prevailing = float(np.mean(signs[~lost]))
    side = np.sign(prevailing)
    if abs(prevailing) >= _PREVAILING and (signs[lost] != side).any():
        return np.full(len(signs), side)
    return None if early else np.where(lost, -signs, signs)


def reconsider(
    rows: WhiteRows, matrix: Array, outlook: Outlook, contrast: Contrast, ledger: Ledger, rng: np.random.Generator
) -> Array | None:
    """Better optima for sub-Gaussian components that depend on each other, if a few restarts find any.

    Clusters are the usual cause: along one direction they are bimodal (sub-Gaussian), along another one cluster is
    separated from the rest (super-Gaussian). Which of the two a component converges to is decided early, by chance.
    Weak components take part, as they can change easily.
    """
    below = np.flatnonzero(outlook.signs < 0)
    if len(below) < 2:
        return None
    portrait = rows.project(matrix[below]).portrait(np.eye(len(below)), contrast)
    excess = np.abs(portrait.pairs - portrait.slope[:, None])
    np.fill_diagonal(excess, 0)
    limit = _DEPENDENT / np.sqrt(rows.n)
    if not (excess > limit).any():
        return None
    size = np.abs(outlook.alpha)
    moved = np.flatnonzero((outlook.signs < 0) | (size <= np.median(size)))
    if len(moved) > WIDE:  # restarts in many dimensions find nothing: the most dependent ones, and the weakest
        dependence = np.zeros(len(size))
        dependence[below] = np.maximum(excess.max(axis=0), excess.max(axis=1))
        dependent = np.argsort(-dependence, kind="stable")[: min(int((dependence > limit).sum()), WIDE // 2)]
        weakest = np.argsort(size, kind="stable")
        weakest = weakest[~np.isin(weakest, dependent)]
        moved = np.sort(np.concatenate([dependent, weakest[: WIDE - len(dependent)]]))
    inside = rows.project(matrix[moved])
    portrait = inside.portrait(np.eye(len(moved)), contrast)
    best = float(np.abs(contrast.normal_value - portrait.value).sum()) * (1 + _BETTER)
    upright = np.where(portrait.third >= 0, 1.0, -1.0)  # so that restarts do not depend on arbitrary signs
    found = None
    path = ledger.path
    for _ in range(_RESTARTS):
        ledger.path = []  # other optima are not on the way
        inner = orthonormal(rng.standard_normal((len(moved), len(moved)))) * upright
        for _ in range(PATIENCE):
            sweep = inside.sweep(inner, contrast)
            ledger.pay(inside, len(moved))
            inner, _ = fixed_point(inner, sweep)
        trial = Finish(inside, inner, contrast, ledger)
        reached = trial.run(1e-3).contrast
        if reached > best:
            best, found = reached, trial.matrix
    ledger.path = path
    if found is None:
        return None
    matrix = matrix.copy()
    matrix[moved] = found @ matrix[moved]
    return matrix


def uncertainty(portrait: Portrait, n: int) -> Array:
    r"""Sampling error of each direction, in radians, if components are independent.

    The overlap of component :math:`i` with component :math:`j` has variance
    :math:`(\gamma_i+\gamma_j+\alpha_j^2)/n(|\alpha_i|+|\alpha_j|)^2` with
    :math:`\gamma=\mathbb E\,g(y)^2-(\mathbb E\,g(y)y)^2` [1]_, whitening included; a direction's variance is the sum
    over the others. It is too small where the curvature itself is mostly noise.

    References
    ----------
    .. [1] Tichavský, P., Koldovský, Z., Oja, E. (2006). Performance analysis of the FastICA algorithm and Cramér-Rao
           bounds for linear independent component analysis. IEEE Transactions on Signal Processing 54.
    """
    noise = np.maximum(portrait.square - portrait.product**2, 0)
    size = np.abs(portrait.alpha)
    planes = (noise[:, None] + noise[None, :] + size[None, :] ** 2) / (
        n * np.maximum(size[:, None] + size[None, :], 1e-12) ** 2
    )
    return np.asarray(np.sqrt(np.maximum(planes.sum(axis=1) - np.diagonal(planes), 0)))


def conditioning(portrait: Portrait) -> Array:
    r"""Second variation of the contrast in the plane of every two components.

    .. math:: h_{ij}=\tfrac12\{c_i[\mathbb Eg'(y_i)y_j^2-\mathbb Eg(y_i)y_i]
              +c_j[\mathbb Eg'(y_j)y_i^2-\mathbb Eg(y_j)y_j]\}

    with :math:`c_j=\operatorname{sign}\alpha_j`. Two components with a small :math:`h_{ij}` may rotate into each other
    at little cost; where it is negative the point is a saddle. The smallest one bounds the constant :math:`\gamma` of
    the perturbation lemma from above. The diagonal holds :math:`|\alpha_j|`, a component's curvature against noise.
    """
    signs = np.where(portrait.alpha >= 0, 1.0, -1.0)
    one_way = signs[:, None] * (portrait.pairs - portrait.product[:, None])
    planes = (one_way + one_way.T) / 2
    np.fill_diagonal(planes, np.abs(portrait.alpha))
    return np.asarray(planes)


def rotate_unwhitened(rows: WhiteRows, matrix: Array, contrast: Contrast, tol: float, max_iter: int) -> Rotation:
    """The symmetric fixed point on rows as they are: step and stopping rule of FastICA with ``whiten=False``."""
    path: list[tuple[float, float]] = []
    matrix, settled = orthonormal(matrix), False
    while not settled and len(path) < max_iter:
        sweep = rows.sweep(matrix, contrast)
        if not np.isfinite(np.linalg.norm(sweep.cross)):
            raise InputError("X holds values that are not finite, or so large that their products overflow")
        path.append((len(path) + 1.0, float(np.abs(contrast.normal_value - sweep.value).sum())))
        moved = orthonormal(sweep.cross - sweep.slope[:, None] * matrix)
        turned = np.abs(np.abs(np.einsum("ij,ij->i", moved, matrix)) - 1)
        matrix, settled = moved, float(turned.max()) < tol
    return Rotation(matrix, rows.portrait(matrix, contrast), settled, len(path), path, turned)
