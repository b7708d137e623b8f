"""``isorep.decoder.mechanisms``: which blocks of latents act on the outputs independently, and in which sense.

Blocks, tolerances and Jacobians as callers write them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ...rows import Progress, no_progress
from ..prepare import Latents, as_latents
from .criteria import Samples, disjointness, interactions, supports_and_sparsity
from .criterion import Criterion
from .factors import find_factors
from .lifting import lifting_checks
from .result import Check, Factors, Mechanisms, SparsityCondition
from .theorems import checked_hierarchy, theorem
from .type_m import contrast, owners
from .views import PRECISION, View, balanced_units, frame, viewed

_CELLS = 4_000_000  # of a table of candidates
_JACOBIANS = 100_000_000  # numbers of all Jacobians together
_HIGHER = 20_000_000  # numbers of higher derivatives in all
DOMAINS = (None, "convex")


def mechanisms(
    decoder: Any,
    latents: Any,
    blocks: Sequence[Any] | None = None,
    *,
    jacobians: Any = None,
    tolerances: Sequence[float] | None = None,
    samples: int = 100,
    higher_samples: int = 30,
    subsets: int = 30_000,
    angle: float = 1.0,
    domain: str | None = None,
    reference: tuple[Any, Any] | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Mechanisms:
    r"""Mechanistic independence of a decoder's latents, and whether it identifies them.

    With :math:`\Omega_a=\operatorname{supp}J_{\cdot a}` the outputs that a latent moves, blocks :math:`C_i` are
    independent of **Type D** if they move disjoint outputs, **M** if no support of one contains one of another in the
    sparsest bases, **S** if every basis of the tangent space that mixes blocks is less sparse,
    :math:`\rho^+<\rho^-`, and **H_n** if derivatives :math:`D^n_{i,j}g` across blocks vanish. D implies all others.

    Without blocks the finest Type D factors are found in whatever basis the latents come, and, where they are the same
    at all samples, judged as blocks.

    Parameters
    ----------
    decoder : callable
        A torch module or function; or a numpy function, whose Jacobian is its method ``jacobian`` or else taken by
        differences, and which is judged for H_n by swaps alone.
    latents : array, tensor, Representation or path
        One row a latent.
    blocks : sequence, optional
        Lists of latents, or the sizes of consecutive blocks. Every latent belongs to one block.
    jacobians : array (rows, outputs, d), optional
        In place of the decoder's own.
    tolerances : at least three floats, optional
        Entries below this share of the largest are zero; everything is found at each of them, and what holds at one
        only is said to depend on it. By default 1e-6, 1e-4 and 1e-3; in single precision 1e-4, 1e-3 and 1e-2, and
        in half precision 0.01, 0.03 and 0.1. What a trained decoder suppresses is seldom smaller than 1e-2.
    samples, higher_samples : int
        Rows at which to look, and at which to take second and third derivatives.
    subsets : int
        Subsets of outputs to look at for a sparsest basis; the sparsity gap is exact where this suffices and otherwise
        bounded.
    angle : float
        Degrees up to which factors at two samples are the same.
    domain : {None, "convex"}
        What is known about the latents' support.
    reference : pair (decoder, latents), optional
        A decoder to compare the number of nonzeros with, at paired rows: Type M's theorem needs
        :math:`\|J_{\hat g}(z)\|_0\le\|J_g(s)\|_0`, with this decoder as :math:`\hat g`.
    random_state : int
        Seed of the samples, swaps and candidates that are drawn.
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
    if domain not in DOMAINS:
        raise InputError(f"domain is {domain!r}; known is 'convex'")
    for name, value in (("samples", samples), ("subsets", subsets)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} is {value!r} and must be a whole number from 1 on")
    for name, value in (("higher_samples", higher_samples), ("random_state", random_state)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"{name} is {value!r} and must be a whole number from 0 on")
    if isinstance(angle, bool) or not isinstance(angle, int | float | np.number) or not 0 <= angle <= 90:
        raise InputError(f"angle is {angle!r} and must be degrees between 0 and 90")
    given = as_latents(latents)
    chosen = np.arange(given.n)
    if given.n > samples:
        chosen = np.sort(np.random.default_rng([random_state, 0]).choice(given.n, samples, replace=False))
    with ExitStack() as stack:
        view = None if decoder is None else stack.enter_context(viewed(decoder, given))
        if view is None and jacobians is None:
            raise InputError("there is neither a decoder nor jacobians=")
        return _found(
            view, given, chosen, blocks, jacobians, tolerances, higher_samples, subsets, angle, domain, reference,
            random_state, progress or no_progress,
        )  # fmt: skip


