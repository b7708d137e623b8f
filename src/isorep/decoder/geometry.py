"""Bi-Lipschitz constants as records that print, tabulate and serialise, and the sentences that say what they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..representation import Array
from ..results import Record, Written, aligned, plain
from .bound import shown
from .convexity import Convexity
from .prepare import import_torch

SCHEMA = "isorep.decoder/1"
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
        Of the local constants.
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
        """The theorem's L: the constant less 1."""
        return self.constant - 1

    @property
    def mean_excess(self) -> float:
        """The mean of the local L."""
        return self.mean_constant - 1

    @property
    def infinite(self) -> bool:
        """Whether a direction is lost; JSON has no infinity, so it says where one is meant."""
        return math.isinf(self.constant)


@dataclass(frozen=True)
class Isometry:
    r"""How near all singular values are to 1, and what that says about the constant.

    Attributes
    ----------
    delta : float
        :math:`\delta=\max|\sigma-1|`.
    mean_square : float or None
        The mean of :math:`(\sigma-1)^2`; None where not all singular values are known.
    text_constant : float
        :math:`(1+\delta)/(1-\delta)`, the bound on the condition number that the paper's text takes.
    sharp_constant : float
        :math:`1/(1-\delta)`; both are infinite from :math:`\delta=1` on.
    """

    delta: float
    mean_square: float | None
    text_constant: float
    sharp_constant: float


@dataclass(frozen=True)
class Directions:
    """The constant that random directions give, beside the exact one at the same rows where that is known."""

    count: int
    rows: int
    constant: float
    mean_constant: float
    exact: float | None
    exact_mean: float | None


@dataclass(frozen=True)
class Latent:
    """A latent's name and its largest column norm over the sample, of the largest of all latents."""

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


@dataclass(frozen=True, eq=False)
class Geometry(Written):
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
    verdict : tuple of str
        What the numbers say, in sentences.
    caveats : tuple of str
    """

    schema: ClassVar[str] = SCHEMA
    page_by: ClassVar[str] = "decoder.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"largest", "smallest", "local", "rows", "ids"})
    derived: ClassVar[tuple[str, ...]] = ("inactive",)
    largest: Array
    smallest: Array
    local: Array
    rank: Array | None
    rows: Array
    ids: Array | None
    constants: Constants
    active: Constants | None
    active_samples: dict[str, Array] | None
    isometry: Isometry
    spectrum: dict[str, Array] | None
    latents: tuple[Latent, ...]
    directions: Directions | None
    convexity: Convexity | None
    certain: bool
    mode: str
    data: dict[str, Any]
    verdict: tuple[str, ...]
    caveats: tuple[str, ...]
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
        """The names of latents that the decoder hardly responds to."""
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
        rows: list[tuple[str, ...]] = [("", "constant 1 + L", "mean", "up to scale", "condition")]
        name = "all latents" if self.certain else "all latents, at least"
        for title, known in ((name, self.constants), ("active latents", self.active)):
            if known is not None:
                numbers = (known.constant, known.mean_constant, known.similarity_constant, known.condition)
                rows.append((title, *map(shown, numbers)))
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything but what thousands of rows and singular values repeat, as plain data with a versioned schema."""
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

    def __str__(self) -> str:
        return "\n".join([self.table(), "", *self.verdict, *(f"note: {caveat}" for caveat in self.caveats)])


THEOREM_LIMIT = math.sqrt(2)  # of the constant: 2L + L^2 <= 1


def verdict_of(geometry: Geometry) -> tuple[str, ...]:
    """Sentences with the numbers, the most important first."""
    said = [_constant(geometry)]
    if geometry.active is not None:
        said.append(_active(geometry, geometry.active))
    elif geometry.latents and len(geometry.inactive) == len(geometry.latents):
        said.append("Its output does not move with any latent: at these rows it is constant.")
    elif geometry.ranks is not None and geometry.ranks["least"] < geometry.data["latents"]:
        said.append(_lost(geometry.data["latents"], geometry.data["outputs"], geometry.ranks))
    best = geometry.active or geometry.constants
    if best.scale is not None and best.similarity_constant < 0.99 * best.constant:
        where = " of the active latents" if geometry.active is not None else ""
        said.append(
            f"With its output scaled by {best.scale:.4g} the decoder{where} would be "
            f"{shown(best.similarity_constant)}-bi-Lipschitz: this much is left when the scale is free."
        )
    said.append(_theorem(best, geometry.certain))
    if geometry.directions is not None:
        said.append(_directions(geometry.directions, geometry.mode))
    if geometry.convexity is not None:
        said.append(geometry.convexity.sentence)
    return tuple(said)


