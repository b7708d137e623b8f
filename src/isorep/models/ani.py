"""ANI-1x (Smith et al. 2018): energies of molecules atom by atom, eight trainings of one network, as plain numbers.

An atom's surroundings are numbers that do not change with rotations (Smith, Isayev and Roitberg 2017, equations 3 and
4), and a network per element makes an energy of them. The members share the surroundings and differ in the networks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array

_ALPHA = 0.1  # of CELU
_NUMBERS = ("Rcr", "Rca", "EtaR", "ShfR", "Zeta", "ShfZ", "EtaA", "ShfA")
_INNER = 0.95  # keeps the angle away from 0 and 180 degrees, where its derivative is infinite


@dataclass(frozen=True)
class Surroundings:
    """Constants of the surroundings: cut-offs, widths and centres in Ångström and radians; elements in order."""

    elements: tuple[str, ...]
    numbers: Mapping[str, Array]

    def __call__(self, symbols: Sequence[str], positions: Array) -> Array:
        """One row of numbers per atom of a molecule."""
        of = self.numbers
        strange = sorted(set(symbols) - set(self.elements))
        if strange:
            raise InputError(f"there is {strange[0]} in the molecule, and the networks know {', '.join(self.elements)}")
        kinds = np.array([self.elements.index(symbol) for symbol in symbols])
        away = positions[None] - positions[:, None]
        distance = np.sqrt((away**2).sum(-1))
        np.fill_diagonal(distance, np.inf)
        rows = []
        for atom in range(len(kinds)):
            near = np.flatnonzero(distance[atom] <= of["Rcr"][0])
            far = distance[atom, near, None]
            bumps = 0.25 * np.exp(-of["EtaR"] * (far - of["ShfR"]) ** 2) * _cut(far, of["Rcr"][0])
            radial = [bumps[kinds[near] == kind].sum(0) for kind in range(len(self.elements))]
            rows.append(np.concatenate([*radial, *self._angles(atom, kinds, away, distance)]))
        return np.stack(rows)

    def _angles(self, atom: int, kinds: Array, away: Array, distance: Array) -> list[Array]:
        """Terms of pairs of neighbours, by the elements of the pair."""
        of = self.numbers
        near = np.flatnonzero(distance[atom] <= of["Rca"][0])
        first, second = np.triu_indices(len(near), 1)
        j, k = near[first], near[second]
        lengths = distance[atom, j], distance[atom, k]
        cosine = (away[atom, j] * away[atom, k]).sum(-1) / (lengths[0] * lengths[1])
        angle = np.arccos(_INNER * cosine)[:, None, None]
        middle = ((lengths[0] + lengths[1]) / 2)[:, None, None]
        turn = (1 + np.cos(angle - of["ShfZ"][None, None])) ** of["Zeta"][0]
        bump = np.exp(-of["EtaA"][0] * (middle - of["ShfA"][None, :, None]) ** 2)
        cut = (_cut(lengths[0], of["Rca"][0]) * _cut(lengths[1], of["Rca"][0]))[:, None, None]
        terms = (2 ** (1 - of["Zeta"][0]) * turn * bump * cut).reshape(len(j), len(of["ShfA"]) * len(of["ShfZ"]))
        low, high = np.minimum(kinds[j], kinds[k]), np.maximum(kinds[j], kinds[k])
        pairs = combinations_with_replacement(range(len(self.elements)), 2)
        return [terms[(low == one) & (high == other)].sum(0) for one, other in pairs]


@dataclass(frozen=True)
class AtomNetwork:
    """Layers of a network of one element: weights (out, in) and biases."""

    layers: tuple[tuple[Array, Array], ...]

    def represent(self, surroundings: Array) -> Array:
        """The last hidden layer, which the energy is a linear function of."""
        state = surroundings
        for weights, bias in self.layers[:-1]:
            state = state @ weights.T + bias
            state = np.maximum(state, 0) + _ALPHA * np.expm1(np.minimum(state, 0) / _ALPHA)
        return state

    def energy(self, surroundings: Array) -> Array:
        """In Hartree, of each atom, without its own energy alone."""
        weights, bias = self.layers[-1]
        return (self.represent(surroundings) @ weights.T + bias)[:, 0]

    def untrained(self, rng: np.random.Generator) -> AtomNetwork:
        """The same network with random weights, uniform by the number of inputs."""
        made = []
        for weights, bias in self.layers:
            bound = 1 / math.sqrt(weights.shape[1])
            made.append((rng.uniform(-bound, bound, weights.shape), rng.uniform(-bound, bound, bias.shape)))
        return AtomNetwork(tuple(made))


def load_ani(folder: Path) -> tuple[Surroundings, list[dict[str, AtomNetwork]]]:
    """Constants, and the members with their networks by element, from a folder with ``train0`` and so on."""
    files = sorted(folder.glob("*.params"))
    members = sorted(folder.glob("train*"), key=lambda path: int(re.sub(r"\D", "", path.name) or 0))
    if len(files) != 1 or not members:
        raise InputError(f"{folder} holds no ANI networks: one file of constants and folders train0, ... are needed")
    surroundings = _constants(files[0])
    given = len(surroundings(surroundings.elements[:1], np.zeros((1, 3)))[0])
    return surroundings, [
        {element: _network(member / "networks", element, given) for element in surroundings.elements}
        for member in members
    ]


def _constants(path: Path) -> Surroundings:
    entries = dict(re.findall(r"^(\w+) *= *(.+?) *$", path.read_text("utf-8"), re.MULTILINE))
    try:
        numbers = {name: np.array([float(x) for x in entries[name].strip("[]").split(",")]) for name in _NUMBERS}
        elements = tuple(entries["Atyp"].strip("[]").split(","))
    except (KeyError, ValueError) as error:
        raise InputError(f"{path.name} is no file of constants of ANI: {error}") from None
    return Surroundings(elements, numbers)


def _network(folder: Path, element: str, given: int) -> AtomNetwork:
    layers = []
    for number in range(1, 1 + len(list(folder.glob(f"ANN-{element}.nnf-l*.wparam")))):
        weights, bias = (np.fromfile(folder / f"ANN-{element}.nnf-l{number}.{kind}param", "<f4") for kind in "wb")
        if not len(bias) or len(weights) != given * len(bias) or not np.isfinite(weights).all():
            raise InputError(f"layer {number} of {element} in {folder} has {len(weights)} weights of {given} inputs")
        layers.append((weights.reshape(len(bias), given).astype(np.float64), bias.astype(np.float64)))
        given = len(bias)
    if len(layers) < 2:
        raise InputError(f"{folder} holds no network of {element}")
    return AtomNetwork(tuple(layers))


def _cut(distance: Array, most: float) -> Array:
    """From 1 at 0 to 0 at the cut-off."""
    return np.asarray(0.5 * np.cos(np.pi * distance / most) + 0.5)
