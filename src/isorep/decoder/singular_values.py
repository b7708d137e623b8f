"""Singular values of a decoder's Jacobians, with few Jacobians in memory at once.

The largest and the smallest are computed without the Jacobian where it is too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, blocks, no_progress
from ..settings import check_counts
from .jacobian import Jacobians, opened
from .prepare import MEMORY, import_torch

if TYPE_CHECKING:
    from torch import Tensor

EXACT_UP_TO = 2048  # latents up to which the Jacobian is triangularised in slices
_EVERY = 5  # steps between two looks at convergence


class Extremes(tuple[Array, Array]):
    """``(largest, smallest)`` with residuals and convergence flags.

    Attributes
    ----------
    largest, smallest : (n,) array
        ``smallest`` is 0 where there are fewer outputs than latents.
    residual : (n, 2) array
        There is a singular value within this distance of each; 0 where they are exact.
    converged : (n, 2) array of bool
        Whether the residual is within the tolerance. Where it is not for the smallest, the true one may lie lower, so
        that a bi-Lipschitz constant from it is a lower bound.
    exact : bool
        Whether they come from the whole Jacobian, or from a complete Krylov space at every row.
    steps : int
        Number of steps; 0 where the Jacobian was used.
    """

    residual: Array
    converged: Array
    exact: bool
    steps: int

    def __new__(
        cls, largest: Array, smallest: Array, residual: Array, converged: Array, exact: bool, steps: int
    ) -> Self:
        """Two arrays with residuals and convergence flags."""
        found = super().__new__(cls, (largest, smallest))
        found.residual, found.converged, found.exact, found.steps = residual, converged, exact, steps
        return found

    @property
    def largest(self) -> Array:
        """The largest singular value at each row."""
        return self[0]

    @property
    def smallest(self) -> Array:
        """The smallest singular value at each row."""
        return self[1]


def extreme_singular_values(
    decoder: Any,
    latents: Any,
    *,
    tol: float = 1e-3,
    max_iter: int = 300,
    exact_up_to: int = EXACT_UP_TO,
    memory: float = MEMORY,
    device: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Extremes:
    r"""Compute the largest and the smallest singular value of the Jacobian at each row of the latents.

    Up to ``exact_up_to`` latents both come from the whole Jacobian, in slices that fit in memory. Beyond, products
    :math:`Jv` and :math:`J^\top u` build a bidiagonal matrix (Golub and Kahan), whose singular values approach those of
    :math:`J` from inside: the largest from below, quickly; the smallest from above, often slowly. Residuals and flags
    report convergence. Before ``d`` steps, a residual proves that a singular value is near, not that none is smaller.

    Parameters
    ----------
    decoder, latents, memory, device, progress
        As in :func:`jacobian`.
    tol : float
        Relative residual at which a value counts as converged.
    max_iter : int
        Largest number of steps; each takes one forward and one reverse product per row.
    exact_up_to : int
        Number of latents up to which the Jacobian is used; 0 to never use it.
    random_state : int
        Seed of the starting directions.

    Returns
    -------
    Extremes
        ``largest, smallest``, with ``residual``, ``converged`` and ``exact``.

    Examples
    --------
    >>> import torch, isorep
    >>> scale = torch.linspace(1, 2, 50)
    >>> extremes = isorep.decoder.extreme_singular_values
    >>> largest, smallest = extremes(lambda z: z * scale, torch.zeros(1, 50), exact_up_to=0)
    >>> print(largest.round(3), smallest.round(3))
    [2.] [1.]
    """
    if not 0 < tol < 1:
        raise InputError(f"tol is {tol!r} where a number between 0 and 1 is needed")
    check_counts(max_iter=(max_iter, 1))
    with opened(decoder, latents, "auto", memory, device) as jacobians:
        if jacobians.ready.d <= exact_up_to:
            return _exact(jacobians, progress)
        return krylov(jacobians, tol, max_iter, random_state, progress)


def _exact(jacobians: Jacobians, progress: Progress | None) -> Extremes:
    n, ready = jacobians.latents.n, jacobians.ready
    values = np.concatenate([block for _, block, _ in spectra(jacobians, progress)])
    smallest = values[:, -1] if ready.outputs >= ready.d else np.zeros(n)
    return Extremes(values[:, 0], smallest, np.zeros((n, 2)), np.ones((n, 2), dtype=bool), True, 0)


def krylov(jacobians: Jacobians, tol: float, max_iter: int, seed: int, progress: Progress | None) -> Extremes:
    """Golub-Kahan bidiagonalisation at all rows, a block of rows at a time."""
    ready, n = jacobians.ready, jacobians.latents.n
    report, steps = progress or no_progress, min(max_iter, ready.d)
    row_bytes = 8 * (steps * ready.d + 6 * ready.outputs) + ready.itemsize * (4 * ready.widest + ready.held)
    size = int(np.clip(jacobians.memory // row_bytes, 1, n))
    starts = np.random.default_rng(seed)
    parts = []
    report("Krylov steps", 0, n)
    for rows in blocks(n, size):
        z = ready.tensor(jacobians.latents.rows(rows))
        first = starts.standard_normal((rows.stop - rows.start, ready.d))
        parts.append(_bidiagonalised(jacobians, z, first, steps, tol))
        report("Krylov steps", rows.stop, n)
    values, residual = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    if ready.outputs < ready.d:  # the map loses directions whatever its singular values are
        values[:, 1], residual[:, 1] = 0, 0
    converged = residual <= tol * values
    taken = max(part[2] for part in parts)
    return Extremes(values[:, 0], values[:, 1], residual, converged, all(part[2] == ready.d for part in parts), taken)


def _bidiagonalised(jacobians: Jacobians, z: Tensor, first: Array, steps: int, tol: float) -> tuple[Array, Array, int]:
    """Extreme singular values, their residuals, and the steps taken.

    Right vectors are orthogonalised against all earlier ones, which keeps the left ones orthogonal as well. Where the
    space closes early, it is continued with a new random direction.
    """
    torch, ready = import_torch(), jacobians.ready
    push, pull = jacobians.ways.push(z), jacobians.ways.pull(z)
    double = {"dtype": torch.float64, "device": ready.device}
    fresh = torch.Generator().manual_seed(0)
    closed = 100 * torch.finfo(ready.dtype).eps
    basis = torch.zeros(len(z), steps, ready.d, **double)
    alphas, betas = torch.zeros(len(z), steps, **double), torch.zeros(len(z), steps, **double)
    v = _unit(torch.as_tensor(first, **double))[0]
    u, beta = torch.zeros(len(z), ready.outputs, **double), torch.zeros(len(z), 1, **double)
    for step in range(steps):
        basis[:, step] = v
        known = basis[:, : step + 1]
        u, alpha = _unit(push(v[None].to(ready.dtype))[0].to(torch.float64) - beta * u)
        v, beta = _unit(_without(pull(u[None].to(ready.dtype))[0].to(torch.float64) - alpha * v, known))
        alphas[:, step], betas[:, step] = alpha[:, 0], beta[:, 0]
        ended = beta <= closed * alphas.max(1, keepdim=True).values
        if bool(ended.any()) and step + 1 < ready.d:
            drawn = torch.randn(v.shape, generator=fresh, dtype=torch.float64).to(ready.device)
            v = torch.where(ended, _unit(_without(drawn, known))[0], v)
            beta = beta.masked_fill(ended, 0)
        if (step + 1) % _EVERY and step + 1 < steps:
            continue
        values, residual = _ritz(alphas[:, : step + 1].cpu(), betas[:, : step + 1].cpu())
        if step + 1 == ready.d:
            residual[:] = 0
        if np.all(residual <= tol * values):
            break
    return values, residual, step + 1


def _unit(vectors: Tensor) -> tuple[Tensor, Tensor]:
    norms = vectors.norm(dim=1, keepdim=True)
    return vectors / norms.clamp(min=1e-300), norms


def _without(vectors: Tensor, known: Tensor) -> Tensor:
    """Vectors (r, d) orthogonalised against orthonormal ones, (r, k, d); twice is enough."""
    for _ in range(2):
        vectors = vectors - (known.mT @ (known @ vectors[:, :, None]))[:, :, 0]
    return vectors


def _ritz(alphas: Tensor, betas: Tensor) -> tuple[Array, Array]:
    torch = import_torch()
    matrix = torch.diag_embed(alphas) + torch.diag_embed(betas[:, :-1], offset=1)
    left, values, _ = torch.linalg.svd(matrix)
    ends = [0, -1]
    return values[:, ends].numpy(), (betas[:, -1:] * left[:, -1, ends].abs()).numpy()


_GRAM_CONDITION = 1e4  # squared, times the rounding of float64, this is 1e-8: below what float32 Jacobians hold


def singular_values(
    decoder: Any,
    latents: Any,
    *,
    direction: str = "auto",
    memory: float = MEMORY,
    device: Any = None,
    progress: Progress | None = None,
) -> Array:
    r"""Compute all singular values of the Jacobian at each row of the latents, the largest first.

    The arithmetic after the Jacobian is in double precision. Jacobians in float64 go through a singular value
    decomposition. Those in float32 with many outputs go through the eigenvalues of :math:`J^\top J` where the condition
    number is below :math:`10^4` (a relative error of about :math:`10^{-8}`, less than that of the Jacobian itself) and
    through a decomposition where it is not. A Jacobian too large for ``memory`` is made and triangularised in slices.

    Parameters
    ----------
    decoder, latents, direction, memory, device, progress
        As in :func:`jacobian`.

    Returns
    -------
    (n, min(outputs, d)) array
        Singular values in float64. With fewer outputs than latents, ``d - outputs`` lost directions are not listed.

    Examples
    --------
    >>> import torch, isorep
    >>> isorep.decoder.singular_values(lambda z: z @ torch.diag(torch.tensor([3.0, 0.5])), torch.zeros(1, 2))
    array([[3. , 0.5]])
    """
    with opened(decoder, latents, direction, memory, device) as jacobians:
        return np.concatenate([values for _, values, _ in spectra(jacobians, progress)])


def spectra(
    jacobians: Jacobians, progress: Progress | None = None, columns: Array | None = None
) -> Iterator[tuple[slice, Array, Array]]:
    """Row slices with singular values (r, min(outputs, d)) and the norms of the Jacobian's columns (r, d)."""
    if jacobians.slices > 1:
        yield from _sliced(jacobians, progress, columns)
        return
    torch = import_torch()
    for rows, block in jacobians.blocks(progress, columns):
        wide = block.to(torch.float64)
        norms = torch.linalg.vector_norm(wide, dim=1)
        yield rows, _values(wide, block.dtype == torch.float32).cpu().numpy(), norms.cpu().numpy()


