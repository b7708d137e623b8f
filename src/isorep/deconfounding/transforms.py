"""Transforms of an embedding before classification. No transform uses the label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from ..errors import InputError, missing_extra
from ..ica import ICA, Whitening
from ..ica.whitening import keep_leading, quietly
from ..representation import Array
from ..settings import check_names
from .inputs import Column

NAMES = {
    "base": "Base",
    "pca": "PCA",
    "pca_ica": "PCA+ICA",
    "pca_rand": "PCA+Rand",
    "ica_base": "ICA on Base",
    "centred": "batch-centred",
    "harmony": "Harmony",
}
"""The conditions as the paper spells them."""
CONDITIONS = tuple(NAMES)
WHITE = ("pca", "pca_ica", "pca_rand")  # one space in three bases: the same for distances and linear models
TRANSDUCTIVE = ("centred", "harmony")  # they need the batch of the rows they are applied to
_ROWS_A_COMPONENT = 10
_STRAY_SWEEPS = 100  # of the fixed point without whitening, which need not settle


def condition_name(name: str) -> str:
    """A condition in words; one of the user's by its own name."""
    return NAMES.get(name, name)


@dataclass(frozen=True, eq=False)
class Transforms:
    """All conditions for the rows of one fit; whitened rows are computed once and shared."""

    values: Array
    fitted: Array
    n_components: int | str | None
    batch: Column
    transformers: Mapping[str, Any]

    def __call__(self, name: str, seed: int = 0) -> Array:
        """All rows under a condition; the seed is that of random rotations and of iterations."""
        if name in self.transformers:
            return self._by_user(name)
        made: dict[str, Callable[[], Array]] = {
            "base": lambda: self.values,
            "pca": lambda: self._white[1],
            "pca_ica": lambda: self._sources,
            "pca_rand": lambda: self._rotated(seed),
            "ica_base": lambda: self._unwhitened(seed),
            "centred": lambda: centred(self.values, self.batch.codes),
            "harmony": lambda: self._harmony(seed),
        }
        return made[name]()

    @cached_property
    def _white(self) -> tuple[Whitening, Array]:
        """The whitening, and all rows under it."""
        white = whitening(self.fitted, self.n_components)
        return white, np.asarray(white.transform(self.values))

    @cached_property
    def _sources(self) -> Array:
        """All rows as independent components of the whitened space."""
        white, rows = self._white
        return np.asarray(quietly(ICA(random_state=0), white.transform(self.fitted)).transform(rows))

    def _rotated(self, seed: int) -> Array:
        rows = self._white[1]
        return np.asarray(rows @ haar(rows.shape[1], np.random.default_rng(seed)).astype(rows.dtype))

    def _unwhitened(self, seed: int) -> Array:
        """ICA of centred rows that keep their variances, up to one scale for all columns."""
        mean = self.fitted.mean(axis=0, dtype=np.float64)
        scale = float(np.sqrt(np.mean(np.var(self.fitted, axis=0, dtype=np.float64)))) or 1.0
        fitted, values = (((rows - mean) / scale).astype(self.values.dtype) for rows in (self.fitted, self.values))
        ica = quietly(ICA(whiten=None, random_state=seed, max_iter=_STRAY_SWEEPS), fitted)
        return np.asarray(ica.transform(values))

    def _harmony(self, seed: int) -> Array:
        """Harmony on principal components, which keep their variances."""
        white, rows = self._white
        scores = np.asarray(rows * white.singular_values_.astype(rows.dtype), np.float64)
        return harmonised(scores, self.batch, seed).astype(self.values.dtype)

    def _by_user(self, name: str) -> Array:
        try:
            rows = np.asarray(clone(self.transformers[name]).fit(self.fitted).transform(self.values))
        except Exception as error:  # whatever a transformer of the user's raises
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(f"the transformer {name!r} failed: {reason}") from error
        if rows.ndim != 2 or len(rows) != len(self.values) or not np.isfinite(rows).all():
            raise InputError(f"the transformer {name!r} does not give one row of finite numbers for each row")
        return rows


def whitening(fitted: Array, n_components: int | str | None) -> Whitening:
    """Whitening at the numerical rank, cut to as many leading axes as wanted.

    Features are whitened as they are: axes are those of their own variances, and columns that hardly vary compared with
    the others are left out. Standardise features in different units first: the other conditions depend on units, too.
    """
    white = quietly(Whitening(), fitted)
    return keep_leading(white, dimensions(len(fitted), white.rank_, n_components))


def dimensions(rows: int, rank: int, n_components: int | str | None) -> int:
    """The number of axes kept; default: at most a tenth of the rows.

    With fewer rows per axis, whitening amplifies noise to unit variance, and ICA turns single rows into components.
    """
    if n_components == "all":
        return rank
    return min(rank, max(1, rows // _ROWS_A_COMPONENT) if n_components is None else int(n_components))


def haar(dimension: int, rng: np.random.Generator) -> Array:
    """A rotation drawn uniformly: QR of a Gaussian matrix with the signs of R's diagonal taken out (Mezzadri 2007)."""
    q, r = np.linalg.qr(rng.normal(size=(dimension, dimension)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def centred(values: Array, codes: Array) -> Array:
    """Rows without the mean of their own batch."""
    means = np.stack([values[codes == code].mean(axis=0, dtype=np.float64) for code in range(codes.max() + 1)])
    return np.asarray(values - means.astype(values.dtype)[codes])


def harmonised(scores: Array, batch: Column, seed: int) -> Array:
    """Harmony's correction of principal components (Korsunsky et al. 2019)."""
    try:
        from harmonypy import run_harmony  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise missing_extra("harmonypy", "bio", "the condition harmony") from None
    frame = {"batch": np.array(batch.names)[batch.codes]}
    return np.asarray(run_harmony(scores, frame, "batch", verbose=False, random_state=seed, ncores=2).Z_corr)


def named(conditions: Any, transformers: Mapping[str, Any]) -> list[str]:
    """The conditions in order, those of the user last."""
    wanted = check_names("conditions", conditions, CONDITIONS) if conditions or not transformers else []
    for name, transformer in transformers.items():
        if name in CONDITIONS:
            raise InputError(f"a transformer cannot be called {name!r}: that is a condition of its own")
        if not (hasattr(transformer, "fit") and hasattr(transformer, "transform")):
            raise InputError(f"the transformer {name!r} has no fit and transform")
    return [name for name in CONDITIONS if name in wanted] + list(transformers)
