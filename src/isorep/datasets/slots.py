"""Slot generators with a prescribed overlap of the slots' outputs, and their true independence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..representation import Array
from ..settings import check_choice

INTERACTIONS = ("additive", "product", "occlusion")
SHAPES = ("line", "ring")
ACTIVATIONS = ("leaky_relu", "smooth")
SLOPE = 0.01
"""Of the generator's LeakyReLU below zero."""
_DRAWS = 400  # weight matrices of which one in the best-conditioned quarter is taken
_EVERY_SET = 12  # slots up to which every set of them is looked at for the generic gap


@dataclass(frozen=True)
class SlotTruth:
    r"""Criteria that hold for a generator, for almost all weights and latents.

    Attributes
    ----------
    type_d, type_m, type_s : bool or None
        Whether the type holds at almost every latent; None where it differs between latents.
    h2_derivatives, h2_swaps, h3_derivatives, h3_swaps : bool
        The same by derivatives, which exist almost everywhere, and over finite swaps of slots.
    margin : int or None
        The least :math:`|\Omega_a\setminus\Omega_b|` in the sparsest bases, of Type M.
    gap : int or None
        The sparsity gap :math:`\rho^--\rho^+`, of Type S; None where it is negative, or differs among latents.
    """

    type_d: bool
    type_m: bool | None
    type_s: bool | None
    h2_derivatives: bool
    h2_swaps: bool
    h3_derivatives: bool
    h3_swaps: bool
    margin: int | None
    gap: int | None


