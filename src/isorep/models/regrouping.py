"""Latents that ended up in the wrong slot, exchanged without changing what an autoencoder computes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..errors import InputError
from ..representation import Array
from .backend import torch

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
        How many of them are looked at, from the first on.

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
    """The map T of the latents, z' = T z, and how many exchanges it holds."""
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
