"""The rotation of whitened data to independent components."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from ..representation import Array

# Expectation of each contrast under a standard normal variable.
_NORMAL_CONTRAST = {"logcosh": 0.37456720, "exp": -np.sqrt(0.5), "cube": 0.75}


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rows of ``matrix`` are the components' directions in whitened space."""

    matrix: Array
    n_iter: int
    converged: bool


def rotate(white: Array, *, contrast: str, start: Array | None, tol: float, max_iter: int) -> Rotation:
    """Symmetric FastICA on whitened float64 rows.

    Without a start it begins at the fourth-order solution (FOBI, Cardoso 1989), which follows any rotation of the
    data, so that the outcome does not depend on the basis in which the data came.
    """
    if start is None:
        start = fourth_order_start(white)
    solver = FastICA(fun=contrast, whiten=False, w_init=start, tol=tol, max_iter=max_iter)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        solver.fit(white)
    stopped_short = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return Rotation(np.asarray(solver.components_), int(solver.n_iter_), not stopped_short)


def fourth_order_start(white: Array) -> Array:
    r"""Eigenvectors of :math:`E[\|z\|^2zz^\top]`, as rows."""
    weights = np.einsum("ij,ij->i", white, white)
    _, vectors = linalg.eigh((white * weights[:, None]).T @ white / len(white))
    return np.asarray(vectors.T)


def contrast_excess(sources: Array, contrast: str) -> Array:
    """How far each source's contrast lies from a Gaussian's: zero for a Gaussian one."""
    if contrast == "logcosh":
        size = np.abs(sources)
        values = size + np.log1p(np.exp(-2 * size)) - np.log(2)
    elif contrast == "exp":
        values = -np.exp(-(sources**2) / 2)
    else:
        values = sources**4 / 4
    return np.asarray(values.mean(axis=0) - _NORMAL_CONTRAST[contrast])