def _values(block: Tensor, single: bool) -> Tensor:
    """Singular values of a stack of matrices in double precision; ``single`` where these were made in float32."""
    torch = import_torch()
    _, outputs, d = block.shape
    if not single or outputs < 4 * d:
        return torch.linalg.svdvals(block)  # type: ignore[no-any-return]
    squares = torch.linalg.eigvalsh(block.mT @ block).flip(-1)
    values = squares.clamp(min=0).sqrt()
    unsafe = (values[:, -1] * _GRAM_CONDITION <= values[:, 0]).nonzero()[:, 0]
    if len(unsafe):
        values[unsafe] = torch.linalg.svdvals(block[unsafe])
    return values  # type: ignore[no-any-return]


def _sliced(
    jacobians: Jacobians, progress: Progress | None, columns: Array | None
) -> Iterator[tuple[slice, Array, Array]]:
    """One row at a time, its Jacobian in slices of outputs (or of latents, where these are more)."""
    torch, report = import_torch(), progress or no_progress
    ready, n = jacobians.ready, jacobians.latents.n
    kept = np.arange(ready.d) if columns is None else columns
    tall = ready.outputs >= len(kept)
    size = -(-(ready.outputs if tall else len(kept)) // jacobians.slices)
    report("Jacobians", 0, n)
    for row in range(n):
        here = slice(row, row + 1)
        triangle, squares = None, np.zeros(len(kept))
        for part in blocks(ready.outputs if tall else len(kept), size):
            block = jacobians.at(here, kept, part)[0] if tall else jacobians.at(here, kept[part])[0].mT
            block = block.to(torch.float64)
            squares[slice(None) if tall else part] += (block * block).sum(0 if tall else 1).cpu().numpy()
            stacked = block if triangle is None else torch.cat([triangle, block])
            triangle = torch.linalg.qr(stacked, mode="r").R
        assert triangle is not None
        yield here, torch.linalg.svdvals(triangle)[None].cpu().numpy(), np.sqrt(squares)[None]
        report("Jacobians", row + 1, n)
