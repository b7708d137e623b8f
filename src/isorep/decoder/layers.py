"""Layers of two trainings: the rest's singular values, the errors between the layers, and the bound on them (A.3.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import spearmanr

from ..alignment.base import Error
from ..errors import InputError
from ..models.evaluation import evaluating
from ..representation import Array
from ..resampling import Null
from ..results import Record, ResultRecord
from ..rows import Progress, no_progress
from ..settings import check_counts, check_seed
from . import split
from .bound import Bound
from .distances import ladder, relative_sizes, rigid_errors, rms_radius
from .near_isometry import bounds

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
        compared = []
        for index, name in enumerate(chosen):
            report("layers", index, len(chosen))
            rests = [
                measure_rest(split.Split(network, name, end), outputs[name][picked], each[picked])
                for network, each, (outputs, _) in zip(networks, rows, caught, strict=True)
            ]
            values = [_flat(outputs[name]) for outputs, _ in caught]
            kind = type(networks[0].get_submodule(name)).__name__
            compared.append(measure_layer(name, kind, values, rests, settings))
        report("layers", len(chosen), len(chosen))
        ends = [_flat(last if end is None else outputs[end]) for outputs, last in caught]
    return LayerGeometry(
        layers=tuple(compared),
        to=to,
        names=names,
        rows=n,
        samples=len(picked),
        mismatch=_mismatch(*ends),
        spearman=_spearman(compared),
        caveats=_caveats(compared, left_out, to, n, networks != given),
        settings={"layers": None if layers is None else list(layers), "to": to, "samples": int(samples), **settings},
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


def _mismatch(first: Array, second: Array) -> float | None:
    """The root mean square difference of the outputs in units of their spread; None where widths differ."""
    if first.shape != second.shape:
        return None
    spread = math.hypot(rms_radius(first), rms_radius(second)) / math.sqrt(2)
    return float(np.sqrt(((first - second) ** 2).sum(axis=1).mean())) / spread if spread > 0 else 0.0


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
            f"paths lead past {', '.join(past)}: the rest there also depends on the input, which is held fixed, and "
            "Theorem 1 does not cover these layers"
        )
    narrow = [layer.name for layer in layers if any(rest.lost for rest in layer.rests)]
    if narrow:
        said.append(f"the rest loses directions of {', '.join(narrow)}: the constant is infinite there")
    wide = max(max(layer.widths) for layer in layers)
    if rows < 5 * wide:
        said.append(f"there are {rows} rows for layers of up to {wide} units: held-out linear errors overstate")
    where = "the output" if to == OUTPUT else to
    return (*said, f"constants are the largest over a sample of examples; the rest ends at {where}")


_ROUNDING = 1e-6  # singular values below this share of the largest are lost: networks work in float32


def measure_rest(at: split.Split, values: torch.Tensor, inputs: torch.Tensor) -> tuple[Rest, Array]:
    """The singular values of the rest at some examples, and the space of all directions it sees."""
    spectra, seen, outputs = [], None, 0
    for block in split.rest_jacobians(at, values, inputs):
        spectra.append(np.linalg.svd(block, compute_uv=False))
        outputs, width = block.shape[1:]
        rows = block.reshape(-1, width)
        stacked = rows if seen is None else np.concatenate([seen, rows])
        seen = np.asarray(np.linalg.qr(stacked, mode="r")) if len(stacked) > width else stacked
    if seen is None or not seen.any():
        end = "output" if at.to is None else at.to
        raise InputError(f"{end} does not depend on the layer {at.layer!r}: it is computed before it, or beside it")
    singular = np.concatenate(spectra)
    kept = singular > _ROUNDING * singular[:, :1]
    rank = kept.sum(axis=1)
    least = float(singular[kept].min()) if rank.min() > 0 else 0.0
    _, spread, axes = np.linalg.svd(seen, full_matrices=False)
    together, width = int((spread > _ROUNDING * spread[0]).sum()), axes.shape[1]
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
    )
    return rest, axes[:together]


def measure_layer(
    name: str, kind: str, values: list[Array], seen_by: list[tuple[Rest, Array]], settings: dict[str, Any]
) -> Layer:
    """The errors between two layers beside what their rests allow, with the directions that each rest sees."""
    (first, _), (second, _) = seen_by
    rests = (first, second)
    sides = [_rotated(side) for side in values]
    if _constant(sides):
        raise InputError(f"the layer {name!r} puts out the same for all inputs")
    widths = (values[0].shape[1], values[1].shape[1])
    seen = None
    if any(rest.lost for rest in rests) and all(rest.union for rest in rests):
        parts = [side @ space.T for side, (_, space) in zip(values, seen_by, strict=True)]
        narrowed = [replace(rest, smallest=rest.seen_smallest) for rest in rests]
        if not _constant(parts):
            shapes = (parts[0].shape[1], parts[1].shape[1])
            known = _compared(parts, shapes, narrowed, {**settings, "n_null": 0})
            seen = Seen(**{each.name: known[each.name] for each in fields(Seen)})
    return Layer(name, kind, rests=rests, seen=seen, **_compared(sides, widths, rests, settings))


def _compared(
    sides: Sequence[Array], widths: tuple[int, int], rests: Sequence[Rest], settings: dict[str, Any]
) -> dict[str, Any]:
    """The errors between two clouds, and the bound on them."""
    x, y = sides
    compared = ladder(x, y, worst_case=False, **settings)
    errors = rigid_errors(x, y, compared.diameter.value, settings["folds"], settings["random_state"])
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    allowed = bounds(*rests, **relative_sizes(x, y, compared) | {"dimension": widths})
    return {
        "widths": widths,
        "held_out": errors.held_out,
        "in_sample": errors.in_sample,
        "scaled": rigid.held_out,
        "linear": linear.held_out,
        "null": rigid.null,
        "bound": allowed.rms,
        "needed": allowed.needed,
    }


def _constant(sides: Sequence[Array]) -> bool:
    """Whether one of the sides does not vary."""
    return not all(np.ptp(side, axis=0).any() for side in sides)


def _rotated(values: Array) -> Array:
    """Wide rows in a basis of their own span: rotations and distances stay what they are, and fits get cheap."""
    n, d = values.shape
    if d <= n:
        return values
    centred = values - values.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    return np.asarray(centred @ axes.T)


@dataclass(frozen=True)
class Rest(Record):
    """The rest of one network after a layer: singular values of its Jacobians over a sample of examples.

    ``smallest`` is zero where directions are lost, and ``seen_smallest`` the smallest over the directions that are
    not. ``rank`` is the least number of directions seen at an example, ``union`` the number seen at any.
    ``depends_on_input`` says that a path leads past the layer.
    """

    derived: ClassVar[tuple[str, ...]] = ("lost", "constant", "seen_constant", "similarity_constant", "shared")
    outputs: int
    width: int
    rank: int
    median_rank: float
    union: int
    largest: float
    smallest: float
    seen_smallest: float
    depends_on_input: bool

    @property
    def lost(self) -> int:
        """Directions of the layer that leave no trace in the output, at some example."""
        return self.width - self.rank

    @property
    def constant(self) -> float:
        """The bi-Lipschitz constant; infinite where directions are lost."""
        return max(self.largest, _inverse(self.smallest))

    @property
    def seen_constant(self) -> float:
        """The constant over the directions that the rest sees."""
        return max(self.largest, _inverse(self.seen_smallest))

    @property
    def similarity_constant(self) -> float:
        """The same after the best global scale."""
        return math.sqrt(self.largest * _inverse(self.seen_smallest)) if self.largest > 0 else math.inf

    @property
    def shared(self) -> bool:
        """Whether the rest sees the same directions at all examples."""
        return self.union == self.rank


@dataclass(frozen=True)
class Seen:
    """The parts of two layers in the directions that some example's rest sees: their error and its bound."""

    widths: tuple[int, int]
    held_out: Error
    scaled: Error
    linear: Error
    bound: Bound


@dataclass(frozen=True)
class Layer(Record):
    """One layer of two networks; errors in diameters of the second's layer, held out unless said otherwise.

    ``held_out`` and ``in_sample`` are for rigid motions without a scale, ``scaled`` with one, ``linear`` for linear
    maps, ``null`` for rigid ones with shuffled rows. ``bound`` is the smallest bound on the root mean square, for
    equal outputs, and ``needed`` the stitching constant below which it would say something. ``seen`` is about the
    directions that the rest sees, where some are lost.
    """

    derived: ClassVar[tuple[str, ...]] = ("constant", "infinite", "similarity_constant", "reading")
    name: str
    kind: str
    widths: tuple[int, int]
    rests: tuple[Rest, Rest]
    held_out: Error
    in_sample: Error
    scaled: Error
    linear: Error
    null: Null | None
    bound: Bound
    needed: float
    seen: Seen | None

    @property
    def constant(self) -> float:
        """The larger of the two constants."""
        return max(rest.constant for rest in self.rests)

    @property
    def infinite(self) -> bool:
        """Whether the constant is infinite; JSON has no infinity, so it says where one is meant."""
        return math.isinf(self.constant)

    @property
    def similarity_constant(self) -> float:
        """The larger of the two constants up to scale, over the directions seen."""
        return max(rest.similarity_constant for rest in self.rests)

    @property
    def reading(self) -> str:
        """What Theorem 1 says about this layer."""
        if any(rest.depends_on_input for rest in self.rests):
            return "not covered: paths lead past the layer"
        if not any(rest.lost for rest in self.rests):
            return "covers the layer"
        if all(rest.shared for rest in self.rests):
            return f"covers the {self.rests[0].union} directions that the rest sees, the same at all examples"
        return "covers no fixed part: the rest sees other directions at other examples"


