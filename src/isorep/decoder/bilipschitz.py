"""Bi-Lipschitz constants of a decoder at a sample of latents: singular values, ranks, columns, random directions."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, blocks, no_progress
from ..settings import check_choice, check_counts, check_seed
from .convexity import convexity
from .geometry import QUANTILES, Constants, Directions, Geometry, Isometry, Latent
from .jacobian import Jacobians, not_finite, opened
from .prepare import MEMORY, as_latents, import_torch
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
    r"""Measure how far a decoder is from an isometry: its local bi-Lipschitz constants at a sample of latents.

    .. math:: 1+L(z)=\max\big(\sigma_{\max}(J_g(z)),\ 1/\sigma_{\min}(J_g(z))\big)

    A decoder is locally :math:`(1+L)`-bi-Lipschitz if it stretches no direction by more than :math:`1+L` and shrinks
    none by more. The constant of the sample is the largest local one; it is infinite where a direction is lost.

    Parameters
    ----------
    decoder, latents, memory, device, progress
        As in :func:`jacobian`.
    mode : {"exact", "paper", "matrix_free"}
        ``exact`` (default) computes all singular values. ``paper`` uses the norms of ``n_directions`` random
        directions, which underestimates the constant, more so with more latents. ``matrix_free`` computes the extreme
        singular values, by :func:`extreme_singular_values` with more than 2048 latents.
    n_directions : int
        Number of random directions per row; their estimate is also reported with the exact constant. 0 for none.
    names : sequence of str, optional
        Names of the latents; default: the columns of a data frame, or z0, z1 and so on.
    samples : int, optional
        Number of rows at which to compute, drawn at random; default: all. Convexity is probed on all rows.
    inactive_below : float
        A latent is inactive if its Jacobian column norm is nowhere above this share of the largest.
    tol, max_iter
        As in :func:`extreme_singular_values`.
    name : str, optional
        Name of the decoder.
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
    check_choice("mode", mode, MODES)
    check_counts(n_directions=(n_directions, int(mode == "paper")), samples=(1 if samples is None else samples, 1))
    if not 0 <= inactive_below < 1:
        raise InputError(f"inactive_below is {inactive_below!r} where a share between 0 and 1 is needed")
    given = as_latents(latents)
    labels = _columns(latents, given.d) if names is None else [str(name) for name in names]
    if len(labels) != given.d:
        raise InputError(f"there are {len(labels)} names for {given.d} latents")
    rng = np.random.default_rng(random_state)
    rows = np.arange(given.n)
    if samples is not None and samples < given.n:
        rows = np.sort(rng.choice(given.n, samples, replace=False))
    search = Search(mode, n_directions, inactive_below, tol, max_iter, int(rng.integers(2**31)))
    with opened(decoder, given if len(rows) == given.n else given.chosen(rows), "auto", memory, device) as jacobians:
        found = measure(jacobians, search, progress)
        ready = jacobians.ready
    activity, active = found.pop("activity", ()), found.get("active_samples")
    return Geometry(
        **found,
        rows=rows,
        ids=None if given.ids is None else given.ids[rows],
        constants=constants_of(found["largest"], found["smallest"], found["local"]),
        active=None if active is None else constants_of(**active),
        latents=tuple(
            Latent(label, float(share), bool(share > inactive_below))
            for label, share in zip(labels, activity, strict=False)
        ),
        convexity=convexity(np.asarray(given.rows(slice(None))), random_state=random_state),
        mode=mode,
        data={
            "decoder": name or str(getattr(decoder, "__name__", None) or type(decoder).__name__),
            "latents_name": given.name,
            "rows": given.n,
            "rows_used": len(rows),
            "latents": ready.d,
            "outputs": ready.outputs,
            "output_shape": list(ready.output_shape),
            "dtype": str(ready.dtype).removeprefix("torch."),
            "kinks": list(ready.kinks),
        },
        notes=ready.notes,
        settings={
            **{name: value for name, value in vars(search).items() if name != "seed"},
            "samples": samples,
            "memory": memory,
            "random_state": random_state,
        },
        seconds=time.perf_counter() - began,
    )


def _columns(latents: Any, d: int) -> list[str]:
    """The names that a data frame gives its columns, where they are texts; z0, z1 and so on otherwise."""
    given = getattr(latents, "columns", None)
    columns = [] if given is None else list(given)
    texts = len(columns) == d and all(isinstance(name, str) for name in columns)
    return columns if texts else [f"z{index}" for index in range(d)]


_CHECKED = 64  # rows at which random directions are compared with the exact constant
_CHEAP = 2**28  # numbers in the Jacobians of these rows up to which that is done


@dataclass(frozen=True)
class Search:
    """Settings of the measurement; ``seed`` is that of directions and Krylov spaces."""

    mode: str
    n_directions: int
    inactive_below: float
    tol: float
    max_iter: int
    seed: int


