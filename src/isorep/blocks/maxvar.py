r"""Generalised canonical correlation analysis (MAXVAR) of several views, from their second moments, and held out.

Each view :math:`v` is white: :math:`z_v` has unit covariance. MAXVAR (Kettenring 1971) takes the leading eigenvectors
:math:`u_k=(u_{1k},\dots,u_{Vk})` of the covariance of all views side by side. With :math:`a_{vk}=u_{vk}/\|u_{vk}\|` the
*variates* :math:`a_{vk}^\top z_v` of one component have unit variance. Two views give canonical correlation analysis.

The correlation of a component is that of each view with the sum of the others, at the view where it is smallest:

.. math:: \rho_k=\min_v\operatorname{corr}\Big(a_{vk}^\top z_v,\ \sum_{w\ne v}a_{wk}^\top z_w\Big)

A component that only some views share has a small one; for two views it is the canonical correlation. Held out, the
directions come from the other folds, and the products of all held-out rows are summed before the ratio is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..moments import JointMoments
from ..representation import Array

_RIDGE = 1e-9  # of the unit variance: a direction that does not vary in some folds keeps a finite scale


@dataclass(frozen=True, eq=False)
class Scatter:
    """Counts, means and centred co-moments of all views side by side, for several parts of the rows.

    ``counts`` (P,), ``means`` (P, R) and ``sums`` (P, R, R); view ``v`` has the columns ``edges[v]`` to
    ``edges[v + 1]``.
    """

    counts: Array
    means: Array
    sums: Array
    edges: tuple[int, ...]

    @property
    def views(self) -> list[slice]:
        """The columns of every view."""
        return [slice(*ends) for ends in zip(self.edges[:-1], self.edges[1:], strict=True)]

    @property
    def components(self) -> int:
        """The most components that all views can share."""
        return int(min(np.diff(self.edges)))

    def merged(self, parts: Array) -> tuple[int, Array, Array]:
        """Count, mean and centred co-moments of some parts together."""
        counts, means = self.counts[parts], self.means[parts]
        n = int(counts.sum())
        mean = counts @ means / n
        apart = means - mean
        return n, mean, self.sums[parts].sum(axis=0) + (apart * counts[:, None]).T @ apart


def scatter_of(moments: Sequence[JointMoments]) -> Scatter:
    """The same from joint moments, one for each part of the rows."""
    edges = moments[0].edges
    sums = np.empty((len(moments), edges[-1], edges[-1]))
    for whole, each in zip(sums, moments, strict=True):
        for view, strip in enumerate(each.strips):
            columns = each.columns(view)
            whole[columns, columns.start :] = strip
            whole[columns.start :, columns] = strip.T
    return Scatter(np.array([each.n for each in moments]), np.stack([each.mean for each in moments]), sums, edges)


def scatter_of_rows(rows: Array, parts: Sequence[slice], edges: tuple[int, ...]) -> Scatter:
    """The same from rows in memory, ordered by part."""
    means = np.stack([rows[part].mean(axis=0) for part in parts])
    centred = [rows[part] - mean for part, mean in zip(parts, means, strict=True)]
    counts = np.array([len(part) for part in centred])
    return Scatter(counts, means, np.stack([part.T @ part for part in centred]), edges)


def directions(n: int, sums: Array, views: Sequence[slice], components: int) -> list[Array]:
    """The directions of every view, (r_v, K), whose variates have unit variance; most shared first."""
    roots = [np.linalg.cholesky(sums[view, view] / n + _RIDGE * np.eye(view.stop - view.start)) for view in views]
    if len(views) == 2:
        cross = _whitened(sums[views[0], views[1]] / n, *roots)
        left, _, right = np.linalg.svd(cross, full_matrices=False)
        turned = [left[:, :components], right[:components].T]
    else:
        whole = np.eye(len(sums))
        for i, mine in enumerate(views):
            for j, other in enumerate(views[:i]):
                whole[mine, other] = _whitened(sums[mine, other] / n, roots[i], roots[j])
        vectors = np.linalg.eigh(whole)[1][:, ::-1][:, :components]
        turned = [vectors[view] / np.maximum(np.linalg.norm(vectors[view], axis=0), 1e-12) for view in views]
    return [
        np.asarray(solve_triangular(root.T, turn, check_finite=False)) for root, turn in zip(roots, turned, strict=True)
    ]


def _whitened(cross: Array, left: Array, right: Array) -> Array:
    """A block of the covariance with both views white, given the roots of their own covariances."""
    half = solve_triangular(left, cross, lower=True, check_finite=False)
    return np.asarray(solve_triangular(right, half.T, lower=True, check_finite=False).T)


def products(sums: Array, views: Sequence[slice], found: Sequence[Array]) -> Array:
    """The products of the variates of every pair of views, component by component: (K, V, V)."""
    count = len(views)
    out = np.empty((found[0].shape[1], count, count))
    for i, mine in enumerate(views):
        for j, other in enumerate(views[: i + 1]):
            out[:, i, j] = out[:, j, i] = np.einsum("ik,ik->k", found[i], sums[mine, other] @ found[j])
    return out


def correlations(products: Array) -> Array:
    """Of every view's variate with the sum of the others', (..., K, V), from (..., K, V, V) products."""
    own = np.diagonal(products, axis1=-2, axis2=-1)
    each = products.sum(axis=-1)
    rest = each.sum(axis=-1, keepdims=True) - 2 * each + own
    scale = np.sqrt(np.maximum(own * rest, 0.0))
    found = np.divide(each - own, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def held_out_products(scatter: Scatter, fold_of: Array, scored: Array) -> Array:
    """The products of variates of held-out rows, part by part: (P, K, V, V).

    ``fold_of`` is the fold of every part; the directions of its rows come from the other folds, and so does the mean
    that they are taken about. Parts that are not ``scored`` are fitted to, and their products are zero.
    """
    views, count = scatter.views, scatter.components
    out = np.zeros((len(fold_of), count, len(views), len(views)))
    for fold in np.unique(fold_of[scored]):
        n, mean, sums = scatter.merged(np.flatnonzero(fold_of != fold))
        found = directions(n, sums, views, count)
        for part in np.flatnonzero((fold_of == fold) & scored):
            apart = scatter.means[part] - mean
            about = scatter.sums[part] + scatter.counts[part] * np.multiply.outer(apart, apart)
            out[part] = products(about, views, found)
    return out
