"""Layers of two networks as records that print, tabulate and serialise: the rest's constants, errors and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..alignment.base import Error
from ..resampling import Null
from ..results import Record, Written, aligned
from .bound import Bound, shown

SCHEMA = "isorep.decoder_layers/1"


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
class LayerGeometry(Written):
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

    schema: ClassVar[str] = SCHEMA
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
        said = (
            f"Up to a rigid motion with one scale the closest layer is {best.name} ({best.scaled.mean:.4f} diameters "
            f"held out) and the farthest {worst.name} ({worst.scaled.mean:.4f})."
        )
        if self.spearman is not None:
            said += f" Over the layers the rest's constant and that error correlate by {self.spearman:.2f} in rank."
        telling = [layer.name for layer in self.layers if not layer.bound.vacuous]
        if telling:
            return f"{said} The bound says something at {', '.join(telling)}."
        most = max(layer.needed for layer in self.layers)
        return f"{said} No bound says anything here: the stitching constant would have to be below {most:.3g}."

    def table(self) -> str:
        """The layers under each other."""
        rows: list[tuple[str, ...]] = [tuple(HEADINGS.split(" | "))]
        for layer in self.layers:
            rest = min(layer.rests, key=lambda each: each.rank)
            rows.append(
                (
                    f"{layer.name} ({layer.kind})",
                    str(layer.widths[0]) if len(set(layer.widths)) == 1 else "{} / {}".format(*layer.widths),
                    f"{rest.rank}/{rest.union}",
                    shown(layer.constant),
                    shown(layer.similarity_constant),
                    f"{layer.held_out.mean:.4f}",
                    f"{layer.scaled.mean:.4f}",
                    f"{layer.linear.mean:.4f}",
                    "-" if layer.null is None else f"{layer.null.mean:.4f}",
                    layer.bound.cell,
                )
            )
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return super().to_dict() | {"unit": "diameters of the second network's layer, lower is closer"}

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.sentence, *(f"note: {caveat}" for caveat in self.caveats)])


HEADINGS = "layer | width | seen | constant | seen, up to scale | rigid | with scale | linear | null | rms bound"


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf
