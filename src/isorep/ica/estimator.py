"""ICA transformer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from ..errors import InputError
from ..representation import Array
from ..settings import one_name
from .checkpoint import Checkpoint, Keeper
from .contrasts import Contrast, contrast_named
from .unmixing import Source, Unmixing, as_source, unmix, unmix_unwhitened, whiten
from .whitening import AffineTransformer, columns_left_out, open_rows

FitProgress = Callable[[str, float, float, float], None]

_ABOUT_COLUMNS = ("n_features_in_", "feature_names_in_", "matrix_in_")


class GaussianityWarning(UserWarning):
    """Warning: some components are indistinguishable from Gaussian, so their directions are not determined."""


class ICA(AffineTransformer):
    r"""Independent component analysis: whitening, then the rotation to the least Gaussian directions.

    .. math:: s=(x-\bar x)W,\qquad \operatorname{Cov}(s)=I,\qquad
              W\text{ stationary for }\textstyle\sum_j c_j\,\mathbb E\,G(s_j),\ c_j=\pm1

    The sign :math:`c_j` follows each component, so both sub- and super-Gaussian ones are found. The fit is
    deterministic and does not depend on the basis of the data. Components have a canonical form, so that two fits of
    the same data agree: they are sorted by decreasing distance of their contrast from a Gaussian's, each with
    non-negative skewness. Where these differ by rounding alone (1e-5), the largest entry of ``mixing_`` decides: the
    component whose entry comes first is first, and the entry is positive.

    Input can be an array, memory map, representation, AnnData or Dask array. Rows are read in blocks. Whitened rows are
    kept in memory if they are small relative to the machine's, otherwise in a scratch file (``TMPDIR``); those of a
    Dask array stay on the workers. Whitening is computed in float64 for every dtype; sweeps run in the data's own
    precision, with float64 totals.

    Parameters
    ----------
    n_components : int, optional
        Number of components; default: the numerical rank of the data.
    contrast : {"logcosh", "exp", "cube"}
        Contrast function :math:`G`; default logcosh.
    random_state : int, RandomState or None
        Seed of the rows drawn for the search, if there are very many, and of restarts; an integer makes the fit
        deterministic.
    whiten : {"pca", "zca", None}
        Kind of whitening, at the numerical rank; both give the same components. ``None`` neither centres nor whitens,
        like scikit-learn's FastICA with ``whiten=False``; it may be slow, and its result depends on the scale of the
        data.
    tol : float
        Convergence tolerance: RMS rotation (radians) of the next Newton step. The relative gain in contrast of that
        step must also be at most ``tol / 10``.
    max_iter : int
        Largest number of sweeps over the data; partial sweeps count by their share of a full one.
    rounding : float, optional
        As for :class:`Whitening`.
    standardise : bool
        Use for columns in different units, as for :class:`Whitening`. Default: no, and columns that vary by no more
        than 1e-4 of the median column are left out.
    device : str, optional
        Torch device for the sweeps, such as ``"cuda"``; default: numpy, with one thread per core.

    Attributes
    ----------
    components_ : (k, d) array
        The unmixing matrix: ``(X - mean_) @ components_.T`` are the sources. On the training rows they have unit
        variance within 1e-3.
    mixing_ : (d, k) array
        The inverse map: ``S @ mixing_.T + mean_``.
    mean_ : (d,) array
    rank_ : int
        Numerical rank of the data.
    singular_values_ : (k,) array
        Standard deviations of the data along the kept principal axes.
    left_out_columns_, left_out_spreads_ : arrays
        The columns that were left out, and their standard deviations, as for :class:`Whitening`.
    converged_ : bool
    n_iter_ : int
        Number of sweeps; partial sweeps count by their share.
    path_ : (m, 2) array
        Convergence path: number of sweeps and contrast after every step.
    contrast_ : (k,) array
        Distance of each component's contrast from a Gaussian's: :math:`\mathbb E\,G(s_j)-\mathbb E\,G(\nu)`.
    kurtosis_, skewness_ : (k,) arrays
        Excess kurtosis and skewness.
    uncertainty_ : (k,) array
        Sampling error of each direction, in radians, if components are independent.
    gaussian_ : (k,) bool array
        Components indistinguishable from Gaussian noise of as many rows and dimensions: their directions are not
        determined, only the space they span.
    unsettled_ : (k,) bool array
        Other components that have not converged: a Newton step would still rotate them noticeably.
    feature_names_in_ : array of str
        Names of the columns, where they have any.
    matrix_in_ : str
        The matrix of AnnData that was fitted, such as ``X`` or ``obsm/X_pca``; only for AnnData.
    conditioning_ : (k, k) array
        Second variation of the contrast in the plane of two components: where it is small they may rotate freely into
        each other, where it is negative the fit is at a saddle.

    References
    ----------
    .. [1] Hyvärinen, A. (1999). Fast and robust fixed-point algorithms for independent component analysis.
           IEEE Transactions on Neural Networks 10.
    .. [2] Ablin, P., Cardoso, J.-F., Gramfort, A. (2018). Faster ICA under orthogonal constraint. ICASSP.
    .. [3] Cardoso, J.-F. (1989). Source separation using higher order moments. ICASSP.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> S = rng.laplace(size=(5000, 2))
    >>> recovered = isorep.ICA().fit_transform(S @ [[1.0, 0.5], [0.2, 1.0]])
    >>> bool(np.abs(np.corrcoef(S.T, recovered.T)[:2, 2:]).max(axis=1).min() > 0.99)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        contrast: str = "logcosh",
        random_state: Any = 0,
        *,
        whiten: str | None = "pca",
        tol: float = 1e-4,
        max_iter: int = 200,
        rounding: float | None = None,
        standardise: bool = False,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.contrast = contrast
        self.random_state = random_state
        self.whiten = whiten
        self.tol = tol
        self.max_iter = max_iter
        self.rounding = rounding
        self.standardise = standardise
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        key: str | None = None,
        use_rep: str | None = None,
        start: Array | None = None,
        checkpoint: str | Path | None = None,
        progress: FitProgress | None = None,
    ) -> Self:
        """Learn the unmixing.

        Parameters
        ----------
        X : (n, d) array, memory map, Representation, AnnData or Dask array
            The rows; sparse matrices become dense.
        y : None
            Ignored.
        key : str, optional
            The matrix of an AnnData object, as for :func:`isorep.read`. Default: X, or the only entry of obsm.
        use_rep : str, optional
            Another name for ``key``.
        start : (k, d) array, optional
            An initial unmixing matrix, such as the ``components_`` of a fit to similar rows.
        checkpoint : path, optional
            File to which the state is saved every few seconds. If the file exists, the fit resumes from it. It is
            removed at the end.
        progress : callable, optional
            Called as ``progress(stage, sweeps, contrast, left)`` after every step; ``left`` is roughly the share of
            the work remaining.
        """
        contrast = contrast_named(self.contrast)
        if self.whiten not in ("pca", "zca", None):
            raise InputError(f"whiten is {self.whiten!r}; known are pca, zca, None")
        positive: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        for name, value in positive.items():
            if not (isinstance(value, Real) and float(value) > 0):
                raise InputError(f"{name}={value!r} must be positive")
        source = as_source(open_rows(self, X, reset=True, key=one_name(key, use_rep, "key", "use_rep")))
        for name in [name for name in vars(self) if name.endswith("_") and name not in _ABOUT_COLUMNS]:
            delattr(self, name)  # of an earlier fit
        if self.whiten is None:
            if not (start is None and checkpoint is None and self.device is None):
                raise InputError("without whitening there is no start, no checkpoint and no device")
            if self.standardise:
                raise InputError("without whitening columns are taken as they are: standardise belongs to whitening")
            self._fit_unwhitened(source, contrast)
            return self
        keeper = Keeper() if checkpoint is None else Checkpoint(checkpoint, self._belongs(source, start))
        tell = progress or (lambda *_: None)
        tell("whitening", 0.0, 0.0, 1.0)
        with keeper.resuming():
            found = unmix(
                source,
                whiten(source, self.n_components, rounding=self.rounding, standardise=self.standardise),
                contrast,
                check_random_state(self.random_state),
                start=start,
                tol=self.tol,
                max_iter=self.max_iter,
                device=self.device,
                keeper=keeper,
                report=lambda sweeps, reached, left: tell("rotation", sweeps, reached, left),
            )
        self._with_unmixing(found)
        self._warn()
        return self

    def _fit_unwhitened(self, source: Source, contrast: Contrast) -> None:
        width = source.shape[1]
        if self.n_components not in (None, width):
            ignored = f"without whitening n_components={self.n_components} is ignored: there are {width}"
            warnings.warn(ignored, stacklevel=3)
        random_state = check_random_state(self.random_state)
        self._with_unmixing(unmix_unwhitened(source, contrast, random_state, tol=self.tol, max_iter=self.max_iter))

    def _with_unmixing(self, found: Unmixing) -> None:
        self.__dict__.update(vars(found))
        self._n_features_out = len(found.components_)

    def _belongs(self, source: Source, start: Array | None) -> dict[str, Any]:
        """Identity of a checkpoint: fingerprint of the data, and settings."""
        settings = {name: value for name, value in self.get_params().items() if name != "random_state"}
        if isinstance(self.random_state, Integral):
            settings["random_state"] = int(self.random_state)
        begun = None if start is None else sha256(np.asarray(start).tobytes()).hexdigest()
        return {"fingerprint": source.fingerprint(), "start": begun, **settings}

    def _warn(self) -> None:
        gaussian, k = int(self.gaussian_.sum()), len(self.gaussian_)
        stirring = ", ".join(map(str, np.flatnonzero(self.unsettled_)[:10]))
        named = f"; not converged: {stirring}" if stirring else ""
        undetermined = (
            f"{gaussian} of {k} components are indistinguishable from Gaussian: their directions are not determined, "
            "only the space they span (see gaussian_ and conditioning_)"
        )
        stopped = f"stopped after {self.n_iter_} sweeps before the contrast had converged{named}: raise max_iter"
        left_out = columns_left_out(self, "X")
        if left_out is not None:
            warnings.warn(left_out, UserWarning, stacklevel=3)
        if gaussian:
            warnings.warn(undetermined, GaussianityWarning, stacklevel=3)
        if not self.converged_:
            warnings.warn(stopped, UserWarning, stacklevel=3)

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a ``.safetensors`` file: arrays and JSON, nothing to unpickle."""
        from .model import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: str | Path) -> ICA:
        """Load a fitted estimator from a file; damaged or foreign files raise an error."""
        from .model import load_model

        return load_model(path)
