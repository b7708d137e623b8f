"""Mechanistic independence of a decoder: which blocks of latents act on the outputs independently."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ...rows import Progress, no_progress
from ...settings import check_choice, check_counts, check_seed
from ..prepare import Latents, as_latents
from .criteria import Samples, disjointness, interactions, orthogonality, stretches, supports_and_sparsity
from .factors import find_factors
from .near import Leakage, NearFactors, among, leakage, near_factors
from .result import Check, Criterion, Factors, Implication, Mechanisms, SparsityCondition, symbol
from .theorems import checked_hierarchy, lifting_checks, theorem
from .type_h import Box
from .type_m import contrast, owners
from .views import INACTIVE_BELOW, PRECISION, View, active_latents, balanced_units, consecutive, frame, viewed

_MOST_SPREAD = 1e140  # of a latent; its inverse is the least
_CELLS = 4_000_000  # of a table of candidates
_JACOBIANS = 100_000_000  # numbers of all Jacobians together
_HIGHER = 20_000_000  # numbers of higher derivatives in all
DOMAINS = (None, "convex")
MOST_ORDER = 6  # of Types Hₙ
_RANDOM_INTERACTIONS = 5  # random bases in which interactions are taken, too


def mechanisms(
    decoder: Any,
    latents: Any,
    blocks: Sequence[Any] | None = None,
    *,
    jacobians: Any = None,
    tolerances: Sequence[float] | None = None,
    samples: int = 100,
    higher_samples: int = 30,
    highest_order: int = 3,
    subsets: int = 30_000,
    angle: float = 1.0,
    domain: str | None = None,
    reference: tuple[Any, Any] | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Mechanisms:
    r"""Test the mechanistic independence of a decoder's latents, and whether it identifies them.

    The support :math:`\Omega_a=\operatorname{supp}J_{\cdot a}` of a latent is the set of outputs that it affects.
    Blocks :math:`C_i` are independent of

    * **Type D** if they affect disjoint outputs, which implies all others;
    * **Type M** if no support of one contains one of another, in the sparsest bases;
    * **Type S** if every basis of the tangent space that mixes blocks is less sparse, :math:`\rho^+<\rho^-`;
    * **Type Hₙ** if derivatives :math:`D^n_{i,j}g` across blocks vanish.

    Entries are exactly zero in generators and only small in trained networks. So every type also has a leakage, 0 where
    it holds, compared with its value in random bases. Orthogonal blocks (IMA) and conformal and isometric decoders are
    tested in the same way.

    Without blocks the finest Type D factors are found, independently of the basis of the latents. If they are the same
    at all samples, they are tested as blocks; otherwise near-factors, with little leakage, if there are any.

    Parameters
    ----------
    decoder : callable
        A torch module or function; or a numpy function, whose Jacobian is its method ``jacobian`` or else computed by
        differences, and for which Hₙ is tested by swaps alone.
    latents : array, tensor, Representation or path
        One row per sample.
    blocks : sequence, optional
        Lists of latents, or the sizes of consecutive blocks. Every latent belongs to one block.
    jacobians : array (rows, outputs, d), optional
        Jacobians to use instead of the decoder's own.
    tolerances : at least three floats, optional
        Relative thresholds below which a Jacobian entry counts as zero. Every result is computed at each of them; one
        that holds at some only "depends on the tolerance". Default: 1e-6, 1e-4 and 1e-3; in single precision 1e-4, 1e-3
        and 1e-2, and in half precision 0.01, 0.03 and 0.1. Entries that training suppresses are seldom below 1e-2.
    samples, higher_samples : int
        Numbers of rows to test, and for second and third derivatives.
    highest_order : int
        The largest n of Types Hₙ, from 2 to 6; beyond 3 they are tested by swaps alone.
    subsets : int
        Number of subsets of outputs to search for a sparsest basis; the sparsity gap is exact where this suffices and
        otherwise bounded.
    angle : float
        Angle in degrees up to which factors at two samples count as the same.
    domain : {None, "convex"}
        Prior knowledge of the latents' support.
    reference : pair (decoder, latents), optional
        A decoder to compare the number of nonzeros with, at paired rows: Type M's theorem needs
        :math:`\|J_{\hat g}(z)\|_0\le\|J_g(s)\|_0`, with this decoder as :math:`\hat g`.
    random_state : int
        Seed of samples, swaps and candidates.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Mechanisms

    Examples
    --------
    >>> import numpy as np, isorep
    >>> z = np.random.default_rng(0).normal(size=(30, 2))
    >>> g = lambda z: np.stack([np.sinh(z[:, 0]), z[:, 0], np.exp(z[:, 1])], 1)
    >>> found = isorep.decoder.mechanisms(g, z, blocks=[1, 1])
    >>> found.type_d.state, found.type_h2.state, found.factors.dimensions
    ('holds', 'holds', (1, 1))
    """
    check_choice("domain", domain, DOMAINS)
    check_counts(samples=(samples, 1), subsets=(subsets, 1), higher_samples=(higher_samples, 0))
    check_counts(highest_order=(highest_order, 2))
    if highest_order > MOST_ORDER:
        raise InputError(f"highest_order is {highest_order} and must be {MOST_ORDER} or less")
    check_seed(random_state)
    if isinstance(angle, bool) or not isinstance(angle, int | float | np.number) or not 0 <= angle <= 90:
        raise InputError(f"angle is {angle!r} and must be degrees between 0 and 90")
    given = as_latents(latents)
    chosen = np.arange(given.n)
    if given.n > samples:
        chosen = np.sort(np.random.default_rng([random_state, 0]).choice(given.n, samples, replace=False))
    search = Search(tolerances, higher_samples, highest_order, subsets, angle, domain, reference, random_state)
    with ExitStack() as stack:
        view = None if decoder is None else stack.enter_context(viewed(decoder, given))
        return _judged(view, given, chosen, blocks, jacobians, search, progress or no_progress)


def mechanisms_of(jacobians: Any, blocks: Sequence[Any] | None = None, **options: Any) -> Mechanisms:
    """Test mechanistic independence from Jacobians (n, outputs, d) alone: Types D, M, S and the factors, not Hₙ.

    Parameters
    ----------
    jacobians : array (n, outputs, d)
        Jacobians of one or more samples; a single one may omit the first axis.
    blocks, **options
        As in :func:`mechanisms`.

    Examples
    --------
    >>> import isorep
    >>> isorep.decoder.mechanisms_of([[[1.0, 0], [2, 0], [0, 3], [0, 1]]], [[0], [1]]).type_s.state
    'holds'
    """
    values = as_jacobians(jacobians)
    latents = np.zeros((len(values), values.shape[2]))
    return mechanisms(None, latents, blocks, jacobians=jacobians, **{"samples": len(values), **options})


@dataclass(frozen=True)
class Search:
    """Settings of :func:`mechanisms`, other than the decoder and its blocks."""

    tolerances: Sequence[float] | None
    higher_samples: int
    highest_order: int
    subsets: int
    angle: float
    domain: str | None
    reference: tuple[Any, Any] | None
    random_state: int


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Jacobians, the samples and more latents in one basis, and the decoder as a function of it."""

    jacobians: Array
    rows: Array
    every: Array
    view: View | None
    matrix: Array  # latents are this times coordinates

    def in_basis(self, basis: Array) -> Coordinates:
        """In coordinates y, with latents z = basis y."""
        back = np.linalg.inv(basis).T
        view = None if self.view is None else self.view.rebased(basis)
        return Coordinates(self.jacobians @ basis, self.rows @ back, self.every @ back, view, self.matrix @ basis)


