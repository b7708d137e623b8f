r"""InfoMEC (Hsu et al. 2023): modularity, explicitness and compactness from normalised mutual information."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..representation import Array
from ..results import Record
from ..settings import check_choice, check_counts, check_seed
from .columns import Columns, Pair, drawn_in, mean_of, paired
from .explicitness import Logistic, design
from .mutual_information import NEIGHBORS, information

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THRESHOLDS = ("range/20", "range/8", "iqr/10")
"""Smallest spread of an active continuous latent, as a share of the largest."""


@dataclass(frozen=True, eq=False)
class InfoMEC(Record):
    """The result of :func:`infomec`; the best value of all scores is 1, the worst of ``infom`` and ``infoc`` 0.

    Attributes
    ----------
    infom, infoe, infoc : float
        Modularity, explicitness, compactness.
    nmi : (factors, latents) array
        I(factor; latent) / H(factor).
    active : (latents,) array of bool
        The latents that modularity and compactness use.
    modularity : dict of str to float
        Modularity of each active latent that informs about a factor.
    compactness, explicitness : dict of str to float
        Score of each factor that varies.
    factors, latents : tuple of str
    caveats : tuple of str
    """

    infom: float
    infoe: float
    infoc: float
    nmi: Array
    active: Array
    modularity: dict[str, float]
    compactness: dict[str, float]
    explicitness: dict[str, float]
    factors: tuple[str, ...]
    latents: tuple[str, ...]
    caveats: tuple[str, ...] = ()

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Normalised mutual information, factors by latents.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> Z = np.random.default_rng(0).uniform(size=(200, 2))
        >>> axes = isorep.structure.infomec(Z, Z).plot_matrix(ax=Figure().subplots())
        >>> axes.get_ylabel(), axes.get_xlabel()
        ('factor', 'latent')
        """
        return plot_information(ax, self.nmi, self.factors, self.latents, width)

    def counting(self, latents: Collection[str]) -> InfoMEC:
        """The same with the modularity of these latents only."""
        modularity = {name: value for name, value in self.modularity.items() if name in latents}
        return replace(self, infom=mean_of(modularity), modularity=modularity)


def plot_information(ax: Axes | None, nmi: Array, factors: Sequence[str], latents: Sequence[str], width: str) -> Axes:
    """Normalised mutual information, factors by latents."""
    from ..report.plots import matrix

    return matrix(ax, nmi, factors, latents, "NMI", width=width, names=("factor", "latent"))


