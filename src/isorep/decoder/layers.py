"""Layers of two trainings: the rest's singular values, the errors between the layers, and the bound on them (A.3.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ..errors import InputError
from ..models.evaluation import evaluating
from ..representation import Array
from ..rows import Progress, no_progress
from ..settings import MOST_DRAWS, check_counts, check_seed
from . import split
from .bound import Assumption, held_against
from .convexity import convexity
from .distances import Mismatch, chords, ladder, relative_sizes, rescaled, rigid_errors
from .ends import NOT_DETERMINED, ROUNDING, EndMap, equal_outputs, linear_ends
from .evidence import Evidence, assumptions_of
from .layers_result import ANSWERS, NOT_COVERED, OUTPUT, Layer, LayerGeometry, Rest, Seen
from .near_isometry import bounds
from .stitching import balanced

if TYPE_CHECKING:
    import torch
    from torch import nn


def layers(
    first: Any,
    second: Any,
    inputs: Any,
    layers: Sequence[str] | None = None,
    *,
    to: str = OUTPUT,
    logits: bool = True,
    samples: int = 200,
    names: tuple[str, str] = ("first", "second"),
    folds: int = 5,
    n_null: int = 10,
    random_state: int = 0,
    progress: Progress | None = None,
) -> LayerGeometry:
    r"""Compare every layer of two trainings with the bound from the geometry of the rest of the network (A.3.4).

    A network is split at a layer into the part before it, :math:`f`, and the rest, :math:`g`. Theorem 1 holds for any
    such split: if both trainings have equal outputs and :math:`g` is :math:`(1+L)`-bi-Lipschitz, the layers agree
    up to a rigid motion within :math:`c_D\sqrt{2L+L^2}\,\Delta`. Outputs that differ add a term to the bound.

    If the rest ends at a layer that a linear head reads, equal logits relate these ends only by a linear map :math:`A`.
    Its singular values enter the bound. If the head does not depend on all directions of that layer, the ends are
    unrelated, and the answer is "not determined". Where the rest narrows, some directions of the layer do not affect
    the output, and the constant is infinite. The constant over the directions that the rest depends on (the row spaces
    of its Jacobians) is reported as well.

    Parameters
    ----------
    first, second : torch.nn.Module
        Two trainings of a network, or two networks with layers of these names.
    inputs : (n, ...) array or tensor
        Examples on which both are run.
    layers : sequence of str, optional
        Dotted names of submodules. Default: the children of a ``Sequential``, or all modules without children, in the
        order of execution.
    to : str
        Where the rest ends: ``"output"`` (default), or a dotted name such as that of the penultimate layer, which
        supervised training identifies up to a linear map (see ``end`` of the result).
    logits : bool
        Whether the outputs are logits or probabilities, which softmax determines up to a constant per row; a single
        output is the log-odds of two classes. ``False`` if outputs are compared as they are. Only used if ``to`` names
        a layer.
    samples : int
        Jacobians are taken at so many of the examples.
    names, folds, n_null, random_state, progress
        As for :func:`pair`.

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
    check_counts(samples=(samples, 2), folds=(folds, 2), n_null=(n_null, 0, MOST_DRAWS))
    check_seed(random_state)
    given = (split.require_network(first, "the first network"), split.require_network(second, "the second network"))
    networks = (split.in_single(given[0]), split.in_single(given[1]))
    report, end = progress or no_progress, None if to == OUTPUT else to
    settings: dict[str, Any] = {"folds": int(folds), "n_null": int(n_null), "random_state": int(random_state)}
    with evaluating(*networks):
        rows = [split.as_inputs(inputs, network) for network in networks]
        chosen, left_out = _chosen(networks, rows, layers, end, names)
        wanted = chosen if end is None else [*chosen, end]
        caught = [split.layer_outputs(network, each, wanted) for network, each in zip(networks, rows, strict=True)]
        n = len(rows[0])
        picked = np.sort(np.random.default_rng(random_state).choice(n, min(n, samples), replace=False))
        ends = [_flat(last if end is None else outputs[end]) for outputs, last in caught]
        tie = equal_outputs(*ends)
        if end is not None:
            heads = [outputs[end] for outputs, _ in caught]
            tie = linear_ends(networks, rows, end, heads, [_flat(last) for _, last in caught], logits=bool(logits))
        eps = max(float(np.finfo(str(each.dtype).removeprefix("torch.")).eps) for _, each in caught)
        compared = []
        for index, name in enumerate(chosen):
            report("layers", index, len(chosen))
            at = [split.Split(network, name, end) for network in networks]
            values = [outputs[name] for outputs, _ in caught]
            three = list(zip(at, values, rows, strict=True))
            rests = [measure_rest(each, layer[picked], given_rows[picked]) for each, layer, given_rows in three]
            kinks = [split.kinks_of(*each) for each in three]
            kind = type(networks[0].get_submodule(name)).__name__
            sides = Sides([_flat(value) for value in values], ends, kinks, eps)
            compared.append(measure_layer(name, kind, sides, rests, tie, settings))
        report("layers", len(chosen), len(chosen))
    return LayerGeometry(
        layers=tuple(compared),
        to=to,
        names=names,
        rows=n,
        samples=len(picked),
        end=tie,
        mismatch=None if tie.mismatch is None else tie.mismatch.share,
        spearman=_spearman(compared),
        caveats=_caveats(compared, left_out, tie, to, n, networks != given),
        settings={
            "layers": None if layers is None else list(layers),
            "to": to,
            "logits": bool(logits),
            "samples": int(samples),
            **settings,
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
        (chosen, left_out), (others, _) = map(split.default_layers, networks, rows)
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
        split.require_rows(network, inputs, f"the {name} network")
        split.require_layers(network, inputs, chosen if end is None else [*chosen, end], f"the {name} network")
    return chosen, left_out


def _without_the_end(network: nn.Module, inputs: torch.Tensor, chosen: list[str]) -> list[str]:
    """The last layer is left out where it is the output itself: its rest does nothing."""
    caught, end = split.layer_outputs(network, inputs[:2], chosen[-1:])
    return chosen[:-1] if caught[chosen[-1]].flatten().equal(end.flatten()) else chosen


def _flat(values: torch.Tensor) -> Array:
    return np.asarray(values.reshape(len(values), -1).double().cpu().numpy())


def _spearman(layers: list[Layer]) -> float | None:
    """Rank correlation over the layers of the rest's constant, up to scale, with the rigid error, scale fitted."""
    constants = [layer.similarity_constant for layer in layers]
    if len(layers) < 4 or not np.isfinite(constants).all() or len(set(constants)) < 2:
        return None
    return float(spearmanr(constants, [layer.scaled.mean for layer in layers]).statistic)


def _caveats(layers: list[Layer], left_out: list[str], tie: EndMap, to: str, rows: int, half: bool) -> tuple[str, ...]:
    said = [tie.sentence, *(f"left out: {each}" for each in left_out)]
    if half:
        said.append("weights are stored in half precision; everything was computed in float32")
    past = [layer.name for layer in layers if any(rest.depends_on_input for rest in layer.rests)]
    if past:
        said.append(
            f"paths lead past {', '.join(past)}: the rest there also depends on the input, which is held fixed, and "
            "Theorem 1 does not cover these layers"
        )
    narrow = [layer.name for layer in layers if any(rest.lost for rest in layer.rests)]
    if narrow:
        said.append(f"the rest loses directions of {', '.join(narrow)}: the constant is infinite there")
    wide = max(max(layer.widths) for layer in layers)
    if rows < 5 * wide:
        said.append(f"only {rows} rows for layers of up to {wide} units: held-out linear errors are overestimated")
    where = "the output" if to == OUTPUT else to
    return (*said, f"constants are the largest over a sample of examples; the rest ends at {where}")


def measure_rest(at: split.Split, values: torch.Tensor, inputs: torch.Tensor) -> tuple[Rest, Array]:
    """The singular values of the rest at some examples, and the space of all directions it depends on."""
    spectra, seen, outputs = [], None, 0
    for block in split.rest_jacobians(at, values, inputs):
        spectra.append(np.linalg.svd(block, compute_uv=False))
        outputs, width = block.shape[1:]
        rows = block.reshape(-1, width)
        stacked = rows if seen is None else np.concatenate([seen, rows])
        seen = np.asarray(np.linalg.qr(stacked, mode="r")) if len(stacked) > width else stacked
    if seen is None or not seen.any():
        end = "output" if at.to is None else at.to
        raise InputError(
            f"{end} does not depend on the layer {at.layer!r} at these examples: it is computed before it or beside "
            "it, or what follows the layer is constant"
        )
    singular = np.concatenate(spectra)
    kept = singular > ROUNDING * singular[:, :1]
    rank = kept.sum(axis=1)
    least = float(singular[kept].min()) if rank.min() > 0 else 0.0
    _, spread, axes = np.linalg.svd(seen, full_matrices=False)
    together, width = int((spread > ROUNDING * spread[0]).sum()), axes.shape[1]
    rest = Rest(
        outputs=outputs,
        width=width,
        rank=int(rank.min()),
        median_rank=float(np.median(rank)),
        union=together,
        largest=float(singular.max()),
        smallest=least if int(rank.min()) == width else 0.0,
        seen_smallest=least,
        depends_on_input=split.passes_by(at, values, inputs),
        samples=len(values),
    )
    return rest, axes[:together]


@dataclass(frozen=True, eq=False)
class Sides:
    """Paired rows of a layer and of the ends of the rests, the kinks of the rests, and the networks' precision."""

    values: list[Array]
    ends: list[Array]
    kinks: list[tuple[str, ...]]
    eps: float


def measure_layer(
    name: str,
    kind: str,
    sides: Sides,
    seen_by: list[tuple[Rest, Array]],
    end: EndMap,
    settings: dict[str, Any],
) -> Layer:
    """The errors between two layers and the bounds from their rests, with the directions that each rest depends on."""
    (first, _), (second, _) = seen_by
    rests = (first, second)
    turned = [_rotated(side) for side in sides.values]
    if _constant(turned):
        raise InputError(f"the layer {name!r} puts out the same for all inputs")
    widths = (sides.values[0].shape[1], sides.values[1].shape[1])
    reading, tied = _reading(rests, end)
    seen = None
    if any(rest.lost for rest in rests) and all(rest.union for rest in rests):
        parts = [side @ space.T for side, (_, space) in zip(sides.values, seen_by, strict=True)]
        narrowed = [replace(rest, smallest=rest.seen_smallest) for rest in rests]
        if not _constant(parts):
            shapes = (parts[0].shape[1], parts[1].shape[1])
            shared = tied and all(rest.shared for rest in rests)
            known = _compared(replace(sides, values=parts), shapes, narrowed, end if shared else None, settings, 0)
            seen = Seen(**{each.name: known[each.name] for each in fields(Seen)})
    known = _compared(replace(sides, values=turned), widths, rests, end if tied else None, settings)
    if not end.determined:
        known["answer"] = NOT_DETERMINED
    return Layer(name, kind, rests=rests, seen=seen, reading=reading, **known)


def _reading(rests: tuple[Rest, Rest], end: EndMap) -> tuple[str, bool]:
    """What Theorem 1 covers of a layer, and whether it covers anything."""
    if not end.determined:
        return end.sentence, False
    if any(rest.depends_on_input for rest in rests):
        return "not covered: paths lead past the layer", False
    if not any(rest.lost for rest in rests):
        return "covers the layer", True
    if all(rest.shared for rest in rests):
        unions = sorted({rest.union for rest in rests})
        seen = f"the {unions[0]} direction{'s' if unions[0] > 1 else ''} that the rest depends on"
        if len(unions) > 1:
            seen = f"the {unions[0]} and {unions[1]} directions that the two rests depend on, as padded clouds"
        return f"covers {seen}, the same at all examples", True
    return "covers no fixed part: the rest depends on different directions at different examples", True


NOTHING = SimpleNamespace(smallest=0.0, largest=math.inf)
"""The end of a rest without a relation to the other network."""
_PAIRED = 500  # rows whose distances are compared pair by pair


def _compared(
    sides: Sides,
    widths: tuple[int, int],
    rests: Sequence[Rest],
    end: EndMap | None,
    settings: dict[str, Any],
    n_null: int | None = None,
) -> dict[str, Any]:
    """The errors between two clouds, and the bounds on them; without an end there are no bounds."""
    x, y = sides.values
    compared = ladder(x, y, worst_case=False, **settings | ({} if n_null is None else {"n_null": n_null}))
    unit = compared.diameter.value
    errors = rigid_errors(x, y, unit, settings["folds"], settings["random_state"])
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    sizes = relative_sizes(x, y, compared) | {"dimension": widths}
    first, second = (NOTHING, NOTHING) if end is None else (_after(rests[0], end), rests[1])
    apart = None if end is None else end.mismatch
    differ: dict[str, Any] = (
        {} if apart is None else {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
    )
    equal, allowed = bounds(first, second, **sizes), bounds(first, second, **differ, **sizes)
    scaled = allowed
    if (found := balanced(first, second)) is not None:
        scaled = bounds(found[0], second, **differ, **rescaled(sizes, found[1]))
    told = () if all(tie.rms.vacuous for tie in (allowed, scaled)) else _assumptions(sides, rests, apart)
    rounding = 2 * sides.eps * sum(float(np.linalg.norm(side, axis=1).max()) for side in (x, y)) / unit
    held = {"with_mismatch": (allowed, errors.in_sample), "scaled": (scaled, rigid.in_sample)}
    findings = tuple(held_against(key, tie.rms, error.rms, told, rounding) for key, (tie, error) in held.items())
    answers = {finding.answer for finding in findings}
    return {
        "widths": widths,
        "held_out": errors.held_out,
        "in_sample": errors.in_sample,
        "scaled": rigid.held_out,
        "scaled_in_sample": rigid.in_sample,
        "linear": linear.held_out,
        "null": rigid.null,
        "bound": allowed.rms,
        "scaled_bound": scaled.rms,
        "term": None if allowed.rms.vacuous else allowed.rms.value - equal.rms.value,
        "needed": allowed.needed,
        "answer": NOT_COVERED if end is None else next(each for each in ANSWERS if each in answers),
        "findings": findings,
        "assumptions": told,
    }


def _after(rest: Rest, end: EndMap) -> SimpleNamespace:
    """The rest followed by the map onto the other network's end."""
    return SimpleNamespace(smallest=rest.smallest * end.smallest, largest=rest.largest * end.largest)


def _assumptions(sides: Sides, rests: Sequence[Rest], apart: Mismatch | None) -> tuple[Assumption, ...]:
    """Evidence from the rows on the assumptions of a bound that is not vacuous."""
    picked = np.unique(np.linspace(0, len(sides.ends[0]) - 1, _PAIRED).round().astype(int))
    known = []
    for values, end, rest, kinks in zip(sides.values, sides.ends, rests, sides.kinks, strict=True):
        probe = convexity(values)
        seen = chords(values[picked], end[picked], sides.eps)
        answer = "blind" if probe is None else probe.answer
        known.append(Evidence(rest.smallest, rest.largest, rest.samples, seen, kinks, answer))
    return assumptions_of(known, apart)


def _constant(sides: Sequence[Array]) -> bool:
    """Whether one of the sides does not vary."""
    return not all(np.ptp(side, axis=0).any() for side in sides)


def _rotated(values: Array) -> Array:
    """Wide rows in a basis of their own span: rotations and distances do not change, and fits get cheap."""
    n, d = values.shape
    if d <= n:
        return values
    centred = values - values.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    return np.asarray(centred @ axes.T)
