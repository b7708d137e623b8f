"""Transforms of an embedding before classification. No transform uses the label."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object

from ..errors import InputError, missing_extra
from ..ica import ICA, Whitening
from ..ica.whitening import keep_leading, quietly
from ..representation import Array
from ..resampling import haar
from ..settings import check_names
from .corrections import combat, control_z, regressed_out, sphered, tvn
from .inputs import Column

NAMES = {
    "base": "Base",
    "pca": "PCA",
    "pca_ica": "PCA+ICA",
    "pca_rand": "PCA+Rand",
    "ica_base": "ICA on Base",
    "control_z": "z-score",
    "sphere": "sphering",
    "tvn": "TVN",
    "centred": "batch-centred",
    "regress_out": "regress-out",
    "combat": "ComBat",
    "harmony": "Harmony",
}
"""The conditions as the paper and the field spell them."""
CONDITIONS = tuple(NAMES)
WHITE = ("pca", "pca_ica", "pca_rand")  # one space in three bases: the same for distances and linear models
USES = {
    "control_z": "controls",
    "tvn": "controls",
    "centred": "rows",
    "regress_out": "rows",
    "combat": "rows",
    "harmony": "rows",
}
"""What conditions use of a held-out batch: its controls (known as such), or all its rows (without labels)."""
ON_CONTROLS = ("control_z", "sphere", "tvn")
DEFAULT = ("base", "pca_ica", "control_z", "pca_rand")
EVERY = ("base", "pca", "pca_ica", "pca_rand", "control_z", "sphere", "tvn", "regress_out", "combat", "harmony")
LEAST_CONTROLS = 3  # of a batch: a control is corrected by the others, and one has no spread
_STRAY_SWEEPS = 100  # of the fixed point without whitening, which need not settle


def condition_name(name: str) -> str:
    """A condition in words; one of the user's by its own name."""
    return NAMES.get(name, name)


@dataclass(frozen=True, eq=False)
class Transforms:
    """All conditions for the rows of one fit; whitened rows are computed once and shared.

    ``fitted`` are the rows that transforms are fitted on, ``among`` which of the values they are (None for other rows),
    and ``white`` a whitening of them, already cut to the axes that are kept.
    """

    values: Array
    fitted: Array
    among: Array | None
    white: Whitening | None
    batches: tuple[Column, ...]
    controls: Array
    transformers: Mapping[str, Any]

    def __call__(self, name: str, seed: int = 0) -> Array:
        """All rows under a condition; the seed is that of random rotations and of iterations."""
        if name in self.transformers:
            return self._by_user(name)
        codes = self.batches[0].codes
        made: dict[str, Callable[[], Array]] = {
            "base": lambda: self.values,
            "pca": lambda: self._rows,
            "pca_ica": lambda: self._sources,
            "pca_rand": lambda: self._rotated(seed),
            "ica_base": lambda: self._unwhitened(seed),
            "control_z": lambda: control_z(self.values, codes, self.controls),
            "sphere": lambda: sphered(self.values, self._fitted_controls),
            "tvn": lambda: tvn(self.values, codes, self.controls),
            "centred": lambda: regressed_out(self.values, self.batches[:1]),
            "regress_out": lambda: regressed_out(self.values, self.batches),
            "combat": lambda: combat(self.values, codes),
            "harmony": lambda: self._harmony(seed),
        }
        return np.asarray(made[name](), dtype=self.values.dtype)

    @cached_property
    def _rows(self) -> Array:
        """All rows, whitened."""
        assert self.white is not None, "a whitening is fitted where a condition needs one"
        return np.asarray(self.white.transform(self.values))

    @cached_property
    def _sources(self) -> Array:
        """All rows as independent components of the whitened space."""
        assert self.white is not None
        return np.asarray(quietly(ICA(random_state=0), self.white.transform(self.fitted)).transform(self._rows))

    @property
    def _fitted_controls(self) -> Array:
        """Which rows are controls that transforms are fitted on; of other rows nothing is known."""
        if self.among is None:
            raise InputError("sphering needs controls among the rows that it is fitted on: use fit_on train or all")
        return np.asarray(self.among & self.controls)

    def _rotated(self, seed: int) -> Array:
        rows = self._rows
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
        assert self.white is not None
        scores = np.asarray(self._rows * self.white.singular_values_.astype(self._rows.dtype), np.float64)
        return harmonised(scores, self.batches[0], seed)

    def _by_user(self, name: str) -> Array:
        batch = self.batches[0]
        known = {"batch": np.array(batch.names)[batch.codes], "controls": self.controls}
        mine = clone(self.transformers[name])
        to_fit = {each: known[each] for each in accepted(mine, "fit")}
        if to_fit and self.among is None:
            raise InputError(f"the transformer {name!r} asks for {' and '.join(to_fit)}, unknown for other rows")
        try:
            mine.fit(self.fitted, **{each: values[self.among] for each, values in to_fit.items()})
            rows = np.asarray(
                mine.transform(self.values, **{each: known[each] for each in accepted(mine, "transform")})
            )
        except Exception as error:  # whatever a transformer of the user's raises
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(f"the transformer {name!r} failed: {reason}") from error
        if rows.ndim != 2 or len(rows) != len(self.values) or not np.isfinite(rows).all():
            raise InputError(f"the transformer {name!r} does not give one row of finite numbers for each row")
        return rows