def _require_squares(latents: Array) -> None:
    """Refuse latents whose spread has no square in float64: units and distances are made from these."""
    with np.errstate(over="ignore"):
        spread = np.ptp(latents, axis=0)
    odd = np.flatnonzero((spread > _MOST_SPREAD) | ((spread > 0) & (spread < 1 / _MOST_SPREAD)))
    if len(odd):
        raise InputError(
            f"latent {odd[0]} spreads over {spread[odd[0]]:.0e}: rescale it, and the decoder with it; squares of such "
            "values leave float64"
        )


def _judged(
    view: View | None,
    given: Latents,
    chosen: Array,
    blocks: Sequence[Any] | None,
    jacobians: Any,
    search: Search,
    report: Progress,
) -> Mechanisms:
    seconds: dict[str, float] = {}
    caveats = [] if view is None else list(view.notes)
    with _timed(seconds, "jacobians"):
        most = len(chosen) if view is None else max(1, _JACOBIANS // (view.width * view.d))
        if jacobians is None and len(chosen) > most:
            caveats.append(f"{most} of {len(chosen)} samples were used: the Jacobians are large")
            chosen = chosen[:most]
        own, noise, source = _jacobians(view, given, chosen, jacobians, report)
        levels = as_tolerances(search.tolerances, noise)
        n, width, d = own.shape
        split = None if blocks is None else as_blocks(blocks, d)
        rows, every = (np.asarray(given.rows(part), dtype=np.float64) for part in (chosen, slice(0, 2000)))
        _require_squares(every)
        kept = active_latents(own, every)
        inactive = tuple(np.setdiff1d(np.arange(d), kept).tolist()) if own.any() else tuple(range(d))
        if 0 < len(inactive) < d:
            view = None if view is None else view.restricted(kept, every.mean(0))
            own, rows, every = own[:, :, kept], rows[:, kept], every[:, kept]
            caveats.append(_left_out(inactive))
            if split is not None:
                gone = [place for place, block in enumerate(split) if not np.isin(block, kept).any()]
                split = _remaining(split, kept)
                caveats += [
                    f"block {place} has only inactive latents: the others are numbered without it" for place in gone
                ]
        if not every.std(0).any():
            caveats += _weak(own, kept)
        units = balanced_units(own, every, noise)
        here = Coordinates(own, rows, every, view, np.eye(len(kept)))
        if (units != 1).any():
            here = here.in_basis(np.diag(units))
    report("factors", 0, 1)
    with _timed(seconds, "factors"):
        values = here.jacobians
        factors = find_factors(values, levels, noise, angle=search.angle, subsets=search.subsets, cells=_CELLS)
    with _timed(seconds, "near-factors"):
        near = near_factors(values, noise, np.random.default_rng([search.random_state, 50]))
    smallest = (_smallest(own), _smallest(values))
    geometry, leaks = stretches(own, levels, noise)
    shown, blocks_from = None, "" if split is None else "given"
    if split is None and (subspaces := _as_blocks(factors, near)):
        split = consecutive([each.shape[1] for each in subspaces])
        blocks_from = "factors" if subspaces is not near.subspaces else "near-factors"
        here = here.in_basis(np.concatenate(subspaces, axis=1))
        shown = np.concatenate([np.linalg.qr(units[:, None] * each)[0] for each in subspaces], axis=1)
        own = own @ shown
    everything = split or (np.arange(len(kept)),)
    frames = tuple(frame(each, everything, noise) for each in here.jacobians)
    deficient = float(np.mean([not each.full_rank for each in frames]))
    criteria: dict[str, Criterion] = {}
    hierarchy: tuple[Implication, ...] = ()
    if split is not None:
        samples = Samples(here.jacobians, frames, split, levels, noise, search.subsets, _CELLS, search.random_state)
        bases: list[Array] = []
        if len(split) > 1:
            with _timed(seconds, "leakage"):
                known, bases = leakage(here.jacobians, split, noise, np.random.default_rng([search.random_state, 51]))
            leaks, geometry = [*known, *leaks], [orthogonality(samples), *geometry]
        criteria, said, across = _criteria(samples, here, search, bases[:_RANDOM_INTERACTIONS], seconds, report)
        leaks = [*leaks[:3], *across, *leaks[3:]] if len(split) > 1 else leaks
        criteria, hierarchy = checked_hierarchy(criteria, deficient == 0)
        caveats += [*(f"Type M: {way.note}" for way in criteria["M"].evidence if way.note), *said]
        if criteria["D"].state == "holds" and _changes_hands(samples):
            caveats.append("Type D holds at every sample, but outputs belong to different blocks at different samples")
    checks: tuple[Check, ...] = ()
    if view is not None or np.ptp(here.every, axis=0).any():
        checks = lifting_checks(
            here.every, everything, smallest, deficient, here.view, search.domain, search.random_state
        )
    sparsity = _sparsity(here.jacobians, search.reference, chosen, levels, given.n)
    if deficient:
        caveats.append(f"the Jacobian lacks full rank at {100 * deficient:.3g}% of the samples, within its error")
    if len(chosen) < given.n:
        caveats.append(f"{len(chosen)} of {given.n} rows were used: raise samples= for more")
    return Mechanisms(
        factors=factors.in_units(units).among(kept, d),
        **{f"type_{name.lower()}": criteria.get(name) for name in ("D", "M", "S", "H2", "H3")},
        hierarchy=hierarchy,
        lifting=checks,
        theorems=tuple(theorem(each, deficient == 0, sparsity, checks, len(everything)) for each in criteria.values()),
        sparsity=sparsity,
        blocks=tuple(tuple((kept[block] if shown is None else block).tolist()) for block in split or ()),
        basis=None if shown is None else among(shown, kept, d),
        given=blocks is not None,
        samples=n,
        outputs=width,
        dimension=d,
        deficient=deficient,
        contrast=None if split is None else float(np.mean([contrast(each, split) for each in own])),
        tolerances=levels,
        source=source,
        name=given.name,
        settings={**vars(search), "samples": n, "tolerances": levels, "reference": search.reference is not None},
        caveats=tuple(dict.fromkeys(caveats)),
        seconds=seconds,
        leakage=tuple(leaks),
        near_factors=near.in_units(units).among(kept, d),
        geometry=tuple(geometry),
        inactive=inactive,
        higher=tuple(each for name, each in criteria.items() if name[1:].isdigit() and int(name[1:]) > 3),
        blocks_from=blocks_from,
    )


def _remaining(blocks: Sequence[Array], kept: Array) -> tuple[Array, ...]:
    """The blocks as indices of the kept latents; blocks without any of them are dropped."""
    places = [np.flatnonzero(np.isin(kept, block)) for block in blocks]
    return tuple(each for each in places if len(each))


def _left_out(inactive: Sequence[int]) -> str:
    named = ", ".join(map(str, inactive[:20])) + (" and others" if len(inactive) > 20 else "")
    which = f"latent {named} is" if len(inactive) == 1 else f"latents {named} are"
    return f"{which} inactive, below a thousandth of the strongest latent's effect: left out"


def _weak(jacobians: Array, kept: Array) -> list[str]:
    """Columns that would be inactive if the latents' units were known."""
    sizes = np.linalg.norm(jacobians, axis=1).max(0)
    weak = kept[sizes < INACTIVE_BELOW * sizes.max()]
    if len(weak) == 0 or len(jacobians) == 0:
        return []
    named = ", ".join(map(str, weak[:20])) + (" and others" if len(weak) > 20 else "")
    which = f"column {named} is" if len(weak) == 1 else f"columns {named} are"
    return [
        f"{which} below a thousandth of the largest and judged like the others, as units are unknown where latents do "
        "not vary"
    ]


def _as_blocks(factors: Factors, near: NearFactors) -> tuple[Array, ...]:
    """Subspaces to judge: several factors that are the same everywhere, or else near-factors.

    In a trained decoder a coarse tolerance may find factors that differ by a few degrees between samples, as zeros are
    small numbers there. One cut that leaks little at all of them says more.
    """
    best = factors.best
    if best.state == "found" and len(best.subspaces) > 1 and best.constant:
        return tuple(sorted(best.subspaces, key=lambda basis: -basis.shape[1]))
    return near.subspaces if near.state == "found" else ()


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started


def _jacobians(
    view: View | None, given: Latents, chosen: Array, jacobians: Any, report: Progress
) -> tuple[Array, float, str]:
    """The Jacobians at the chosen rows, the relative error of their entries, and where they come from."""
    if jacobians is not None:
        values = as_jacobians(jacobians, given.n, given.d)[chosen]
        precision = str(getattr(jacobians, "dtype", "")).removeprefix("torch.")
        return values, PRECISION.get(precision, PRECISION["float64"]), "given"  # lists and whole numbers are exact
    if view is None:
        raise InputError("there is neither a decoder nor jacobians=")
    report("Jacobians", 0, 1)
    return view.jacobians(given.rows(chosen)), view.noise, view.source


def _criteria(
    samples: Samples,
    here: Coordinates,
    search: Search,
    bases: Sequence[Array],
    seconds: dict[str, float],
    report: Progress,
) -> tuple[dict[str, Criterion], list[str], list[Leakage]]:
    """Every criterion, caveats, and the leakage of interactions."""
    with _timed(seconds, "supports"):
        criteria = {"D": disjointness(samples)}
        report("supports", 0, 1)
        criteria["M"], criteria["S"] = supports_and_sparsity(samples)
    view = here.view
    if view is None:
        return criteria, ["without a decoder Type Hₙ is not evaluated"], []
    said: list[str] = []
    leaks: list[Leakage] = []
    highest, box = search.highest_order, Box.of(np.concatenate([here.every, here.rows]), here.matrix)
    with _timed(seconds, "interactions"):
        for order in range(2, highest + 1):
            report("interactions", order - 2, highest - 1)
            most = _HIGHER // (view.width * view.d**order) if view.fits(order) and order <= 3 else 0
            some = min(search.higher_samples, len(here.rows), most)
            criteria[f"H{order}"], notes, across = interactions(samples, view, here.rows, box, order, some, bases)
            said, leaks = said + notes, leaks + across
            if view.derivatives is not None and most < 1 and order <= 3:
                said.append(
                    f"derivatives of order {order} do not fit in memory: Type {symbol(f'H{order}')} is tested by swaps"
                )
        report("interactions", highest - 1, highest - 1)
    if view.derivatives is None and not view.notes:
        said.append("the decoder is not a torch function: Type Hₙ is tested by swaps alone")
    return criteria, said, leaks


def _changes_hands(samples: Samples) -> bool:
    """Whether some output belongs to two blocks, at two samples."""
    owner = np.stack([owners(each, samples.tolerances[-1]) for each in samples.frames]).astype(float)
    owner[owner < 0] = np.nan
    moved = owner[:, ~np.isnan(owner).all(0)]
    return bool((np.nanmin(moved, axis=0) < np.nanmax(moved, axis=0)).any())


def _smallest(jacobians: Array) -> Array:
    """The least singular value of each; 0 where latents outnumber outputs."""
    n, width, d = jacobians.shape
    return np.asarray(np.linalg.svd(jacobians, compute_uv=False)[:, -1]) if width >= d else np.zeros(n)


def _sparsity(
    values: Array, reference: tuple[Any, Any] | None, chosen: Array, levels: Sequence[float], n: int
) -> tuple[SparsityCondition, ...]:
    if reference is None:
        return ()
    other = reference_jacobians(reference, chosen, n)
    conditions = []
    for tolerance in levels:
        here, there = _nonzeros(values, tolerance), _nonzeros(other, tolerance)
        share = float((here <= there).mean())
        conditions.append(SparsityCondition(tolerance, share, float(here.mean()), float(there.mean())))
    return tuple(conditions)


def _nonzeros(jacobians: Array, tolerance: float) -> Array:
    sizes = np.abs(jacobians)
    return np.asarray((sizes > tolerance * sizes.max(1, keepdims=True)).sum((1, 2)))


DOUBLE, SINGLE, HALF = (1e-6, 1e-4, 1e-3), (1e-4, 1e-3, 1e-2), (1e-2, 3e-2, 1e-1)


def as_blocks(blocks: Any, d: int) -> tuple[Array, ...]:
    """Disjoint blocks that cover all latents, from lists of them or from sizes."""
    wrong = InputError(f"blocks is {blocks!r}: pass lists of latents, or the sizes of consecutive blocks")
    listed = isinstance(blocks, Sequence | np.ndarray) and not isinstance(blocks, str | bytes)
    if not listed or getattr(blocks, "ndim", 1) == 0 or len(blocks) == 0:
        raise wrong
    if all(map(_is_whole, blocks)):
        sizes = [int(each) for each in blocks]
        if min(sizes) < 1 or sum(sizes) != d:
            raise InputError(f"blocks of sizes {sizes} do not make up {d} latents")
        return consecutive(sizes)
    if not all(np.iterable(block) and all(map(_is_whole, block)) for block in blocks):
        raise wrong
    members = [int(each) for block in blocks for each in block]
    if any(len(block) == 0 for block in blocks) or sorted(members) != list(range(d)):
        raise InputError(f"blocks must hold each of the latents 0 to {d - 1} once: they hold {members[:50]}")
    return tuple(np.array(list(block), dtype=int) for block in blocks)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_tolerances(tolerances: Any, noise: float) -> tuple[float, ...]:
    """At least three tolerances between 0 and 1, smallest first."""
    if tolerances is None:
        return HALF if noise > 1e-5 else SINGLE if noise > 1e-7 else DOUBLE
    try:
        levels = sorted({float(each) for each in tolerances})
    except (TypeError, ValueError):
        levels = []
    if len(levels) < 3 or not all(0 < each < 1 for each in levels):
        raise InputError(f"tolerances is {tolerances!r}: pass at least three numbers between 0 and 1")
    return tuple(levels)


def as_jacobians(given: Any, n: int | None = None, d: int | None = None) -> Array:
    """Finite Jacobians (n, outputs, d) in float64; one alone may leave out the first axis."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().double().numpy()
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise InputError(f"jacobians cannot be taken as an array: {error}") from None
    if values.dtype.kind not in "iuf":
        raise InputError(f"jacobians hold {values.dtype} where numbers are needed")
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(f"jacobians have shape {values.shape}: (rows, outputs, latents) is needed")
    if (n is not None and len(values) != n) or (d is not None and values.shape[2] != d):
        raise InputError(f"jacobians have shape {values.shape}, which does not fit {n} rows of {d} latents")
    bad = ~np.isfinite(values).all((1, 2))
    if bad.any():
        raise InputError(f"the Jacobian of row {int(bad.argmax())} is not finite")
    return values.astype(np.float64)


def reference_jacobians(reference: Any, chosen: Array, n: int) -> Array:
    """The Jacobians of another decoder's active latents at the rows that are paired with the chosen ones."""
    if not isinstance(reference, Sequence) or len(reference) != 2:
        raise InputError("reference is a pair: another decoder and its latents, row by row the same examples")
    decoder, latents = reference
    other = as_latents(latents, "the reference's latents")
    if other.n != n:
        raise InputError(f"the reference has {other.n} latents and this decoder {n}: rows must be the same examples")
    with viewed(decoder, other) as view:
        values = view.jacobians(other.rows(chosen))
    return values[:, :, active_latents(values, np.asarray(other.rows(slice(0, 2000)), dtype=np.float64))]