def _constant(geometry: Geometry) -> str:
    n, high, low = len(geometry.local), float(geometry.largest.max()), float(geometry.smallest.min())
    at = "one latent" if n == 1 else f"{n:,} latents"
    if math.isinf(geometry.constant):
        count = int(np.isinf(geometry.local).sum())
        where = "all of them" if count == n else f"{count:,} of them"
        loses = "it loses directions there" if n == 1 else f"it loses directions at {where}"
        return f"Measured at {at}, the decoder is not bi-Lipschitz: {loses}, so the constant is infinite."
    least = "" if geometry.certain else "at least "
    return (
        f"Measured at {at}, the decoder stretches directions by {low:.4g} to {high:.4g}, so it is locally {least}"
        f"{shown(geometry.constant)}-bi-Lipschitz there (1 is an isometry; the excess L is {least}"
        f"{geometry.excess:.4g})."
    )


def _active(geometry: Geometry, active: Constants) -> str:
    names = geometry.inactive
    listed = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    share = geometry.settings["inactive_below"]
    return (
        f"{len(names)} of {geometry.data['latents']} latents {verb} inactive ({listed}): the decoder moves less than "
        f"{share:g} times as much with {them} as with the most active one. On the other latents the constant is "
        f"{shown(active.constant)}."
    )


def _lost(d: int, outputs: int, ranks: dict[str, float]) -> str:
    if outputs < d:
        there = "There is 1 output" if outputs == 1 else f"There are {outputs} outputs"
        lost = "1 direction is" if d - outputs == 1 else f"{d - outputs} directions are"
        return f"{there} for {d} latents, so at least {lost} always lost."
    return (
        f"Each latent matters, but combinations do not: the Jacobian has rank {ranks['median']:g} of {d} at the median "
        f"row and {ranks['least']} at the lowest."
    )


def _theorem(best: Constants, certain: bool) -> str:
    end = "√2 = 1.414, where the near-identifiability theorem ends (2L + L² <= 1)"
    if best.constant <= THEOREM_LIMIT:
        doubt = "" if certain else ", but as an estimate from below it does not show that the true one is"
        return f"The constant is within {end}{doubt}."
    if best.similarity_constant <= THEOREM_LIMIT:
        return f"The constant exceeds {end}; with a free scale it does not."
    return f"The constant exceeds {end}, also with a free scale."


def _directions(directions: Directions, mode: str) -> str:
    noun = "direction gives" if directions.count == 1 else "directions give"
    text = f"{directions.count} random {noun} {shown(directions.constant)}"
    if directions.exact is None:
        return f"{text}, an estimate from below: the extreme directions are seldom near a random one."
    rows = f" at the same {directions.rows:,} rows" if mode == "paper" and directions.rows > 1 else ""
    missed = directions.exact > 1.001 * directions.constant
    end = "random directions miss the extreme ones" if missed else "here they find the extreme ones"
    return f"{text} where the exact constant{rows} is {shown(directions.exact)}: {end}."


def caveats_of(geometry: Geometry, notes: tuple[str, ...]) -> tuple[str, ...]:
    """What to keep in mind, most important first."""
    said = list(notes)
    n = len(geometry.local)
    if geometry.mode == "paper":
        said.append(
            "random directions never see more than the true stretch: every constant here is an estimate from below, "
            "the lower the more latents there are"
        )
    elif not geometry.certain:
        said.append(
            "some smallest singular values did not converge and may be lower: the constant is an estimate from below"
        )
    if n > 1:
        share = min(1.0, 1 - 0.05 ** (1 / n))
        said.append(
            f"the constant is the largest of {n:,} rows: of latents drawn like these, up to {share:.2g} may exceed it "
            "(95 % confidence)"
        )
    else:
        said.append("the constant is that of a single row")
    if geometry.data["kinks"]:
        said.append(
            "the theorem asks for a continuously differentiable decoder, which this one is not "
            f"({', '.join(geometry.data['kinks'])}): what is measured is its derivative almost everywhere"
        )
    if geometry.mode != "paper" and geometry.rank is None:
        said.append("inactive latents were not looked for: with so many latents their columns are not computed")
    return tuple(said)
