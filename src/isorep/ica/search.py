"""FOBI and the symmetric fixed point: from the fourth-order start to the neighbourhood of every component.

Strong components are found first in any case, so only the less Gaussian half of the directions is iterated, at half
the cost. Directions that have converged are removed; the rows are projected onto the remaining space, and so on. In
many dimensions outlying rows are starts as well, since they lie near the components that make them outlying. The
search ends when no more directions exceed the level of Gaussian noise: further sweeps would only fit noise.
"""

from __future__ import annotations

import numpy as np

from ..representation import Array
from .checkpoint import FitState, Keeper, Ledger
from .contrasts import Contrast
from .white import Sweep, WhiteRows

ROWS_A_PLANE = 32.0  # rows the search uses, per squared dimension: with 8 weak components were missed for good
LEAST_ROWS = 50_000  # few dimensions are cheap, so all rows of ordinary data take part
_WORKING_SHARE = 0.5  # of the remaining directions that are iterated at once
_LEAST_WORKING = 64  # weak components hold each other in place, so the last ones are iterated together
_SETTLED = 0.15  # radians a direction still moves in a sweep when it leaves
_LEAVE_SHARE = 0.2  # of the remaining directions that must have settled before the rest is projected
PATIENCE = 15  # sweeps without that happening, and without more contrast, before the search ends
_WIDE_PATIENCE = 3  # the same in many dimensions, where what is weak rises later in a space of its own,
_FIRST_PATIENCE = 5  # and before anything has been found
_RISING = 0.02  # relative gain in contrast that counts as more: weak components take long to rise out of the noise
WIDE = 128  # dimensions beyond which only what rises above noise counts as more: all there is costs too much
_SEARCH_SHARE = 0.6  # of all sweeps that the search may take
_APART = 0.7  # sine of the angle to the starts already chosen that makes another one
_SCREENED = 64  # starts that are held against the chosen ones at once


def search(
    rows: WhiteRows,
    contrast: Contrast,
    ledger: Ledger,
    seed: int,
    keeper: Keeper,
    kept: FitState | None,
    start_rotation: Array | None = None,
) -> Array:
    """All directions, each near its own component, or where the search left it without convergence."""
    width = rows.width
    wanted = max(int(ROWS_A_PLANE * width**2), LEAST_ROWS)
    here = rows.sample(wanted, np.random.default_rng(seed))
    if kept is None:
        done: list[Array] = []
        steps: list[Array] = []  # the projections made so far, to be made again when a checkpoint is taken up
        found = 0.0  # contrast of the directions that have left
        directions = fobi_start(here) if width <= WIDE else outlying_start(here, contrast)
        if start_rotation is not None:
            directions = start_rotation @ upright(here, directions, contrast)
        base = np.eye(width)  # of the space that is left, in the coordinates of all rows
    else:
        done = [kept.arrays["done"]]
        steps = [kept.arrays[f"projection.{place}"] for place in range(kept.facts["projections"])]
        found, base = kept.facts["found"], kept.arrays["base"]
        for projection in steps:
            here = here.project(projection)
        directions = _next_directions(here, contrast, kept.facts["stalled"])
    quiet = 0 if kept is None else kept.facts["quiet"]  # sweeps in which nothing has risen above noise
    while True:
        patience = PATIENCE if here.width <= WIDE else _WIDE_PATIENCE if found else _FIRST_PATIENCE
        moving, waiting, settled, reached, quiet = _settle(
            here, directions, contrast, ledger, found, len(base) / width, quiet, patience
        )
        if not settled.any() or _used_up(ledger) or (here.width > WIDE and quiet >= patience):
            done.append(np.vstack([moving, waiting]) @ base)
            break
        done.append(moving[settled] @ base)
        found += float(reached[settled].sum())
        if len(waiting):
            waiting = orthonormal(waiting - waiting @ moving.T @ moving)
        rest = np.vstack([moving[~settled], waiting])
        if len(rest) == 0:
            break
        stalled = len(rest) > WIDE and settled.sum() < _LEAVE_SHARE * here.width
        here, base = here.project(rest), rest @ base
        directions = _next_directions(here, contrast, stalled)
        quiet = 0 if stalled else quiet
        steps.append(rest)
        if keeper.due():
            arrays = {f"projection.{place}": each for place, each in enumerate(steps)}
            facts = ledger.facts() | {
                "found": found,
                "projections": len(steps),
                "quiet": quiet,
                "stalled": bool(stalled),
            }
            keeper.save(FitState("search", arrays | {"done": np.vstack(done), "base": base}, facts))
    return orthonormal(np.vstack(done))


def _next_directions(rows: WhiteRows, contrast: Contrast, stalled: bool) -> Array:
    """The next directions in the remaining space: the current ones, or new starts if the search stalled."""
    return outlying_start(rows, contrast) if stalled else np.eye(rows.width)


