"""The symmetric fixed point on rows as they are, neither centred nor whitened."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state

from ..errors import InputError
from ..rows import Crew
from .contrasts import Contrast
from .search import orthonormal
from .sources import Source
from .white import canonical_form

if TYPE_CHECKING:
    from .estimator import ICA


def fit_unwhitened(ica: ICA, source: Source, contrast: Contrast) -> None:
    """Fit as scikit-learn's FastICA does with ``whiten=False``: the same start, step and stopping rule.

    Without whitening there is no rank to find: every column counts.
    """
    width = source.shape[1]
    if ica.n_components not in (None, width):
        warnings.warn(f"without whitening n_components={ica.n_components} is ignored: there are {width}", stacklevel=3)
    matrix = orthonormal(check_random_state(ica.random_state).normal(size=(width, width)))
    path = []
    ica.converged_ = False
    with Crew() as crew:
        rows = source.whitened(np.zeros(width), np.eye(width), crew)
        for sweeps in range(1, ica.max_iter + 1):
            sweep = rows.sweep(matrix, contrast)
            if not np.isfinite(np.linalg.norm(sweep.cross)):
                raise InputError("X holds values that are not finite, or so large that their products overflow")
            path.append((float(sweeps), float(np.abs(contrast.normal_value - sweep.value).sum())))
            moved = orthonormal(sweep.cross - sweep.slope[:, None] * matrix)
            turned = float(np.abs(np.abs(np.einsum("ij,ij->i", moved, matrix)) - 1).max())
            matrix = moved
            if turned < ica.tol:
                ica.converged_ = True
                break
        portrait = rows.portrait(matrix, contrast)
    excess = portrait.value - contrast.normal_value
    order, signs = canonical_form(excess, portrait.third, linalg.pinv(matrix))
    ica.components_ = (matrix * signs[:, None])[order]
    ica.mixing_ = linalg.pinv(ica.components_)
    ica.mean_ = np.zeros(width)
    ica.contrast_ = excess[order]
    ica.n_iter_ = sweeps
    ica.path_ = np.array(path)
    ica._n_features_out = width
