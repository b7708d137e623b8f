"""Criteria of mechanistic independence over all samples and tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ...representation import Array
from .factors import FOUND, row_components
from .near import Leakage, leakage_of
from .result import FAILS, HOLDS, UNDECIDED, Criterion, Evidence, Irreducibility, Level, symbol
from .type_h import Box, bends, derivatives, swaps
from .type_m import containment, irreducible_by_containment, shared
from .type_s import BOUND, EXACT, Gap, Pool, exact_gap, gap_bound, pool, sparsity_components, subset_count
from .views import Frame, View, consecutive

MEASURES = {
    "D": "largest share of an output due to a second block, 0 is disjoint",
    "M": "fewest outputs in one support and not in another's, at least 1",
    "S": "extra nonzeros of a misaligned basis, at least 1",
    "H2": "cross-block share, 0 is additive",
    "H3": "cross-block share, 0 is at most bilinear",
    "IMA": "largest cosine between two blocks, 0 is orthogonal",
    "conformal": "spread of singular values at a sample, 0 is conformal",
    "isometric": "largest stretch away from that of all samples, 0 is an isometry up to scale",
}
_RANDOM_ROWS, _RANDOM_PAIRS = 30, 10  # swapped in each random basis
_FLAT = 1e-9  # a Hessian below this share of the Jacobian over the latents' spread is zero
_PIECEWISE = 1e-6  # a chord that bends by more than this share of its length is not straight
_BUDGET = 10  # exact gaps: times the limit of one sample, in all


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples, their frames, and the limits of the work."""

    jacobians: Array
    frames: tuple[Frame, ...]
    blocks: tuple[Array, ...]
    tolerances: tuple[float, ...]
    noise: float
    subsets: int
    cells: int
    seed: int

    @property
    def limit(self) -> int:
        """The number of subsets of rows to examine in one matrix."""
        return max(1, min(self.subsets, self.cells // int(self.jacobians.shape[1])))

    def rng(self, stream: int) -> np.random.Generator:
        """Its own stream for every purpose."""
        return np.random.default_rng([self.seed, stream])


def disjointness(samples: Samples) -> Criterion:
    """Type D: no output depends on two blocks."""
    scores = np.array([shared(each) for each in samples.frames])
    levels = _share_levels(samples, scores, [each.noise for each in samples.frames], "row norms")
    parts = []
    for number, block in enumerate(samples.blocks):
        states = []
        for tolerance in samples.tolerances:
            splits = [row_components(each[:, block], tolerance, samples.noise) for each in samples.jacobians]
            states.append([None if each.state != FOUND else len(each.subspaces) == 1 for each in splits])
        parts.append(_irreducibility(number, states))
    return Criterion("D", MEASURES["D"], (Evidence("row norms", levels),), tuple(parts))


def supports_and_sparsity(samples: Samples) -> tuple[Criterion, Criterion]:
    """Types M and S, which share the sparsest bases of blocks."""
    rng, limit, count = samples.rng(1), samples.limit, len(samples.blocks)
    floor = min(samples.tolerances)
    left = _BUDGET * samples.subsets
    at_samples: list[list[Supports]] = [[] for _ in samples.tolerances]
    sampled = False
    for here in samples.frames:
        pools: list[Pool] = []
        whole: Pool | None = None
        if here.full_rank:
            for number in range(count):
                candidates = pool(here.block(number), limit, rng, floor)
                assert candidates is not None
                pools.append(candidates)
                sampled |= not candidates.complete
            needed = subset_count(here.values, floor)
            if needed <= min(limit, left):
                left -= needed
                whole = pool(here.values, limit, None, floor)
        for supports, tolerance in zip(at_samples, samples.tolerances, strict=True):
            supports.append(_supports(here, pools, whole, tolerance, limit, count))
    note = "candidates were drawn at random and a sparser basis may exist: undecided" if sampled else ""
    by = "sparsest bases (sampled)" if sampled else "sparsest bases"
    levels_m, levels_s = [], []
    for tolerance, supports in zip(samples.tolerances, at_samples, strict=True):
        margins = [each.margin for each in supports]
        holds = [None if sampled or np.isnan(value) else bool(value >= 1) for value in margins]
        levels_m.append(_level(tolerance, holds, margins, largest=False, method=by, note=note))
        levels_s.append(_gap_level(tolerance, [each.gap for each in supports]))
    by_m, by_s = (
        tuple(
            _irreducibility(block, [[getattr(each, kind)[block] for each in supports] for supports in at_samples])
            for block in range(count)
        )
        for kind in ("irreducible_m", "irreducible_s")
    )
    return (
        Criterion("M", MEASURES["M"], (Evidence("supports", tuple(levels_m), note),), by_m),
        Criterion("S", MEASURES["S"], (Evidence("gap", tuple(levels_s)),), by_s),
    )


def orthogonality(samples: Samples) -> Criterion:
    """Independent mechanism analysis (IMA) of blocks: the outputs' changes by different blocks are orthogonal."""
    scores, errors = [], []
    for here in samples.frames:
        parts = [here.block(place) for place in range(len(here.places))]
        cosines = [np.linalg.norm(one.T @ other, 2) for one, other in combinations(parts, 2) if one.size and other.size]
        scores.append(min(1.0, float(max(cosines, default=0.0))))
        errors.append(here.noise)
    levels = _share_levels(samples, np.array(scores), errors, "cosines")
    return Criterion("IMA", MEASURES["IMA"], (Evidence("cosines", levels),))


def stretches(jacobians: Array, tolerances: Sequence[float], noise: float) -> tuple[list[Criterion], list[Leakage]]:
    """Conformal: all directions are stretched equally at a sample. Isometric, up to one scale: also at all samples.

    By the singular values of Jacobians in the latents' own units, which no rotation of the latents changes.
    """
    values = np.linalg.svd(jacobians, compute_uv=False)
    values = np.pad(values, ((0, 0), (0, max(0, jacobians.shape[2] - values.shape[1]))))
    squares, common = values**2, float((values**2).mean())
    if common == 0:
        return [], []
    criteria, leaks, by = [], [], "singular values"
    means = squares.mean(1, keepdims=True)
    means = np.where(means > 0, means, 1.0)
    spreads = 1 - values[:, -1] / np.where(values[:, 0] > 0, values[:, 0], 1.0)
    away = np.abs(values / np.sqrt(common) - 1).max(1)
    for name, scores, scale in (("conformal", spreads, means), ("isometric", away, common)):
        levels = tuple(
            _level(
                tolerance, [bool(score <= max(tolerance, noise)) for score in scores], scores, largest=True, method=by
            )
            for tolerance in tolerances
        )
        criteria.append(Criterion(name, MEASURES[name], (Evidence(by, levels),)))
        spread = np.square(squares / scale - 1).mean(1)
        leak = leakage_of(name, by, spread / (1 + spread))
        leaks += [leak] if leak is not None else []
    return criteria, leaks


def interactions(
    samples: Samples, view: View, rows: Array, box: Box, order: int, higher: int, bases: Sequence[Array] = ()
) -> tuple[Criterion, list[str], list[Leakage]]:
    """Type Hₙ: by derivatives at the first ``higher`` samples where the decoder has them, and by swaps at all.

    ``bases`` are random ones, for the chance level of the leakage.
    """
    name, blocks, said = f"H{order}", range(len(samples.blocks)), []
    leaks: list[Leakage | None] = []
    ways: list[Evidence] = []
    untested = ("not tested",) * len(samples.tolerances)
    irreducible = separable = tuple(Irreducibility(block, untested, 0.0, "needs derivatives") for block in blocks)
    if view.derivatives is not None and higher > 0:
        chosen = slice(0, higher)
        mixed = derivatives(
            view,
            rows[chosen],
            samples.frames[chosen],
            samples.blocks,
            order,
            samples.tolerances,
            samples.rng(order),
            bases,
        )
        flat = _flat(mixed.sizes, samples.jacobians[chosen], rows, order)
        if flat and bends(view, rows, order) > max(_PIECEWISE, 100 * view.rounding):
            what, kind = ("second", "affine") if order == 2 else ("third", "quadratic")
            said.append(
                f"all {what} derivatives vanish although the decoder is not {kind}: it is piecewise smooth "
                f"({', '.join(view.kinks) or 'kinks'}), so Type {symbol(name)} is judged by swaps alone"
            )
            ways.append(Evidence("derivatives", (), said[-1]))
        else:
            ratios = np.zeros(len(mixed.ratios)) if flat else mixed.ratios
            leaks += [] if flat else [leakage_of(name, "derivatives", ratios**2, list(mixed.drawn**2))]
            levels = _share_levels(samples, ratios, [100 * view.noise] * len(ratios), "derivatives")
            note = f"almost everywhere: the decoder has kinks ({', '.join(view.kinks)})" if view.kinks else ""
            ways.append(Evidence("derivatives", levels, note))
            irreducible = tuple(_from_states(block, mixed.states[:, :, block]) for block in blocks)
            sines = mixed.separations
            separable = tuple(_separability(block, sines[:, :, block], samples.tolerances) for block in blocks)
    swapped = swaps(view, rows, samples.blocks, order, samples.rng(10 + order), box=box)
    if swapped.left_out:
        said.append(f"{swapped.left_out} pairs of blocks were not swapped")
    if len(rows) > 1:
        ways.append(Evidence("swaps", _share_levels(samples, swapped.ratios, swapped.errors, "swaps")))
        drawn = _random_swaps(samples, view, rows, box, order, bases)
        leaks.append(leakage_of(name, "swaps", swapped.shares, drawn))
    measure = MEASURES.get(name, f"cross-block share of differences of order {order}, 0 is none")
    return Criterion(name, measure, tuple(ways), irreducible, separable), said, [each for each in leaks if each]


def _random_swaps(
    samples: Samples, view: View, rows: Array, box: Box, order: int, bases: Sequence[Array]
) -> list[Array]:
    """Shares of swaps where the latents have other bases, at fewer rows and pairs."""
    turned, found = consecutive([len(block) for block in samples.blocks]), []
    if len(turned) < 2:
        return []
    for place, basis in enumerate(bases):
        own = rows[:_RANDOM_ROWS] @ np.linalg.inv(basis).T
        rng = samples.rng(100 * (1 + place) + order)
        within = box.rebased(basis)
        found.append(swaps(view.rebased(basis), own, turned, order, rng, box=within, most=_RANDOM_PAIRS).shares)
    return found


def _share_levels(samples: Samples, shares: Array, errors: Sequence[float] | Array, method: str) -> tuple[Level, ...]:
    """Shares that are 0 where a criterion holds, at every tolerance; values below their error are undecided."""
    levels = []
    for tolerance in samples.tolerances:
        holds = [
            True if share <= tolerance else None if share <= error else False
            for share, error in zip(shares, errors, strict=True)
        ]
        levels.append(_level(tolerance, holds, shares, largest=True, method=method))
    return tuple(levels)


@dataclass(frozen=True)
class Supports:
    """One sample at one tolerance: margin, gap, and whether each block is irreducible for M and for S."""

    margin: float
    gap: Gap
    irreducible_m: Sequence[bool | None]
    irreducible_s: Sequence[bool | None]


def _supports(
    here: Frame, pools: Sequence[Pool], whole: Pool | None, tolerance: float, limit: int, count: int
) -> Supports:
    open_ends = [None] * count
    if not here.full_rank:  # a direction that moves nothing has the empty support, and is free to be added anywhere
        return Supports(0.0, Gap(None, 0.0, EXACT), open_ends, open_ends)
    if here.noise > tolerance:
        return Supports(np.nan, Gap(None, None, "none"), open_ends, open_ends)
    blocks = [each.at(tolerance) for each in pools]
    margin = containment(blocks)
    gap = exact_gap(here, whole.at(tolerance), blocks) if whole is not None else gap_bound(here, blocks, limit)
    by_m = list(map(irreducible_by_containment, blocks))
    by_s = [None if groups is None else len(groups) == 1 for groups in map(sparsity_components, blocks)]
    return Supports(np.nan if margin is None else float(margin), gap, by_m, by_s)


def _gap_level(tolerance: float, gaps: Sequence[Gap]) -> Level:
    values = [np.nan if each.value is None or each.holds is None else each.value for each in gaps]
    exact, bound = ([each.method for each in gaps].count(method) for method in (EXACT, BOUND))
    method = " and ".join(name for name, count in (("exact gap", exact), ("bound", bound)) if count) or "no gap"
    undecided = sum(each.holds is None for each in gaps)
    notes = [f"exact at {exact} samples, bound at {bound}"] if exact and bound else []
    note = "; ".join([*notes, *([f"{undecided} samples undecided"] if undecided else [])])
    return _level(tolerance, [each.holds for each in gaps], values, largest=False, method=method, note=note)


def _irreducibility(block: int, states: Sequence[Sequence[bool | None]]) -> Irreducibility:
    """From every tolerance's samples: True irreducible, False reducible, None undecided."""
    names = {True: "irreducible", False: "reducible", None: UNDECIDED}
    return _from_states(block, np.array([[names[each] for each in row] for row in states], dtype=object))


def _from_states(block: int, states: Array) -> Irreducibility:
    """Irreducible where it is at every decided sample; the worst state of the others otherwise."""
    verdicts, shares = [], []
    for row in states:
        decided = [each for each in row if each != UNDECIDED]
        worse = sorted(set(decided) - {"irreducible"})  # degenerate comes before reducible
        enough = decided and 2 * len(decided) >= len(row)
        verdicts.append(worse[0] if worse else "irreducible" if enough else UNDECIDED)
        if verdicts[-1] != UNDECIDED:
            shares.append(float(np.mean([each == "irreducible" for each in row])))
    return Irreducibility(block, tuple(verdicts), shares[0] if shares else 0.0)


def _separability(block: int, sines: Array, tolerances: Sequence[float]) -> Irreducibility:
    verdicts = []
    for row, tolerance in zip(sines, tolerances, strict=True):
        least = row[~np.isnan(row)].min(initial=np.inf)
        verdicts.append("degenerate" if np.isinf(least) else "separable" if least > tolerance else "not separable")
    known = sines[0][~np.isnan(sines[0])]
    if len(known) == 0:
        return Irreducibility(block, tuple(verdicts), 0.0, "no derivatives of this order")
    share = float((known > tolerances[0]).mean())
    return Irreducibility(block, tuple(verdicts), share, f"sine of the least angle {known.min():.3g}")


def _flat(sizes: Array, jacobians: Array, rows: Array, order: int) -> bool:
    """Whether derivatives vanish relative to the first ones, over the spread of the latents."""
    spread = float(np.sqrt((rows - rows.mean(0)).var())) if len(rows) > 1 else 1.0
    first = float(np.linalg.norm(jacobians, axis=(1, 2)).max(initial=0.0))
    return bool(sizes.max(initial=0.0) * max(spread, 1e-12) ** (order - 1) <= _FLAT * first)


def _level(
    tolerance: float, holds: Sequence[bool | None], worst: Any, *, largest: bool, method: str, note: str = ""
) -> Level:
    """A criterion at one tolerance from the answer (None: undecided) and the measure at each sample."""
    states = np.array([-1 if each is None else int(each) for each in holds])
    measures = np.asarray(worst, dtype=float)
    state = FAILS if (states == 0).any() else HOLDS if (states == 1).all() else UNDECIDED
    at = None
    if not np.isnan(measures).all():
        at = int(np.nanargmax(measures) if largest else np.nanargmin(measures))
    shares = float((states == 1).mean()), float((states >= 0).mean())
    return Level(float(tolerance), state, *shares, None if at is None else float(measures[at]), at, method, note)
