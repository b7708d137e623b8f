"""Bi-Lipschitz constants of a decoder at a sample of latents.

What a decoder does at every row: extreme singular values, ranks, column norms, random directions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, blocks, no_progress
from ..settings import check_seed
from .convexity import convexity
from .geometry import QUANTILES, Constants, Directions, Geometry, Isometry, Latent, caveats_of, verdict_of
from .jacobian import Jacobians, opened
from .prepare import MEMORY, Latents, as_latents, import_torch
from .singular_values import EXACT_UP_TO, krylov, spectra

MODES = ("exact", "paper", "matrix_free")


def bilipschitz(
    decoder: Any,
    latents: Any,
    *,
    mode: str = "exact",
    n_directions: int = 10,
    names: Sequence[str] | None = None,
    samples: int | None = None,
    inactive_below: float = 1e-3,
    tol: float = 1e-3,
    max_iter: int = 300,
    memory: float = MEMORY,
    device: Any = None,
    name: str | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Geometry:
    r"""How far a decoder is from an isometry: its local bi-Lipschitz constants at a sample of latents.

    .. math:: 1+L(z)=\max\big(\sigma_{\max}(J_g(z)),\ 1/\sigma_{\min}(J_g(z))\big)

    A decoder is locally :math:`(1+L)`-bi-Lipschitz where it stretches no direction by more than :math:`1+L` and shrinks
    none by more. The constant of the sample is the largest local one; it is infinite where a direction is lost.

    Parameters
    ----------
    decoder, latents, memory, device, progress
        As in :func:`jacobian`.
    mode : {"exact", "paper", "matrix_free"}
        ``exact`` takes all singular values. ``paper`` takes the norms of ``n_directions`` random directions, which
        underestimates the constant, the more so the more latents there are. ``matrix_free`` takes the extreme singular
        values, by :func:`extreme_singular_values` where there are more than 2048 latents.
    n_directions : int
        Random directions at each row; the estimate is also made beside the exact constant. 0 for none.
    names : sequence of str, optional
        What to call the latents; by default the columns of a data frame, or z0, z1 and so on.
    samples : int, optional
        Compute at so many rows, drawn at random; by default at all. Convexity is probed on all rows.
    inactive_below : float
        A latent is inactive if its column of the Jacobian is nowhere longer than this share of the longest.
    tol, max_iter
        As in :func:`extreme_singular_values`.
    name : str, optional
        What to call the decoder.
    random_state : int
        Seed of the rows drawn, of directions and of the convexity probe.

    Returns
    -------
    Geometry

    Examples
    --------
    >>> import torch, isorep
    >>> stretch = torch.tensor([2.0, 1.0, 0.0])
    >>> found = isorep.decoder.bilipschitz(lambda z: z * stretch, torch.randn(50, 3))
    >>> found.constant, found.inactive, found.active.constant
    (inf, ('z2',), 2.0)
    """
    began = time.perf_counter()
    check_seed(random_state)
    given = as_latents(latents)
    _require_settings(mode, n_directions, samples, inactive_below, given)
    labels = _labels(_columns(latents, given.d) if names is None else names, given.d)
    rng = np.random.default_rng(random_state)
    rows = np.arange(given.n)
    if samples is not None and samples < given.n:
        rows = np.sort(rng.choice(given.n, samples, replace=False))
    with opened(decoder, given if len(rows) == given.n else given.chosen(rows), "auto", memory, device) as jacobians:
        found = measured(jacobians, mode, n_directions, inactive_below, tol, max_iter, rng, progress)
        ready = jacobians.ready
        spread = convexity(np.asarray(given.rows(slice(None))), random_state=random_state)
        data = {
            "decoder": name or _name(decoder),
            "latents_name": given.name,
            "rows": given.n,
            "rows_used": len(rows),
            "latents": ready.d,
            "outputs": ready.outputs,
            "output_shape": list(ready.output_shape),
            "dtype": str(ready.dtype).removeprefix("torch."),
            "kinks": list(ready.kinks),
        }
        settings = {
            "mode": mode,
            "n_directions": n_directions,
            "samples": samples,
            "inactive_below": inactive_below,
            "tol": tol,
            "max_iter": max_iter,
            "memory": memory,
            "random_state": random_state,
        }
        notes = ready.notes
    activity = found.activity
    latents_found = (
        ()
        if activity is None
        else tuple(
            Latent(label, float(share), bool(share > inactive_below))
            for label, share in zip(labels, activity, strict=True)
        )
    )
    facts: dict[str, Any] = {
        "largest": found.largest,
        "smallest": found.smallest,
        "local": found.local,
        "rank": found.rank,
        "rows": rows,
        "ids": None if given.ids is None else given.ids[rows],
        "constants": constants_of(found.largest, found.smallest, found.local),
        "active": None if found.active is None else constants_of(**found.active),
        "active_samples": found.active,
        "isometry": found.isometry,
        "spectrum": found.spectrum,
        "latents": latents_found,
        "directions": found.directions,
        "convexity": spread,
        "certain": found.certain,
        "mode": mode,
        "data": data,
        "settings": settings,
    }
    bare = Geometry(**facts, verdict=(), caveats=(), seconds=0.0)
    return Geometry(
        **facts,
        verdict=verdict_of(bare),
        caveats=caveats_of(bare, notes),
        seconds=time.perf_counter() - began,
    )


def _require_settings(mode: str, count: int, samples: int | None, inactive_below: float, given: Latents) -> None:
    if mode not in MODES:
        raise InputError(f"mode is {mode!r}; known are {', '.join(MODES)}")
    if count < 0 or (mode == "paper" and count < 1):
        raise InputError(f"n_directions is {count}: at least one direction is needed")
    if samples is not None and samples < 1:
        raise InputError(f"samples is {samples}: at least one row is needed")
    if not 0 <= inactive_below < 1:
        raise InputError(f"inactive_below is {inactive_below!r} where a share between 0 and 1 is needed")


def _labels(names: Sequence[str] | None, d: int) -> list[str]:
    if names is None:
        return [f"z{place}" for place in range(d)]
    found = [str(name) for name in names]
    if len(found) != d:
        raise InputError(f"there are {len(found)} names for {d} latents")
    return found


def _columns(latents: Any, d: int) -> list[str] | None:
    """The names that a data frame gives its columns, where they are texts."""
    columns = list(getattr(latents, "columns", ()))
    return columns if len(columns) == d and all(isinstance(name, str) for name in columns) else None


def _name(decoder: Any) -> str:
    return str(getattr(decoder, "__name__", None) or type(decoder).__name__)


_CHECKED = 64  # rows at which random directions are set beside the exact constant
_CHEAP = 2**28  # numbers in the Jacobians of these rows up to which that is done


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured at every row; None for what a mode does not look for."""

    largest: Array
    smallest: Array
    local: Array
    rank: Array | None
    isometry: Isometry
    spectrum: dict[str, Array] | None
    activity: Array | None
    active: dict[str, Array] | None
    directions: Directions | None
    certain: bool


