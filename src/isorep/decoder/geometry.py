"""What :func:`isorep.decoder.bilipschitz` found, as small frozen records that print, tabulate and serialise.

What a decoder's constants say, in sentences, and what to keep in mind about them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .._version import __version__
from ..representation import Array
from ..results import Written, aligned, plain, versions
from .convexity import Convexity

SCHEMA = "isorep.decoder/1"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_ROWS = 5000  # whose values are kept in the JSON
_MOST_VALUES = 400  # of a spectrum that are kept in the JSON


@dataclass(frozen=True)
class Constants:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is infinite is null in JSON, so a flag says which."""
        return {
            **asdict(self),
            "excess": self.excess,
            "mean_excess": self.mean_excess,
            "infinite": np.isinf(self.constant).item(),
        }


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
    seconds: float = field(default=0.0)

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
        return tuple(self._sample(int(place)) for place in order)

    def table(self) -> str:
        """The constants as text."""
        rows: list[tuple[str, ...]] = [("", "constant 1 + L", "mean", "up to scale", "condition")]
        known = [("all latents" if self.certain else "all latents, at least", self.constants)]
        if self.active is not None:
            known.append(("active latents", self.active))
        for name, found in known:
            numbers = (found.constant, found.mean_constant, found.similarity_constant, found.condition)
            rows.append((name, *map(shown, numbers)))
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        from .prepare import import_torch

        step = -(-len(self.local) // _MOST_ROWS)
        found: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "isorep": __version__,
                "versions": {**versions(), "torch": str(import_torch().__version__)},
                "data": self.data,
                "mode": self.mode,
                "unit": "norm of the output over norm of the latent; a constant of 1 is an isometry",
                "certain": self.certain,
                "verdict": list(self.verdict),
                "constants": self.constants.to_dict(),
                "active": None if self.active is None else self.active.to_dict(),
                "isometry": asdict(self.isometry),
                "rank": None if self.rank is None else _ranks(self.rank, self.data["latents"]),
                "spectrum": None if self.spectrum is None else _thinned(self.spectrum),
                "latents": [asdict(latent) for latent in self.latents],
                "inactive": list(self.inactive),
                "directions": None if self.directions is None else asdict(self.directions),
                "convexity": None if self.convexity is None else asdict(self.convexity),
                "samples": {
                    "row": self.rows[::step],
                    "largest": self.largest[::step],
                    "smallest": self.smallest[::step],
                    "local": self.local[::step],
                },
                "active_samples": None
                if self.active_samples is None
                else {key: values[::step] for key, values in self.active_samples.items()},
                "worst": [asdict(sample) for sample in self.worst()],
                "settings": self.settings,
                "seconds": self.seconds,
                "caveats": list(self.caveats),
            }
        )
        return found

    def __str__(self) -> str:
        lines = [self.table(), ""]
        lines += [*self.verdict, *(f"note: {caveat}" for caveat in self.caveats)]
        return "\n".join(lines)

    def _sample(self, place: int) -> Sample:
        identity = None if self.ids is None else str(self.ids[place])
        numbers = (float(each[place]) for each in (self.largest, self.smallest, self.local))
        return Sample(int(self.rows[place]), identity, *numbers)


def shown(number: float) -> str:
    """A constant as text."""
    return "infinite" if np.isinf(number) else f"{number:.4g}"


def _ranks(rank: Array, d: int) -> dict[str, Any]:
    return {"least": int(rank.min()), "median": float(np.median(rank)), "full": float((rank == d).mean())}


def _thinned(spectrum: dict[str, Array]) -> dict[str, Any]:
    size = len(next(iter(spectrum.values())))
    kept = np.unique(np.linspace(0, size - 1, min(size, _MOST_VALUES)).round().astype(int))
    return {"index": kept + 1, **{level: values[kept] for level, values in spectrum.items()}}


THEOREM_LIMIT = math.sqrt(2)  # of the constant: 2L + L^2 <= 1


