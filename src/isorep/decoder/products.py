"""Products with a decoder's Jacobian, for many rows and many directions at once.

A forward product :math:`Jv` pushes a direction of the latents through the decoder; a reverse product
:math:`J^\\top u` pulls a direction of the outputs back. Each is tried in the fastest way first: all directions
together with ``torch.func``, then one by one, then by plain autograd, which takes what ``torch.func`` cannot
transform. A forward product by plain autograd is the derivative of the reverse product, which is linear in ``u``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .preparing import Ready, import_torch, mixed_rows, same

if TYPE_CHECKING:
    from torch import Tensor

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
        preferred = "forward" if self.ready.d <= self.ready.outputs else "reverse"
        available = {"forward": self.forward, "reverse": self.reverse}
        other = "reverse" if preferred == "forward" else "forward"
        return preferred if available[preferred] is not None else other

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
    forward = _first(ready, z, down, (_push_together, _push_one_by_one, _push_plain))
    reverse = _first(ready, z, up, (_pull_together, _pull_one_by_one, _pull_plain))
    if forward is None and reverse is None:
        raise blocked()
    # Control flow that depends on values keeps torch.func from mapping over rows, and may depend on several of them.
    plain = forward is not _push_together or reverse is not _pull_together or not _maps_over_rows(ready, z)
    return Ways(ready, forward, reverse, plain)


def blocked() -> InputError:
    """The error for a decoder that cannot be differentiated."""
    return InputError(
        "the decoder cannot be differentiated: no gradient reaches its input (torch.no_grad, .detach(), .numpy() or "
        "rounding inside)"
    )


def _require_gradient(ready: Ready, z: Tensor) -> None:
    """Refuse a decoder whose output autograd does not trace back to its input; zeros would be believed."""
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)
        if not y.requires_grad or torch.autograd.grad(y.sum(), z, allow_unused=True)[0] is None:
            raise blocked()


def _first(ready: Ready, z: Tensor, directions: Tensor, ways: tuple[Way, ...]) -> Way | None:
    for way in ways:
        try:
            way(ready, z)(directions)
        except Exception:  # what torch raises for what it cannot transform differs from case to case
            continue
        return way
    return None


def _maps_over_rows(ready: Ready, z: Tensor) -> bool:
    torch = import_torch()
    try:
        torch.func.vmap(lambda row: ready.function(row[None])[0])(z)
    except Exception:  # as above
        return False
    return True


def _push_together(ready: Ready, z: Tensor) -> Product:
    func: Any = import_torch().func

    def product(v: Tensor) -> Tensor:
        return func.vmap(lambda each: func.jvp(ready.function, (z,), (each,))[1])(v)  # type: ignore[no-any-return]

    return product


def _push_one_by_one(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()

    def product(v: Tensor) -> Tensor:
        return torch.stack([torch.func.jvp(ready.function, (z,), (each,))[1] for each in v])  # type: ignore[no-any-return]

    return product


def _push_plain(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)
        u = torch.zeros_like(y, requires_grad=True)
        (pulled,) = torch.autograd.grad(y, z, u, create_graph=True)

    def product(v: Tensor) -> Tensor:
        return torch.stack([torch.autograd.grad(pulled, u, each, retain_graph=True)[0] for each in v])  # type: ignore[no-any-return]

    return product


def _pull_together(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    _, pull = torch.func.vjp(ready.function, z)

    def product(u: Tensor) -> Tensor:
        return torch.func.vmap(lambda each: pull(each)[0])(u)  # type: ignore[no-any-return]

    return product


def _pull_one_by_one(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    _, pull = torch.func.vjp(ready.function, z)

    def product(u: Tensor) -> Tensor:
        return torch.stack([pull(each)[0] for each in u])  # type: ignore[no-any-return]

    return product


def _pull_plain(ready: Ready, z: Tensor) -> Product:
    torch = import_torch()
    with torch.enable_grad():
        z = z.detach().clone().requires_grad_()
        y = ready.function(z)

    def product(u: Tensor) -> Tensor:
        return torch.stack([torch.autograd.grad(y, z, each, retain_graph=True)[0] for each in u])  # type: ignore[no-any-return]

    return product