def infomec(
    factors: Any,
    latents: Any,
    *,
    threshold: str = "range/20",
    n_neighbors: int = NEIGHBORS,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> InfoMEC:
    r"""InfoMEC: modularity, explicitness and compactness of latents with respect to known factors.

    With :math:`N_{ij}=I(s_i;z_j)/H(s_i)`, over the :math:`n_a` active latents and :math:`n_s` factors,

    .. math::
        \mathrm{InfoM}=\frac{\overline{\max_iN_{ij}/\sum_iN_{ij}}-1/n_s}{1-1/n_s},\qquad
        \mathrm{InfoC}=\frac{\overline{\max_jN_{ij}/\sum_jN_{ij}}-1/n_a}{1-1/n_a},\qquad
        \mathrm{InfoE}=\overline{(H_0-H)/H_0},

    where H is the in-sample log-loss of an unpenalised logistic regression with balanced classes on all latents, and
    :math:`H_0` that of none. Mutual information is the nearest-neighbour estimate of standardised latents (plug-in for
    discrete ones). For a continuous factor :math:`H(s)` is the estimate of :math:`I(s;s)`, and explicitness is the
    in-sample R² of a linear regression.

    Values where the formula divides zero by zero:

    * A constant factor is left out of everything.
    * An active latent that informs about no factor is left out of InfoM.
    * A factor that no active latent informs about counts 0 in InfoC.
    * With one factor every informative latent is modular (1).
    * With one active latent every informed factor is compact (1).
    * Where there is nothing to average, the score is 0.

    Explicitness below 0 counts as 0.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    threshold : {"range/20", "range/8", "iqr/10"}
        Rule for active continuous latents: their range (interquartile range) exceeds this share of the largest.
        A few outliers, more than ten interquartile ranges beyond the quartiles, do not count. Discrete latents are
        active if they vary at all.
    n_neighbors : int
        Number of neighbours in the estimate of mutual information.
    discrete_factors, discrete_latents : bool, sequence of bool or of names, optional
        Which columns are discrete; overrides the automatic rule.
    random_state : int
        Seed of the tiny noise that breaks ties in continuous columns.

    References
    ----------
    .. [1] Hsu, K., Dorrell, W., Whittington, J., Wu, J., Finn, C. (2023). Disentanglement via latent quantization.
           NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> shape, size = rng.integers(4, size=500), rng.integers(3, size=500)
    >>> latents = np.column_stack([size, -shape]) + 0.1 * rng.normal(size=(500, 2))
    >>> found = isorep.structure.infomec({"shape": shape, "size": size}, latents)
    >>> found.infom > 0.98, found.infoe > 0.98
    (True, True)
    """
    check_choice("threshold", threshold, THRESHOLDS)
    check_counts(n_neighbors=(n_neighbors, 1))
    check_seed(random_state)
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    return measure_infomec(pair, threshold=threshold, n_neighbors=n_neighbors, random_state=random_state)


def measure_infomec(
    pair: Pair,
    *,
    threshold: str = "range/20",
    n_neighbors: int = NEIGHBORS,
    random_state: int = 0,
    tolerance: float = 1e-5,
    starts: dict[str, Array] | None = None,
    known: Array | None = None,
    explicit: bool = True,
) -> InfoMEC:
    """InfoMEC of columns that were checked.

    ``starts`` are solutions to begin the regressions from, and are updated; ``known`` are the factors' entropies; not
    ``explicit`` leaves the regressions out.
    """
    options = {"n_neighbors": n_neighbors, "random_state": random_state}
    nmi = information(pair.factors, pair.latents, **options, known=known).normalised
    active = active_latents(pair.latents, threshold)
    varies = np.array([not factor.constant for factor in pair.factors])
    seen = nmi[varies][:, active]
    modularity = shares(seen.T)
    compactness = shares(seen)
    modular = {
        pair.latents.names[j]: value
        for j, value in zip(np.flatnonzero(active), modularity, strict=True)
        if value is not None
    }
    compact = {
        pair.factors.names[i]: value or 0.0 for i, value in zip(np.flatnonzero(varies), compactness, strict=True)
    }
    explicitness = _explicitness(pair, tolerance, starts) if explicit else {}
    return InfoMEC(
        infom=mean_of(modular),
        infoe=mean_of(explicitness),
        infoc=mean_of(compact),
        nmi=nmi,
        active=active,
        modularity=modular,
        compactness=compact,
        explicitness=explicitness,
        factors=pair.factors.names,
        latents=pair.latents.names,
        caveats=(*pair.caveats, *constant_caveats(pair)),
    )


def active_latents(latents: Columns, threshold: str = "range/20") -> Array:
    """Which latents vary enough to be active."""
    kind, _, part = threshold.partition("/")
    spreads = np.array([_spread(column.values, kind) for column in latents])
    discrete = np.array([column.discrete for column in latents])
    most = spreads[~discrete].max(initial=0.0)
    continuous = (spreads > most / float(part)) & (spreads > 0)
    return np.where(discrete, [not column.constant for column in latents], continuous)


def shares(table: Array) -> list[float | None]:
    """For each row how far its largest entry dominates: 0 if all are equal, 1 if it is alone, None if all are 0."""
    n = table.shape[1]
    dominances: list[float | None] = []
    for row in table:
        share = float(row.max() / row.sum()) if row.sum() > 0 else None
        dominances.append(share if share is None or n == 1 else (share - 1 / n) / (1 - 1 / n))
    return dominances


def constant_caveats(pair: Pair) -> tuple[str, ...]:
    """A caveat on constant factors."""
    names = [factor.name for factor in pair.factors if factor.constant]
    return (f"constant factors were left out: {', '.join(names[:12])}",) if names else ()


def _explicitness(pair: Pair, tolerance: float, starts: dict[str, Array] | None) -> dict[str, float]:
    x = design(pair.latents)
    by_factor = {}
    for factor in pair.factors:
        if factor.constant:
            continue
        if factor.discrete:
            fitted = Logistic(balanced=True, tolerance=tolerance)
            fitted.fit(x, factor.codes, None if starts is None else starts.get(factor.name))
            if starts is not None:
                starts.setdefault(factor.name, fitted.theta)
            lost = -float(fitted.log_probabilities(x)[np.arange(pair.n), factor.codes].mean())
            nothing = float(np.log(len(fitted.classes)))  # balanced classes and no regressors: all alike
            by_factor[factor.name] = max(0.0, (nothing - lost) / nothing)  # rare labels can make it worse than none
        else:
            by_factor[factor.name] = _in_sample_r2(x, factor.values)
    return by_factor


def _in_sample_r2(x: Any, values: Array) -> float:
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    centred = values - values.mean()
    regressors = dense - dense.mean(axis=0)
    residual = centred - regressors @ np.linalg.lstsq(regressors, centred, rcond=None)[0]
    return float(1 - (residual @ residual) / (centred @ centred))


def _spread(values: Array, kind: str) -> float:
    low, high = np.quantile(drawn_in(values), [0.25, 0.75] if kind == "iqr" else [0, 1])
    return float(high - low)