def verdict_of(found: Geometry) -> tuple[str, ...]:
    """Sentences with the numbers, the most important first."""
    said = [_constant(found)]
    if found.active is not None:
        said.append(_active(found, found.active))
    elif found.latents and len(found.inactive) == len(found.latents):
        said.append("Its output does not move with any latent: at these rows it is constant.")
    elif found.rank is not None and int(found.rank.min()) < found.data["latents"]:
        said.append(_lost(found))
    best = found.active or found.constants
    if best.scale is not None and best.similarity_constant < 0.99 * best.constant:
        where = " of the active latents" if found.active is not None else ""
        said.append(
            f"With its output scaled by {best.scale:.4g} the decoder{where} would be "
            f"{shown(best.similarity_constant)}-bi-Lipschitz: this much is left when the scale is free."
        )
    said.append(_theorem(best, found.certain))
    if found.directions is not None:
        said.append(_directions(found))
    if found.convexity is not None:
        said.append(found.convexity.sentence)
    return tuple(said)


def _constant(found: Geometry) -> str:
    n, high, low = len(found.local), float(found.largest.max()), float(found.smallest.min())
    at = "one latent" if n == 1 else f"{n:,} latents"
    if math.isinf(found.constant):
        count = int(np.isinf(found.local).sum())
        where = "all of them" if count == n else f"{count:,} of them"
        loses = "it loses directions there" if n == 1 else f"it loses directions at {where}"
        return f"Measured at {at}, the decoder is not bi-Lipschitz: {loses}, so the constant is infinite."
    least = "" if found.certain else "at least "
    return (
        f"Measured at {at}, the decoder stretches directions by {low:.4g} to {high:.4g}, so it is locally {least}"
        f"{shown(found.constant)}-bi-Lipschitz there (1 is an isometry; the excess L is {least}{found.excess:.4g})."
    )


def _active(found: Geometry, active: Constants) -> str:
    names = found.inactive
    listed = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    share = found.settings["inactive_below"]
    return (
        f"{len(names)} of {found.data['latents']} latents {verb} inactive ({listed}): the decoder moves less than "
        f"{share:g} times as much with {them} as with the most active one. On the other latents the constant is "
        f"{shown(active.constant)}."
    )


def _lost(found: Geometry) -> str:
    assert found.rank is not None
    d, outputs = found.data["latents"], found.data["outputs"]
    if outputs < d:
        there = "There is 1 output" if outputs == 1 else f"There are {outputs} outputs"
        lost = "1 direction is" if d - outputs == 1 else f"{d - outputs} directions are"
        return f"{there} for {d} latents, so at least {lost} always lost."
    least, usual = int(found.rank.min()), float(np.median(found.rank))
    return (
        f"Each latent matters, but combinations do not: the Jacobian has rank {usual:g} of {d} at the median row and "
        f"{least} at the lowest."
    )


def _theorem(best: Constants, certain: bool) -> str:
    end = "√2 = 1.414, where the near-identifiability theorem ends (2L + L² <= 1)"
    if best.constant <= THEOREM_LIMIT:
        doubt = "" if certain else ", but as an estimate from below it does not show that the true one is"
        return f"The constant is within {end}{doubt}."
    if best.similarity_constant <= THEOREM_LIMIT:
        return f"The constant exceeds {end}; with a free scale it does not."
    return f"The constant exceeds {end}, also with a free scale."


def _directions(found: Geometry) -> str:
    directions = found.directions
    assert directions is not None
    noun = "direction gives" if directions.count == 1 else "directions give"
    text = f"{directions.count} random {noun} {shown(directions.constant)}"
    if directions.exact is None:
        return f"{text}, an estimate from below: the extreme directions are seldom near a random one."
    rows = f" at the same {directions.rows:,} rows" if found.mode == "paper" and directions.rows > 1 else ""
    missed = directions.exact > 1.001 * directions.constant
    end = "random directions miss the extreme ones" if missed else "here they find the extreme ones"
    return f"{text} where the exact constant{rows} is {shown(directions.exact)}: {end}."


def caveats_of(found: Geometry, notes: tuple[str, ...]) -> tuple[str, ...]:
    """What to keep in mind, most important first."""
    said = list(notes)
    n = len(found.local)
    if found.mode == "paper":
        said.append(
            "random directions never see more than the true stretch: every constant here is an estimate from below, "
            "the lower the more latents there are"
        )
    elif not found.certain:
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
    if found.data["kinks"]:
        said.append(
            "the theorem asks for a continuously differentiable decoder, which this one is not "
            f"({', '.join(found.data['kinks'])}): what is measured is its derivative almost everywhere"
        )
    if found.mode != "paper" and found.rank is None:
        said.append("inactive latents were not looked for: with so many latents their columns are not computed")
    return tuple(said)