def mechanisms_of(jacobians: Any, blocks: Sequence[Any] | None = None, **options: Any) -> Mechanisms:
    """The same from Jacobians (n, outputs, d) alone: Types D, M, S and the factors, not H_n.

    Parameters
    ----------
    jacobians : array (n, outputs, d)
        Of one or more samples; one alone may leave out the first axis.
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


def _found(
    view: View | None,
    given: Latents,
    chosen: Array,
    blocks: Sequence[Any] | None,
    jacobians: Any,
    tolerances: Sequence[float] | None,
    higher: int,
    subsets: int,
    angle: float,
    domain: str | None,
    reference: tuple[Any, Any] | None,
    random_state: int,
    report: Progress,
) -> Mechanisms:
    started, seconds = time.perf_counter(), {}
    caveats = [] if view is None else list(view.notes)
    if jacobians is not None:
        values = as_jacobians(jacobians, given.n, given.d)[chosen]
        noise = PRECISION[precision_of(jacobians)]
        source = "given"
    else:
        assert view is not None
        most = max(1, _JACOBIANS // (view.width * view.d))
        if len(chosen) > most:
            caveats.append(f"{most} of {len(chosen)} samples were looked at: the Jacobians are large")
            chosen = chosen[:most]
        report("Jacobians", 0, 1)
        values, noise, source = view.jacobians(given.rows(chosen)), view.noise, view.source
    rows = np.asarray(given.rows(chosen), dtype=np.float64)
    every = np.asarray(given.rows(slice(0, 2000)), dtype=np.float64)
    levels = as_tolerances(tolerances, noise)
    n, width, d = values.shape
    split = None if blocks is None else as_blocks(blocks, d)
    own, units = values, balanced_units(values, every, noise)
    values, rows, every = values * units, rows / units, every / units
    if view is not None and (units != 1).any():
        view = view.rebased(np.diag(units))
    seconds["jacobians"] = time.perf_counter() - started

    report("factors", 0, 1)
    started = time.perf_counter()
    factors = find_factors(values, levels, noise, angle=angle, subsets=subsets, cells=_CELLS)
    seconds["factors"] = time.perf_counter() - started
    smallest = _smallest(own)
    least = _smallest(values) if (units != 1).any() else smallest
    basis = shown = None
    if split is None:
        split, basis = _from_factors(factors)
    factors = factors.in_units(units)
    if basis is not None:
        back = np.linalg.inv(basis).T
        values, rows, every = values @ basis, rows @ back, every @ back
        view = None if view is None else view.rebased(basis)
        shown = _from_factors(factors)[1]
        own = own @ shown
    everything = split or (np.arange(d),)
    frames = tuple(frame(each, everything, noise) for each in values)
    deficient = float(np.mean([not each.full_rank for each in frames]))

    criteria: dict[str, Criterion] = {}
    hierarchy: tuple[Any, ...] = ()
    if split is not None:
        taken = Samples(values, frames, split, levels, noise, subsets, _CELLS, random_state)
        criteria, said = _criteria(taken, view, rows, min(higher, n), seconds, report)
        caveats += said
        criteria, hierarchy = checked_hierarchy(criteria, deficient == 0)
        owner = np.stack([owners(each, levels[-1]) for each in frames]).astype(float)
        owner[owner < 0] = np.nan
        if criteria["D"].state == "holds" and _changes_hands(owner):
            caveats.append("Type D holds at every sample, but outputs belong to different blocks at different samples")
    has_latents = view is not None or bool(np.ptp(every, axis=0).any())
    checks: tuple[Check, ...] = ()
    if has_latents:
        checks = lifting_checks(every, everything, (smallest, least), deficient, view, domain, random_state)
    sparsity = _sparsity(values, reference, chosen, levels, given.n) if reference is not None else ()
    theorems = tuple(theorem(each, deficient == 0, sparsity, checks, len(everything)) for each in criteria.values())
    if deficient:
        caveats.append(f"the Jacobian has not full rank at {100 * deficient:.3g} % of the samples, within its error")
    if len(chosen) < given.n:
        caveats.append(f"{len(chosen)} of {given.n} latents were looked at: samples= takes more")
    return Mechanisms(
        factors=factors,
        type_d=criteria.get("D"),
        type_m=criteria.get("M"),
        type_s=criteria.get("S"),
        type_h2=criteria.get("H2"),
        type_h3=criteria.get("H3"),
        hierarchy=hierarchy,
        lifting=checks,
        theorems=theorems,
        sparsity=sparsity,
        blocks=() if split is None else tuple(tuple(int(place) for place in block) for block in split),
        basis=shown,
        given=blocks is not None,
        samples=n,
        outputs=width,
        dimension=d,
        deficient=deficient,
        contrast=None if split is None else float(np.mean([contrast(each, split) for each in own])),
        tolerances=levels,
        source=source,
        name=given.name,
        settings={
            "samples": n,
            "higher_samples": higher,
            "subsets": subsets,
            "angle": angle,
            "domain": domain,
            "reference": reference is not None,
            "random_state": random_state,
        },
        caveats=tuple(dict.fromkeys(caveats)),
        seconds=seconds,
    )


def _criteria(
    samples: Samples, view: View | None, rows: Array, higher: int, seconds: dict[str, float], report: Progress
) -> tuple[dict[str, Criterion], list[str]]:
    started = time.perf_counter()
    found, said = {"D": disjointness(samples)}, list[str]()
    report("supports", 0, 1)
    found["M"], found["S"] = supports_and_sparsity(samples)
    seconds["supports"] = time.perf_counter() - started
    said += [f"Type M: {way.note}" for way in found["M"].evidence if way.note]
    if view is None:
        return found, [*said, "without a decoder Type H_n is not evaluated"]
    started = time.perf_counter()
    for order in (2, 3):
        report("interactions", order - 2, 2)
        most = _HIGHER // (view.width * view.d**order) if view.fits(order) else 0
        found[f"H{order}"], notes = interactions(samples, view, rows, order, min(higher, most))
        said += notes
        if view.derivatives is not None and most < 1:
            said.append(f"derivatives of order {order} are too large to hold: Type H_{order} is judged by swaps alone")
    report("interactions", 2, 2)
    seconds["interactions"] = time.perf_counter() - started
    if view.derivatives is None and not view.notes:
        said.append("the decoder is no torch function: Type H_n is judged by swaps alone")
    return found, said


def _changes_hands(owner: Array) -> bool:
    """Whether some output (column) belongs to two blocks, at two samples; nan is nobody's."""
    moved = owner[:, ~np.isnan(owner).all(0)]
    return bool((np.nanmin(moved, axis=0) < np.nanmax(moved, axis=0)).any())


