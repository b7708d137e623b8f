"""Blocks, tolerances and Jacobians as callers write them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ..latents import as_latents
from .views import PRECISION, viewed

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
