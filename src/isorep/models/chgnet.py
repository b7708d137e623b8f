r"""CHGNet (Deng et al. 2023): energies of crystals atom by atom, from its released weights.

A graph network: atoms, bonds of up to 5 or 6 Å, and angles between bonds of up to 3 Å have states of 64 numbers each,
which are updated in turn. Distances enter by Bessel functions, angles by a Fourier series. Files are read by
``weights_only``; the shapes of the weights and the settings beside them give the whole network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .evaluation import first_line, torch

_SETTINGS = ("atom_graph_cutoff", "bond_graph_cutoff", "cutoff_coeff")
_FREQUENCIES = "frequencies"
_ANGLE = 1 - 1e-6  # keeps cosines inside of the domain of the arc cosine
_NEAR = 1e-8  # Ångström: an atom is no neighbour of itself


@dataclass(frozen=True)
class Crystal:
    """Atoms of a crystal; ``cell`` has the lattice vectors as rows, and is None for a molecule. Lengths in Ångström."""

    numbers: Array
    positions: Array
    cell: Array | None = None


@dataclass(frozen=True)
class Graph:
    """Bonds in both directions, and angles, of several crystals together.

    ``ends`` (bonds, 2) are an atom and its neighbour, ``twin`` is the number of the bond without a direction, and
    ``lengths`` belong to these. ``angles`` (n, 3) are an atom and two of its bonds without direction.
    """

    numbers: Array
    owners: Array
    ends: Array
    twin: Array
    lengths: Array
    angles: Array
    cosines: Array


@dataclass(frozen=True)
class CHGNet:
    """A release: its tensors by name, cut-offs of bonds and of bonds that make angles, and the power of the cut-off."""

    weights: Mapping[str, Any]
    reach: float
    near: float
    power: float

    def graph(self, crystals: Sequence[Crystal]) -> Graph:
        """Bonds and angles of crystals within the cut-offs."""
        return make_graph(crystals, self.reach, self.near)

    def represent(self, graph: Graph) -> Array:
        """States of the atoms that the energy is read from, one row each."""
        with torch.no_grad():
            found: Array = self._states(graph).double().numpy()
        return found

    def energies(self, graph: Graph) -> Array:
        """Electronvolts per atom of each crystal, with the reference energies of the elements."""
        with torch.no_grad():
            atoms = self._dense("mlp", self._states(graph))[:, 0]
            alone = self.weights["composition_model.fc.weight"][0, torch.from_numpy(graph.numbers) - 1]
            summed = np.bincount(graph.owners, (atoms + alone).double().numpy())
        return np.asarray(summed / np.bincount(graph.owners))

    def untrained(self, seed: int) -> CHGNet:
        """The same network with random weights: uniform by the number of inputs; frequencies stay as they start."""
        drawn = torch.Generator().manual_seed(seed)
        made = {}
        for name, value in self.weights.items():
            if name.endswith(_FREQUENCIES):
                step = 1.0 if "fourier" in name else math.pi
                made[name] = step * torch.arange(1, len(value) + 1, dtype=value.dtype)
            elif "embedding.embedding" in name:
                made[name] = torch.randn(value.shape, generator=drawn)
            elif value.ndim == 2:
                bound = 1 / math.sqrt(value.shape[1])
                made[name] = (2 * torch.rand(value.shape, generator=drawn) - 1) * bound
            else:  # biases start at 0, and factors of layer norms at 1
                norm = name.endswith("weight")
                made[name] = torch.ones_like(value) if norm else torch.zeros_like(value)
        return replace(self, weights=made)

    @cached_property
    def _layers(self) -> int:
        return 1 + max(int(name.split(".")[1]) for name in self.weights if name.startswith("atom_conv_layers."))

    def _states(self, graph: Graph) -> Any:
        held = self.weights
        centre, other, twin = (torch.from_numpy(each) for each in (*graph.ends.T.copy(), graph.twin))
        apex, left, right = torch.from_numpy(graph.angles.T.copy())
        lengths = torch.from_numpy(graph.lengths).float()[:, None]
        atoms = held["atom_embedding.embedding.weight"][torch.from_numpy(graph.numbers) - 1]
        bessel = [self._bessel(lengths, cut, end) for cut, end in ((self.reach, "ag"), (self.near, "bg"))]
        bonds = bessel[0] @ held["bond_embedding.weight"].T
        weights = [each @ held[f"bond_weights_{end}.weight"].T for each, end in zip(bessel, ("ag", "bg"), strict=True)]
        angles = self._fourier(torch.from_numpy(graph.cosines).float()) @ held["angle_embedding.weight"].T
        for layer in range(self._layers):
            before = f"atom_conv_layers.{layer}"
            seen = self._gated(f"{before}.twoBody_atom", atoms[centre], bonds[twin], atoms[other])
            atoms = atoms + self._dense(f"{before}.mlp_out", _summed(seen * weights[0][twin], centre, len(atoms)))
            if layer == self._layers - 1:
                break
            before = f"bond_conv_layers.{layer}"
            seen = self._gated(f"{before}.twoBody_bond", bonds[left], bonds[right], angles, atoms[apex])
            seen = seen * weights[1][left] * weights[1][right]
            bonds = bonds + self._dense(f"{before}.mlp_out", _summed(seen, left, len(bonds)))
            before = f"angle_layers.{layer}.twoBody_bond"
            angles = angles + self._gated(before, bonds[left], bonds[right], angles, atoms[apex])
        return self._normed("readout_norm", atoms)

    def _bessel(self, lengths: Any, cut: float, end: str) -> Any:
        """Spherical Bessel functions of order 0, times a polynomial that is 1 at 0 and 0 at the cut-off."""
        share, p = lengths / cut, self.power
        smooth = (
            1 - (p + 1) * (p + 2) / 2 * share**p + p * (p + 2) * share ** (p + 1) - p * (p + 1) / 2 * share ** (p + 2)
        )
        waves = torch.sin(self.weights[f"bond_basis_expansion.rbf_expansion_{end}.{_FREQUENCIES}"] * share) / lengths
        return math.sqrt(2 / cut) * waves * torch.where(share < 1, smooth, torch.zeros_like(share))

    def _fourier(self, cosines: Any) -> Any:
        turns = torch.outer(
            torch.acos(_ANGLE * cosines), self.weights[f"angle_basis_expansion.fourier_expansion.{_FREQUENCIES}"]
        )
        constant = torch.full((len(turns), 1), math.sqrt(0.5))
        return torch.cat([constant, turns.sin(), turns.cos()], 1) / math.sqrt(math.pi)

    def _gated(self, name: str, *parts: Any) -> Any:
        """silu(core) times sigmoid(gate), two networks of the same input."""
        given = torch.cat(parts, 1)
        core = self._normed(f"{name}.bn1", self._dense(f"{name}.mlp_core", given))
        gate = self._normed(f"{name}.bn2", self._dense(f"{name}.mlp_gate", given))
        return torch.nn.functional.silu(core) * torch.sigmoid(gate)

    def _dense(self, name: str, state: Any) -> Any:
        """Linear layers in their order, with silu between them."""
        start = f"{name}.layers."
        places = sorted(
            int(each[len(start) :].split(".")[0])
            for each in self.weights
            if each.startswith(start) and each.endswith(".weight")
        )
        for place in places:
            weights, bias = self.weights[f"{start}{place}.weight"], self.weights.get(f"{start}{place}.bias")
            state = torch.nn.functional.linear(state, weights, bias)
            state = torch.nn.functional.silu(state) if place != places[-1] else state
        return state

    def _normed(self, name: str, state: Any) -> Any:
        """Layer norm, where a release has one."""
        if f"{name}.weight" not in self.weights:
            return state
        weights, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return torch.nn.functional.layer_norm(state, weights.shape, weights, bias)


def load_chgnet(path: Path) -> CHGNet:
    """A release from its file, tensors and settings alone; anything else in it is refused."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)["model"]
        reach, near, power = (float(held["model_args"][name]) for name in _SETTINGS)
        network = CHGNet({name: value.float() for name, value in held["state_dict"].items()}, reach, near, power)
        network.energies(network.graph([Crystal(np.array([8, 8]), np.array([[0.0, 0, 0], [0, 0, 1.2]]))]))
    except Exception as error:  # whatever a file makes the library raise
        raise InputError(f"{path} holds no CHGNet that weights_only can read: {first_line(error)}") from None
    return network


