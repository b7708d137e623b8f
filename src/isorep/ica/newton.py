"""Quasi-Newton steps on the orthogonal group, polishing all components together.

Where most of the remaining gain lies in a few components, an excursion into their subspace gets it at a fraction of
the cost. Where only some components can be determined, these are polished alone, in all dimensions: they rotate among
themselves and into the span of the others, at a cost proportional to their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..representation import Array
from .checkpoint import FitState, Keeper, Ledger
from .contrasts import Contrast
from .white import Sweep, WhiteRows

_CONCENTRATED = 0.95  # share of the gain that makes an excursion worth it, if it lies in ...
_AMONG = 0.6  # share of the gain that must lie in planes of two of them
_EXCURSION_SHARE = 0.4  # ... at most this share of the components
_EXCURSION_GOAL = 0.05  # share of its gain that an excursion leaves
_EXCURSION_SWEEPS = 40
_MEMORY = 8
_LONGEST_STEP = 0.7  # largest rotation of a component in one step, in radians
ROWS_A_DIMENSION = 2.0  # with fewer, some projection of any data looks like anything
_ROUNDING = 1e-8  # of a component's contrast in single precision
_SMALLEST_STEP = 1e-7  # a step this small that still loses contrast has met rounding


@dataclass(frozen=True, eq=False)
class Outlook:
    """Gradient, curvature and contrast after a sweep.

    ``gradient`` and ``curvature`` have a column for every component, and, where components are fewer than dimensions,
    one for every further dimension: rotations into the space that the components do not span. Such a plane occurs once
    and that of two components twice, so its gradient is multiplied by the root of two.
    """

    alpha: Array
    signs: Array
    gradient: Array
    curvature: Array
    gaussian: Array
    contrast: float

    @cached_property
    def planes(self) -> Array:
        """The predicted gain of a Newton step in every plane, half of it for each of its two components."""
        return np.asarray(self.gradient**2 / self.curvature / 4)

    @cached_property
    def gains(self) -> Array:
        """For each component half of the predicted gain of its planes; they add up to the whole."""
        return np.asarray(self.planes.sum(axis=1))

    @property
    def newton_step(self) -> Array:
        """How far each component would rotate in a Newton step, in radians."""
        return np.asarray(np.linalg.norm(self.gradient / self.curvature, axis=1))


def look(matrix: Array, sweep: Sweep, contrast: Contrast, n: int, signs: Array | None = None) -> Outlook:
    """Gradient, curvature and contrast from a sweep over ``n`` rows; signs follow the components if none are given."""
    products = sweep.cross @ matrix.T
    alpha = sweep.slope - np.diagonal(products)
    if signs is None:
        signs = np.where(alpha >= 0, 1.0, -1.0)
    signed = signs[:, None] * products
    gradient = signed - signed.T
    size = np.abs(alpha)
    curvature = size[:, None] + size[None, :]
    gaussian = indistinct(alpha, contrast, n)
    if matrix.shape[0] < matrix.shape[1]:
        outside = signs[:, None] * (sweep.cross - products @ matrix)
        gradient = np.hstack([gradient, np.sqrt(2) * outside])
        curvature = np.hstack([curvature, np.repeat(size[:, None], matrix.shape[1], axis=1)])
        gaussian = np.zeros(len(gaussian), dtype=bool)  # they have been chosen
    floor = max(1e-3 * float(np.median(curvature)), 1e-12)
    reached = float((signs * (contrast.normal_value - sweep.value)).sum())
    return Outlook(alpha, signs, gradient, np.maximum(curvature, floor), gaussian, reached)


def indistinct(alpha: Array, contrast: Contrast, n: int) -> Array:
    r"""Which components are indistinguishable from Gaussian.

    In :math:`m` dimensions of Gaussian noise the best directions reach a curvature :math:`|\alpha|` of about
    :math:`\sqrt{mv/n}`, where :math:`v/n` is the variance of :math:`\alpha` along a given direction; hardly any reaches
    twice that (thrice under the heavy-tailed cube). The result is the largest set of components that all stay below it
    for their number; with fewer than two rows per dimension, all of them.
    """
    size = np.abs(alpha)
    order = np.argsort(size, kind="stable")
    reach = contrast.reach * np.sqrt(contrast.noise / n * np.arange(1, len(size) + 1))
    within = np.flatnonzero(size[order] <= reach)
    mask = np.full(len(size), n < ROWS_A_DIMENSION * len(size))
    if len(within) and within[-1] > 0:  # a single one is determined by the others
        mask[order[: within[-1] + 1]] = True
    return mask


def converged(outlook: Outlook, tol: float) -> bool:
    r"""Convergence rule, by the Newton step and the contrast.

    The curvature-weighted root mean square of the angles by which a Newton step would rotate planes is at most
    ``tol``, and its relative gain in contrast at most a tenth of ``tol``. Planes of two components that are
    indistinguishable from Gaussian rotate freely: their predicted gain may be ``tol`` of the contrast.
    """
    return distance(outlook, tol) <= 1


def distance(outlook: Outlook, tol: float) -> float:
    """The predicted gain, in units of what the rule allows."""
    gaussian = np.flatnonzero(outlook.gaussian)
    whole = float(outlook.gains.sum())
    real = whole - float(outlook.planes[np.ix_(gaussian, gaussian)].sum())
    stiffness = float(outlook.curvature.sum() - np.trace(outlook.curvature)) / 4
    contrast = max(abs(outlook.contrast), 1e-12)
    strict = real / max(min(tol**2 * stiffness, 0.1 * tol * contrast), 1e-14)
    return max(strict, whole / max(tol * contrast, 1e-14))


class Finish:
    """Quasi-Newton steps until the predicted gain is negligible.

    With ``held`` signs each component is sought on one side of Gaussian, whichever side it is on at the moment. A
    matrix with fewer rows than dimensions is polished as it is; ``others`` are directions that do not move.
    """

    def __init__(
        self,
        rows: WhiteRows,
        matrix: Array,
        contrast: Contrast,
        ledger: Ledger,
        held: Array | None = None,
        others: Array | None = None,
    ) -> None:
        self.rows, self.matrix, self.contrast, self.ledger = rows, matrix, contrast, ledger
        self._held = held
        self.others = np.empty((0, rows.width)) if others is None else others
        self._outlook: Outlook | None = None  # of the matrix, once it has been swept
        self._memory = Memory()
        self._step: Array | None = None  # the step just taken, and what was there before it
        self._begun = self._gradient = self._signs = np.empty(0)
        self._contrast = 0.0

    def again(self, matrix: Array, others: Array | None = None) -> Finish:
        """A finish of the same rows that begins at another matrix."""
        return Finish(self.rows, matrix, self.contrast, self.ledger, others=self.others if others is None else others)

    def look(self) -> Outlook:
        """The outlook at the matrix, by a sweep if there was none yet."""
        if self._outlook is None:
            sweep = self.rows.sweep(self.matrix, self.contrast)
            self.ledger.pay(self.rows, len(self.matrix))
            self._outlook = look(self.matrix, sweep, self.contrast, self.rows.n, self._held)
        return self._outlook

    def run(
        self,
        tol: float,
        *,
        goal: float = 0.0,
        sweeps: int | None = None,
        keeper: Keeper | None = None,
        stage: str = "",
    ) -> Outlook:
        """Iterate until the rule holds; an excursion has a goal for the gain and a limit of sweeps instead."""
        taken = 0
        while True:
            if self._outlook is None:
                if keeper is not None and keeper.due():
                    keeper.save(self.kept(stage))
                sweep = self.rows.sweep(self.matrix, self.contrast)
                self.ledger.pay(self.rows, len(self.matrix))
                taken += 1
                if self._has_lost(sweep) and not self.ledger.exhausted:
                    self._shorten()
                    continue
                self._outlook = look(self.matrix, sweep, self.contrast, self.rows.n, self._held)
                self._learn(self._outlook)
                far = distance(self._outlook, tol)
                if sweeps is None:
                    self.ledger.note(self._outlook.contrast, min(1.0, np.log1p(far) / 50))
            outlook = self._outlook
            gain = float(outlook.gains.sum())
            spent = sweeps is not None and taken >= sweeps
            if gain <= goal or converged(outlook, tol) or self.ledger.exhausted or spent:
                return outlook
            few = concentrated(outlook)
            if few is None or not self._excursion(few, gain):
                self._advance(outlook)

    def last_step(self, outlook: Outlook) -> Array:
        """The matrix after one more step, too small to need a confirming sweep."""
        self._advance(outlook)
        return self.matrix

    def _has_lost(self, sweep: Sweep) -> bool:
        """Whether the last step lost contrast, with the signs from before it, by more than rounding."""
        if self._step is None or np.abs(self._step).max() < _SMALLEST_STEP:
            return False
        now = float((self._signs * (self.contrast.normal_value - sweep.value)).sum())
        return bool(now < self._contrast - _ROUNDING * np.sqrt(len(self._signs)))

    def _shorten(self) -> None:
        """Take a quarter of the last step instead."""
        assert self._step is not None
        self._memory.clear()
        self._step = self._step / 4
        self.matrix = turn(self._begun, self._step)

    def _learn(self, outlook: Outlook) -> None:
        if self._step is None:
            return
        if (outlook.signs == self._signs).all():
            self._memory.learn(self._step, outlook.gradient - self._gradient)
        else:  # it is the gradient of another function
            self._memory.clear()

    def _advance(self, outlook: Outlook) -> None:
        step = self._memory.step(outlook.gradient, outlook.curvature)
        longest = float(np.linalg.norm(step, axis=1).max())
        self._step = step * (_LONGEST_STEP / max(longest, _LONGEST_STEP))  # an exactly stationary point has no step
        self._begun, self._gradient, self._signs = self.matrix, outlook.gradient, outlook.signs
        self._contrast = outlook.contrast
        self.matrix = turn(self.matrix, self._step)
        self._outlook = None

    def _excursion(self, few: Array, gain: float) -> bool:
        """Finish a few components among themselves; whether that moved them."""
        begun = np.eye(len(few))
        held = None if self._held is None else self._held[few]
        inside = Finish(self.rows.project(self.matrix[few]), begun, self.contrast, self.ledger, held)
        inside.run(0.0, goal=_EXCURSION_GOAL * gain, sweeps=_EXCURSION_SWEEPS)
        if inside.matrix is begun:
            return False
        self.matrix = self.matrix.copy()
        self.matrix[few] = inside.matrix @ self.matrix[few]
        self._memory.clear()
        self._step = self._outlook = None
        return True

    def kept(self, stage: str) -> FitState:
        """The state before a sweep."""
        arrays = {"matrix": self.matrix, "others": self.others}
        facts = self.ledger.facts() | {"contrast": self._contrast, "pairs": len(self._memory.pairs)}
        if self._step is not None:
            arrays |= {"step": self._step, "begun": self._begun, "gradient": self._gradient, "signs": self._signs}
        for place, (step, change) in enumerate(self._memory.pairs):
            arrays |= {f"step.{place}": step, f"change.{place}": change}
        return FitState(stage, arrays, facts)

    def restore(self, kept: FitState) -> None:
        """Resume from a state."""
        arrays = kept.arrays
        self.matrix, self.others, self._contrast = arrays["matrix"], arrays["others"], kept.facts["contrast"]
        if "step" in arrays:
            self._step, self._begun = arrays["step"], arrays["begun"]
            self._gradient, self._signs = arrays["gradient"], arrays["signs"]
        for place in range(kept.facts["pairs"]):
            self._memory.pairs.append((arrays[f"step.{place}"], arrays[f"change.{place}"]))


def concentrated(outlook: Outlook) -> Array | None:
    """The few components whose planes among themselves hold most of the gain, if they are few."""
    gains = outlook.gains
    order = np.argsort(-gains, kind="stable")
    share = np.cumsum(gains[order])
    few = int(np.searchsorted(share, _CONCENTRATED * share[-1])) + 1
    if few < 2 or few > _EXCURSION_SHARE * len(gains):
        return None
    chosen = np.sort(order[:few])
    inside = np.ix_(chosen, chosen)
    among = float(outlook.planes[inside].sum())
    return chosen if among > _AMONG * share[-1] else None


def turn(matrix: Array, step: Array) -> Array:
    """Orthonormal rows after a step among themselves and, if it has more columns than there are rows, out of them."""
    count = len(matrix)
    if step.shape[1] == count:
        return cayley(step) @ matrix
    outside = step[:, count:] / np.sqrt(2)
    outside -= outside @ matrix.T @ matrix
    axes, weights = np.linalg.qr(outside.T)
    whole = np.zeros((2 * count, 2 * count))
    whole[:count, :count] = step[:, :count]
    whole[:count, count:], whole[count:, :count] = weights.T, -weights
    rotation = cayley(whole)[:count]
    return np.asarray(rotation[:, :count] @ matrix + rotation[:, count:] @ axes.T)


def cayley(step: Array) -> Array:
    """The rotation of a skew-symmetric step: equal to its exponential to second order, and exactly orthogonal."""
    half = step / 2
    eye = np.eye(len(step))
    return np.asarray(np.linalg.solve(eye - half, eye + half))


class Memory:
    """Limited-memory BFGS on skew-symmetric matrices."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Array, Array]] = []

    def clear(self) -> None:
        """Forget everything."""
        self.pairs = []

    def learn(self, step: Array, change: Array) -> None:
        """Remember how the gradient changed over a step, if that shows curvature."""
        if float(np.vdot(step, change)) > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs = [*self.pairs[1 - _MEMORY :], (step, change)]

    def step(self, gradient: Array, curvature: Array) -> Array:
        """The quasi-Newton step from a gradient and the diagonal curvature."""
        direction = gradient.copy()
        shown = [float(np.vdot(step, change)) for step, change in self.pairs]
        weights = []
        for (step, change), curved in zip(reversed(self.pairs), reversed(shown), strict=True):
            weight = float(np.vdot(step, direction)) / curved
            direction -= weight * change
            weights.append(weight)
        direction /= curvature
        for (step, change), curved, weight in zip(self.pairs, shown, reversed(weights), strict=True):
            direction += step * (weight - float(np.vdot(change, direction)) / curved)
        return -direction
