"""Singular values of a decoder's Jacobians, with few Jacobians in memory at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..representation import Array
from ..rows import Progress, blocks, no_progress
from .jacobians import Jacobians, opened
from .preparing import MEMORY, import_torch

if TYPE_CHECKING:
    from torch import Tensor

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
    r"""All singular values of the Jacobian at each row of the latents, the largest first.

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
        In float64. With fewer outputs than latents the map also loses ``d - outputs`` directions, which are not listed.

    Examples
    --------
    >>> import torch, isorep
    >>> isorep.decoder.singular_values(lambda z: z @ torch.diag(torch.tensor([3.0, 0.5])), torch.zeros(1, 2))
    array([[3. , 0.5]])
    """
    with opened(decoder, latents, direction, memory, device) as jacobians:
        found = np.empty((jacobians.latents.n, min(jacobians.ready.outputs, jacobians.ready.d)))
        for rows, values, _ in spectra(jacobians, progress):
            found[rows] = values
    return found


def spectra(
    jacobians: Jacobians, progress: Progress | None = None, columns: Array | None = None
) -> Iterator[tuple[slice, Array, Array]]:
    """Row slices with singular values (r, min(outputs, d)) and the norms of the Jacobian's columns (r, d)."""
    if jacobians.slices > 1:
        yield from _sliced(jacobians, progress, columns)
        return
    torch = import_torch()
    for rows, block in jacobians.blocks(progress, columns):
        single = block.dtype == torch.float32
        wide = block.to(torch.float64)
        norms = torch.linalg.vector_norm(wide, dim=1)
        yield rows, _values(wide, single).cpu().numpy(), norms.cpu().numpy()


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
            if tall:
                squares += (block * block).sum(0).cpu().numpy()
            else:
                squares[part] = (block * block).sum(1).cpu().numpy()
            stacked = block if triangle is None else torch.cat([triangle, block])
            triangle = torch.linalg.qr(stacked, mode="r").R
        assert triangle is not None
        yield here, torch.linalg.svdvals(triangle)[None].cpu().numpy(), np.sqrt(squares)[None]
        report("Jacobians", row + 1, n)