def _settle(
    rows: WhiteRows,
    directions: Array,
    contrast: Contrast,
    ledger: Ledger,
    found: float,
    left: float,
    quiet: int,
    patience: int,
) -> tuple[Array, Array, Array, Array, int]:
    """Iterate some directions until enough have converged: those, the others, which converged, their contrasts.

    The last number continues, from ``quiet``, the count of sweeps in which no direction was above noise.
    """
    working = max(int(np.ceil(_WORKING_SHARE * rows.width)), min(_LEAST_WORKING, rows.width))
    moving, waiting = directions[:working], directions[working:]
    best, waited = 0.0, 0
    while True:
        sweep = rows.sweep(moving, contrast)
        ledger.pay(rows, len(moving))
        reached = np.abs(contrast.normal_value - sweep.value)
        total = float(reached.sum())
        ledger.note(found + total, left)
        risen = _above_noise(moving, sweep, contrast, rows)
        quiet = 0 if risen.any() else quiet + 1
        if rows.width > WIDE:
            total = float(reached[risen].sum())
        moving, moved = fixed_point(moving, sweep)
        settled = moved < _SETTLED
        waited = 0 if total > (1 + _RISING) * best else waited + 1
        best = max(best, total)
        enough = settled.sum() >= _LEAVE_SHARE * rows.width or settled.all()
        if enough or waited == patience or _used_up(ledger):
            return moving, waiting, settled, reached, quiet


def _above_noise(directions: Array, sweep: Sweep, contrast: Contrast, rows: WhiteRows) -> Array:
    """Which directions have more curvature than the best ones of Gaussian noise in as many dimensions."""
    alpha = sweep.curvature(directions)
    return np.asarray(np.abs(alpha) > contrast.reach * np.sqrt(contrast.noise / rows.n * rows.width))


def _used_up(ledger: Ledger) -> bool:
    return ledger.spent >= _SEARCH_SHARE * ledger.limit


def fobi_start(rows: WhiteRows) -> Array:
    r"""Fourth-order blind identification (FOBI, Cardoso 1989): eigenvectors of :math:`E[\|z\|^2zz^\top]` as rows.

    Those of the least Gaussian eigenvalues come first. They follow any rotation of the data, so the result does
    not depend on the basis of the data.
    """
    values, vectors = np.linalg.eigh(rows.fourth_order())
    order = np.argsort(-np.abs(values - (rows.width + 2)), kind="stable")
    return np.asarray(vectors.T[order])


def outlying_start(rows: WhiteRows, contrast: Contrast) -> Array:
    """Orthonormal directions that begin with the best of two kinds of starts: outlying rows and those of FOBI.

    All are moved by one step of the fixed point. Those with the largest curvature are taken first, each orthogonalised
    against those before it and skipped if little of it remains. The other directions are FOBI's.
    """
    width = rows.width
    fobi, outlying = fobi_start(rows), rows.outlying(width)
    starts = np.vstack([outlying / np.linalg.norm(outlying, axis=1, keepdims=True), fobi[: width // 2]])
    sweep = rows.sweep(starts, contrast)
    alpha = sweep.curvature(starts)
    moved = np.where(alpha >= 0, 1.0, -1.0)[:, None] * (sweep.slope[:, None] * starts - sweep.cross)
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300)
    chosen = far_apart(moved[np.argsort(-np.abs(alpha), kind="stable")], int(np.ceil(_WORKING_SHARE * width)))
    rest = fobi - fobi @ chosen.T @ chosen
    most_left = np.argsort(-np.linalg.norm(rest, axis=1), kind="stable")[: width - len(chosen)]
    return orthonormal(np.vstack([chosen, orthonormal(rest[most_left])]))


def far_apart(vectors: Array, most: int) -> Array:
    """Up to ``most`` of the unit vectors, in order, orthogonalised against earlier ones, at unit length."""
    chosen = np.empty((0, vectors.shape[1]))
    for start in range(0, len(vectors), _SCREENED):
        block = vectors[start : start + _SCREENED]
        block = block - block @ chosen.T @ chosen
        fresh = np.empty((0, vectors.shape[1]))
        for vector in block:
            left = vector - fresh.T @ (fresh @ vector)
            length = float(np.linalg.norm(left))
            if length > _APART and len(chosen) + len(fresh) < most:
                fresh = np.vstack([fresh, left / length])
        chosen = np.vstack([chosen, fresh])
    return chosen


def upright(rows: WhiteRows, directions: Array, contrast: Contrast) -> Array:
    """Directions with non-negative skewness, so that results do not depend on arbitrary signs."""
    third = rows.portrait(directions, contrast).third
    return directions * np.where(third >= 0, 1.0, -1.0)[:, None]


def fixed_point(directions: Array, sweep: Sweep) -> tuple[Array, Array]:
    """One step of the symmetric fixed point, and the angle by which each direction moved."""
    alpha = sweep.curvature(directions)
    signs = np.where(alpha >= 0, 1.0, -1.0)
    moved = orthonormal(signs[:, None] * (sweep.slope[:, None] * directions - sweep.cross))
    cosine = np.abs(np.einsum("ij,ij->i", moved, directions))
    return moved, np.sqrt(2 * np.maximum(1 - cosine, 0))


def orthonormal(rows: Array) -> Array:
    """The nearest matrix with orthonormal rows."""
    values, vectors = np.linalg.eigh(rows @ rows.T)  # numpy's lets other threads run, scipy's does not
    if values[0] > 1e-8 * values[-1]:
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T @ rows)
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(left @ right)