@dataclass(frozen=True, eq=False)
class SlotGenerator:
    r"""Outputs of several slots, each written by a network of its own into its window of the outputs.

    :math:`m_k(s_k)=W_k\,\phi(V_ks_k)` with :math:`V_k` of full column rank, :math:`W_k` invertible and
    :math:`\phi` strictly increasing, so every slot network is injective. Where windows overlap, contributions add
    (``additive``), also multiply, :math:`\sum_ia_i+\beta\sum_{i<j}a_ia_j` (``product``), or the largest is seen
    (``occlusion``).

    Call it with latents (n, d) for outputs (n, outputs); ``jacobian`` gives (n, outputs, d).

    Attributes
    ----------
    dimensions : tuple of int
        Dimensions of every slot; ``blocks`` are the indices of its latents.
    windows : array (slots, window)
        The outputs of every slot.
    overlap : int
        Outputs that neighbours share; ``overlap / window`` is the usual axis.
    truth : SlotTruth
    """

    first: tuple[Array, ...]
    second: tuple[Array, ...]
    windows: Array
    outputs: int
    dimensions: tuple[int, ...]
    overlap: int
    interaction: str
    activation: str
    strength: float
    truth: SlotTruth

    @property
    def d(self) -> int:
        """The number of latents."""
        return sum(self.dimensions)

    @property
    def blocks(self) -> list[list[int]]:
        """The latents of every slot."""
        edges = np.cumsum([0, *self.dimensions])
        return [list(range(start, stop)) for start, stop in pairwise(edges)]

    @property
    def window(self) -> int:
        """Outputs of a slot."""
        return int(self.windows.shape[1])

    def __call__(self, latents: Any) -> Array:
        """Outputs (n, outputs) of latents (n, d)."""
        placed = self._placed(latents)[0]
        if self.interaction == "occlusion":
            seen = np.where(self._covered[:, None], placed, -np.inf).max(0)
            return np.asarray(seen)
        total = placed.sum(0)
        if self.interaction == "product":
            total = total + self.strength * 0.5 * (total**2 - (placed**2).sum(0))
        return np.asarray(total)

    def jacobian(self, latents: Any) -> Array:
        """Jacobians (n, outputs, d) in closed form."""
        placed, slopes = self._placed(latents)
        if self.interaction == "occlusion":
            owner = np.where(self._covered[:, None], placed, -np.inf).argmax(0)
            factors = np.stack([owner == k for k in range(len(placed))]).astype(float)
        elif self.interaction == "product":
            factors = 1.0 + self.strength * (placed.sum(0)[None] - placed)
        else:
            factors = np.ones_like(placed)
        jacobians = np.zeros((placed.shape[1], self.outputs, self.d))
        for k, block in enumerate(self.blocks):
            window = self.windows[k]
            inner = (self.second[k] * slopes[k][:, None]) @ self.first[k]
            jacobians[:, window[:, None], np.array(block)[None]] = factors[k][:, window, None] * inner
        return jacobians

    def sample(self, n: int, *, dependent: bool = False, random_state: int = 0) -> Array:
        """Latents (n, d): standard normal, or with ``dependent`` normal with a covariance drawn from a Wishart."""
        if n < 1:
            raise InputError(f"{n} rows were asked for and at least one is needed")
        rng = np.random.default_rng([random_state, 1])
        latents = rng.normal(size=(n, self.d))
        if not dependent:
            return latents
        factor = np.random.default_rng([random_state, 2]).normal(size=(self.d, self.d))
        return np.asarray(latents @ factor.T)  # covariance factor factor', Wishart with d degrees of freedom

    def module(self, dtype: Any = None) -> Any:
        """The same generator as a torch module, in float32 unless told."""
        return _slot_module(self, dtype)

    @property
    def _covered(self) -> Array:
        covered = np.zeros((len(self.windows), self.outputs), dtype=bool)
        for k, window in enumerate(self.windows):
            covered[k, window] = True
        return covered

    def _placed(self, latents: Any) -> tuple[Array, list[Array]]:
        """Every slot's contribution to all outputs (K, n, outputs), and the slopes of its hidden units."""
        values = np.asarray(latents, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.d:
            raise InputError(f"latents have shape {values.shape} and this generator takes (n, {self.d})")
        placed = np.zeros((len(self.windows), len(values), self.outputs))
        slopes = []
        for k, block in enumerate(self.blocks):
            hidden, slope = _activated(values[:, block] @ self.first[k].T, self.activation)
            placed[k][:, self.windows[k]] = hidden @ self.second[k].T
            slopes.append(slope)
        return placed, slopes


def slot_generator(
    slots: int = 3,
    dimensions: int | Sequence[int] = 3,
    window: int = 20,
    overlap: int = 0,
    *,
    interaction: str = "additive",
    shape: str = "line",
    activation: str = "leaky_relu",
    strength: float = 1.0,
    same_network: bool = False,
    random_state: int = 0,
) -> SlotGenerator:
    """Make a generator whose slots share a prescribed number of outputs, with the verdict of every criterion.

    Parameters
    ----------
    slots : int
        Number of slots.
    dimensions : int or sequence of int
        Latents per slot.
    window : int
        Outputs of a slot.
    overlap : int
        Outputs that a slot shares with the next: 0 is Type D. On a ring the last slot meets the first, so that two
        slots share twice as many.
    interaction : {"additive", "product", "occlusion"}
        Rule for shared outputs.
    shape : {"line", "ring"}
        Whether the last window meets the first.
    activation : {"leaky_relu", "smooth"}
        Smooth is 0.01 x + 0.99 log(1 + e^x), which has second derivatives.
    strength : float
        Strength of the product.
    same_network : bool
        Whether all slots (of one dimension) have the same weights.
    random_state : int
        Seed of the weights.

    Examples
    --------
    >>> from isorep.datasets import slot_generator
    >>> generator = slot_generator(slots=3, overlap=4)
    >>> generator(generator.sample(5)).shape, generator.truth.type_d, generator.truth.type_s, generator.truth.gap
    ((5, 52), False, True, 13)
    """
    sizes = _sizes(slots, dimensions)
    check_choice("interaction", interaction, INTERACTIONS)
    check_choice("shape", shape, SHAPES)
    check_choice("activation", activation, ACTIVATIONS)
    if not 0 <= overlap < window or window < max(sizes):
        raise InputError(f"windows of {window} outputs cannot overlap in {overlap} and hold slots of {max(sizes)}")
    if shape == "ring" and slots > 1 and slots * (window - overlap) < window:
        raise InputError(f"a ring of {slots} windows of {window} with overlap {overlap} is shorter than one window")
    if same_network and len(set(sizes)) > 1:
        raise InputError("slots of different dimensions cannot have the same network")
    stride = window - overlap
    windows = np.arange(slots)[:, None] * stride + np.arange(window)
    outputs = slots * stride + overlap
    if shape == "ring" and slots > 1:
        outputs = slots * stride
        windows = windows % outputs
    first, second = [], []
    for k in range(slots):
        rng = np.random.default_rng([random_state, 0 if same_network else k])
        first.append(_well_conditioned(rng, window, sizes[k]))
        second.append(_well_conditioned(rng, window, window))
    truth = _truth(windows, sizes, interaction, activation, strength)
    return SlotGenerator(
        tuple(first), tuple(second), windows, outputs, sizes, overlap, interaction, activation, float(strength), truth
    )


def _sizes(slots: int, dimensions: int | Sequence[int]) -> tuple[int, ...]:
    if slots < 1:
        raise InputError(f"{slots} slots were asked for and at least one is needed")
    sizes = (int(dimensions),) * slots if isinstance(dimensions, int | np.integer) else tuple(map(int, dimensions))
    if len(sizes) != slots or min(sizes) < 1:
        raise InputError(f"dimensions {dimensions!r} do not fit {slots} slots")
    return sizes


def _activated(values: Array, activation: str) -> tuple[Array, Array]:
    if activation == "leaky_relu":
        slope = np.where(values > 0, 1.0, SLOPE)
        return values * slope, slope
    rise = 1.0 / (1.0 + np.exp(-values))
    return SLOPE * values + (1 - SLOPE) * np.logaddexp(0.0, values), SLOPE + (1 - SLOPE) * rise


def _well_conditioned(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """Uniform weights with columns of unit length, the first among the better-conditioned quarter of the draws."""
    drawn = rng.uniform(-10, 10, size=(_DRAWS, rows, columns))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    values = np.linalg.svd(drawn, compute_uv=False)
    conditions = values[:, 0] / values[:, -1]
    return np.asarray(drawn[int(np.argmax(conditions <= np.quantile(conditions, 0.25)))])


def _truth(windows: Array, sizes: tuple[int, ...], interaction: str, activation: str, strength: float) -> SlotTruth:
    r"""Verdicts for generic weights.

    Rows of a slot's window are generic, so its sparsest vectors vanish on :math:`d_k-1` of them. A vector that mixes
    slots :math:`T` can vanish on :math:`\sum_Td_k-1` outputs of their union, which gives the generic gap

    .. math:: \min_T\Bigl[\bigl|\textstyle\bigcup_T\Omega_k\bigr|-\sum_Td_k+1-\max_T(m-d_k+1)\Bigr]

    over sets of slots that hang together; two slots that share nothing give the lighter one's weight.
    """
    count, m = windows.shape
    members = [frozenset(map(int, row)) for row in windows]
    common = {(i, j): len(members[i] & members[j]) for i, j in combinations(range(count), 2)}
    apart = all(shared == 0 for shared in common.values())
    smooth = activation == "smooth"
    h2 = apart or interaction != "product" or strength == 0
    h3 = h2 or not smooth
    swaps = apart or interaction == "additive" or (interaction == "product" and strength == 0)
    if interaction == "occlusion" and not apart:
        own = [len(members[k].difference(*(members[j] for j in range(count) if j != k))) for k in range(count)]
        enough = all(each >= size for each, size in zip(own, sizes, strict=True)) or None
        return SlotTruth(True, enough, enough, True, swaps, True, swaps, None, None)
    margin = min((m - shared - max(sizes[i], sizes[j]) + 1 for (i, j), shared in common.items()), default=m)
    gap = _generic_gap(members, sizes, m, common)
    margin = max(margin, 0)
    holds = gap is None or gap > 0
    known = None if gap is None or gap < 0 else gap
    return SlotTruth(apart, margin >= 1, holds, h2, swaps, h3, swaps, None if count == 1 else margin, known)


def _generic_gap(
    members: list[frozenset[int]], sizes: tuple[int, ...], m: int, common: dict[tuple[int, int], int]
) -> int | None:
    count = len(members)
    if count == 1:
        return None
    if count <= _EVERY_SET:
        sets = [each for size in range(2, count + 1) for each in combinations(range(count), size)]
    else:  # neighbours, and all together: sets between have windows more to pay for
        sets = [(k, (k + 1) % count) for k in range(count)] + [tuple(range(count))]
    gaps = []
    for chosen in sets:
        heaviest = max(m - sizes[k] + 1 for k in chosen)
        if _hangs_together(chosen, common):
            union = len(frozenset().union(*(members[k] for k in chosen)))
            gaps.append(union - sum(sizes[k] for k in chosen) + 1 - heaviest)
        elif len(chosen) == 2:
            gaps.append(sum(m - sizes[k] + 1 for k in chosen) - heaviest)
    return min(gaps)


def _hangs_together(chosen: Sequence[int], common: dict[tuple[int, int], int]) -> bool:
    reached, left = {chosen[0]}, set(chosen[1:])
    while left:
        near = {k for k in left if any(common[min(k, j), max(k, j)] for j in reached)}
        if not near:
            return False
        reached, left = reached | near, left - near
    return True


def _slot_module(generator: SlotGenerator, dtype: Any) -> Any:
    """A slot generator as a torch module with its weights as buffers, for what needs derivatives."""
    import_extra("torch", "torch", "a slot generator as a module")
    import torch
    from torch import nn

    class Slots(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.blocks = generator.blocks
            self.interaction, self.activation = generator.interaction, generator.activation
            self.strength, self.outputs = generator.strength, generator.outputs
            for k, (first, second) in enumerate(zip(generator.first, generator.second, strict=True)):
                self.register_buffer(f"first{k}", torch.tensor(first, dtype=dtype))
                self.register_buffer(f"second{k}", torch.tensor(second, dtype=dtype))
                place = torch.zeros(generator.window, generator.outputs, dtype=dtype)
                place[torch.arange(generator.window), torch.tensor(generator.windows[k])] = 1
                self.register_buffer(f"place{k}", place)

        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            """Outputs (n, outputs) of latents (n, d)."""
            placed = []
            for k, block in enumerate(self.blocks):
                hidden = latents[:, block[0] : block[-1] + 1] @ self.get_buffer(f"first{k}").T
                if self.activation == "leaky_relu":
                    hidden = nn.functional.leaky_relu(hidden, SLOPE)
                else:
                    hidden = SLOPE * hidden + (1 - SLOPE) * nn.functional.softplus(hidden, threshold=50)
                contribution = hidden @ self.get_buffer(f"second{k}").T @ self.get_buffer(f"place{k}")
                if self.interaction == "occlusion":
                    covered = self.get_buffer(f"place{k}").sum(0) > 0
                    contribution = torch.where(covered, contribution, torch.full_like(contribution, -torch.inf))
                placed.append(contribution)
            stacked = torch.stack(placed)
            if self.interaction == "occlusion":
                return stacked.amax(0)
            total = stacked.sum(0)
            if self.interaction == "product":
                total = total + 0.5 * self.strength * (total**2 - (stacked**2).sum(0))
            return total

    return Slots(dtype or torch.float32)
