"""Mechanistic independence as records: factors, checks, theorems, the verdict; printing, tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import InputError
from ...representation import Array
from ...results import Record, ResultRecord, told, wrapped
from .near import Leakage, NearFactors, among, as_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOLDS, FAILS, UNDECIDED, DEPENDS = "holds", "fails", "undecided", "depends on the tolerance"
MOST_OUTPUTS = 4096  # whose factors are written one by one
_SUBSCRIPTS = str.maketrans("23456", "₂₃₄₅₆")


def symbol(name: str) -> str:
    """A criterion as it is printed: H₂ for ``H2``, which is its name in JSON and options."""
    return name.translate(_SUBSCRIPTS)


@dataclass(frozen=True)
class Level:
    """A criterion at one tolerance, over all samples.

    ``share`` of the samples satisfy it and ``decided`` of them could be decided; ``worst`` is the measure at the worst
    sample, ``sample``. ``method`` is how it was found.
    """

    tolerance: float
    state: str
    share: float
    decided: float
    worst: float | None
    sample: int | None
    method: str
    note: str = ""


@dataclass(frozen=True)
class Evidence(Record):
    """Evidence on a criterion by one method, at every tolerance."""

    derived: ClassVar[tuple[str, ...]] = ("state",)
    method: str
    levels: tuple[Level, ...]
    note: str = ""

    @property
    def state(self) -> str:
        """``holds`` or ``fails`` where all tolerances that decide agree."""
        return together([level.state for level in self.levels])


@dataclass(frozen=True)
class Irreducibility(Record):
    """Whether a block cannot be split further in the sense of a criterion (or is separable), at every tolerance.

    ``share`` is that of the samples at which it is so, at the strictest tolerance that decides.
    """

    derived: ClassVar[tuple[str, ...]] = ("state",)
    block: int
    states: tuple[str, ...]
    share: float
    note: str = ""

    @property
    def state(self) -> str:
        """That of all tolerances which decide, where they agree."""
        return together(self.states)


@dataclass(frozen=True)
class Criterion(Record):
    """One type of mechanistic independence.

    Attributes
    ----------
    name : str
        ``D``, ``M``, ``S``, ``H2`` or ``H3``.
    measure : str
        Meaning of ``worst`` in every level, with its direction.
    evidence : tuple of Evidence
        One method, or for Hₙ derivatives and swaps.
    irreducible : tuple of Irreducibility
    separable : tuple of Irreducibility
        Separability of every block, for Hₙ from derivatives; otherwise empty.
    """

    derived: ClassVar[tuple[str, ...]] = ("state", "holds_at")
    name: str
    measure: str
    evidence: tuple[Evidence, ...]
    irreducible: tuple[Irreducibility, ...] = ()
    separable: tuple[Irreducibility, ...] = ()

    @property
    def state(self) -> str:
        """``holds``, ``fails``, ``depends on the tolerance`` or ``undecided``; evidence against outweighs the rest."""
        states = [evidence.state for evidence in self.evidence]
        return next((state for state in (FAILS, DEPENDS, HOLDS) if state in states), UNDECIDED)

    @property
    def holds_at(self) -> tuple[float, ...]:
        """The tolerances at which it holds by all evidence that decides."""
        states: dict[float, list[str]] = {}
        for level in self.levels:
            states.setdefault(level.tolerance, []).append(level.state)
        return tuple(tolerance for tolerance, every in states.items() if together(every) == HOLDS)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Those of all evidence, one after another."""
        return tuple(level for evidence in self.evidence for level in evidence.levels)

    def way(self, method: str) -> Evidence | None:
        """The evidence of one kind: ``derivatives`` or ``swaps`` for Hₙ."""
        return next((evidence for evidence in self.evidence if evidence.method == method), None)

    def __str__(self) -> str:
        return f"Type {symbol(self.name)} {self.state}"


def together(states: Sequence[str]) -> str:
    """One state of many: that of all which decide, ``undecided`` where none does."""
    decided = set(states) - {UNDECIDED}
    return DEPENDS if len(decided) > 1 else next(iter(decided), UNDECIDED)


