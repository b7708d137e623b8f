"""Layers of two trainings: the rest's singular values, the errors between the layers, and the bound on them (A.3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, no_progress
from ..settings import check_counts, check_seed
from .distances import ladder, relative_sizes, rigid_errors, rms_radius
from .layers_result import Layer, LayerGeometry, Rest, Seen
from .near_isometry import bounds
from .prepare import evaluating
from .split import (
    Split,
    as_inputs,
    default_layers,
    in_single,
    layer_outputs,
    passes_by,
    require_layers,
    require_network,
    require_rows,
    rest_jacobians,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

OUTPUT = "output"


def layers(
    first: Any,
    second: Any,
    inputs: Any,
    layers: Sequence[str] | None = None,
    *,
    to: str = OUTPUT,
    samples: int = 200,
    names: tuple[str, str] = ("first", "second"),
    folds: int = 5,
    n_null: int = 10,
    random_state: int = 0,
    progress: Progress | None = None,
) -> LayerGeometry:
    r"""Every layer of two trainings of a network: how rigid the rest is, and how near the layers are (A.3.4).

    A network is split at a layer into what comes before, :math:`f`, and the rest, :math:`g`. Theorem 1 holds for any
    such split: where both trainings have equal outputs and :math:`g` is :math:`(1+L)`-bi-Lipschitz, the layers agree
    up to a rigid motion within :math:`c_D\sqrt{2L+L^2}\,\Delta`. Where the rest narrows, some directions of the layer
    leave no trace in the output: the constant is infinite, and the constant over the directions that the rest sees (the
    row spaces of its Jacobians) is given beside it.

    Parameters
    ----------
    first, second : torch.nn.Module
        Two trainings of a network, or two networks with layers of these names.
    inputs : (n, ...) array or tensor
        Examples that both are run on.
    layers : sequence of str, optional
        Dotted names of submodules. By default the children of a ``Sequential``, or all modules without children, in
        the order of execution.
    to : str
        Where the rest ends: ``"output"``, or a dotted name such as that of the penultimate layer, which supervised
        training identifies up to a linear map.
    samples : int
        Jacobians are taken at so many of the examples.
    names : pair of str
        What to call the two networks.
    folds, n_null : int
        As for :func:`isorep.compare`.
    random_state : int
        Seed of samples, folds and null.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    LayerGeometry

    Examples
    --------
    >>> import torch, isorep
    >>> _ = torch.manual_seed(0)
    >>> made = [torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 5)) for _ in "ab"]
    >>> found = isorep.decoder.layers(*made, torch.randn(60, 4))
    >>> [layer.name for layer in found.layers], found.layers[0].rests[0].lost
    (['0', '1'], 0)
    """
    check_counts(samples=(samples, 2), folds=(folds, 2), n_null=(n_null, 0))
    check_seed(random_state)
    given = (require_network(first, "the first network"), require_network(second, "the second network"))
    networks = (in_single(given[0]), in_single(given[1]))
    report, end = progress or no_progress, None if to == OUTPUT else to
    with evaluating(networks):
        rows = [as_inputs(inputs, network) for network in networks]
        chosen, left_out = _chosen(networks, rows, layers, end, names)
        wanted = chosen if end is None else [*chosen, end]
        caught = [layer_outputs(network, each, wanted) for network, each in zip(networks, rows, strict=True)]
        picked = np.random.default_rng(random_state).choice(len(rows[0]), min(len(rows[0]), samples), replace=False)
        picked = np.sort(picked)
        measured = []
        for index, name in enumerate(chosen):
            report("layers", index, len(chosen))
            rests, spaces = zip(
                *(
                    measure_rest(Split(network, name, end), outputs[name][picked], each[picked])
                    for network, each, (outputs, _) in zip(networks, rows, caught, strict=True)
                ),
                strict=True,
            )
            values = [_flat(outputs[name]) for outputs, _ in caught]
            kind = type(networks[0].get_submodule(name)).__name__
            measured.append(measure_layer(name, kind, values, rests, spaces, folds, n_null, random_state))
        report("layers", len(chosen), len(chosen))
        ends = [_flat(last if end is None else outputs[end]) for outputs, last in caught]
    return LayerGeometry(
        layers=tuple(measured),
        to=to,
        names=names,
        rows=len(ends[0]),
        samples=len(picked),
        mismatch=_mismatch(*ends),
        spearman=_spearman(measured),
        caveats=_caveats(measured, left_out, to, len(ends[0]), networks != given),
        settings={
            "layers": None if layers is None else list(layers),
            "to": to,
            "samples": int(samples),
            "folds": int(folds),
            "n_null": int(n_null),
            "random_state": int(random_state),
        },
    )


def _chosen(
    networks: tuple[nn.Module, nn.Module],
    rows: list[torch.Tensor],
    layers: Sequence[str] | None,
    end: str | None,
    names: tuple[str, str],
) -> tuple[list[str], list[str]]:
    """The layers to split at, and those that were left out with the reason."""
    left_out: list[str] = []
    if layers is None:
        (chosen, left_out), (others, _) = map(default_layers, networks, rows)
        chosen = [name for name in chosen if name in others]
        if end in chosen:
            chosen = chosen[: chosen.index(end)]
        if end is None and len(chosen) > 1:
            chosen = _without_the_end(networks[0], rows[0], chosen)
    else:
        chosen = list(dict.fromkeys([layers] if isinstance(layers, str) else layers))
        if end in chosen:
            raise InputError(f"the rest ends at {end!r}, so there is nothing between it and the layer of that name")
    if not chosen:
        raise InputError("there is no layer to split at: name some")
    for network, inputs, name in zip(networks, rows, names, strict=True):
        require_rows(network, inputs, f"the {name} network")
        require_layers(network, inputs, chosen if end is None else [*chosen, end], f"the {name} network")
    return chosen, left_out


def _without_the_end(network: nn.Module, inputs: torch.Tensor, chosen: list[str]) -> list[str]:
    """The last layer is left out where it is the output itself: its rest does nothing."""
    caught, end = layer_outputs(network, inputs[:2], chosen[-1:])
    last = caught[chosen[-1]]
    same = last.numel() == end.numel() and bool((last.reshape(-1) == end.reshape(-1)).all())
    return chosen[:-1] if same else chosen


def _flat(values: torch.Tensor) -> Array:
    return np.asarray(values.reshape(len(values), -1).double().cpu().numpy())


def _mismatch(first: Array, second: Array) -> float | None:
    """The root mean square difference of the outputs in units of their spread; None where widths differ."""
    if first.shape != second.shape:
        return None
    spread = np.sqrt((rms_radius(first) ** 2 + rms_radius(second) ** 2) / 2)
    return float(np.sqrt(((first - second) ** 2).sum(axis=1).mean()) / spread) if spread > 0 else 0.0


def _spearman(layers: list[Layer]) -> float | None:
    """Rank correlation over the layers of the rest's constant, up to scale, with the rigid error, scale fitted."""
    constants = [layer.similarity_constant for layer in layers]
    if len(layers) < 4 or not np.isfinite(constants).all() or len(set(constants)) < 2:
        return None
    return float(spearmanr(constants, [layer.scaled.mean for layer in layers]).statistic)


