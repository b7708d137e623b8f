r"""Higher derivatives as symmetric forms on a block: does the block split, and is it separable from the others?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...representation import Array

IRREDUCIBLE, REDUCIBLE, DEGENERATE = "irreducible", "reducible", "degenerate"
_APART = 1e-3  # eigenvalues of a unit matrix that differ by more are two


def splits(forms: Array, tolerance: float, scale: float, rng: np.random.Generator) -> str:
    r"""Whether a block's forms (m, k, k) are a direct sum in some basis: :math:`u^\top F_nv=0` for all n.

    A splitting is an idempotent among the matrices X that are self-adjoint for every form,
    :math:`F_nX=X^\top F_n`. These are closed under polynomials, so a generic one of them has two separate groups of
    eigenvalues exactly where a splitting exists. A direction that no form sees makes the block ``degenerate``: it
    splits off any complement.

    Parameters
    ----------
    forms : array (m, k, k)
        Symmetric.
    tolerance : float
        Singular values below this share of the largest are zero.
    scale : float
        The size of all derivatives together; forms below ``tolerance`` of it are zero.
    rng : numpy.random.Generator
        Draws the generic matrix.
    """
    k = forms.shape[1]
    flat = forms.reshape(-1, k)
    sizes = np.linalg.svd(flat, compute_uv=False) if len(flat) else np.zeros(k)
    if sizes[0] <= tolerance * scale or sizes[0] == 0 or len(sizes) < k or sizes[-1] <= tolerance * sizes[0]:
        return DEGENERATE
    if k == 1:
        return IRREDUCIBLE
    _, values, right = np.linalg.svd(forms.reshape(len(forms), -1), full_matrices=False)
    few = (values[:, None] * right)[values > 0].reshape(-1, k, k)
    upper = np.triu_indices(k, 1)
    columns = []
    for place in range(k * k):
        unit = np.zeros((k, k))
        unit.flat[place] = 1.0
        product = few @ unit
        columns.append((product - product.swapaxes(1, 2))[:, *upper].ravel())
    system = np.stack(columns, axis=1)
    _, strengths, right = np.linalg.svd(system, full_matrices=True)
    strengths = np.concatenate([strengths, np.zeros(k * k - len(strengths))])
    kernel = right[strengths <= tolerance * max(strengths[0], 1e-300)]
    if len(kernel) <= 1:
        return IRREDUCIBLE
    generic = (rng.normal(size=len(kernel)) @ kernel).reshape(k, k)
    roots = np.linalg.eigvals(generic / np.linalg.norm(generic))
    apart = max(np.ptp(roots.real), np.ptp(np.abs(roots.imag)))
    return REDUCIBLE if apart > _APART else IRREDUCIBLE


def separation(own: Array, others: Sequence[Array], tolerance: float) -> float | None:
    r"""The sine of the least angle between the span of a block's derivatives and all that must not imitate them.

    0 means that the spans meet, so :math:`\operatorname{rank}[V\,W]<\operatorname{rank}V+\operatorname{rank}W`; None
    where the block has no derivatives of this order at all. Columns come in units of the largest of their order.
    """
    left = _orthonormal(own, tolerance)
    right = _orthonormal(np.concatenate(others, axis=1), tolerance)
    if left.shape[1] == 0:
        return None
    if left.shape[1] + right.shape[1] > len(own):
        return 0.0
    cosine = np.linalg.svd(left.T @ right, compute_uv=False).max(initial=0.0)
    return float(np.sqrt(max(0.0, 1.0 - min(cosine, 1.0) ** 2)))


def _orthonormal(columns: Array, tolerance: float) -> Array:
    if columns.size == 0:
        return np.zeros((len(columns), 0))
    norms = np.linalg.norm(columns, axis=0)
    kept = norms > tolerance
    if not kept.any():
        return np.zeros((len(columns), 0))
    left, values, _ = np.linalg.svd(columns[:, kept] / norms[kept], full_matrices=False)
    return np.asarray(left[:, values > tolerance * values[0]])