def accepted(transformer: Any, method: str) -> list[str]:
    """Which of ``batch`` and ``controls`` a method takes: arguments of these names, or requested metadata."""
    names = ("batch", "controls")
    function = getattr(transformer, method)
    try:
        taken = {name for name in names if name in inspect.signature(function).parameters}
    except (TypeError, ValueError):  # a method without a signature
        taken = set()
    if sklearn.get_config().get("enable_metadata_routing"):
        taken |= set(get_routing_for_object(transformer).consumes(method=method, params=names))
    return [name for name in names if name in taken]


def used_by(name: str, transformers: Mapping[str, Any]) -> str | None:
    """What a condition uses of a held-out batch: ``controls``, ``rows`` or nothing."""
    if name not in transformers:
        return USES.get(name)
    taken = accepted(transformers[name], "transform")
    return "controls" if "controls" in taken else "rows" if "batch" in taken else None


def leading(white: Whitening, k: int) -> Whitening:
    """A copy of a whitening with its leading axes."""
    return keep_leading(copy(white), k)


def harmonised(scores: Array, batch: Column, seed: int) -> Array:
    """Harmony's correction of principal components (Korsunsky et al. 2019)."""
    try:
        from harmonypy import run_harmony  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise missing_extra("harmonypy", "bio", "the condition harmony") from None
    frame = {"batch": np.array(batch.names)[batch.codes]}
    return np.asarray(run_harmony(scores, frame, "batch", verbose=False, random_state=seed, ncores=2).Z_corr)


def named(
    conditions: Any, transformers: Mapping[str, Any], batches: Array, controls: Array
) -> tuple[list[str], list[str]]:
    """The conditions in order, those of the user last, and sentences on those that were left out.

    ``None`` stands for the default, ``all`` for every one that can be computed here. ``batches`` and ``controls`` are
    the batch code of every row and which rows are controls.
    """
    for name, transformer in transformers.items():
        if name in CONDITIONS:
            raise InputError(f"a transformer cannot be called {name!r}: that is a condition of its own")
        if not (hasattr(transformer, "fit") and hasattr(transformer, "transform")):
            raise InputError(f"the transformer {name!r} has no fit and transform")
    few = np.bincount(batches[controls], minlength=batches.max() + 1) < LEAST_CONTROLS
    lacking = [name for name in ("control_z", "tvn") if few.any()]
    told = []
    if conditions is None:
        wanted = [name for name in DEFAULT if name not in lacking]
    elif "all" in ([conditions] if isinstance(conditions, str) else list(conditions)):
        wanted = [name for name in EVERY if name not in lacking]
        if lacking:
            told.append(
                f"z-score and TVN were left out: {int(few.sum())} batches have fewer than {LEAST_CONTROLS} controls"
            )
        if find_spec("harmonypy") is None:
            wanted.remove("harmony")
            told.append("Harmony was left out: the package harmonypy is not installed")
    else:
        wanted = check_names("conditions", conditions, (*CONDITIONS, "all")) if conditions or not transformers else []
        asked = [name for name in wanted if name in lacking]
        if asked:
            where = f"{int(few.sum())} of {len(few)} batches have fewer"
            raise InputError(f"the condition {asked[0]} needs {LEAST_CONTROLS} controls in every batch, and {where}")
    return [name for name in CONDITIONS if name in wanted] + list(transformers), told
