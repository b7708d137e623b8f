r"""MCC: mean correlation of factors with latents matched one to one, in-sample and held out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ..ica import ICA, GaussianityWarning
from ..representation import Array
from ..results import Record
from ..settings import check_choice
from .columns import Pair, standardised
from .splits import FOLDS, cross_validated, folds_of, kept_folds

CORRELATIONS = ("pearson", "spearman")
MAPS = (None, "linear", "ica")
Map = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class MCC(Record):
    """The result of :func:`mcc`.

    Attributes
    ----------
    value : float
        Mean absolute correlation of the factors that vary, matched and measured on the same rows; 0 if none does.
    held_out : float
        The same with matching, signs and map chosen on other rows; its chance level is near 0.
    matches : dict of str to str or None
        The latent of each factor; None where latents are too few. After a map, latents are named 0, 1, ...
    correlations, held_out_correlations : dict of str to float
        Correlation of each factor with its latent; the first are signed.
    """

    value: float
    held_out: float
    matches: dict[str, str | None]
    correlations: dict[str, float]
    held_out_correlations: dict[str, float]


def mcc(
    factors: Any,
    latents: Any,
    *,
    correlation: str = "pearson",
    after: str | None = None,
    folds: int = FOLDS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> MCC:
    r"""Mean correlation coefficient (MCC) of factors with latents matched one to one.

    .. math:: \frac1{n_s}\max_\pi\sum_i|\operatorname{corr}(s_i,z_{\pi(i)})|

    A factor without a matched latent counts 0, and a constant factor is left out. Text is coded by alphabetical order,
    so its correlation is not meaningful for more than two labels.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows; widths may differ.
    correlation : {"pearson", "spearman"}
        Correlation of values (default) or of ranks.
    after : {None, "linear", "ica"}
        Map the latents first: by least squares onto the factors, or to independent components. Default: no map.
    folds : int
        Number of folds for ``held_out``: matching, signs and map are chosen without a row's fold.
    groups : (n,) array, optional
        Group per row; rows of a group are held out together.
    discrete_factors, discrete_latents
        As for :func:`infomec`; they do not change the score.
    random_state : int
        Seed of the folds and of ICA.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = isorep.structure.mcc(s, -2 * s[:, [2, 0, 1]])
    >>> round(found.value, 6), round(found.held_out, 6), found.matches
    (1.0, 1.0, {'s0': 'z1', 's1': 'z2', 's2': 'z0'})
    """
    check_choice("correlation", correlation, CORRELATIONS)
    check_choice("after", after, MAPS)
    given = (factors, latents, folds, groups, discrete_factors, discrete_latents, random_state)
    pair, labels = cross_validated(*given)
    fold_of = folds_of(pair.n, folds, labels, np.random.default_rng(random_state))
    return measure_mcc(pair, fold_of, correlation=correlation, after=after, random_state=random_state)


def measure_mcc(
    pair: Pair, fold_of: Array, *, correlation: str = "pearson", after: str | None = None, random_state: int = 0
) -> MCC:
    """MCC of columns that were checked, with the fold of each row."""
    s, z = pair.factors.matrix, pair.latents.matrix
    mapped = _fitted(after, s, z, random_state)(z)
    names = pair.latents.names if after is None else tuple(map(str, range(mapped.shape[1])))
    ranked = correlation == "spearman"
    rho = _correlations(s, mapped, ranked)
    varies = np.flatnonzero([not factor.constant for factor in pair.factors])
    rows, columns = linear_sum_assignment(-np.abs(rho[varies]))
    match = dict(zip(varies[rows].tolist(), columns.tolist(), strict=True))
    direct = {name: float(rho[i, match[i]]) if i in match else 0.0 for i, name in enumerate(pair.factors.names)}
    held = _held_out(pair, ranked, after, fold_of, random_state)
    return MCC(
        value=float(np.abs(list(direct.values()))[varies].mean()) if len(varies) else 0.0,
        held_out=float(held[varies].mean()) if len(varies) else 0.0,
        matches={name: names[match[i]] if i in match else None for i, name in enumerate(pair.factors.names)},
        correlations=direct,
        held_out_correlations=dict(zip(pair.factors.names, held.tolist(), strict=True)),
    )


def _held_out(pair: Pair, ranked: bool, after: str | None, fold_of: Array, random_state: int) -> Array:
    """Correlations of factors with latents matched on other rows, over all rows at once.

    Latents are ranked, or standardised, over all rows, which uses no pairing; after a map, fold by fold.
    """
    s, z = pair.factors.matrix, pair.latents.matrix
    targets = rankdata(s, axis=0) if ranked else s
    if after is None:
        z = standardised(rankdata(z, axis=0) if ranked else z)
    chosen = np.zeros_like(s)
    for fold in kept_folds(fold_of):
        held, train = fold_of == fold, fold_of != fold
        fitted = _fitted(after, s[train], z[train], random_state)
        mapped, unseen = fitted(z[train]), fitted(z[held])
        if ranked and after is not None:
            unseen = _places(mapped, unseen) / len(mapped) - 0.5
            mapped = rankdata(mapped, axis=0)
        rho = _correlations(targets[train], mapped, False)
        for i, j in zip(*linear_sum_assignment(-np.abs(rho)), strict=True):
            chosen[held, i] = np.sign(rho[i, j]) * unseen[:, j]
    return np.array([_correlations(targets[:, [i]], chosen[:, [i]], False)[0, 0] for i in range(s.shape[1])])


def _fitted(after: str | None, s: Array, z: Array, random_state: int) -> Map:
    """The map that comes before matching, fitted on these rows."""
    if after is None:
        return lambda rows: rows
    if after == "linear":
        target = s.mean(axis=0)
        weights = np.linalg.lstsq(standardised(z), s - target, rcond=None)[0]
        return lambda rows: np.asarray(standardised(rows, z) @ weights + target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GaussianityWarning)
        model = ICA(random_state=random_state).fit(z)
    return lambda rows: np.asarray(model.transform(rows))


def _correlations(s: Array, z: Array, ranked: bool) -> Array:
    """Correlations, factors by latents; 0 where a column is constant."""
    if ranked:
        s, z = rankdata(s, axis=0), rankdata(z, axis=0)
    parts = []
    for values in (s, z):
        centred = values - values.mean(axis=0)
        norms = np.sqrt((centred**2).sum(axis=0))
        least = 1e-13 * np.abs(values).max(axis=0, initial=0.0) * np.sqrt(len(values))
        parts.append(np.where(norms > least, centred / np.where(norms > 0, norms, 1.0), 0.0))
    return np.asarray(np.clip(parts[0].T @ parts[1], -1, 1))


def _places(known: Array, rows: Array) -> Array:
    """The places that rows would take among known ones."""
    columns = []
    for ordered, values in zip(np.sort(known, axis=0).T, rows.T, strict=True):
        below, upto = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
        columns.append((below + upto + 1) / 2)
    return np.column_stack(columns)
