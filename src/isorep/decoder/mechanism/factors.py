"""Type D factors without knowing them: components of the row matroid at every sample, matched across samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...representation import Array
from .elementary import pool
from .frames import frame
from .matroid import FOUND, UNDECIDED, Components, basis_components, largest_angle, row_components
from .result import FactorLevel, Factors
from .sparsity import Gap, exact_gap, gap_bound, sparsity_components


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
    return Factors(
        tuple(_at(jacobians, tolerance, noise, angle, subsets, cells) for tolerance in tolerances),
    )


def _at(jacobians: Array, tolerance: float, noise: float, angle: float, subsets: int, cells: int) -> FactorLevel:
    found = [row_components(each, tolerance, noise) for each in jacobians]
    decided = [place for place, each in enumerate(found) if each.state == FOUND]
    counts = Counter(each.state for each in found)
    sizes = Counter(found[place].dimensions for place in decided)
    if 2 * len(decided) < len(found) or not decided:
        state = UNDECIDED if not counts else max((each for each in counts if each != FOUND), key=counts.__getitem__)
        return FactorLevel(
            tolerance, state, (), 0.0, len(decided) / len(found), None, False, found[0].labels, None, (),
            None, None, None, None, None, "none", None,
        )  # fmt: skip
    dimensions = max(sizes, key=lambda each: (sizes[each], -len(each)))
    alike = [place for place in decided if found[place].dimensions == dimensions]
    reference, jacobian = found[alike[0]], jacobians[alike[0]]
    turned, agreeing = _matched(reference, [found[place] for place in alike[1:]])
    gap, nonzeros, finest = _sparsity(jacobian, reference, tolerance, noise, subsets, cells)
    entries = np.abs(jacobian)
    return FactorLevel(
        tolerance=tolerance,
        state=FOUND,
        dimensions=dimensions,
        share=len(alike) / len(found),
        decided=len(decided) / len(found),
        angle=turned,
        constant=len(alike) == len(found) and turned <= angle,
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


def _matched(reference: Components, others: Sequence[Components]) -> tuple[float, float]:
    """The largest angle to the reference after matching, and the share of outputs that stay with their factor."""
    turned, agreeing = 0.0, np.ones(len(reference.labels), dtype=bool)
    for other in others:
        angles = np.array([[largest_angle(a, b) for b in other.subspaces] for a in reference.subspaces])
        rows, columns = linear_sum_assignment(angles)
        turned = max(turned, float(angles[rows, columns].max(initial=0.0)))
        names = np.append(np.argsort(columns), -1)
        agreeing &= names[other.labels] == reference.labels
    return turned, float(agreeing.mean())


def _sparsity(
    jacobian: Array, components: Components, tolerance: float, noise: float, subsets: int, cells: int
) -> tuple[Gap, int | None, tuple[int, ...] | None]:
    """The sparsity gap of the factors, the nonzeros of the sparsest basis, and the finest Type S decomposition."""
    sizes = [basis.shape[1] for basis in components.subspaces]
    edges = np.cumsum([0, *sizes])
    blocks = [np.arange(start, stop) for start, stop in pairwise(edges)]
    here = frame(jacobian @ np.concatenate(components.subspaces, axis=1), blocks, noise)
    limit = max(1, min(subsets, cells // len(jacobian)))
    if not here.full_rank or here.noise > tolerance:
        return Gap(None, None, "none"), None, None
    pools = [pool(here.block(place), limit, floor=tolerance) for place in range(len(blocks))]
    if any(each is None for each in pools):
        return Gap(None, None, "none"), None, None
    aligned = [each.at(tolerance) for each in pools if each is not None]
    whole = pool(here.values, limit, floor=tolerance)
    if whole is None:
        return gap_bound(here, aligned, limit), None, None
    candidates = whole.at(tolerance)
    basis = candidates.basis
    if len(basis) < here.values.shape[1]:
        return Gap(None, None, "none"), None, None
    finest = sparsity_components(candidates)
    groups = None if finest is None else tuple(sorted((len(each) for each in finest), reverse=True))
    return exact_gap(here, candidates, aligned), int(candidates.weights[basis].sum()), groups