def make_graph(crystals: Sequence[Crystal], reach: float, near: float) -> Graph:
    """Bonds up to ``reach``, and angles between bonds up to ``near``."""
    joined: dict[str, list[Array]] = {name: [] for name in Graph.__dataclass_fields__}
    atoms = bonds = 0
    for number, crystal in enumerate(crystals):
        centre, other, shift, away = neighbours(crystal, reach)
        lengths = np.linalg.norm(away, axis=1)
        twin, first = _undirected(centre, other, shift)
        short = np.flatnonzero(lengths < near)
        short = short[np.argsort(centre[short], kind="stable")]
        left, right = _within(centre[short])
        left, right = short[left], short[right]
        joined["numbers"].append(np.asarray(crystal.numbers, np.int64))
        joined["owners"].append(np.full(len(crystal.numbers), number))
        joined["ends"].append(np.stack([centre, other], 1) + atoms)
        joined["twin"].append(twin + bonds)
        joined["lengths"].append(lengths[first])
        joined["angles"].append(np.stack([centre[left] + atoms, twin[left] + bonds, twin[right] + bonds], 1))
        joined["cosines"].append((away[left] * away[right]).sum(1) / (lengths[left] * lengths[right]))
        atoms, bonds = atoms + len(crystal.numbers), bonds + len(first)
    return Graph(**{name: np.concatenate(parts) for name, parts in joined.items()})


