"""``isorep.decoder.layers``: two trainings layer by layer, what is measured beside what the rest allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ..comparison.settings import check_counts, check_seed
from ..errors import InputError
from ..representation import Array
from ..rows import Progress, no_progress
from .layer_measuring import measure_layer, measure_rest
from .layers_result import Layer, LayerGeometry
from .splitting import (
    Split,
    as_inputs,
    default_layers,
    evaluating,
    in_single,
    layer_outputs,
    require_layers,
    require_network,
    require_rows,
)
from .spreads import rms_radius

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
