"""Autoencoders of slots: fully connected, with a decoder of all latents together or one that adds up the slots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..errors import InputError
from .backend import nn, torch

HIDDEN = (80, 80)
SLOPE = 0.2
ACTIVATIONS = ("leaky_relu", "smooth")


class SlotAutoencoder(nn.Module):
    r"""Outputs to latents in blocks and back, by fully connected layers with LeakyReLU(0.2) between them.

    Nothing in the architecture keeps slots apart, unless the decoder is additive: a loss must, such as
    :func:`isorep.decoder.mechanism.losses.compositional_contrast`.

    Parameters
    ----------
    outputs : int
        Numbers of an example.
    dimensions : sequence of int
        Latents of every slot.
    hidden : sequence of int
        Widths between, of encoder and, in reverse, decoder.
    additive : bool
        Whether the decoder is an :class:`AdditiveDecoder`.
    activation : {"leaky_relu", "smooth"}
        Smooth is :math:`0.2x+0.8\log(1+e^x)`, which has second derivatives.

    Examples
    --------
    >>> from isorep.models import SlotAutoencoder
    >>> network = SlotAutoencoder(34, (3, 3), additive=True)
    >>> network.blocks, len(network.decoder.slots)
    ([[0, 1, 2], [3, 4, 5]], 2)
    """

    def __init__(
        self,
        outputs: int,
        dimensions: Sequence[int],
        *,
        hidden: Sequence[int] = HIDDEN,
        additive: bool = False,
        activation: str = "leaky_relu",
    ) -> None:
        super().__init__()
        self.dimensions = _checked(outputs, dimensions, hidden, activation)
        inner = sum(self.dimensions)
        back = tuple(reversed(hidden))
        self.encoder = Layers((outputs, *hidden, inner), activation)
        self.decoder = (
            AdditiveDecoder(outputs, self.dimensions, hidden=back, activation=activation)
            if additive
            else Layers((inner, *back, outputs), activation)
        )

    @property
    def blocks(self) -> list[list[int]]:
        """The latents of every slot."""
        return _blocks(self.dimensions)

    def forward(self, inputs: Any) -> Any:
        """Inputs, encoded and decoded."""
        return self.decoder(self.encoder(inputs))


class AdditiveDecoder(nn.Module):
    r"""A sum of one network for each slot, :math:`\hat g(z)=\sum_k\hat g_k(z_k)`.

    Second derivatives across slots vanish whatever the weights are: it is of Type H_2 by construction, and can only
    imitate generators that are.

    Parameters
    ----------
    outputs, dimensions, activation
        As in :class:`SlotAutoencoder`.
    hidden : sequence of int
        Widths of each slot's network.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import AdditiveDecoder
    >>> decoder = AdditiveDecoder(5, (2, 1))
    >>> z, other = torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 7.0]])
    >>> first = torch.tensor([[3.0, -1.0, 0.0]])
    >>> bool(torch.allclose(decoder(first + other) - decoder(other), decoder(first) - decoder(z), atol=1e-5))
    True
    """

    def __init__(
        self, outputs: int, dimensions: Sequence[int], *, hidden: Sequence[int] = HIDDEN, activation: str = "leaky_relu"
    ) -> None:
        super().__init__()
        self.dimensions = _checked(outputs, dimensions, hidden, activation)
        self.slots = nn.ModuleList([Layers((size, *hidden, outputs), activation) for size in self.dimensions])

    def forward(self, latents: Any) -> Any:
        """The sum over slots."""
        parts = torch.split(latents, self.dimensions, dim=-1)
        return sum(slot(part) for slot, part in zip(self.slots, parts, strict=True))

    def with_jacobian(self, latents: Any) -> tuple[Any, Any]:
        """Outputs (n, outputs) and Jacobians (n, outputs, d)."""
        parts = torch.split(latents, self.dimensions, dim=-1)
        slots: Any = self.slots
        found = [slot.with_jacobian(part) for slot, part in zip(slots, parts, strict=True)]
        return sum(outputs for outputs, _ in found), torch.cat([each for _, each in found], dim=-1)


class Layers(nn.Module):
    """Linear layers with an activation between them, which push their Jacobian forward themselves.

    That costs less than forward-mode differentiation, also of many models inside ``torch.func.vmap``.
    """

    def __init__(self, widths: Sequence[int], activation: str = "leaky_relu") -> None:
        super().__init__()
        self.activation = activation
        self.linear = nn.ModuleList([nn.Linear(before, after) for before, after in pairwise(widths)])

    def forward(self, values: Any) -> Any:
        """Rows (n, first width) to rows (n, last width)."""
        for place, layer in enumerate(self.linear):
            values = layer(self._bent(values) if place else values)
        return values

    def with_jacobian(self, values: Any) -> tuple[Any, Any]:
        """Outputs (n, last width) and Jacobians (n, last width, first width)."""
        layers: Any = self.linear
        count, inner = values.shape
        values = layers[0](values)
        pushed = layers[0].weight.mT.expand(count, -1, -1)
        for layer in layers[1:]:
            moved = self._slopes(values)[:, None] * pushed
            flat = moved.reshape(count * inner, -1) @ layer.weight.mT  # one product for all rows: mapped, it stays one
            pushed = flat.reshape(count, inner, -1)
            values = layer(self._bent(values))
        return values, pushed.mT

    def _bent(self, values: Any) -> Any:
        if self.activation == "leaky_relu":
            return nn.functional.leaky_relu(values, SLOPE)
        return SLOPE * values + (1 - SLOPE) * nn.functional.softplus(values, threshold=50)

    def _slopes(self, values: Any) -> Any:
        if self.activation == "leaky_relu":
            return torch.where(values > 0, torch.ones_like(values), SLOPE)
        return SLOPE + (1 - SLOPE) * torch.sigmoid(values)


def _blocks(dimensions: Sequence[int]) -> list[list[int]]:
    ends = [sum(dimensions[: place + 1]) for place in range(len(dimensions))]
    return [list(range(end - size, end)) for size, end in zip(dimensions, ends, strict=True)]


def _checked(outputs: int, dimensions: Sequence[int], hidden: Sequence[int], activation: str) -> list[int]:
    sizes = [int(size) for size in dimensions]
    if outputs < 1 or not sizes or min(sizes) < 1 or any(width < 1 for width in hidden):
        raise InputError(f"{outputs} outputs, slots of {sizes} latents and hidden widths {list(hidden)}: all from 1 on")
    if activation not in ACTIVATIONS:
        raise InputError(f"activation is {activation!r}; known are {', '.join(ACTIVATIONS)}")
    return sizes