def neighbours(crystal: Crystal, reach: float) -> tuple[Array, Array, Array, Array]:
    """Atom, neighbour, the neighbour's cell as whole numbers, and the vector between both, within reach."""
    places = np.asarray(crystal.positions, np.float64)
    cells = np.zeros((1, 3), int)
    if crystal.cell is not None:
        # Planes of the lattice are 1 / |column of the inverse| apart; atoms may lie outside of the cell.
        inverse = np.linalg.inv(crystal.cell)
        spread = np.ptp(places @ inverse, axis=0)
        counts = np.ceil(reach * np.linalg.norm(inverse, axis=0) + spread).astype(int)
        ranges = [np.arange(-count, count + 1) for count in counts]
        cells = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, 3)
    lattice = np.zeros((3, 3)) if crystal.cell is None else crystal.cell
    away = places[None, :, None] + (cells @ lattice)[None, None] - places[:, None, None]
    distance = np.sqrt((away**2).sum(-1))
    centre, other, place = np.nonzero((distance < reach) & (distance > _NEAR))
    return centre, other, cells[place], away[centre, other, place]


def _undirected(centre: Array, other: Array, shift: Array) -> tuple[Array, Array]:
    """The number of each bond without its direction, and where each of these is first found."""
    sign = np.where(centre < other, 1, -1)
    for column in range(3):  # a bond of an atom with itself: the direction whose first number is positive
        unsettled = (centre == other) & (np.abs(shift[:, :column]).sum(1) == 0)
        sign = np.where(unsettled, np.sign(shift[:, column]), sign)
    rows = np.column_stack([np.minimum(centre, other), np.maximum(centre, other), shift * sign[:, None]])
    _, first, twin = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return twin.reshape(-1), first


def _within(labels: Array) -> tuple[Array, Array]:
    """All ordered pairs of places with one label, without a place and itself; labels are sorted."""
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    sizes = np.diff(np.append(starts, len(labels)))
    left = np.repeat(np.arange(len(labels)), np.repeat(sizes, sizes))
    ends = np.cumsum(np.repeat(sizes, sizes))
    inside = np.arange(len(left)) - np.repeat(ends - np.repeat(sizes, sizes), np.repeat(sizes, sizes))
    right = np.repeat(np.repeat(starts, sizes), np.repeat(sizes, sizes)) + inside
    differ = left != right
    return left[differ], right[differ]


def _summed(rows: Any, owners: Any, count: int) -> Any:
    return torch.zeros(count, rows.shape[1]).index_add_(0, owners, rows)
