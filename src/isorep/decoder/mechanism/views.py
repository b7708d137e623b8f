r"""Decoder as input of the criteria: outputs and derivatives as float64 arrays, from torch or numpy functions.

Blocks in an orthonormal basis of their Jacobian columns' span: scale and basis inside a block drop out.

For every block :math:`J_i=Q_iR_i`. The range of :math:`Q_i` is invariant to invertible maps inside a block, so row
norms of :math:`Q_i` and supports of the vectors in its range do not depend on the block's coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ...rows import blocks
from ..jacobian import jacobian
from ..prepare import Latents, Ready, prepared

PRECISION = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
"""Relative error of a Jacobian's entries in each precision."""
INACTIVE_BELOW = 1e-3  # of the strongest latent's effect
_DIFFERENCES = 1e-8  # of a Jacobian by central differences
_MEMORY = 2**28  # bytes for a block of higher derivatives
_MOST = 2**30  # bytes for those of one row


@dataclass(frozen=True, eq=False)
class View:
    """Functions of rows (r, d): ``outputs`` (r, n), ``jacobians`` (r, n, d), higher derivatives where there are any.

    ``noise`` is the relative error of Jacobian entries, ``rounding`` that of outputs, and ``source`` the origin of the
    Jacobians; ``widest`` counts the numbers that a row takes while derivatives pass through the decoder.
    """

    d: int
    width: int
    outputs: Callable[[Array], Array]
    jacobians: Callable[[Array], Array]
    derivatives: Callable[[Array, int], Array] | None
    noise: float
    rounding: float
    kinks: tuple[str, ...]
    notes: tuple[str, ...]
    source: str
    widest: int

    def rebased(self, basis: Array) -> View:
        """The same decoder as a function of coordinates y, with latents z = basis y."""
        higher = self.derivatives
        return replace(
            self,
            outputs=lambda rows: self.outputs(rows @ basis.T),
            jacobians=lambda rows: self.jacobians(rows @ basis.T) @ basis,
            derivatives=higher and (lambda rows, order: rebase(higher(rows @ basis.T, order), basis, 2)),
        )

    def restricted(self, kept: Array, at: Array) -> View:
        """The same decoder as a function of some latents, the others held fixed."""
        higher = self.derivatives

        def whole(rows: Array) -> Array:
            full = np.tile(at, (len(rows), 1))
            full[:, kept] = rows
            return full

        def fewer(tensor: Array) -> Array:
            for axis in range(2, tensor.ndim):
                tensor = tensor.take(kept, axis)
            return tensor

        return replace(
            self,
            d=len(kept),
            outputs=lambda rows: self.outputs(whole(rows)),
            jacobians=lambda rows: fewer(self.jacobians(whole(rows))),
            derivatives=higher and (lambda rows, order: fewer(higher(whole(rows), order))),
        )

    def rows_at_once(self, order: int) -> int:
        """How many rows of derivatives of an order fit into a block."""
        return max(1, int(_MEMORY // self._bytes(order)))

    def fits(self, order: int) -> bool:
        """Whether the derivatives of one row fit into memory."""
        return self._bytes(order) <= _MOST

    def _bytes(self, order: int) -> int:
        return int(32 * max(self.width, self.widest) * self.d**order)


def rebase(tensor: Array, basis: Array, first: int) -> Array:
    """Derivatives along the columns of a basis, from the axis ``first`` on, in the place of those along latents."""
    for axis in range(first, tensor.ndim):
        tensor = np.moveaxis(np.tensordot(tensor, basis, (axis, 0)), -1, axis)
    return tensor


def consecutive(sizes: Sequence[int]) -> tuple[Array, ...]:
    """Blocks of these sizes, one after another."""
    edges = np.cumsum([0, *sizes])
    return tuple(np.arange(start, stop) for start, stop in pairwise(edges))


@contextmanager
def viewed(decoder: Any, latents: Latents) -> Iterator[View]:
    """A torch decoder, a numpy function with a method ``jacobian``, or a numpy function alone."""
    if not callable(decoder):
        raise InputError(f"the decoder is a {type(decoder).__name__}: pass a torch module or a function of a batch")
    if not _takes_tensors(decoder, latents):
        yield _numpy_view(decoder, latents)
        return
    with prepared(decoder, latents.rows(slice(0, 2)), latents.row_shape, None, latents.double) as ready:
        yield _torch_view(decoder, latents, ready)


def _takes_tensors(decoder: Any, latents: Latents) -> bool:
    """Whether torch can differentiate it: it then returns a tensor with a gradient function."""
    try:
        import torch
    except ModuleNotFoundError:
        return False
    if isinstance(decoder, torch.nn.Module):
        return True
    if callable(getattr(decoder, "jacobian", None)):
        return False
    sample = np.array(latents.rows(slice(0, 2)))
    for dtype in (torch.float64, torch.float32):
        with suppress(Exception):  # numpy functions refuse such a tensor, each in its own words
            rows = torch.tensor(sample, dtype=dtype).reshape(-1, *latents.row_shape)
            if isinstance(decoder(rows.requires_grad_()), torch.Tensor):
                return True
    try:
        return not isinstance(decoder(sample), np.ndarray)
    except Exception:  # then the torch side says what is wrong with it
        return True


def _torch_view(decoder: Any, latents: Latents, ready: Ready) -> View:
    import torch

    def outputs(rows: Array) -> Array:
        parts = [ready.function(ready.tensor(rows[part])).cpu().double().numpy() for part in blocks(len(rows), 4096)]
        return np.concatenate(parts)

    def jacobians(rows: Array) -> Array:
        return jacobian(decoder, np.asarray(rows).reshape(-1, *latents.row_shape)).astype(np.float64)

    higher = _way_to_higher(ready, latents.rows(slice(0, 1)))

    def derivatives(rows: Array, order: int) -> Array:
        with torch.set_grad_enabled(higher == "recorded"):
            found = _nested(ready, order)(ready.tensor(rows))
        return np.asarray(found.numpy(force=True), dtype=np.float64)  # zeros may not be written out yet

    precision = str(ready.dtype).removeprefix("torch.")
    alone = "torch.func cannot differentiate the decoder again: Type Hₙ is tested by swaps alone"
    return View(
        ready.d,
        ready.outputs,
        outputs,
        jacobians,
        None if higher is None else derivatives,
        PRECISION[precision],
        float(torch.finfo(ready.dtype).eps),
        ready.kinks,
        (*ready.notes, alone) if higher is None else ready.notes,
        f"automatic differentiation in {precision}",
        ready.held if higher == "recorded" else ready.widest,
    )


def _way_to_higher(ready: Ready, row: Array) -> str | None:
    """How torch.func takes third derivatives, tried along one latent; None where it cannot.

    Steps such as SiLU have formulas that can be differentiated again only while autograd records.
    """
    import torch

    for way in ("plain", "recorded"):
        # What torch raises for what it cannot transform differs from case to case.
        with suppress(Exception), torch.set_grad_enabled(way == "recorded"):
            _nested(ready, 3, 1)(ready.tensor(row))
            return way
    return None


def _nested(ready: Ready, order: int, most: int | None = None) -> Callable[[Any], Any]:
    """All derivatives of an order on new last axes, or those along some latents; one product serves all rows."""
    import torch

    if order == 0:
        return ready.function
    lower = _nested(ready, order - 1, most)

    def derivative(rows: Any) -> Any:
        axes = torch.eye(ready.d, dtype=rows.dtype, device=rows.device)[:most, None].expand(-1, len(rows), -1)
        pushed = torch.func.vmap(lambda axis: torch.func.jvp(lower, (rows,), (axis,))[1])(axes)
        return pushed.movedim(0, -1)

    return derivative


def _numpy_view(decoder: Any, latents: Latents) -> View:
    def outputs(rows: Array) -> Array:
        shaped = np.asarray(rows, dtype=np.float64).reshape(-1, *latents.row_shape)
        found = np.asarray(decoder(shaped), dtype=np.float64)
        if found.ndim == 0 or len(found) != len(shaped):
            raise InputError(f"the decoder maps {len(shaped)} rows to shape {found.shape}: it must keep the rows")
        return found.reshape(len(shaped), -1)

    sample = np.asarray(latents.rows(slice(0, 1)), dtype=np.float64)
    first = outputs(sample)
    if not np.isfinite(first).all():
        raise InputError("the decoder's output is not finite at the first row")
    width = first.shape[1]
    exact = getattr(decoder, "jacobian", None)

    steps = _steps(np.asarray(latents.rows(slice(0, 2000)), dtype=np.float64))

    def differences(rows: Array) -> Array:
        rows = np.asarray(rows, dtype=np.float64)
        columns = []
        for axis, step in enumerate(steps):
            above, below = rows.copy(), rows.copy()
            above[:, axis] += step
            below[:, axis] -= step
            columns.append((outputs(above) - outputs(below)) / (above - below)[:, axis, None])
        return np.stack(columns, axis=-1)

    def exactly(rows: Array) -> Array:
        found = np.asarray(exact(np.asarray(rows).reshape(-1, *latents.row_shape)), dtype=np.float64)  # type: ignore[misc]
        return found.reshape(len(rows), width, -1)

    way = (differences, _DIFFERENCES, "central differences")
    if callable(exact):
        way = (exactly, PRECISION["float64"], "the decoder's own jacobian")
    jacobians, noise, source = way
    eps = float(np.finfo(np.float64).eps)
    return View(latents.d, width, outputs, jacobians, None, noise, eps, (), (), source, width)


def _steps(rows: Array) -> Array:
    """Step along each latent for a difference: small relative to its spread, or to its size where it has none."""
    spread, size = rows.std(0), np.abs(rows).max(0)
    scale = np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    return np.asarray(np.maximum(6e-6 * scale, 1e-12 * size))


@dataclass(frozen=True, eq=False)
class Frame:
    """One sample: the whitened blocks side by side, their places, and the error of the numbers.

    ``noise`` is the relative error of whitened entries. ``unwhiten`` maps whitened coordinates to latent ones (None
    where some block has less than full rank, of which the moved directions are kept).
    """

    values: Array
    places: tuple[slice, ...]
    noise: float
    deficient: tuple[bool, ...]
    smallest: float
    unwhiten: Array | None

    @property
    def full_rank(self) -> bool:
        """Whether every direction affects the outputs, and no two blocks do so in the same way."""
        return not any(self.deficient) and self.smallest > 10 * self.noise * np.sqrt(len(self.values))

    def block(self, place: int) -> Array:
        """The whitened columns of a block."""
        return np.asarray(self.values[:, self.places[place]])

    def weights(self) -> Array:
        """How strongly a block moves an output: row norms (outputs, K), the largest of every block being 1."""
        norms = np.stack([np.linalg.norm(self.values[:, place], axis=1) for place in self.places], axis=1)
        largest = norms.max(0, initial=0.0)
        return np.asarray(norms / np.where(largest > 0, largest, 1.0))


def active_latents(jacobians: Array, latents: Array) -> Array:
    """Latents whose effect on the outputs, over their spread, exceeds a thousandth of the strongest.

    If the spread is unknown, a weak latent may be in other units, and all latents with an effect are active. If some
    latents vary, one that does not is inactive where it is weaker than all of them by as much.
    """
    spread = np.where(np.ptp(latents, axis=0) > 0, latents.std(0), 0.0)  # rounding is no spread
    sizes = np.linalg.norm(jacobians, axis=1).max(0)
    effects = sizes * spread
    if not effects.any():
        return np.flatnonzero(sizes > 0) if sizes.any() else np.arange(len(spread))
    active = effects >= INACTIVE_BELOW * effects.max()
    return np.flatnonzero(active | ((spread == 0) & (sizes >= INACTIVE_BELOW * sizes[active].min())))


def balanced_units(jacobians: Array, latents: Array, noise: float) -> Array:
    """Powers of two, one per latent, in which all latents affect the outputs by about as much.

    Units of latents may differ by many orders of magnitude, and verdicts must not depend on them. A latent's effect
    over its whole spread has no units: where that is rounding relative to the others, it stays as small as it is.
    """
    sizes = np.abs(jacobians).max((0, 1))
    spread = np.where(np.ptp(latents, axis=0) > 0, latents.std(0), 0.0)  # rounding is no spread
    spread = spread if spread.any() else np.ones_like(spread)
    effects = sizes * spread
    most = float(effects.max())
    if most == 0:
        return np.ones_like(sizes)
    moves = (sizes > 0) & ((spread == 0) | (effects > noise * most))
    units = np.where(moves, 1 / np.where(sizes > 0, sizes, 1.0), np.where(spread > 0, spread, 1.0) / most)
    exponents = np.round(np.log2(units))
    return np.asarray(np.exp2(exponents - exponents[0]) if np.ptp(exponents) else np.ones_like(sizes))


def frame(jacobian: Array, members: Sequence[Array], noise: float) -> Frame:
    """The frame of one Jacobian (outputs, d), in float64; ``members`` are the latents of every block."""
    n, d = jacobian.shape
    parts, places, deficient, worst, start, smallest = [], [], [], 1.0, 0, 0.0
    unwhiten: Array | None = np.zeros((d, d))
    for block in members:
        left, values, right = np.linalg.svd(jacobian[:, block], full_matrices=False)
        kept = int((values > 10 * noise * np.sqrt(n) * values[0]).sum())
        deficient.append(kept < len(block))
        if kept:
            worst = max(worst, values[0] / values[kept - 1])
        if kept < len(block):
            unwhiten = None
        elif unwhiten is not None:
            unwhiten[np.ix_(block, np.arange(start, start + kept))] = right.T / values
        parts.append(left[:, :kept])
        places.append(slice(start, start + kept))
        start += kept
    values = np.concatenate(parts, axis=1)
    if 0 < start <= n:
        smallest = float(np.linalg.svd(values, compute_uv=False)[-1])
    return Frame(values, tuple(places), noise * worst, tuple(deficient), smallest, unwhiten)