def _smallest(jacobians: Array) -> Array:
    """The least singular value of each; 0 where latents outnumber outputs."""
    n, width, d = jacobians.shape
    return np.asarray(np.linalg.svd(jacobians, compute_uv=False)[:, -1]) if width >= d else np.zeros(n)


def _from_factors(factors: Factors) -> tuple[tuple[Array, ...] | None, Array | None]:
    """Blocks from the factors, where there are several and they are the same everywhere."""
    best = factors.best
    if best.state != "found" or not best.constant or len(best.subspaces) < 2:
        return None, None
    order = np.argsort([-basis.shape[1] for basis in best.subspaces], kind="stable")
    chosen = [best.subspaces[place] for place in order]
    edges = np.cumsum([0, *(basis.shape[1] for basis in chosen)])
    split = tuple(np.arange(start, stop) for start, stop in pairwise(edges))
    return split, np.concatenate(chosen, axis=1)


def _sparsity(
    values: Array, reference: tuple[Any, Any], chosen: Array, levels: Sequence[float], n: int
) -> tuple[SparsityCondition, ...]:
    other = reference_jacobians(reference, chosen, n)
    found = []
    for tolerance in levels:
        here, there = (_nonzeros(each, tolerance) for each in (values, other))
        found.append(
            SparsityCondition(tolerance, float((here <= there).mean()), float(here.mean()), float(there.mean()))
        )
    return tuple(found)


