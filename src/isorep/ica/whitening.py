"""Whitening transformer, and the base class it shares with ICA: checking rows, applying a fitted affine map."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..annotated import dense, entries_of, is_annotated, opened
from ..chunked import ChunkedRows, is_dask
from ..covariance import sentence_on_columns
from ..errors import InputError
from ..representation import Array, Matrix, Representation, feature_difference
from ..rows import block_rows, blocks, map_blocks, read_rows, refuse_non_finite
from ..settings import one_name
from ..storage.lazy import LazyMatrix
from ..threads import Crew
from .unmixing import FLOATS, WhiteningMap, as_source, whiten


class AffineTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of whitening and ICA: a fitted affine map of rows, and its inverse."""

    mean_: Array
    components_: Array
    mixing_: Array

    def transform(
        self, X: Any, *, key: str | None = None, use_rep: str | None = None, key_added: str | None = None
    ) -> Any:
        """Map rows to components; float32 stays float32, and a Dask array gives a lazy Dask array.

        Parameters
        ----------
        X : (n, d) array, memory map, Representation, AnnData or Dask array
            The rows. Named features must be those of the fit, in the same order.
        key : str, optional
            The matrix of an AnnData object, as for :func:`isorep.read`; default: the one that was fitted.
        use_rep : str, optional
            Another name for ``key``.
        key_added : str, optional
            Entry of ``obsm`` in which the components of an AnnData object are stored, too; loadings go into ``varm``
            and ``uns`` under the same name without ``X_``.
        """
        check_is_fitted(self)
        key = one_name(key, use_rep, "key", "use_rep")
        if key is None and is_annotated(X):
            key = getattr(self, "matrix_in_", None)
        if key_added is not None:
            require_added(X, key_added)
        sources = apply_affine(open_rows(self, X, reset=False, key=key), self.components_.T, before=self.mean_)
        if key_added is not None:
            place = opened_place(X, key)
            self._add(X, key_added, np.asarray(sources), place)
        return sources

    def _add(self, data: Any, key: str, sources: Array, place: str) -> None:
        """Store components and loadings in an AnnData object."""
        name = key.removeprefix("X_")
        data.obsm[key] = sources
        data.uns[name] = {"unmixing": self.components_, "mixing": self.mixing_, "mean": self.mean_, "matrix": place}
        if place == "X" or place.startswith("layers/"):
            data.varm[name] = self.mixing_

    def inverse_transform(self, X: Any) -> Any:
        """Map components back to rows."""
        check_is_fitted(self)
        return apply_affine(open_components(self, X), self.mixing_.T, after=self.mean_)

    def __sklearn_tags__(self) -> Any:
        """Sparse matrices are taken; they become dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


Fitted = TypeVar("Fitted", bound=AffineTransformer)


class Whitening(AffineTransformer):
    r"""Centre, rotate to principal axes and scale each to unit variance.

    .. math:: z=(x-\bar x)\,V\Lambda^{-1/2},\qquad \operatorname{Cov}(x)=V\Lambda V^\top

    The covariance is summed in float64 for every input dtype, and only directions above the rounding of that dtype are
    kept, so that constant and duplicate columns are allowed. Columns that vary by no more than 1e-4 of the median
    column are left out, as released models have dead ones, unless ``standardise`` is set. Whitened training rows have
    unit covariance within 1e-3. Input can be an array, memory map, representation, AnnData or Dask array; it is never
    copied as a whole. Sparse matrices become dense.

    Parameters
    ----------
    n_components : int, optional
        Number of leading axes to keep; default: the numerical rank.
    kind : {"pca", "zca"}
        ``"pca"`` (default) keeps principal axes. ``"zca"`` rotates back, :math:`z=(x-\bar x)V\Lambda^{-1/2}V^\top`: the
        whitening that changes the data least and has a component for every column.
    rounding : float, optional
        Relative rounding of the values, if they were once stored at a lower precision (bfloat16: ``2**-7``).
    standardise : bool
        Use for columns in different units, such as measured features: every column that varies by more than the
        rounding of its values counts, and principal axes are those of columns with unit variance. Default: no.

    Attributes
    ----------
    components_ : (k, d) array
        The whitening matrix: centred rows times its transpose are whitened.
    mixing_ : (d, k) array
        The inverse map.
    mean_ : (d,) array
    rank_ : int
        Numerical rank of the training data.
    singular_values_ : (k,) array
        Standard deviations along the kept principal axes.
    left_out_columns_ : int array
        Columns that are left out: constant ones, and those that hardly vary compared with the others.
    left_out_spreads_ : array
        Their standard deviations; 0 for constant ones.
    feature_names_in_ : array of str
        Names of the columns, where they have any.
    matrix_in_ : str
        The matrix of AnnData that was fitted, such as ``X`` or ``obsm/X_pca``; only for AnnData.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 10.0, 0.0])
    >>> Z = isorep.Whitening().fit_transform(X)
    >>> bool(np.allclose(np.cov(Z.T, bias=True), np.eye(2)))
    True
    """

    singular_values_: Array
    rank_: int
    left_out_columns_: Array
    left_out_spreads_: Array

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kind: str = "pca",
        rounding: float | None = None,
        standardise: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.rounding = rounding
        self.standardise = standardise

    def fit(self, X: Any, y: Any = None, *, key: str | None = None, use_rep: str | None = None) -> Self:
        """Fit mean and axes; ``key``, also called ``use_rep``, names the matrix of an AnnData object."""
        source = as_source(open_rows(self, X, reset=True, key=one_name(key, use_rep, "key", "use_rep")))
        found = whiten(source, self.n_components, kind=self.kind, rounding=self.rounding, standardise=self.standardise)
        self.with_map(found if self.kind == "zca" else found.upright())
        left_out = columns_left_out(self, "X")
        if left_out is not None:
            warnings.warn(left_out, UserWarning, stacklevel=2)
        return self

    def with_map(self, found: WhiteningMap) -> Self:
        """Set the fitted attributes from a map."""
        self.__dict__.update(vars(found))
        self._n_features_out = len(found.components_)
        return self


def quietly(estimator: Fitted, rows: Any) -> Fitted:
    """A fit without warnings, which the caller reports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(rows)
    return estimator


def keep_leading(whitening: Whitening, k: int) -> Whitening:
    """A fitted PCA whitening cut to its leading axes."""
    fitted = WhiteningMap(**{field.name: getattr(whitening, field.name) for field in fields(WhiteningMap)})
    return whitening.with_map(fitted.leading(k))


def columns_left_out(fitted: Any, name: str) -> str | None:
    """A sentence on the columns that vary, but too little to count for a fitted estimator; None without any.

    Estimators pickled by earlier versions do not list them.
    """
    if not hasattr(fitted, "left_out_columns_"):
        return None
    varies = fitted.left_out_spreads_ > 0
    titles = getattr(fitted, "feature_names_in_", None)
    said = sentence_on_columns(fitted.left_out_columns_[varies], fitted.left_out_spreads_[varies], name, titles)
    return None if said is None else f"{said}; if their units differ from the others', standardise"


def apply_affine(rows: Any, matrix: Array, *, before: Array | None = None, after: Array | None = None) -> Any:
    """``(rows - before) @ matrix + after``: products in float64, the result in the rows' precision.

    The result is an array in memory, or a lazy Dask array for a Dask array.
    """
    before = np.zeros(matrix.shape[0]) if before is None else before
    after = np.zeros(matrix.shape[1]) if after is None else after
    if isinstance(rows, ChunkedRows):
        rows = rows.array()
    if is_dask(rows):
        from .dask_rows import apply_affine as apply_to_chunks

        return apply_to_chunks(rows, matrix, before, after)
    return AffineRows(rows, "X", matrix, before, after)[:]