@dataclass(frozen=True, eq=False)
class FactorLevel(Record):
    """Type D factors found without given blocks, at one tolerance.

    Attributes
    ----------
    state : {"found", "rank deficient", "undecided"}
        State at most samples.
    dimensions : tuple of int
        Dimensions of the factors in most decided samples, largest first; ``share`` of all samples have them.
    angle : float or None
        The largest principal angle, in degrees, between a factor at the reference sample and its match at another.
    constant : bool
        Whether at least 95% of the samples have the same factors, up to ``angle`` degrees.
    outputs : array of int
        The factor of every output at the reference sample, -1 for none.
    outputs_agree : float
        The share of outputs that belong to the matched factor at all decided samples.
    subspaces : tuple of arrays (d, k)
        Bases of the factors at the reference sample, in latent coordinates.
    components, components_here : int
        Number of components of :math:`G_D` in the best basis, and in the basis of the latents.
    nonzeros, nonzeros_here : int or None
        Number of nonzeros of the Jacobian in its sparsest basis (None where that is too costly), and as it is.
    gap : float or None
        The sparsity gap of this decomposition, by ``gap_method``.
    sparsity_factors : tuple of int or None
        The dimensions of the finest Type S decomposition, where it was found.
    """

    tolerance: float
    state: str
    dimensions: tuple[int, ...]
    share: float
    decided: float
    outputs: Array
    angle: float | None = None
    constant: bool = False
    outputs_agree: float | None = None
    subspaces: tuple[Array, ...] = ()
    components: int | None = None
    components_here: int | None = None
    nonzeros: int | None = None
    nonzeros_here: int | None = None
    gap: float | None = None
    gap_method: str = "none"
    sparsity_factors: tuple[int, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the number of outputs per factor, and the factor of every output if they are a few thousand."""
        counts = np.bincount(self.outputs[self.outputs >= 0], minlength=len(self.dimensions)).tolist()
        few = {} if len(self.outputs) <= MOST_OUTPUTS else {"outputs": None}
        return super().to_dict() | few | {"output_counts": counts}


@dataclass(frozen=True)
class Factors(Record):
    """Type D factors at every tolerance; the properties are those of the longest run of tolerances that agree."""

    derived: ClassVar[tuple[str, ...]] = ("state", "dimensions")
    levels: tuple[FactorLevel, ...]

    def in_units(self, units: Array) -> Factors:
        """The same factors, found in other units of the latents, in the latents' own."""
        return Factors(
            tuple(
                replace(level, subspaces=tuple(np.linalg.qr(units[:, None] * each)[0] for each in level.subspaces))
                for level in self.levels
            )
        )

    def among(self, kept: Array, d: int) -> Factors:
        """The same factors of some latents, as subspaces of all of them."""
        return Factors(
            tuple(
                replace(level, subspaces=tuple(among(each, kept, d) for each in level.subspaces))
                for level in self.levels
            )
        )

    @property
    def best(self) -> FactorLevel:
        """The strictest level of the plateau: the longest run of tolerances with the same dimensions.

        Of equally long runs, that of the coarser tolerances; the first level where none finds factors.
        """
        runs: list[list[FactorLevel]] = []
        for level in self.levels:
            if level.state != "found":
                continue
            if runs and runs[-1][0].dimensions == level.dimensions:
                runs[-1].append(level)
            else:
                runs.append([level])
        if not runs:
            return self.levels[0]
        plateau = max(reversed(runs), key=len)
        return next((level for level in plateau if level.constant), plateau[0])

    @property
    def state(self) -> str:
        """``found``, ``rank deficient`` or ``undecided``; ``depends on the tolerance`` where levels disagree."""
        dimensions = {level.dimensions for level in self.levels if level.state == "found"}
        return DEPENDS if len(dimensions) > 1 else self.best.state

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
        """Whether at least 95% of the samples have the same factors."""
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
class Mechanisms(ResultRecord):
    """The result of :func:`isorep.decoder.mechanisms`.

    Attributes
    ----------
    factors : Factors
        Type D factors found without given blocks.
    type_d, type_m, type_s, type_h2, type_h3 : Criterion or None
        Criteria for the given blocks; otherwise for the factors, or near-factors, that are the same at all samples.
    leakage : tuple of Leakage
        Leakage of the blocks in every sense, compared with random bases.
    near_factors : NearFactors or None
        Factors that nearly act on disjoint outputs, found without given blocks.
    geometry : tuple of Criterion
        Orthogonal blocks (``IMA``), and the decoder ``conformal`` or ``isometric`` up to scale.
    inactive : tuple of int
        Inactive latents, which hardly affect the outputs and were left out; all latents where none has an effect.
    higher : tuple of Criterion
        Types H₄ and beyond, if requested.
    hierarchy : tuple of Implication
    lifting : tuple of Check
        Assumptions for local-to-global lifting: never proved, at best not falsified.
    theorems : tuple of Theorem
    sparsity : tuple of SparsityCondition
        Type M's sparsity condition; only with a reference decoder.
    blocks : tuple of tuple of int
        The blocks; empty where neither blocks were given nor factors found.
    basis : array or None
        Where blocks are factors: latents are ``basis @ y`` and blocks are coordinates of y.
    contrast : float or None
        The compositional contrast, mean over samples.
    """

    schema: ClassVar[str] = "isorep.mechanisms/1"
    page_by: ClassVar[str] = "decoder.mechanism.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset(
        {"higher", *(f"type_{name}" for name in ("d", "m", "s", "h2", "h3"))}
    )
    derived: ClassVar[tuple[str, ...]] = ("verdict", "criteria")
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
    leakage: tuple[Leakage, ...] = ()
    near_factors: NearFactors | None = None
    geometry: tuple[Criterion, ...] = ()
    inactive: tuple[int, ...] = ()
    higher: tuple[Criterion, ...] = ()
    blocks_from: str = ""

    @property
    def criteria(self) -> dict[str, Criterion]:
        """Those that were evaluated, by name."""
        criteria = (self.type_d, self.type_m, self.type_s, self.type_h2, self.type_h3, *self.higher)
        return {each.name: each for each in criteria if each is not None}

    @property
    def verdict(self) -> str:
        """One sentence: the types that hold, and the theorem that applies."""
        if len(self.inactive) == self.dimension:
            return "No latent moves the outputs: there is nothing to judge."
        return verdict_on_blocks(self) if self.criteria else verdict_on_factors(self.factors, self.near_factors)

    @property
    def states(self) -> dict[str, str]:
        """The state of every criterion, those of geometry among them."""
        return {each.name: each.state for each in (*self.criteria.values(), *self.geometry)}

    def table(self) -> str:
        """The criteria as text, one row for each criterion, way and tolerance; without criteria the factors."""
        from ..page import as_text
        from .page import level_table

        return (
            as_text(level_table(self), "decided", "at sample", explained="worst is")
            if self.criteria
            else self._factors()
        )

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per criterion, way and tolerance; without criteria one per tolerance of the factors."""
        if not self.criteria:
            return [row for level in self.factors.levels for row in level.frame_rows()]
        return [
            {"criterion": name, **{key: value for key, value in vars(level).items() if key != "note"}}
            for name, criterion in self.criteria.items()
            for level in criterion.levels
        ]

    def panels(self) -> list[str]:
        """Leakage where it was measured."""
        return super().panels() if self.leakage else []

    def plot_scores(self, ax: Axes | None = None, *, width: str = "double") -> Axes:
        """The leakage of every sense of independence, mean over samples, beside that of random bases; 0 is none.

        The line reaches to the value that 95% of the samples are below. ``ax`` is where to draw, by default a new
        pyplot figure of two columns (6.9 inches) or one ("single").
        """
        from ...report.plots import Mark, dots

        if not self.leakage:
            raise InputError("there is no leakage to draw: neither blocks were given nor factors found")
        marks = [
            Mark(
                f"{symbol(each.name)} ({each.by})", each.mean, (each.mean, each.quantile), each.random, strong=each.near
            )
            for each in self.leakage
        ]
        return dots(
            ax,
            marks,
            "leakage (0 is independent)",
            width=width,
            value_name="mean over samples",
            interval_name="up to the 95th percentile",
            chance_name="random bases, mean",
        )

    def _factors(self) -> str:
        from ..page import as_text
        from .page import factor_table

        return as_text(factor_table(self), "outputs that stay", "gap by", "finest Type S split")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        unit = "margins and gaps count outputs; scores and ratios are shares, 0 is independent"
        return super().to_dict() | {"unit": unit}

    def __str__(self) -> str:
        from ..page import as_text
        from .page import leakage_table, split_table

        blocks = [self.table()]
        if self.leakage:
            leakage = as_text(leakage_table(self), "samples", explained="leakage is")
            blocks.append(f"leakage, compared with random bases\n{leakage}")
        if self.criteria:
            blocks.append(f"factors found without knowing them\n{self._factors()}")
        if self.near_factors is not None and self.near_factors.splits:
            blocks.append(f"near-factors\n{as_text(split_table(self))}")
        lines = [theorem.sentence for theorem in self.theorems]
        lines += [step.sentence for step in self.hierarchy if step.state != "agrees"]
        lines += [f"{check.name}: {check.state}. {check.sentence}" for check in self.lifting]
        return told(self.verdict, *blocks, "\n".join(map(wrapped, lines)), notes=self.caveats)


def verdict_on_factors(factors: Factors, near: NearFactors | None = None) -> str:
    """The number of factors, where no blocks were tested."""
    rest = ""
    if near is not None and near.state == "one" and near.next_split is not None:
        split = near.next_split
        sizes = _listed(split.dimensions)
        rest = f" The best split found, {sizes}, leaks {as_share(split.leak)} (random axes {as_share(split.random)})."
        if near.leakage is not None:
            leak = near.leakage
            rest += (
                f" At single samples, where all directions have equal weight, it leaks {as_share(leak.mean)} on "
                f"average, with 95% of them below {as_share(leak.quantile)}: too much for near-factors."
            )
    if near is not None and near.turning is not None and near.turning > 0.5:
        rest += f" {as_share(near.turning)} of the single samples tested have near-factors, but different ones."
    if factors.state in ("rank deficient", "undecided"):
        return f"No factors could be distinguished: the Jacobian is {factors.state} at most samples.{rest}"
    count = len(factors.dimensions)
    if factors.dimensions == (1,):
        return "There is only one active latent."
    if count == 1:
        return f"Latents act together: one irreducible Type D factor of dimension {factors.dimensions[0]}.{rest}"
    return (
        f"{count} Type D factors of dimensions {_listed(factors.dimensions)} at the reference sample, but not the same "
        f"at all samples.{rest}"
    )


def verdict_on_blocks(result: Mechanisms) -> str:
    """The types that hold, or nearly, and the theorem that applies."""
    count = len(result.blocks)
    found = "near-factors" if result.blocks_from == "near-factors" else "factors found"
    blocks = "block" if count < 2 else f"{count} blocks" if result.given else f"{count} {found}"
    holding = [each for each in result.criteria.values() if each.holds_at == result.tolerances]
    others = [each for each in result.criteria.values() if each not in holding and each.state in (HOLDS, DEPENDS)]
    verb = "No type holds" if not holding else "Type {} holds" if len(holding) == 1 else "Types {} hold"
    names = _listed([symbol(each.name) for each in holding])
    said = f"{verb.format(names)} for the {blocks}{',' if holding else ''} at every tolerance"
    if others:
        where = [f"{symbol(each.name)} ({_listed(each.holds_at) or 'none'})" for each in others]
        said += f"; at some: {_listed(where)}"
    applying = [symbol(each.name) for each in result.theorems if each.applies]
    rest = "no identifiability theorem applies"
    if applying:
        rest = f"the identifiability theorem applies locally by type {_listed(applying)}"
    elif any(each.applies is None for each in result.theorems):
        rest = "it is open whether an identifiability theorem applies"
    return f"{_nearly(result)}{said}. On these samples {rest}."


def _nearly(result: Mechanisms) -> str:
    """Criteria that nearly hold, with their leakage and that of random bases; Type D always, if it does not hold."""
    worst: dict[str, Leakage] = {}
    for leak in result.leakage:
        if leak.random is not None and result.states.get(leak.name) != HOLDS:
            worst[leak.name] = max(leak, worst.get(leak.name, leak), key=lambda each: (not each.near, each.mean))
    near = [each for each in worst.values() if each.near]
    factors = result.near_factors
    said = ""
    if result.blocks_from == "near-factors" and factors is not None and factors.leakage is not None:
        said = f"{len(factors.dimensions)} near-factors of dimensions {_listed(factors.dimensions)}"
        if factors.next_split is not None:
            own, random = as_share(factors.next_split.own), as_share(factors.next_split.own_random)
            said += f"; the next split leaks {own} of the factor that it splits (random axes {random})"
        said += ". "
    if near:
        names = {"IMA": "block orthogonality"}
        listed = [
            f"{names.get(each.name, f'Type {symbol(each.name)}')} (leakage {as_share(each.mean)}, random bases "
            f"{as_share(each.random or 0.0)})"
            for each in near
        ]
        said += f"Nearly {_listed(listed)}. "
    if "D" in worst and worst["D"] not in near:
        leak = worst["D"]
        said = f"{said}Type D leakage {as_share(leak.mean)} (random bases {as_share(leak.random or 0.0)}). "
        if factors is not None and factors.state == "found" and factors.leakage is not None and result.given:
            there = f"{len(factors.dimensions)} near-factors of dimensions {_listed(factors.dimensions)}"
            said += f"A search finds {there} (leakage {as_share(factors.leakage.mean)}). "
    return said


def _listed(values: Sequence[float | str]) -> str:
    texts = [value if isinstance(value, str) else f"{value:g}" for value in values]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
