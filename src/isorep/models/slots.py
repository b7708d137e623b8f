"""Autoencoders of slots: fully connected, with a decoder of all latents together or one that adds up the slots.

Latents that ended up in the wrong slot, exchanged without changing what an autoencoder computes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..errors import InputError
from ..representation import Array
from ..settings import check_choice
from .evaluation import nn, torch

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

    Second derivatives across slots vanish whatever the weights are: it is of Type H₂ by construction, and can only
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
        for index, layer in enumerate(self.linear):
            values = layer(self._bent(values) if index else values)
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
    return [list(range(end - size, end)) for size, end in zip(dimensions, accumulate(dimensions), strict=True)]


def _checked(outputs: int, dimensions: Sequence[int], hidden: Sequence[int], activation: str) -> list[int]:
    sizes = [int(size) for size in dimensions]
    if outputs < 1 or not sizes or min(sizes) < 1 or any(width < 1 for width in hidden):
        raise InputError(f"{outputs} outputs, slots of {sizes} latents and hidden widths {list(hidden)}: all from 1 on")
    check_choice("activation", activation, ACTIVATIONS)
    return sizes


_ROUNDS = 20  # exchanges at most
_GAIN = 0.99  # of the contrast that an exchange must leave at most


def regroup_slots(module: Any, inputs: Any, *, rows: int = 512) -> tuple[Any, int]:
    r"""Exchange directions between the slots of a :class:`SlotAutoencoder` as long as the contrast falls.

    A penalty on shared outputs moves latents continuously and seldom takes a direction from one slot to another, which
    leads through worse ones. In slot i, the direction that acts most like slot j is

    .. math:: \max_u\frac{\sum_nw_n(J_{n,C_i}u)^2}{\sum_n(J_{n,C_i}u)^2},\qquad
              w_n=\frac{\|J_{n,C_j}\|^2}{\|J_{n,C_i}\|^2+\|J_{n,C_j}\|^2}

    with latents at unit spread. The directions of i and j change places if the compositional contrast at unit spread
    falls, by a linear map of the latents that encoder and decoder absorb: outputs stay the same.

    Parameters
    ----------
    module : SlotAutoencoder
        With a decoder of all latents together; an additive one cannot absorb the map.
    inputs : array or tensor (n, outputs)
        Examples.
    rows : int
        Number of examples to use, from the first on.

    Returns
    -------
    SlotAutoencoder, int
        A copy, and the number of exchanges.
    """
    if not hasattr(module.decoder, "linear"):
        raise InputError("slots of an additive decoder cannot exchange directions: each has a network of its own")
    made = copy.deepcopy(module)
    given = torch.as_tensor(inputs)[:rows].to(next(made.parameters()))
    with torch.no_grad():
        latents = made.encoder(given)
        jacobian = made.decoder.with_jacobian(latents)[1].double().numpy()
        centred = (latents - latents.mean(0)).double().numpy()
    turned, exchanges = _exchanged(jacobian, centred, made.blocks)
    if exchanges:
        _absorb(made, turned)
    return made, exchanges


def _exchanged(jacobian: Array, centred: Array, blocks: Sequence[Sequence[int]]) -> tuple[Array, int]:
    """The map T of the latents, z' = T z, and its number of exchanges."""
    total, count = np.eye(centred.shape[1]), 0
    current = _contrast(jacobian, centred, blocks)
    while count < _ROUNDS:
        tried = []
        for first, second in combinations(range(len(blocks)), 2):
            step = _exchange(jacobian, centred, blocks, first, second)
            back = np.linalg.inv(step)
            tried.append((_contrast(jacobian @ back, centred @ step.T, blocks), step, back))
        if not tried:
            break
        least, step, back = min(tried, key=lambda each: each[0])
        if not least < _GAIN * current:
            break
        current, total, count = least, step @ total, count + 1
        jacobian, centred = jacobian @ back, centred @ step.T
    return total, count


def _exchange(jacobian: Array, centred: Array, blocks: Sequence[Sequence[int]], first: int, second: int) -> Array:
    """Coordinates in which the foreign direction of each of two slots comes first, and these two exchanged."""
    step = np.eye(centred.shape[1])
    sides = {own: _at_unit_spread(jacobian, centred, blocks[own]) for own in (first, second)}
    sizes = {own: (moved**2).sum((0, 2)) for own, (moved, _) in sides.items()}
    for own, other in ((first, second), (second, first)):
        moved, white = sides[own]
        weight = sizes[other] / np.maximum(sizes[own] + sizes[other], np.finfo(float).tiny)
        gram = np.einsum("bnk,bnl->kl", moved, moved)
        foreign = np.einsum("bnk,n,bnl->kl", moved, weight, moved)
        ridge = 1e-9 * np.trace(gram) * np.eye(len(gram)) + np.finfo(float).tiny * np.eye(len(gram))
        # All of the generalised eigenvectors are the frame: they part directions with outputs of their own exactly,
        # also where latents are dependent and no orthogonal frame does.
        directions = eigh(foreign, gram + ridge)[1][:, ::-1]
        places = list(blocks[own])
        step[np.ix_(places, places)] = np.linalg.solve(directions / np.linalg.norm(directions, axis=0), white)
    order = np.arange(len(step))
    order[[blocks[first][0], blocks[second][0]]] = blocks[second][0], blocks[first][0]
    return np.asarray(step[order])


def _at_unit_spread(jacobian: Array, centred: Array, block: Sequence[int]) -> tuple[Array, Array]:
    """Derivatives by white coordinates of a slot, and the map to these."""
    places = list(block)
    spread, axes = np.linalg.eigh(centred[:, places].T @ centred[:, places] / len(centred))
    scale = np.sqrt(np.maximum(spread, max(float(spread[-1]), np.finfo(float).tiny) * 1e-12))
    return jacobian[..., places] @ (axes * scale), (axes / scale).T


def _contrast(jacobian: Array, centred: Array, blocks: Sequence[Sequence[int]]) -> float:
    """The compositional contrast with every slot's latents white: no basis within a slot matters."""
    norms = []
    for block in blocks:
        places = list(block)
        covariance = centred[:, places].T @ centred[:, places] / len(centred)
        part = jacobian[..., places]
        norms.append(np.sqrt(np.maximum(np.einsum("bnk,kl,bnl->bn", part, covariance, part), 0.0)))
    return float(np.mean(sum((one * other).sum(1) for one, other in combinations(norms, 2))))


def _absorb(module: Any, turned: Array) -> None:
    """Latents z' = T z: the encoder's last layer gives them, the decoder's first takes them."""
    last, first = module.encoder.linear[-1], module.decoder.linear[0]
    with torch.no_grad():
        for value in (last.weight, last.bias):
            value.copy_(torch.as_tensor(turned @ value.double().numpy()))
        first.weight.copy_(torch.as_tensor(first.weight.double().numpy() @ np.linalg.inv(turned)))
