"""Bi-Lipschitz constants: records with printing, tables and JSON, and verdict sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..representation import Array
from ..results import Record, ResultRecord, plain, told
from .bound import shown
from .convexity import Convexity
from .prepare import import_torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_ROWS = 5000  # whose values are kept in the JSON
_MOST_VALUES = 400  # of a spectrum that are kept in the JSON


@dataclass(frozen=True)
class Constants(Record):
    r"""Bi-Lipschitz constants over a sample of latents; 1 is an isometry, infinity a direction that is lost.

    Attributes
    ----------
    constant : float
        :math:`1+L=\max_i\max(\sigma_{\max}(J_i),\,1/\sigma_{\min}(J_i))`.
    mean_constant, quantiles
        Mean and quantiles of the local constants.
    similarity_constant : float
        :math:`\sqrt{\max_i\sigma_{\max}/\min_i\sigma_{\min}}`: the constant after the best global scale.
    scale : float or None
        The factor on the decoder's output that attains it.
    condition, median_condition : float
        Condition numbers of the Jacobian.
    """

    derived: ClassVar[tuple[str, ...]] = ("excess", "mean_excess", "infinite")
    constant: float
    mean_constant: float
    quantiles: dict[str, float]
    similarity_constant: float
    scale: float | None
    condition: float
    median_condition: float

    @property
    def excess(self) -> float:
        """The theorem's L: the constant minus 1."""
        return self.constant - 1

    @property
    def mean_excess(self) -> float:
        """The mean of the local L."""
        return self.mean_constant - 1

    @property
    def infinite(self) -> bool:
        """Whether a direction is lost, so that the constant is infinite; JSON has no infinity."""
        return math.isinf(self.constant)


@dataclass(frozen=True)
class Isometry:
    r"""Dynamical isometry: how near all singular values are to 1, and the constants that follow.

    Attributes
    ----------
    delta : float
        :math:`\delta=\max|\sigma-1|`.
    mean_square : float or None
        The mean of :math:`(\sigma-1)^2`; None where not all singular values are known.
    text_constant : float
        :math:`(1+\delta)/(1-\delta)`, the bound on the condition number in the paper's text.
    sharp_constant : float
        :math:`1/(1-\delta)`; both are infinite from :math:`\delta=1` on.
    """

    delta: float
    mean_square: float | None
    text_constant: float
    sharp_constant: float


@dataclass(frozen=True)
class Directions:
    """The constant estimated from random directions, and the exact one at the same rows where known."""

    count: int
    rows: int
    constant: float
    mean_constant: float
    exact: float | None
    exact_mean: float | None


@dataclass(frozen=True)
class Latent:
    """A latent's name and its maximum Jacobian column norm over the sample, relative to the most active latent."""

    name: str
    activity: float
    active: bool


