"""What the criteria found, as small frozen records that print, tabulate and serialise themselves.

Mechanisms as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..._version import __version__
from ...representation import Array
from ...results import Written, aligned, plain, versions
from .criterion import DEPENDS, HOLDS, Criterion

SCHEMA = "isorep.mechanisms/1"


@dataclass(frozen=True, eq=False)
class FactorLevel:
    """Type D factors found without knowing them, at one tolerance.

    Attributes
    ----------
    state : {"found", "rank deficient", "undecided"}
        Of most samples.
    dimensions : tuple of int
        Of the factors in most of the samples that were decided, largest first; ``share`` of all samples have them.
    angle : float or None
        The largest principal angle, in degrees, between a factor at the reference sample and its match at another.
    constant : bool
        Whether all samples have the same factors, up to ``angle`` degrees.
    outputs : array of int
        The factor of every output at the reference sample, -1 for none.
    outputs_agree : float
        The share of outputs that belong to the matched factor at all decided samples.
    subspaces : tuple of arrays (d, k)
        At the reference sample, in latent coordinates.
    components, components_here : int
        Of :math:`G_D` in the best basis, and in the basis that the latents are.
    nonzeros, nonzeros_here : int or None
        Of the Jacobian in its sparsest basis (None where that is too costly), and as it is.
    gap : float or None
        The sparsity gap of this decomposition, by ``gap_method``.
    sparsity_factors : tuple of int or None
        The dimensions of the finest Type S decomposition, where it could be had.
    """

    tolerance: float
    state: str
    dimensions: tuple[int, ...]
    share: float
    decided: float
    angle: float | None
    constant: bool
    outputs: Array
    outputs_agree: float | None
    subspaces: tuple[Array, ...]
    components: int | None
    components_here: int | None
    nonzeros: int | None
    nonzeros_here: int | None
    gap: float | None
    gap_method: str
    sparsity_factors: tuple[int, ...] | None


@dataclass(frozen=True)
class Factors:
    """Type D factors at every tolerance; the properties are those of the strictest tolerance that finds any."""

    levels: tuple[FactorLevel, ...]

    def in_units(self, units: Array) -> Factors:
        """The same factors, found in other units of the latents, in the latents' own."""
        return Factors(
            tuple(
                replace(level, subspaces=tuple(np.linalg.qr(units[:, None] * each)[0] for each in level.subspaces))
                for level in self.levels
            )
        )

    @property
    def best(self) -> FactorLevel:
        """The strictest level that finds factors; the first where none does."""
        return next((level for level in self.levels if level.state == "found"), self.levels[0])

    @property
    def state(self) -> str:
        """``found``, ``rank deficient`` or ``undecided``; ``depends on the tolerance`` where levels disagree."""
        found = {level.dimensions for level in self.levels if level.state == "found"}
        return DEPENDS if len(found) > 1 else self.best.state

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the factors, largest first."""
        return self.best.dimensions

    @property
    def subspaces(self) -> tuple[Array, ...]:
        """A basis (d, k) of every factor at the reference sample."""
        return self.best.subspaces

    @property
    def outputs(self) -> Array:
        """The factor of every output at the reference sample, -1 for none."""
        return self.best.outputs

    @property
    def constant(self) -> bool:
        """Whether all samples have the same factors."""
        return self.best.constant


@dataclass(frozen=True)
class Check:
    """An assumption of the lifting theorem: ``not falsified``, ``falsified`` or ``not tested``, and why."""

    name: str
    state: str
    sentence: str


@dataclass(frozen=True)
class Implication:
    """A step of the hierarchy: ``agrees``, ``numerical indecision``, ``local only`` or ``not applicable``."""

    premise: str
    conclusion: str
    state: str
    sentence: str


@dataclass(frozen=True)
class Theorem:
    """Whether an identifiability theorem applies to the samples, at which tolerances, and which assumption is missing.

    ``missing`` are the assumptions that fail or are open at the tolerance where fewest do.
    """

    name: str
    applies: bool | None
    applies_at: tuple[float, ...]
    missing: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class SparsityCondition:
    r"""Type M's :math:`\|J_{\hat g}(z)\|_0\le\|J_g(s)\|_0` at one tolerance, over paired rows."""

    tolerance: float
    share: float
    here: float
    reference: float


