"""Jacobians of decoders at many latents, within a memory limit.

Products with a decoder's Jacobian, for many rows and many directions at once.

A forward product :math:`Jv` pushes a direction of the latents through the decoder; a reverse product
:math:`J^\\top u` pulls a direction of the outputs back. Each is tried in the fastest way first: all directions
together with ``torch.func``, then one by one, then by plain autograd, which takes what ``torch.func`` cannot
transform. A forward product by plain autograd is the derivative of the reverse product, which is linear in ``u``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, blocks, no_progress
from ..settings import check_choice
from ..storage.scratch import memory_size
from .prepare import MEMORY, Latents, Ready, as_latents, import_torch, mixed_rows, prepared, same

if TYPE_CHECKING:
    from torch import Tensor

_LIVE = 4  # arrays of the largest step's size that are alive at once while directions pass through it
_WORK = 2**27  # bytes beyond which larger blocks are slower: what is worked on leaves the caches


def jacobian(
    decoder: Any,
    latents: Any,
    *,
    direction: str = "auto",
    memory: float = MEMORY,
    device: Any = None,
    progress: Progress | None = None,
) -> Array:
    r"""Compute the Jacobian of a decoder at each row of the latents.

    .. math:: J_i=\frac{\partial g}{\partial z}(z_i)\in\mathbb R^{\text{outputs}\times d}

    Parameters
    ----------
    decoder : callable
        Torch module or function that maps a batch (n, d) of latents to a batch (n, ...) of outputs, each row on
        its own. It runs in evaluation mode, in the precision and on the device of its parameters; flags are restored.
        Outputs are flattened.
    latents : array, tensor, Representation or path
        One row per sample. Rows with a shape, as in (n, c, h, w), are passed to the decoder in that shape; the Jacobian
        is over the flattened row.
    direction : {"auto", "forward", "reverse"}
        Forward needs one product per latent dimension, reverse one per output; auto (default) uses the fewer.
    memory : float
        Bytes of working memory, in addition to the returned array.
    device : str or torch.device, optional
        Device to compute on, with a copy of the module.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    (n, outputs, d) array
        The Jacobians, in the decoder's precision.

    Examples
    --------
    >>> import torch, isorep
    >>> isorep.decoder.jacobian(lambda z: torch.stack([z[:, 0] * z[:, 1], z[:, 1] ** 2], 1), [[2.0, 3.0]])
    array([[[3., 2.],
            [0., 6.]]])
    """
    with opened(decoder, latents, direction, memory, device) as jacobians:
        ready, n = jacobians.ready, jacobians.latents.n
        needed = n * ready.outputs * ready.d * ready.itemsize
        if needed > 0.8 * (memory_size() or 2**40):
            raise InputError(
                f"{n} Jacobians of {ready.outputs} x {ready.d} take {needed / 2**30:.1f} GiB, more than this machine "
                "has: take fewer rows, or singular_values, which holds few Jacobians at once"
            )
        values = np.empty((n, ready.outputs, ready.d), str(ready.dtype).removeprefix("torch."))
        for rows, block in jacobians.blocks(progress):
            values[rows] = block.cpu().numpy()
    return values


@contextmanager
def opened(decoder: Any, latents: Any, direction: str, memory: float, device: Any) -> Iterator[Jacobians]:
    """The Jacobians of a decoder at these latents, to be computed block by block."""
    check_choice("direction", direction, DIRECTIONS)
    if not isinstance(memory, int | float | np.number) or not 1 <= memory < np.inf:
        raise InputError(f"memory is {memory!r} where a number of bytes is needed")
    given = as_latents(latents)
    with prepared(decoder, given.rows(slice(0, 2)), given.row_shape, device, given.double) as ready:
        ways = ways_of(ready, ready.tensor(given.rows(slice(0, 2))))
        yield Jacobians(given, ready, ways, ways.chosen(direction), memory)


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Jacobians that are computed on demand."""

    latents: Latents
    ready: Ready
    ways: Ways
    direction: str
    memory: float

    @property
    def together(self) -> int:
        """The number of directions pushed or pulled at once, at one row."""
        total = self.ready.d if self.direction == "forward" else self.ready.outputs
        return int(np.clip(self._work / 2 // self._direction_bytes, 1, total))

    @property
    def rows_at_once(self) -> int:
        """The number of rows per block."""
        ready = self.ready
        one = self.together * self._direction_bytes + ready.held * ready.itemsize + self._jacobian_bytes
        return int(np.clip(self._work // one, 1, self.latents.n))

    @property
    def slices(self) -> int:
        """The number of parts in which the Jacobian of one row is computed, to fit in memory."""
        return int(np.ceil(self._jacobian_bytes / max(self.memory / 2, 1)))

    @property
    def _work(self) -> float:
        return min(self.memory, _WORK)

    @property
    def _direction_bytes(self) -> int:
        return _LIVE * self.ready.widest * self.ready.itemsize

    @property
    def _jacobian_bytes(self) -> int:
        return self.ready.outputs * self.ready.d * (self.ready.itemsize + 16)  # also in double precision, and at work

    def blocks(self, progress: Progress | None = None, columns: Array | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Row slices with their Jacobians, (r, outputs, d); with ``columns`` of these latents only."""
        report = progress or no_progress
        report("Jacobians", 0, self.latents.n)
        for rows in blocks(self.latents.n, self.rows_at_once):
            yield rows, self.at(rows, columns)
            report("Jacobians", rows.stop, self.latents.n)

    def at(self, rows: slice, columns: Array | None = None, outputs: slice | None = None) -> Tensor:
        """The Jacobians at some rows, of some latents and outputs, a few directions at a time."""
        torch, ready, forward = import_torch(), self.ready, self.direction == "forward"
        z = ready.tensor(self.latents.rows(rows))
        ends = [(ready.d, slice(None) if columns is None else columns), (ready.outputs, outputs or slice(None))]
        (size, along), (across, kept) = ends if forward else ends[::-1]
        axes, width = torch.arange(size)[along], len(np.arange(across)[kept])
        product = self.ways.push(z) if forward else self.ways.pull(z)
        block = torch.empty(len(z), len(axes), width, dtype=ready.dtype, device=ready.device)
        for part in blocks(len(axes), self.together):
            units = torch.zeros(part.stop - part.start, size).to(block)
            units[torch.arange(len(units)), axes[part]] = 1
            images = product(units[:, None].expand(-1, len(z), -1))
            block[:, part] = images[:, :, kept].permute(1, 0, 2)
        bad = ~torch.isfinite(block).flatten(1).all(1)
        if bool(bad.any()):
            raise not_finite(rows.start + int(bad.nonzero()[0, 0]), self.latents)
        return block.mT if forward else block  # type: ignore[no-any-return]


def not_finite(row: int, latents: Latents) -> InputError:
    """The error for a Jacobian that is not finite."""
    return InputError(f"the decoder's Jacobian is not finite at row {row} of {latents.name}")


if TYPE_CHECKING:
    Product = Callable[[Tensor], Tensor]  # (k, r, inputs) -> (k, r, outputs): k directions at each of r rows
    Way = Callable[[Ready, Tensor], Product]

DIRECTIONS = ("auto", "forward", "reverse")


@dataclass(frozen=True)
class Ways:
    """How a decoder's products are made; None where there is no way."""

    ready: Ready
    forward: Way | None
    reverse: Way | None
    plain: bool  # plain autograd is needed, so rows are also decoded one by one to see that none depends on another

    def push(self, z: Tensor) -> Product:
        """Forward products at these rows."""
        if self.forward is None:
            raise InputError("torch has no forward product of this decoder: it cannot be differentiated twice")
        self._require_apart(z)
        return self.forward(self.ready, z)

    def pull(self, z: Tensor) -> Product:
        """Reverse products at these rows."""
        if self.reverse is None:
            raise blocked()
        self._require_apart(z)
        return self.reverse(self.ready, z)

    def chosen(self, direction: str) -> str:
        """The direction to make a whole Jacobian in: the side with fewer dimensions, where there is a way."""
        if direction != "auto":
            return direction
        if self.ready.d <= self.ready.outputs:
            return "reverse" if self.forward is None else "forward"
        return "forward" if self.reverse is None else "reverse"

    def _require_apart(self, z: Tensor) -> None:
        if not self.plain or len(z) == 1:
            return
        torch = import_torch()
        alone = torch.cat([self.ready.function(z[row : row + 1]) for row in range(len(z))])
        if not same(self.ready.function(z), alone):
            raise mixed_rows()


def ways_of(ready: Ready, z: Tensor) -> Ways:
    """Try the ways on two directions at up to two rows."""
    torch = import_torch()
    _require_gradient(ready, z)
    down = torch.ones(2, len(z), ready.d, dtype=ready.dtype, device=ready.device)
    up = torch.ones(2, len(z), ready.outputs, dtype=ready.dtype, device=ready.device)
    forward = _first(ready, z, down, _PUSHES)
    reverse = _first(ready, z, up, _PULLS)
    if forward is None and reverse is None:
        raise blocked()
    # Control flow that depends on values keeps torch.func from mapping over rows, and may depend on several of them.
    plain = forward is not _PUSHES[0] or reverse is not _PULLS[0] or not _maps_over_rows(ready, z)
    return Ways(ready, forward, reverse, plain)


def blocked() -> InputError:
    """The error for a decoder that cannot be differentiated."""
    return InputError(
        "the decoder cannot be differentiated: no gradient reaches its input (torch.no_grad, .detach(), .numpy() or "
        "rounding inside)"
    )


def _require_gradient(ready: Ready, z: Tensor) -> None:
    """Refuse a decoder whose output autograd does not trace back to its input, instead of returning zeros."""
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)
        if not y.requires_grad or torch.autograd.grad(y.sum(), z, allow_unused=True)[0] is None:
            raise blocked()


def _first(ready: Ready, z: Tensor, directions: Tensor, ways: tuple[Way, ...]) -> Way | None:
    for way in ways:
        with suppress(Exception):  # what torch raises for what it cannot transform differs from case to case
            way(ready, z)(directions)
            return way
    return None


def _maps_over_rows(ready: Ready, z: Tensor) -> bool:
    torch = import_torch()
    with suppress(Exception):  # as above
        torch.func.vmap(lambda row: ready.function(row[None])[0])(z)
        return True
    return False


def _push(ready: Ready, z: Tensor) -> Product:
    jvp = import_torch().func.jvp
    return lambda v: jvp(ready.function, (z,), (v,))[1]


def _pull(ready: Ready, z: Tensor) -> Product:
    _, pull = import_torch().func.vjp(ready.function, z)
    return lambda u: pull(u)[0]


def _push_plain(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)
        u = torch.zeros_like(y, requires_grad=True)
        (pulled,) = torch.autograd.grad(y, z, u, create_graph=True)
    return lambda v: torch.autograd.grad(pulled, u, v, retain_graph=True)[0]


def _pull_plain(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)
    return lambda u: torch.autograd.grad(y, z, u, retain_graph=True)[0]


def _together(single: Way) -> Way:
    return lambda ready, z: import_torch().func.vmap(single(ready, z))


def _one_by_one(single: Way) -> Way:
    def way(ready: Ready, z: Tensor) -> Product:
        product = single(ready, z)
        return lambda vectors: import_torch().stack([product(each) for each in vectors])

    return way


_PUSHES = (_together(_push), _one_by_one(_push), _one_by_one(_push_plain))
_PULLS = (_together(_pull), _one_by_one(_pull), _one_by_one(_pull_plain))
"""The ways to a product of many directions, the fastest first; the functions above take one direction."""
