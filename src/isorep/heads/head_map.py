r"""``isorep.heads.head_map``: the map between two models' features that their heads alone predict.

Products of two class-centred heads, in one pass over their rows, however many classes there are.

Each head is taken in its principal axes at unit variance, :math:`W=\sqrt{p}\,G_cV/s`, whose columns are orthonormal but
for rounding. :math:`T=W^\top W` puts right what is left of it, so that the pseudo-inverse
:math:`G_c^+=V s^{-1}T^{-1}W^\top` does not square the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ..covariance import rank_tolerance
from ..errors import InputError
from ..moments import require_memory
from ..representation import Array
from ..rows import Progress, block_rows, blocks, no_progress, read_rows
from ..settings import check_counts, check_seed, check_tolerance
from .head_map_result import HeadMap
from .inputs import Head, checked_weights, joined, open_heads
from .regression import Asked, compare_with_regression
from .spectrum import Spectrum, spectrum


def head_map(
    G_source: Any,
    G_target: Any,
    source_bias: Any = None,
    target_bias: Any = None,
    *,
    weights: Any = None,
    features: Any = None,
    other_features: Any = None,
    groups: Any = None,
    join: bool = False,
    folds: int = 5,
    intervals: bool = True,
    tolerance: float = 0.01,
    random_state: int = 0,
    progress: Progress | None = None,
) -> HeadMap:
    r"""The map from source to target features that two heads predict, beside the one that a regression finds.

    Models with the same distribution have equal log-odds, :math:`G'_cf'(x)+b'_c=G^*_cf^*(x)+b^*_c` with class-centred
    heads and biases. So the target's features are

    .. math:: f'=A_{\mathrm{head}}f^*+a,\qquad A_{\mathrm{head}}=G_c'^{+}G^*_c,\quad a=G_c'^{+}(b^*_c-b'_c),

    as far as the target's classes tell them apart: no pair of features is used. Where there are at most as many
    classes as dimensions plus one, any two heads give such a map, and heads alone show no disagreement.

    With paired features the map is set beside least squares, held out: both restricted to what each head's classes see
    (Marconato et al. 2025), so that widths may differ and heads may be rank-deficient. The regression then predicts the
    target's head, :math:`g'(y)-g'(y_0)=A^{-\top}(g^*(y)-g^*(y_0))`.

    Parameters
    ----------
    G_source, G_target : (K, M) arrays, Representations or paths
        The embeddings of the same K classes in the same order; widths may differ.
    source_bias, target_bias : (K,) arrays, optional
        They make the map affine.
    weights : (K,) array, optional
        Class frequencies: the pseudo-inverse weights log-odds by them, and classes without weight are left out.
    features, other_features : (n, M) arrays, Representations or paths, optional
        Features of the same inputs under the source and the target model.
    groups : (n,) array, optional
        Rows that belong together are held out, and left out, together.
    join : bool
        Keep the rows of paired features that both have, by their ids.
    folds, random_state
        Of the regression's held-out errors and the intervals.
    intervals : bool
        Whether intervals are taken: of mean errors, by leaving out a block of rows (or of groups) at a time. They
        account for the regressions that other rows would give, as those of :func:`isorep.compare` do.
    tolerance : float
        In diameters: by how much the head map's error may exceed the regression's to agree with it.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    HeadMap

    References
    ----------
    .. [1] Roeder, G., Metz, L., Kingma, D. P. (2021). On linear identifiability of learned representations. ICML.
    .. [2] Marconato, E. et al. (2025). All or none: identifiable linear properties of next-token predictors in language
           modeling. AISTATS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> f, G, A = rng.normal(size=(100, 3)), rng.normal(size=(8, 3)), rng.normal(size=(3, 3))
    >>> found = isorep.heads.head_map(G, G @ np.linalg.inv(A).T)  # the same distribution, with features f @ A
    >>> bool(np.allclose(found.transform(f), f @ A))
    True
    """
    check_counts(folds=(folds, 2))
    check_seed(random_state)
    check_tolerance(tolerance)
    if (features is None) != (other_features is None):
        raise InputError("features of one model were given: a map is compared on paired features of both")
    source, target = open_heads(G_source, G_target, source_bias, target_bias)
    shares = checked_weights(weights, source.classes)
    note = None
    if join:
        if features is None:
            raise InputError("join belongs to the rows of paired features, and there are none")
        features, other_features, groups, note = joined(features, other_features, groups)
    asked = Asked(groups, folds, intervals, random_state, tolerance, progress or no_progress)
    return map_of(source, target, shares, features, other_features, asked, note)


def map_of(
    source: Head,
    target: Head,
    shares: Array | None,
    features: Any,
    other_features: Any,
    asked: Asked,
    joined_note: str | None = None,
) -> HeadMap:
    """The map between two heads that are open; the note says how features were joined."""
    require_memory(source.width, target.width, 1)
    if shares is not None and (shares == 0).any():
        seen = np.flatnonzero(shares > 0)
        source, target, shares = source.chosen(seen), target.chosen(seen), shares[seen]
    here, there = (spectrum(head.values, head.name, weights=shares) for head in (source, target))
    used = np.full(source.classes, 1 / source.classes) if shares is None else shares
    gap = _bias_gap(source, target, used)
    products = head_products(source, target, (here, there), used, gap)
    matrix, intercept, unexpressed = solve_map(products, there)
    angles = principal_angles(products)
    found = HeadMap(
        names=(source.name, target.name),
        classes=source.classes,
        widths=(source.width, target.width),
        ranks=(here.rank, there.rank),
        coef=matrix.T,
        intercept=intercept,
        angles=tuple(angles.tolist()),
        unexpressed=unexpressed,
        rank_tolerances=(_tolerance(here), _tolerance(there)),
        tolerance=asked.tolerance,
        settings={
            "weighted": shares is not None,
            "biases": source.bias is not None or target.bias is not None,
            "folds": asked.folds,
            "intervals": bool(asked.intervals),
            "random_state": asked.seed,
            "joined": joined_note,
        },
    )
    if features is None:
        return found
    if 0 in found.ranks:
        which = found.names[found.ranks.index(0)]
        raise InputError(f"all classes of {which} have one embedding: features cannot be told apart by it")
    return compare_with_regression(found, (source, target), (here, there), used, features, other_features, asked)


def _bias_gap(source: Head, target: Head, shares: Array) -> Array:
    """Source minus target biases, about their weighted mean."""
    gap: Array = np.zeros(source.classes)
    for sign, head in ((1.0, source), (-1.0, target)):
        if head.bias is not None:
            gap += sign * (head.bias - shares @ head.bias)
    return gap


def _tolerance(found: Spectrum) -> float:
    return float(rank_tolerance(found.rounding))


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over classes: ``own`` and ``other`` are the two Gram matrices, ``cross`` target by source.

    ``onto_source`` and ``onto_bias`` are the target's orthonormal columns times the source's centred head and the
    centred difference of the biases.
    """

    own: Array
    other: Array
    cross: Array
    onto_source: Array
    onto_bias: Array
    source_square: float


