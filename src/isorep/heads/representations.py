r"""How close two representations are, for the column beside closeness in distribution.

The share of variance that a linear map explains, the mean canonical correlation, and, after Nielsen et al. (2025),

.. math:: d_{\mathrm{SVD}}=1-\frac1r\sum_{i=1}^{r}\operatorname{corr}(f u_i,f'v_i)

with :math:`u_i,v_i` the singular vectors of the cross-covariance (PLS-SVD), all from second moments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..comparison.stages import Pair
from ..moments import Moments, fold_moments, merged, require_memory
from ..representation import Array
from ..rows import Progress
from ..similarity.canonical import prepare_cca, prepare_linear_r2
from ..similarity.sides import paired
from .closeness_result import RepresentationDistances
from .resampling import draws_of, pooled_units

_BUCKETS = 100  # most units that moments are resampled in
_BUCKET_CELLS = 2**26  # of all buckets' moments together: 512 MiB
_WORK = 2e11  # floating-point operations that the draws may take
_LEAST_UNITS, _LEAST_DRAWS = 10, 40


def representation_distances(
    pair: Pair, labels: Array | None, n_boot: int, rng: np.random.Generator, report: Progress
) -> RepresentationDistances | None:
    """The distances of paired features, with intervals where these can be had; None where a side does not vary."""
    widths = pair.x.shape[1], pair.y.shape[1]
    cells = widths[0] ** 2 + widths[0] * widths[1] + widths[1] ** 2
    most = int(np.clip(_BUCKET_CELLS // cells, 1, _BUCKETS))
    require_memory(*widths, 1)
    units = pooled_units(pair.n, labels, most, rng)
    buckets = fold_moments(
        pair.x,
        pair.y,
        units,
        int(units.max()) + 1,
        names=pair.names,
        progress=lambda done, of: report("moments", done, of),
    )
    total = merged(buckets)
    if pair.n < 3 or not (np.trace(total.xx) > 0 and np.trace(total.yy) > 0):
        return None
    value = _figures(total)
    draws = int(min(n_boot, _WORK / float(sum(widths)) ** 3))
    found: list[Array] = []
    if len(buckets) >= _LEAST_UNITS and draws >= _LEAST_DRAWS:
        for done in range(draws):
            counts = np.bincount(rng.integers(len(buckets), size=len(buckets)), minlength=len(buckets))
            found.append(_figures(_resampled(buckets, counts)))
            report("representations", done + 1, draws)
    spans = [draws_of(each) for each in np.array(found).T] if found else [None] * 4
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


def _resampled(buckets: Sequence[Moments], counts: Array) -> Moments:
    """The moments of units taken so many times."""
    total = buckets[0].blank()
    for bucket, count in zip(buckets, counts, strict=True):
        if count:
            n = int(count) * bucket.n
            parts = (count * bucket.xx, count * bucket.xy, count * bucket.yy)
            total.absorb(Moments(n, bucket.source_mean, bucket.target_mean, *parts))
    return total