@dataclass(frozen=True)
class Mechanisms(Written):
    """The result of :func:`isorep.decoder.mechanisms`.

    Attributes
    ----------
    factors : Factors
        Type D factors found without knowing them.
    type_d, type_m, type_s, type_h2, type_h3 : Criterion or None
        For the blocks that were given, or for the factors where they are the same at all samples.
    hierarchy : tuple of Implication
    lifting : tuple of Check
        Local to global: never proved, at best not falsified.
    theorems : tuple of Theorem
    sparsity : tuple of SparsityCondition
        With a reference decoder only.
    blocks : tuple of tuple of int
        Empty where neither blocks were given nor factors found.
    basis : array or None
        Where blocks are factors: latents are ``basis @ y`` and blocks are coordinates of y.
    contrast : float or None
        The compositional contrast, mean over samples.
    """

    factors: Factors
    type_d: Criterion | None
    type_m: Criterion | None
    type_s: Criterion | None
    type_h2: Criterion | None
    type_h3: Criterion | None
    hierarchy: tuple[Implication, ...]
    lifting: tuple[Check, ...]
    theorems: tuple[Theorem, ...]
    sparsity: tuple[SparsityCondition, ...]
    blocks: tuple[tuple[int, ...], ...]
    basis: Array | None
    given: bool
    samples: int
    outputs: int
    dimension: int
    deficient: float
    contrast: float | None
    tolerances: tuple[float, ...]
    source: str
    name: str
    settings: dict[str, Any]
    caveats: tuple[str, ...]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def criteria(self) -> dict[str, Criterion]:
        """Those that were evaluated, by name."""
        found = (self.type_d, self.type_m, self.type_s, self.type_h2, self.type_h3)
        return {each.name: each for each in found if each is not None}

    @property
    def verdict(self) -> str:
        """One sentence: the types that hold, and the theorem that applies."""
        return verdict(self)

    def table(self) -> str:
        """The criteria as text, one row a criterion, way and tolerance."""
        return criteria_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        found: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "isorep": __version__,
                "versions": versions(),
                "name": self.name,
                "unit": "margins and gaps count outputs; scores and ratios are shares, 0 is independent",
                "verdict": self.verdict,
                "samples": self.samples,
                "outputs": self.outputs,
                "dimension": self.dimension,
                "blocks": [list(block) for block in self.blocks],
                "given": self.given,
                "basis": self.basis,
                "deficient": self.deficient,
                "contrast": self.contrast,
                "source": self.source,
                "criteria": {name: _criterion(each) for name, each in self.criteria.items()},
                "factors": {
                    "state": self.factors.state,
                    "dimensions": self.factors.dimensions,
                    "levels": [_level(level) for level in self.factors.levels],
                },
                "hierarchy": [asdict(each) for each in self.hierarchy],
                "lifting": [asdict(each) for each in self.lifting],
                "theorems": [asdict(each) for each in self.theorems],
                "sparsity": [asdict(each) for each in self.sparsity],
                "tolerances": self.tolerances,
                "settings": self.settings,
                "caveats": self.caveats,
                "seconds": self.seconds,
            }
        )
        return found

    def __str__(self) -> str:

        return as_text(self)


def _criterion(criterion: Criterion) -> dict[str, Any]:
    found = asdict(criterion)
    for plain_way, evidence in zip(found["evidence"], criterion.evidence, strict=True):
        plain_way["state"] = evidence.state
    for key in ("irreducible", "separable"):
        for plain_part, part in zip(found[key], getattr(criterion, key), strict=True):
            plain_part["state"] = part.state
    return found | {"state": criterion.state, "holds_at": criterion.holds_at}


def _level(found: FactorLevel) -> dict[str, Any]:
    many = len(found.outputs) > 4096
    return {
        **{key: value for key, value in vars(found).items() if key not in ("outputs", "subspaces")},
        "outputs": None if many else found.outputs,
        "output_counts": np.bincount(found.outputs[found.outputs >= 0], minlength=len(found.dimensions)),
        "subspaces": list(found.subspaces),
        "gap": None if found.gap is not None and math.isinf(found.gap) else found.gap,
    }


HEADINGS = ("type", "by", "tolerance", "state", "samples", "worst", "measure")
FACTOR_HEADINGS = ("tolerance", "state", "factors", "samples", "angle", "components", "nonzeros", "gap")


