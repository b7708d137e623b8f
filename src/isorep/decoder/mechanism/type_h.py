r"""Type Hₙ: derivatives across blocks where the decoder is smooth, and swaps of whole blocks for any decoder.

Higher derivatives as symmetric forms on a block: does the block split, and is it separable from the others?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np

from ...representation import Array
from .views import Frame, View, consecutive, frame, rebase

_PAIRS = 60  # of blocks that are swapped, drawn at random beyond
_DRAWN = 1e8  # multiplications of derivatives in one random basis


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of one order at each sample: ``ratios`` of cross-block to all, and ``sizes`` of all.

    ``separations`` and ``states`` hold the figures of every block at each tolerance: (tolerances, samples, K), and
    ``drawn`` the ratios in random bases at the first samples: (bases, samples).
    """

    ratios: Array
    drawn: Array
    sizes: Array
    separations: Array
    states: Array


def derivatives(
    view: View,
    rows: Array,
    frames: Sequence[Frame],
    blocks: Sequence[Array],
    order: int,
    tolerances: Sequence[float],
    rng: np.random.Generator,
    bases: Sequence[Array] = (),
) -> Derivatives:
    r"""Cross-block derivatives of an order, relative to all of that order, in the whitened coordinates of each block.

    .. math:: h=\frac{\|(D^n_{i,j}g)_{i\ne j}\|_F}{\|D^ng\|_F},\qquad 0/0=0.

    ``bases`` (d, d) are others, whose first columns are taken for the first block, and so on.
    """
    assert view.derivatives is not None
    labels = np.empty(view.d, dtype=int)
    for index, block in enumerate(blocks):
        labels[block] = index
    step = view.rows_at_once(order)
    ratios, sizes, apart, states = [], [], [], []
    drawn: list[list[float]] = []
    turned = consecutive([len(block) for block in blocks])
    few = max(1, int(_DRAWN // (view.width * view.d ** (order + 1))))
    for start in range(0, len(rows), step):
        lower = [view.derivatives(rows[start : start + step], each) for each in range(2, order + 1)]
        for here, *tensors in zip(frames[start : start + step], *lower, strict=True):
            pieces = [_whitened(each, here) for each in tensors]
            sizes.append(float(np.linalg.norm(tensors[-1])))
            ratios.append(_across(pieces[-1], here, labels))
            if len(drawn) < few and here.unwhiten is not None:
                drawn.append([_in_basis(tensors[-1], here, basis, turned) for basis in bases])
            judged = [_of_blocks(pieces, here, tolerance, rng) for tolerance in tolerances]
            apart.append([sines for sines, _ in judged])
            states.append([splitting for _, splitting in judged])
    return Derivatives(
        np.array(ratios),
        np.array(drawn, dtype=float).reshape(len(drawn), len(bases)).T,
        np.array(sizes),
        np.swapaxes(np.array(apart, dtype=float), 0, 1),
        np.swapaxes(np.array(states, dtype=object), 0, 1),
    )


@dataclass(frozen=True, eq=False)
class Swaps:
    """Per row: the largest ratio over pairs of blocks, its error, and the energy of all interactions.

    ``shares`` are relative to that energy plus the energy of the steps' separate effects. ``left_out`` counts pairs.
    """

    ratios: Array
    errors: Array
    shares: Array
    left_out: int


@dataclass(frozen=True, eq=False)
class Box:
    """The range of the latents, which are ``matrix`` times coordinates: decoders may refuse what lies outside."""

    matrix: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, rows: Array, matrix: Array) -> Box:
        """Around rows of coordinates."""
        latents = rows @ matrix.T
        return cls(matrix, latents.min(0), latents.max(0))

    def rebased(self, basis: Array) -> Box:
        """For coordinates y, those so far being basis y."""
        return Box(self.matrix @ basis, self.low, self.high)

    def reach(self, rows: Array, steps: Sequence[Array]) -> Array:
        """The share of the steps, up to 1, that keeps every sum of some of them inside, of each row."""
        start, ways = rows @ self.matrix.T, [step @ self.matrix.T for step in steps]
        most = np.ones(len(rows))
        for mask in range(1, 2 ** len(ways)):
            way = sum(each for index, each in enumerate(ways) if mask >> index & 1)
            room = np.where(way > 0, self.high - start, start - self.low)
            share = np.where(way == 0, np.inf, room / np.where(way == 0, 1.0, np.abs(way)))
            most = np.minimum(most, share.min(1).clip(0.0))
        return np.where(most > 1 - 1e-6, 1.0, most)


def swaps(
    view: View,
    rows: Array,
    blocks: Sequence[Array],
    order: int,
    rng: np.random.Generator,
    *,
    box: Box | None = None,
    most: int = _PAIRS,
) -> Swaps:
    r"""The interaction of two blocks over finite steps, relative to the steps' separate effects; and its rounding.

    For :math:`n=2` two rows s, t exchange blocks, :math:`g(s)-g(s^i)-g(s^j)+g(s^{ij})`; for :math:`n>2` the interaction
    of steps towards t in blocks i and j is taken again after a step of all latents towards a third row, and so on, each
    by :math:`1/(n-1)` of the way. At most ``most`` pairs of blocks are used. Steps are shortened where they would
    leave the box, which swaps of latents never do.
    """
    n = len(rows)
    pairs = list(combinations(blocks, 2))
    left_out = max(0, len(pairs) - most)
    if left_out:
        pairs = [pairs[index] for index in np.sort(rng.choice(len(pairs), most, replace=False))]
    if n < 2 or not pairs:
        return Swaps(np.zeros(n), np.zeros(n), np.full(n, np.nan if pairs else 0.0), left_out)
    shifts = rng.integers(1, n, size=max(2, order - 1))
    towards, *others = ((np.roll(rows, int(shift), axis=0) - rows) / (order - 1) for shift in shifts[: order - 1])
    ratios, errors, crossing, alone = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for pair in pairs:
        steps = [*(_only(towards, block) for block in pair), *others]
        if box is not None:
            reach = box.reach(rows, steps)
            steps = [reach[:, None] * each for each in steps]
        ratio, error, energy, own = _interaction(view, rows, steps)
        errors = np.where(ratio > ratios, error, errors)
        ratios = np.maximum(ratios, ratio)
        crossing, alone = crossing + energy, alone + own
    total = crossing + alone
    return Swaps(ratios, errors, np.where(total > 0, crossing / np.where(total > 0, total, 1.0), np.nan), left_out)


def bends(view: View, rows: Array, order: int = 2) -> float:
    """How far the decoder is from a polynomial of lower order along lines: differences, relative to the chords.

    Order 2 tests for an affine map, by three points of each line, and order 3 for a quadratic one, by four.
    """
    if len(rows) < 2:
        return 0.0
    other = np.roll(rows, 1, axis=0)
    points = np.stack([view.outputs(rows + step * (other - rows)) for step in np.linspace(0.0, 1.0, order + 1)])
    chords = np.linalg.norm(points[-1] - points[0], axis=1)
    gaps = np.linalg.norm(np.diff(points, n=order, axis=0)[0], axis=1) / 2 ** (order - 1)
    return float((gaps / np.where(chords > 0, chords, 1.0)).max())


def _interaction(view: View, rows: Array, steps: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """The ratio and its error; the energy of the interaction, and of every step's separate effect."""
    total, alone, energy, largest = np.zeros(()), *np.zeros((3, len(rows)))
    base = view.outputs(rows)
    for mask in range(2 ** len(steps)):
        taken = [step for index, step in enumerate(steps) if mask >> index & 1]
        outputs = base if not taken else view.outputs(rows + sum(taken))
        total = total + (-1) ** len(taken) * outputs
        largest = np.maximum(largest, np.linalg.norm(outputs, axis=1))
        if len(taken) == 1:
            moved = np.linalg.norm(outputs - base, axis=1)
            alone, energy = alone + moved, energy + moved**2
    size = np.linalg.norm(total, axis=1)
    scale = np.where(alone > 0, alone, np.where(size > 0, size, 1.0))  # steps may do nothing but together
    rounding = 2 ** len(steps) * 10 * view.rounding * largest / scale
    return size / scale, rounding, size**2, energy


def _only(steps: Array, block: Array) -> Array:
    kept = np.zeros_like(steps)
    kept[:, block] = steps[:, block]
    return kept


def _across(whitened: Array, here: Frame, labels: Array) -> float:
    """The share of derivatives (outputs, d, ...) that belong to two blocks; ``labels`` are those of the latents."""
    if here.unwhiten is not None:
        labels = np.concatenate([np.full(place.stop - place.start, k) for k, place in enumerate(here.places)])
    grids = np.stack(np.meshgrid(*[labels] * (whitened.ndim - 1), indexing="ij"))
    crossing = (grids != grids[0]).any(0)
    total = float(np.linalg.norm(whitened))
    return float(np.linalg.norm(whitened[:, crossing])) / total if total > 0 else 0.0


def _in_basis(tensor: Array, here: Frame, basis: Array, turned: Sequence[Array]) -> float:
    """The same share where the latents have another basis."""
    assert here.unwhiten is not None
    jacobian = here.values @ np.linalg.solve(here.unwhiten, basis)
    other = frame(jacobian, turned, here.noise)
    if other.unwhiten is None:
        return float("nan")
    return _across(rebase(tensor, basis @ other.unwhiten, 1), other, np.empty(0))


def _whitened(tensor: Array, here: Frame) -> Array:
    return tensor if here.unwhiten is None else rebase(tensor, here.unwhiten, 1)


def _of_blocks(
    lower: Sequence[Array], here: Frame, tolerance: float, rng: np.random.Generator
) -> tuple[list[float], list[str]]:
    """Separation and irreducibility of every block by its highest derivatives."""
    if here.unwhiten is None:
        return [np.nan] * len(here.places), ["undecided"] * len(here.places)
    tensor = lower[-1]
    scale = float(np.linalg.norm(tensor))
    apart, states = [], []
    own = [_distinct(tensor, np.arange(place.start, place.stop)) for place in here.places]
    below = [here.values, *(_distinct(each, np.arange(each.shape[1])) for each in lower[:-1])]
    for number, place in enumerate(here.places):
        inside = tensor[:, *[place] * (tensor.ndim - 1)]
        k = place.stop - place.start
        forms = np.moveaxis(inside.reshape(len(tensor), k, k, -1), -1, 1).reshape(-1, k, k)
        states.append(splits(forms, tolerance, scale, rng))
        others = [each for other, each in enumerate(own) if other != number]
        sine = separation(own[number], [*others, *below], tolerance)
        apart.append(np.nan if sine is None else sine)
    return apart, states


def _distinct(tensor: Array, places: Array) -> Array:
    """The distinct derivatives within some coordinates, as columns, in units of the largest of all."""
    chosen = list(combinations_with_replacement(places, tensor.ndim - 1))
    columns = np.stack([tensor[:, *each] for each in chosen], axis=1)
    largest = float(np.linalg.norm(tensor, axis=0).max(initial=0.0))
    return columns / largest if largest > 0 else columns


IRREDUCIBLE, REDUCIBLE, DEGENERATE = "irreducible", "reducible", "degenerate"
_APART = 1e-3  # eigenvalues of a unit matrix that differ by more are two


def splits(forms: Array, tolerance: float, scale: float, rng: np.random.Generator) -> str:
    r"""Whether a block's forms (m, k, k) are a direct sum in some basis: :math:`u^\top F_nv=0` for all n.

    A splitting is an idempotent among the matrices X that are self-adjoint for every form,
    :math:`F_nX=X^\top F_n`. These are closed under polynomials, so a generic one of them has two separate groups of
    eigenvalues exactly where a splitting exists. A direction in the kernel of all forms makes the block ``degenerate``:
    it splits off any complement.

    Parameters
    ----------
    forms : array (m, k, k)
        Symmetric.
    tolerance : float
        Singular values below this share of the largest are zero.
    scale : float
        The size of all derivatives together; forms below ``tolerance`` of it are zero.
    rng : numpy.random.Generator
        Draws the generic matrix.
    """
    k = forms.shape[1]
    flat = forms.reshape(-1, k)
    sizes = np.linalg.svd(flat, compute_uv=False) if len(flat) else np.zeros(k)
    if sizes[0] <= tolerance * scale or sizes[0] == 0 or len(sizes) < k or sizes[-1] <= tolerance * sizes[0]:
        return DEGENERATE
    if k == 1:
        return IRREDUCIBLE
    _, values, right = np.linalg.svd(forms.reshape(len(forms), -1), full_matrices=False)
    few = (values[:, None] * right)[values > 0].reshape(-1, k, k)
    products = few[:, None] @ np.eye(k * k).reshape(-1, k, k)  # F_n X for every matrix X with a single 1
    skew = (products - products.swapaxes(2, 3))[:, :, *np.triu_indices(k, 1)]
    system = skew.swapaxes(1, 2).reshape(-1, k * k)
    _, strengths, right = np.linalg.svd(system, full_matrices=True)
    strengths = np.concatenate([strengths, np.zeros(k * k - len(strengths))])
    kernel = right[strengths <= tolerance * max(strengths[0], 1e-300)]
    if len(kernel) <= 1:
        return IRREDUCIBLE
    generic = (rng.normal(size=len(kernel)) @ kernel).reshape(k, k)
    roots = np.linalg.eigvals(generic / np.linalg.norm(generic))
    apart = max(np.ptp(roots.real), np.ptp(np.abs(roots.imag)))
    return REDUCIBLE if apart > _APART else IRREDUCIBLE


def separation(own: Array, others: Sequence[Array], tolerance: float) -> float | None:
    r"""The sine of the least angle between the span of a block's derivatives and all that must not imitate them.

    0 means that the spans meet, so :math:`\operatorname{rank}[V\,W]<\operatorname{rank}V+\operatorname{rank}W`; None
    where the block has no derivatives of this order at all. Columns come in units of the largest of their order.
    """
    left = _orthonormal(own, tolerance)
    right = _orthonormal(np.concatenate(others, axis=1), tolerance)
    if left.shape[1] == 0:
        return None
    if left.shape[1] + right.shape[1] > len(own):
        return 0.0
    cosine = np.linalg.svd(left.T @ right, compute_uv=False).max(initial=0.0)
    return float(np.sqrt(max(0.0, 1.0 - min(cosine, 1.0) ** 2)))


def _orthonormal(columns: Array, tolerance: float) -> Array:
    norms = np.linalg.norm(columns, axis=0)
    kept = norms > tolerance
    if not kept.any():
        return np.zeros((len(columns), 0))
    left, values, _ = np.linalg.svd(columns[:, kept] / norms[kept], full_matrices=False)
    return np.asarray(left[:, values > tolerance * values[0]])
