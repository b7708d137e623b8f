"""Whitening and ICA as functions: from rows in memory, in files or on workers to plain records.

The scikit-learn estimators take their attributes from these records, which have the same names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..chunked import ChunkedRows, is_dask
from ..covariance import or_tiny, principal, resolve_alone
from ..errors import InputError
from ..moments import Moments, moments_alone
from ..representation import Array, Matrix, rounding_of
from ..rows import ProjectedRows, block_rows, blocks, read_rows
from ..threads import Crew
from .checkpoint import Checkpoint, Keeper, Report
from .contrasts import Contrast
from .newton import indistinct
from .solver import Rotation, conditioning, rotate, rotate_unwhitened, uncertainty
from .white import ArrayRows, WhiteRows, canonical_form, filled, on_device

if TYPE_CHECKING:
    from .dask_rows import DaskSource

FLOATS = [np.float64, np.float32, np.float16]
FINGERPRINT_ROWS = 4096
_TIE = 1e-5  # relative difference of loadings that may be rounding
_UNSETTLED = 0.05  # radians by which a Newton step would still rotate a component that has not converged


@dataclass(frozen=True, eq=False)
class WhiteningMap:
    """A fitted whitening: the attributes of :class:`~isorep.Whitening`."""

    mean_: Array
    components_: Array
    mixing_: Array
    singular_values_: Array
    rank_: int
    left_out_columns_: Array
    left_out_spreads_: Array

    def leading(self, k: int) -> WhiteningMap:
        """The map in principal axes cut to its leading ones."""
        return replace(
            self,
            components_=self.components_[:k],
            mixing_=self.mixing_[:, :k],
            singular_values_=self.singular_values_[:k],
        )

    def upright(self) -> WhiteningMap:
        """The map with axes whose largest loading is positive, so that signs do not depend on the processor.

        Of loadings that differ by rounding alone the first decides.
        """
        size = np.abs(self.mixing_)
        leading = np.argmax(size >= (1 - _TIE) * size.max(axis=0), axis=0)
        signs = np.where(self.mixing_[leading, np.arange(len(leading))] < 0, -1.0, 1.0)
        return replace(self, components_=self.components_ * signs[:, None], mixing_=self.mixing_ * signs)


@dataclass(frozen=True, eq=False)
class Unmixing:
    """A fitted ICA: the attributes of :class:`~isorep.ICA` that it has even without whitening."""

    mean_: Array
    components_: Array
    mixing_: Array
    contrast_: Array
    n_iter_: int
    path_: Array
    converged_: bool


@dataclass(frozen=True, eq=False)
class WhiteUnmixing(Unmixing):
    """A fitted ICA of whitened rows: all attributes of :class:`~isorep.ICA`."""

    rank_: int
    singular_values_: Array
    left_out_columns_: Array
    left_out_spreads_: Array
    skewness_: Array
    kurtosis_: Array
    conditioning_: Array
    uncertainty_: Array
    gaussian_: Array
    unsettled_: Array


def whiten(
    source: Source,
    n_components: int | None = None,
    *,
    kind: str = "pca",
    rounding: float | None = None,
    standardise: bool = False,
    name: str = "X",
) -> WhiteningMap:
    """Mean and axes of rows that have been checked; settings as for :class:`~isorep.Whitening`."""
    if kind not in ("pca", "zca"):
        raise InputError(f"kind is {kind!r}; known are pca, zca")
    total, factor = resolve_alone(
        source.moments, source.rounding if rounding is None else rounding, any_scale=bool(standardise)
    )
    if total.n < 2:
        raise InputError("one row has no variance: there is nothing to whiten")
    if factor.rank == 0:
        raise InputError(f"{name} has no variance: all rows are identical up to rounding{or_tiny(total.source_mean)}")
    units = np.where(factor.spread > 0, factor.spread, 1.0) if standardise else np.ones(len(factor.spread))
    components, mixing, deviations, axes = principal(factor, units)
    kept: Any = factor.rank if n_components is None else n_components
    if isinstance(kept, bool) or not isinstance(kept, int | np.integer):
        raise InputError(f"n_components={kept!r} is not a whole number")
    if not 1 <= kept <= factor.rank:
        raise InputError(f"n_components={kept} is not between 1 and the data's numerical rank {factor.rank}")
    left_out = np.flatnonzero(factor.constant | factor.left_out)
    found = WhiteningMap(
        total.source_mean, components, mixing, deviations, factor.rank, left_out, factor.spread[left_out]
    ).leading(int(kept))
    if kind == "pca":
        return found
    axes = axes[:kept]
    return replace(found, components_=axes.T @ found.components_, mixing_=found.mixing_ @ axes)


def unmix(
    source: Source,
    whitening: WhiteningMap,
    contrast: Contrast,
    random_state: np.random.RandomState,
    *,
    start: Array | None = None,
    tol: float = 1e-4,
    max_iter: int = 200,
    device: str | None = None,
    keeper: Keeper | None = None,
    report: Report | None = None,
) -> WhiteUnmixing:
    """ICA of rows whose whitening in principal axes is known; settings as for :class:`~isorep.ICA`.

    Whitening and seed are taken from the checkpoint if there is one, so that a resumed fit is identical.
    """
    keeper = keeper or Keeper()
    seed = int(random_state.randint(2**31 - 1))
    whitening = replace(  # the order in which files hold them
        whitening,
        components_=np.ascontiguousarray(whitening.components_),
        mixing_=np.ascontiguousarray(whitening.mixing_),
    )
    if isinstance(keeper, Checkpoint):
        whitening, seed = _kept(whitening, keeper, seed)
    with Crew() as crew:
        white = on_device(source.whitened(whitening.mean_, whitening.components_.T, crew), device)
        rotation = rotate(
            white,
            contrast,
            start=None if start is None else _start_in(whitening, start),
            tol=tol,
            max_iter=max_iter,
            seed=seed,
            keeper=keeper,
            report=report,
        )
        found = described(white, rotation, contrast, whitening, max_iter)
    if isinstance(keeper, Checkpoint):
        keeper.remove()
    return found


def unmix_unwhitened(
    source: Source, contrast: Contrast, random_state: np.random.RandomState, *, tol: float, max_iter: int
) -> Unmixing:
    """ICA as scikit-learn's FastICA does it with ``whiten=False``: the same start, step and stopping rule.

    Without whitening there is no rank to find: every column counts.
    """
    width = source.shape[1]
    total = source.moments(None, None)
    size = float(np.hypot(np.sqrt(np.diag(total.xx) / total.n), total.source_mean).max())
    if size > np.finfo(np.float64 if source.dtype == np.float64 else np.float32).max ** 0.5:
        raise InputError(f"values of X are near {size:.0e}, too large without whitening: whiten or rescale them")
    start = random_state.normal(size=(width, width))
    with Crew() as crew:
        rows = source.whitened(np.zeros(width), np.eye(width), crew)
        rotation = rotate_unwhitened(rows, start, contrast, tol, max_iter)
    return _canonical(rotation, contrast, np.zeros(width), np.eye(width), np.eye(width), max_iter)[0]


def described(
    white: WhiteRows, rotation: Rotation, contrast: Contrast, whitening: WhiteningMap, max_iter: int
) -> WhiteUnmixing:
    """Components in canonical form, with all their statistics."""
    portrait = rotation.portrait
    found, order = _canonical(rotation, contrast, whitening.mean_, whitening.components_, whitening.mixing_, max_iter)
    gaussian = indistinct(portrait.alpha, contrast, white.n)[order]
    return WhiteUnmixing(
        **vars(found),
        rank_=whitening.rank_,
        singular_values_=whitening.singular_values_,
        left_out_columns_=whitening.left_out_columns_,
        left_out_spreads_=whitening.left_out_spreads_,
        skewness_=np.abs(portrait.third)[order],
        kurtosis_=portrait.fourth[order] - 3,
        conditioning_=conditioning(portrait)[np.ix_(order, order)],
        uncertainty_=uncertainty(portrait, white.n)[order],
        gaussian_=gaussian,
        unsettled_=(rotation.newton_step[order] > _UNSETTLED) & ~gaussian,
    )


def _canonical(
    rotation: Rotation, contrast: Contrast, mean: Array, unmixing: Array, mixing: Array, max_iter: int
) -> tuple[Unmixing, Array]:
    """Components in canonical form, and how they were reached; their order."""
    excess = rotation.portrait.value - contrast.normal_value
    order, signs = canonical_form(excess, rotation.portrait.third, mixing @ rotation.matrix.T)
    canonical = (rotation.matrix * signs[:, None])[order]
    found = Unmixing(
        mean_=mean,
        components_=canonical @ unmixing,
        mixing_=mixing @ canonical.T,
        contrast_=excess[order],
        n_iter_=int(np.clip(np.ceil(rotation.sweeps), 1, max_iter)),
        path_=np.array(rotation.path).reshape(-1, 2),
        converged_=rotation.converged,
    )
    return found, order


def _kept(whitening: WhiteningMap, keeper: Checkpoint, seed: int) -> tuple[WhiteningMap, int]:
    """Whitening and seed of the checkpoint; a new checkpoint stores the given ones."""
    names = ("mean", "components", "mixing", "singular_values", "rank")
    if keeper.load() is None:
        keeper.whitening = {name: np.atleast_1d(getattr(whitening, f"{name}_")) for name in names}
        keeper.whitening["seed"] = np.array([seed])
        return whitening, seed
    kept = keeper.whitening
    scale = whitening.singular_values_[0] + np.abs(whitening.mean_).max()
    for name in ("mean", "singular_values"):
        fresh = getattr(whitening, f"{name}_")
        if fresh.shape != kept[name].shape or np.abs(fresh - kept[name]).max() > 1e-10 * scale:
            raise InputError(f"{keeper.path} is the checkpoint of other data: name another file, or remove it")
    changed: dict[str, Any] = {f"{name}_": kept[name] for name in names} | {"rank_": int(kept["rank"][0])}
    return replace(whitening, **changed), int(kept["seed"][0])


def _start_in(whitening: WhiteningMap, unmixing: Array) -> Array | None:
    """An unmixing matrix as a rotation of this whitened space; None where the dimensions do not fit."""
    unmixing = np.asarray(unmixing, dtype=np.float64)
    if unmixing.ndim != 2 or unmixing.shape[1] != len(whitening.mixing_):
        raise InputError(f"start has the shape {unmixing.shape}, not (components, {len(whitening.mixing_)})")
    start = unmixing @ whitening.mixing_
    return start if start.shape[0] == start.shape[1] else None


class ArraySource:
    """Rows to fit from: an array, a memory map, or anything else that gives row slices."""

    def __init__(self, values: Matrix) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))
        self.dtype = np.dtype(values.dtype)
        self.rounding = rounding_of(values)

    def moments(self, mean: Array | None, basis: Array | None) -> Moments:
        """One pass: the moments of the rows, or of centred rows times a basis."""
        rows = self.values if mean is None or basis is None else ProjectedRows(self.values, mean, basis)
        return moments_alone(rows)

    def whitened(self, mean: Array, whitener: Array, crew: Crew) -> ArrayRows:
        """Whitened rows: products in float64, stored as float64 only if the rows are."""
        dtype = np.float64 if self.dtype == np.float64 else np.float32
        shape, rows = (self.shape[0], whitener.shape[1]), ProjectedRows(self.values, mean, whitener)
        parts = blocks(self.shape[0], block_rows(*self.shape[1:], whitener.shape[1], cells=2**21))
        return ArrayRows(filled(shape, dtype, rows.__getitem__, crew, parts), crew)

    def fingerprint(self) -> str:
        """Shape, dtype and a few thousand evenly spread rows."""
        step = max(self.shape[0] // FINGERPRINT_ROWS, 1)
        digest = hashlib.sha256(f"{self.shape} {self.dtype.str}".encode())
        for rows in blocks(self.shape[0], block_rows(self.shape[1])):
            chosen = slice(rows.start + -rows.start % step, rows.stop, step)
            digest.update(np.ascontiguousarray(read_rows(self.values, chosen)).tobytes())
        return digest.hexdigest()


Source: TypeAlias = "ArraySource | DaskSource"


def as_source(data: Any) -> Source:
    """The passes over checked data."""
    if is_dask(data) or isinstance(data, ChunkedRows):
        from .dask_rows import DaskSource

        return DaskSource(data)
    return ArraySource(data)
