"""``isorep.decoder.pair``: two decoders and their latents, what is measured beside what the theory promises.

All bounds for a pair of decoders, in diameters of the second model's latents.
"""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..comparison import Comparison, compare
from ..errors import InputError
from ..representation import Array, Representation, match_rows
from ..rows import Progress
from ..settings import check_counts, check_seed
from .bilipschitz import bilipschitz
from .bound import Bounds
from .bounds import bounds
from .distances import Chords, Mismatch, chords, paired_outputs, quartic_spread, rigid_errors, rms_radius
from .geometry import Geometry
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
    geometries = []
    for decoder, latents, name in zip((first, second), sides, names, strict=True):
        try:
            found = bilipschitz(
                decoder,
                latents,
                mode=mode,
                samples=samples,
                device=device,
                name=name,
                random_state=random_state,
                progress=progress,
            )
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        geometries.append(found)
    x, y = (np.asarray(side.rows(slice(None)), dtype=np.float64) for side in sides)
    compared = _compared(x, y, names, folds, n_null, random_state, progress)
    unit = compared.diameter.value
    errors = rigid_errors(x, y, unit, folds, random_state)
    rows = _some_rows(len(x), random_state)
    u, v, apart = paired_outputs((first, second), sides, rows, device)
    seen = (chords(x[rows], u), chords(y[rows], v))
    ties = pair_bounds(geometries, (x, y), rows, seen, apart, compared, c_d)
    ica = conditioning(x, y, compared.worst_case["rigid"].upper * unit if compared.worst_case else None, random_state)
    assumptions = assumptions_of(geometries, seen, apart)
    rounding = sum(map(_rounding, sides, geometries, (x, y))) / unit
    findings = findings_of(ties, compared, errors, assumptions, rounding)
    sources = zip(names, sides, geometries, seen, (compared.reverse.diameter, compared.diameter), strict=True)
    described = [_side(*each) for each in sources]
    return DecoderPair(
        first=described[0],
        second=described[1],
        unit=unit,
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled_held_out=compared.rungs["rigid"].in_diameters.held_out,
        scaled_in_sample=compared.rungs["rigid"].in_diameters.in_sample,
        linear=compared.rungs["linear"].in_diameters.held_out,
        null=compared.rungs["rigid"].in_diameters.null,
        certificate=None if compared.worst_case is None else compared.worst_case["rigid"],
        scaled_certificate=None if compared.worst_case is None else compared.worst_case["rigid_with_scale"],
        mismatch=apart,
        bounds=ties,
        ica=ica,
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


def _compared(
    x: Array, y: Array, names: tuple[str, str], folds: int, n_null: int, seed: int, progress: Progress | None
) -> Comparison:
    """The ladder; what it warns of is among its caveats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return compare(
            Representation(x, name=names[0]),
            Representation(y, name=names[1]),
            rungs=("rigid", "linear"),
            folds=folds,
            n_null=n_null,
            n_boot=0,
            diameter="exact" if len(x) <= 20_000 else "auto",
            worst_case=True,
            random_state=seed,
            progress=progress,
        )


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


def _side(name: str, latents: Latents, geometry: Geometry, seen: Chords, size: Any) -> DecoderSide:
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
        diameter=float(size.value),
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
    unit = compared.diameter.value
    source = compared.reverse.diameter.value / unit
    x, y = latents
    distances = pdist(x[rows]) / unit
    sizes: dict[str, Any] = {
        "dimension": (x.shape[1], y.shape[1]),
        "diameter": source,
        "target_diameter": 1.0,
        "radii": (rms_radius(x) / unit, rms_radius(y) / unit),
        "spread": quartic_spread(x) / unit,
        "c_d": c_d,
    }
    first, second = geometries
    found = {"equal_outputs": bounds(first, second, **sizes)}
    if apart is not None:
        differ: dict[str, Any] = {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
        found["with_mismatch"] = bounds(first, second, **differ, **sizes)
        found["chords"] = bounds(seen[0], seen[1], **differ, **sizes)
    changed = float(np.abs(pdist(y[rows]) / unit - distances).max())
    if compared.worst_case is not None:  # some rows against all
        changed = max(changed, compared.worst_case["rigid"].distortion)
    found["defect"] = bounds(defect=changed / source, **sizes)
    scaled = _scaled(first, second, sizes)
    if scaled is not None:
        found["scaled"] = scaled
    found["mean"] = bounds(*(_averaged(side) for side in geometries), **sizes)
    return found


def _averaged(side: Geometry) -> SimpleNamespace:
    """The means of the extreme singular values in the place of the extremes: no bound follows from them."""
    return SimpleNamespace(smallest=float(np.mean(side.smallest)), largest=float(np.mean(side.largest)))


def _scaled(first: Geometry, second: Geometry, sizes: dict[str, Any]) -> Bounds | None:
    """With one scale free: the stitching map is rescaled to stretch as much as it shrinks."""
    lows, highs = ([float(end(getattr(side, key))) for side in (first, second)] for end, key in _ENDS)
    if min(lows) <= 0:
        return None
    scale = math.sqrt((lows[1] * highs[1]) / (lows[0] * highs[0]))
    balanced = [
        SimpleNamespace(smallest=low / math.sqrt(low * high), largest=high / math.sqrt(low * high))
        for low, high in zip(lows, highs, strict=True)
    ]
    source = {key: sizes[key] / scale for key in ("diameter", "spread")}
    return bounds(*balanced, **{**sizes, **source, "radii": (sizes["radii"][0] / scale, sizes["radii"][1])})


_ENDS = ((np.min, "smallest"), (np.max, "largest"))