@dataclass(frozen=True)
class Sample:
    """One row of the latents with its extreme singular values."""

    row: int
    id: str | None
    largest: float
    smallest: float
    local: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Geometry(ResultRecord):
    """The result of :func:`isorep.decoder.bilipschitz`.

    Attributes
    ----------
    largest, smallest, local : (n,) array
        Extreme singular values at each row, and the local constant; ``smallest`` is 0 where it is below rounding.
    rank : (n,) array or None
        Singular values above rounding.
    constants : Constants
    active : Constants or None
        The same over the active latents alone, where some are inactive.
    active_samples : dict of str to array or None
        ``largest``, ``smallest`` and ``local`` over the active latents alone.
    isometry : Isometry
    spectrum : dict of str to array or None
        Quantiles over the rows of each singular value, the largest first.
    latents : tuple of Latent
        Empty where column norms were not computed.
    directions : Directions or None
    convexity : Convexity or None
    certain : bool
        False where the constant is an estimate from below: random directions, or steps that did not converge.
    notes : tuple of str
        Notes on how the decoder was run.
    """

    schema: ClassVar[str] = "isorep.decoder/1"
    page_by: ClassVar[str] = "decoder.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"largest", "smallest", "local", "rows", "ids", "notes"})
    derived: ClassVar[tuple[str, ...]] = ("inactive", "verdict", "caveats")
    largest: Array
    smallest: Array
    local: Array
    rank: Array | None = None
    rows: Array
    ids: Array | None
    constants: Constants
    active: Constants | None = None
    active_samples: dict[str, Array] | None = None
    isometry: Isometry
    spectrum: dict[str, Array] | None = None
    latents: tuple[Latent, ...] = ()
    directions: Directions | None = None
    convexity: Convexity | None
    certain: bool
    mode: str
    data: dict[str, Any]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    seconds: float = 0.0

    @property
    def constant(self) -> float:
        """The bi-Lipschitz constant 1 + L over the sample; infinite where a direction is lost."""
        return self.constants.constant

    @property
    def excess(self) -> float:
        """The theorem's L."""
        return self.constants.excess

    @property
    def mean_constant(self) -> float:
        """The mean of the local constants."""
        return self.constants.mean_constant

    @property
    def quantiles(self) -> dict[str, float]:
        """Quantiles of the local constants."""
        return self.constants.quantiles

    @property
    def similarity_constant(self) -> float:
        """The constant after the best global scale."""
        return self.constants.similarity_constant

    @property
    def scale(self) -> float | None:
        """The factor on the decoder's output that attains the similarity constant."""
        return self.constants.scale

    @property
    def inactive(self) -> tuple[str, ...]:
        """The names of inactive latents, to which the decoder hardly responds."""
        return tuple(latent.name for latent in self.latents if not latent.active)

    def worst(self, count: int = 5) -> tuple[Sample, ...]:
        """The rows with the largest local constants."""
        order = np.argsort(-self.local, kind="stable")[:count]
        ids = [None] * len(self.local) if self.ids is None else [str(each) for each in self.ids]
        return tuple(
            Sample(int(self.rows[i]), ids[i], *(float(each[i]) for each in (self.largest, self.smallest, self.local)))
            for i in order
        )

    def table(self) -> str:
        """The constants as text."""
        from .page import as_text, constants_table

        return as_text(constants_table(self), "L", "best scale")

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row of constants over all latents, and one over the active ones where some are not."""
        sides = {"all": self.constants, "active": self.active}
        return [
            {"latents": name, **row} for name, each in sides.items() if each is not None for row in each.frame_rows()
        ]

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The constants over the sample beside the limit that the near-identifiability theorem asks for; 1 is best.

        The axis ends at 10; a larger constant stands there with its number. ``ax`` is where to draw, by default a new
        pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots

        sides = {"": self.constants, ", active latents": self.active}
        marks = [
            Mark(f"{name}{where}", value, strong=name == "largest")
            for where, each in sides.items()
            if each is not None
            for name, value in (
                ("largest", each.constant),
                ("up to scale", each.similarity_constant),
                ("median row", each.quantiles["0.5"]),
            )
        ]
        limit = (THEOREM_LIMIT, "limit of the theorem, √2")
        return dots(
            ax,
            marks,
            "bi-Lipschitz constant 1 + L",
            width=width,
            limits=(1.0, None),
            reference=limit,
            farthest=10.0,
            value_name="measured" if self.certain else "at least",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a versioned schema; long lists of rows and singular values are thinned."""
        step = -(-len(self.local) // _MOST_ROWS)
        samples = {"row": self.rows, "largest": self.largest, "smallest": self.smallest, "local": self.local}
        more = {
            "unit": "norm of the output over norm of the latent; a constant of 1 is an isometry",
            "rank": self.ranks,
            "spectrum": self.thinned_spectrum(),
            "samples": {key: values[::step] for key, values in samples.items()},
            "worst": self.worst(),
        }
        if self.active_samples is not None:
            more["active_samples"] = {key: values[::step] for key, values in self.active_samples.items()}
        written: dict[str, Any] = super().to_dict() | plain(more)
        return written | {"versions": {**written["versions"], "torch": str(import_torch().__version__)}}

    @property
    def ranks(self) -> dict[str, float] | None:
        """The least and the median number of singular values above rounding, and the share of rows that have all."""
        if self.rank is None:
            return None
        full = float((self.rank == self.data["latents"]).mean())
        return {"least": int(self.rank.min()), "median": float(np.median(self.rank)), "full": full}

    def thinned_spectrum(self) -> dict[str, Array] | None:
        """The spectrum at no more than 400 of its singular values, and which these are, counted from 1."""
        if self.spectrum is None:
            return None
        size = len(next(iter(self.spectrum.values())))
        kept = np.unique(np.linspace(0, size - 1, min(size, _MOST_VALUES)).round().astype(int))
        return {"index": kept + 1, **{level: values[kept] for level, values in self.spectrum.items()}}

    @property
    def verdict(self) -> tuple[str, ...]:
        """The results in sentences, the most important first."""
        said = [_constant(self)]
        d, outputs, ranks = self.data["latents"], self.data["outputs"], self.ranks
        if self.active is not None:
            names = ", ".join(self.inactive[:10]) + (" and more" if len(self.inactive) > 10 else "")
            said.append(
                f"Inactive: {len(self.inactive)} of {d} latents ({names}), whose columns stay below "
                f"{self.settings['inactive_below']:g} of the longest. On the others the constant is "
                f"{shown(self.active.constant)}."
            )
        elif self.latents and len(self.inactive) == d:
            said.append("Its output does not depend on any latent: at these rows it is constant.")
        elif outputs < d:
            said.append(f"Lost everywhere: {d - outputs} of {d} directions or more (outputs: {outputs}).")
        elif ranks is not None and ranks["least"] < d:
            said.append(
                f"The Jacobian has rank {ranks['median']:g} of {d} at the median row, {ranks['least']} at least."
            )
        best = self.active or self.constants
        constant = f"{'' if self.certain else 'at least '}{shown(best.constant)}"
        scaled = "" if best.scale is None else f" (output times {best.scale:.4g})"
        said.append(
            f"The near-identifiability theorem requires at most √2 = 1.414 (2L + L² <= 1): the constant is {constant}, "
            f"and {shown(best.similarity_constant)} after the best global scale{scaled}."
        )
        if (tried := self.directions) is not None:
            exact = "" if tried.exact is None else f"; exact at the same {tried.rows:,} rows: {shown(tried.exact)}"
            said.append(f"Constant by random directions ({tried.count} per row): {shown(tried.constant)}{exact}.")
        return (*said, *(() if self.convexity is None else (self.convexity.sentence,)))

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, most important first."""
        said, n = list(self.notes), len(self.local)
        if self.mode == "paper":
            said.append("random directions underestimate the constant, more so with more latents")
        elif not self.certain:
            said.append("some smallest singular values did not converge: the constant is a lower bound")
        if n > 1:
            said.append(
                f"the constant is the largest of {n:,} rows: a share of up to {min(1.0, 1 - 0.05 ** (1 / n)):.2g} of "
                "latents drawn like these may exceed it (95% confidence)"
            )
        else:
            said.append("the constant is that of a single row")
        if kinks := ", ".join(self.data["kinks"]):
            said.append(f"the theorem requires a continuously differentiable decoder, and this one has kinks ({kinks})")
        if self.mode != "paper" and self.rank is None:
            said.append("inactive latents were not detected: with so many latents, Jacobian columns are not computed")
        return tuple(said)

    def __str__(self) -> str:
        return told(" ".join(self.verdict), self.table(), notes=self.caveats)


THEOREM_LIMIT = math.sqrt(2)  # of the constant: 2L + L^2 <= 1


def _constant(geometry: Geometry) -> str:
    n, lost = len(geometry.local), int(np.isinf(geometry.local).sum())
    at = "one latent" if n == 1 else f"{n:,} latents"
    if lost:
        return f"The decoder is not bi-Lipschitz: at {at if n == 1 else f'{lost:,} of {at}'} it loses directions."
    least = "" if geometry.certain else "at least "
    return (
        f"The decoder is locally {least}{shown(geometry.constant)}-bi-Lipschitz at {at}: it stretches directions by "
        f"{geometry.smallest.min():.4g} to {geometry.largest.max():.4g}."
    )
