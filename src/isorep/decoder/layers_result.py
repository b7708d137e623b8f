"""Layers of two trainings as records: the rest, the errors and bounds of every layer, and the sentences about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..alignment.base import Error
from ..resampling import Null
from ..results import Record, ResultRecord, largest, least, told
from .bound import VIOLATED, Assumption, Bound, Finding
from .ends import EndMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTPUT = "output"
SOURCES = {"with_mismatch": "a rigid motion without a scale", "scaled": "a rigid motion with one scale"}
ANSWERS = (VIOLATED, "kept", "vacuous")
"""Outcomes of a bound that applies, the most important first."""
NOT_COVERED = "not covered"


@dataclass(frozen=True)
class Rest(Record):
    """The rest of one network after a layer: singular values of its Jacobians over a sample of examples.

    ``smallest`` is zero where directions are lost, and ``seen_smallest`` the smallest over the directions that are
    not. ``rank`` is the least number of directions that the rest depends on at an example, ``union`` the number over
    all examples. ``depends_on_input`` is true if a path leads past the layer.
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
    samples: int

    @property
    def lost(self) -> int:
        """Number of directions of the layer that do not affect the output, at some example."""
        return self.width - self.rank

    @property
    def constant(self) -> float:
        """The bi-Lipschitz constant; infinite where directions are lost."""
        return max(self.largest, _inverse(self.smallest))

    @property
    def seen_constant(self) -> float:
        """The constant over the directions that the rest depends on."""
        return max(self.largest, _inverse(self.seen_smallest))

    @property
    def similarity_constant(self) -> float:
        """The same after the best global scale."""
        return math.sqrt(self.largest * _inverse(self.seen_smallest)) if self.largest > 0 else math.inf

    @property
    def shared(self) -> bool:
        """Whether the rest depends on the same directions at all examples."""
        return self.union == self.rank


@dataclass(frozen=True)
class Seen:
    """The parts of two layers in the directions that some example's rest depends on: their error and its bounds."""

    widths: tuple[int, int]
    held_out: Error
    in_sample: Error
    scaled: Error
    scaled_in_sample: Error
    linear: Error
    bound: Bound
    scaled_bound: Bound
    term: float | None
    answer: str
    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]


@dataclass(frozen=True)
class Layer(Record):
    """One layer of two networks; errors in diameters of the second's layer, held out unless stated otherwise.

    ``held_out`` and ``in_sample`` are for rigid motions without a scale, ``scaled`` with one, ``linear`` for linear
    maps, ``null`` for rigid ones with shuffled rows. ``bound`` is the smallest bound on the in-sample root mean square,
    including the mismatch of the ends, and ``term`` is the contribution of that mismatch; ``scaled_bound`` is the bound
    with a fitted scale. ``needed`` is the stitching constant below which it would not be vacuous for equal ends.
    ``answer`` is ``kept``, ``violated``, ``vacuous``, ``not covered`` or ``not determined``, and ``findings`` compare
    the bounds with the errors. ``assumptions`` are given for bounds that are not vacuous. ``seen`` is about the
    directions that the rest depends on, where some are lost, and ``reading`` what Theorem 1 covers of the layer.
    """

    derived: ClassVar[tuple[str, ...]] = ("constant", "infinite", "similarity_constant")
    name: str
    kind: str
    widths: tuple[int, int]
    rests: tuple[Rest, Rest]
    held_out: Error
    in_sample: Error
    scaled: Error
    scaled_in_sample: Error
    linear: Error
    null: Null | None
    bound: Bound
    scaled_bound: Bound
    term: float | None
    needed: float
    answer: str
    reading: str
    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]
    seen: Seen | None

    @property
    def constant(self) -> float:
        """The larger of the two constants."""
        return max(rest.constant for rest in self.rests)

    @property
    def infinite(self) -> bool:
        """Whether the constant is infinite; JSON has no infinity."""
        return math.isinf(self.constant)

    @property
    def similarity_constant(self) -> float:
        """The larger of the two constants up to scale, over the directions that the rests depend on."""
        return max(rest.similarity_constant for rest in self.rests)