def transformed(block: Array, matrix: Array, before: Array, after: Array | float = 0.0) -> Array:
    """One block, in float64; values that are not finite are refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        mapped = np.asarray((block.astype(np.float64) - before) @ matrix) + after
        finite = bool(np.isfinite(mapped.sum()))  # a sum is quick, and may overflow by itself
    if not finite and not np.isfinite(mapped).all():
        if not np.isfinite(block).all():
            raise InputError("X holds values that are not finite")
        raise InputError(
            "values of X are so large that their transform overflows, or the model is damaged: rescale them"
        )
    return mapped


class AffineRows(LazyMatrix):
    """Rows under an affine map, ``(rows - before) @ matrix + after``, computed when they are read."""

    def __init__(
        self,
        values: Matrix,
        name: str,
        matrix: Array,
        before: Array,
        after: Array,
        *,
        crew: Crew | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._values, self._name, self._crew, self._progress = values, name, crew, progress
        self._before, self._matrix, self._after = before, matrix, after
        double = np.dtype(values.dtype).itemsize >= 8
        super().__init__((values.shape[0], matrix.shape[1]), np.float64 if double else np.float32)

    def _slice(self, start: int, stop: int) -> Array:
        mapped = self._mapped(stop - start, lambda part: slice(start + part.start, start + part.stop))
        if self._progress is not None:
            self._progress(stop, len(self))
        return mapped

    def _take(self, rows: Array) -> Array:
        return self._mapped(len(rows), lambda part: rows[part])

    def _mapped(self, n: int, rows_of: Callable[[slice], slice | Array]) -> Array:
        """Some rows, block by block, by all threads of the crew."""
        out = np.empty((n, self.shape[1]), self.dtype)

        def fill(part: slice) -> None:
            self._map_block(read_rows(self._values, rows_of(part)), out[part])

        size = block_rows(*self._matrix.shape, cells=2**20)
        if self._crew is None:
            map_blocks(fill, n, size)
        else:
            deque(self._crew.stream(fill, blocks(n, size)), maxlen=0)
        return out

    def _map_block(self, block: Array, out: Array) -> None:
        if not np.isfinite(block).all():
            refuse_non_finite(self._values, self._name)
        out[:] = transformed(block, self._matrix, self._before, self._after)


def opened_place(data: Any, key: str | None) -> str:
    """The path of the matrix that is meant in an AnnData object."""
    return entries_of(data).choose(key)


def require_added(data: Any, key: str) -> None:
    """Refuse a place for components that no AnnData object has."""
    if not is_annotated(data):
        raise InputError("key_added names an entry of obsm, and X is no AnnData object")
    if not key.removeprefix("X_") or "/" in key:
        raise InputError(f"key_added is {key!r} and must be a name for obsm without /")


def open_rows(estimator: BaseEstimator, data: Any, *, reset: bool, key: str | None = None) -> Any:
    """Check the input of an estimator: rows as an array, or unchanged where they should not be copied.

    Arrays in memory go through scikit-learn's validation. Representations, AnnData, memory maps, stored and Dask arrays
    are taken as they are; their non-finite values are found by the pass over moments. Feature names are learnt, and
    compared with those of the fit.
    """
    name, place, columns = type(estimator).__name__, None, None
    if is_annotated(data):
        found = opened(data, key)
        label = f"the AnnData object ({found.place})"
        data, place = Representation(found.values, name=label, columns=found.columns), found.place
    elif key is not None:
        raise InputError(f"key names a matrix of an AnnData object, and X is a {type(data).__name__}")
    if isinstance(data, Representation):
        columns, label, data = data.columns, data.name or "X", data.values
        if not stays_where_it_is(data):
            data = check_array(data, dtype=FLOATS, estimator=name, ensure_min_samples=2 if reset else 1)
    elif not stays_where_it_is(data):
        rows = _validated(estimator, dense(data, "X") if sparse.issparse(data) else data, reset)
        if reset:
            _learn(estimator, "matrix_in_", None)
        return rows
    else:
        label = "X"
    if len(data.shape) != 2:
        raise InputError(f"{name} takes rows and columns, not an array of shape {tuple(data.shape)}")
    if np.dtype(data.dtype).kind != "f":
        raise InputError(f"{name} takes floating-point values, and these are {data.dtype}: convert them first")
    width = int(data.shape[1])
    if reset:
        if data.shape[0] < 2:  # unknown sizes are not: NaN compares false
            raise InputError(f"{name} needs at least two rows, and there are {int(data.shape[0])}")
        estimator.n_features_in_ = width
        _learn(estimator, "feature_names_in_", None if columns is None else np.array(columns, dtype=object))
        _learn(estimator, "matrix_in_", place)
        return data
    if width != estimator.n_features_in_:
        raise InputError(
            f"X has {width} features, but {name} is expecting {estimator.n_features_in_} features as input"
        )
    difference = feature_difference(getattr(estimator, "feature_names_in_", None), columns, label)
    if difference is not None:
        raise InputError(difference)
    return data


def _learn(estimator: BaseEstimator, name: str, value: Any) -> None:
    """Set a fitted attribute, or remove that of an earlier fit."""
    if value is not None:
        setattr(estimator, name, value)
    elif hasattr(estimator, name):
        delattr(estimator, name)


def _validated(estimator: BaseEstimator, data: Any, reset: bool) -> Any:
    """Rows in memory by scikit-learn's rules; its refusal of other feature names also names the first difference."""
    try:
        return validate_data(estimator, data, dtype=FLOATS, reset=reset, ensure_min_samples=2 if reset else 1)
    except ValueError as error:
        known, given = getattr(estimator, "feature_names_in_", None), getattr(data, "columns", None)
        if reset or known is None or given is None or "feature names" not in str(error):
            raise
        raise InputError(f"{error}\nFirst: {feature_difference(list(known), list(map(str, given)), 'X')}") from None


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
    in_memory = isinstance(data, list | tuple) or sparse.issparse(data) or hasattr(data, "to_numpy")
    if in_memory or type(data).__module__.partition(".")[0] in ("torch", "numpy"):
        return isinstance(data, np.memmap)
    return all(hasattr(data, name) for name in ("shape", "dtype", "__getitem__"))
