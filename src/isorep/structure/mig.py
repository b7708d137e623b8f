r"""MIG and modularity from binned mutual information: the gap of the two best latents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array
from ..results import Record
from ..settings import check_counts
from .columns import Column, Columns, Pair, mean_of, paired
from .mutual_information import BINS, discrete_information, entropy


@dataclass(frozen=True, eq=False)
class MIG(Record):
    """The result of :func:`mig`: the mean gap, and that of every factor that varies."""

    value: float
    gaps: dict[str, float]


@dataclass(frozen=True, eq=False)
class Modularity(Record):
    """The result of :func:`modularity`: the mean over latents, and that of every latent."""

    value: float
    latents: dict[str, float]


def mig(
    factors: Any, latents: Any, *, bins: int = BINS, discrete_factors: Any = None, discrete_latents: Any = None
) -> MIG:
    r"""Mutual information gap (MIG) between the two most informative latents of each factor.

    .. math:: \mathrm{MIG}=\frac1{n_s}\sum_i\frac{I(s_i;z_{(1)})-I(s_i;z_{(2)})}{H(s_i)}

    Continuous columns are cut into bins of equal width. A constant factor is left out; with one latent the second is 0.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    bins : int
        Number of bins of continuous columns.
    discrete_factors, discrete_latents
        As for :func:`infomec`.

    References
    ----------
    .. [1] Chen, R. T. Q., Li, X., Grosse, R., Duvenaud, D. (2018). Isolating sources of disentanglement in variational
           autoencoders. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).integers(4, size=(300, 2))
    >>> round(isorep.structure.mig(s, s[:, ::-1]).value, 1)
    1.0
    """
    check_counts(bins=(bins, 2))
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    return measure_mig(pair, bins=bins)


def modularity(
    factors: Any, latents: Any, *, bins: int = BINS, discrete_factors: Any = None, discrete_latents: Any = None
) -> Modularity:
    r"""Modularity (Ridgeway and Mozer 2018): the degree to which each latent informs about one factor only.

    .. math:: 1-\frac{\sum_{i\ne i^*}I(s_i;z_j)^2}{I(s_{i^*};z_j)^2\,(n_s-1)},\qquad i^*=\arg\max_iI(s_i;z_j)

    A latent that informs about no factor counts 0, as in public code; with one factor an informative latent counts 1.

    Parameters
    ----------
    factors, latents, bins, discrete_factors, discrete_latents
        As for :func:`mig`.

    References
    ----------
    .. [1] Ridgeway, K., Mozer, M. C. (2018). Learning deep disentangled embeddings with the F-statistic loss. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).integers(4, size=(300, 2))
    >>> round(isorep.structure.modularity(s, s[:, ::-1]).value, 3)
    1.0
    """
    check_counts(bins=(bins, 2))
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    return measure_modularity(pair, bins=bins)


def measure_mig(pair: Pair, *, bins: int = BINS) -> MIG:
    """MIG of columns that were checked."""
    mutual, entropies = binned_information(pair.factors, pair.latents, bins)
    gaps = {}
    for name, row, total in zip(pair.factors.names, mutual, entropies, strict=True):
        if total > 0:
            best = np.sort(np.append(row, 0.0))[::-1]
            gaps[name] = float((best[0] - best[1]) / total)
    return MIG(mean_of(gaps), gaps)


def measure_modularity(pair: Pair, *, bins: int = BINS) -> Modularity:
    """Modularity of columns that were checked; constant factors are left out."""
    mutual, entropies = binned_information(pair.factors, pair.latents, bins)
    squares = mutual[entropies > 0] ** 2
    by_latent = {}
    for name, column in zip(pair.latents.names, squares.T, strict=True):
        most = column.max(initial=0.0)
        rest = float(column.sum() - most)
        by_latent[name] = 0.0 if most == 0 else 1.0 - rest / (most * max(len(column) - 1, 1))
    return Modularity(mean_of(by_latent), by_latent)


def binned_information(factors: Columns, latents: Columns, bins: int = BINS) -> tuple[Array, Array]:
    """Plug-in mutual information (factors by latents) and entropies, continuous columns in bins of equal width."""
    sources, codes = ([_cut(column, bins) for column in each] for each in (factors, latents))
    mutual = np.array([[discrete_information(s, z) for z in codes] for s in sources])
    return mutual, np.array([entropy(s) for s in sources])


def _cut(column: Column, bins: int) -> Array:
    if column.discrete:
        return column.codes
    values = column.values
    low, high = values.min(), values.max()
    if low == high:
        return np.zeros(len(values), dtype=np.int64)
    edges = np.linspace(low, high, bins + 1)
    return np.asarray(np.digitize(values, edges[:-1]) - 1)
