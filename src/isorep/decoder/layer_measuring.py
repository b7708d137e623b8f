"""One layer of two networks: the rest's singular values, the errors between the layers, and the bound on them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..comparison import compare
from ..errors import InputError
from ..representation import Array, Representation
from .bounds import bounds
from .layers_result import Layer, Rest, Seen
from .rigid_error import rigid_errors
from .splitting import Split, passes_by, rest_jacobians
from .spreads import quartic_spread, rms_radius

if TYPE_CHECKING:
    import torch

_ROUNDING = 1e-6  # singular values below this share of the largest are lost: networks work in float32


def measure_rest(split: Split, values: torch.Tensor, inputs: torch.Tensor) -> tuple[Rest, Array]:
    """The singular values of the rest at some examples, and the space of all directions it sees."""
    largest, smallest, ranks, seen = [], [], [], None
    outputs = 0
    for block in rest_jacobians(split, values, inputs):
        singular = np.linalg.svd(block, compute_uv=False)
        outputs, width = block.shape[1:]
        kept = singular > _ROUNDING * singular[:, :1]
        ranks.append(kept.sum(axis=1))
        largest.append(singular[:, 0])
        smallest.append(np.where(kept, singular, np.inf).min(axis=1))
        rows = block.reshape(-1, width)
        stacked = rows if seen is None else np.concatenate([seen, rows])
        seen = np.asarray(np.linalg.qr(stacked, mode="r")) if len(stacked) > width else stacked
    if seen is None or not seen.any():
        end = "output" if split.to is None else split.to
        raise InputError(f"{end} does not depend on the layer {split.layer!r}: it is computed before it, or beside it")
    rank, low, high = np.concatenate(ranks), np.concatenate(smallest), np.concatenate(largest)
    _, spread, axes = np.linalg.svd(seen, full_matrices=False)
    together = int((spread > _ROUNDING * spread[0]).sum())
    width = axes.shape[1]
    least = float(low.min()) if rank.min() > 0 else 0.0
    rest = Rest(
        outputs=outputs,
        width=width,
        rank=int(rank.min()),
        median_rank=float(np.median(rank)),
        union=together,
        largest=float(high.max()),
        smallest=least if int(rank.min()) == width else 0.0,
        seen_smallest=least,
        depends_on_input=passes_by(split, values, inputs),
    )
    return rest, axes[:together]


def measure_layer(
    name: str,
    kind: str,
    values: list[Array],
    rests: tuple[Rest, ...],
    spaces: tuple[Array, ...],
    folds: int,
    n_null: int,
    seed: int,
) -> Layer:
    """The errors between two layers beside what their rests allow."""
    x, y = (_rotated(side) for side in values)
    if min(np.ptp(x, axis=0).max(), np.ptp(y, axis=0).max()) == 0:
        raise InputError(f"the layer {name!r} puts out the same for all inputs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        compared = compare(
            Representation(x, name="first"),
            Representation(y, name="second"),
            rungs=("rigid", "linear"),
            folds=folds,
            n_null=n_null,
            n_boot=0,
            diameter="auto",
            worst_case=False,
            random_state=seed,
        )
    unit, source = compared.diameter.value, compared.reverse.diameter.value
    errors = rigid_errors(x, y, unit, folds, seed)
    sizes: dict[str, Any] = {
        "diameter": source / unit,
        "target_diameter": 1.0,
        "radii": (rms_radius(x) / unit, rms_radius(y) / unit),
        "spread": quartic_spread(x) / unit,
    }
    widths = (values[0].shape[1], values[1].shape[1])
    allowed = bounds(*rests, dimension=widths, **sizes)
    seen = None
    if any(rest.lost for rest in rests) and all(rest.union for rest in rests):
        seen = _seen(values, rests, spaces, folds, seed)
    return Layer(
        name=name,
        kind=kind,
        widths=widths,
        rests=(rests[0], rests[1]),
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled=compared.rungs["rigid"].in_diameters.held_out,
        linear=compared.rungs["linear"].in_diameters.held_out,
        null=compared.rungs["rigid"].in_diameters.null,
        bound=allowed.rms,
        needed=allowed.needed,
        seen=seen,
    )


def _seen(
    values: list[Array], rests: tuple[Rest, ...], spaces: tuple[Array, ...], folds: int, seed: int
) -> Seen | None:
    """The parts of both layers in the directions that the rest sees: their error, and the bound on it."""
    x, y = (side @ space.T for side, space in zip(values, spaces, strict=True))
    if min(np.ptp(x, axis=0).max(), np.ptp(y, axis=0).max()) == 0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        compared = compare(x, y, rungs=("rigid", "linear"), folds=folds, n_null=0, n_boot=0, worst_case=False)
    unit = compared.diameter.value
    allowed = bounds(
        *(replace(rest, smallest=rest.seen_smallest) for rest in rests),
        dimension=(x.shape[1], y.shape[1]),
        diameter=compared.reverse.diameter.value / unit,
        target_diameter=1.0,
        radii=(rms_radius(x) / unit, rms_radius(y) / unit),
        spread=quartic_spread(x) / unit,
    )
    return Seen(
        widths=(x.shape[1], y.shape[1]),
        held_out=rigid_errors(x, y, unit, folds, seed).held_out,
        scaled=compared.rungs["rigid"].in_diameters.held_out,
        linear=compared.rungs["linear"].in_diameters.held_out,
        bound=allowed.rms,
    )


def _rotated(values: Array) -> Array:
    """Wide rows in a basis of their own span: rotations and distances stay what they are, and fits get cheap."""
    n, d = values.shape
    if d <= n:
        return values
    centred = values - values.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    return np.asarray(centred @ axes.T)