def _nonzeros(jacobians: Array, tolerance: float) -> Array:
    sizes = np.abs(jacobians)
    return np.asarray((sizes > tolerance * sizes.max(1, keepdims=True)).sum((1, 2)))


DOUBLE, SINGLE, HALF = (1e-6, 1e-4, 1e-3), (1e-4, 1e-3, 1e-2), (1e-2, 3e-2, 1e-1)


def as_blocks(blocks: Any, d: int) -> tuple[Array, ...]:
    """Disjoint blocks that cover all latents, from lists of them or from sizes."""
    listed = isinstance(blocks, Sequence) or (isinstance(blocks, np.ndarray) and blocks.ndim > 0)
    if isinstance(blocks, str | bytes) or not listed or len(blocks) == 0:
        raise InputError(f"blocks is {blocks!r}: pass lists of latents, or the sizes of consecutive blocks")
    if all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in blocks):
        sizes = [int(each) for each in blocks]
        if min(sizes) < 1 or sum(sizes) != d:
            raise InputError(f"blocks of sizes {sizes} do not make up {d} latents")
        edges = np.cumsum([0, *sizes])
        return tuple(np.arange(start, stop) for start, stop in pairwise(edges))
    try:
        found = tuple(np.array([_place(each) for each in block], dtype=int) for block in blocks)
    except TypeError:
        raise InputError(f"blocks is {blocks!r}: pass lists of latents, or the sizes of consecutive blocks") from None
    places = np.concatenate(found) if found else np.zeros(0, dtype=int)
    if any(len(block) == 0 for block in found) or len(places) != d or set(places.tolist()) != set(range(d)):
        raise InputError(f"blocks must hold each of the latents 0 to {d - 1} once: they hold {places.tolist()[:50]}")
    return found


def as_tolerances(tolerances: Any, noise: float) -> tuple[float, ...]:
    """At least three tolerances between 0 and 1, smallest first."""
    if tolerances is None:
        return HALF if noise > 1e-5 else SINGLE if noise > 1e-7 else DOUBLE
    try:
        found = sorted({float(each) for each in tolerances})
    except (TypeError, ValueError):
        raise InputError(f"tolerances is {tolerances!r}: pass at least three numbers between 0 and 1") from None
    if len(found) < 3 or not all(0 < each < 1 for each in found):
        raise InputError(f"tolerances is {tolerances!r}: pass at least three numbers between 0 and 1")
    return tuple(found)


def as_jacobians(given: Any, n: int | None = None, d: int | None = None) -> Array:
    """Finite Jacobians (n, outputs, d) in float64; one alone may leave out the first axis."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().double().numpy()
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise InputError(f"jacobians cannot be taken as an array: {error}") from None
    if values.dtype == object or not (np.issubdtype(values.dtype, np.number) and not np.iscomplexobj(values)):
        raise InputError(f"jacobians hold {values.dtype} where numbers are needed")
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(f"jacobians have shape {values.shape}: (rows, outputs, latents) is needed")
    if (n is not None and len(values) != n) or (d is not None and values.shape[2] != d):
        raise InputError(f"jacobians have shape {values.shape}, which does not fit {n} rows of {d} latents")
    found = values.astype(np.float64)
    if not np.isfinite(found).all():
        raise InputError(f"the Jacobian of row {int(np.argwhere(~np.isfinite(found))[0, 0])} is not finite")
    return found


def precision_of(given: Any) -> str:
    """The precision that Jacobians were computed in; whole numbers, and lists, are as good as double."""
    name = str(given.dtype).removeprefix("torch.") if hasattr(given, "dtype") else "float64"
    return name if name in PRECISION else "float64"


def reference_jacobians(reference: Any, chosen: Array, n: int) -> Array:
    """The Jacobians of another decoder at the rows that are paired with the chosen ones."""
    if not isinstance(reference, Sequence) or len(reference) != 2:
        raise InputError("reference is a pair: another decoder and its latents, row by row the same examples")
    decoder, latents = reference
    other = as_latents(latents, "the reference's latents")
    if other.n != n:
        raise InputError(f"the reference has {other.n} latents and this decoder {n}: rows must be the same examples")
    with viewed(decoder, other) as view:
        return view.jacobians(other.rows(chosen))


def _place(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(value)
    return int(value)