@dataclass(frozen=True)
class LayerGeometry(ResultRecord):
    """The result of :func:`isorep.decoder.layers`.

    Attributes
    ----------
    layers : tuple of Layer
        In the order of execution.
    to : str
        Where the rest ends.
    mismatch : float or None
        The root mean square difference of the two outputs in units of their spread; Theorem 1 assumes none.
    spearman : float or None
        Rank correlation over the layers of the rest's constant, up to scale and over the directions seen, with the
        rigid error, scale fitted.
    """

    schema: ClassVar[str] = "isorep.decoder_layers/1"
    page_by: ClassVar[str] = "decoder.layers_page:page"
    derived: ClassVar[tuple[str, ...]] = ("sentence",)
    layers: tuple[Layer, ...]
    to: str
    names: tuple[str, str]
    rows: int
    samples: int
    mismatch: float | None
    spearman: float | None
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def sentence(self) -> str:
        """What the layers show, in short."""
        best = min(self.layers, key=lambda layer: layer.scaled.mean)
        worst = max(self.layers, key=lambda layer: layer.scaled.mean)
        telling = ", ".join(layer.name for layer in self.layers if not layer.bound.vacuous)
        ranks = "" if self.spearman is None else f" Rank correlation with the rest's constant: {self.spearman:.2f}."
        return (
            f"Up to a rigid motion with one scale the closest layer is {best.name} ({best.scaled.mean:.4f} diameters "
            f"held out) and the farthest {worst.name} ({worst.scaled.mean:.4f}).{ranks} Bounds that say something: "
            f"{telling or 'none'} (needed: a stitching constant below {max(each.needed for each in self.layers):.3g})."
        )

    def table(self) -> str:
        """The layers under each other."""
        from .layers_page import layer_table
        from .page import as_text

        return as_text(layer_table(self), "Theorem 1")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return super().to_dict() | {"unit": "diameters of the second network's layer, lower is closer"}

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.sentence, *(f"note: {caveat}" for caveat in self.caveats)])


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf
