r"""The ladder of latents against factors (structural near-identifiability): up to which group are they the factors?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comparison import Comparison, compare
from ..comparison.rungs import RUNGS
from ..representation import Representation
from ..rows import Progress
from .columns import Columns
from .pairs import Pair, paired
from .regression import numbers
from .scaling import moments_of


def ladder(
    factors: Any,
    latents: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    standardise: bool = True,
    folds: int = 5,
    groups: Any = None,
    n_null: int = 20,
    n_boot: int = 1000,
    tolerance: float = 0.01,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    r"""Up to which group do latents equal the factors?

    For each group :math:`H` the best :math:`h\in H` is fitted from latents to factors, and
    :math:`\frac1n\sum\|h(z)-u\|/\Delta(u)` is reported on unseen rows, as :func:`isorep.compare` does between two
    representations; here :math:`h` acts on the latents and the unit is the diameter of the factors.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows; of text an indicator for each label is taken.
    standardise : bool
        Bring every column of both sides to unit variance first: factors have units of their own, and the signed
        permutation knows one scale for all.
    rungs, folds, groups, n_null, n_boot, tolerance, random_state, progress
        As for :func:`isorep.compare`.

    Returns
    -------
    Comparison
        ``rungs`` from latents onto factors, ``reverse`` from factors onto latents.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).laplace(size=(400, 3))
    >>> isorep.structure.ladder(s, -3 * s[:, [2, 0, 1]]).verdict.rung
    'signed_permutation'
    """
    pair = paired(factors, latents)
    options = {
        "rungs": rungs,
        "folds": folds,
        "n_null": n_null,
        "n_boot": n_boot,
        "tolerance": tolerance,
        "random_state": random_state,
        "progress": progress,
    }
    return measure_ladder(pair, standardise=standardise, groups=pair.group_codes(groups), **options)


def measure_ladder(pair: Pair, *, standardise: bool = True, **options: Any) -> Comparison:
    """The ladder of columns that were checked."""
    latents, factors = (
        Representation(_matrix(columns, standardise), name=columns.name) for columns in (pair.latents, pair.factors)
    )
    return compare(latents, factors, **options)


def _matrix(columns: Columns, standardise: bool) -> np.ndarray[Any, Any]:
    values = numbers(columns)[0]
    if not standardise:
        return values
    mean, spread = moments_of(values)
    return np.asarray((values - mean) / spread)
