"""Theorem 1 on two decoders and their latents: what is measured beside what the theory promises."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..comparison import Comparison
from ..errors import InputError
from ..representation import Array, Representation, match_rows
from ..rows import Progress
from ..settings import check_counts, check_seed
from .bilipschitz import bilipschitz
from .bound import Bounds
from .distances import Chords, Mismatch, chords, ladder, paired_outputs, relative_sizes, rigid_errors
from .geometry import Geometry
from .near_isometry import bounds
from .pair_result import DecoderPair, DecoderSide, assumptions_of, caveats_of, findings_of, sentence_of
from .prepare import Latents, as_latents
from .theorems import conditioning

PAIRED_ROWS = 1000
"""Rows whose distances are compared pair by pair."""


def pair(
    first: Any,
    first_latents: Any,
    second: Any,
    second_latents: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    join: bool = False,
    mode: str = "exact",
    samples: int | None = None,
    folds: int = 5,
    n_null: int = 20,
    c_d: float | None = None,
    device: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> DecoderPair:
    r"""Two models side by side: the rigid error that is measured, and the error that Theorem 1 allows.

    For latents :math:`x_i` of the first model and :math:`y_i` of the second, of the same examples, the best rigid
    motion *without a scale* leaves :math:`\|y_i-Tx_i\|`. Beside it stand the certificates from the rows alone, and the
    bounds from the decoders: from the largest local constants, with and without a term for outputs that differ.

    Parameters
    ----------
    first, second : torch modules or functions
        The decoders, as for :func:`jacobian`. No encoder is needed.
    first_latents, second_latents : arrays, tensors, Representations or paths
        Their latents: paired rows. Where widths differ the narrower side is padded with zeros.
    names : pair of str
        What to call the two models.
    join : bool
        Align latents by row id instead of refusing another order or other rows.
    mode, samples, device
        As for :func:`bilipschitz`.
    folds, n_null : int
        As for :func:`isorep.compare`.
    c_d : float, optional
        As for :func:`bounds`.
    random_state : int
        Seed of folds, null and of the rows whose distances are compared.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    DecoderPair

    Examples
    --------
    >>> import torch, isorep
    >>> z = torch.rand(200, 2, generator=torch.manual_seed(0)) - 0.5
    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> found = isorep.decoder.pair(lambda x: x + 0.01 * x**2, z, lambda y: y @ turn.T, (z + 0.01 * z**2) @ turn)
    >>> found.violated, found.in_sample.rms <= found.bounds["equal_outputs"].rms.value
    (False, True)
    """
    check_counts(folds=(folds, 2), n_null=(n_null, 0))
    check_seed(random_state)
    sides = _paired(
        as_latents(first_latents, f"{names[0]} latents"), as_latents(second_latents, f"{names[1]} latents"), join
    )
    search: dict[str, Any] = {"mode": mode, "samples": samples, "device": device, "random_state": random_state}
    geometries = []
    for decoder, latents, name in zip((first, second), sides, names, strict=True):
        try:
            geometries.append(bilipschitz(decoder, latents, name=name, progress=progress, **search))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    x, y = (np.asarray(side.rows(slice(None)), dtype=np.float64) for side in sides)
    size = "exact" if len(x) <= 20_000 else "auto"
    settings: dict[str, Any] = {"folds": folds, "n_null": n_null, "random_state": random_state}
    compared = ladder(x, y, names, diameter=size, worst_case=True, progress=progress, **settings)
    unit, certificates = compared.diameter.value, compared.worst_case or {}
    errors = rigid_errors(x, y, unit, folds, random_state)
    rows = _some_rows(len(x), random_state)
    u, v, apart = paired_outputs((first, second), sides, rows, device)
    seen = (chords(x[rows], u), chords(y[rows], v))
    ties = pair_bounds(geometries, (x, y), rows, seen, apart, compared, c_d)
    largest = certificates["rigid"].upper * unit if certificates else None
    assumptions = assumptions_of(geometries, seen, apart)
    rounding = sum(map(_rounding, sides, geometries, (x, y))) / unit
    findings = findings_of(ties, compared, errors, assumptions, rounding)
    diameters = (compared.reverse.diameter.value, unit)
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    return DecoderPair(
        first=_side(names[0], sides[0], geometries[0], seen[0], diameters[0]),
        second=_side(names[1], sides[1], geometries[1], seen[1], diameters[1]),
        unit=unit,
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled_held_out=rigid.held_out,
        scaled_in_sample=rigid.in_sample,
        linear=linear.held_out,
        null=rigid.null,
        certificate=certificates.get("rigid"),
        scaled_certificate=certificates.get("rigid_with_scale"),
        mismatch=apart,
        bounds=ties,
        ica=conditioning(x, y, largest, random_state),
        assumptions=assumptions,
        findings=findings,
        sentence=sentence_of(ties, errors, findings, names),
        caveats=caveats_of(geometries, compared, apart, len(rows), len(x), names),
        settings={
            "join": bool(join),
            "mode": mode,
            "samples": samples,
            "folds": int(folds),
            "n_null": int(n_null),
            "c_d": c_d,
            "paired_rows": len(rows),
            "random_state": int(random_state),
        },
    )


def _paired(first: Latents, second: Latents, join: bool) -> tuple[Latents, Latents]:
    """Both sides reduced to their common rows."""
    a, b = (Representation(side.values, side.ids, side.name) for side in (first, second))
    match = match_rows(a, b, join=join)
    if match.source_rows is not None:
        first = first.chosen(match.source_rows)
    if match.target_rows is not None:
        second = second.chosen(match.target_rows)
    if first.n < 3:
        raise InputError(f"there are {first.n} rows: at least 3 are needed")
    return first, second


def _rounding(latents: Latents, geometry: Geometry, values: Array) -> float:
    """By how much the precision of the latents, or of the model that made them, can move a row."""
    stored = np.dtype(latents.values.dtype)
    kinds = [stored] if stored.kind == "f" else []
    eps = max(float(np.finfo(kind).eps) for kind in (*kinds, np.dtype(geometry.data["dtype"])))
    return 2 * eps * float(np.linalg.norm(values, axis=1).max())


def _some_rows(n: int, seed: int) -> Array:
    if n <= PAIRED_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, PAIRED_ROWS, replace=False))


def _side(name: str, latents: Latents, geometry: Geometry, seen: Chords, diameter: float) -> DecoderSide:
    return DecoderSide(
        name=name,
        rows=latents.n,
        latents=latents.d,
        outputs=int(geometry.data["outputs"]),
        constant=geometry.constant,
        mean_constant=geometry.mean_constant,
        similarity_constant=geometry.similarity_constant,
        largest=float(np.max(geometry.largest)),
        smallest=float(np.min(geometry.smallest)),
        chord_largest=seen.largest,
        chord_smallest=seen.smallest,
        diameter=float(diameter),
    )


def pair_bounds(
    geometries: list[Geometry],
    latents: tuple[Array, Array],
    rows: Array,
    seen: tuple[Chords, Chords],
    apart: Mismatch | None,
    compared: Comparison,
    c_d: float | None,
) -> dict[str, Bounds]:
    """Bounds from the decoders, from chords, from the measured defect; and what mean constants would give."""
    unit, (x, y) = compared.diameter.value, latents
    sizes = relative_sizes(x, y, compared) | {"c_d": c_d}
    first, second = geometries
    ties = {"equal_outputs": bounds(first, second, **sizes)}
    if apart is not None:
        differ: dict[str, Any] = {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
        ties["with_mismatch"] = bounds(first, second, **differ, **sizes)
        ties["chords"] = bounds(seen[0], seen[1], **differ, **sizes)
    changed = float(np.abs(pdist(y[rows]) / unit - pdist(x[rows]) / unit).max())
    if compared.worst_case is not None:  # some rows against all
        changed = max(changed, compared.worst_case["rigid"].distortion)
    ties["defect"] = bounds(defect=changed / sizes["diameter"], **sizes)
    scaled = _scaled(first, second, sizes)
    if scaled is not None:
        ties["scaled"] = scaled
    ties["mean"] = bounds(*(_averaged(side) for side in geometries), **sizes)
    return ties


def _averaged(side: Geometry) -> SimpleNamespace:
    """The means of the extreme singular values in the place of the extremes: no bound follows from them."""
    return SimpleNamespace(smallest=float(np.mean(side.smallest)), largest=float(np.mean(side.largest)))


def _scaled(first: Geometry, second: Geometry, sizes: dict[str, Any]) -> Bounds | None:
    """With one scale free: the stitching map is rescaled to stretch as much as it shrinks."""
    lows = [float(np.min(side.smallest)) for side in (first, second)]
    highs = [float(np.max(side.largest)) for side in (first, second)]
    if min(lows) <= 0:
        return None
    scale = math.sqrt((lows[1] * highs[1]) / (lows[0] * highs[0]))
    balanced = [
        SimpleNamespace(smallest=low / math.sqrt(low * high), largest=high / math.sqrt(low * high))
        for low, high in zip(lows, highs, strict=True)
    ]
    source = {key: sizes[key] / scale for key in ("diameter", "spread")}
    return bounds(*balanced, **{**sizes, **source, "radii": (sizes["radii"][0] / scale, sizes["radii"][1])})
