"""Bi-Lipschitz constants of a decoder at a sample of latents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comparison.settings import check_seed
from ..errors import InputError
from ..rows import Progress
from .convexity import convexity
from .geometry import Geometry, Latent
from .jacobians import opened
from .latents import Latents, as_latents
from .measured import constants_of, measured
from .preparing import MEMORY
from .reading import caveats_of, verdict_of

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