def _caveats(layers: list[Layer], left_out: list[str], to: str, rows: int, half: bool) -> tuple[str, ...]:
    said = [f"left out: {each}" for each in left_out]
    if half:
        said.append("weights are stored in half precision; everything was computed in float32")
    past = [layer.name for layer in layers if any(rest.depends_on_input for rest in layer.rests)]
    if past:
        said.append(
            f"paths lead past {', '.join(past)}: the rest there also depends on the input, each example was split with "
            "its own input held fixed, and Theorem 1, which wants one decoder for all examples, does not cover these "
            "layers"
        )
    narrow = [layer.name for layer in layers if any(rest.lost for rest in layer.rests)]
    if narrow:
        said.append(
            f"the rest loses directions of {', '.join(narrow)}: the constant is infinite there, and only what the rest "
            "sees can be identified"
        )
    wide = max(max(layer.widths) for layer in layers)
    if rows < 5 * wide:
        said.append(f"there are {rows} rows for layers of up to {wide} units: held-out linear errors overstate")
    where = "the output" if to == OUTPUT else to
    said.append(f"constants are the largest over a sample of examples; the rest ends at {where}")
    return tuple(said)


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
    if _constant(x, y):
        raise InputError(f"the layer {name!r} puts out the same for all inputs")
    compared = ladder(x, y, folds=folds, n_null=n_null, worst_case=False, random_state=seed)
    errors = rigid_errors(x, y, compared.diameter.value, folds, seed)
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    widths = (values[0].shape[1], values[1].shape[1])
    allowed = bounds(*rests, **relative_sizes(x, y, compared) | {"dimension": widths})
    narrow = any(rest.lost for rest in rests) and all(rest.union for rest in rests)
    return Layer(
        name=name,
        kind=kind,
        widths=widths,
        rests=(rests[0], rests[1]),
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled=rigid.held_out,
        linear=linear.held_out,
        null=rigid.null,
        bound=allowed.rms,
        needed=allowed.needed,
        seen=_seen(values, rests, spaces, folds, seed) if narrow else None,
    )


def _seen(
    values: list[Array], rests: tuple[Rest, ...], spaces: tuple[Array, ...], folds: int, seed: int
) -> Seen | None:
    """The parts of both layers in the directions that the rest sees: their error, and the bound on it."""
    x, y = (side @ space.T for side, space in zip(values, spaces, strict=True))
    if _constant(x, y):
        return None
    compared = ladder(x, y, folds=folds, n_null=0, worst_case=False, random_state=seed)
    sizes = relative_sizes(x, y, compared)
    allowed = bounds(*(replace(rest, smallest=rest.seen_smallest) for rest in rests), **sizes)
    return Seen(
        widths=sizes["dimension"],
        held_out=rigid_errors(x, y, compared.diameter.value, folds, seed).held_out,
        scaled=compared.rungs["rigid"].in_diameters.held_out,
        linear=compared.rungs["linear"].in_diameters.held_out,
        bound=allowed.rms,
    )


def _constant(x: Array, y: Array) -> bool:
    """Whether one of the sides does not vary."""
    return not min(np.ptp(x, axis=0).max(), np.ptp(y, axis=0).max())


def _rotated(values: Array) -> Array:
    """Wide rows in a basis of their own span: rotations and distances stay what they are, and fits get cheap."""
    n, d = values.shape
    if d <= n:
        return values
    centred = values - values.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    return np.asarray(centred @ axes.T)
