"""Mechanisms as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...results import aligned
from .criterion import DEPENDS, HOLDS

if TYPE_CHECKING:
    from .criterion import Criterion
    from .result import FactorLevel, Mechanisms

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
