r"""Generalised Procrustes: one space for all runs, from joint moments alone.

.. math:: \max_{Q_i}\ \sum_{i<j}\operatorname{tr}(Q_i^\top C_{ij}Q_j)

over row-orthonormal :math:`Q_i` (Gower 1975), with every run at unit RMS radius and narrower ones padded by zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..moments import JointMoments
from ..representation import Array, as_representation
from ..results import Record
from ..row_span import RowSpan
from ..threads import one_blas_thread

MOST_SWEEPS = 50
_SETTLED = 1e-5  # gain of a sweep, relative to the objective


@dataclass(frozen=True, eq=False)
class Consensus(Record):
    """Consensus space: the mean of all runs after each was rotated onto the others, in its principal axes.

    All numbers are in-sample: measured on the rows that the rotations were fitted to.

    Attributes
    ----------
    rotations : tuple of (d_i, w) arrays
        Rotation of each run into the common space, which is as wide as the widest run, or as there are rows.
    shares : (R,) array
        Share of each run's variance that the mean of the *other* runs explains, with one scale.
    spectrum : (w,) array
        Variance of the consensus along its axes, largest first; the sum is 1 where all runs are equal.
    agreement : (w,) array
        Per axis, the mean covariance of two runs over their mean variance: 1 if all runs agree, 0 if they share
        nothing.
    sweeps : int
    converged : bool
    """

    names: tuple[str, ...]
    means: tuple[Array, ...]
    radii: tuple[float, ...]
    rotations: tuple[Array, ...]
    shares: Array
    spectrum: Array
    agreement: Array
    sweeps: int
    converged: bool

    @property
    def share(self) -> float:
        """The mean of the runs' shares."""
        return float(self.shares.mean())

    def transform(self, run: int | str, X: Any) -> Array:
        """Rows of a run, given by place or name, in the consensus space."""
        index = self._place(run)
        values = np.asarray(as_representation(X, self.names[index]).values[:], dtype=np.float64)
        if values.shape[1] != len(self.means[index]):
            raise InputError(f"X has {values.shape[1]} columns and {self.names[index]} has {len(self.means[index])}")
        return np.asarray((values - self.means[index]) / self.radii[index] @ self.rotations[index])

    def average(self, runs: Sequence[Any]) -> Array:
        """The consensus of rows that are given for every run: the mean of their images."""
        if len(runs) != len(self.names):
            raise InputError(f"{len(runs)} runs were given where the consensus has {len(self.names)}")
        images = (self.transform(index, run) for index, run in enumerate(runs))
        return np.asarray(sum(images) / len(self.names))

    def in_columns(self, spans: Sequence[RowSpan]) -> Consensus:
        """The same for rows in their columns, where it was found in the coordinates of their spans."""
        rotations = tuple(span.axes.T @ each for span, each in zip(spans, self.rotations, strict=True))
        return replace(self, means=tuple(span.mean for span in spans), rotations=rotations)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the rotations stay out, they are as large as the runs are wide."""
        kept = {
            name: getattr(self, name) for name in ("shares", "share", "spectrum", "agreement", "sweeps", "converged")
        }
        return kept | {"measured": "in sample: on the rows that the rotations were fitted to"}

    def _place(self, run: int | str) -> int:
        if isinstance(run, str):
            if run not in self.names:
                raise InputError(f"there is no run {run!r}: known are {', '.join(self.names)}")
            return self.names.index(run)
        if not -len(self.names) <= run < len(self.names):
            raise InputError(f"there is no run {run}: there are {len(self.names)}")
        return int(run) % len(self.names)


def find_consensus(total: JointMoments, names: Sequence[str], radii: Sequence[float]) -> Consensus:
    """Rotate every run onto the sum of the others, in turn, until the objective hardly improves."""
    frames = _Frames(total, radii)
    order = _from_the_centre(frames)
    with one_blas_thread:  # products of this size are faster without BLAS threads
        for place, run in enumerate(order[1:], 1):
            frames.turn(run, order[:place])
        converged, sweeps = False, 0
        while not converged and sweeps < MOST_SWEEPS:
            turns = [frames.turn(run, [other for other in order if other != run]) for run in order]
            # Every pair is counted from both sides: half of the sum is the objective.
            converged = sum(gain for _, gain in turns) <= _SETTLED / 2 * sum(reached for reached, _ in turns)
            sweeps += 1
        traces = frames.settle()
    return Consensus(
        names=tuple(names),
        means=tuple(total.mean[total.columns(run)] for run in range(frames.count)),
        radii=tuple(radii),
        rotations=tuple(frames.rotations),
        shares=_shares(traces),
        spectrum=frames.spectrum,
        agreement=np.divide(frames.common, frames.own, out=np.zeros(frames.width), where=frames.own > 1e-12),
        sweeps=sweeps,
        converged=converged,
    )


class _Frames:
    """The rotations of all runs while they are sought."""

    def __init__(self, total: JointMoments, radii: Sequence[float]) -> None:
        self.count = len(radii)
        self.widths = [len(total.mean[total.columns(run)]) for run in range(self.count)]
        self.width = max(self.widths)
        self._total, self._radii = total, radii
        self.rotations = [np.eye(width, self.width) for width in self.widths]

    def covariance(self, i: int, j: int) -> Array:
        """Of two runs at unit RMS radius."""
        return self._total.block(i, j) / (self._total.n * self._radii[i] * self._radii[j])

    def turn(self, run: int, others: Sequence[int]) -> tuple[float, float]:
        """The best rotation of a run onto the sum of others; the overlap it reaches and its gain."""
        towards = sum((self._image(run, other) for other in others), np.zeros((self.widths[run], self.width)))
        before = float((self.rotations[run] * towards).sum())
        u, singular, vt = np.linalg.svd(towards, full_matrices=False)
        self.rotations[run] = u @ vt
        return float(singular.sum()), float(singular.sum()) - before

    def _image(self, run: int, other: int) -> Array:
        """The covariance of a run with another one that is rotated."""
        return np.asarray(self.covariance(run, other) @ self.rotations[other])

    def settle(self) -> Array:
        """Turn all runs together to the principal axes of their mean; the covariances of every two, summed over axes.

        An axis points to where the cubes of all loadings have a positive sum, for any order of the runs. Leaves
        ``spectrum``, and along each axis ``common``, the mean covariance of two runs, and ``own``, the mean variance.
        """
        everyone = range(self.count)
        traces = np.zeros((self.count, self.count))
        towards, own = [], []
        for i in everyone:
            images = [self._image(i, j) for j in everyone]
            traces[i] = [np.vdot(self.rotations[i], image) for image in images]
            towards.append(sum(images, np.zeros((self.widths[i], self.width))))
            own.append(images[i])
        sums = sum((q.T @ image for q, image in zip(self.rotations, towards, strict=True)), np.zeros((self.width,) * 2))
        values, axes = np.linalg.eigh((sums + sums.T) / (2 * self.count**2))
        values, axes = values[::-1], axes[:, ::-1]
        cubes = sum(((rotation @ axes) ** 3).sum(axis=0) for rotation in self.rotations)
        axes = axes * np.where(cubes < 0, -1.0, 1.0)
        self.rotations = [rotation @ axes for rotation in self.rotations]
        self.spectrum = np.maximum(values, 0.0)
        self.own = self._along_axes(own, axes) / self.count
        self.common = (self._along_axes(towards, axes) - self.count * self.own) / (self.count * (self.count - 1))
        return traces

    def _along_axes(self, images: Sequence[Array], axes: Array) -> Array:
        pairs = zip(self.rotations, images, strict=True)
        return sum((np.einsum("ij,ij->j", q, image @ axes) for q, image in pairs), np.zeros(self.width))


def _from_the_centre(frames: _Frames) -> list[int]:
    """Runs in the order they join: the widest first, and among those the ones that share most with all others."""
    near = np.zeros(frames.count)
    for i in range(frames.count):
        for j in range(i):
            shared = float(np.linalg.norm(frames.covariance(i, j)))
            near[i] += shared
            near[j] += shared
    return sorted(range(frames.count), key=lambda run: (-frames.widths[run], -near[run]))


def _shares(traces: Array) -> Array:
    r"""The squared cosine of each run with the mean of the others: what that mean explains with the best scale."""
    count = len(traces)
    shares = np.zeros(count)
    for run in range(count):
        others = np.arange(count) != run
        towards = float(traces[run, others].sum())
        size = float(traces[np.ix_(others, others)].sum())
        shares[run] = max(towards, 0.0) ** 2 / size if size > 0 else 0.0
    return shares