def criteria_table(found: Mechanisms) -> str:
    """One row a criterion, way and tolerance; without criteria the factors."""
    if not found.criteria:
        return factors_table(found.factors.levels)
    rows = [HEADINGS]
    for criterion in found.criteria.values():
        for way in criterion.evidence:
            for level in way.levels:
                worst = "-" if level.worst is None else f"{level.worst:.3g}"
                share = f"{100 * level.share:.3g} %"
                rows.append(
                    (criterion.name, level.method, f"{level.tolerance:g}", level.state, share, worst, criterion.measure)
                )
    return aligned(rows, left=(0, 1, 3, 6))


def factors_table(levels: Sequence[FactorLevel]) -> str:
    """The factors at every tolerance; components and nonzeros in the best basis and in that of the latents."""
    rows = [FACTOR_HEADINGS]
    for level in levels:
        rows.append(
            (
                f"{level.tolerance:g}",
                level.state,
                "+".join(map(str, level.dimensions)) or "-",
                f"{100 * level.share:.3g} %",
                "-" if level.angle is None else f"{level.angle:.3g}°",
                _pair(level.components, level.components_here),
                _pair(level.nonzeros, level.nonzeros_here),
                "-" if level.gap is None else f"{level.gap:.3g}",
            )
        )
    return aligned(rows, left=(1, 2))


def verdict(found: Mechanisms) -> str:
    """The types that hold, and the theorem that applies."""
    factors = found.factors
    if not found.criteria:
        if factors.state in ("rank deficient", "undecided"):
            return f"No factors could be told apart: the Jacobian is {factors.state} at most samples."
        count = len(factors.dimensions)
        if count == 1:
            return f"Latents act together: one irreducible Type D factor of dimension {factors.dimensions[0]}."
        return (
            f"{count} Type D factors of dimensions {_listed(factors.dimensions)} at the reference sample, but not the "
            "same at all samples."
        )
    blocks = f"{len(found.blocks)} {'blocks' if found.given else 'factors found'}" if len(found.blocks) > 1 else "block"
    holding = [each for each in found.criteria.values() if each.state == HOLDS]
    depending = [each for each in found.criteria.values() if each.state == DEPENDS]
    if holding and all(each.holds_at == found.tolerances for each in holding):
        names = [each.name for each in holding]
        verb = "Type {} holds" if len(names) == 1 else "Types {} hold"
        said = f"{verb.format(_listed(names))} for the {blocks}, at every tolerance"
    elif holding:
        said = f"For the {blocks} hold {_listed([f'{each.name} ({_tolerances(each)})' for each in holding])}"
    else:
        said = f"No type holds for the {blocks} at every tolerance"
    if depending:
        said += f"; {_listed([f'{each.name} ({_tolerances(each)})' for each in depending])} depends on it"
    applying = [each.name for each in found.theorems if each.applies]
    if applying:
        plural = "theorems of types {} apply" if len(applying) > 1 else "theorem of type {} applies"
        rest = f"the {plural.format(_listed(applying))} locally"
    elif any(each.applies is None for each in found.theorems):
        rest = "it is open whether an identifiability theorem applies"
    else:
        rest = "no identifiability theorem applies"
    return f"{said}. On these samples {rest}."


def as_text(found: Mechanisms) -> str:
    """The table, the factors and what follows."""
    lines = [found.table(), ""]
    if found.criteria:
        lines += ["factors without knowing them", factors_table(found.factors.levels), ""]
    lines.append(found.verdict)
    lines += [each.sentence for each in found.theorems]
    lines += [each.sentence for each in found.hierarchy if each.state != "agrees"]
    lines += [f"{each.name}: {each.state}. {each.sentence}" for each in found.lifting]
    lines += [f"note: {caveat}" for caveat in found.caveats]
    return "\n".join(lines)


def _pair(best: int | None, here: int | None) -> str:
    return "-" if here is None else f"{'?' if best is None else best} ({here} here)"


def _tolerances(criterion: Criterion) -> str:
    at = criterion.holds_at
    return f"at {_listed(at)}" if at else "at no tolerance"


def _listed(values: Sequence[float | str]) -> str:
    texts = [value if isinstance(value, str) else f"{value:g}" for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
