"""``isorep.decoder.layers``: two trainings layer by layer, what is measured beside what the rest allows.

One layer of two networks: the rest's singular values, the errors between the layers, and the bound on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ..comparison import compare
from ..errors import InputError
from ..representation import Array, Representation
from ..rows import Progress, no_progress
from ..settings import check_counts, check_seed
from .bounds import bounds
from .distances import quartic_spread, rigid_errors, rms_radius
from .layers_result import Layer, LayerGeometry, Rest, Seen
from .split import (
    Split,
    as_inputs,
    default_layers,
    evaluating,
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
    report = progress or no_progress
    with evaluating(*networks):
        rows = [as_inputs(inputs, network) for network in networks]
        chosen, left = _chosen(networks, rows, layers, to, names)
        ends = [] if to == OUTPUT else [to]
        caught = [
            layer_outputs(network, given, [*chosen, *ends]) for network, given in zip(networks, rows, strict=True)
        ]
        picked = _some(len(rows[0]), samples, random_state)
        found = []
        for place, name in enumerate(chosen):
            report("layers", place, len(chosen))
            splits = [Split(network, name, None if to == OUTPUT else to) for network in networks]
            rests, spaces = zip(
                *(
                    measure_rest(split, outputs[0][name][picked], given[picked])
                    for split, given, outputs in zip(splits, rows, caught, strict=True)
                ),
                strict=True,
            )
            values = [_flat(outputs[0][name]) for outputs in caught]
            kind = type(networks[0].get_submodule(name)).__name__
            found.append(measure_layer(name, kind, values, rests, spaces, folds, n_null, random_state))
        report("layers", len(chosen), len(chosen))
        outputs = [_flat(each[1] if to == OUTPUT else each[0][to]) for each in caught]
    return LayerGeometry(
        layers=tuple(found),
        to=to,
        names=names,
        rows=len(outputs[0]),
        samples=len(picked),
        mismatch=_mismatch(outputs),
        spearman=_spearman(found),
        caveats=_caveats(found, left, to, len(outputs[0]), networks != given),
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
    to: str,
    names: tuple[str, str],
) -> tuple[list[str], list[str]]:
    if isinstance(layers, str):
        layers = [layers]
    left: list[str] = []
    if layers is None:
        found = [default_layers(network, given) for network, given in zip(networks, rows, strict=True)]
        chosen = [name for name in found[0][0] if name in found[1][0]]
        left = found[0][1]
        chosen = chosen[: chosen.index(to)] if to in chosen else chosen
        if to == OUTPUT and len(chosen) > 1:
            chosen = _without_the_end(networks[0], rows[0], chosen)
    else:
        chosen = list(dict.fromkeys(layers))
        if to in chosen:
            raise InputError(f"the rest ends at {to!r}, so there is nothing between it and the layer of that name")
    if not chosen:
        raise InputError("there is no layer to split at: name some")
    wanted = [*chosen, *([] if to == OUTPUT else [to])]
    for network, given, name in zip(networks, rows, names, strict=True):
        require_rows(network, given, f"the {name} network")
        require_layers(network, given, wanted, f"the {name} network")
    return chosen, left


def _without_the_end(network: nn.Module, inputs: torch.Tensor, chosen: list[str]) -> list[str]:
    """The last layer is left out where it is the output itself: its rest does nothing."""
    caught, end = layer_outputs(network, inputs[:2], chosen[-1:])
    last = caught[chosen[-1]]
    same = last.numel() == end.numel() and bool((last.reshape(-1) == end.reshape(-1)).all())
    return chosen[:-1] if same else chosen


def _flat(values: torch.Tensor) -> Array:
    return np.asarray(values.reshape(len(values), -1).double().cpu().numpy())


def _some(n: int, samples: int, seed: int) -> Array:
    return np.sort(np.random.default_rng(seed).choice(n, min(n, samples), replace=False))


def _mismatch(outputs: list[Array]) -> float | None:
    """The root mean square difference of the outputs in units of their spread; None where widths differ."""
    first, second = outputs
    if first.shape != second.shape:
        return None
    spread = np.sqrt((rms_radius(first) ** 2 + rms_radius(second) ** 2) / 2)
    return float(np.sqrt(((first - second) ** 2).sum(axis=1).mean()) / spread) if spread > 0 else 0.0


def _spearman(found: list[Layer]) -> float | None:
    """Rank correlation over the layers of the rest's constant, up to scale, with the rigid error, scale fitted."""
    constants = [layer.similarity for layer in found]
    errors = [layer.scaled.mean for layer in found]
    if len(found) < 4 or not np.isfinite(constants).all() or len(set(constants)) < 2:
        return None
    return float(spearmanr(constants, errors).statistic)


def _caveats(found: list[Layer], left: list[str], to: str, rows: int, half: bool) -> tuple[str, ...]:
    said = [f"left out: {each}" for each in left]
    if half:
        said.append("weights are stored in half precision; everything was computed in float32")
    past = [layer.name for layer in found if any(rest.depends_on_input for rest in layer.rests)]
    if past:
        said.append(
            f"paths lead past {', '.join(past)}: the rest there also depends on the input, each example was split with "
            "its own input held fixed, and Theorem 1, which wants one decoder for all examples, does not cover these "
            "layers"
        )
    narrow = [layer.name for layer in found if any(rest.lost for rest in layer.rests)]
    if narrow:
        said.append(
            f"the rest loses directions of {', '.join(narrow)}: the constant is infinite there, and only what the rest "
            "sees can be identified"
        )
    wide = max(max(layer.widths) for layer in found)
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