def head_products(
    source: Head, target: Head, spectra: tuple[Spectrum, Spectrum], shares: Array, bias_gap: Array
) -> Products:
    """One pass over the classes of both heads. ``bias_gap`` is source minus target, centred."""
    here, there = spectra
    r, s = there.rank, here.rank
    own, other, cross = np.zeros((r, r)), np.zeros((s, s)), np.zeros((r, s))
    onto, gap, square = np.zeros((r, source.width)), np.zeros(r), 0.0
    whiteners = (here.axes / here.singular_values, there.axes / there.singular_values)
    for rows in blocks(source.classes, block_rows(source.width, target.width)):
        roots = np.sqrt(shares[rows])[:, None]
        a, b = (
            roots * (read_rows(head.values, rows).astype(np.float64) - each.mean)
            for head, each in ((source, here), (target, there))
        )
        x, y = a @ whiteners[0], b @ whiteners[1]
        own += y.T @ y
        other += x.T @ x
        cross += y.T @ x
        onto += y.T @ a
        gap += y.T @ (roots[:, 0] * bias_gap[rows])
        square += float(np.einsum("ij,ij->", a, a))
    return Products(own, other, cross, onto, gap, square)


def solve_map(products: Products, target: Spectrum) -> tuple[Array, Array, float]:
    """The (M_t, M_s) map, its intercept, and the share of the source's head that the target's cannot express."""
    if target.rank == 0:
        return np.zeros((target.width, products.onto_source.shape[1])), np.zeros(target.width), 1.0
    factor = linalg.cho_factor(products.own)
    solved = linalg.cho_solve(factor, np.column_stack([products.onto_source, products.onto_bias]))
    lifted = target.axes @ (solved / target.singular_values[:, None])
    expressed = float(np.einsum("ij,ij->", products.onto_source, solved[:, :-1]))
    left = 1 - expressed / products.source_square if products.source_square > 0 else 0.0
    return lifted[:, :-1], lifted[:, -1], float(np.clip(left, 0.0, 1.0))


def principal_angles(products: Products) -> Array:
    """Angles between the column spaces of the two centred heads, in radians, smallest first; resolved to 1e-7."""
    if min(products.cross.shape) == 0:
        return np.zeros(0)
    left, right = (np.linalg.cholesky(each) for each in (products.own, products.other))
    turned = linalg.solve_triangular(left, products.cross, lower=True)
    turned = linalg.solve_triangular(right, turned.T, lower=True)
    return np.asarray(np.arccos(np.clip(np.linalg.svd(turned, compute_uv=False), 0.0, 1.0)))