def measured(
    jacobians: Jacobians,
    mode: str,
    n_directions: int,
    inactive_below: float,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Measured:
    """Every row in the way that the mode names; ``rng`` seeds directions and Krylov spaces."""
    seed = int(rng.integers(2**31))
    if mode == "paper":
        return _by_directions(jacobians, n_directions, seed, progress)
    beside = None
    if mode == "matrix_free" and jacobians.ready.d > EXACT_UP_TO:
        found = krylov(jacobians, tol, max_iter, seed, progress)
        largest, smallest = found.largest, _above_rounding(jacobians, found.smallest, found.largest)
        local = local_constants(largest, smallest)
        isometry = isometry_of(largest, smallest, None)
        certain = bool(found.converged.all())
        return Measured(largest, smallest, local, None, isometry, None, None, None, beside, certain)
    values, norms = _spectra(jacobians, progress)
    largest = values[:, 0]
    smallest = np.where(jacobians.ready.outputs >= jacobians.ready.d, values[:, -1], 0.0)
    smallest = _above_rounding(jacobians, smallest, largest)
    local = local_constants(largest, smallest)
    rank = (values > rounding(jacobians) * np.maximum(largest, 1e-300)[:, None]).sum(1)
    if n_directions and jacobians.ways.forward is not None:
        estimates = _directional(jacobians, n_directions, seed, no_progress)[2]
        beside = _directions(n_directions, estimates, local)
    longest = norms.max()
    activity = norms.max(0) / longest if longest > 0 else np.zeros(norms.shape[1])
    return Measured(
        largest,
        smallest,
        local,
        rank,
        isometry_of(largest, smallest, _mean_square(values, jacobians.ready.d)),
        {f"{level:g}": np.quantile(values, level, axis=0) for level in QUANTILES},
        activity,
        _active(jacobians, np.flatnonzero(activity > inactive_below), progress),
        beside,
        True,
    )


def _spectra(jacobians: Jacobians, progress: Progress | None, columns: Array | None = None) -> tuple[Array, Array]:
    parts = list(spectra(jacobians, progress, columns))
    return np.concatenate([values for _, values, _ in parts]), np.concatenate([norms for _, _, norms in parts])


def _active(jacobians: Jacobians, columns: Array, progress: Progress | None) -> dict[str, Array] | None:
    """The extremes at each row of the map from the active latents alone; None where all are active, or none is."""
    if len(columns) in (0, jacobians.ready.d):
        return None
    values, _ = _spectra(jacobians, progress, columns)
    largest = values[:, 0]
    smallest = np.where(jacobians.ready.outputs >= len(columns), values[:, -1], 0.0)
    smallest = _above_rounding(jacobians, smallest, largest)
    return {"largest": largest, "smallest": smallest, "local": local_constants(largest, smallest)}


def _by_directions(jacobians: Jacobians, count: int, seed: int, progress: Progress | None) -> Measured:
    largest, smallest, local = _directional(jacobians, count, seed, progress or no_progress)
    checked = np.unique(np.linspace(0, len(local) - 1, min(len(local), _CHECKED)).round().astype(int))
    exact = None
    if len(checked) * jacobians.ready.outputs * jacobians.ready.d <= _CHEAP:
        few = Jacobians(
            jacobians.latents.chosen(checked), jacobians.ready, jacobians.ways, jacobians.direction, jacobians.memory
        )
        values, _ = _spectra(few, None)
        low = np.where(few.ready.outputs >= few.ready.d, values[:, -1], 0.0)
        exact = local_constants(values[:, 0], _above_rounding(few, low, values[:, 0]))
    beside = _directions(count, local if exact is None else local[checked], exact)
    isometry = isometry_of(largest, smallest, None)
    return Measured(largest, smallest, local, None, isometry, None, None, None, beside, False)


def _directional(jacobians: Jacobians, count: int, seed: int, report: Progress) -> tuple[Array, Array, Array]:
    """The longest and the shortest image of random unit vectors at each row, and the constants these give."""
    torch, ready, n = import_torch(), jacobians.ready, jacobians.latents.n
    rng = np.random.default_rng(seed)
    norms = np.empty((n, count))
    size = int(np.clip(jacobians.memory // (count * 5 * ready.widest * ready.itemsize), 1, n))
    report("random directions", 0, n)
    for rows in blocks(n, size):
        vectors = rng.standard_normal((rows.stop - rows.start, count, ready.d))
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        push = jacobians.ways.push(ready.tensor(jacobians.latents.rows(rows)))
        images = push(ready.tensor(vectors.transpose(1, 0, 2))).to(torch.float64)
        norms[rows] = torch.linalg.vector_norm(images, dim=2).cpu().numpy().T
        report("random directions", rows.stop, n)
    if not np.isfinite(norms).all():
        row = int(np.argmin(np.isfinite(norms).all(1)))
        raise InputError(f"the decoder's Jacobian is not finite at row {row} of {jacobians.latents.name}")
    largest, smallest = norms.max(1), norms.min(1)
    return largest, smallest, local_constants(largest, smallest)


def _directions(count: int, estimates: Array, exact: Array | None) -> Directions:
    return Directions(
        count,
        len(estimates),
        float(estimates.max()),
        float(estimates.mean()),
        None if exact is None else float(exact.max()),
        None if exact is None else float(exact.mean()),
    )


def local_constants(largest: Array, smallest: Array) -> Array:
    r""":math:`\max(\sigma_{\max},1/\sigma_{\min})` at each row; infinite where the smallest is 0."""
    with np.errstate(divide="ignore"):
        return np.maximum(largest, np.divide(1.0, smallest))


def constants_of(largest: Array, smallest: Array, local: Array) -> Constants:
    """The constants over a sample, from the extremes at each row."""
    high, low = float(largest.max()), float(smallest.min())
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(smallest > 0, largest / smallest, np.inf)
    levels = np.sort(local)
    return Constants(
        constant=float(local.max()),
        mean_constant=float(local.mean()),
        quantiles={f"{level:g}": _quantile(levels, level) for level in QUANTILES},
        similarity_constant=float(np.sqrt(high / low)) if low > 0 else float("inf"),
        scale=float(1 / np.sqrt(high * low)) if low > 0 else None,
        condition=float(condition.max()),
        median_condition=_quantile(np.sort(condition), 0.5),
    )


def isometry_of(largest: Array, smallest: Array, mean_square: float | None) -> Isometry:
    """What the extremes say about dynamical isometry."""
    delta = float(max(np.max(np.abs(largest - 1)), np.max(np.abs(smallest - 1))))
    text, sharp = ((1 + delta) / (1 - delta), 1 / (1 - delta)) if delta < 1 else (float("inf"), float("inf"))
    return Isometry(delta, mean_square, text, sharp)


def rounding(jacobians: Jacobians) -> float:
    """What cannot be told from zero in a Jacobian, of its largest singular value."""
    eps = float(import_torch().finfo(jacobians.ready.dtype).eps)
    return 16 * eps * float(np.sqrt(max(jacobians.ready.d, 16)))


def _above_rounding(jacobians: Jacobians, smallest: Array, largest: Array) -> Array:
    return np.where(smallest > rounding(jacobians) * largest, smallest, 0.0)


def _mean_square(values: Array, d: int) -> float:
    """The mean of (sigma - 1)^2 over d values a row: directions that are lost have none, and count as 0."""
    lost = d - values.shape[1]
    return float((((values - 1) ** 2).sum() + lost * len(values)) / (d * len(values)))


def _quantile(ordered: Array, level: float) -> float:
    """A quantile of sorted values that may be infinite, which cannot be interpolated."""
    return float(ordered[min(int(np.ceil(level * len(ordered))), len(ordered)) - 1])
