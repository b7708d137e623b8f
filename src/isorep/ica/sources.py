"""Rows to fit from, wherever they lie: the two passes that come before the rotation, moments and whitening."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from ..errors import InputError
from ..moments import Moments, moments_alone
from ..representation import Array, Matrix, Representation, rounding_of
from ..rows import Crew, ProjectedRows, block_rows, blocks, read_rows
from ..storage.scratch import empty
from .white import ArrayRows, WhiteRows

FLOATS = [np.float64, np.float32, np.float16]
FINGERPRINT_ROWS = 4096


class Source(Protocol):
    """Rows to fit from."""

    dtype: np.dtype[Any]
    rounding: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def moments(self, mean: Array | None, basis: Array | None) -> Moments:
        """One pass: the moments of the rows, or of centred rows times a basis."""

    def whitened(self, mean: Array, whitener: Array, crew: Crew) -> WhiteRows:
        """One pass: centred rows times the whitening matrix, kept for the sweeps."""

    def fingerprint(self) -> str:
        """A short text that other data are all but certain not to share."""


class ArraySource:
    """An array, a memory map, or anything else that gives row slices."""

    def __init__(self, values: Matrix) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))
        self.dtype = np.dtype(values.dtype)
        self.rounding = rounding_of(values)

    def moments(self, mean: Array | None, basis: Array | None) -> Moments:
        """One pass over the rows."""
        rows = self.values if mean is None or basis is None else ProjectedRows(self.values, mean, basis)
        return moments_alone(rows)

    def whitened(self, mean: Array, whitener: Array, crew: Crew) -> ArrayRows:
        """Whitened rows: products in float64, stored as float64 only if the rows are."""
        dtype = np.float64 if self.dtype == np.float64 else np.float32
        out = empty((self.shape[0], whitener.shape[1]), dtype)

        def fill(rows: slice) -> None:
            out[rows] = (read_rows(self.values, rows).astype(np.float64) - mean) @ whitener

        size = block_rows(*self.shape[1:], whitener.shape[1], cells=2**21)
        deque(crew.stream(fill, blocks(self.shape[0], size)), maxlen=0)
        return ArrayRows(out, crew)

    def fingerprint(self) -> str:
        """Shape, dtype and a few thousand rows from all over the data."""
        step = max(self.shape[0] // FINGERPRINT_ROWS, 1)
        digest = hashlib.sha256(f"{self.shape} {self.dtype.str}".encode())
        for rows in blocks(self.shape[0], block_rows(self.shape[1])):
            chosen = slice(rows.start + -rows.start % step, rows.stop, step)
            digest.update(np.ascontiguousarray(read_rows(self.values, chosen)).tobytes())
        return digest.hexdigest()


def open_rows(estimator: BaseEstimator, data: Any, *, reset: bool) -> Any:
    """Check what was passed to an estimator: rows as an array, or as they lie where they should not be copied.

    Small things go through scikit-learn's validation. Representations, memory maps, stored arrays and Dask arrays are
    taken as they are; their non-finite values are found by the pass over moments.
    """
    if isinstance(data, Representation):
        data = data.values
    if not stays_where_it_is(data):
        return validate_data(estimator, data, dtype=FLOATS, reset=reset, ensure_min_samples=2 if reset else 1)
    name = type(estimator).__name__
    if len(data.shape) != 2:
        raise InputError(f"{name} takes rows and columns, not an array of shape {tuple(data.shape)}")
    if np.dtype(data.dtype).kind != "f":
        raise InputError(f"{name} takes floating-point values, and these are {data.dtype}: convert them first")
    width = int(data.shape[1])
    if reset:
        if data.shape[0] < 2:  # unknown sizes are not: NaN compares false
            raise InputError(f"{name} needs at least two rows, and there are {int(data.shape[0])}")
        estimator.n_features_in_ = width
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif width != estimator.n_features_in_:
        raise InputError(
            f"X has {width} features, but {name} is expecting {estimator.n_features_in_} features as input"
        )
    return data


def open_components(estimator: BaseEstimator, data: Any) -> Any:
    """Check components that are to be mapped back: as many columns as the estimator gives, finite values."""
    if isinstance(data, Representation):
        data = data.values
    if not stays_where_it_is(data):
        data = check_array(data, dtype=FLOATS)
    name, width = type(estimator).__name__, len(estimator.components_)
    if len(data.shape) != 2 or int(data.shape[1]) != width:
        raise InputError(f"{name} maps back rows of {width} components, not an array of shape {tuple(data.shape)}")
    return data


def stays_where_it_is(data: Any) -> bool:
    """Whether data are a memory map or another array that gives row slices without being in memory."""
    if isinstance(data, np.memmap):
        return True
    if isinstance(data, np.ndarray | list | tuple) or sparse.issparse(data) or hasattr(data, "to_numpy"):
        return False
    if type(data).__module__.partition(".")[0] in ("torch", "numpy"):
        return False
    return all(hasattr(data, name) for name in ("shape", "dtype", "__getitem__"))


def is_dask(data: Any) -> bool:
    """Whether data are a Dask array, without importing Dask."""
    return type(data).__module__.startswith("dask.array")


def as_source(data: Any) -> Source:
    """The passes over checked data."""
    if is_dask(data):
        from .distributed import DaskSource

        return DaskSource(data)
    return ArraySource(data)