def measure(jacobians: Jacobians, search: Search, progress: Progress | None) -> dict[str, Any]:
    """Extremes at every row, by the given mode, and further fields of Geometry."""
    if search.mode == "paper":
        return _by_directions(jacobians, search, progress)
    if search.mode == "matrix_free" and jacobians.ready.d > EXACT_UP_TO:
        krylov_space = krylov(jacobians, search.tol, search.max_iter, search.seed, progress)
        ends = _ends(jacobians, krylov_space.largest, krylov_space.smallest)
        return {**ends, "isometry": isometry_of(ends, None), "certain": bool(krylov_space.converged.all())}
    values, norms = _spectra(jacobians, progress)
    ends = _spectral_ends(jacobians, values, jacobians.ready.d)
    beside = None
    if search.n_directions and jacobians.ways.forward is not None:
        estimates = _directional(jacobians, search, no_progress)
        beside = _directions(search.n_directions, estimates["local"], ends["local"])
    activity = norms.max(0) / (norms.max() or 1.0)
    return {
        **ends,
        "isometry": isometry_of(ends, _mean_square(values, jacobians.ready.d)),
        "certain": True,
        "rank": (values > rounding(jacobians) * np.maximum(ends["largest"], 1e-300)[:, None]).sum(1),
        "spectrum": {f"{level:g}": np.quantile(values, level, axis=0) for level in QUANTILES},
        "activity": activity,
        "active_samples": _active(jacobians, np.flatnonzero(activity > search.inactive_below), progress),
        "directions": beside,
    }


def _spectra(jacobians: Jacobians, progress: Progress | None, columns: Array | None = None) -> tuple[Array, Array]:
    parts = list(spectra(jacobians, progress, columns))
    return np.concatenate([values for _, values, _ in parts]), np.concatenate([norms for _, _, norms in parts])


def _active(jacobians: Jacobians, columns: Array, progress: Progress | None) -> dict[str, Array] | None:
    """The extremes at each row of the map from the active latents alone; None where all are active, or none is."""
    if len(columns) in (0, jacobians.ready.d):
        return None
    return _spectral_ends(jacobians, _spectra(jacobians, progress, columns)[0], len(columns))


def _by_directions(jacobians: Jacobians, search: Search, progress: Progress | None) -> dict[str, Any]:
    ends = _directional(jacobians, search, progress or no_progress)
    estimates, exact = ends["local"], None
    checked = np.unique(np.linspace(0, len(estimates) - 1, min(len(estimates), _CHECKED)).round().astype(int))
    if len(checked) * jacobians.ready.outputs * jacobians.ready.d <= _CHEAP:
        few = replace(jacobians, latents=jacobians.latents.chosen(checked))
        exact = _spectral_ends(few, _spectra(few, None)[0], few.ready.d)["local"]
        estimates = estimates[checked]
    beside = _directions(search.n_directions, estimates, exact)
    return {**ends, "isometry": isometry_of(ends, None), "certain": False, "directions": beside}


def _directional(jacobians: Jacobians, search: Search, report: Progress) -> dict[str, Any]:
    """The longest and the shortest image of random unit vectors at each row, and the constants these give."""
    torch, ready, n, count = import_torch(), jacobians.ready, jacobians.latents.n, search.n_directions
    rng = np.random.default_rng(search.seed)
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
        raise not_finite(int(np.argmin(np.isfinite(norms).all(1))), jacobians.latents)
    largest, smallest = norms.max(1), norms.min(1)
    return {"largest": largest, "smallest": smallest, "local": local_constants(largest, smallest)}


def _directions(count: int, estimates: Array, exact: Array | None) -> Directions:
    known = (None, None) if exact is None else (float(exact.max()), float(exact.mean()))
    return Directions(count, len(estimates), float(estimates.max()), float(estimates.mean()), *known)


def _spectral_ends(jacobians: Jacobians, values: Array, width: int) -> dict[str, Any]:
    """The extremes of all singular values; with fewer outputs than latents the smallest is 0."""
    smallest = values[:, -1] if jacobians.ready.outputs >= width else np.zeros(len(values))
    return _ends(jacobians, values[:, 0], smallest)


def _ends(jacobians: Jacobians, largest: Array, smallest: Array) -> dict[str, Any]:
    """Extremes, the smallest 0 where it is below rounding, and the constants they give."""
    smallest = np.where(smallest > rounding(jacobians) * largest, smallest, 0.0)
    return {"largest": largest, "smallest": smallest, "local": local_constants(largest, smallest)}


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
        similarity_constant=float(np.sqrt(high / low)) if low > 0 else math.inf,
        scale=float(1 / np.sqrt(high * low)) if low > 0 else None,
        condition=float(condition.max()),
        median_condition=_quantile(np.sort(condition), 0.5),
    )


def isometry_of(ends: dict[str, Any], mean_square: float | None) -> Isometry:
    """Dynamical isometry from the extremes."""
    delta = float(max(np.abs(ends[side] - 1).max() for side in ("largest", "smallest")))
    text, sharp = ((1 + delta) / (1 - delta), 1 / (1 - delta)) if delta < 1 else (math.inf, math.inf)
    return Isometry(delta, mean_square, text, sharp)


def rounding(jacobians: Jacobians) -> float:
    """The rounding of a Jacobian, relative to its largest singular value."""
    eps = float(import_torch().finfo(jacobians.ready.dtype).eps)
    return 16 * eps * float(np.sqrt(max(jacobians.ready.d, 16)))


def _mean_square(values: Array, d: int) -> float:
    """The mean of (sigma - 1)^2 over d values per row; lost directions have sigma 0."""
    lost = d - values.shape[1]
    return float((((values - 1) ** 2).sum() + lost * len(values)) / (d * len(values)))


def _quantile(ordered: Array, level: float) -> float:
    """A quantile of sorted values that may be infinite, which cannot be interpolated."""
    return float(ordered[min(int(np.ceil(level * len(ordered))), len(ordered)) - 1])
