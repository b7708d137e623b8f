r"""How close two representations are, for the column beside closeness in distribution.

The share of variance that a linear map explains, the mean canonical correlation, and, after Nielsen et al. (2025),

.. math:: d_{\mathrm{SVD}}=1-\frac1r\sum_{i=1}^{r}\operatorname{corr}(f u_i,f'v_i)

with :math:`u_i,v_i` the singular vectors of the cross-covariance (PLS-SVD), all from second moments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..comparison.stages import Pair
from ..moments import Moments, fold_moments, merged, merged_without, require_memory
from ..representation import Array
from ..resampling import BLOCKS, MOST_GROUP_BLOCKS, Interval, assign_blocks, jackknife_se, t_interval
from ..rows import Progress
from ..similarity.canonical import prepare_cca, prepare_linear_r2
from ..similarity.sides import paired
from .closeness_result import RepresentationDistances

_BLOCK_CELLS = 2**26  # of all blocks' moments together: 512 MiB
_WORK = 2e11  # floating-point operations that intervals may take
_LEAST_BLOCKS = 10


def representation_distances(
    pair: Pair, labels: Array | None, intervals: bool, rng: np.random.Generator, report: Progress
) -> RepresentationDistances | None:
    """The distances of paired features, with intervals where these can be had; None where a side does not vary."""
    widths = pair.x.shape[1], pair.y.shape[1]
    cells = widths[0] ** 2 + widths[0] * widths[1] + widths[1] ** 2
    require_memory(*widths, 1)
    block_of = blocks_of(pair.n, labels, max(_BLOCK_CELLS // cells, 1), rng)
    parts = fold_moments(
        pair.x,
        pair.y,
        block_of,
        int(block_of.max()) + 1,
        names=pair.names,
        progress=lambda done, of: report("moments", done, of),
    )
    total = merged(parts)
    if pair.n < 3 or not (np.trace(total.xx) > 0 and np.trace(total.yy) > 0):
        return None
    value = _figures(total)
    enough = len(parts) >= _LEAST_BLOCKS and len(parts) * float(sum(widths)) ** 3 <= _WORK
    spans = _jackknifed(parts, value, report) if intervals and enough else [None] * 4
    return RepresentationDistances(
        linear_r2=float(value[0]),
        linear_r2_reverse=float(value[1]),
        cca=float(value[2]),
        svd_distance=float(value[3]),
        linear_r2_interval=spans[0],
        linear_r2_reverse_interval=spans[1],
        cca_interval=spans[2],
        svd_distance_interval=spans[3],
    )


def svd_distance(moments: Moments) -> float:
    """One minus the mean correlation of the PLS-SVD variates; not blind to linear maps, unlike CCA."""
    left, values, right = np.linalg.svd(moments.xy, full_matrices=False)
    kept = values > values[0] * 1e-12 if values[0] > 0 else np.zeros(len(values), dtype=bool)
    kept[0] = True
    x = np.einsum("ij,ij->j", left, moments.xx @ left)[kept]
    y = np.einsum("ij,ij->i", right, right @ moments.yy)[kept]
    scale = np.sqrt(x * y)
    rho = np.divide(values[kept], scale, out=np.zeros(int(kept.sum())), where=scale > 0)
    return float(1 - np.minimum(rho, 1.0).mean())


def _figures(moments: Moments) -> Array:
    pair = paired(moments)
    r2 = prepare_linear_r2(pair)
    return np.array([r2.value, r2.details["reverse"], prepare_cca(pair).value, svd_distance(moments)])


def _jackknifed(parts: Sequence[Moments], value: Array, report: Progress) -> Sequence[Interval | None]:
    """Intervals from the figures without each block; none where a side varies in one block alone."""
    left_out = []
    for block in range(len(parts)):
        rest = merged_without(parts, block)
        if rest.n < 3 or not (np.trace(rest.xx) > 0 and np.trace(rest.yy) > 0):
            return [None] * 4
        left_out.append(_figures(rest))
        report("representations", block + 1, len(parts))
    se = jackknife_se(np.array(left_out), value, np.array([part.n for part in parts]))
    most = (1.0, 1.0, 1.0, 2.0)
    return [
        t_interval(float(each), float(error), len(parts), least=0.0, most=upper)
        for each, error, upper in zip(value, se, most, strict=True)
    ]


def blocks_of(n: int, labels: Array | None, most: int, rng: np.random.Generator) -> Array:
    """The block of each row that intervals leave out together, at most so many."""
    return assign_blocks(n, labels, rng, min(most, BLOCKS if labels is None else MOST_GROUP_BLOCKS))