@dataclass(frozen=True)
class LayerGeometry(ResultRecord):
    """The result of :func:`isorep.decoder.layers`.

    Attributes
    ----------
    layers : tuple of Layer
        The layers, in the order of execution.
    to : str
        Where the rest ends.
    end : EndMap
        Relation of the ends of the two rests: equal outputs, a linear map that two heads determine, or none.
    mismatch : float or None
        The root mean square difference of the ends, after that map, in units of their spread; Theorem 1 assumes none.
    spearman : float or None
        Rank correlation over the layers of the rest's constant, up to scale and over the directions it depends on, with
        the rigid error, scale fitted.
    """

    schema: ClassVar[str] = "isorep.decoder_layers/2"
    page_by: ClassVar[str] = "decoder.layers_page:page"
    derived: ClassVar[tuple[str, ...]] = ("sentence", "violated")
    layers: tuple[Layer, ...]
    to: str
    names: tuple[str, str]
    rows: int
    samples: int
    end: EndMap
    mismatch: float | None
    spearman: float | None
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def violated(self) -> bool:
        """Whether a measured error exceeds a bound."""
        return bool(self.violations)

    @property
    def violations(self) -> tuple[tuple[str, Finding], ...]:
        """Bounds that the errors exceed, each with the layer it is about."""
        parts = [(layer.name, layer.findings) for layer in self.layers]
        parts += [(f"the seen part of {layer.name}", layer.seen.findings) for layer in self.layers if layer.seen]
        return tuple((name, each) for name, findings in parts for each in findings if each.answer == VIOLATED)

    @property
    def sentence(self) -> str:
        """The result in short."""
        errors = {place: layer.scaled.mean for place, layer in enumerate(self.layers)}
        best, worst = (self.layers[place] for place in (least(errors), largest(errors)))
        ranks = "" if self.spearman is None else f" Rank correlation with the rest's constant: {self.spearman:.2f}."
        near, far = (f"{layer.scaled.mean:.4f}" for layer in (best, worst))
        measured = f"the closest layer is {best.name} ({near} diameters held out) and the farthest {worst.name} ({far})"
        if near == far:
            measured = f"every layer leaves {near} diameters held out"
        measured = f"Up to a rigid motion with one scale {measured}.{ranks}"
        if self.violations:
            name, finding = self.violations[0]
            return (
                f"A bound is violated at {name}: {SOURCES[finding.source]} leaves at most {finding.bound:.4g} "
                f"diameters (RMS), but {finding.measured:.4g} is measured. {finding.why} {measured}"
            )
        if not self.end.determined:
            return f"{measured} Bounds: {self.end.sentence}."
        telling = ", ".join(layer.name for layer in self.layers if layer.answer == "kept")
        ends = "outputs" if self.to == OUTPUT else "ends"
        return (
            f"{measured} Non-vacuous bounds: {telling or 'none'} (for equal {ends}, a stitching constant below "
            f"{max(each.needed for each in self.layers):.3g} is needed; these {ends} differ by "
            f"{self.mismatch or 0.0:.2g} of their spread)."
        )

    def table(self) -> str:
        """The layers under each other."""
        from .layers_page import layer_table
        from .page import as_text

        return as_text(layer_table(self), "Theorem 1")

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per layer: constants of the rest, held-out mean errors in diameters, the RMS bound, the answer."""
        return [
            {
                "layer": layer.name,
                "kind": layer.kind,
                "constant": layer.constant,
                "similarity_constant": layer.similarity_constant,
                "rigid": layer.held_out.mean,
                "rigid_with_scale": layer.scaled.mean,
                "linear": layer.linear.mean,
                "chance": None if layer.null is None else layer.null.mean,
                "rms_in_sample": layer.in_sample.rms,
                "rms_bound": layer.bound.value,
                "answer": layer.answer,
            }
            for layer in self.layers
        ]

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The held-out error of every layer, up to a rigid motion with one scale, in sample and beside chance.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots, middle

        marks = [
            Mark(
                layer.name,
                layer.scaled.mean,
                None,
                None if layer.null is None else layer.null.mean,
                middle(layer.null),
                layer.scaled_in_sample.mean,
            )
            for layer in self.layers
        ]
        return dots(ax, marks, "rigid error with one scale (diameters)", width=width, value_name="held out")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return super().to_dict() | {"unit": "diameters of the second network's layer, lower is closer"}

    def __str__(self) -> str:
        return told(self.sentence, self.table(), notes=self.caveats)


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf
