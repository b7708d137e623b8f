r"""Type D factors without given blocks: components of the row matroid at every sample, matched across samples.

Factors are connected components of the Jacobian's row matroid, which do not depend on the basis of the latents.

A basis :math:`B` of the tangent space joins two of its vectors in the graph :math:`G_D(s,B)` where both move some
output: :math:`J b_i\bullet J b_j\ne0`. The most components that any basis reaches is the number of connected components
of the row matroid of :math:`J` (its nonzero rows): disjoint column groups make the ranks of row groups add up to
:math:`d`, and where :math:`\operatorname{rank}R_1+\operatorname{rank}R_2=d` the kernels :math:`\ker R_2\oplus\ker R_1`
span the space and give the basis. So irreducible Type D factors are found in polynomial time, by elimination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, subspace_angles
from scipy.optimize import linear_sum_assignment

from ...representation import Array
from .result import FactorLevel, Factors
from .type_m import shared
from .type_s import Gap, exact_gap, gap_bound, hyper_components, pool, sparsity_components
from .views import Frame, consecutive, frame


def find_factors(
    jacobians: Array, tolerances: Sequence[float], noise: float, *, angle: float, subsets: int, cells: int
) -> Factors:
    """Factors at every tolerance.

    Parameters
    ----------
    jacobians : array (samples, outputs, d)
        In float64.
    tolerances : sequence of float
        Smallest first.
    noise : float
        Relative error of their entries.
    angle : float
        Degrees up to which two subspaces are the same.
    subsets, cells : int
        Subsets of rows, and cells of a table of candidates, up to which sparsest bases are looked for.
    """
    return Factors(tuple(_at(jacobians, tolerance, noise, angle, subsets, cells) for tolerance in tolerances))


def _at(jacobians: Array, tolerance: float, noise: float, angle: float, subsets: int, cells: int) -> FactorLevel:
    splits = [row_components(each, tolerance, noise) for each in jacobians]
    decided = [index for index, each in enumerate(splits) if each.state == FOUND]
    sizes = Counter(splits[index].dimensions for index in decided)
    if 2 * len(decided) < len(splits):
        state = Counter(each.state for each in splits if each.state != FOUND).most_common(1)[0][0]
        return FactorLevel(tolerance, state, (), 0.0, len(decided) / len(splits), splits[0].labels)
    dimensions = max(sizes, key=lambda each: (sizes[each], -len(each)))
    alike = [index for index in decided if splits[index].dimensions == dimensions]
    reference, jacobian = splits[alike[0]], jacobians[alike[0]]
    turned, agreeing = _matched(reference, [splits[index] for index in alike[1:]])
    calm = turned[: -int(_STRAY * len(splits)) or None]  # angles without those of a few stray samples
    gap, nonzeros, finest = _sparsity(jacobian, reference, tolerance, noise, subsets, cells)
    entries = np.abs(jacobian)
    return FactorLevel(
        tolerance=tolerance,
        state=FOUND,
        dimensions=dimensions,
        share=len(alike) / len(splits),
        decided=len(decided) / len(splits),
        angle=turned[-1] if turned else 0.0,
        constant=len(alike) >= (1 - _STRAY) * len(splits) and max(calm, default=0.0) <= angle,
        outputs=reference.labels,
        outputs_agree=agreeing,
        subspaces=reference.subspaces,
        components=len(reference.subspaces),
        components_here=basis_components(jacobian, tolerance),
        nonzeros=nonzeros,
        nonzeros_here=int((entries > tolerance * entries.max(0, keepdims=True)).sum()),
        gap=gap.value,
        gap_method=gap.method,
        sparsity_factors=finest,
    )


def _matched(reference: Components, others: Sequence[Components]) -> tuple[list[float], float]:
    """The angles to the reference after matching, smallest first, and the share of outputs that stay."""
    turned, agreeing = [], np.ones(len(reference.labels), dtype=bool)
    for other in others:
        angles = np.array([[largest_angle(a, b) for b in other.subspaces] for a in reference.subspaces])
        rows, columns = linear_sum_assignment(angles)
        turned.append(float(angles[rows, columns].max(initial=0.0)))
        names = np.append(np.argsort(columns), -1)
        agreeing &= names[other.labels] == reference.labels
    return sorted(turned), float(agreeing.mean())


def _sparsity(
    jacobian: Array, components: Components, tolerance: float, noise: float, subsets: int, cells: int
) -> tuple[Gap, int | None, tuple[int, ...] | None]:
    """The sparsity gap of the factors, the nonzeros of the sparsest basis, and the finest Type S decomposition."""
    nothing = Gap(None, None, "none"), None, None
    blocks = consecutive([basis.shape[1] for basis in components.subspaces])
    here = frame(jacobian @ np.concatenate(components.subspaces, axis=1), blocks, noise)
    limit = max(1, min(subsets, cells // len(jacobian)))
    if not here.full_rank or here.noise > tolerance:
        return nothing
    pools = [pool(here.block(place), limit, floor=tolerance) for place in range(len(blocks))]
    if any(each is None for each in pools):
        return nothing
    aligned = [each.at(tolerance) for each in pools if each is not None]
    whole = pool(here.values, limit, floor=tolerance)
    if whole is None:
        return gap_bound(here, aligned, limit), None, None
    candidates = whole.at(tolerance)
    basis = candidates.basis
    if len(basis) < here.values.shape[1]:
        return nothing
    finest = sparsity_components(candidates)
    groups = None if finest is None else tuple(sorted((len(each) for each in finest), reverse=True))
    return exact_gap(here, candidates, aligned), int(candidates.weights[basis].sum()), groups


FOUND, DEFICIENT, UNDECIDED = "found", "rank deficient", "undecided"
_STRAY = 0.05  # of the samples may have other factors where all are said to have the same


@dataclass(frozen=True, eq=False)
class Components:
    """The finest Type D split at one sample.

    ``labels`` names the component of every output, -1 for outputs that nothing moves or that cannot be decided, and
    ``subspaces`` holds an orthonormal basis (d, k) of the directions that move only this component's outputs.
    """

    state: str
    labels: Array
    subspaces: tuple[Array, ...]

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the components, largest first."""
        return tuple(sorted((basis.shape[1] for basis in self.subspaces), reverse=True))


def row_components(jacobian: Array, tolerance: float, noise: float) -> Components:
    r"""The connected components of the rows of one Jacobian (outputs, d).

    Rows are expressed in a basis of rows, :math:`C=J B^{-1}`, and row r joins the basis rows k with
    :math:`|C_{rk}|>\epsilon_r=5\nu\sqrt d\,\|B^{-1}\|(1+\sum_k|C_{rk}|)`, the error that :math:`C` can have when
    entries have the error :math:`\nu`. Rows are not normalised: an output that hardly moves would join everything.
    Where :math:`\epsilon_r` is too large to decide, a split is proposed by :math:`C`. It is accepted if no output has
    more than the tolerance in a second component, which is Type D at this tolerance, nor all of them together.

    Parameters
    ----------
    jacobian : array (outputs, d)
        In float64.
    tolerance : float
        Entries of the whitened Jacobian that are smaller than this share of the largest count as zero.
    noise : float
        Relative error of the Jacobian's own entries.
    """
    n, d = jacobian.shape
    nothing = np.full(n, -1)
    _, values, right = np.linalg.svd(jacobian, full_matrices=False)
    largest = np.abs(jacobian).max(initial=0.0)
    if n < d or not values[-1] > 10 * noise * largest * np.sqrt(n):
        return Components(DEFICIENT, nothing, ())
    unwhiten = right.T / values
    whitened = jacobian @ unwhiten
    error = max(tolerance * np.abs(whitened).max(), noise * largest / values[-1])
    triangle, pivots = qr(whitened.T, pivoting=True, mode="r")
    chosen = pivots[:d]
    if np.abs(np.diag(triangle))[d - 1] <= 10 * noise * largest / values[-1]:
        return Components(UNDECIDED, nothing, ())
    inverse = np.linalg.inv(whitened[chosen])
    coefficients = whitened @ inverse
    sizes = np.abs(coefficients)
    allowed = 5 * error * np.sqrt(d) * np.linalg.norm(inverse, 2) * (1 + sizes.sum(1))
    decided = sizes.max(1) > 3 * allowed
    small = np.abs(np.diag(triangle))[d - 1] <= 10 * error
    if not small and decided[chosen].all() and allowed[decided].max() <= 0.1:
        return _components(whitened, unwhiten, sizes, allowed, decided)
    for limit in tolerance, 2 * tolerance:
        coarse = np.full(n, limit)
        proposed = _components(whitened, unwhiten, sizes, coarse, sizes.max(1) > limit)
        widths = [basis.shape[1] for basis in proposed.subspaces]
        if len(widths) < 2 or sum(widths) != d or (proposed.labels[chosen] < 0).any():
            continue
        here = frame(jacobian @ np.concatenate(proposed.subspaces, axis=1), consecutive(widths), noise)
        if here.full_rank and shared(here) <= tolerance and _strayed(here) <= tolerance**2:
            return proposed
    return Components(UNDECIDED, nothing, ())


def _strayed(here: Frame) -> float:
    """The largest share of a block's energy in outputs that another block moves more."""
    energies = here.weights() ** 2
    strayed = np.where(energies < energies.max(1, keepdims=True), energies, 0.0).sum(0)
    return float((strayed / energies.sum(0)).max())


def _components(whitened: Array, unwhiten: Array, sizes: Array, allowed: Array, decided: Array) -> Components:
    """Rows that ``decided`` says join the basis rows whose coefficients are larger than ``allowed``."""
    count, pivot_labels = hyper_components((sizes > allowed[:, None]) & decided[:, None])
    labels = np.where(decided, pivot_labels[sizes.argmax(1)], -1)
    subspaces = tuple(
        _moving_only(whitened[decided & (labels != label)], int((pivot_labels == label).sum()), unwhiten)
        for label in range(count)
    )
    return Components(FOUND, labels, subspaces)


def basis_components(jacobian: Array, tolerance: float) -> int:
    """The components of :math:`G_D` in the basis of the columns."""
    sizes = np.abs(jacobian)
    return hyper_components(sizes > tolerance * sizes.max(initial=0.0))[0]


def largest_angle(first: Array, second: Array) -> float:
    """The largest principal angle of two subspaces in degrees; 90 where their dimensions differ."""
    if first.shape[1] != second.shape[1]:
        return 90.0
    return float(np.degrees(subspace_angles(first, second).max(initial=0.0)))


def _moving_only(others: Array, dimension: int, unwhiten: Array) -> Array:
    """The directions, in latent coordinates, that do not move the other outputs."""
    d = len(unwhiten)
    kernel = np.eye(d)
    if len(others):  # left vectors of all outputs would take outputs x outputs numbers
        kernel = np.linalg.svd(others, full_matrices=len(others) < d)[2][d - dimension :].T
    return np.asarray(np.linalg.qr(unwhiten @ kernel)[0])
